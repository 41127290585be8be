"""Levels of symbols and strands: given, changed while it runs, and what is counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import strand
from strand import Dispatcher, batch_handler, testing
from strand.dispatch.routing import kinds_of
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.handlers import spin
from strand.policies.policy import Aging, Fifo, Levels
from strand.ticks import TICK

NAMES = ["A", "B", "C", "D", "E"]
FIRST = {"A": "immediate"}


def ticks(symbols: str) -> npt.NDArray[Any]:
    made = np.zeros(len(symbols), TICK)
    made["instrument_id"] = [NAMES.index(symbol) for symbol in symbols]
    return made


class Held:
    """One worker, which is in a visit to A until ``go``. What it then takes is the policy's choice."""

    def __init__(self, **options: Any) -> None:
        self.order, self.begun, self.let_go = "", threading.Event(), threading.Event()

        @batch_handler(state=[("ticks", "u8")])
        def note(symbol: str, ticks: Any, row: Any) -> None:
            self.begun.set()
            self.let_go.wait(60)
            self.order += symbol * len(ticks)

        self.dispatcher = Dispatcher(NAMES, note, workers=1, cores=None, **options)

    def go(self) -> str:
        """The order in which symbols were handled after A."""
        self.let_go.set()
        assert self.dispatcher.drain(30)
        return self.order[1:]


@contextmanager
def held(**options: Any) -> Iterator[Held]:
    made = Held(**options)
    with made.dispatcher:
        made.dispatcher.publish(ticks("A"))
        made.begun.wait(60)
        try:
            yield made
        finally:
            made.let_go.set()


def test_without_levels_the_order_is_that_of_publishing() -> None:
    with held() as run:
        for symbol in "EDCB":
            run.dispatcher.publish(ticks(symbol))
        assert run.go() == "EDCB"


def test_the_highest_level_comes_first_and_in_a_level_the_first() -> None:
    priorities = FIRST | {"B": "high", "C": "low", "E": "high"}
    with held(policy=Levels(), priorities=priorities) as run:
        for symbol in "CDEB":
            run.dispatcher.publish(ticks(symbol))
        assert run.go() == "EBDC"
        statistics = run.dispatcher.statistics()
        assert statistics.promoted == dict.fromkeys(("immediate", "high", "retry", "normal", "low"), 0)
        assert statistics.as_dict()["starved"] == dict.fromkeys(("immediate", "high", "retry", "normal", "low"), 0)


def test_ticks_are_never_held() -> None:
    with held(policy=Levels(hold={"low": "1h"}), priorities={"*": "low"}) as one:
        one.dispatcher.publish(ticks("BC"))
        assert one.go() == "BC"


def test_all_others_have_the_level_of_the_star() -> None:
    with held(policy=Levels(), priorities={"A": "immediate", "D": "normal", "*": "low"}) as run:
        for symbol in "CDEB":
            run.dispatcher.publish(ticks(symbol))
        assert run.go() == "DCEB"


def test_a_strand_that_waits_changes_its_place_at_once() -> None:
    with held(policy=Levels(), priorities=FIRST) as run:
        for symbol in "BCDE":
            run.dispatcher.publish(ticks(symbol))
        run.dispatcher.prioritise("D", "high")
        run.dispatcher.prioritise("B", "low")
        assert run.go() == "DCEB"


def test_a_strand_is_raised_for_its_backlog() -> None:
    with held(policy=Levels(), priorities=FIRST) as run:
        for symbol in "BCDE":
            run.dispatcher.publish(ticks(symbol))
        run.dispatcher.prioritise("E", "immediate", for_backlog=True)
        run.dispatcher.prioritise("B", "low", for_backlog=True)
        assert run.go() == "EBCD", "a lower level raises nothing"
        assert run.dispatcher.statistics().starved["normal"] == 0


def test_what_waits_longer_than_its_levels_timeout_rises_and_is_counted() -> None:
    policy = Levels({"high": "1us", "retry": "1us", "normal": "1us", "low": "1us"})
    with held(policy=policy, priorities=FIRST | {"E": "low"}) as run:
        run.dispatcher.publish(ticks("E"))
        for symbol in "BCD":
            run.dispatcher.publish(ticks(symbol))
        assert sorted(run.go()) == ["B", "C", "D", "E"]
        statistics = run.dispatcher.statistics()
        assert statistics.promoted["low"] == 1
        assert statistics.promoted["normal"] >= 3
        assert statistics.promoted["immediate"] == 0
        assert (statistics.starved["low"], statistics.starved["normal"]) == (1, 3)


def test_symbols_of_different_levels_share_no_strand() -> None:
    names = [f"S{i}" for i in range(300)]
    priorities = dict.fromkeys(names[::10], "high")
    with Dispatcher(names, "count", policy=Levels(), priorities=priorities, strands=8, workers=1, cores=None) as d:
        d.publish(np.zeros(1, TICK))
        d.drain()
        strands = {level: {d.strand_of(name) for name in names if (name in priorities) == level} for level in (0, 1)}
    assert not strands[0] & strands[1]
    assert len(strands[0] | strands[1]) <= 8


def test_a_strand_has_the_highest_level_of_its_symbols() -> None:
    policy = Levels()
    with Dispatcher(NAMES, "count", policy=policy, strands=1, workers=1, cores=None, attachable=True) as dispatcher:
        assert dispatcher.n_strands == 1
        dispatcher.prioritise("A", "low")
        dispatcher.prioritise("B", "high")
        dispatcher.publish(ticks("ABCDE"))
        dispatcher.drain()
        assert dispatcher.statistics().handled == 5
        assert strand.attach(fd=dispatcher.memory_fd).configuration["policy"]["name"] == "levels"


def test_a_plain_loop_checks_what_it_has_no_use_for() -> None:
    stream = testing.feed(ticks("AB"), NAMES)
    for options, error in (({"A": "hgih"}, ConfigurationError), ({"Z": "high"}, UnknownSymbolError)):
        with pytest.raises(error):
            strand.replay(stream, "count", workers=0, policy=Levels(), priorities=options)
    assert strand.replay(stream, "count", workers=0, policy=Levels(), priorities={"A": "high"}).ticks == 2


def test_there_may_be_as_many_kinds_as_symbols() -> None:
    handlers, ranks = np.repeat(np.arange(40_000, dtype=np.uint16), 2), np.tile(np.array([1, 2], np.uint32), 40_000)
    kinds, handler_of = kinds_of(handlers, ranks, np.zeros(80_000, np.uint8))
    assert len(handler_of) == len(set(kinds.tolist())) == 80_000
    assert (handler_of[kinds] == handlers).all()


def test_a_worker_that_slept_knows_how_late_it_is() -> None:
    policy = Levels({"low": "1ns"})
    with Dispatcher(NAMES, "count", policy=policy, workers=1, cores=None, idle="park", publisher_drains=False) as d:
        for turn in range(1, 6):
            while d.statistics().parks < turn:
                time.sleep(0.001)
            time.sleep(0.01)  # parks counts just before the sleep
            d.publish(ticks("B"))
            d.drain()
        # With the time of its last visit it would count the first of them alone.
        assert sum(d.statistics().promoted.values()) > 1


def test_a_change_that_cannot_be_is_refused_and_changes_nothing() -> None:
    dispatcher = Dispatcher(NAMES, "count", policy=Fifo(), workers=1, cores=None)
    with dispatcher, pytest.raises(ConfigurationError, match="priority: Fifo has no priorities"):
        dispatcher.prioritise("A", "high")
    with held(policy=Levels(), priorities=FIRST) as run:
        for wrong, error in ((("B", "top"), ConfigurationError), (("Z", "high"), UnknownSymbolError)):
            with pytest.raises(error):
                run.dispatcher.prioritise(*wrong)
        for symbol in "CB":
            run.dispatcher.publish(ticks(symbol))
        assert run.go() == "CB"


@pytest.mark.parametrize("since", ["entered", "created"])
def test_runs_of_all_seeds_are_the_plain_loops(since: Any) -> None:
    policy = Levels({"high": "1ns", "retry": "20ns", "normal": "300ns", "low": "500ns"}, since=since)
    stream = testing.feed(ticks("ABCDE" * 40 + "AABBC" * 20), NAMES)
    priorities = {"C": "high", "E": "low"}
    testing.check_seeds(stream, "vwap", seeds=range(30), policy=policy, priorities=priorities, workers=3)
    run = testing.seeded(stream, "vwap", seed=1, policy=policy, priorities=priorities, workers=3)
    assert sum(run.statistics.promoted.values()) > 0


def test_a_publisher_that_helps_steals_nothing() -> None:
    options: dict[str, Any] = {"policy": Levels(), "workers": 2, "cores": None, "capacity_ticks": 4, "idle": "park"}
    with Dispatcher(64, spin(2_000), strands="per-symbol", **options) as dispatcher:
        made = np.zeros(6_400, TICK)
        made["instrument_id"] = np.arange(6_400) % 64
        dispatcher.publish(made)
        dispatcher.drain()
    publishers = dispatcher.statistics().workers[-1]
    assert publishers.visits > 0
    assert publishers.stolen == 0


RATES = {"urgent": 4.0, "high": 2.0, "normal": 1.0}


def test_under_aging_the_bigger_priority_comes_first_and_changes_hold_at_once() -> None:
    priorities = {"A": 5, "C": -2, "D": 3}
    with held(policy=Aging(0.001), priorities=priorities) as run:
        for symbol in "BCDE":
            run.dispatcher.publish(ticks(symbol))
        run.dispatcher.prioritise("E", 2)
        run.dispatcher.prioritise("C", 4, for_backlog=True)
        assert run.go() == "CDEB"
        statistics = run.dispatcher.statistics()
        assert statistics.picked == {"normal": 5}
        assert statistics.picked_by_rule == {"low_every": 0, "max_wait": 0}
        assert statistics.promoted == statistics.starved == {}
        assert statistics.as_dict()["picked"] == {"normal": 5}


def test_a_raised_strand_has_its_own_priority_again_when_nothing_of_it_is_pending() -> None:
    with held(policy=Aging(0.001), priorities={"A": 5}) as run:
        run.dispatcher.prioritise("C", 4, for_backlog=True)
        for symbol in "BC":
            run.dispatcher.publish(ticks(symbol))
        assert run.go() == "BC", "it was raised before it had a backlog"


def test_under_aging_a_low_strand_has_its_turn_and_a_late_one_too() -> None:
    policy = Aging(low_every=2, classes=dict.fromkeys(RATES, 0.001))
    priorities = {"A": "urgent", "B": ("high", 9), "C": ("high", 8), "D": ("high", 7), "E": -5}
    with held(policy=policy, priorities=priorities) as run:
        for symbol in "EDCB":
            run.dispatcher.publish(ticks(symbol))
        assert run.go() == "BECD", "A and B are two of higher classes"
        assert run.dispatcher.statistics().picked == {"urgent": 1, "high": 3, "normal": 1}
        assert run.dispatcher.statistics().picked_by_rule == {"low_every": 1, "max_wait": 0}
    with held(policy=Aging(max_wait="1ns"), priorities={"A": 5, "D": 100}) as run:
        for symbol in "BCD":
            run.dispatcher.publish(ticks(symbol))
            time.sleep(0.0001)
        assert run.go() == "BCD"
        assert run.dispatcher.statistics().picked_by_rule["max_wait"] >= 3


def test_a_process_that_attaches_sees_what_was_picked() -> None:
    with Dispatcher(NAMES, "count", policy=Aging(classes=RATES), workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(ticks("ABCDE"))
        dispatcher.drain()
        attached = strand.attach(fd=dispatcher.memory_fd)
        assert attached.configuration["policy"]["name"] == "aging"
        assert attached.statistics().picked == dispatcher.statistics().picked
        assert sum(dispatcher.statistics().picked.values()) >= 1


@pytest.mark.parametrize("low_every", [None, 2, "load"])
def test_under_aging_runs_of_all_seeds_are_the_plain_loops(low_every: Any) -> None:
    policy = Aging(low_every=low_every, classes={"urgent": 1e6, "high": 5e5, "normal": 1e5}, max_wait="3us")
    stream = testing.feed(ticks("ABCDE" * 40 + "AABBC" * 20), NAMES)
    priorities = {"C": ("urgent", -5), "E": 7, "B": "high"}
    testing.check_seeds(stream, "vwap", seeds=range(20), policy=policy, priorities=priorities, workers=3)
    run = testing.seeded(stream, "vwap", seed=1, policy=policy, priorities=priorities, workers=3)
    assert sum(run.statistics.picked.values()) > 0
