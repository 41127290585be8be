"""The end of a run as text: one line of figures with the warnings that a user has to know, and JSON for programs.

Latencies, queue depths, and counters of a policy and a guard stand here as tables, figures and pages write them.
Plain text, so that a command whose results go to files needs no library for tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from strand.brief import several
from strand.feeds.base import Skipped
from strand.report.quantities import duration, rate
from strand.stats import GroupStatistics, Latency, Statistics

if TYPE_CHECKING:
    from strand.replaying.run_result import RunResult

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
            f"(published and not yet handled, at {several(self.moments, 'moment')})"
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


#: Said of what comes of a feed that is ``FeedInfo.undated``.
UNDATED: Final = "the date is unknown, so times count from 1970-01-01; give --date"


def as_dict(result: RunResult) -> dict[str, Any]:
    """The closing report as plain values."""
    return {
        "warnings": [warning.as_dict() for warning in result.warnings],
        "path": result.info.path,
        "format": result.info.format,
        "undated": result.info.undated,
        "ticks": result.ticks,
        "wall_s": result.wall_s,
        "ticks_per_s": result.ticks_per_s,
        "limited_by": result.limited_by,
        "setup_s": result.setup_s,
        "feed_s": result.feed_s,
        "input_wait_s": result.input_wait_s,
        "workers": result.workers,
        "strands": result.n_strands,
        "symbols": int(np.count_nonzero(result.ticks_by_symbol)),
        "busiest_basket": None if (busiest := result.busiest_basket) is None else busiest._asdict(),
        "busy_share": result.busy_share,
        "failures": list(result.failures),
        "outputs": {name: {"records": len(array), "path": None} for name, array in result.outputs.items()}
        | {name: {"records": records, "path": str(path)} for name, (path, records) in result.written.items()},
        "statistics": result.statistics.as_dict(),
        "queue_depth": None if (depth := queue_depth(result)) is None else depth._asdict(),
        "feed": dict(result.feed_statistics),
        "skipped": skipped_as_dict(result.skipped),
        "pacing": None if result.pacing is None else result.pacing.as_dict(),
        "fingerprint": result.fingerprint,
        "intervals": [{"ticks": at.ticks, "fingerprint": at.fingerprint, "input": at.input} for at in result.intervals],
        "days": [
            {"start_ns": day.start_ns, "end_ns": day.end_ns, "ticks": day.ticks, "symbols": len(day.symbols)}
            | {"fingerprint": day.fingerprint}
            for day in result.days
        ],
    }


def skipped_as_dict(skipped: Skipped) -> dict[str, Any]:
    """Records that a feed skipped: counts by reason, and samples."""
    return {"counts": dict(skipped.counts), "samples": [sample._asdict() for sample in skipped.samples]}


def dropped_ticks(s: Statistics) -> dict[str, int]:
    """The ticks that were dropped, by reason. Those that a stop left are no loss: ``left_ticks`` tells them."""
    return {reason: n for reason, n in s.dropped.items() if n and reason != "abandoned"}


def left_ticks(s: Statistics) -> str:
    """The ticks that a stop left, in words; no text where it left none."""
    n = s.dropped.get("abandoned", 0)
    return (
        f"{several(n, 'tick')} {'was' if n == 1 else 'were'} read, and still waited when the run stopped" if n else ""
    )


def figures_line(result: RunResult) -> str:
    """Ticks, time, rate and workers, and the latency of ticks that came at a pace. Then the numbers of ticks skipped,
    dropped, left, quarantined or warned of."""
    counts = {
        "skipped": result.skipped.total,
        "dropped": sum(dropped_ticks(result.statistics).values()),
        "not handled": result.statistics.dropped.get("abandoned", 0),
        "quarantined": len(result.failures),
    }
    s = result.statistics
    timely = s.paced and s.end_to_end.count > 0
    p50, p99 = (shown_latency(s.end_to_end, s.end_to_end.percentiles[p]) for p in (50.0, 99.0))
    symbols = int(np.count_nonzero(result.ticks_by_symbol))
    parts = [
        f"{several(result.ticks, 'tick')} of {several(symbols, 'symbol')} in {duration(result.wall_s * 1e9)}",
        " ".join(rate(result.ticks_per_s)),
        several(result.workers, "worker"),
        *([f"end to end p50 {p50} and p99 {p99}"] if timely else []),
        *(f"{n:,} {what}" for what, n in counts.items() if n),
        f"warnings: {len(result.warnings) or 'none'}",
    ]
    return ", ".join(parts)


def closing_lines(result: RunResult, rows_file: Path | None) -> Iterator[tuple[str, str]]:
    """Words to stress, if any, and the text behind them, line by line. ``rows_file``: where the rows were written."""
    yield "", figures_line(result)
    if (pacing := result.pacing) is not None:
        late = pacing.lateness
        yield (
            "",
            (
                f"pace: speed {pacing.speed:g}; late by p50 {shown_latency(late, late.percentiles[50.0])}, "
                f"p99 {shown_latency(late, late.percentiles[99.0])}, max {shown_latency(late, late.maximum_ns)}"
            ),
        )
    for reason, count in result.skipped.counts.items():
        yield "skipped:", f" {count:,} {reason}"
    for reason, count in dropped_ticks(result.statistics).items():
        yield "dropped:", f" {count:,} {reason}"
    if left := left_ticks(result.statistics):
        yield "not handled:", f" {left}"
    for failure in result.failures:
        yield "quarantined:", f" {failure}"
    if result.intervals:
        yield "", f"fingerprint: {result.fingerprint}, and at {several(len(result.intervals), 'earlier place')}"
    if result.days:
        yield "", f"rows of {several(len(result.days), 'day')}; the rows of the last day are shown"
    if rows_file is not None:
        yield "", f"rows written to {rows_file}"
    for name, (path, records) in result.written.items():
        yield "", f"{name}: {several(records, 'record')} written to {path}"
    for name, array in result.outputs.items():
        yield "", f"{name}: {several(len(array), 'record')}, not written (--out {name}=FILE)"
