"""JSON of a replay that the command prints for programs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from strand.feeds.skipped import Skipped
from strand.replaying.run_result import RunResult
from strand.report.latencies import queue_depth

__all__ = ["UNDATED", "as_dict", "skipped_as_dict"]

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
