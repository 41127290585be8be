"""Tables of symbols: names, and the spans of time in which each holds."""

from __future__ import annotations

import ctypes
import datetime as dt
import pickle
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_support import counting, ticks_for
from hypothesis import given
from hypothesis import strategies as st

import strand
from strand import Dispatcher
from strand.errors import ConfigurationError, UnknownNameError, UnknownSymbolError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.spans import span_ns, span_text
from strand.stats import Latency
from strand.symbols import MAX_COMPLETIONS, SymbolTable, near_symbol
from strand.threads import sleep_exactly

pytestmark = pytest.mark.python


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
        (["A", "B", "A"], "'A' is given twice, at 0 and 2"),
        (["A", 7], "7, at 1, is not a name: give text"),
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
    assert table.named == [0, 2]
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


def test_a_table_of_a_feed_without_names_learns_those_that_it_meets() -> None:
    table = SymbolTable.with_capacity(("",) * 4, 4)
    table.learn(["", "", "", ""])
    assert (table.named, table.n_shown, table[:]) == ([], 4, ["#0", "#1", "#2", "#3"])
    table.learn(["", "", "C", ""])
    assert (table.named, table.n_shown, table[:], table.find("C")) == ([2], 1, ["#0", "#1", "C", "#3"], 2)


def test_of_a_name_told_twice_the_first_index_stands() -> None:
    table = SymbolTable(5)
    table.learn(["", "A", "", "B"])
    table.learn(["B", "A", "A", "B", "B"])
    assert list(table) == ["B", "A", "A", "B", "B"]
    assert [table.index(s) for s in "AB"] == [1, 3]


def test_a_table_with_capacity_knows_the_first_names_and_learns_the_others() -> None:
    table = SymbolTable.with_capacity(["A", "", "C", "beyond"], 3)
    assert list(table) == ["A", "#1", "C"]
    table = SymbolTable.with_capacity(["A"], 4)
    assert (table.name(-1), table.has_name(-1)) == ("#-1", False)
    assert (list(table), table.has_name(1), table.index("#3")) == (["A", "#1", "#2", "#3"], False, 3)
    other = SymbolTable(table)
    other.learn(["X", "B", "C"])
    assert list(other) == ["A", "B", "C", "#3"]
    assert list(table) == ["A", "#1", "#2", "#3"]
    with pytest.raises(ConfigurationError, match="'A' is given twice, at 0 and 2"):
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


def test_an_unknown_symbol_is_answered_with_the_near_one() -> None:
    d = Dispatcher(["AAPL", "MSFT"], "book", workers=1)
    for ask in (d.rows.__getitem__, d.books.__getitem__, d.pause, d.symbols.index):
        with pytest.raises(UnknownSymbolError, match=r"no symbol 'AAPX' among the 2; did you mean 'AAPL'\?$"):
            ask("AAPX")
    with pytest.raises(UnknownSymbolError, match=r"did you mean 'MSFT'\?$"):
        d.call("msft", lambda context: None)
    with pytest.raises(UnknownSymbolError, match=r"among the 2$"):
        d.rows["ZZZZ"]
    assert "AAPX" not in d.rows
    assert d.symbols.find("AAPX") is None


def test_the_near_symbol_is_looked_for_among_as_many_as_a_prompt_is_offered() -> None:
    names = [f"#{i}" for i in range(MAX_COMPLETIONS)] + ["AAPL"]
    assert near_symbol("AAPX", ["", *names[1:]]) == "; did you mean 'AAPL'?"
    assert near_symbol("AAPX", names) == ""
    assert near_symbol(3, names) == ""


# ---- Errors for unknown names


ONE: dict[str, Any] = {"date": SAMPLE_DATE, "symbols": ["AAAHD"], "workers": 1}


def test_outputs_of_a_result_say_which_there_are_and_where_the_others_went(tmp_path: Path) -> None:
    class Sink(strand.Sink):
        def write(self, batch: Any) -> None: ...
        def close(self) -> None: ...
        def abort(self) -> None: ...

    handler = strand.chain(strand.trades(), strand.bbo(), strand.bars("1s"))
    out = {"bbo": tmp_path / "bbo.csv", "bars": Sink()}
    result = strand.replay(sample_path(), handler, out=out, watch=["AAAHD"], **ONE)
    with pytest.raises(UnknownNameError, match="no output is named 'trade': did you mean 'trades'"):
        result.outputs["trade"]
    with pytest.raises(UnknownNameError, match=r"output 'bbo' is not here: it was written to .*bbo\.csv"):
        result.outputs["bbo"]
    with pytest.raises(UnknownNameError, match="output 'bars' is not here: it went to a sink"):
        result.outputs["bars"]
    with pytest.raises(UnknownNameError, match="no file of an output is named 'trades': there are bbo"):
        result.written["trades"]
    with pytest.raises(UnknownNameError, match="no handler is named 'bar'"):
        result.rows.of_handler("bar")
    assert result.timeline is not None
    with pytest.raises(UnknownNameError, match="no watched symbol is named 'AAAHC': did you mean 'AAAHD'"):
        result.timeline.symbols["AAAHC"]
    with pytest.raises(UnknownNameError, match="no basket is named 'x': there are none"):
        result.baskets["x"]


def test_objects_snapshots_and_days_do_so_too() -> None:
    class Seen:
        def on_tick(self, tick: Any) -> None: ...

    result = strand.replay(sample_path(), Seen, **ONE)
    with pytest.raises(UnknownNameError, match="no object is named 'AAAHX': did you mean 'AAAHD'"):
        result.objects["AAAHX"]
    result = strand.replay(sample_path(), "count", snapshot=strand.snapshot(every="1h", fields=["ticks"]), **ONE)
    with pytest.raises(UnknownNameError, match="no field that was taken is named 'tick': did you mean 'ticks'"):
        result.snapshots["tick"]
    (day,) = strand.replay(sample_path(), "count", per_day=True, **ONE).days
    with pytest.raises(UnknownNameError, match="no handler is named 'x': there are count"):
        day.rows.to_numpy("x")
    with pytest.raises(UnknownNameError, match="no basket is named 'x'"):
        day.baskets["x"]


def test_outputs_of_a_dispatcher_do_so_too() -> None:
    with (
        strand.Dispatcher(1, strand.bbo(), workers=1) as dispatcher,
        pytest.raises(UnknownNameError, match="no output is named 'bob': did you mean 'bbo'"),
    ):
        dispatcher.outputs["bob"]


# ---- Spans of time that options name


UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}


@pytest.mark.parametrize("unit", UNITS)
def test_a_number_with_a_unit_is_so_many_of_it(unit: str) -> None:
    assert span_ns("every", f"7{unit}") == span_ns("every", f" 7 {unit} ") == 7 * UNITS[unit]
    if UNITS[unit] > 1:
        assert span_ns("every", f"0.75{unit}") * 4 == 3 * UNITS[unit]


@pytest.mark.parametrize(
    "value",
    [dt.timedelta(days=2, microseconds=4), np.timedelta64(172_800_000_004, "us"), pd.Timedelta("2D 4us"),
     "172800.000004s", 172_800.000004],
)  # fmt: skip
def test_spans_of_every_kind_are_exact(value: Any) -> None:
    assert span_ns("every", value) == 172_800_000_004_000


def test_spans_of_pandas_and_numpy_keep_their_ns_and_their_days() -> None:
    assert (
        span_ns("every", pd.Timedelta(1_000_000_001)) == span_ns("every", np.timedelta64(10**9 + 1, "ns")) == 10**9 + 1
    )
    assert (
        span_ns("every", np.timedelta64(2, "W")) == 14 * span_ns("every", np.timedelta64(1, "D")) == 14 * 86_400 * 10**9
    )


@given(st.integers(1, 10**13))
def test_a_float_is_seconds_to_the_nearest_ns(ns: int) -> None:
    assert abs(span_ns("every", float(Decimal(ns) / 10**9)) - ns) <= ns / 2**52


@pytest.mark.parametrize("value", [60, np.int64(60), np.int8(60), "60", " 60 "])
def test_a_number_without_a_unit_is_refused_with_both_readings(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^every: 60 has no unit: give '60s'.* for seconds, or '60ns' for"):
        span_ns("every", value)
    assert span_ns("every", "60s") == span_ns("every", 60.0) == 60 * 10**9  # the cures that it names
    assert span_ns("every", "60ns") == 60


@pytest.mark.parametrize(
    "value",
    ["0s", "s", "1 fortnight", "-1s", "1.5ns", 0, -1, 0.0, -1.5, 1e-12, float("nan"), float("inf"), 1e300, True, None,
     dt.timedelta(0), np.timedelta64("NaT"), np.timedelta64(1, "M"), np.timedelta64(60)],
)  # fmt: skip
def test_what_is_no_span_is_refused_by_the_options_name(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"every: .* is not a span of time"):
        span_ns("every", value)


def test_zero_and_less_are_spans_where_they_mean_something() -> None:
    zeros: list[Any] = [0, 0.0, "0s", dt.timedelta(0), np.int64(0)]
    for zero in zeros:
        assert span_ns("delay", zero, least=0) == 0
    below: list[Any] = [-5, -5e-9, "-5ns", np.timedelta64(-5, "ns")]
    for less in below:
        assert span_ns("deadline", less, least=None) == -5
        with pytest.raises(ConfigurationError, match="is not a span of time: give a number of at least 0"):
            span_ns("delay", less, least=0)


def test_what_was_read_is_taken_again() -> None:
    read = span_ns("every", "250us")
    assert span_ns("every", read) == span_ns("every", pickle.loads(pickle.dumps(read))) == 250_000


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("30 parsecs", "'30 parsecs' is not a span of time: 'parsecs' is not a unit: give a number above 0 with"),
        ("1.5 Min", "'Min' is not a unit: give"),
        ("1.5ns", "it is no whole number of ns: give"),
        ("", "'' is not a span of time: give"),
    ],
)
def test_the_error_says_what_is_wrong_where_one_can_tell(value: Any, says: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        span_ns("every", value)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0s"), (1, "1ns"), (1_500, "1500ns"), (250_000, "250us"), (30 * 10**9, "30s"), (90 * 10**9, "90s"),
     (60 * 10**9, "1m"), (86_400 * 10**9, "1d"), (2**63 - 1, "9223372036854775807ns")],
)  # fmt: skip
def test_a_span_is_written_in_its_largest_whole_unit(ns: int, text: str) -> None:
    assert span_text(ns) == text


@given(st.integers(1, 2**63 - 1))
def test_a_span_that_is_written_is_read_as_the_same(ns: int) -> None:
    assert span_ns("every", span_text(ns)) == ns


# ---- Latencies and their percentiles


def test_percentiles_are_the_upper_edges_of_the_buckets_that_hold_them() -> None:
    floors = np.array([0.0, 10.0, 20.0, 40.0])
    latency = Latency.from_histogram(np.array([50, 40, 9, 1], np.uint64), floors)
    assert latency.count == 100
    assert dict(latency.percentiles) == {50.0: 10.0, 90.0: 20.0, 99.0: 40.0, 99.9: 80.0}
    assert latency.maximum_ns == 80.0
    empty = Latency.from_histogram(np.zeros(4, np.uint64), floors)
    assert (empty.count, empty.maximum_ns, set(empty.percentiles.values())) == (0, 0.0, {0.0})


def test_no_percentile_is_below_what_the_clock_resolves() -> None:
    floors = np.array([0.0, 10.0, 20.0, 40.0])
    counts = np.array([50, 40, 9, 1], np.uint64)
    latency = Latency.from_histogram(counts, floors, 15.0)
    assert dict(latency.percentiles) == {50.0: 15.0, 90.0: 20.0, 99.0: 40.0, 99.9: 80.0}
    assert latency.percentile(1) == 15.0
    below = Latency.from_histogram(counts, floors, 100.0)
    assert {*below.percentiles.values(), below.maximum_ns} == {100.0}
    assert Latency.from_histogram(np.zeros(4, np.uint64), floors, 15.0).percentiles[50.0] == 0.0
    with Dispatcher(4, counting, workers=1, cores=None) as d:
        d.publish(ticks_for([0] * 10))
        d.drain()
        s = d.statistics()
    assert 0 < s.handler.resolution_ns < 1e6
    for found in s.latencies.values():
        assert min(found.percentiles.values()) >= s.handler.resolution_ns


# ---- Threads that a dispatcher waits for


def test_a_thread_that_sleeps_exactly_has_no_slack_and_the_one_it_came_from_keeps_its_own() -> None:
    def slack_ns() -> int:
        return int(ctypes.CDLL(None).prctl(30, 0, 0, 0, 0))  # PR_GET_TIMERSLACK

    def exact() -> None:
        sleep_exactly()
        found.append(slack_ns())

    before, found = slack_ns(), list[int]()
    thread = threading.Thread(target=exact)
    thread.start()
    thread.join(60)
    assert found == [1]
    assert slack_ns() == before
