"""Inflating streams: gzip, bz2, xz, and members of zip archives, all within limits."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.io.bytestream import HEAD_BYTES, InflateLimits, InputStream
from strand.feeds.io.sources import RawStream, Source, open_source

if TYPE_CHECKING:
    import zipfile

__all__ = [
    "GZIP_WBITS", "RAW_WBITS", "ZIP_MAGICS", "Bz2Stream", "GzipStream", "Inflating", "MemberStream", "XzStream",
    "ZipMemberStream", "data_members", "data_start", "find_member", "inflater_name", "new_inflater",
    "open_archive", "split_member", "zlib_like",
]  # fmt: skip

GZIP_MAGIC: Final = b"\x1f\x8b"
# A bz2 file: its level, then a block or, where it is empty, its end. Three letters alone may begin a text.
BZ2_MAGICS: Final = tuple(b"BZh%d" % level + mark for level in range(1, 10) for mark in (b"1AY&", b"\x17\x72\x45\x38"))
XZ_MAGIC: Final = b"\xfd7zXZ\0"
# Bytes of input per call of the inflater. Each call returns to Python and takes its lock, so a piece is large enough to
# make that rare. A corrupt piece loses all that it would have given, so it is small enough to make that little. It does
# not depend on what a reader asks for, so that every reader finds a fault at the same place.
_INPUT_PIECE: Final = 128 << 10
# Bytes of output per call, which are then copied into the reader's buffer. So few are still in the core's cache, and
# the allocator hands out the same memory each time; larger pieces would be mapped, and faulted in, anew. The bytes that
# show the format come in a piece of their own, so that a fault behind them does not hide what the file is.
_OUTPUT_PIECE: Final = 256 << 10
_LONGEST_MAGIC: Final = 8
#: gzip's own framing, as zlib numbers it: window bits 15, plus 16 for the gzip header and trailer.
GZIP_WBITS: Final = 31
# A header without options, for the inflater: isal loses its place in a header that comes in pieces.
_BARE_HEADER: Final = GZIP_MAGIC + b"\x08" + bytes(6) + b"\xff"
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT, _RESERVED = 2, 4, 8, 16, 0xE0
# A file's name and a comment end with a zero. A header in which none comes for so long is none.
_MOST_HEADER: Final = 1 << 20
#: No framing.
RAW_WBITS: Final = -15
# The dictionary of an xz file may be as large as the window of a zstd one: 2^27, and some for the tables.
_XZ_MEMORY: Final = (1 << 27) + (16 << 20)


def zlib_like() -> Any:
    """``zlib``, or isal's stand-in for it where the extra ``gzip`` is installed; they have one interface."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    return isal_zlib


def new_inflater(wbits: int) -> Any:
    """An object that inflates one member, of ``GZIP_WBITS`` or ``RAW_WBITS``, for a ``MemberStream``.

    isal's stand-in for zlib's object is not used: each call begins with room for 16 KiB and doubles it, and each time
    the library copies its window out and in again. That costs more than a twentieth of inflating.
    """
    try:
        from isal import igzip_lib
    except ImportError:
        return zlib.decompressobj(wbits)
    return igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP if wbits == GZIP_WBITS else igzip_lib.DECOMP_DEFLATE)


def inflater_name() -> str:
    """Name of the library that inflates gzip files: ``"isal igzip"`` where the extra ``gzip`` is installed, else
    ``"zlib"``."""
    return "zlib" if zlib_like() is zlib else "isal igzip"


class Inflating(InputStream):
    """A stream whose bytes come out of compressed ones, until there are no more, a fault, or too many."""

    def __init__(self, source: Source, limits: InflateLimits) -> None:
        super().__init__(source.path)
        self._source = source
        self._limits = limits
        self._finished = False
        self._fault: FeedError | None = None
        self._made = 0
        self._ready = memoryview(b"")  # inflated and not yet handed out

    @property
    def bytes_in(self) -> int:
        """Compressed bytes read."""
        return self._source.bytes_in

    @abstractmethod
    def _inflate(self) -> bytes | memoryview:
        """The next bytes; none where the call only took in input, or once ``_finished`` is set. The next call may
        overwrite them."""

    def _fill(self, view: memoryview) -> int:
        filled = 0
        while filled < len(view) and self._make_ready():
            step = min(len(self._ready), len(view) - filled)
            view[filled : filled + step] = self._ready[:step]
            self._ready = self._ready[step:]
            filled += step
        if filled == 0 and self._fault is not None:
            raise self._fault
        return filled

    def _make_ready(self) -> bool:
        """Inflates more once all bytes are handed out. Returns whether there are bytes to hand out."""
        while not self._ready and not self._finished and self._fault is None:
            try:
                self._ready = memoryview(self._inflate())
            except FeedError as error:
                self._fault = error
                break
            self._made += len(self._ready)
            self._fault = self._over_limits()
        return len(self._ready) > 0

    def interrupt(self) -> None:
        """Makes a read that waits raise FeedError."""
        self._source.interrupt()

    def close(self) -> None:
        """Closes the file."""
        self._source.close()

    def _over_limits(self) -> FeedError | None:
        excess = self._limits.excess(self._made, self.bytes_in)
        return None if excess is None else self._error(FormatError, excess)

    def _error(self, kind: type[FeedError], message: str) -> FeedError:
        return kind(message, path=self.path, offset=self._made)


class MemberStream(Inflating):
    """Members that an object with zlib's or bz2's interface inflates, one after the other.

    Raises TruncatedFeedError where the file ends inside a member, FormatError where it is corrupt or expands beyond
    the limits.
    """

    magic: bytes | tuple[bytes, ...]
    errors: tuple[type[Exception], ...]

    def __init__(self, source: Source, limits: InflateLimits) -> None:
        super().__init__(source, limits)
        self._piece = memoryview(bytearray(_INPUT_PIECE))
        # A file of no bytes is no compressed file: so there is a member to come from the start.
        self._member: Any = self._new_member()
        self._rest: bytes | memoryview = b""
        self._input_ended = False

    @abstractmethod
    def _new_member(self) -> Any: ...

    def _inflate(self) -> bytes | memoryview:
        if not self._rest and not self._input_ended and getattr(self._member, "needs_input", True):
            self._read_on()
        if self._member.eof and not self._next_member():
            return b""
        data = self._decompress()
        if self._member.eof:
            self._rest = self._member.unused_data
        elif self._input_ended and not data and not self._rest:
            raise self._error(
                TruncatedFeedError, f"the {self.compression} data ends before its end mark; get the whole file"
            )
        return data

    def _room(self) -> int:
        return HEAD_BYTES - self._made if self._made < HEAD_BYTES else _OUTPUT_PIECE

    def _decompress(self) -> bytes | memoryview:
        try:
            data: bytes | memoryview = self._member.decompress(self._rest, self._room())
        except self.errors as error:
            raise self._error(FormatError, f"the {self.compression} data is corrupt ({error})") from None
        # zlib hands back what it had no room for, the others keep it.
        self._rest = getattr(self._member, "unconsumed_tail", b"")
        return data

    def _read_on(self) -> None:
        rest = bytes(self._rest)  # a copy: it may lie in the buffer that is read into now
        got = self._source.read_some(self._piece)
        self._rest = rest + self._piece[:got] if rest else self._piece[:got]
        self._input_ended = got == 0

    def _next_member(self) -> bool:
        """Begins the next member after a member's end, if there is one. Zeros may fill up the file's end."""
        rest = self._rest = bytes(self._rest).lstrip(b"\0")
        if len(rest) < _LONGEST_MAGIC and not self._input_ended:
            self._read_on()
            return False
        if not rest:
            self._finished = True
            return False
        if not rest.startswith(self.magic):
            raise self._error(FormatError, f"what follows the {self.compression} data is not {self.compression} data")
        self._member = self._new_member()
        return True


class GzipStream(MemberStream):
    """The contents of a gzip file (RFC 1952), all its members one after the other."""

    compression = "gzip"
    magic = GZIP_MAGIC

    def __init__(self, path: str | Path | Source, limits: InflateLimits) -> None:
        self.inflater = inflater_name()
        self.errors = (zlib_like().error,)
        super().__init__(path if isinstance(path, Source) else open_source(path), limits)

    def _new_member(self) -> Any:
        self._header: bytearray | None = bytearray()
        return new_inflater(GZIP_WBITS)

    def _decompress(self) -> bytes | memoryview:
        if self._header is not None:
            before = len(self._header)
            self._header += self._rest[: _MOST_HEADER + 1 - before]
            try:
                size = _gzip_header_size(self._header)
            except ValueError as error:
                raise self._error(FormatError, f"the gzip data is corrupt ({error})") from None
            self._rest = b"" if size is None else memoryview(self._rest)[size - before :]
            if size is None:
                return b""
            self._header = None
            self._member.decompress(_BARE_HEADER, 1)
        return super()._decompress()


def _gzip_header_size(data: bytearray) -> int | None:
    """Return the size of the gzip header that begins ``data``, in bytes (RFC 1952, section 2.3).

    Returns:
        None if the header goes on after ``data``.

    Raises:
        ValueError: If it is no sound header.
    """
    if len(data) < len(_BARE_HEADER):
        return None
    method, flags = data[2], data[3]
    if method != _BARE_HEADER[2]:
        raise ValueError(f"unknown compression method {method}")
    if flags & _RESERVED:
        raise ValueError("unknown header flags set")
    size = len(_BARE_HEADER)
    if flags & _FEXTRA:
        size += 2 + int.from_bytes(data[size : size + 2], "little")
    for option in (_FNAME, _FCOMMENT):
        if flags & option:
            end = data.find(0, size)
            if end < 0 and len(data) > _MOST_HEADER:
                raise ValueError(f"the header is longer than {_MOST_HEADER:,} bytes")
            if end < 0:
                return None
            size = end + 1
    if flags & _FHCRC:
        size += 2
        if size <= len(data) and zlib.crc32(data[: size - 2]) & 0xFFFF != int.from_bytes(
            data[size - 2 : size], "little"
        ):
            raise ValueError("header crc mismatch")
    return size if size <= len(data) else None


class Bz2Stream(MemberStream):
    """The contents of a bz2 file."""

    compression = inflater = "bz2"
    magic = BZ2_MAGICS
    errors = (OSError, ValueError)

    def _new_member(self) -> Any:
        import bz2

        return bz2.BZ2Decompressor()


class XzStream(MemberStream):
    """The contents of an xz file. Its dictionary may be 2^27 bytes."""

    compression = "xz"
    inflater = "lzma"
    magic = XZ_MAGIC

    def __init__(self, source: Source, limits: InflateLimits) -> None:
        import lzma

        self.errors = (lzma.LZMAError, ValueError)
        super().__init__(source, limits)

    def _new_member(self) -> Any:
        import lzma

        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY)


ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")
_LOCAL_HEADER_BYTES: Final = 30
_ENCRYPTED: Final = 1


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opens a zip archive. zipfile's errors about a bad one become feed errors."""
    import zipfile

    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        with RawStream(path) as stream:
            head = stream.head(4)
        if head == ZIP_MAGICS[0]:
            end = path.stat().st_size
            raise TruncatedFeedError("the zip archive ends before its directory", path=path, offset=end) from error
        raise FormatError(f"is not a zip archive: {error}", path=path, offset=0) from error
    # The exception of zipfile for a damaged directory depends on the damage.
    except (OSError, NotImplementedError, ValueError, OverflowError) as error:
        raise FeedError(f"cannot be read: {error}", path=path) from error
    with archive:
        yield archive


def data_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The files in an archive, without folders and what some systems add to them."""
    return [
        info
        for info in archive.infolist()
        # A damaged directory may hold a name of no letters, which is_dir() cannot take.
        if info.filename
        and not info.is_dir()
        and not info.filename.startswith("__MACOSX/")
        and not info.filename.endswith(".DS_Store")
    ]


def find_member(path: Path, name: str | None = None) -> zipfile.ZipInfo:
    """The member of that name, or the only one. Raises FeedError where it is not there or there are several."""
    with open_archive(path) as archive:
        members = data_members(archive)
    if name is not None:
        members = [info for info in members if info.filename == name]
        if not members:
            raise FeedError(f"the zip archive has no member {name!r}", path=path)
    if len(members) != 1:
        held = ", ".join(info.filename for info in members[:5]) or "nothing"
        raise FeedError(
            f"the zip archive holds {len(members)} files ({held}): name one of them, as in {path}/NAME", path=path
        )
    return members[0]


def split_member(path: Path) -> tuple[Path, str | None]:
    """``day.zip/trades.csv`` as the archive and the name in it; any other path as it is."""
    for parent in path.parents:
        if parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return path, None


class _Stored:
    """A member as it lies, with the interface of an inflater."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.unconsumed_tail: bytes | memoryview = b""
        self.unused_data = b""

    @property
    def eof(self) -> bool:
        return self._left == 0

    def decompress(self, data: bytes | memoryview, room: int) -> bytes | memoryview:
        given = data[: min(room, self._left)]
        self.unconsumed_tail = data[len(given) :]
        self._left -= len(given)
        return given


class ZipMemberStream(MemberStream):
    """The contents of one member. The decompressed bytes are counted; the archive's own figures are never trusted.

    Raises FormatError where the member is encrypted, compressed in another way, or damaged, TruncatedFeedError where
    the file ends inside it.
    """

    compression = "zip"
    magic = b""

    def __init__(self, path: Path, member: zipfile.ZipInfo, limits: InflateLimits) -> None:
        import zipfile

        self._info = member
        self.member = member.filename
        self._crc = 0
        self._zlib: Any = zlib_like()
        self.inflater = {zipfile.ZIP_STORED: None, zipfile.ZIP_BZIP2: "bz2"}.get(member.compress_type, inflater_name())
        self.errors = (self._zlib.error, OSError, ValueError)
        if member.flag_bits & _ENCRYPTED:
            raise FormatError(f"member {member.filename!r} is encrypted: decrypt it first", path=path)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
            raise FormatError(
                f"member {member.filename!r} is compressed by method {member.compress_type}; stored, deflated and bz2 "
                "members can be read",
                path=path,
            )
        start = data_start(path, member)
        super().__init__(RawStream(path, start=start, length=member.compress_size), limits)

    def _new_member(self) -> Any:
        import bz2
        import zipfile

        if self._info.compress_type == zipfile.ZIP_STORED:
            return _Stored(self._info.file_size)
        if self._info.compress_type == zipfile.ZIP_BZIP2:
            return bz2.BZ2Decompressor()
        return new_inflater(RAW_WBITS)

    def _inflate(self) -> bytes | memoryview:
        data = super()._inflate()
        self._crc = self._zlib.crc32(data, self._crc)
        return data

    def _next_member(self) -> bool:
        self._finished = True
        if self._crc != self._info.CRC:
            raise self._error(FormatError, f"the checksum of member {self._info.filename!r} is wrong: it is damaged")
        return False


def data_start(path: Path, member: zipfile.ZipInfo) -> int:
    """Offset of a member's data: the local header before the data has lengths of its own."""
    with RawStream(path, start=member.header_offset) as stream:
        header = stream.head(_LOCAL_HEADER_BYTES)
    if len(header) < _LOCAL_HEADER_BYTES or not header.startswith(ZIP_MAGICS[0]):
        raise FormatError(f"member {member.filename!r} is not where the archive's directory says", path=path)
    name, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    return member.header_offset + _LOCAL_HEADER_BYTES + name + extra
