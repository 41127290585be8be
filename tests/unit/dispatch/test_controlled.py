"""The Dispatcher's methods about single strands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from engine_support import counting, ticks_for

from strand import Dispatcher, Fair, Levels
from strand.binding.engine_words import COUNTERS
from strand.errors import ConfigurationError, UnknownSymbolError

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    "ask",
    [
        lambda d: d.pause("C"),
        lambda d: d.resume("C"),
        lambda d: d.release("C"),
        lambda d: d.strand_of("C"),
        lambda d: d.inspect("C"),
        lambda d: d.prioritise("C", "high"),
        lambda d: d.call("C", lambda view: view.index),
        lambda d: d.submit_call("C", lambda view: view.index),
    ],
    ids=["pause", "resume", "release", "strand_of", "inspect", "prioritise", "call", "submit_call"],
)
def test_methods_about_a_strand_refuse_a_symbol_that_the_dispatcher_does_not_have(
    ask: Callable[[Dispatcher], Any],
) -> None:
    with Dispatcher(["A", "B"], counting, workers=1, cores=None, policy=Levels()) as d:
        with pytest.raises(UnknownSymbolError, match="C"):
            ask(d)
        d.publish(ticks_for([0, 1]))
        assert d.drain()


def test_regrouping_takes_a_symbol_and_a_group_of_the_policy() -> None:
    with Dispatcher(["A", "B"], counting, workers=1, cores=None, policy=Fair(), groups={"A": "x"}) as d:
        d.regroup("B", "x")
        with pytest.raises(UnknownSymbolError, match="C"):
            d.regroup("C", "x")
        with pytest.raises(ConfigurationError, match="'y' is not a group"):
            d.regroup("A", "y")


def test_times_of_handlers_are_known_of_symbols_with_a_strand_of_their_own() -> None:
    with Dispatcher(
        ["A", "B"], counting, workers=1, cores=None, strands="per-symbol", publisher_drains=False
    ) as without:
        without.publish(ticks_for([0] * 5))
        assert without.drain()
    assert [column.tolist() for column in without.handler_times()] == [[0, 0], [0, 0]]
    d = Dispatcher(["A", "B"], counting, workers=1, cores=None, strands="per-symbol", publisher_drains=False)
    d.time_handlers()
    with d:
        d.publish(ticks_for([0] * 5))
    ns, ticks = d.handler_times()
    assert ns.dtype == ticks.dtype == "u8"
    assert ns[0] > 0
    assert (int(ns[1]), ticks.tolist()) == (0, [5, 0])


def test_a_reader_of_counters_has_a_row_for_each_participant() -> None:
    with Dispatcher(["A"], counting, workers=2, cores=None) as d:
        read = d.counters_reader()
        d.publish(ticks_for([0] * 7))
        assert d.drain()
        counters = read()
    assert counters.dtype == "u8"
    assert counters.shape[0] > 2
    assert counters.shape[1] == len(COUNTERS)
    assert int(counters[:, COUNTERS.index("handled")].sum()) == 7
