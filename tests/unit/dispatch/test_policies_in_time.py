"""Promises of policies about time, held by the whole engine on strand.testing's clock, whatever arrives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strand
from examples import examples
from strand import testing
from strand.dispatch.configuration import grouped
from strand.policies.policy import LEVELS
from strand.replaying.result import ReplayResult

pytestmark = pytest.mark.python


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


#: Symbols by level; two of each.
SYMBOLS = {f"{level}{i}": level for level in LEVELS for i in range(2)}
#: The time of a visit after which a strand on another list comes first (``budget_us``).
SLACK_NS = 100_000

seeds = st.integers(0, 2**32)
#: A tick: the time since the tick before, the place of its symbol, and how long its handler takes.
ticks = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, MS, 5 * MS]), st.integers(0, 99), st.integers(1, 4 * MS)),
    min_size=1,
    max_size=120,
)


def arrivals(drawn: list[tuple[int, int, int]], symbols: list[str]) -> list[Arrival]:
    """The ticks that were drawn."""
    time, found = 0, []
    for later, place, takes in drawn:
        time += later
        found.append(Arrival(time, symbols[place % len(symbols)], takes))
    return found


def longest(run: TimedRun) -> int:
    return max(visit.end - visit.begin for visit in run.visits)


# ---- the bound of a wait


def waits_of_levels(
    policy: strand.Levels, drawn: list[tuple[int, int, int]], *, seed: int, workers: int, hungry: int
) -> list[tuple[str, int, int]]:
    """Of each visit the level of its strand, how long that waited, and what the bound of levels.md allows beside the
    rising. ``hungry``: further ticks of immediate symbols, there from the start."""
    immediate = [symbol for symbol, level in SYMBOLS.items() if level == "immediate"]
    feed = [Arrival(0, immediate[i % 2], 2 * MS) for i in range(hungry)] + arrivals(drawn, list(SYMBOLS))
    run = timed_run(feed, seed=seed, workers=workers, policy=policy, priorities=SYMBOLS)
    run.check()
    visit = longest(run) + STEPS_NS
    turn = (1 + math.ceil((len(SYMBOLS) - 1) / workers)) * visit + SLACK_NS + visit
    late = {level: LEVELS.index(level) * visit for level in LEVELS}
    return [(SYMBOLS[v.symbol], wait, late[SYMBOLS[v.symbol]] + turn) for v, wait in run.waits()]


@settings(max_examples=examples(80), deadline=None)
@given(
    drawn=ticks,
    seed=seeds,
    workers=st.integers(1, 3),
    hungry=st.integers(0, 60),
    spans=st.lists(st.integers(1, 30), min_size=4, max_size=4),
    since=st.sampled_from(["entered", "created"]),
)
def test_levels_keep_the_bound_of_a_wait_whatever_arrives_at_every_level(
    *, drawn: list[tuple[int, int, int]], seed: int, workers: int, hungry: int, spans: list[int], since: Any
) -> None:
    timeouts = [0, *(sum(spans[: i + 1]) * MS for i in range(4))]
    policy = strand.Levels({level: f"{ns}ns" for level, ns in zip(LEVELS[1:], timeouts[1:], strict=True)}, since=since)
    for level, wait, allowed in waits_of_levels(policy, drawn, seed=seed, workers=workers, hungry=hungry):
        at = LEVELS.index(level)
        assert wait <= (timeouts[at] if since == "created" else sum(timeouts[1 : at + 1])) + allowed


def test_without_rising_the_bound_of_a_wait_is_broken() -> None:
    drawn = [(0, list(SYMBOLS).index("low0"), MS)]
    waits = waits_of_levels(strand.Levels({"high": "1h"}), drawn, seed=1, workers=1, hungry=60)
    assert any(level == "low" and wait > allowed for level, wait, allowed in waits)


@settings(max_examples=examples(60), deadline=None)
@given(
    drawn=ticks,
    seed=seeds,
    workers=st.integers(1, 3),
    max_wait=st.integers(1, 20),
    bases=st.lists(st.integers(-500_000_000, 500_000_000), min_size=8, max_size=8),
    low_every=st.sampled_from([None, 2, "load"]),
)
def test_aging_keeps_the_bound_of_a_wait_whatever_arrives(
    *, drawn: list[tuple[int, int, int]], seed: int, workers: int, max_wait: int, bases: list[int], low_every: Any
) -> None:
    classes = {"urgent": 4.0, "high": 2.0, "normal": 1.0}
    priorities = {f"S{i}": (list(classes)[i % 3], base) for i, base in enumerate(bases)}
    policy = strand.Aging(classes=classes, max_wait=f"{max_wait}ms", low_every=low_every)
    hungry = [Arrival(0, f"S{i % 2}", 2 * MS) for i in range(40)]
    run = timed_run(
        hungry + arrivals(drawn, list(priorities)), seed=seed, workers=workers, policy=policy, priorities=priorities
    )
    run.check()
    visit = longest(run) + STEPS_NS
    bound = max(max_wait * MS, SLACK_NS) + (1 + math.ceil((len(bases) - 1) / workers)) * visit
    assert max(wait for _, wait in run.waits()) <= bound


# ---- promotion


@settings(max_examples=examples(150), deadline=None)
@given(
    level=st.sampled_from(LEVELS[1:]),
    timeout=st.integers(20_000, 5 * MS),
    off=st.integers(-12_000, 12_000),
    seed=seeds,
    workers=st.integers(1, 3),
)
def test_a_strand_rises_exactly_when_its_wait_is_the_timeout(
    level: str, timeout: int, off: int, seed: int, workers: int
) -> None:
    # All workers are in visits. The first visit ends about a timeout after the strand was listed.
    at = 2_000
    visits = [Arrival(0, f"X{i}", at + timeout + off + i * 20 * MS) for i in range(workers)]
    low = Arrival(at, "L", 1)
    run = timed_run(
        [*visits, low],
        seed=seed,
        workers=workers,
        policy=strand.Levels(dict.fromkeys(LEVELS[1:], f"{timeout}ns")),
        priorities={"L": level, "*": "immediate"},
    )
    run.check()
    wait = next(wait for visit, wait in run.waits() if visit.symbol == "L")
    look = min(other.end for other in run.visits if other.symbol != "L") - run.start - at
    rose = run.result.statistics.promoted
    assert sum(rose.values()) == rose[level] <= 1, "a late look lets it rise by one level"
    # The strand was listed, and looked at, between moments that are known to some steps.
    if wait < timeout:
        assert rose[level] == 0
    if look - STEPS_NS // 10 >= timeout:
        assert rose[level] == 1


# ---- shares


@settings(max_examples=examples(60), deadline=None)
@given(
    weights=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    takes=st.lists(st.integers(1, 30 * MS), min_size=1, max_size=12),
    workers=st.integers(1, 3),
    slice_ms=st.integers(1, 30),
    seed=seeds,
)
def test_backlogged_groups_differ_by_a_slice_and_the_stretches_under_way(
    weights: list[int], takes: list[int], workers: int, slice_ms: int, seed: int
) -> None:
    n = len(weights)
    # As many strands as workers, so that a group is ready whenever a worker looks.
    groups = {f"S{i}": f"G{i % n}" for i in range(n * workers)}
    feed = [Arrival(0, symbol, takes[i % len(takes)]) for i, symbol in enumerate(list(groups) * 40)]
    run = timed_run(
        feed,
        seed=seed,
        workers=workers,
        policy=strand.Fair(slice_ms=slice_ms, weights={f"G{i}": weight for i, weight in enumerate(weights)}),
        groups=groups,
    )
    run.check()
    last = min(max(visit.begin for visit in run.visits if visit.symbol == symbol) for symbol in groups)
    clocks = [0.0] * n
    for visit in sorted(run.visits, key=lambda visit: visit.end):
        if visit.begin >= last:
            break
        group = int(groups[visit.symbol].removeprefix("G"))
        clocks[group] += (visit.end - visit.begin) / weights[group]
        ahead = clocks[group] - min(clocks)
        assert ahead <= slice_ms * MS + workers * max(takes) / weights[group] + STEPS_NS


@settings(max_examples=examples(60), deadline=None)
@given(
    share=st.sampled_from([0.1, 0.5, 0.8, 1.0]),
    burst_ms=st.sampled_from([20, 100, 400]),
    takes=st.lists(st.integers(1, 10 * MS), min_size=1, max_size=12),
    workers=st.integers(1, 4),
    seed=seeds,
)
def test_the_cap_is_kept_over_any_window_and_used(
    share: float, burst_ms: int, takes: list[int], workers: int, seed: int
) -> None:
    # Each strand has some of each: one that had all that is long would keep one worker busy, and the others idle.
    taken = [takes[(i + i // 12) % len(takes)] for i in range(240)]
    feed = [Arrival(0, f"S{i % 12}", took) for i, took in enumerate(taken)]
    run = timed_run(
        feed, seed=seed, workers=workers, policy=strand.Fair(cpu_share=share, burst_ms=burst_ms), groups={"*": "one"}
    )
    run.check()
    rate = share * workers
    changes = sorted([(v.begin, 1) for v in run.visits] + [(v.end, -1) for v in run.visits])
    # What ran until a moment, less what was refilled: its rises are what a window may take beyond the refill.
    excess = lowest = 0.0
    running, before = 0, run.start
    for now, change in changes:
        excess += (running - rate) * (now - before)
        assert excess - lowest <= burst_ms * MS * rate + workers * (max(takes) + STEPS_NS)
        lowest = min(lowest, excess)
        running, before = running + change, now
    ran, lasted = sum(taken), before - run.start
    idle = 2 * workers * (max(takes) + STEPS_NS)  # at the end there is not a strand for each worker
    assert ran >= rate * lasted - burst_ms * MS * rate - 20 * MS - idle, "what it allows is used"


# ---- conservation

POLICIES = {
    "fifo": {"policy": strand.Fifo()},
    "levels": {"policy": strand.Levels({"low": "3ms"}), "priorities": SYMBOLS},
    "aging": {"policy": strand.Aging(1000.0, max_wait="5ms"), "priorities": {"low0": -3, "high1": 7}},
    "fair": {"policy": strand.Fair(slice_ms=1, cpu_share=0.5), "groups": {"low0": "a", "*": "rest"}},
}  # fmt: skip
BOUNDS: dict[str, dict[str, Any]] = {
    "block": {"capacity_ticks": 2},
    "newest": {"capacity_ticks": 2, "on_full": "drop_newest"},
    "oldest": {"capacity_ticks": 2, "on_full": "drop_oldest"},
    "in all": {"total_capacity_ticks": 7, "on_full": "drop_newest"},
}
SHED: dict[str, Any] = {"total_capacity_ticks": 7, "level_capacity_ticks": {"low": 3}, "on_full": "shed"}
CASES = {f"{policy} {bound}": POLICIES[policy] | BOUNDS[bound] for policy in POLICIES for bound in BOUNDS}
CASES["levels shed"] = POLICIES["levels"] | SHED


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=examples(25), deadline=None)
@given(drawn=ticks, seed=seeds, workers=st.integers(1, 4))
def test_each_tick_is_handled_once_in_order_or_counted_as_dropped(
    *, case: str, drawn: list[tuple[int, int, int]], seed: int, workers: int
) -> None:
    run = timed_run(arrivals(drawn, list(SYMBOLS)), seed=seed, **grouped(workers=workers, **CASES[case]))
    run.check()
    if case.endswith("block"):
        assert sum(run.result.statistics.dropped.values()) == 0


# ---- many ready strands


def ns_per_pick(n: int, **options: Any) -> float:
    """The time of a pick and its visit, by the steps of the run, with n strands ready at first."""
    ended = []
    with testing.Clock() as clock:

        @strand.batch_handler(state=[])
        def first(symbol: str, ticks: Any, row: Any) -> None:
            clock.advance(100)  # in which all others become ready
            ended.append(clock.now_ns())

        others = [f"S{i}" for i in range(n)]
        ticks = np.zeros(n + 1, strand.TICK)
        ticks["instrument_id"] = range(n + 1)
        run = testing.seeded(
            testing.feed(ticks, ["first", *others]),
            handlers={"first": first, "*": "count"},
            seed=1,
            workers=1,
            strands="per-symbol",
            publisher_drains=False,
            **options,
        )
        assert run.statistics.handled == n + 1
        return (clock.now_ns() - ended[0]) / n


@pytest.mark.parametrize(
    "options",
    [
        {"policy": strand.Levels({"low": "1ms"}), "priorities": {"first": "immediate", "*": "low"}},
        {"policy": strand.Aging(1.0, max_wait="5ms"), "priorities": {"first": 100}},
        {"policy": strand.Fair(slice_ms=1)},
    ],
    ids=["levels", "aging", "fair"],
)
def test_a_pick_among_fifty_times_as_many_ready_strands_takes_less_than_twice_the_steps(
    options: dict[str, Any],
) -> None:
    assert ns_per_pick(10_000, **options) < 2 * ns_per_pick(200, **options)
