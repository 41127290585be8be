"""The first record that differs between two files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from record_files import FORMATS, RECORD, output, write

from strand.diff import diff_records
from strand.errors import ConfigurationError, FeedError, FormatError, UnknownFormatError

pytestmark = pytest.mark.python


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("field", ["number", "sequence", "price", "value", "top"])
def test_the_first_record_that_differs_is_found(tmp_path: Path, ending: str, field: str) -> None:
    records = output()
    a = write(tmp_path / f"a.{ending}", records)
    assert diff_records(a, a) == (None, 1000)
    if field == "top":
        records["top"][612, 1] = -5
    else:
        records[field][612] += 1
    records["price"][800] = 9
    found, before = diff_records(a, write(tmp_path / f"b.{ending}", records))
    assert found is not None
    assert before == found.record == 612
    assert found.symbol == ("3" if ending == "npy" else "S3")
    assert int(found.number or 0) == 1836
    assert field == "sequence" or int(found.sequence or 0) == 4285
    assert list(found.fields) == [field]
    assert found.only_in is None
    x, y = found.fields[field]
    assert x != y


@pytest.mark.cells(1)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("at", [0, 299, 999])
@pytest.mark.parametrize("side", ["a", "b"])
def test_a_record_that_only_one_file_has_is_found(tmp_path: Path, ending: str, at: int, side: str) -> None:
    records = output()
    whole = write(tmp_path / f"whole.{ending}", records)
    less = write(tmp_path / f"less.{ending}", np.delete(records, at))
    found, _ = diff_records(whole, less) if side == "a" else diff_records(less, whole)
    assert found is not None
    assert (found.record, found.only_in, int(found.number or 0)) == (at, side, at * 3)


def test_zeros_of_either_sign_differ_and_a_nan_is_as_good_as_another(tmp_path: Path) -> None:
    records = output()
    a = write(tmp_path / "a.npy", records)
    records["value"][0] = -np.nan
    assert diff_records(a, write(tmp_path / "b.npy", records))[0] is None
    records["value"][1] = 0.0
    a = write(tmp_path / "a.npy", records)
    records["value"][1] = -0.0
    found, _ = diff_records(a, write(tmp_path / "b.npy", records))
    assert found is not None
    assert found.record == 1


def test_npy_and_parquet_are_compared_by_their_columns_and_csv_is_not(tmp_path: Path) -> None:
    records = output()[["number", "price"]].copy()
    np.save(tmp_path / "a.npy", records)
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pa.table({n: pa.array(records[n]) for n in ("number", "price")})
    pyarrow.parquet.write_table(table, tmp_path / "b.parquet")
    assert diff_records(tmp_path / "a.npy", tmp_path / "b.parquet")[0] is None
    with pytest.raises(ConfigurationError, match="CSV"):
        diff_records(tmp_path / "a.npy", write(tmp_path / "c.csv", output()))


# ---- Files of records, read by their columns


def test_other_columns_are_named(tmp_path: Path) -> None:
    records = output()
    a = write(tmp_path / "a.npy", records)
    fields = [(n, np.dtype("<i4") if n == "price" else RECORD[n]) for n in RECORD.names if n != "ts"]
    np.save(tmp_path / "b.npy", np.zeros(10, fields))
    found, compared = diff_records(a, tmp_path / "b.npy")
    assert found is not None
    assert (found.record, compared) == (None, 0)
    assert found.columns == ("only A has 'ts'", "'price' is int64 in A, int32 in B")


def test_what_is_no_file_of_records_is_an_error(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.parquet", output())
    with pytest.raises(FeedError, match="cannot be read"):
        diff_records(whole, tmp_path / "nothing")
    for data, error in (
        (b"\x00\x01\x02", UnknownFormatError),
        (whole.read_bytes()[:-10], FormatError),
        (b"\x93NUMPY\x01\x00", FormatError),
        (b"ARROW1\x00\x00", FormatError),
        (b"\x1f\x8b\x08rubb", FormatError),
    ):
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(error, match="bad"):
            diff_records(whole, tmp_path / "bad")
    (tmp_path / "bad").write_text("a,b\n1,2\n3\n")
    with pytest.raises(FormatError, match="line 3"):
        diff_records(tmp_path / "bad", tmp_path / "bad")
