"""Tables of symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strand import Dispatcher
from strand.errors import ConfigurationError, UnknownSymbolError
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
