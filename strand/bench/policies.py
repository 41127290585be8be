"""``strand bench policies``: one open loop of arrivals through several scheduling policies.

A tick is due at its time, whether the workers keep up or not, and its wait counts from then until its handler is done.
So a queue that grows shows in full. The rate is a multiple of what the workers can do, which is measured first. A bound
on the ticks that are pending in all, in ms of the workers' work, decides what is dropped. It is the same for all
policies.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.bench.route import OF_IDLE, OF_WORK, OF_WORKERS, ROUNDS, USUAL_WORKERS, WORK, WORKERS, give_workers
from strand.bench.streams import numbered, recorded, squeezed
from strand.bench.ways import MAX_PUBLISHERS, SETTLE_S, Job, expected_rows, publish_paced
from strand.binding import lab
from strand.binding.engine_words import IDLE, clock_resolution_ns, histogram_floors_ns
from strand.binding.native import NativeFunction
from strand.dicts import FrozenDict
from strand.dispatch.configuration import Limits
from strand.dispatch.dispatcher import Dispatcher
from strand.errors import ConfigurationError, EngineError
from strand.feeds.synthetic import route_stream
from strand.fixed import dataclass
from strand.handlers import spin
from strand.machine import Cores, choose_cores, pinned
from strand.options import ByName, Choice, Number, Whole, named_fields, option, read_options
from strand.policies.policy import LEVELS, Aging, Fair, Fifo, Levels, Policy, level_name
from strand.stats import Latency

#: Approximate time for measuring the workers' capacity.
CAPACITY_S: Final = 0.5
CAPACITY_ROUNDS: Final = 3
#: Bound on the memory of arrivals.
MAX_BYTES: Final = 4 << 30

Ticks = npt.NDArray[Any]


@named_fields
@dataclass(frozen=True, slots=True)
class PoliciesOptions:
    """Options of the comparison: ``policies`` by the name they are shown with, and ``source``, a recorded file, whose
    times are squeezed to the rate. Without one, made-up ticks come at random times (a Poisson process).

    Raises:
        ConfigurationError: If a field cannot work; it names the field.
    """

    policies: Mapping[str, Policy] = field(default_factory=lambda: {"fifo": Fifo(), "levels": Levels()})
    seconds: float = option(5.0, Number(0, 3600, "s", above=True), "How long ticks arrive, in seconds.", flag=None)
    load: float = option(
        2.0, Number(0, 100, above=True), "Arrival rate, as a multiple of what the workers can handle.", flag=None
    )
    shares: Mapping[str, float] = option(
        FrozenDict({"immediate": 0.1}),
        ByName(Number(0, 1), level_name, "LEVEL=SHARE"),
        "Share of the symbols that have LEVEL; the others are low.",
        flag="--share",
    )
    bound_ms: float = option(
        100.0,
        Number(0, 1e6, "ms"),
        "Bound on all pending ticks, as ms of work of all workers. 0 is no bound.",
        flag=None,
    )
    workers: int = option(None, WORKERS, OF_WORKERS, unset=USUAL_WORKERS, flag=None)
    rounds: int = option(1, ROUNDS, "Number of runs per policy, in turn; the median run is shown.", flag=None)
    symbols: int = option(1_000, Whole(1, 2**24), "Number of symbols when there is no PATH.", flag=None)
    work: int = option(5_000, WORK, OF_WORK, flag=None)
    batch: int = option(64, Whole(1, 65_536), "Number of ticks that the publisher groups at a time.")
    idle: str = option("backoff", Choice(tuple(IDLE)), OF_IDLE, flag=None)
    seed: int = option(1, Whole(0, 2**63), "Seed of the arrival times and of the levels.", flag=None)
    source: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if not self.policies:
            raise ConfigurationError("policies", "give at least one")
        read_options(self).end()
        give_workers(self)
        if sum(self.shares.values()) > 1 + 1e-9:
            raise ConfigurationError("shares", f"they add up to {sum(self.shares.values()):g}, more than 1")


@dataclass(frozen=True, slots=True)
class LevelOutcome:
    """``arrived`` = ``handled`` + ``dropped``, in ticks. Waits in ns, from when a tick was due to when its handler was
    done, of those that were handled; None where none was. ``share``: of all ticks handled; None where none was."""

    arrived: int
    handled: int
    dropped: int
    p50_ns: float | None
    p95_ns: float | None
    p99_ns: float | None
    share: float | None


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """Outcome of a policy: the round whose throughput is the median, the lower one of an even number.

    ``promoted`` and ``starved`` are empty where the policy counts neither."""

    name: str
    mticks_s: float
    levels: Mapping[str, LevelOutcome]
    promoted: Mapping[str, int]
    starved: Mapping[str, int]


@dataclass(frozen=True)
class _Arrivals:
    job: Job
    level_of_symbol: npt.NDArray[np.uint8]
    capacity: float  # ticks a second
    bound: int | None  # ticks


def run_policies(
    options: PoliciesOptions, progress: Callable[[int, int, str], None] | None = None
) -> tuple[dict[str, Any], list[PolicyOutcome]]:
    """Runs the arrivals through each policy ``rounds`` times in turn; returns what was run, and the outcomes.

    ``progress`` is called with the runs done, those in all, and what is to come. Raises EngineError when a policy
    loses, reorders or changes a tick, ConfigurationError for more arrivals than fit in memory.
    """
    total = options.rounds * len(options.policies)
    if progress is not None:
        progress(0, total, "what the workers can do")
    arrivals = _arrivals(options)
    found: dict[str, list[PolicyOutcome]] = {name: [] for name in options.policies}
    for done in range(total):
        name = list(options.policies)[done % len(options.policies)]
        if progress is not None:
            progress(done, total, name)
        found[name].append(_run(name, options.policies[name], arrivals))
    about = {
        "seconds": options.seconds,
        "load": options.load,
        "workers": options.workers,
        "symbols": arrivals.job.symbols,
        "work": options.work,
        "rounds": options.rounds,
        "arrivals": len(arrivals.job.ticks),
        "capacity_ticks_s": round(arrivals.capacity, 1),
        "ticks_s": round(options.load * arrivals.capacity, 1),
        "bound_ms": options.bound_ms or None,
        "bound_ticks": arrivals.bound,
        "source": None if options.source is None else os.fspath(options.source),
    }
    return about, [_median(outcomes) for outcomes in found.values()]


# ---- arrivals


def _job(options: PoliciesOptions, ticks: Ticks, symbols: int, cores: Cores) -> Job:
    counts = np.bincount(ticks["instrument_id"], minlength=symbols)
    return Job(ticks, symbols, counts, spin(options.work), cores, options.batch, "per-symbol", options.idle, paced=True)


def _arrivals(options: PoliciesOptions) -> _Arrivals:
    cores = choose_cores(options.workers)
    capacity = _capacity(options, cores)
    rate = options.load * capacity
    n = max(1, round(rate * options.seconds))
    if n > MAX_BYTES // route_stream(1, 1).itemsize:
        raise ConfigurationError(
            "seconds",
            f"{n:,} ticks arrive in {options.seconds:g} s, too many for memory; raise work, or lower load or seconds",
        )
    draw = np.random.default_rng(options.seed)
    if options.source is None:
        ticks, symbols = route_stream(n, options.symbols), options.symbols
        ticks["ts_recv"] = np.cumsum(draw.exponential(1e9 / rate, n)).astype(np.uint64)
    else:
        ticks = numbered(recorded(options.source, n))
        squeezed(ticks, ticks["ts_recv"].copy(), rate)
        symbols = int(ticks["instrument_id"].max()) + 1
    levels = np.full(symbols, LEVELS.index("low"), np.uint8)
    order, at = draw.permutation(symbols), 0
    for level, share in options.shares.items():
        to = at + round(share * symbols)
        levels[order[at:to]] = LEVELS.index(level)
        at = to
    bound = None if not options.bound_ms else max(1, round(capacity * options.bound_ms / 1000))
    return _Arrivals(_job(options, ticks, symbols, cores), levels, capacity, bound)


def _capacity(options: PoliciesOptions, cores: Cores) -> float:
    """Ticks a second that the workers handle when all are there at once: the median of some runs, first in, first
    out."""
    n, seconds = 2_000, 0.0
    while True:
        ticks = route_stream(n, options.symbols)
        ticks["ts_recv"] = 0
        job = _job(options, ticks, options.symbols, cores)
        seconds = median(_flat_out(job) for _ in range(CAPACITY_ROUNDS))
        if seconds > CAPACITY_S / CAPACITY_ROUNDS / 4 or n >= 2_000_000:
            return n / seconds
        n = min(2_000_000, max(2 * n, round(n * CAPACITY_S / CAPACITY_ROUNDS / max(seconds, 1e-4))))


def _flat_out(job: Job) -> float:
    with _dispatcher(job, job.function, {}) as dispatcher:
        time.sleep(SETTLE_S)
        with pinned(job.cores.publisher):
            start = time.perf_counter_ns()
            dispatcher.publish(job.ticks)
            dispatcher.drain()
            return (time.perf_counter_ns() - start) * 1e-9


def _dispatcher(job: Job, function: NativeFunction, order: Mapping[str, Any]) -> Dispatcher:
    # A handler that may publish is never run by a publisher, so the workers do all the work under every policy.
    handler = dataclasses.replace(job.handler, function=function._replace(never_publishes=False))
    return Dispatcher(
        job.symbols,
        handler,
        pool=job.pool,
        strands=job.strands,
        batch_ticks=job.batch_ticks,
        publisher_drains=False,
        **order,
    )


# ---- a run


def _order(policy: Policy, arrivals: _Arrivals) -> dict[str, Any]:
    """The dispatcher's options under a policy: each symbol's level, as the policy has it, and the bound. Ticks that do
    not fit are dropped as they come, and under Levels the lowest level makes room."""
    order: dict[str, Any] = {"policy": policy}
    levels = dict(enumerate(LEVELS[level] for level in arrivals.level_of_symbol.tolist()))
    if isinstance(policy, Levels):
        order["priorities"] = levels
    elif isinstance(policy, Aging):
        order["priorities"] = {symbol: _aged(policy, level) for symbol, level in levels.items()}
    elif isinstance(policy, Fair):
        order["groups"] = levels
    if arrivals.bound is not None:
        on_full = "shed" if isinstance(policy, Levels) else "drop_newest"
        order["limits"] = Limits(total_capacity_ticks=arrivals.bound, on_full=on_full)
    return order


def _aged(policy: Aging, level: str) -> Any:
    """A level's class, or without classes a base: so much ahead as a wait of a second makes up for a level."""
    if policy.classes:
        return {"immediate": "urgent", "high": "high"}.get(level, "normal")
    return round((len(LEVELS) - 1 - LEVELS.index(level)) * (policy.coefficient or 1.0))


def _run(name: str, policy: Policy, arrivals: _Arrivals) -> PolicyOutcome:
    job, levels = arrivals.job, arrivals.level_of_symbol
    probe = lab.Probe(job.function, job.workers + MAX_PUBLISHERS, levels)
    with _dispatcher(job, probe.function, _order(policy, arrivals)) as dispatcher:
        time.sleep(SETTLE_S)
        with pinned(job.cores.publisher):
            seconds, _ = publish_paced(name, dispatcher, job, probe)
    s, rows = dispatcher.statistics(), dispatcher.rows.array
    dropped = job.counts - rows["ticks"]
    _check(name, job, rows, dropped, sum(s.dropped.values()))
    handled = int(rows["ticks"].sum())
    return PolicyOutcome(
        name,
        round(handled / seconds / 1e6, 4),
        {
            LEVELS[level]: _level(job, rows, levels == level, probe.counts(level), handled)
            for level in np.unique(levels).tolist()
        },
        dict(s.promoted),
        dict(s.starved),
    )


def _level(
    job: Job, rows: npt.NDArray[Any], its: npt.NDArray[np.bool_], counts: npt.NDArray[np.uint64], handled_in_all: int
) -> LevelOutcome:
    arrived, handled = int(job.counts[its].sum()), int(rows["ticks"][its].sum())
    waits = Latency.from_histogram(counts, histogram_floors_ns(), clock_resolution_ns())
    if waits.count != handled:
        raise EngineError(f"{handled:,} ticks of a level were handled, but the waits of {waits.count:,} were recorded")
    p50, p95, p99 = (waits.percentile(p) for p in (50, 95, 99))
    share = handled / handled_in_all if handled_in_all else None
    return LevelOutcome(arrived, handled, arrived - handled, p50, p95, p99, share)


def _check(name: str, job: Job, rows: npt.NDArray[Any], dropped: npt.NDArray[Any], counted: int) -> None:
    """Every tick was handled once and in order, or counted as dropped. Raises EngineError."""
    if (dropped < 0).any():
        raise EngineError(f"{name}: symbol {int(np.argmin(dropped))} handled more ticks than it has")
    if int(dropped.sum()) != counted:
        raise EngineError(
            f"{name}: {int(dropped.sum()):,} ticks were not handled, but {counted:,} were counted as dropped"
        )
    # A tick behind a gap counts once as broken; without gaps none does.
    if (rows["broken"] > dropped).any():
        raise EngineError(
            f"{name}: ticks of symbol {int(np.argmax(rows['broken'] - dropped))} were handled out of order"
        )
    complete = dropped == 0
    ticks = job.ticks[complete[job.ticks["instrument_id"]]]
    counts = np.bincount(ticks["instrument_id"], minlength=job.symbols)
    expected = expected_rows(dataclasses.replace(job, ticks=ticks, counts=counts))
    if not np.array_equal(rows["value"][complete], expected["value"][complete]):
        raise EngineError(f"{name}: rows differ from those of a plain loop")


def _median(outcomes: Sequence[PolicyOutcome]) -> PolicyOutcome:
    """See PolicyOutcome."""
    return sorted(outcomes, key=lambda outcome: outcome.mticks_s)[(len(outcomes) - 1) // 2]
