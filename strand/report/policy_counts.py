"""What a scheduling policy counted, as tables for all who show it."""

from __future__ import annotations

from strand.stats import Statistics

__all__ = ["policy_tables"]


def policy_tables(s: Statistics) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Heads and rows of each table; none where the policy counts nothing. All columns but the first are numbers."""
    tables = []
    if s.promoted:
        rows = [(level, f"{n:,}", f"{s.starved[level]:,}") for level, n in s.promoted.items()]
        tables.append((("level", "rose out of it", "starved in it"), rows[1:]))  # out of the highest nothing rises
    return tables
