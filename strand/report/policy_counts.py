"""Counters of a scheduling policy and a guard, as tables for every page and command that shows them."""

from __future__ import annotations

from typing import Final

from strand.report.quantities import duration
from strand.stats import GroupStatistics, Statistics

__all__ = ["policy_tables"]

#: The groups shown by name are those with the most on-CPU time; the others have a row together.
MAX_GROUPS: Final = 20


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
    if s.fair is not None:
        groups = sorted(s.fair.groups.items(), key=lambda found: -found[1].on_cpu_ns)
        others = [group for _, group in groups[MAX_GROUPS:]]
        if len(others) > 1:
            groups[MAX_GROUPS:] = [(f"{len(others):,} others", _together(others))]
        rows = [
            (name, duration(g.on_cpu_ns), f"{g.share:.1%}", f"{g.slice_ends:,}", f"{g.long_stretches:,}",
             "" if g.longest_stretch_ns is None else duration(g.longest_stretch_ns))
            for name, g in groups
        ]  # fmt: skip
        tables.append((("group", "on CPU", "share", "slices used up", "longer stretches", "longest"), rows))
        if s.fair.cap_holds is not None:
            tables.append((("held by the cap", "times"), [("all groups", f"{s.fair.cap_holds:,}")]))
        if s.fair.longest:
            rows = [
                (", ".join(found.symbols[:3]) + (", ..." if len(found.symbols) > 3 else ""), f"{found.visits:,}",
                 duration(found.longest_ns))
                for found in s.fair.longest
            ]  # fmt: skip
            tables.append((("visits longer than a slice", "visits", "longest"), rows))
    if s.active is not None:
        a = s.active
        tables.append((("active workers", "now", "at least", "more", "fewer"), [
            (f"of {a.most}", f"{a.now}", f"{a.least}", f"{a.more:,}", f"{a.fewer:,}")
        ]))  # fmt: skip
    return tables


def _together(groups: list[GroupStatistics]) -> GroupStatistics:
    longest = max(group.longest_stretch_ns or 0 for group in groups)
    return GroupStatistics(
        on_cpu_ns=sum(group.on_cpu_ns for group in groups),
        share=sum(group.share for group in groups),
        slice_ends=sum(group.slice_ends for group in groups),
        long_stretches=sum(group.long_stretches for group in groups),
        longest_stretch_ns=longest or None,
    )
