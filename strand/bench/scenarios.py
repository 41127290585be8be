"""``strand bench scenarios``: the cases in which it matters how ticks are routed, with the winner of each.

Two kinds. Flat out: the stream goes as fast as it can, and throughput decides. Paced: every tick is due at a time, the
rate is a share of what static routing can carry at most and the same for all ways, and the 99th percentile of the time
from when a tick was due to when its handler was done decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.bench import streams
from strand.bench.route import OF_WORK, OF_WORKERS, ROUNDS, USUAL_WORKERS, WORK, WORKERS, StrandsKind, give_workers
from strand.bench.ways import Job, Outcome, WayName, rounds
from strand.binding.lab import Neighbour
from strand.dispatch.routing import StrandsLike
from strand.errors import ConfigurationError
from strand.feeds.synthetic import route_stream
from strand.fixed import dataclass
from strand.handlers import NativeHandler, spin
from strand.machine import Cores, choose_cores
from strand.options import Text, Whole, named_fields, option, read_options
from strand.stats import Latency
from strand.validate import one_of

FLAT_OUT: Final[tuple[WayName, ...]] = ("serial", "static", "static_lpt", "strand")
PACED: Final[tuple[WayName, ...]] = ("static", "static_lpt", "strand")
#: Rounds that settle what static routing can carry.
CAPACITY_ROUNDS: Final = 3
#: Longest run of a busy neighbour that nothing stops, in seconds.
NEIGHBOUR_S: Final = 60.0

Ticks = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """``make`` gives the stream of so many ticks, over symbols 0 to ``symbols`` - 1.

    ``load``: of static routing's capacity, when paced. ``bursts``: the stream's own times set the pace.
    """

    name: str
    title: str
    symbols: int
    make: Callable[[int, int], Ticks]
    dear_every: int = 0
    dear_times: int = 1
    neighbour: bool = False
    load: float | None = None
    bursts: bool = False


def _market(count: int, symbols: int) -> Ticks:
    return route_stream(count, symbols)


def _basket(count: int, symbols: int) -> Ticks:
    return route_stream(count, symbols, 1.2)


def _hot(count: int, symbols: int) -> Ticks:
    return streams.with_hot_symbol(count, symbols, 0.4)


def _bursts(count: int, symbols: int) -> Ticks:
    return streams.market_day(count, symbols - 1)  # symbol 0 has no ticks


SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario("market", "full market, 8,172 symbols", 8_172, _market),
    Scenario("basket", "basket of 50 symbols, Zipf 1.2", 50, _basket),
    Scenario("hot", "one symbol has 40 % of the ticks", 8_172, _hot),
    Scenario("dear", "one symbol in ten 20 times dearer", 8_172, _market, dear_every=10, dear_times=20),
    Scenario("neighbour", "a busy neighbour on one worker's core", 8_172, _market, neighbour=True),
    Scenario("bursts", "a day's bursts, 30 % mean load", 8_173, _bursts, load=0.3, bursts=True),
    Scenario("paced-50", "evenly paced, 50 % load", 8_172, _market, load=0.5),
    Scenario("paced-80", "evenly paced, 80 % load", 8_172, _market, load=0.8),
    Scenario("symbols-1k", "1,000 symbols", 1_000, _market),
    Scenario("symbols-100k", "100,000 symbols", 100_000, _market),
    Scenario("symbols-1m", "1,000,000 symbols", 1_000_000, _market),
)


@named_fields
@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """Options of the scenarios.

    Raises:
        ConfigurationError: If a field cannot work; it names the field.
    """

    ticks: int = option(2_000_000, Whole(1000, 2**31), "Number of ticks per run.", flag=None)
    workers: int = option(None, WORKERS, OF_WORKERS, unset=USUAL_WORKERS, flag=None)
    rounds: int = option(5, ROUNDS, "Number of runs per routing.", flag=None)
    work: int = option(100, WORK, OF_WORK, flag=None)
    strands: StrandsLike = option("auto", StrandsKind(), "Number of strands, 'auto' or 'per-symbol'.", flag=None)
    only: tuple[str, ...] = option((), Text(), "Names of the scenarios to run, all by default.", flag=None)

    def __post_init__(self) -> None:
        read_options(self).end()
        give_workers(self)
        for name in self.only:
            one_of("only", name, [s.name for s in SCENARIOS])

    def chosen(self) -> list[Scenario]:
        return [s for s in SCENARIOS if not self.only or s.name in self.only]


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles in ns of the time from a tick's due time to its handler's end: medians of the rounds, ``maximum`` of
    all."""

    p50: float
    p99: float
    p999: float
    maximum: float

    @classmethod
    def of(cls, rounds: Sequence[Latency]) -> Percentiles:
        p50, p99, p999 = (median(r.percentiles[p] for r in rounds) for p in (50.0, 99.0, 99.9))
        return cls(p50, p99, p999, max(r.maximum_ns for r in rounds))


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """``mticks_s`` by way: medians. ``latency_ns`` by way and ``ticks_per_s``, the rate asked for: when paced."""

    name: str
    title: str
    mticks_s: Mapping[str, float]
    inline_share: float
    load: float | None = None
    ticks_per_s: float | None = None
    latency_ns: Mapping[str, Percentiles] | None = None

    @property
    def winner(self) -> str:
        """The way with the highest throughput; when paced, the one with the lowest 99th percentile."""
        if self.latency_ns is None:
            return max(self.mticks_s, key=self.mticks_s.__getitem__)
        latency = self.latency_ns
        return min(latency, key=lambda way: latency[way].p99)

    @property
    def gain(self) -> float:
        """Strand against the better static way: above 1, strand is faster, or its 99th percentile lower."""
        if self.latency_ns is None:
            return self.mticks_s["strand"] / max(self.mticks_s["static"], self.mticks_s["static_lpt"])
        p99 = {way: latency.p99 for way, latency in self.latency_ns.items()}
        return min(p99["static"], p99["static_lpt"]) / p99["strand"] if p99["strand"] else float("inf")

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return dataclasses.asdict(self) | {"winner": self.winner, "gain": self.gain}


def run_scenarios(
    options: ScenarioOptions, progress: Callable[[int, int, str], None] | None = None
) -> list[ScenarioResult]:
    """Runs the chosen scenarios one after the other.

    ``progress`` is called with the number done, that of all, and the one to come. Raises ConfigurationError for more
    workers than cores where one is to have a busy neighbour, EngineError when a way loses, reorders or changes a tick.
    """
    chosen = options.chosen()
    if any(scenario.neighbour for scenario in chosen):
        _core_of_neighbour(choose_cores(options.workers))
    results = []
    for done, scenario in enumerate(chosen):
        if progress is not None:
            progress(done, len(chosen), scenario.title)
        results.append(_run_paced(scenario, options) if scenario.load else _run_flat_out(scenario, options))
    return results


def _handler(scenario: Scenario, options: ScenarioOptions) -> NativeHandler:
    return spin(options.work, dear_every=scenario.dear_every, dear_times=scenario.dear_times)


def _job(scenario: Scenario, options: ScenarioOptions, ticks: Ticks) -> Job:
    return Job(
        ticks=ticks,
        symbols=scenario.symbols,
        counts=np.bincount(ticks["instrument_id"], minlength=scenario.symbols),
        handler=_handler(scenario, options),
        cores=choose_cores(options.workers),
        strands=options.strands,
        counts_known=False,
    )


def _neighbour(scenario: Scenario, job: Job) -> AbstractContextManager[object]:
    return Neighbour(_core_of_neighbour(job.cores), NEIGHBOUR_S) if scenario.neighbour else nullcontext()


def _core_of_neighbour(cores: Cores) -> int:
    core = cores.workers[0]
    if core is None:
        raise ConfigurationError(
            "workers",
            f"{len(cores.workers)} and the publisher have no core each, so none can get a busy neighbour: "
            "give fewer workers",
        )
    return core


def _rates(found: Mapping[WayName, Sequence[Outcome]], ticks: int) -> dict[str, float]:
    return {way: round(ticks / median(o.seconds for o in outcomes) / 1e6, 3) for way, outcomes in found.items()}


def _run_flat_out(scenario: Scenario, options: ScenarioOptions) -> ScenarioResult:
    job = _job(scenario, options, scenario.make(options.ticks, scenario.symbols))
    found = rounds(job, FLAT_OUT, options.rounds, around=lambda: _neighbour(scenario, job))
    handled_inline = median(o.inline_share for o in found["strand"])
    return ScenarioResult(scenario.name, scenario.title, _rates(found, options.ticks), round(handled_inline, 4))


def _run_paced(scenario: Scenario, options: ScenarioOptions) -> ScenarioResult:
    assert scenario.load is not None
    ticks = scenario.make(options.ticks, scenario.symbols)
    times_ns = ticks["ts_recv"].copy()
    streams.all_at_once(ticks)
    job = dataclasses.replace(_job(scenario, options, ticks), paced=True)
    capacity = rounds(job, ("static",), CAPACITY_ROUNDS)
    ticks_per_s = scenario.load * options.ticks / median(o.seconds for o in capacity["static"])
    if scenario.bursts:
        streams.squeezed(ticks, times_ns, ticks_per_s)
    else:
        streams.paced(ticks, ticks_per_s)
    found = rounds(job, PACED, options.rounds)
    return ScenarioResult(
        scenario.name,
        scenario.title,
        _rates(found, options.ticks),
        round(median(o.inline_share for o in found["strand"]), 4),
        scenario.load,
        round(ticks_per_s, 1),
        {way: Percentiles.of([o.latency() for o in outcomes]) for way, outcomes in found.items()},
    )
