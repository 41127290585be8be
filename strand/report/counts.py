"""Latencies, queue depths, and counters of a policy and a guard, as tables and figures write them."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from strand.report.quantities import duration
from strand.stats import GroupStatistics, Latency, Statistics

if TYPE_CHECKING:
    from strand.replaying.run_result import RunResult

__all__ = [
    "LATENCY_HEADS",
    "QueueDepth",
    "latency_cells",
    "latency_rows",
    "policy_tables",
    "queue_depth",
    "shown_latency",
]

#: Of the columns of ``latency_cells``.
LATENCY_HEADS: Final = ("p50", "p90", "p99", "p99.9", "max")


def shown_latency(latency: Latency, ns: float) -> str:
    """A percentile or the maximum of a latency: never below what its clock resolves, and a dash where there is none."""
    if not latency.count:
        return "-"
    return duration(ns) if ns > latency.resolution_ns else f"under {duration(latency.resolution_ns)}"


def latency_cells(latency: Latency) -> list[str]:
    """Percentiles and the maximum, as ``LATENCY_HEADS`` has them."""
    return [shown_latency(latency, ns) for ns in (*latency.percentiles.values(), latency.maximum_ns)]


def latency_rows(s: Statistics) -> list[tuple[str, ...]]:
    """A row for each latency that says something, its name first."""
    return [(name.replace("_", " "), *latency_cells(latency)) for name, latency in s.latencies.items()]


class QueueDepth(NamedTuple):
    """Number of ticks that were published and not yet handled, at ``moments`` of a run: the median, p99 and maximum.
    ``p50`` and ``p99`` are depths of sampled moments: at that share of the moments the depth was no greater."""

    moments: int
    p50: int
    p99: int
    maximum: int

    def __str__(self) -> str:
        return (
            f"queue depth: p50 {self.p50:,} ticks, p99 {self.p99:,}, max {self.maximum:,} "
            f"(published and not yet handled, at {self.moments:,} moment{'s' if self.moments > 1 else ''})"
        )


def queue_depth(result: RunResult) -> QueueDepth | None:
    """Queue depth of a replay as fast as it goes, whose ticks wait only because others came before them. None for a run
    that was paced or live, where waits say more, and for a run that was not sampled while ticks came."""
    timeline = result.timeline
    if result.statistics.paced or timeline is None:
        return None
    # Before the first tick, and at the end of the run, nothing waits.
    depths = np.sort(timeline.pending[:-1][timeline.accepted[:-1] > 0])
    n = len(depths)
    if not n:
        return None
    p50, p99 = (int(depths[ceil(n * share) - 1]) for share in (0.5, 0.99))
    return QueueDepth(n, p50, p99, int(depths[-1]))


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
