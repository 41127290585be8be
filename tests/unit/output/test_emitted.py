"""Records that know the units of their numbers."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strand import Dispatcher, batch_handler
from strand.diff.records import open_table
from strand.errors import UnknownNameError
from strand.output.emitted import EmittedRecords
from strand.output.files import OutputFile
from strand.output.records import AT_END, AT_TIMER, NO_SEQUENCE, merged_dtype
from strand.output.sinks import files_and_sinks
from strand.symbols import SymbolTable
from strand.tables.columns import Table
from strand.units import PRICE, SIZE

pytestmark = pytest.mark.python


RECORD = np.dtype([("instrument_id", "<u4"), ("price", PRICE), ("size", SIZE)])


@pytest.fixture
def records() -> EmittedRecords:
    table = Table(RECORD, 0.5)
    found: Any = np.zeros(3, table.plain)
    found["instrument_id"], found["price"], found["size"] = [1, 0, 1], [1_500_000_000] * 3, [1, 2, 3]
    return EmittedRecords(found, table, ["AA", "BB"])


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


def test_numpy_takes_the_records_as_they_are(records: EmittedRecords) -> None:
    whole = np.asarray(records)
    whole["size"][0] = 7
    assert type(whole) is np.ndarray
    assert records["size"].tolist() == [7, 2, 3]
    copied = np.array(records, copy=True)
    copied["size"][0] = 9
    assert records["size"][0] == 7
    assert whole.tolist() == records.tolist()
    assert whole.tobytes() == records.tobytes()
    assert (records == whole).all()


def test_records_that_differ_are_found_as_those_that_are_alike(records: EmittedRecords) -> None:
    other = np.array(records, copy=True)
    other["size"][1] = 9
    assert (records == other).tolist() == [True, False, True]
    assert (records != other).tolist() == [False, True, False]
    assert (other != records).tolist() == [False, True, False]
    assert not (records != records[:]).any()


def test_what_arrays_alone_have_is_refused_with_where_it_is(records: EmittedRecords) -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'shape': numpy\.asarray\(records\)\.shape$"):
        records.shape  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'sizes'$"):
        records.sizes  # noqa: B018
    assert (pickle.loads(pickle.dumps(records)) == records).all()
    assert copy.deepcopy(records).units == records.units


def test_places_and_masks_give_records_and_a_number_one_of_them(records: EmittedRecords) -> None:
    assert records[[2, 0]].columns()["size"].tolist() == [1.5, 0.5]
    assert records[records["size"] > 1].columns()["symbol"].tolist() == ["AA", "BB"]
    assert records[1].item() == (0, 1_500_000_000, 2)
    assert [record["size"] for record in records] == [1, 2, 3]
    assert records[["price", "size"]].tolist() == [(1_500_000_000, 1), (1_500_000_000, 2), (1_500_000_000, 3)]


def test_records_without_a_table_have_units_of_their_own() -> None:
    other = EmittedRecords(np.zeros(1, [("price", "<i8")]))
    assert other.units["price"].quantity == "raw"
    assert other.columns()["price"].tolist() == [0]


def test_a_name_that_no_field_has_is_answered_with_the_near_one_or_with_the_way_to_a_symbol(
    records: EmittedRecords,
) -> None:
    with pytest.raises(UnknownNameError, match="no field is named 'pirce': did you mean 'price'"):
        records["pirce"]
    with pytest.raises(UnknownNameError, match="'BB' is a symbol, and no field of records; take ") as caught:
        records["BB"]
    way = str(caught.value).partition("take ")[2]
    assert (eval(way)["instrument_id"] == records.symbols.index("BB")).all()


# ---- The columns of an output's records


ROW = [("ticks", "<u8")]


def test_records_of_another_dtype_carry_the_time_0_and_no_sequence(c_handlers: Path) -> None:
    del c_handlers
    dtype = np.dtype([("key", "<u4"), ("value", "<u4")])

    @batch_handler(state=ROW, outputs={"x": [("value", "<u4")]})
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit((int(ticks["value"][-1]),), at=len(ticks) - 1)

    records = np.array([(1, 5), (0, 6), (1, 7)], dtype)
    with Dispatcher(2, on_ticks, workers=1, cores=None, dtype=dtype, key="key", batch_ticks=1) as d:
        for record in records:
            d.publish(record)
            d.drain()
    assert d.outputs["x"].array().tolist() == [(0, -1, 0, 1, 5), (1, -1, 0, 0, 6), (2, -1, 0, 1, 7)]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "npy"])
def test_a_record_that_no_tick_emitted_has_no_number_and_no_sequence_in_tables(tmp_path: Path, ending: str) -> None:
    records = np.zeros(4, merged_dtype(np.dtype([("n", "<i8")])))
    records["number"] = [0, AT_TIMER, 2**40, AT_END]
    records["sequence"] = [7, NO_SEQUENCE, 2**39, NO_SEQUENCE]
    path = tmp_path / f"o.{ending}"
    file = OutputFile(path, records.dtype, SymbolTable(["A"]))
    file.write(records)
    file.close()
    expected: list[Any] = {"csv": ["0", "", str(2**40), ""], "npy": [0, -1, 2**40, -2]}.get(
        ending, [0, None, 2**40, None]
    )
    (piece,) = open_table(path).pieces()
    assert piece["number"].tolist() == expected
    missing = {"csv": "", "npy": -1}.get(ending)
    assert [str(n) for n in piece["sequence"]] == [str(n) for n in (7, missing, 2**39, missing)]


# ---- Where an output goes: a path or a sink


class Nothing:
    def write(self, batch: Any) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


def test_paths_and_sinks_are_told_apart() -> None:
    sink = Nothing()
    assert files_and_sinks({"a": "a.npy", "b": Path("b.csv"), "c": sink}) == (
        {"a": "a.npy", "b": Path("b.csv")},
        {"c": sink},
    )
    assert files_and_sinks(None) == ({}, {})
