"""The columns of an output's records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strand import Dispatcher, batch_handler
from strand.diff.records import open_table
from strand.output.files import OutputFile
from strand.output.records import AT_END, AT_TIMER, NO_SEQUENCE, merged_dtype
from strand.symbols import SymbolTable

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


pytestmark = pytest.mark.python


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
