"""What a guard decides, from readings that are made up; and what it, and marks, are refused for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from strand import Fifo, Guard, Levels, testing
from strand.dispatch.guard import Hold, Reading, decide, marks_of
from strand.errors import ConfigurationError
from strand.symbols import SymbolTable
from strand.ticks import TICK

pytestmark = pytest.mark.python

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
