"""Rows as tables of numpy, pandas, polars and Arrow."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for

from strand import UNDEF_PRICE, Dispatcher, batch_handler
from strand.errors import ConfigurationError, MissingExtraError
from strand.output.rows import Rows
from strand.output.tables import Table
from strand.units import PRICE

pytestmark = pytest.mark.python

STATE = np.dtype(
    [
        ("n", "<u8"),
        ("last_price", PRICE),
        ("name", "S4"),
        ("hist", "<u4", (3,)),
        ("grid", "<f8", (2, 2)),
        ("bar", [("open", PRICE), ("change", "<i8")]),
        ("rest", "V4"),
    ]
)


@batch_handler(state=STATE)
def fills(symbol: str, ticks: Any, row: Any) -> None:
    row["n"] += len(ticks)
    row["last_price"] = UNDEF_PRICE if symbol == "BB" else 12_345_678_901
    row["name"] = symbol.encode()
    row["hist"] = [1, 2, 3]
    row["grid"] = [[0.5, 1.5], [2.5, 3.5]]
    row["bar"]["open"] = 2_500_000_000
    row["bar"]["change"] = -5


@pytest.fixture(scope="module")
def rows() -> Rows:
    with Dispatcher(["AA", "BB", "CC", "", ""], fills, workers=1, cores=None) as d:
        d.publish(ticks_for([0, 0, 1, 4]))
    return d.rows


COLUMNS = ["symbol", "n", "last_price", "name", "hist", "grid", "bar.open", "bar.change"]
SYMBOLS = ["AA", "BB", "CC", "#4"]


def test_numpy_has_the_symbol_first_and_leaves_out_who_has_neither_name_nor_state(rows: Rows) -> None:
    table = rows.to_numpy()
    assert table.dtype.names == ("symbol", *(STATE.names or ()))
    assert table["symbol"].tolist() == SYMBOLS
    assert table["n"].tolist() == [2, 1, 0, 1]
    assert table["hist"][0].tolist() == [1, 2, 3]


def test_arrow_has_all_columns(rows: Rows) -> None:
    pytest.importorskip("pyarrow")
    table = rows.to_arrow()
    assert table.column_names == COLUMNS
    first = table.to_pylist()[0]
    assert first == {
        "symbol": "AA",
        "n": 2,
        "last_price": 12.345678901,
        "name": "AA",
        "hist": [1, 2, 3],
        "grid": [[0.5, 1.5], [2.5, 3.5]],
        "bar.open": 2.5,
        "bar.change": -5,
    }
    assert table.to_pylist()[1]["last_price"] is None
    assert str(table.schema.field("n").type) == "uint64"


def test_polars_and_arrow_are_the_same_table(rows: Rows) -> None:
    pytest.importorskip("polars")
    frame = rows.to_polars()
    assert frame.columns == COLUMNS
    assert frame.to_dicts() == rows.to_arrow().to_pylist()
    assert str(frame.schema["grid"]) == "List(List(Float64))"


def test_pandas_has_the_symbols_as_its_index(rows: Rows) -> None:
    pytest.importorskip("pandas")
    frame = rows.to_pandas()
    assert frame.index.tolist() == SYMBOLS
    assert frame.columns.tolist() == COLUMNS[1:]
    assert np.isnan(frame.loc["BB", "last_price"])
    assert frame.loc["AA", "hist"] == [1, 2, 3]


def test_prices_stay_exact_integers_where_that_is_asked_for(rows: Rows) -> None:
    frame = rows.to_pandas(prices="int")
    assert (frame.loc["AA", "last_price"], str(frame["last_price"].dtype)) == (12_345_678_901, "Int64")
    assert frame["last_price"].isna().tolist() == [False, True, False, False]
    assert rows.to_arrow(prices="int").to_pylist()[1]["last_price"] is None
    assert rows.to_polars(prices="int")["last_price"].to_list()[:2] == [12_345_678_901, None]
    with pytest.raises(ConfigurationError, match="prices: 'floats'"):
        rows.to_arrow(prices="floats")


def test_of_several_handlers_one_is_named() -> None:
    with Dispatcher(["AA", "BB"], handlers={"AA": fills, "*": "count"}, workers=1, cores=None) as d:
        d.publish(ticks_for([0, 1, 1]))
    assert d.rows.to_numpy("fills")["symbol"].tolist() == ["AA"]
    assert d.rows.to_polars("count").to_dicts()[0]["ticks"] == 2
    with pytest.raises(ConfigurationError, match="different handlers"):
        d.rows.to_pandas()
    with pytest.raises(KeyError, match="no handler is named 'x'"):
        d.rows.to_pandas("x")


@pytest.mark.parametrize(("method", "package", "extra"), [
    ("to_pandas", "pandas", "pandas"), ("to_polars", "polars", "polars"), ("to_arrow", "pyarrow", "parquet"),
])  # fmt: skip
def test_without_the_package_its_extra_is_named(
    rows: Rows, monkeypatch: pytest.MonkeyPatch, method: str, package: str, extra: str
) -> None:
    real = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name == package:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(MissingExtraError, match=rf"pip install 'strand\[{extra}\]'"):
        getattr(rows, method)()


def test_a_price_that_is_none_is_nan_whichever_value_stands_for_it() -> None:
    declared = np.dtype([("high", PRICE), ("low", PRICE)])
    rows = np.zeros(3, declared)
    rows["high"], rows["low"] = [-(1 << 63), 5 * 10**8, -(10**9)], [UNDEF_PRICE, 1, 0]
    table = Table(declared, 1.0).columns(rows)
    np.testing.assert_array_equal(np.asarray(table["high"]), [np.nan, 0.5, -1.0])
    np.testing.assert_array_equal(np.asarray(table["low"]), [np.nan, 1e-9, 0.0])
