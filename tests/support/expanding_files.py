"""Small Parquet and Arrow files that expand to many rows, read in a process of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from warm_python import run_warm

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

READ = """
import resource, sys
from strand import feeds
from strand.errors import FeedError
import pyarrow.parquet
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    feed = feeds.open(sys.argv[1], symbol="A")
    print(sum(map(len, feed.batches())))
except FeedError as error:
    print(type(error).__name__, error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


def table(rows: int) -> Any:
    return pa.table({"ts_event": np.zeros(rows, "M8[ns]"), "price": np.zeros(rows, np.int64)})


def write(folder: Path, rows: int, form: str, codec: str) -> Path:
    path = folder / f"a.{form}"
    if form == "parquet":
        pq.write_table(
            table(rows), path, compression=codec, use_dictionary=False, data_page_size=1 << 31, row_group_size=rows,
            write_batch_size=rows, write_page_index=False,
        )  # fmt: skip
        return path
    options = pa.ipc.IpcWriteOptions(compression=codec)
    made = pa.ipc.new_stream if form == "stream" else pa.ipc.new_file
    with made(path, table(1).schema, options=options) as writer:
        writer.write_table(table(rows))
    return path


def read_apart(path: Path) -> tuple[str, int]:
    """Outcome of reading in a process of its own, and the bytes of memory it took."""
    done = run_warm("-c", READ, path)
    assert done.returncode == 0, done.stderr
    said, taken = done.stdout.splitlines()
    return said, int(taken)
