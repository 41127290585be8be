"""Arguments that cannot work are refused by name, before anything starts."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from engine_support import worker_threads

from strand import Dispatcher, Fifo
from strand.dispatch.configuration import merging_cores
from strand.dispatch.policies import Policy
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.symbols import SymbolTable
from strand.ticks import zeros

pytestmark = pytest.mark.python

MISSING = max(os.sched_getaffinity(0)) + 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workers": 0}, "workers: 0 is not a whole number from 1 to 1,024"),
        ({"workers": -1}, "workers: -1"),
        (
            {"capacity": 64},
            r"capacity: did you mean capacity_ticks\? It is no option of a dispatcher, which has",
        ),
        ({"zzz": 64}, "zzz: no option of a dispatcher, which has attachable, batch_ticks, .*, workers$"),
        ({"workers": 1.5}, "workers: 1.5"),
        ({"workers": True}, "workers: True"),
        ({"workers": 1025}, "workers: 1025"),
        ({"cores": [MISSING]}, rf"cores: \[{MISSING}\] cannot be used; this process may use \["),
        ({"cores": [-1]}, r"cores: \[-1\] cannot be used"),
        ({"cores": []}, "cores: an empty list"),
        ({"cores": "0,1"}, "cores: '0,1' is not 'auto', None or a list"),
        ({"cores": 3}, "cores: 3 is not 'auto', None or a list"),
        ({"capacity_ticks": 0}, "capacity_ticks: 0"),
        ({"capacity_ticks": 2**31}, "capacity_ticks: 2147483648 is not a whole number from 1 to 2,147,483,647"),
        ({"budget_ticks": 0}, "budget_ticks: 0"),
        ({"budget_us": 0}, "budget_us: 0 is not"),
        ({"budget_us": float("nan")}, "budget_us: nan"),
        ({"budget_us": float("inf")}, "budget_us: inf"),
        ({"budget_us": "1"}, "budget_us: '1'"),
        ({"batch_ticks": 65_537}, "batch_ticks: 65537"),
        ({"max_publishers": 0}, "max_publishers: 0"),
        ({"on_full": "wait"}, "on_full: 'wait' is not one of block, drop_newest, drop_oldest, conflate, raise"),
        ({"on_error": "ignore"}, "on_error: 'ignore' is not one of stop, quarantine"),
        ({"idle": "sleep"}, "idle: 'sleep' is not one of spin, backoff, park"),
        ({"policy": Policy()}, "policy: Policy\\(\\) is not a policy"),
        ({"strands": 0}, "strands: 0"),
        ({"counts": [1.0]}, "counts: give one finite, non-negative number for each of the 3 symbols"),
        ({"counts": [1, 2, -3]}, "counts: give one"),
        ({"counts": [1.0, float("nan"), 2.0]}, "counts: give one"),
        ({"counts": [1.0, float("inf"), 2.0]}, "counts: give one"),
        ({"counts": ["a", "b", "c"]}, "counts: give one"),
        ({"cores": [0.0]}, r"cores: \[0.0\] cannot be used"),
        ({"cores": [False]}, r"cores: \[False\] cannot be used"),
        ({"idle": ["spin"]}, r"idle: \['spin'\] is not one of"),
        ({"memory_bytes": -5}, "memory_bytes: -5 is not a whole number from 1"),
        ({"budget_us": True}, "budget_us: True"),
        ({"publisher_drains": "no"}, "publisher_drains: 'no' is neither True nor False"),
        ({"publisher_drains": None}, "publisher_drains: None is neither"),
        ({"output_memory": 0}, "output_memory: 0 is not a whole number from 1"),
        ({"out": "bars.csv"}, "out: 'bars.csv' is not a dict of files and sinks by the names of outputs"),
        ({"memory_bytes": 1e9}, "memory_bytes: 1000000000.0 is not a whole number from 1"),
    ],
)
def test_an_argument_that_cannot_work_is_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Dispatcher(3, "count", **options)
    assert worker_threads() == []


@pytest.mark.parametrize("wrong", ["1", float("nan"), True, [1]])
def test_a_limit_of_time_that_is_none_is_refused_by_name(wrong: Any) -> None:
    ticks = zeros(1)
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        for wait in (
            lambda: d.publish(ticks, timeout_s=wrong),
            lambda: d.drain(wrong),
            lambda: d.call(0, lambda view: None, timeout_s=wrong),
        ):
            with pytest.raises(ConfigurationError, match=r"timeout_s: .* is not a number of seconds, nor None"):
                wait()
        assert d.statistics().accepted == 0


def test_a_limit_of_time_may_be_endless_or_over_already() -> None:
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        for limit in (float("inf"), 1e300, np.float32(60), 5, -1):
            assert d.publish(zeros(3), timeout_s=limit) == 3
        assert d.drain(float("inf"))
        assert d.call(0, lambda view: int(view.row["ticks"]), timeout_s=float("inf")) == 15


def test_numbers_of_numpy_are_numbers() -> None:
    d = Dispatcher(np.int64(3), "count", workers=np.int32(2), cores=None, capacity_ticks=np.uint16(9))  # type: ignore[arg-type]
    assert (len(d.symbols), d.workers) == (3, 2)


def test_a_dispatcher_has_a_policy_and_workers_by_itself() -> None:
    with Dispatcher(3, "count", policy=Fifo()) as d:
        assert d.workers == max(1, len(os.sched_getaffinity(0)) - 1)
        assert d.n_strands == 3


@pytest.mark.parametrize(
    ("symbols", "text"),
    [
        (0, "there must be from 1 to"),
        (-1, "there must be from 1 to"),
        ([], "there must be from 1 to"),
        (2**31, "there must be from 1 to"),
        (True, "is not a number or a sequence"),
        ("AAPL", "is not a number or a sequence"),
        (2.0, "is not a number or a sequence"),
        (None, "is not a number or a sequence"),
        (iter("ab"), "is not a number or a sequence"),
        (["A", "B", "A"], "'A' is there twice, at 0 and 2"),
        (["A", 7], "7, at 1, is not a name, which is text"),
        ([b"A"], "b'A', at 0, is not a name"),
    ],
)
def test_symbols_that_cannot_be_a_table_are_refused(symbols: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        SymbolTable(symbols)


def test_a_symbol_is_found_by_name_by_index_and_by_made_up_name() -> None:
    table = SymbolTable(["A", "", "C"])
    assert [table.index(s) for s in ("A", "C", "#1", 1, np.uint32(2))] == [0, 2, 1, 1, 2]
    assert list(table) == ["A", "#1", "C"]
    assert (table[-1], table[1:]) == ("C", ["#1", "C"])
    for unknown in ("B", "", "#3", "#-1", "#", 3, -1):
        with pytest.raises(UnknownSymbolError, match="there is no symbol"):
            table.index(unknown)
    with pytest.raises(IndexError):
        table[3]


def test_a_table_learns_names_where_there_are_none() -> None:
    table = SymbolTable(3)
    table.learn(["A", "", "C", "beyond"])
    assert list(table) == ["A", "#1", "C"]
    table.learn(["X", "B"])
    assert list(table) == ["A", "B", "C"]
    assert [table.index(s) for s in ("A", "B", "#0")] == [0, 1, 0]
    for told in (["A", "B"], ["A", "B", "C", "D"], ("A", "", "X"), []):
        table.learn(told)
        assert list(table) == ["A", "B", "C"]


def test_of_a_name_told_twice_the_first_index_stands() -> None:
    table = SymbolTable(5)
    table.learn(["", "A", "", "B"])
    table.learn(["B", "A", "A", "B", "B"])
    assert list(table) == ["B", "A", "A", "B", "B"]
    assert [table.index(s) for s in "AB"] == [1, 3]


def test_a_table_with_room_knows_the_first_names_and_learns_the_others() -> None:
    table = SymbolTable.with_capacity(["A", "", "C", "beyond"], 3)
    assert list(table) == ["A", "#1", "C"]
    table = SymbolTable.with_capacity(["A"], 4)
    assert (table.name(-1), table.has_name(-1)) == ("#-1", False)
    assert (list(table), table.has_name(1), table.index("#3")) == (["A", "#1", "#2", "#3"], False, 3)
    other = SymbolTable(table)
    other.learn(["X", "B", "C"])
    assert list(other) == ["A", "B", "C", "#3"]
    assert list(table) == ["A", "#1", "#2", "#3"]
    with pytest.raises(ConfigurationError, match="'A' is there twice, at 0 and 2"):
        SymbolTable.with_capacity(["A", "B", "A"], 9)
    with pytest.raises(ConfigurationError, match="there must be from 1 to"):
        SymbolTable.with_capacity([], 0)


@pytest.mark.parametrize("call", ["pause", "resume", "release", "inspect", "strand_of"])
def test_a_symbol_that_is_not_there_is_named(call: str) -> None:
    d = Dispatcher(["A"], "count", workers=1)
    with pytest.raises(UnknownSymbolError, match="there is no symbol 'B' among the 1"):
        getattr(d, call)("B")
    with pytest.raises(UnknownSymbolError, match="there is no symbol 1"):
        d.rows[1]


def test_symbols_that_no_memory_could_hold_are_refused_before_any_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strand.dispatch.configuration.memory_there", lambda: 10**9)
    with pytest.raises(ConfigurationError, match=r"symbols: 100,000,000 on 1 strands take 1\.6 GB .* has 1\.0 GB"):
        Dispatcher(100_000_000, "count")
    with pytest.raises(ConfigurationError, match=r"symbols: 10,000,000 on 10,000,000 strands take 1\.4 GB"):
        Dispatcher(10_000_000, "count", strands="per-symbol")
    Dispatcher(1_000, "count", strands="per-symbol")


@pytest.mark.parametrize(
    ("allowed", "cores", "merging"),
    [
        ([0, 1, 2, 3], [1, 2, 3], [1, 2, 3]),
        ([0, 1, 2, 3], None, [0, 1, 2, 3]),  # nothing is pinned
        ([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]),  # no core is the publisher's own
        ([0, 1, 2, 3, 4], [2, 3, 4], [0, 1, 2, 3, 4]),  # a core is left for the merger too
        ([0, 1, 2], [1, 2], [0, 1, 2]),  # two workers have enough to do
        ([0, 1, 2, 3], [3, 3, 3], [0, 1, 2, 3]),
    ],
)
def test_merging_keeps_off_the_publisher_s_only_core(
    allowed: list[int], cores: list[int] | None, merging: list[int]
) -> None:
    assert merging_cores(allowed, cores) == merging
