"""``strand bench route``: one stream, one handler, all ways, in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from strand.bench.ways import THROUGHPUT_WAYS, Job, Outcome, WayName, rounds
from strand.binding.lab import MAX_WORKERS
from strand.dispatch.routing import StrandsLike, strand_count
from strand.errors import ConfigurationError
from strand.feeds.synthetic.calibration import Skew
from strand.feeds.synthetic.market import route_stream
from strand.handlers import spin
from strand.machine import choose_cores, describe
from strand.validate import whole

__all__ = ["RouteOptions", "make_job", "parse_skew", "parse_strands", "route"]


@dataclass(frozen=True, slots=True)
class RouteOptions:
    """``work``: steps a tick (see ``strand.handlers.spin``). ``strands``: "auto", "per-symbol", or a number.

    ``cores``: the publisher's, then the workers'; by default the first ones this process may use.
    """

    ticks: int = 10_000_000
    symbols: int = 8_172
    skew: Skew = "calibrated"
    work: int = 100
    workers: int = 3
    batch: int = 8192
    strands: StrandsLike = "auto"
    rounds: int = 5
    idle: str = "spin"
    cores: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("ticks", self.ticks, 1, 2**31),
            ("symbols", self.symbols, 1, 2**24),
            ("work", self.work, 0, 2**31),
            ("workers", self.workers, 1, MAX_WORKERS),
            ("batch", self.batch, 1, 65_536),
            ("rounds", self.rounds, 1, 1000),
        ):
            whole(name, value, low, high)


def parse_skew(text: str) -> Skew:
    """The word calibrated, or a Zipf exponent. Raises ConfigurationError."""
    if text == "calibrated":
        return "calibrated"
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError("skew", f"{text!r} is neither 'calibrated' nor an exponent") from None


def parse_strands(text: str) -> StrandsLike:
    """The words auto and per-symbol, or a number. Raises ConfigurationError."""
    if text in ("auto", "per-symbol"):
        return "auto" if text == "auto" else "per-symbol"
    if not text.isdecimal() or not int(text):
        raise ConfigurationError("strands", f"{text!r} is not 'auto', 'per-symbol' or a number above 0")
    return int(text)


def make_job(options: RouteOptions) -> Job:
    """The stream, and how it is to be routed."""
    ticks = route_stream(options.ticks, options.symbols, options.skew)
    return Job(
        ticks=ticks,
        symbols=options.symbols,
        counts=np.bincount(ticks["instrument_id"], minlength=options.symbols),
        handler=spin(options.work),
        cores=choose_cores(options.workers, options.cores),
        batch_ticks=options.batch,
        strands=options.strands,
        idle=options.idle,
    )


def route(options: RouteOptions, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Runs every way ``rounds`` times in turn and returns medians, ready for JSON.

    ``progress`` is called with the runs done and those in all. Raises EngineError when a way loses, reorders or changes
    a tick.
    """
    job = make_job(options)
    return _report(options, job, rounds(job, THROUGHPUT_WAYS, options.rounds, progress=progress))


def _report(options: RouteOptions, job: Job, outcomes: dict[WayName, list[Outcome]]) -> dict[str, Any]:
    rate = {way: len(job.ticks) / median(o.seconds for o in found) / 1e6 for way, found in outcomes.items()}
    kinds = np.zeros(options.symbols, np.uint32)
    return {
        "ticks": options.ticks,
        "symbols": options.symbols,
        "skew": str(options.skew),
        "work": options.work,
        "workers": options.workers,
        "batch": options.batch,
        "strands": strand_count(options.strands, kinds, [False], options.workers),
        "hottest_share": round(int(job.counts.max()) / len(job.ticks), 4),
        "mticks_s": {way: round(rate[way], 2) for way in ("serial", "static", "static_lpt", "strand")},
        "publish_ns": round(median(o.publish_ns for o in outcomes["strand"]), 2),
        "inline_share": round(median(o.inline_share for o in outcomes["strand"]), 4),
        "strand_queued": {
            "mticks_s": round(rate["strand_queued"], 2),
            "publish_ns": round(median(o.publish_ns for o in outcomes["strand_queued"]), 2),
        },
        "static_publish_ns": round(median(o.publish_ns for o in outcomes["static"]), 2),
        "rounds": options.rounds,
        "idle": options.idle,
        "cores": {"publisher": job.cores.publisher, "workers": list(job.cores.workers)},
        "machine": describe(),
    }
