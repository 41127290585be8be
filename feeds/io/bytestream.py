"""Byte streams of decoders: the protocol, its base class, and the bounds on a file's expanded size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

from strand.errors import ConfigurationError, FeedError
from strand.options import named_fields
from strand.validate import is_number, whole

__all__ = ["HEAD_BYTES", "ByteStream", "InflateLimits", "InputStream"]

#: A format is recognised by this many decompressed bytes from the start.
HEAD_BYTES: Final = 4096
_PIECE_BYTES: Final = 1 << 20


@named_fields
@dataclass(frozen=True, slots=True)
class InflateLimits:
    """Limits on a compressed file's expansion; beyond them the file is refused as a decompression bomb.

    Args:
        max_ratio: The greatest ratio of bytes out to bytes in.
        max_bytes: The greatest number of bytes out.
        ratio_after_bytes: The ratio is checked once so many bytes are out, because a short run of equal bytes proves
            nothing.
    """

    max_ratio: float = 200.0
    max_bytes: int = 1 << 40
    ratio_after_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if not is_number(self.max_ratio) or self.max_ratio <= 0:
            raise ConfigurationError("max_ratio", f"{self.max_ratio!r} is not a number above 0")
        whole("max_bytes", self.max_bytes, 1)
        whole("ratio_after_bytes", self.ratio_after_bytes, 0)

    @classmethod
    def of(cls, limits: Any) -> InflateLimits:
        """The limits that an option ``limits`` gives.

        Args:
            limits: ``InflateLimits``; None: the default ones.

        Raises:
            ConfigurationError: If ``limits`` is neither ``InflateLimits`` nor None.
        """
        if limits is not None and not isinstance(limits, cls):
            raise ConfigurationError("limits", f"give strand.feeds.InflateLimits(max_ratio=...), not {limits!r}")
        return cls() if limits is None else limits

    def excess(self, made: int, read: int) -> str | None:
        """Fault of an expanded file's size, in words; None if the size is within the limits.

        Args:
            made: Bytes out.
            read: Bytes in.
        """
        if made > self.max_bytes:
            return f"the file expands to more than max_bytes = {self.max_bytes}"
        if made > self.ratio_after_bytes and made > self.max_ratio * read:
            return (
                f"the file expands more than max_ratio = {self.max_ratio:g} times ({read} bytes to {made}); "
                "raise the limit if you trust the file"
            )
        return None


class ByteStream(Protocol):
    """Bytes from the start of an input to its end. One thread at a time."""

    @property
    def bytes_in(self) -> int:
        """Read from the file so far."""
        ...

    @property
    def bytes_out(self) -> int:
        """Handed out so far."""
        ...

    def readinto(self, view: memoryview) -> int:
        """Fills ``view`` from its start, wholly unless the input ends; 0 at the end. Raises FeedError."""
        ...

    def close(self) -> None:
        """Closes the file. May be called again."""
        ...


class InputStream(ABC):
    """A ``ByteStream`` whose start can be looked at first. Data before a fault comes before the fault is raised.

    ``compression`` names what is undone on the way: ``"none"``, ``"gzip"``, ``"zstd"``, ``"bz2"``, ``"xz"``, ``"zip"``.
    ``inflater`` names what does it, None where nothing has to be done.
    """

    compression = "none"
    inflater: str | None = None

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.bytes_out = 0
        self._head = b""

    @property
    @abstractmethod
    def bytes_in(self) -> int:
        """Bytes read from the file so far."""

    @abstractmethod
    def _fill(self, view: memoryview) -> int:
        """Fills ``view``, wholly unless the input ends or a fault comes. Once no byte is left before a fault, every
        call raises it."""

    def head(self, size: int = HEAD_BYTES) -> bytes:
        """The first bytes, ``size`` of them unless there are fewer; ``readinto`` gives them again.

        Asked for before anything is read. Raises FeedError only where not one byte comes before the fault.
        """
        if self.bytes_out:
            raise RuntimeError("head() comes before readinto()")
        if len(self._head) < size:
            more = bytearray(size - len(self._head))
            try:
                got = self._fill(memoryview(more))
            except FeedError:
                if not self._head:
                    raise
                got = 0
            self._head += more[:got]
        return self._head[:size]

    def readinto(self, view: memoryview) -> int:
        """Fills ``view`` from its start, wholly unless the input ends; 0 at the end.

        Raises FeedError or one of its kinds, with the offset in the decompressed stream, once every byte before the
        fault has been handed out.
        """
        got = min(len(self._head), len(view))
        if got:
            view[:got] = self._head[:got]
            self._head = self._head[got:]
        if got < len(view):
            try:
                got += self._fill(view[got:])
            except FeedError:
                if not got:
                    raise
        self.bytes_out += got
        return got

    def read(self, size: int) -> bytes:
        """Reads ``size`` bytes; fewer before a fault, or at the end: a checksum has been verified then."""
        found = bytearray()
        while len(found) < size:  # in pieces: the size may be a bound far above what there is
            buffer = bytearray(min(size - len(found), _PIECE_BYTES))
            got = self.readinto(memoryview(buffer))
            found += memoryview(buffer)[:got]
            if got < len(buffer):
                break
        return bytes(found)

    def interrupt(self) -> None:  # noqa: B027
        """Makes a ``readinto`` that waits in another thread raise FeedError. Files never wait for long."""

    @abstractmethod
    def close(self) -> None:
        """Closes the file. May be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
