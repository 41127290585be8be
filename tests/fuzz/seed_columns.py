"""The seeds of fuzz_columns.c: one byte in runs of lengths around those that are counted at once, and ends of lines."""

from __future__ import annotations

from collections.abc import Iterator


def seeds() -> Iterator[tuple[str, bytes]]:
    """One file a byte and length."""
    for byte in (b"\n", b"\r", b'"', b"a"):
        for length in (0, 1, 254, 255, 256, 511):
            yield f"{byte.hex()}-{length}", byte + (byte * length + b"\n,x")
