"""Files from elsewhere: what is refused before a reader sees it, and pieces of what is inflated."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import pytest
from byte_streams import TEXT, write
from hypothesis import given
from hypothesis import strategies as st

from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError
from strand.feeds.io.files import MemberReader, PieceReader, read_head, regular_file, small_text
from strand.feeds.io.streams import InflateLimits, open_stream

pytestmark = pytest.mark.python


def test_only_a_file_that_can_be_read_again_is_a_regular_one(tmp_path: Path) -> None:
    path = write(tmp_path, b"data")
    assert regular_file(str(path)) == path
    assert [read_head(path, size) for size in (0, 2, 9)] == [b"", b"da", b"data"]
    os.mkfifo(tmp_path / "pipe")
    for other, words in (("none", "no such file"), (".", "is a directory"), ("pipe", "not a regular file")):
        with pytest.raises(FeedError, match=words):
            regular_file(tmp_path / other)
    with pytest.raises(TruncatedFeedError, match="the file is empty"):
        regular_file(write(tmp_path, b""))


def test_a_users_text_is_utf8_with_or_without_its_mark_and_has_an_end(tmp_path: Path) -> None:
    for data in ("Größe".encode(), b"\xef\xbb\xbf" + "Größe".encode()):
        assert small_text(write(tmp_path, data), "symbols") == "Größe"
    for path, words in (
        (write(tmp_path, b"\xff"), "cannot be read"),
        (tmp_path / "none", "cannot be read"),
        (Path("/dev/zero"), "below 64 MiB"),
    ):
        with pytest.raises(ConfigurationError, match=f"^symbols: .*{words}"):
            small_text(path, "symbols")


LONG = TEXT * 50  # more than is read at once
PACKED = gzip.compress(LONG, 1)


@given(sizes=st.lists(st.integers(0, 2 << 20), max_size=5))
def test_pieces_of_any_size_are_the_stream_in_order(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    reader = PieceReader(open_stream(write(tmp_path_factory.getbasetemp(), PACKED, "pieces.gz")))
    at = 0
    for size in sizes:
        assert reader.read(size) == LONG[at : at + size]
        at = min(at + size, len(LONG))
        assert reader.bytes_out == at
    assert reader.read(1 << 40) == LONG[at:]  # no memory is taken for what is not there
    reader.close()


def test_a_member_gives_what_comes_before_its_fault_first(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("day.csv", TEXT)
        (member,) = archive.infolist()
    path = tmp_path / "a.zip"
    path.write_bytes(path.read_bytes().replace(TEXT[-20:], b"x" * 20, 1))
    reader = MemberReader(member, path, InflateLimits())
    assert reader.name == "day.csv"
    assert reader.read(len(TEXT) - 20) == TEXT[:-20]
    with pytest.raises(FormatError, match="checksum"):
        while reader.read(1000):
            pass
    reader.close()
