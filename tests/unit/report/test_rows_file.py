"""Rows in a file."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pytest

import strand
from strand.errors import ConfigurationError, MissingExtraError
from strand.feeds.sample import sample_path
from strand.report.rows_file import check_rows_path, rows_with_names, write_rows

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


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_table_of_rows_has_the_types_and_values_that_the_result_has(tmp_path: Path, ending: str) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    result = strand.replay(sample_path(), "depth", limit=5000)
    path = tmp_path / f"rows{ending}"
    write_rows(path, result)
    found = dataset.dataset(path, format="parquet" if ending == ".parquet" else "ipc").to_table()
    whole = result.rows.of(np.flatnonzero(result.ticks_by_symbol)).to_arrow()
    assert found.schema.equals(whole.schema)
    assert found.to_pylist() == whole.to_pylist()
    assert found.num_rows == np.count_nonzero(result.ticks_by_symbol)
    assert not [p for p in tmp_path.iterdir() if p != path]


def test_a_table_of_rows_per_day_has_each_day_s(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    two = [tmp_path / name for name in ("20260105.itch50", "20260106.itch50")]
    for day in two:
        day.write_bytes(gzip.decompress(sample_path().read_bytes())[:400_000])
    result = strand.replay(two, "count", per_day=True, feed_options={"on_bad_record": "skip"})
    write_rows(tmp_path / "rows.parquet", result)
    found = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert found.column_names[:2] == ["day", "symbol"]
    assert found["day"].to_pylist() == rows_with_names(result)["day"].tolist()
    assert found["symbol"].to_pylist() == rows_with_names(result)["symbol"].tolist()


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_rows_of_a_missing_package_are_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"strand\[parquet\]"):
        check_rows_path(tmp_path / f"rows{ending}")
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(ConfigurationError, match=r"rows\.csv is a folder"):
        check_rows_path(tmp_path / "rows.csv")
