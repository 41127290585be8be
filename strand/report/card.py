"""Table that a notebook shows for a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strand.output.notebook import facts_html
from strand.report.closing import dropped_ticks, left_ticks
from strand.report.latencies import shown_latency
from strand.report.quantities import duration, rate

if TYPE_CHECKING:
    from strand.replaying.run_result import RunResult

__all__ = ["card"]

BUSIEST: Final = 5


def card(result: RunResult) -> str:
    """A few lines of HTML, without style of its own."""
    s = result.statistics
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in dropped_ticks(s).items())
    ranked = np.argsort(-result.ticks_by_symbol[: len(result.symbols)], kind="stable")[:BUSIEST].tolist()
    busiest = ", ".join(
        f"{result.symbols[i]} {result.ticks_by_symbol[i]:,}" for i in ranked if result.ticks_by_symbol[i]
    )
    name, latency = list(s.latencies.items())[-1]  # end to end, where that says something
    p50, p99 = (shown_latency(latency, latency.percentiles[p]) for p in (50.0, 99.0))
    facts = {
        "warnings": "; ".join(f"{w.kind} {w.count:,} ({w.example})" for w in result.warnings) or "none",
        "file": f"{result.info.path} ({result.info.format})",
        "ticks": f"{result.ticks:,} of {np.count_nonzero(result.ticks_by_symbol):,} symbols",
        "time": f"{duration(result.wall_s * 1e9)}, limited by {result.limited_by}",
        "throughput": " ".join(rate(result.ticks_per_s)),
        name.replace("_", " "): f"p50 {p50}, p99 {p99}",
        "workers": f"{result.workers}, imbalance {s.imbalance:.2f}",
        "dropped": dropped or "nothing",
        "not handled": left_ticks(s),
        "skipped": ", ".join(f"{n:,} {reason}" for reason, n in result.skipped.counts.items()) or "nothing",
        "quarantined": "; ".join(result.failures),
        "busiest": busiest,
    }
    return facts_html(facts)
