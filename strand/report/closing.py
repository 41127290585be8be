"""Closing lines of a run: one line of figures, and below it the warnings that a user has to know.

Plain text, so that a command whose results go to files needs no library for tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from strand.brief import several
from strand.replaying.run_result import RunResult
from strand.report.latencies import shown_latency
from strand.report.quantities import duration, rate
from strand.report.to_json import UNDATED
from strand.stats import Statistics

__all__ = ["closing_lines", "dropped_ticks", "figures_line", "left_ticks"]


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
    symbols = np.count_nonzero(result.ticks_by_symbol)
    parts = [
        f"{result.ticks:,} ticks of {symbols:,} symbol{'s' if symbols != 1 else ''} in {duration(result.wall_s * 1e9)}",
        " ".join(rate(result.ticks_per_s)),
        f"{result.workers} worker{'s' if result.workers != 1 else ''}",
        *([f"end to end p50 {p50} and p99 {p99}"] if timely else []),
        *(f"{n:,} {what}" for what, n in counts.items() if n),
        f"warnings: {len(result.warnings) or 'none'}",
    ]
    return ", ".join(parts)


def closing_lines(result: RunResult, rows_file: Path | None) -> Iterator[tuple[str, str]]:
    """Words to stress, if any, and the text behind them, line by line. ``rows_file``: where the rows were written."""
    yield "", figures_line(result)
    if result.info.undated:
        yield UNDATED, ""
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
        yield "", f"fingerprint: {result.fingerprint}, and at {len(result.intervals):,} earlier places"
    if result.days:
        yield "", f"rows of {len(result.days):,} days; the rows of the last day are shown"
    if rows_file is not None:
        yield "", f"rows written to {rows_file}"
    for name, (path, records) in result.written.items():
        yield "", f"{name}: {records:,} records written to {path}"
    for name, array in result.outputs.items():
        yield "", f"{name}: {len(array):,} records, not written (--out {name}=FILE)"
