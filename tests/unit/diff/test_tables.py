"""Files of records, read by their columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from record_files import RECORD, output, write

from strand.diff import diff_records
from strand.errors import FeedError, FormatError, UnknownFormatError

pytestmark = pytest.mark.python


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
