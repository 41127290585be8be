"""Groups of symbols under Fair: given, changed while it runs, and what is counted."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import strand
from strand import Dispatcher, Fair, batch_handler, testing
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.handlers.builtin.counting import spin
from strand.policies.policy import Groups
from strand.symbols import SymbolTable
from strand.ticks import TICK

NAMES = ["A", "B", "C", "D", "E"]


def ticks(symbols: str) -> npt.NDArray[Any]:
    made = np.zeros(len(symbols), TICK)
    made["instrument_id"] = [NAMES.index(symbol) for symbol in symbols]
    return made


def groups(given: dict[str, str], weights: dict[str, float] | None = None) -> Groups:
    return Groups(Fair(weights=weights or {}), SymbolTable(NAMES), given)


def test_a_symbol_that_is_not_named_is_a_group_of_its_own() -> None:
    found = groups({"A": "x", "C": "x"})
    assert found.names() == ["x", "B", "D", "E"]
    assert found.of_symbol.tolist() == [0, 1, 0, 2, 3]
    assert [found.number(name) for name in found.names()] == [0, 1, 2, 3]


def test_all_others_are_in_the_group_of_the_star() -> None:
    found = groups({"A": "x", "*": "rest"}, {"x": 0.5, "later": 2})
    assert found.names() == ["x", "rest", "later"]
    assert found.of_symbol.tolist() == [0, 1, 1, 1, 1]
    assert found.weights == {0: 500, 2: 2000}


def test_a_group_with_a_symbols_name_has_that_symbol() -> None:
    found = groups({"A": "B"}, {"C": 3})
    assert found.names() == ["B", "C", "D", "E"]
    assert found.of_symbol.tolist() == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_numbers_of_numpy_are_what_they_say(kind: Any) -> None:
    policy = Fair(slice_ms=kind(0.5), burst_ms=kind(0.25), cpu_share=kind(0.5), weights={"x": kind(2)})
    assert policy == Fair(slice_ms=0.5, burst_ms=0.25, cpu_share=0.5, weights={"x": 2})
    assert policy.core_options() == {"slice_ns": 500_000, "burst_ns": 250_000, "cpu_share": 0.5}
    assert type(policy.cpu_share) is type(policy.weights["x"]) is float


def test_what_was_charged_stays_with_the_group_that_a_symbol_leaves() -> None:
    policy = Fair(weights={"y": 2})
    with Dispatcher(NAMES, spin(200), policy=policy, groups={"*": "x"}, workers=1, cores=None) as dispatcher:
        dispatcher.publish(ticks("ABCDE" * 100))
        dispatcher.drain()
        before = dispatcher.statistics().fair
        for symbol in NAMES:
            dispatcher.regroup(symbol, "y")
        dispatcher.publish(ticks("ABCDE" * 300))
        dispatcher.drain()
        after = dispatcher.statistics().fair
        with pytest.raises(ConfigurationError, match="group: 'z' is not a group: name it in groups= or weights="):
            dispatcher.regroup("A", "z")
        with pytest.raises(ConfigurationError, match="Fair has groups, and no priorities"):
            dispatcher.prioritise("A", "high", for_backlog=True)
    assert before is not None
    assert after is not None
    assert before.groups["x"].on_cpu_ns > 0 == before.groups["y"].on_cpu_ns
    assert after.groups["x"] == strand.stats.GroupStatistics(
        before.groups["x"].on_cpu_ns, after.groups["x"].share, before.groups["x"].slice_ends, 0, None
    )
    assert after.groups["y"].on_cpu_ns > 0
    assert sum(group.share for group in after.groups.values()) == pytest.approx(1)


def test_a_symbol_is_regrouped_with_those_that_share_its_strand() -> None:
    policy = Fair(weights={"y": 1})
    with Dispatcher(NAMES, "count", policy=policy, groups={"*": "x"}, strands=1, workers=1, cores=None) as dispatcher:
        dispatcher.regroup("A", "y")
        dispatcher.publish(ticks("BCDE"))
        dispatcher.drain()
        found = dispatcher.statistics().fair
        assert found is not None
        assert found.groups["y"].share == 1
        with pytest.raises(UnknownSymbolError):
            dispatcher.regroup("Z", "y")
    with Dispatcher(NAMES, "count", workers=1, cores=None) as other:
        with pytest.raises(ConfigurationError, match="group: Fifo has no groups"):
            other.regroup("A", "y")
        assert other.statistics().fair is None
        assert "fair" not in other.statistics().as_dict()


def test_a_loaded_strand_is_in_the_group_of_most_of_its_symbols(tmp_path: Path) -> None:
    options = {"policy": Fair(weights={"y": 2}), "strands": 2, "workers": 1, "cores": None}
    with Dispatcher(NAMES, "count", groups={"*": "x"}, **options) as dispatcher:
        dispatcher.publish(ticks("ABCDE"))
        dispatcher.drain()
        dispatcher.save(tmp_path / "state")
        strands = [[name for name in NAMES if dispatcher.strand_of(name) == strand] for strand in range(2)]
    most, fewest = max(strands, key=len), min(strands, key=len)
    given = dict.fromkeys(most[:-1], "y") | dict.fromkeys([most[-1], *fewest], "x")
    with Dispatcher(NAMES, "count", groups=given, load=tmp_path / "state", **options) as dispatcher:
        dispatcher.publish(ticks("".join(most)))
        dispatcher.drain()
        found = dispatcher.statistics().fair
        assert found is not None
        assert found.groups["y"].on_cpu_ns > 0 == found.groups["x"].on_cpu_ns
        dispatcher.publish(ticks("".join(fewest)))
        dispatcher.drain()
        after = dispatcher.statistics().fair
        assert after is not None
        assert after.groups["x"].on_cpu_ns > 0


def test_symbols_of_different_groups_share_no_strand() -> None:
    names = [f"S{i}" for i in range(300)]
    given = dict.fromkeys(names[::10], "x") | {"*": "y"}
    with Dispatcher(names, "count", policy=Fair(), groups=given, strands=8, workers=1, cores=None) as d:
        d.publish(np.zeros(1, TICK))
        d.drain()
        found = [{d.strand_of(name) for name in names if (name in given) == member} for member in (False, True)]
    assert not found[0] & found[1]
    assert len(found[0] | found[1]) <= 8


def test_python_handlers_are_charged_for_what_they_run_and_not_for_waiting() -> None:
    @batch_handler(state=[("ticks", "u8")])
    def wait(symbol: str, ticks: Any, row: Any) -> None:
        if symbol == "A":
            time.sleep(0.2)
        else:
            until = time.thread_time_ns() + 50_000_000
            while time.thread_time_ns() < until:
                pass

    with Dispatcher(NAMES, wait, policy=Fair(slice_ms=20), workers=1, cores=None) as dispatcher:
        dispatcher.publish(ticks("AB"))
        dispatcher.drain()
        found = dispatcher.statistics().fair
    assert found is not None
    assert found.groups["A"].on_cpu_ns < 50_000_000 <= found.groups["B"].on_cpu_ns
    assert found.groups["B"].slice_ends == 1
    assert [stretch.symbols for stretch in found.longest] == [("B",)]
    assert found.longest[0].longest_ns >= 50_000_000
    assert found.long_stretches == 1
    assert [name for name, group in found.groups.items() if group.long_stretches] == ["B"]
    assert found.groups["B"].longest_stretch_ns == found.longest[0].longest_ns
    assert found.groups["A"].longest_stretch_ns is None


def test_calls_are_charged_too() -> None:
    def work(view: Any) -> None:
        until = time.thread_time_ns() + 10_000_000
        while time.thread_time_ns() < until:
            pass

    with Dispatcher(NAMES, "count", policy=Fair(), workers=1, cores=None) as dispatcher:
        dispatcher.call("C", work)
        dispatcher.drain()
        found = dispatcher.statistics().as_dict()["fair"]
    assert found["groups"]["C"]["on_cpu_ns"] >= 10_000_000


@pytest.mark.parametrize("idle", ["spin", "backoff", "park"])
def test_the_pool_is_held_by_the_cap_and_its_workers_sleep(idle: str) -> None:
    policy = Fair(cpu_share=0.25, slice_ms=1, burst_ms=4)
    with Dispatcher(NAMES, spin(2000), policy=policy, workers=2, cores=None, idle=idle, publisher_drains=False) as d:
        d.publish(ticks("ABCDE" * 8000))
        assert d.drain(60)
        s = d.statistics()
    assert s.fair is not None
    assert s.handled == 40_000
    assert s.fair.cap_holds is not None
    assert s.fair.cap_holds > 3
    assert s.parks > 0


@pytest.mark.parametrize("cap", [None, 0.4])
def test_runs_of_all_seeds_are_the_plain_loops(cap: float | None) -> None:
    policy = Fair(slice_ms=0.001, cpu_share=cap, burst_ms=0.002, weights={"x": 0.5})
    stream = testing.feed(ticks("ABCDE" * 40 + "AABBC" * 20), NAMES)
    given = {"C": "x", "E": "x"}
    testing.check_seeds(stream, "vwap", seeds=range(30), policy=policy, groups=given, workers=3)
    run = testing.seeded(stream, "vwap", seed=1, policy=policy, groups=given, workers=3)
    assert run.statistics.fair is not None
    assert sum(group.on_cpu_ns for group in run.statistics.fair.groups.values()) > 0


@pytest.mark.python
def test_more_symbols_than_65_535_may_have_groups_of_their_own() -> None:
    names = [f"S{i}" for i in range(70_000)]
    with Dispatcher(names, "count", policy=Fair(), workers=1, cores=None) as dispatcher:
        ticks = np.zeros(3, TICK)
        ticks["instrument_id"] = [0, 1, 69_999]
        dispatcher.publish(ticks)
    assert dispatcher.statistics().handled == 3
    fair = dispatcher.statistics().fair
    assert fair is not None
    assert fair.cap_holds is None
    assert len(fair.groups) == 70_000


@pytest.mark.parametrize(
    ("weights", "groups", "near"),
    [
        ({"hugry": 3}, {"AAPL": "hungry"}, "hungry"),
        ({"AALP": 3}, {}, None),  # names of symbols are like each other, and others may be heard of later
        ({"rset": 3}, {"*": "rest"}, "rest"),
        ({"hungry": 3, "hungrier": 2}, {"AAPL": "hungry"}, None),
        ({"later": 3}, {"AAPL": "hungry"}, None),
        ({"hungry": 3}, {"AAPL": "hungry"}, None),
    ],
)
def test_a_weight_of_no_group_warns_where_its_name_is_like_that_of_one_without(
    weights: dict[str, float], groups: dict[str, str], near: str | None
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        strand.Dispatcher(["AAPL", "MSFT"], "count", policy=strand.Fair(weights=weights), groups=groups)
    told = [str(warning.message) for warning in caught if "weights" in str(warning.message)]
    name = next(iter(weights))
    assert told == ([] if near is None else [f"weights: no symbol is in the group {name!r}: did you mean {near!r}?"])
