"""The ways to pack a file, by name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable

import pytest

__all__ = ["PACKERS", "pack_zip", "pack_zstd"]


def pack_zstd(data: bytes, **options: bool) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    return bytes(zstandard.ZstdCompressor(write_checksum=True, **options).compress(data))


def pack_zip(data: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("day.csv", data)
    return packed.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": pack_zstd,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zip": pack_zip,
}
