"""The end of a run as text: one line of figures with the warnings that a user has to know, and JSON for programs.

Plain text, so that a command whose results go to files needs no library for tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from strand.brief import several
from strand.feeds.skipped import Skipped
from strand.replaying.run_result import RunResult
from strand.report.counts import queue_depth, shown_latency
from strand.report.quantities import duration, rate
from strand.stats import Statistics

__all__ = ["UNDATED", "as_dict", "closing_lines", "dropped_ticks", "figures_line", "left_ticks", "skipped_as_dict"]

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
