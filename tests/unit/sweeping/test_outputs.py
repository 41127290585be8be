"""Records of the sets of a sweep, in one file, and each set's digest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from strand.output.emitted import EmittedRecords
from strand.output.fingerprint import OutputDigest
from strand.output.records import merged_dtype
from strand.sweeping import job
from strand.sweeping.job import SetRecords
from strand.symbols import SymbolTable
from strand.tables.columns import Table

parquet = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.python

ALONE = np.dtype([("by", "<i8")])
OF_SETS = merged_dtype(np.dtype([("set", "<u4"), ("by", "<i8")]))
NAMES = SymbolTable(["A", "B"])


def _batch(first: int, n: int) -> EmittedRecords:
    records = np.zeros(n, OF_SETS)
    records["number"] = records["by"] = np.arange(first, first + n)
    records["instrument_id"] = records["number"] % 2
    records["set"] = (7, 3, 5)[first % 3]
    records["set"][::2] = 3
    return EmittedRecords(records, Table(OF_SETS, 1.0), NAMES)


@pytest.mark.parametrize("held", [1, 1 << 16])
def test_each_set_has_the_digest_of_its_records_alone(
    held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "HELD_RECORDS", held)
    batches = [_batch(first, 100) for first in range(0, 600, 100)]
    sink = SetRecords(tmp_path / "a.parquet", ALONE, [3, 5, 7, 9])
    for batch in batches:
        sink.write(batch)
    sink.close()
    assert not (tmp_path / "a.parquet").exists()
    found = sink.complete(NAMES, 1.0)
    everything = np.concatenate([np.asarray(batch) for batch in batches])
    for number in (3, 5, 7, 9):
        mine = everything[everything["set"] == number]
        alone = np.zeros(len(mine), merged_dtype(ALONE))
        for name in alone.dtype.names or ():
            alone[name] = mine[name]
        expected = OutputDigest(alone.dtype, NAMES)
        expected.add(alone)
        assert (found[number].records, found[number].digest()) == (len(mine), expected.digest())
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table["set"].to_pylist() == everything["set"].tolist()
    assert table["by"].to_pylist() == everything["by"].tolist()


def test_an_output_without_records_has_a_file_of_the_same_columns(tmp_path: Path) -> None:
    empty, full = (SetRecords(tmp_path / f"{name}.parquet", ALONE, [3, 5, 7]) for name in ("empty", "full"))
    full.write(_batch(0, 9))
    for sink in (empty, full):
        sink.complete(NAMES, 1.0)
    assert parquet.read_schema(tmp_path / "empty.parquet") == parquet.read_schema(tmp_path / "full.parquet")
    assert len(parquet.read_table(tmp_path / "empty.parquet")) == 0


def test_what_is_aborted_leaves_no_file(tmp_path: Path) -> None:
    sink = SetRecords(tmp_path / "a.parquet", ALONE, [3, 5, 7])
    sink.write(_batch(0, 9))
    sink.close()
    sink.abort()
    sink.abort()
    assert not list(tmp_path.iterdir())
