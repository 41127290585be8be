"""Bytes out of files and pipes, whatever they are packed in: all, in bounds, and faults behind what was good."""

from __future__ import annotations

from pathlib import Path

import pytest
from byte_streams import TEXT, drain, read, write
from packing import PACKERS

from strand.feeds.io.streams import open_stream

pytestmark = pytest.mark.python


@pytest.mark.parametrize("piece", [1, 1000, 1 << 20])
@pytest.mark.parametrize("packing", PACKERS)
def test_every_packing_gives_what_was_packed(tmp_path: Path, packing: str, piece: int, inflater: None) -> None:
    data = TEXT[:5000] if piece == 1 else TEXT
    stream = open_stream(write(tmp_path, PACKERS[packing](data), "20200102.bin"))
    assert stream.compression == packing
    assert drain(stream, piece) == (data, None)
    assert stream.bytes_out == len(data)
    assert 0 < stream.bytes_in <= (tmp_path / "20200102.bin").stat().st_size


@pytest.mark.parametrize("packing", PACKERS)
def test_nothing_packed_is_nothing_again(tmp_path: Path, packing: str) -> None:
    assert read(write(tmp_path, PACKERS[packing](b""))) == (b"", None)
