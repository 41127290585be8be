"""Arrow's arrays, against a conversion in plain Python."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from table_reference import EDGES, expected, filled, same

from strand import UNDEF_PRICE
from strand.handlers import BUILTIN
from strand.output.records import merged_dtype
from strand.tables.arrow import arrow_table
from strand.tables.columns import Prices, Table
from strand.units import PRICE, TIME, declare, undeclared

pytestmark = pytest.mark.python

pa = pytest.importorskip("pyarrow")

EVERY: dict[str, Any] = {
    "bars": {"every": "1m"}, "spread": {"every": "1m"}, "imbalance": {"every": "1m"}, "vwap": {"every": "1m"},
    "trade_stats": {"every": "1m"}, "volatility": {"ticks": 1, "every": "1m"},
}  # fmt: skip
OWN = np.dtype(
    [("flag", "?"), ("word", "S3"), ("letters", "S1", (2,)), ("grid", PRICE, (2, 3)), ("mean", declare(PRICE, "<f8")),
     ("bar", [("open", PRICE), ("of", "<i4")]), ("two", [("at", TIME)], (2,)), ("small", "<u1"), ("raw", "<f4")]
)  # fmt: skip


def dtypes(name: str) -> list[np.dtype[Any]]:
    if name == "own":
        return [OWN]
    found = []
    for options in ({}, EVERY.get(name, {})):
        made = BUILTIN[name](**options)
        found += [made.state, *(merged_dtype(dtype, merge=True) for _, dtype in made.emitted)]
    return found


@pytest.mark.cells(1)
@pytest.mark.parametrize("prices", ["float", "decimal", "integer"])
@pytest.mark.parametrize("size_unit", ["1.0", "1e-08"])
@pytest.mark.parametrize("name", ["own", *sorted(set(BUILTIN) - {"spin"})])
def test_each_field_of_each_handler_is_as_plain_python_has_it(name: str, size_unit: str, prices: Prices) -> None:
    for declared in dtypes(name):
        records = filled(declared, 60)
        table = arrow_table(Table(declared, float(size_unit)).shown(records, prices))
        table.validate(full=True)
        wanted = [expected(record, declared, size_unit, prices) for record in records]
        assert table.column_names == list(wanted[0])
        for column in table.column_names:
            found = table[column]
            times = pa.types.is_timestamp(found.type)
            cells = (found.cast(pa.int64()) if times else found).to_pylist()
            for cell, row in zip(cells, wanted, strict=True):
                assert same(cell, row[column]), (column, cell, row[column])
            if None in cells:
                assert table.schema.field(column).nullable


@pytest.mark.parametrize("name", ["own", *sorted(set(BUILTIN) - {"spin"})])
def test_types_are_those_of_the_declaration_whatever_the_values(name: str) -> None:
    for declared in dtypes(name):
        table = Table(declared, 1.0)
        empty = arrow_table(table.shown(np.zeros(0, declared), "decimal"))
        assert empty.num_rows == 0
        assert empty.schema == arrow_table(table.shown(filled(declared, 9), "decimal")).schema


def test_decimals_are_exact_at_extreme_prices() -> None:
    declared = np.dtype([("price", PRICE)])
    prices = np.zeros(len(EDGES), declared)
    prices["price"] = EDGES
    found = arrow_table(Table(declared, 1.0).shown(prices, "decimal"))["price"]
    assert found.type == pa.decimal128(19, 9)
    never = {UNDEF_PRICE, -UNDEF_PRICE - 1}
    digits = [None if edge in never else edge for edge in EDGES]
    assert [None if cell is None else int(cell.scaleb(9)) for cell in found.to_pylist()] == digits
    assert found.to_pylist()[4] == Decimal("12.345678901")
    assert found.to_pylist()[7] == Decimal("9223372036.854775806")
    assert found.to_pylist()[9] == Decimal("-9223372036.854775807")


def test_a_time_is_a_moment_in_utc_to_the_nanosecond() -> None:
    at = datetime.datetime(2026, 1, 5, 14, 30, 0, 123456, datetime.UTC)
    exact = (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1) * 1000
    declared = np.dtype([("at", TIME)])
    times = np.array([(exact,), (exact + 7,), (UNDEF_PRICE,), (0,), (-1,)], undeclared(declared))
    found = arrow_table(Table(declared, 1.0).shown(times))["at"]
    assert found.type == pa.timestamp("ns", "UTC")
    assert found.cast(pa.int64()).to_pylist() == [exact, exact + 7, None, 0, -1]
    assert found[:1].cast(pa.timestamp("us", "UTC")).to_pylist() == [at]
