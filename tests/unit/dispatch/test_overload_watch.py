"""The watch over ticks that come faster than they are handled, and a guard that holds back: made up, and in runs."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strand
from examples import examples
from strand import Dispatcher, Fifo, Guard, Levels, Limits, testing
from strand.dispatch import watching
from strand.dispatch.guard import Hold, Reading, decide, marks_of
from strand.dispatch.watching import LASTING_LOOKS, LOOK_NS, OverloadWatch
from strand.errors import ConfigurationError
from strand.feeds.base import as_base
from strand.feeds.merge.feeds import merge_feeds
from strand.feeds.merge.selected import CarriedFeed
from strand.replaying.pacing import Pacer
from strand.stats import OverloadStatistics
from strand.symbols import SymbolTable
from strand.testing import ListFeed
from strand.ticks import TICK

pytestmark = pytest.mark.python


SECOND = 10**9


class Counted:
    """An engine's counts, and the clock beside them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = self.accepted = self.pending = self.looks = 0
        monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic_ns=lambda: self.now_ns))
        self.watch = OverloadWatch(self, is_on=True)

    def totals(self) -> dict[str, int]:
        self.looks += 1
        return {"accepted": self.accepted, "pending": self.pending}

    def second(self, came: int, handled: int, later_ns: int = SECOND) -> None:
        self.now_ns += later_ns
        self.accepted += came
        self.pending += came - handled
        self.watch.look(stacklevel=1)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = Counted(monkeypatch)
    found.second(0, 0)
    return found


def test_ten_looks_at_which_more_waited_are_an_overload_with_its_figures(counted: Counted) -> None:
    for _ in range(LASTING_LOOKS - 1):
        counted.second(500, 400)
    assert counted.watch.found is None
    # 1,000 are 2.5 s of work at 400 per second.
    with pytest.warns(
        RuntimeWarning, match=r"for 10\.0 s 500 ticks per second came and 400 were handled, until 1,000 "
    ) as seen:
        counted.second(500, 400)
    assert "waited: 2.5 s of work; give total_capacity_ticks" in str(seen[0].message)
    found = counted.watch.found
    assert found == OverloadStatistics(seconds=10.0, accepted=5000, handled=4000, pending=1000)
    assert found.wait_s == 2.5


def test_it_is_told_once_and_the_longest_is_kept(counted: Counted) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(25):
            counted.second(300, 100)
        counted.second(0, counted.pending)
        for _ in range(12):
            counted.second(900, 100)
    assert len(seen) == 1
    assert counted.watch.found == OverloadStatistics(25.0, 25 * 300, 25 * 100, 25 * 200)


@pytest.mark.parametrize(
    "seconds",
    [
        [(500, 400)] * 9 + [(400, 400)] + [(500, 400)] * 9,  # as many came as were handled
        [(5000, 1000), (1000, 5000)] * 20,  # bursts
        [(1010, 1000)] * 50,  # less than a second's work waits
    ],
)
def test_what_does_not_last_is_none(counted: Counted, seconds: list[tuple[int, int]]) -> None:
    with warnings.catch_warnings(action="error"):
        for came, handled in seconds:
            counted.second(came, handled)
    assert counted.watch.found is None


def test_looks_are_a_second_apart_however_often_somebody_publishes(counted: Counted) -> None:
    before = counted.looks
    for _ in range(500):
        counted.second(500, 400, later_ns=LOOK_NS // 100)
    assert counted.looks == before + 5


def ticks(n: int) -> Any:
    made = np.zeros(n, TICK)
    made["ts_recv"] = made["ts_event"] = np.arange(1, n + 1) * 1_000_000
    return made


class Live(ListFeed):
    is_live = True


class Opens(ListFeed):
    """Opens the handlers' gate once its last tick was taken."""

    def batches(self) -> Iterator[Any]:
        yield from super().batches()
        Waits.gate.set()


class Waits:
    """A handler that waits until its gate is open."""

    gate = threading.Event()

    def on_tick(self, tick: Any) -> None:
        self.gate.wait(60)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """That of the handler. Looks come with each publish."""
    monkeypatch.setattr(watching, "LOOK_NS", 0)
    monkeypatch.setattr(Waits, "gate", threading.Event())
    return Waits.gate


@pytest.mark.parametrize(
    ("bound", "n", "comes"),
    [(None, 30, True), (None, LASTING_LOOKS - 1, False), (1000, 30, False)],
    ids=["lasts", "ends before", "is bounded"],
)
def test_a_dispatcher_warns_where_nothing_bounds_what_waits(
    gate: threading.Event, bound: int | None, n: int, comes: bool
) -> None:
    with (
        warnings.catch_warnings(record=True) as seen,
        Dispatcher(1, Waits, workers=1, cores=None, limits=Limits(total_capacity_ticks=bound)) as d,
    ):
        warnings.simplefilter("always")
        for tick in ticks(n):
            d.publish(tick)
        found = d.statistics().overload
        gate.set()
    told = [warning for warning in seen if "lasting overload" in str(warning.message)]
    assert len(told) == comes
    if comes:
        assert told[0].filename == __file__
        assert found is not None
        # The last look is before the last publish.
        assert (found.accepted, found.handled, found.pending) == (29, 0, 29)
        assert d.statistics().as_dict()["overload"]["pending"] == 29
    else:
        assert found is None


@pytest.mark.parametrize(
    ("how", "comes"),
    [
        ({"speed": 1000.0}, True),
        ({"pacer": Pacer(1000)}, True),
        ({}, False),
        ({"speed": 1000.0, "limits": Limits(total_capacity_ticks=1000)}, False),
        ("live", True),
    ],
    ids=["paced", "by a pacer", "as fast as it goes", "bounded", "live"],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_replay_whose_pace_is_not_its_own_has_it_among_its_warnings(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch, how: Any, comes: bool
) -> None:
    look, looks = OverloadWatch.look, itertools.count(1)

    def look_and_open(watch: OverloadWatch, *, stacklevel: int) -> None:
        look(watch, stacklevel=stacklevel + 1)
        if next(looks) == 30:
            gate.set()

    monkeypatch.setattr(OverloadWatch, "look", look_and_open)
    source = (ListFeed if comes else Opens)(ticks(30), ["X"], batches=1)
    if how == "live":
        source, how = Live(ticks(30), ["X"], batches=1), {}
    result = strand.replay(source, Waits, workers=1, cores=None, **how)
    found = [(w.kind, w.count) for w in result.warnings if w.kind == "lasting overload"]
    assert found == ([("lasting overload", 29)] if comes else [])
    assert result.ticks == 30


def test_a_live_feed_is_one_within_others() -> None:
    live, file, other = Live(ticks(3), ["X"]), testing.feed(ticks(3), ["X"]), testing.feed(ticks(3), ["X"])
    assert as_base(live).is_live
    assert as_base(CarriedFeed(live)).is_live
    assert as_base(merge_feeds([file, live])).is_live
    assert not as_base(CarriedFeed(file)).is_live
    assert not as_base(merge_feeds([file, other])).is_live


def test_a_run_is_paced_where_ticks_come_when_they_happen_or_are_due() -> None:
    assert not strand.replay(testing.feed(ticks(3), ["X"]), "count", workers=1).statistics.paced
    assert strand.replay(testing.feed(ticks(3), ["X"]), "count", workers=1, speed=1e6).statistics.paced
    plain = strand.replay(testing.feed(ticks(3), ["X"]), "count", workers=0, speed=1e6)
    assert list(plain.statistics.as_dict()["latency"]) == ["handler"]  # nothing waits, and nobody measured it
    assert strand.replay(Live(ticks(3), ["X"]), "count", workers=1).statistics.paced
    with Dispatcher(["X"], "count", workers=1, cores=None) as dispatcher:
        assert dispatcher.statistics().paced


# ---- What a guard decides, from readings that are made up; and what it, and marks, are refused for


STEADY = Guard(release=0.8, max_hold="100ns", every="1ns")
NAMES = ["A", "B", "C"]


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, 0.0, 0.79, 0.8, 0.9, 1.0, 1.01, 3.0]),
            st.booleans(),
            st.integers(1, 60),
        ),
        max_size=60,
    )
)
def test_any_readings(looks: list[tuple[float | None, bool, int]]) -> None:
    now, hold, held, begun, expired = 0, Hold(), 0, 0, 0
    for strain, waits, later in looks:
        now += later
        before, hold = hold, decide(STEADY, hold, strain, waits=waits, now_ns=now)
        held += later if before.since_ns is not None else 0
        begun += before.since_ns is None and hold.since_ns is not None
        too_long = before.since_ns is not None and now - before.since_ns >= STEADY.max_hold_ns
        if too_long:
            assert hold.since_ns is None, "max_hold is kept"
        elif strain is not None and 0.8 <= strain <= 1:
            assert hold.since_ns == before.since_ns, "nothing begins or ends between the two thresholds"
        elif before.since_ns is not None:
            assert (hold.since_ns is None) == (strain is None or strain < 0.8)
        else:
            assert (hold.since_ns is None) == (strain is None or strain <= 1 or (before.in_round and waits))
        expired += too_long and strain is not None and strain >= 0.8
        assert (hold.begun, hold.expired) == (begun, expired), "each decision is counted once"
        assert hold.held_until(now) == held


def test_strains_are_over_the_thresholds() -> None:
    guard = Guard(cpu=0.5, memory=None, io_pressure=0.2, io_queue=50)
    assert guard.strains(Reading(0.75, 0.9, 0.1)) == {"cpu": 1.5, "memory": None, "io": 0.5}
    assert guard.strains(Reading(io_queue=100)) == {"cpu": None, "memory": None, "io": 2.0}
    assert Guard(io_pressure=None).strains(Reading(io_queue=100))["io"] is None


def test_marks_are_sets_of_bits() -> None:
    table = SymbolTable(NAMES)
    marks = {"*": "io", "B": ["io", "frees_memory"], "C": set[str]()}
    assert marks_of(Guard(), Levels(), table, marks).tolist() == [1, 3, 0]
    assert marks_of(None, Fifo(), table, {}).tolist() == [0, 0, 0]


def test_a_seeded_run_has_no_guard() -> None:
    with pytest.raises(ConfigurationError, match="guard"):
        testing.seeded(testing.feed(np.zeros(1, TICK), NAMES), "count", seed=1, policy=Levels(), guard=Guard())
