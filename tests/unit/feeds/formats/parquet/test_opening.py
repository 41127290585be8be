"""Parquet and Arrow files are recognised by their first bytes. What cannot be opened is refused, with what to do."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest
from parquet_files import arrow, parquet, table

from strand.errors import FeedError, FormatError, MissingExtraError
from strand.feeds import open as open_feed
from strand.feeds.formats.parquet.reader import ParquetFeed, recognise

pytestmark = pytest.mark.python


def test_recognition_is_by_content(tmp_path: Path) -> None:
    assert recognise(parquet(tmp_path, table()).read_bytes()[:4096])
    assert recognise(arrow(tmp_path, table()).read_bytes()[:4096])
    assert recognise(arrow(tmp_path, table(), stream=True).read_bytes()[:4096])
    for other in (b"", b"PAR", b"DBN\1....", b"\xff" * 64, b"time,price\n", bytes(64)):
        assert not recognise(other)


def test_a_compressed_parquet_file_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress(parquet(tmp_path, table()).read_bytes()))
    with pytest.raises(FeedError, match="decompress"):
        open_feed(path)


def test_a_file_without_times_or_without_the_package_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path, table(2, timestamp=None))
    with pytest.raises(FormatError, match="times"):
        ParquetFeed(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="parquet"):
        ParquetFeed(path)
