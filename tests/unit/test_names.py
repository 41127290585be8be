"""Tables of symbols."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
from strand import Dispatcher
from strand.errors import ConfigurationError, UnknownNameError, UnknownSymbolError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.symbols import MAX_COMPLETIONS, SymbolTable, near_symbol

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
