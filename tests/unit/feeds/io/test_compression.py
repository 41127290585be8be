"""Inflated streams: members, cuts, flipped bits, and bounds, whatever the packing."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from byte_streams import JOINED, TEXT, drain, read, write
from packing import PACKERS

from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.io import compression
from strand.feeds.io.streams import InflateLimits, open_stream

pytestmark = pytest.mark.python


def tried(path: Path) -> tuple[bytes, FeedError | None]:
    """As ``read``, with faults that show when the stream is opened."""
    try:
        return read(path)
    except FeedError as error:
        return b"", error


@pytest.mark.parametrize("packing", JOINED)
def test_several_members_are_one_stream(tmp_path: Path, packing: str, inflater: None) -> None:
    members = b"".join(PACKERS[packing](TEXT[at : at + 1700]) for at in range(0, len(TEXT), 1700))
    assert read(write(tmp_path, members)) == (TEXT, None)


@pytest.mark.parametrize("packing", JOINED)
def test_what_follows_the_last_member_is_an_error_behind_all_bytes(tmp_path: Path, packing: str) -> None:
    data, error = read(write(tmp_path, PACKERS[packing](TEXT) + b"and so on and on"))
    assert data == TEXT
    assert isinstance(error, FormatError)
    assert error.offset == len(TEXT)


@pytest.mark.parametrize("packing", PACKERS)
def test_a_file_cut_at_any_byte_gives_a_prefix_then_a_typed_error(
    tmp_path: Path, packing: str, inflater: None, one_in: Callable[[int], int]
) -> None:
    packed = PACKERS[packing](TEXT[:3000])
    for cut in range(8, len(packed), one_in(3)):
        data, error = tried(write(tmp_path, packed[:cut]))
        assert isinstance(error, TruncatedFeedError), cut
        assert data == TEXT[: len(data)]


@pytest.mark.parametrize("packing", PACKERS)
def test_flipped_bits_never_change_bytes_unseen(
    tmp_path: Path, packing: str, inflater: None, one_in: Callable[[int], int]
) -> None:
    text = TEXT[:3000]
    packed = PACKERS[packing](text)
    for at in range(8, len(packed), one_in(3)):
        broken = bytearray(packed)
        broken[at] ^= 1 << at % 8
        data, error = tried(write(tmp_path, bytes(broken)))
        # A checksum lies behind the data it is of: what was given before it said so may have been wrong.
        assert error is not None or data == text, at


@pytest.mark.parametrize("packing", PACKERS)
def test_what_comes_before_a_fault_does_not_hang_on_the_size_of_reads(
    tmp_path: Path, packing: str, inflater: None
) -> None:
    packed = PACKERS[packing](b"".join(b"%d %d\n" % (i, i * i) for i in range(90_000)))
    limits = InflateLimits(max_bytes=1 << 20)
    ends = set()
    for at in range(len(packed) // 16, len(packed), len(packed) // 4):
        broken = bytearray(packed)
        broken[at : at + 8] = bytes(8)
        path = write(tmp_path, bytes(broken))
        data, error = read(path, limits, 2 << 20)
        assert error is not None
        ends.add(len(data))
        for piece in (4093, 1 << 16):
            again = read(path, limits, piece)
            assert (again[0], str(again[1])) == (data, str(error))
    assert len(ends) > 1


@pytest.mark.parametrize("packing", ["gzip", "bz2", "xz", "zip"])
def test_a_fault_behind_the_head_does_not_hide_it(tmp_path: Path, packing: str, inflater: None) -> None:
    packed = bytearray(PACKERS[packing](TEXT))
    packed[-4 if packing == "gzip" else packed.index(b"PK\x01\x02") + 16 if packing == "zip" else -8] ^= 1
    stream = open_stream(write(tmp_path, bytes(packed)))
    assert stream.head() == TEXT[:4096]
    data, error = drain(stream)
    assert isinstance(error, FormatError)
    assert data[:4096] == TEXT[:4096]


@pytest.mark.parametrize("packing", PACKERS)
def test_what_expands_too_far_is_refused_behind_what_was_allowed(tmp_path: Path, packing: str) -> None:
    path = write(tmp_path, PACKERS[packing](bytes(8 << 20)))
    data, error = read(path, InflateLimits(ratio_after_bytes=1 << 20), 1 << 16)
    assert isinstance(error, FormatError)
    assert "max_ratio = 200" in str(error)
    assert 1 << 20 < len(data) < 3 << 20
    data, error = read(path, InflateLimits(max_bytes=2 << 20), 1 << 16)
    assert isinstance(error, FormatError)
    assert "max_bytes" in str(error)
    assert len(read(path, None, 1 << 20)[0]) == 8 << 20


@pytest.mark.parametrize("flags", range(32))
def test_gzip_headers_of_every_kind_are_read_wherever_a_piece_ends(
    tmp_path: Path, flags: int, inflater: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options of RFC 1952, as its section 2.3 lays them out: extra field, name, comment, CRC of the header."""
    header = b"\x1f\x8b\x08" + bytes([flags]) + bytes(5) + b"\xff"
    header += b"\x07\0\x0aB\x03\0\0\1\2" if flags & 4 else b""
    header += b"day.csv\0" if flags & 8 else b""
    header += b"a comment\0" if flags & 16 else b""
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF) if flags & 2 else b""

    def member(text: bytes) -> bytes:
        packer = zlib.compressobj(6, zlib.DEFLATED, -15)
        return header + packer.compress(text) + packer.flush() + struct.pack("<II", zlib.crc32(text), len(text))

    path = write(tmp_path, b"".join(member(TEXT[at : at + 40]) for at in range(0, 400, 40)))
    assert gzip.decompress(path.read_bytes()) == TEXT[:400]
    for piece in (1, 2, 3, 5, 7, 11, 64, 1 << 17):
        monkeypatch.setattr(compression, "_INPUT_PIECE", piece)
        assert read(path) == (TEXT[:400], None), piece


def test_a_gzip_header_that_is_wrong_is_told(tmp_path: Path, inflater: None) -> None:
    good = bytearray(gzip.compress(TEXT, mtime=0))
    for at, value, told in ((2, 7, "compression method 7"), (3, 0x20, "header flags"), (3, 2, "header crc")):
        broken = good.copy()
        broken[at] = value
        _, error = tried(write(tmp_path, bytes(broken)))
        assert isinstance(error, FormatError), told
        assert told in str(error)
    endless = good[:3] + b"\x08" + good[4:10] + b"n" * (2 << 20)
    _, error = tried(write(tmp_path, bytes(endless)))
    assert isinstance(error, FormatError)
    assert "header is longer than 1,048,576 bytes" in str(error)
