"""Parquet files: only the columns that are used are read, and from a file alone."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pytest
from parquet_files import pa, parquet, table
from reading import read

from strand.errors import FeedError, FormatError
from strand.feeds import open as open_feed
from strand.feeds.formats.parquet.reader import ParquetFeed

pytestmark = pytest.mark.python


def test_only_columns_that_are_used_are_read(tmp_path: Path) -> None:
    path = parquet(tmp_path, table(1000, junk=pa.array([str(i) * 9 for i in range(1000)])), compression="none")
    whole = bytearray(path.read_bytes())
    at = whole.index(b"7" * 9)  # the junk column's pages
    whole[at : at + 2000] = b"\xff" * 2000
    path.write_bytes(whole)
    assert len(read(ParquetFeed(path))[0]) == 1000
    with pytest.raises(FormatError):
        list(ParquetFeed(path, columns={"symbol": "junk"}).batches())


def test_parquet_that_cannot_be_read_from_its_end_says_what_to_do(tmp_path: Path) -> None:
    data = parquet(tmp_path, table()).read_bytes()
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(data))
    with pytest.raises(FeedError, match="gzip data does not allow: decompress it into a file"):
        open_feed(tmp_path / "a.parquet.gz")
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(data,))
    writer.start()
    with pytest.raises(FeedError, match="a pipe does not allow: store it in a file"):
        open_feed(tmp_path / "pipe")
    writer.join()
