"""Columns of numpy, and the names of symbols."""

from __future__ import annotations

import numpy as np
import pytest

from strand import UNDEF_PRICE
from strand.errors import ConfigurationError
from strand.symbols import SymbolTable
from strand.tables.columns import SymbolNames, Table, with_names
from strand.units import PRICE

pytestmark = pytest.mark.python

DECLARED = np.dtype([("high", PRICE), ("low", PRICE)])


def test_a_price_that_is_none_is_nan_whichever_value_stands_for_it() -> None:
    rows = np.zeros(3, DECLARED)
    rows["high"], rows["low"] = [-(1 << 63), 5 * 10**8, -(10**9)], [UNDEF_PRICE, 1, 0]
    table = Table(DECLARED, 1.0).columns(rows)
    np.testing.assert_array_equal(np.asarray(table["high"]), [np.nan, 0.5, -1.0])
    np.testing.assert_array_equal(np.asarray(table["low"]), [np.nan, 1e-9, 0.0])


def test_prices_of_another_name_are_refused_with_the_names_there_are() -> None:
    table, rows = Table(DECLARED, 1.0), np.zeros(1, DECLARED)
    with pytest.raises(ConfigurationError, match="prices: 'floats' is not 'float' or 'decimal' or 'integer'"):
        table.shown(rows, "floats")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="prices: 'decimal' is not 'float' or 'integer'"):
        table.columns(rows, "decimal")  # type: ignore[arg-type]


def test_names_have_the_places_of_all_that_are_known_and_of_those_that_occur() -> None:
    table = SymbolTable.with_capacity(["AA", "", "CC"], 9)
    keys = np.array([7, 2, 7, 0], np.uint32)
    codes, words = SymbolNames(keys, table).coded()
    assert words == ["AA", "CC", "#7"]
    assert codes.tolist() == [2, 1, 2, 0]
    assert codes.dtype == np.int32
    assert SymbolNames(keys, table).texts().tolist() == ["#7", "CC", "#7", "AA"]


def test_single_letters_are_text_and_what_is_no_ascii_is_seen() -> None:
    records = np.array([(b"A", b"ab"), (b"", b"\xff"), (b"\xfe", b"")], [("one", "S1"), ("two", "S2")])
    found = Table(records.dtype, 1.0).columns(records)
    assert found["one"].tolist() == ["A", "", "\\xfe"]
    assert found["two"].tolist() == ["ab", "\\xff", ""]
    assert Table(records.dtype, 1.0).columns(records[:2])["one"].tolist() == ["A", ""]


def test_names_are_a_field_at_the_place_that_is_given() -> None:
    records = np.array([(1, 2.5)], [("n", "<i8"), ("x", "<f8")])
    assert with_names(records, np.array(["AB"]), 1).dtype.names == ("n", "symbol", "x")
    assert with_names(records, np.array(["AB"]), 0).tolist() == [("AB", 1, 2.5)]
    assert with_names(records[:0], np.array([], np.str_), 0).dtype.names == ("symbol", "n", "x")
