"""Rows by symbol."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strand import batch_handler
from strand.binding.serial import PlainRows
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.output.rows import Rows
from strand.symbols import SymbolTable

pytestmark = pytest.mark.python


@batch_handler(state=[("n", "<i8")])
def first(symbol: str, ticks: Any, row: Any) -> None: ...


@batch_handler(state=[("n", "<i8"), ("m", "<i8")])
def second(symbol: str, ticks: Any, row: Any) -> None: ...


@pytest.fixture
def rows() -> Rows:
    found = Rows(SymbolTable(["A", "B", "C"]), PlainRows(3, 16), [first, second], np.array([0, 1, 0], np.uint16))
    for symbol, n in (("A", 1), ("B", 2), ("C", 3)):
        found[symbol]["n"] = n
    return found


def test_each_symbol_has_the_row_of_its_handler(rows: Rows) -> None:
    assert rows["B"].dtype.names == ("n", "m")
    assert rows[2]["n"] == rows["C"]["n"] == 3
    assert len(rows) == 3
    with pytest.raises(UnknownSymbolError):
        rows["D"]


def test_rows_of_several_handlers_are_asked_for_by_its_name(rows: Rows) -> None:
    with pytest.raises(ConfigurationError, match="symbols have different handlers \\(first, second\\)"):
        _ = rows.array
    with pytest.raises(KeyError, match="no handler is named 'third'"):
        rows.of_handler("third")
    assert rows.to_numpy("first")["symbol"].tolist() == ["A", "C"]
    assert [at.tolist() for at, _ in rows.by_handler()] == [[0, 2], [1]]


def test_some_symbols_are_copied_and_those_alike_have_one_handler(rows: Rows) -> None:
    taken = rows.alike(np.array([2, 1, 0]))
    assert list(taken.symbols) == ["C", "A"]
    rows["C"]["n"] = 9
    assert taken.array["n"].tolist() == [3, 1]


def test_rows_begin_anew_for_the_symbols_that_are_named(rows: Rows) -> None:
    rows.begin(np.array([0]))
    assert [rows.at(i)["n"] for i in range(3)] == [0, 2, 3]


def test_rows_that_are_kept_stay_as_they_were() -> None:
    memory = PlainRows(1, 8)
    rows = Rows(SymbolTable(["A"]), memory, [first], np.zeros(1, np.uint16))
    rows["A"]["n"] = 5
    rows.keep()
    memory.memory[:] = 0
    assert rows["A"]["n"] == 5
