"""Records of a file that a run wrote, read again for a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strand.errors import FeedError
from strand.report.market import columns_of, written_records

pytestmark = pytest.mark.python


RECORD = np.dtype([("ts", "<i8"), ("instrument_id", "<u4"), ("price", "<f8")])


def write(path: Path) -> np.ndarray[Any, Any]:
    records = np.zeros(5, RECORD)
    records["ts"], records["instrument_id"] = [10, 20, 30, 40, 50], [0, 1, 2, 1, 0]
    records["price"] = [0.5, 1.5, 2.5, 3.5, 4.5]
    if path.suffix == ".npy":
        np.save(path, records)
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        columns = {name: pa.array(records[name]) for name in ("instrument_id", "price")}
        times = pa.array(records["ts"].astype("<M8[ns]"))
        pyarrow.parquet.write_table(pa.table({"ts": times, **columns}), path)
    return records


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test_chosen_symbols_and_columns_come_in_the_files_order(tmp_path: Path, ending: str) -> None:
    records = write(tmp_path / f"bars{ending}")
    assert columns_of(tmp_path / f"bars{ending}") == set(RECORD.names or ())
    found = written_records(tmp_path / f"bars{ending}", ["ts", "price"], [1, 2])
    assert found.dtype.names == ("ts", "price")
    assert found["ts"].tolist() == records["ts"][[1, 2, 3]].tolist()
    assert found["price"].tolist() == [1.5, 2.5, 3.5]
    assert not found.flags.writeable


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test_a_file_that_is_gone_or_none_of_records_is_an_error_of_the_feed(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"bars{ending}"
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    with pytest.raises(FeedError, match="cannot be read again"):
        written_records(path, ["ts"], [0])
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(FeedError, match="cannot be read again"):
        columns_of(path)
