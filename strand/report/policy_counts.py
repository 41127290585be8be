"""What a scheduling policy and a guard counted, as tables for all who show it."""

from __future__ import annotations

from strand.stats import Statistics

__all__ = ["policy_tables"]


def policy_tables(s: Statistics) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Heads and rows of each table; none where nothing was counted. All columns but the first are numbers."""
    tables: list[tuple[tuple[str, ...], list[tuple[str, ...]]]] = []
    if s.promoted:
        rows: list[tuple[str, ...]] = [(level, f"{n:,}", f"{s.starved[level]:,}") for level, n in s.promoted.items()]
        tables.append((("level", "rose out of it", "starved in it"), rows[1:]))  # out of the highest nothing rises
    if s.guard:
        held: list[tuple[str, ...]] = [
            (f"{resource} ({found.source})", f"{found.begun:,}", f"{found.expired:,}", f"{found.held_ns / 1e9:,.1f} s")
            for resource, found in s.guard.items()
        ]
        tables.append((("short of", "held back", "until max_hold", "in all"), held))
    if s.picked:
        tables.append((("class", "taken"), [(name, f"{n:,}") for name, n in s.picked.items()]))
        tables.append((("taken for", "strands"), [(rule, f"{n:,}") for rule, n in s.picked_by_rule.items()]))
    return tables
