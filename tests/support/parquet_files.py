"""Tables as Parquet and Arrow files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from strand.feeds.base import FeedInfo
from strand.feeds.write.targets import Misfits, ParquetTicks

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
T0 = 1_700_000_000 * 10**9


def table(rows: int = 10, **columns: Any) -> Any:
    """A table with times and symbols; ``columns`` beside them or in their place, None for none."""
    made = {
        "timestamp": pa.array([T0 + i for i in range(rows)], pa.timestamp("ns", "UTC")),
        "symbol": pa.array(["AB"[i % 2] for i in range(rows)]),
        "price": pa.array([1.25] * rows),
    } | columns
    return pa.table({name: column for name, column in made.items() if column is not None})


def parquet(folder: Path, content: Any, **options: Any) -> Path:
    path = folder / "a.parquet"
    pq.write_table(content, path, **options)
    return path


def arrow(folder: Path, content: Any, name: str = "a.arrow", stream: bool = False) -> Path:
    path = folder / name
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), content.schema) as writer:
        writer.write_table(content, max_chunksize=4)
    return path


def write_own(path: Path, ticks: np.ndarray, names: list[str]) -> None:
    with path.open("wb") as file:
        writer = ParquetTicks(file, Misfits("Parquet"))
        for first in range(0, len(ticks), 100):
            writer.write(ticks[first : first + 100], names)
        source = SimpleNamespace(info=FeedInfo("x", "y", date="2020-01-02", venue="V"), symbols=names)
        writer.finish(source)  # type: ignore[arg-type]
