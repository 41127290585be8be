"""Runs of the engine on strand.testing's clock: when each tick came, and when each visit began and ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import strand
from strand import testing
from strand.replaying.result import ReplayResult

MS = 1_000_000
#: What the engine's own steps may take between two moments that a test compares, in ns: a few thousand steps.
STEPS_NS = 50_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """A tick: its time, its symbol, and how long its handler takes. Times are in ns."""

    time: int
    symbol: str
    takes: int


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit that handled one tick, by its place among the arrivals."""

    tick: int
    symbol: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class TimedRun:
    arrivals: Sequence[Arrival]
    visits: Sequence[Visit]
    result: ReplayResult
    #: When the first tick came; times of arrivals count from it.
    start: int

    def waits(self) -> list[tuple[Visit, int]]:
        """Time for which the strand of each visit was ready before it: since its last visit, or since its tick came."""
        last: dict[str, int] = {}
        found = []
        for visit in sorted(self.visits, key=lambda visit: visit.begin):
            came = self.start + self.arrivals[visit.tick].time
            found.append((visit, visit.begin - max(came, last.get(visit.symbol, 0))))
            last[visit.symbol] = visit.end
        return found

    def check(self) -> None:
        """Each tick was handled once or counted as dropped, and those of a symbol in their order."""
        statistics = self.result.statistics
        lost = sum(statistics.dropped.values())
        assert statistics.accepted == len(self.arrivals)
        assert statistics.pending == 0
        assert statistics.handled == len(self.visits) == len(self.arrivals) - lost
        for symbol in {visit.symbol for visit in self.visits}:
            ticks = [visit.tick for visit in self.visits if visit.symbol == symbol]
            assert ticks == sorted(set(ticks))


def timed_run(arrivals: Sequence[Arrival], *, seed: int, workers: int, **options: Any) -> TimedRun:
    """Ticks that come at their times, each handled by a visit of its own that takes as long as it says."""
    symbols = sorted({arrival.symbol for arrival in arrivals} | set(_named(options)))
    visits = []
    ticks = [
        {"symbol": arrival.symbol, "time": arrival.time, "price": 1, "size": arrival.takes} for arrival in arrivals
    ]
    start = []
    with testing.Clock() as clock:

        @strand.batch_handler(state=[("n", "i8")])
        def takes(symbol: str, ticks: Any, row: Any) -> None:
            begin = clock.now_ns()
            clock.advance(int(ticks["size"][0]) / 1e9)
            visits.append(Visit(int(ticks["sequence"][0]) - 1, symbol, begin, clock.now_ns()))

        feed = testing.feed(ticks, symbols)
        start.append(clock.now_ns())
        result = testing.seeded(
            feed,
            takes,
            seed=seed,
            workers=workers,
            speed=1,
            strands="per-symbol",
            budget_ticks=1,
            idle="park",
            **options,
        )
    return TimedRun(arrivals, visits, result, start[0] - ticks[0]["time"])


def _named(options: Mapping[str, Any]) -> list[str]:
    return [name for name in options.get("priorities") or options.get("groups") or () if name != "*"]
