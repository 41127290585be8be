"""Limits on the size that Parquet and Arrow files expand to, by the sizes they declare: the same limits as for gzip."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from strand.errors import FormatError
from strand.feeds.io.bytestream import InflateLimits

__all__ = ["VALUE_BYTES", "Expansion"]

#: Bytes that a row takes at least, whatever its pages or buffers hold.
VALUE_BYTES: Final = 8


class Expansion:
    """Counts bytes read and bytes made of them, and checks the counts against the limits. Raises FormatError.

    ``size``: the bytes of the file, where they are known. No more are counted as read, whatever the file claims.
    """

    def __init__(self, limits: InflateLimits | None, path: Path | str, size: int | None = None) -> None:
        self._limits = InflateLimits.of(limits)
        self._path = path
        self._size = size
        self._made = self._read = 0

    def check(self, made: int, read: int, what: str) -> None:
        """Checks one step that makes ``made`` bytes of ``read``."""
        if excess := self._limits.excess(made, read):
            raise FormatError(f"{what}: {excess}", path=self._path)

    def add(self, made: int, read: int, what: str) -> None:
        """Counts a step that makes ``made`` bytes of ``read``, and checks it alone and the sums so far."""
        self.check(made, read, what)
        self._made += made
        self._read += read if self._size is None else min(read, self._size - self._read)
        self.check(self._made, self._read, what)
