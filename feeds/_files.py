"""Opening files that come from elsewhere: what must be refused is refused before a reader sees it."""

from __future__ import annotations

import stat
import zipfile
import zlib
from pathlib import Path
from typing import IO, Final

from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError

__all__ = ["MAX_OUTPUT_BYTES", "MAX_RATIO", "MemberReader", "positive", "read_head", "regular_file"]

#: Most bytes that come out of one compressed stream for a byte that goes in. Zipped CSV of ticks is at 6 to 13.
MAX_RATIO: Final = 200
#: Most bytes that come out of one compressed stream in all.
MAX_OUTPUT_BYTES: Final = 64 << 30
# A short stream may beat any ratio: its first bytes are free.
_FREE_BYTES: Final = 1 << 20


def regular_file(path: str | Path) -> Path:
    """The path, when it is a file that can be read from its start again and has something in it."""
    path = Path(path)
    try:
        status = path.stat()
    except FileNotFoundError:
        raise FeedError("there is no such file", path=path) from None
    except OSError as error:
        raise FeedError(f"cannot be looked at: {error.strerror}", path=path) from error
    if stat.S_ISDIR(status.st_mode):
        raise FeedError("is a directory: name the files in it", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise FeedError("is not a regular file: a feed is read more than once, so store the stream first", path=path)
    if status.st_size == 0:
        raise TruncatedFeedError("the file is empty", path=path, offset=0)
    return path


def read_head(path: Path, size: int) -> bytes:
    """The first ``size`` bytes, or fewer where the file has fewer."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise FeedError(f"cannot be read: {error.strerror}", path=path) from error


def positive(name: str, value: int) -> int:
    """The value of an option that counts something, when it is 1 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name} must be a whole number from 1 up, not {value!r}")
    return value


class MemberReader:
    """Reads one member of a zip archive as a stream, within bounds on what may come out.

    Counts are of what really came out, never of what the archive declares. ``offset`` in errors counts bytes of the
    member once inflated.
    """

    def __init__(
        self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, *, max_ratio: int, max_output_bytes: int
    ) -> None:
        self._path = path
        self._bound = min(max_output_bytes, _FREE_BYTES + max_ratio * member.compress_size)
        self.name = member.filename
        self.bytes_out = 0
        if member.flag_bits & 1:
            raise FormatError(f"member {member.filename!r} is encrypted: decrypt it first", path=path)
        try:
            self._file: IO[bytes] = archive.open(member)
        except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
            raise FormatError(f"member {member.filename!r} cannot be read: {error}", path=path) from error

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; empty at the end of the member, whose checksum has then been verified."""
        try:
            data = self._file.read(size)
        except EOFError as error:
            raise TruncatedFeedError(
                f"member {self.name!r} ends too early", path=self._path, offset=self.bytes_out
            ) from error
        except (zipfile.BadZipFile, zlib.error, OSError) as error:
            raise FormatError(
                f"member {self.name!r} is damaged: {error}", path=self._path, offset=self.bytes_out
            ) from error
        self.bytes_out += len(data)
        if self.bytes_out > self._bound:
            raise FormatError(
                f"member {self.name!r} inflates to more than {self._bound} bytes, the bound for its compressed size: "
                "raise max_ratio or max_output_bytes if the file is to be trusted",
                path=self._path,
                offset=self.bytes_out,
            )
        return data

    def close(self) -> None:
        """Give the member's stream back."""
        self._file.close()
