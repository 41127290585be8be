"""What a guard decides, from readings that are made up; and what it, and marks, are refused for."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strand
from strand import Dispatcher, Fifo, Guard, Levels, testing
from strand.dispatch.guard import Hold, Reading, decide, marks_of
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.symbols import SymbolTable
from strand.ticks import TICK

pytestmark = pytest.mark.python

GUARD = Guard(release=0.8, max_hold="100ns", every="1ns")
NAMES = ["A", "B", "C"]


def after(*looks: tuple[float | None, bool, int], hold: Hold | None = None) -> list[Hold]:
    """What is decided at each look: a strain, whether strands still wait, and the time."""
    holds = [Hold() if hold is None else hold]
    for strain, waits, now in looks:
        holds.append(decide(GUARD, holds[-1], strain, waits=waits, now_ns=now))
    return holds[1:]


def test_a_hold_begins_above_the_threshold_and_ends_below_its_release() -> None:
    holds = after((1.0, False, 1), (1.01, False, 2), (0.8, False, 3), (0.79, False, 7), (1.0, False, 8))
    assert [hold.since_ns for hold in holds] == [None, 2, 2, None, None]
    assert holds[-1] == Hold(begun=1, held_ns=5)


def test_what_is_measured_no_longer_is_let_go() -> None:
    assert after((2.0, False, 1), (None, False, 3))[-1] == Hold(begun=1, held_ns=2)


def test_a_hold_that_is_over_by_max_hold_begins_again_after_a_round() -> None:
    holds = after((2.0, False, 0), (2.0, False, 99), (2.0, True, 100), (2.0, True, 500), (2.0, False, 501))
    assert [hold.since_ns for hold in holds] == [0, 0, None, None, 501]
    assert holds[-2] == Hold(in_round=True, begun=1, expired=1, held_ns=100)
    assert holds[-1] == Hold(since_ns=501, begun=2, expired=1, held_ns=100)


def test_a_round_that_is_over_while_nothing_is_short_is_over() -> None:
    holds = after((2.0, False, 0), (2.0, False, 100), (0.1, False, 101), (2.0, True, 102))
    assert holds[-1].since_ns == 102


@settings(max_examples=400, deadline=None)
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
        before, hold = hold, decide(GUARD, hold, strain, waits=waits, now_ns=now)
        held += later if before.since_ns is not None else 0
        begun += before.since_ns is None and hold.since_ns is not None
        too_long = before.since_ns is not None and now - before.since_ns >= GUARD.max_hold_ns
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


def test_spans_are_taken_in_all_their_forms() -> None:
    guard = Guard(max_hold=dt.timedelta(seconds=2), every="10ms")
    assert (guard.max_hold_ns, guard.every_ns) == (2_000_000_000, 10_000_000)
    assert guard == Guard(max_hold="2s", every=0.01)
    assert Guard().max_hold_ns == 300_000_000_000
    assert hash(Guard()) == hash(Guard())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cpu": 0}, "cpu: 0 is not a number above 0 and up to 1; None: does not watch it"),
        ({"cpu": 80}, "cpu: 80 is not a number"),
        ({"memory": -0.1}, "memory: -0.1 is not a number"),
        ({"memory": "75 %"}, "memory: '75 %' is not a number"),
        ({"io_pressure": float("nan")}, "io_pressure: nan is not a number"),
        ({"cpu": True}, "cpu: True is not a number"),
        ({"release": 1.01}, "release: 1.01 is not a number above 0 and up to 1$"),
        ({"release": None}, "release: None is not a number"),
        ({"io_queue": 0}, "io_queue: 0 is not a whole number"),
        ({"max_hold": "soon"}, "max_hold: 'soon' is not a span"),
        ({"every": 0}, "every: 0 is not a span"),
        ({"every": "6min"}, "every: 360,000,000,000 ns is longer than max_hold"),
        ({"cpu": None, "memory": None, "io_pressure": None}, "guard: it watches nothing"),
    ],
)
def test_a_guard_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Guard(**options)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"guard": Guard(), "policy": Fifo()}, ConfigurationError, r"guard: Fifo has no levels .*policy=Levels\(\)"),
        ({"guard": 0.8}, ConfigurationError, "guard: 0.8 is not a strand.Guard"),
        ({"marks": {"A": "io"}}, ConfigurationError, r"marks: they are for a guard; give guard=strand.Guard\(\)"),
        ({"guard": Guard(), "marks": ["A"]}, ConfigurationError, "marks: list is not a dict of marks"),
        (
            {"guard": Guard(), "marks": {"A": "frees_memry"}},
            ConfigurationError,
            "not a mark: did you mean 'frees_memory'",
        ),
        ({"guard": Guard(), "marks": {"*": {"io", "disk"}}}, ConfigurationError, r"marks\.\*: 'disk' is not a mark"),
        (
            {"guard": Guard(), "marks": {"A": 1}},
            ConfigurationError,
            "marks.A: 1 is not a mark: give io or frees_memory",
        ),
        ({"guard": Guard(), "marks": {"Z": "io"}}, UnknownSymbolError, "Z"),
    ],
)
def test_what_cannot_be_is_refused_by_dispatcher_and_plain_loop(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    given = {"policy": Levels()} | options
    with pytest.raises(error, match=says):
        Dispatcher(NAMES, "count", workers=1, cores=None, **given)
    with pytest.raises(error, match=says):
        strand.replay(testing.feed(np.zeros(1, TICK), NAMES), "count", workers=0, **given)


def test_marks_are_sets_of_bits() -> None:
    table = SymbolTable(NAMES)
    marks = {"*": "io", "B": ["io", "frees_memory"], "C": set[str]()}
    assert marks_of(Guard(), Levels(), table, marks).tolist() == [1, 3, 0]
    assert marks_of(None, Fifo(), table, {}).tolist() == [0, 0, 0]


def test_a_seeded_run_has_no_guard() -> None:
    with pytest.raises(ConfigurationError, match="guard"):
        testing.seeded(testing.feed(np.zeros(1, TICK), NAMES), "count", seed=1, policy=Levels(), guard=Guard())
