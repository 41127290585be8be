"""Zstandard streams, frame by frame: windows, frames to be skipped, corrupt blocks."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

import pytest
from byte_streams import TEXT, read, write
from packing import pack_zstd

from strand.errors import FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds.io.streams import open_stream

pytestmark = pytest.mark.python


def test_a_zstd_window_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    wide = zstandard.ZstdCompressionParameters(window_log=28, write_content_size=False)
    packed = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    path = write(tmp_path, packed.compress(TEXT) + packed.flush())
    data, error = read(path)
    assert data == b""
    assert isinstance(error, FormatError)
    assert "window" in str(error)


def test_zstd_frames_that_are_to_be_skipped_are_skipped(tmp_path: Path) -> None:
    skippable = struct.pack("<II", 0x184D2A53, 300_000) + bytes(300_000)
    packed = skippable + pack_zstd(TEXT[:1000]) + skippable + pack_zstd(TEXT[1000:]) + skippable
    assert read(write(tmp_path, packed)) == (TEXT, None)
    data, error = read(write(tmp_path, packed[:-1]))
    assert data == TEXT
    assert isinstance(error, TruncatedFeedError)


def test_zstd_blocks_before_a_corrupt_one_are_given(tmp_path: Path) -> None:
    noise = random.Random(5).randbytes(1 << 20)
    packed = bytearray(pack_zstd(noise))
    packed[-6] ^= 1
    packed[600_000] ^= 1
    data, error = read(write(tmp_path, bytes(packed)), None, 1 << 16)
    assert isinstance(error, FormatError)  # the checksum at the end: blocks of noise are stored as they are
    assert len(data) >= 7 << 17


def test_without_its_package_zstd_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, pack_zstd(TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"strand\[zstd\]"):
        open_stream(path)
