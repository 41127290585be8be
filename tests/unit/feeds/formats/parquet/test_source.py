"""Columns have one name each, and text of pyarrow's errors is what it says first."""

from __future__ import annotations

from pathlib import Path

import pytest
from parquet_files import arrow, pa, parquet

from strand.errors import FormatError
from strand.feeds.formats.parquet.reader import ParquetFeed
from strand.feeds.formats.parquet.sources import first_line, names_of

pytestmark = pytest.mark.python


def test_two_columns_of_one_name_are_refused_in_both_kinds_of_files(tmp_path: Path) -> None:
    twice = pa.table([[1], [2], [3], [4]], names=["timestamp", "price", "size", "price"])
    for path in (parquet(tmp_path, twice), arrow(tmp_path, twice), arrow(tmp_path, twice, "b.arrow", stream=True)):
        with pytest.raises(FormatError, match="more than one column named 'price'") as caught:
            ParquetFeed(path, symbol="A")
        assert caught.value.path == path
    assert names_of(twice.schema.remove(3), "a") == ["timestamp", "price", "size"]


def test_an_error_of_several_lines_is_told_by_its_first() -> None:
    assert first_line(pa.ArrowInvalid("damaged\n/arrow/file.cc:12  at Read")) == "damaged"
    assert first_line(pa.ArrowInvalid()) == "ArrowInvalid"
