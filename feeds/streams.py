"""Byte streams that decoders read in large pieces: files as they are, gzip files, and any of them read ahead.

A stream fills a caller's buffer (``readinto``). Data before a fault is always handed out first: the error comes with
the next call, so that a decoder gets every byte there was.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError

__all__ = [
    "ByteStream",
    "GzipStream",
    "InflateLimits",
    "RawStream",
    "inflater_name",
    "is_gzip",
]

_GZIP_MAGIC: Final = b"\x1f\x8b"
# A call of the inflater returns to Python, and to its lock, once a piece: large enough to make that rare. What a
# corrupt piece would have given is lost with it: small enough to make that little.
_INPUT_PIECE: Final = 128 << 10
# gzip's own framing: window bits 15, plus 16 for the gzip header and trailer.
_GZIP_WBITS: Final = 31


@dataclass(frozen=True, slots=True)
class InflateLimits:
    """What a compressed file may expand to before it is refused as a decompression bomb.

    ``max_ratio`` bounds bytes out over bytes in, and is looked at once ``ratio_after_bytes`` are out, because a short
    run of equal bytes says nothing. ``max_bytes`` bounds the bytes out.
    """

    max_ratio: float = 200.0
    max_bytes: int = 1 << 40
    ratio_after_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        for name in ("max_ratio", "max_bytes"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name}: {getattr(self, name)!r} must be above 0")
        if self.ratio_after_bytes < 0:
            raise ConfigurationError(f"ratio_after_bytes: {self.ratio_after_bytes!r} must not be negative")


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


def is_gzip(head: bytes) -> bool:
    """Whether a file that starts so is a gzip file, whatever its name."""
    return head.startswith(_GZIP_MAGIC)


def inflater_name() -> str:
    """What gzip files are inflated with: ``"isal igzip"`` where the extra ``gzip`` is installed, else ``"zlib"``."""
    return "zlib" if _inflater() is zlib else "isal igzip"


def _inflater() -> Any:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    return isal_zlib


class RawStream:
    """A file's bytes as they are.

    Read, not mapped: a mapped file that shrinks kills the process with SIGBUS, a read one comes up short and is
    reported.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._size = os.fstat(self._fd).st_size
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        except OSError as error:
            self.close()
            raise _os_error(error, path, 0) from error
        self._at = 0

    @property
    def bytes_in(self) -> int:
        """Bytes read."""
        return self._at

    @property
    def bytes_out(self) -> int:
        """The same as ``bytes_in``."""
        return self._at

    def readinto(self, view: memoryview) -> int:
        """Fills ``view``; 0 at the end. Raises TruncatedFeedError when the file has shrunk since it was opened."""
        filled = 0
        while filled < len(view):
            try:
                got = os.preadv(self._fd, [view[filled:]], self._at)
            except OSError as error:
                if filled:
                    break
                raise _os_error(error, self._path, self._at) from error
            if got == 0:
                if filled == 0 and self._at < self._size:
                    raise TruncatedFeedError(
                        f"the file had {self._size} bytes when it was opened and ends here now; read it when whoever "
                        "writes it is done",
                        path=self._path,
                        offset=self._at,
                    )
                break
            filled += got
            self._at += got
        return filled

    def close(self) -> None:
        """Closes the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class GzipStream:
    """The contents of a gzip file (RFC 1952), all its members one after the other."""

    def __init__(self, path: str | Path, limits: InflateLimits) -> None:
        self._path = path
        self._limits = limits
        self._raw = RawStream(path)
        self._piece = memoryview(bytearray(_INPUT_PIECE))
        self._inflater = _inflater()
        # A file of no bytes is no gzip file: so there is a member to come from the start.
        self._member: Any = self._inflater.decompressobj(_GZIP_WBITS)
        self._rest = b""
        self._input_ended = False
        self._finished = False
        self._fault: FeedError | None = None
        self._out = 0

    @property
    def bytes_in(self) -> int:
        """Compressed bytes read."""
        return self._raw.bytes_in

    @property
    def bytes_out(self) -> int:
        """Inflated bytes handed out."""
        return self._out

    def readinto(self, view: memoryview) -> int:
        """Fills ``view`` with inflated bytes; 0 at the end.

        Raises TruncatedFeedError where the file ends inside a member, FormatError where it is corrupt or expands
        beyond the limits. What was inflated before is handed out first.
        """
        filled = 0
        while filled < len(view) and not self._finished and self._fault is None:
            try:
                data = self._inflate(len(view) - filled)
            except FeedError as error:
                self._fault = error
                break
            view[filled : filled + len(data)] = data
            filled += len(data)
            self._out += len(data)
            self._fault = self._over_limits()
        if filled == 0 and self._fault is not None:
            raise self._fault
        return filled

    def close(self) -> None:
        """Closes the file."""
        self._raw.close()

    def _inflate(self, room: int) -> bytes:
        """The next bytes, at most ``room``; none while the inflater only takes in, or at the end."""
        if not self._rest and not self._input_ended:
            got = self._raw.readinto(self._piece)
            self._rest = bytes(self._piece[:got])
            self._input_ended = got == 0
        if self._member.eof and not self._next_member():
            return b""
        try:
            data: bytes = self._member.decompress(self._rest, room)
        except self._inflater.error as error:
            raise self._error(FormatError, f"the gzip data is corrupt ({error})") from None
        if self._member.eof:
            self._rest = self._member.unused_data
        else:
            self._rest = self._member.unconsumed_tail
            if self._input_ended and not data:
                raise self._error(TruncatedFeedError, "the gzip file ends before its end mark; get the whole file")
        return data

    def _next_member(self) -> bool:
        """After a member's end: begins the next one, if there is one. Zeros may fill up the file's end."""
        self._rest = self._rest.lstrip(b"\0")
        if len(self._rest) < len(_GZIP_MAGIC) and not self._input_ended:
            got = self._raw.readinto(self._piece)
            self._rest += bytes(self._piece[:got])
            self._input_ended = got == 0
            return False
        if not self._rest:
            self._finished = True
            return False
        if not is_gzip(self._rest):
            raise self._error(FormatError, "what follows the gzip data is no gzip data")
        self._member = self._inflater.decompressobj(_GZIP_WBITS)
        return True

    def _over_limits(self) -> FeedError | None:
        limits = self._limits
        if self.bytes_out > limits.max_bytes:
            return self._error(FormatError, f"the file expands to more than max_bytes = {limits.max_bytes}")
        if self.bytes_out > limits.ratio_after_bytes and self.bytes_out > limits.max_ratio * self.bytes_in:
            return self._error(
                FormatError,
                f"the file expands more than max_ratio = {limits.max_ratio:g} times ({self.bytes_in} bytes to "
                f"{self.bytes_out}); raise the limit if it is to be trusted",
            )
        return None

    def _error(self, kind: type[FeedError], message: str) -> FeedError:
        return kind(message, path=self._path, offset=self.bytes_out)


def _os_error(error: OSError, path: str | Path, offset: int) -> FeedError:
    return FeedError(f"cannot be read: {error.strerror}", path=path, offset=offset or None)
