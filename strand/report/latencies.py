"""Latencies as tables and figures write them, and how deep queues were where latencies would say nothing else."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from strand.report.quantities import duration
from strand.stats import Latency, Statistics

if TYPE_CHECKING:
    from strand.replaying.run_result import RunResult

__all__ = ["LATENCY_HEADS", "QueueDepth", "latency_cells", "latency_rows", "queue_depth", "shown_latency"]

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
