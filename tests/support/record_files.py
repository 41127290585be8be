"""Files of records in all formats, as handlers emit them."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RECORD = np.dtype(
    [
        ("number", "<i8"),
        ("sequence", "<i8"),
        ("ts", "<i8"),
        ("instrument_id", "<u4"),
        ("price", "<i8"),
        ("value", "<f8"),
        ("top", "<i8", 3),
    ]
)


def output(n: int = 1000) -> Any:
    records = np.zeros(n, RECORD)
    records["number"] = np.arange(n) * 3
    records["sequence"] = np.arange(n) * 7 + 1
    records["instrument_id"] = np.arange(n) % 7
    records["value"] = np.where(np.arange(n) % 5 == 0, np.nan, np.sqrt(np.arange(n)))
    records["top"] = np.arange(n)[:, None] + np.arange(3)
    return records


def write(path: Path, records: Any) -> Path:
    """Writes records as the ending says, names of symbols with text formats."""
    names = [f"S{i}" for i in records["instrument_id"].tolist()]
    if path.suffix == ".npy":
        np.save(path, records)
    elif path.name.endswith((".csv", ".csv.gz")):
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow([*RECORD.names, "symbol"])
        for record_, name in zip(records.tolist(), names, strict=True):
            writer.writerow([*record_, name])
        data = text.getvalue().encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        columns = {n: pa.array(records[n].tolist() if n == "top" else records[n]) for n in RECORD.names}
        table = pa.table(columns | {"symbol": names})
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(table, path, row_group_size=300)
        else:
            with pa.ipc.new_file(path, table.schema) as out:
                out.write_table(table, max_chunksize=300)
    return path


FORMATS = ["npy", "parquet", "arrow", "csv", "csv.gz"]
