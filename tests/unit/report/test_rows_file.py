"""Rows in a file."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest

import strand
from strand.feeds.sample import sample_path
from strand.report.rows_file import rows_with_names, write_rows

pytestmark = pytest.mark.python


@pytest.mark.parametrize("ending", [".npy", ".csv", ".csv.gz"])
def test_rows_are_written_with_names_and_read_back(tmp_path: Path, ending: str) -> None:
    result = strand.replay(sample_path(), "count", limit=5000)
    path = tmp_path / f"rows{ending}"
    write_rows(path, result)
    table = rows_with_names(result)
    assert table["ticks"].sum() == 5000
    if ending == ".npy":
        np.testing.assert_array_equal(np.load(path, allow_pickle=False), table)
        return
    data = path.read_bytes()
    if ending.endswith(".gz"):
        data = gzip.decompress(data)
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert [r["symbol"] for r in rows] == table["symbol"].tolist()
    assert [int(r["ticks"]) for r in rows] == table["ticks"].tolist()
    assert not [p for p in tmp_path.iterdir() if p != path]
