"""A table as a Parquet file, and what is read of it through rules for its columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from reading import ticks_of

MS = 1_700_000_000_000


ROWS: dict[str, list[Any]] = {
    "when": [MS, MS + 1, MS + 2, MS + 2],
    "px": [101, 0, 99, 12345],
    "qty": [5, 7, 0, 3],
    "way": ["buy", "sell", "buy", "both"],
    "what": ["new", "gone", "deal", "new"],
    "id": [7, 8, 9, 10],
}


def table(path: Path, rows: dict[str, Any] = ROWS) -> Path:
    """Rows as a file, in which a column ``ts`` of whole numbers has times of ns."""
    if "ts" in rows and all(isinstance(value, int) for value in rows["ts"]):
        rows = {**rows, "ts": pa.array(rows["ts"], pa.timestamp("ns", "UTC"))}
    pq.write_table(pa.table(rows), path)
    return path


def read(feed: Any) -> npt.NDArray[Any]:
    with feed:
        return ticks_of(feed)


def own_profile(path: Path, text: str) -> Path:
    path.write_text(f'name = "own"\n{text}')
    return path
