"""A file that no reader knows: the error guesses its kind from its bytes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from strand import feeds
from strand.errors import UnknownFormatError

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\0\5T\0\0\x1c\x20", "looks like ITCH 4.1"),
        (b'{"ts": 1, "px": "3.5"}\n', "looks like JSON lines"),
        (b'1700000000 {"ts": 1}\n', "looks like JSON lines"),
        (b"[1, 2]\n", None),
        (b"Date,Open,High\n", "give a profile"),
        (b"8=FIX.4.2\x019=70\x01", "looks like FIX"),
        (b"<!DOCTYPE html>\n<html>", "looks like a web page"),
        (b"\x89HDF\r\n\x1a\n\0", "looks like HDF5"),
        (b"\x80\x04\x95\x10", "looks like a pickle"),
        (b"Dear Sir\n", None),
    ],
)
def test_other_content_is_told_by_what_it_looks_like(tmp_path: Path, data: bytes, words: str | None) -> None:
    for path, packed in (("a.dat", data), ("a.dat.gz", gzip.compress(data))):
        (tmp_path / path).write_bytes(packed)
        with pytest.raises(UnknownFormatError) as raised:
            feeds.open(tmp_path / path)
        said = str(raised.value)
        assert "starts with" in said
        assert words in said if words is not None else "looks like JSON" not in said and "ITCH 4" not in said
