"""Records that know the units of their numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from strand.output.emitted import EmittedRecords
from strand.tables.columns import Table
from strand.units import PRICE, SIZE

pytestmark = pytest.mark.python


RECORD = np.dtype([("instrument_id", "<u4"), ("price", PRICE), ("size", SIZE)])


@pytest.fixture
def records() -> EmittedRecords:
    table = Table(RECORD, 0.5)
    found: Any = np.zeros(3, table.plain)
    found["instrument_id"], found["price"], found["size"] = [1, 0, 1], [1_500_000_000] * 3, [1, 2, 3]
    return EmittedRecords.of(found, table, ["AA", "BB"])


def test_columns_are_in_natural_units_with_the_names_of_symbols(records: EmittedRecords) -> None:
    found = records.columns()
    assert list(found) == ["symbol", "instrument_id", "price", "size"]
    assert found["symbol"].tolist() == ["BB", "AA", "BB"]
    assert found["price"].tolist() == [1.5] * 3
    assert found["size"].tolist() == [0.5, 1.0, 1.5]
    assert records.columns("integer")["price"].tolist() == [1_500_000_000] * 3


def test_a_slice_knows_its_units_and_a_field_is_a_plain_array(records: EmittedRecords) -> None:
    assert records[1:].units == records.units
    assert records.units["size"].scale == Decimal("0.5")
    assert records[1:].columns()["symbol"].tolist() == ["AA", "BB"]
    assert type(records["price"]) is np.ndarray
    assert records["size"].tolist() == [1, 2, 3]


def test_records_of_other_columns_have_no_units_of_these(records: EmittedRecords) -> None:
    other = np.zeros(1, [("price", "<i8")]).view(EmittedRecords)
    assert other.units["price"].quantity == "raw"
    assert other.columns()["price"].tolist() == [0]
