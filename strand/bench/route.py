"""``strand bench route``: one stream, one handler, all ways, in turn."""

from __future__ import annotations

import os
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import numpy as np

from strand.bench.ways import THROUGHPUT_WAYS, Job, Outcome, WayName, rounds
from strand.binding.engine_words import IDLE
from strand.binding.lab import MAX_WORKERS
from strand.dispatch.routing import StrandsLike, strand_count
from strand.errors import ConfigurationError
from strand.feeds.synthetic import Skew, SkewKind, route_stream
from strand.fixed import dataclass
from strand.handlers import spin
from strand.machine import choose_cores, describe
from strand.options import Choice, Text, Whole, named_fields, option, read_options
from strand.validate import is_whole


@dataclass(frozen=True, slots=True)
class StrandsKind(Text):
    """The words auto and per-symbol, or a number; text of it will do."""

    def read(self, field: str, value: Any) -> StrandsLike:
        found = int(value) if isinstance(value, str) and value.isdecimal() else value
        if found not in ("auto", "per-symbol") and (not is_whole(found) or found < 1):
            raise ConfigurationError(field, f"{value!r} is not 'auto', 'per-symbol' or a number above 0")
        return found  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class CoresKind(Text):
    """Numbers of cores; text with commas will do."""

    def read(self, field: str, value: Any) -> tuple[int, ...]:
        parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else [*map(str, value)]
        if not all(part.isdecimal() for part in parts):
            raise ConfigurationError(field, f"{value!r} is not a list of core numbers such as 0,1,2,3")
        return tuple(map(int, parts))


#: Options that several benchmarks have.
WORK: Final = Whole(0, 2**31)
ROUNDS: Final = Whole(1, 1000)
WORKERS: Final = Whole(1, MAX_WORKERS)
OF_WORKERS: Final = "Number of worker threads. One more thread publishes."
OF_WORK: Final = "Steps of the handler per tick."
OF_IDLE: Final = "What a worker does when it has no work."
USUAL_WORKERS: Final = "one per core except the publisher's, up to 3"


def give_workers(options: Any) -> None:
    """Sets the number of workers of options where none was given."""
    if options.workers is None:
        object.__setattr__(options, "workers", max(1, min(3, len(os.sched_getaffinity(0)) - 1)))


@named_fields
@dataclass(frozen=True, slots=True)
class RouteOptions:
    """Options of the comparison of routings.

    Raises:
        ConfigurationError: If a field cannot work; it names the field.
    """

    ticks: int = option(10_000_000, Whole(1, 2**31), "Number of ticks in the stream.", flag=None)
    symbols: int = option(8_172, Whole(1, 2**24), "Number of symbols in the stream.", flag=None)
    skew: Skew = option("calibrated", SkewKind(), "'calibrated', or a Zipf exponent.", flag=None)
    work: int = option(100, WORK, OF_WORK, flag=None)
    workers: int = option(None, WORKERS, OF_WORKERS, unset=USUAL_WORKERS, flag=None)
    batch: int = option(8192, Whole(1, 65_536), "Number of ticks that the publisher groups at a time.", flag=None)
    strands: StrandsLike = option("auto", StrandsKind(), "Number of strands, 'auto' or 'per-symbol'.", flag=None)
    rounds: int = option(5, ROUNDS, "Number of runs per routing; medians are shown.", flag=None)
    idle: str = option("spin", Choice(tuple(IDLE)), OF_IDLE, flag=None)
    cores: tuple[int, ...] | None = option(
        None,
        CoresKind(),
        "Core of the publisher, then those of the workers, such as 0,1,2,3.",
        unset="the first ones",
        flag=None,
    )

    def __post_init__(self) -> None:
        read_options(self).end()
        give_workers(self)


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
