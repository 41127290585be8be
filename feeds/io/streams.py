"""Byte streams that decoders read in large pieces: files, pipes, and what is compressed in them, within limits.

``open_stream`` tells the compression by content: gzip, zstd, bz2, xz, LZMA alone, and members of zip archives. A stream
fills a caller's buffer (``readinto``). Data before a fault is always handed out first: the error comes with the next
call, so that a decoder gets every byte there was.

Some streaming interfaces of zstd's library give all that a piece of input expands to, however much that is. The others
do not tell a cut file from a whole one. So its frames and blocks are walked here, by their headers alone: a block gives
128 KiB at most, and where the last one ends is known.
"""

from __future__ import annotations

import os
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strand.errors import FeedError, FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds.io.sources import (
    HEAD_BYTES,
    STANDARD_INPUT,
    ByteStream,
    InflateLimits,
    InputStream,
    RawStream,
    Source,
    open_source,
)

if TYPE_CHECKING:
    import zipfile

__all__ = [
    "GZIP_WBITS", "HEAD_BYTES", "MAX_WINDOW_BYTES", "RAW_WBITS", "STANDARD_INPUT", "ZIP_MAGICS", "ZSTD_MAGIC",
    "ByteStream", "InflateLimits", "Inflating", "InputStream", "MemberStream", "Packing", "RawStream", "ZstdStream",
    "data_members", "data_start", "find_member", "gzip_members", "inflater_name", "is_gzip", "is_lzma", "is_zstd",
    "names_of", "new_inflater", "open_archive", "open_member", "open_stream", "split_member", "zlib_like",
]  # fmt: skip

GZIP_MAGIC: Final = b"\x1f\x8b"
# A bz2 file: its level, then a block or, where it is empty, its end. Three letters alone may begin a text.
BZ2_MAGICS: Final = tuple(b"BZh%d" % level + mark for level in range(1, 10) for mark in (b"1AY&", b"\x17\x72\x45\x38"))
XZ_MAGIC: Final = b"\xfd7zXZ\0"
# LZMA alone has no magic: this is its usual first byte (lc=3, lp=0, pb=2), before the sizes of dictionary and data.
_LZMA_FIRST: Final = b"\x5d"
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


class Packing(NamedTuple):
    """A way of compressing, in members.

    Attributes:
        name: Its name.
        inflater: The library that inflates it; None: nothing has to be inflated.
        new_member: Makes an object with zlib's or bz2's interface, which inflates one member.
        errors: What such an object raises where the data is corrupt.
        magic: What a member begins with; empty: there is one member alone, whose ``fault`` is asked for at its end.
    """

    name: str
    inflater: str | None
    new_member: Callable[[], Any]
    errors: tuple[type[Exception], ...]
    magic: bytes | tuple[bytes, ...] = b""


class MemberStream(Inflating):
    """The contents of a file of members, one after the other.

    Raises TruncatedFeedError where the file ends inside a member, FormatError where it is corrupt or expands beyond
    the limits.
    """

    #: The name of the member of an archive that this is; None: the file is no archive.
    member: str | None = None

    def __init__(self, source: Source, limits: InflateLimits, packing: Packing) -> None:
        super().__init__(source, limits)
        self.compression, self.inflater = packing.name, packing.inflater
        self._packing = packing
        self._piece = memoryview(bytearray(_INPUT_PIECE))
        # A file of no bytes is no compressed file: so there is a member to come from the start.
        self._member: Any = packing.new_member()
        self._rest: bytes | memoryview = b""
        self._input_ended = False

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
        except self._packing.errors as error:
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
        if not self._packing.magic:
            self._finished = True
            if fault := self._member.fault:
                raise self._error(FormatError, fault)
            return False
        rest = self._rest = bytes(self._rest).lstrip(b"\0")
        if len(rest) < _LONGEST_MAGIC and not self._input_ended:
            self._read_on()
            return False
        if not rest:
            self._finished = True
            return False
        if not rest.startswith(self._packing.magic):
            raise self._error(FormatError, f"what follows the {self.compression} data is not {self.compression} data")
        self._member = self._packing.new_member()
        return True


class _Member:
    """An inflater with something before its data, or at its end."""

    def __init__(self, inflater: Any) -> None:
        self._inflater = inflater

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inflater, name)


class _GzipMember(_Member):
    """Inflates a member of a gzip file (RFC 1952), whose header may come in pieces."""

    def __init__(self) -> None:
        super().__init__(new_inflater(GZIP_WBITS))
        self._header: bytearray | None = bytearray()

    def decompress(self, data: bytes | memoryview, room: int) -> bytes | memoryview:
        if self._header is not None:
            before = len(self._header)
            self._header += data[: _MOST_HEADER + 1 - before]
            size = _gzip_header_size(self._header)
            if size is None:
                return b""
            data = memoryview(data)[size - before :]
            self._header = None
            self._inflater.decompress(_BARE_HEADER, 1)
        found: bytes | memoryview = self._inflater.decompress(data, room)
        return found


def gzip_members() -> Packing:
    """The packing of gzip files, by the library that is there."""
    return Packing("gzip", inflater_name(), _GzipMember, (zlib_like().error, ValueError), GZIP_MAGIC)


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


def _bz2_members() -> Packing:
    import bz2

    return Packing("bz2", "bz2", bz2.BZ2Decompressor, (OSError, ValueError), BZ2_MAGICS)


def _lzma_members(name: str) -> Packing:
    """The packing of xz files, or ``"lzma"``: of LZMA alone, the format before xz, which has no checksum. A dictionary
    may be 2^27 bytes."""
    import lzma

    kind, magic = (lzma.FORMAT_XZ, XZ_MAGIC) if name == "xz" else (lzma.FORMAT_ALONE, _LZMA_FIRST)
    return Packing(name, "lzma", partial(lzma.LZMADecompressor, kind, _XZ_MEMORY), (lzma.LZMAError, ValueError), magic)


def is_lzma(head: bytes) -> bool:
    """Tells whether a file that begins with ``head`` is LZMA alone: by the usual first byte, and sizes that xz takes
    for such a file (a dictionary of 2^n or 2^n + 2^(n-1) bytes, data of an unknown size or one below 256 GiB)."""
    if not head.startswith(_LZMA_FIRST) or len(head) < 5:
        return False
    dictionary, size = int.from_bytes(head[1:5], "little"), int.from_bytes(head[5:13], "little")
    top = 1 << max(dictionary.bit_length() - 1, 0)
    is_unknown = head[5:13] == b"\xff" * len(head[5:13])
    return dictionary >= 1 << 12 and dictionary - top in (0, top // 2) and (is_unknown or size < 1 << 38)


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


class _ZipMember(_Member):
    """Inflates the member of an archive. ``fault``: what is wrong with it at its end."""

    def __init__(self, info: zipfile.ZipInfo) -> None:
        import bz2
        import zipfile

        if info.compress_type == zipfile.ZIP_STORED:
            super().__init__(_Stored(info.file_size))
        elif info.compress_type == zipfile.ZIP_BZIP2:
            super().__init__(bz2.BZ2Decompressor())
        else:
            super().__init__(new_inflater(RAW_WBITS))
        self._info = info
        self._crc32, self._crc = zlib_like().crc32, 0

    @property
    def fault(self) -> str:
        if self._crc == self._info.CRC:
            return ""
        return f"the checksum of member {self._info.filename!r} is wrong: it is damaged"

    def decompress(self, data: bytes | memoryview, room: int) -> bytes | memoryview:
        found: bytes | memoryview = self._inflater.decompress(data, room)
        self._crc = self._crc32(found, self._crc)
        return found


def open_member(path: Path, member: zipfile.ZipInfo, limits: InflateLimits) -> MemberStream:
    """The contents of one member of an archive. The decompressed bytes are counted; the archive's own figures are never
    trusted.

    Raises FormatError where the member is encrypted, compressed in another way, or damaged, TruncatedFeedError where
    the file ends inside it.
    """
    import zipfile

    if member.flag_bits & _ENCRYPTED:
        raise FormatError(f"member {member.filename!r} is encrypted: decrypt it first", path=path)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
        raise FormatError(
            f"member {member.filename!r} is compressed by method {member.compress_type}; stored, deflated and bz2 "
            "members can be read",
            path=path,
        )
    inflater = {zipfile.ZIP_STORED: None, zipfile.ZIP_BZIP2: "bz2"}.get(member.compress_type, inflater_name())
    packing = Packing("zip", inflater, partial(_ZipMember, member), (zlib_like().error, OSError, ValueError))
    source = RawStream(path, start=data_start(path, member), length=member.compress_size)
    stream = MemberStream(source, limits, packing)
    stream.member = member.filename
    return stream


def data_start(path: Path, member: zipfile.ZipInfo) -> int:
    """Offset of a member's data: the local header before the data has lengths of its own."""
    with RawStream(path, start=member.header_offset) as stream:
        header = stream.head(_LOCAL_HEADER_BYTES)
    if len(header) < _LOCAL_HEADER_BYTES or not header.startswith(ZIP_MAGICS[0]):
        raise FormatError(f"member {member.filename!r} is not where the archive's directory says", path=path)
    name, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    return member.header_offset + _LOCAL_HEADER_BYTES + name + extra


ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: Bound on the memory that a frame may ask for.
MAX_WINDOW_BYTES: Final = 1 << 27
_SKIPPABLE: Final = b"\x2a\x4d\x18"  # after a first byte of 0x50 to 0x5f
_BLOCK_BYTES: Final = 128 << 10
_ZSTD_PIECE: Final = 256 << 10
_LONGEST_HEADER: Final = 18
# Kinds of blocks: a run of one byte, and one that must not occur.
_RUN: Final = 1
_RESERVED_BLOCK: Final = 3


def is_zstd(head: bytes) -> bool:
    """Tells whether a file that begins with ``head`` is a zstd file: a frame, or a skippable frame before it."""
    return head.startswith(ZSTD_MAGIC) or _is_skippable(head)


def _is_skippable(head: bytes) -> bool:
    return head[1:4] == _SKIPPABLE and head[0] & 0xF0 == 0x50


class ZstdStream(Inflating):
    """The contents of a zstd file, all its frames one after the other.

    Raises MissingExtraError without the package, and TruncatedFeedError where the file ends inside a frame. Raises
    FormatError for a frame that is corrupt, or that asks for a dictionary or for a window of more than
    ``MAX_WINDOW_BYTES``.
    """

    compression = "zstd"
    inflater = "zstandard"

    def __init__(self, source: Source, limits: InflateLimits) -> None:
        try:
            import zstandard
        except ImportError:
            source.close()
            raise MissingExtraError("reading zstd files", "zstandard", "zstd") from None
        super().__init__(source, limits)
        self._library: Any = zstandard
        self._decompressor: Any = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._piece = memoryview(bytearray(_ZSTD_PIECE))
        self._input = memoryview(b"")  # read from the file and not yet used
        self._frame: Any = None
        self._checksum = False

    def _inflate(self) -> bytes:
        # A block at a time: what comes before a corrupt one is not lost with it.
        return self._begin_frame() if self._frame is None else self._block()

    def _begin_frame(self) -> bytes:
        self._want(_LONGEST_HEADER)
        head = bytes(self._input[:_LONGEST_HEADER])
        if not head:
            self._finished = True
        elif _is_skippable(head):
            self._take(8)
            self._skip(int.from_bytes(head[4:8], "little"))
        elif not head.startswith(ZSTD_MAGIC):
            raise self._error(FormatError, "what follows the zstd data is not zstd data")
        else:
            self._feed(self._take(self._header_size(head)))
        return b""

    def _header_size(self, head: bytes) -> int:
        """Makes ready for a frame whose header ``head`` starts with. Gives the header's length."""
        try:
            parameters = self._library.get_frame_parameters(head)
            size: int = self._library.frame_header_size(head)
        except self._library.ZstdError as error:
            if len(head) < _LONGEST_HEADER:
                raise self._cut() from None
            raise self._error(FormatError, f"the zstd data is corrupt ({error})") from None
        if parameters.window_size > MAX_WINDOW_BYTES:
            raise self._error(
                FormatError, f"the zstd data asks for a window of {parameters.window_size} bytes; 2^27 is the most"
            )
        if parameters.dict_id:
            raise self._error(FormatError, "the zstd data needs a dictionary, which is not in the file")
        self._checksum = bool(parameters.has_checksum)
        self._frame = self._decompressor.decompressobj()
        return size

    def _block(self) -> bytes:
        if not self._want(3):
            raise self._cut()
        header = int.from_bytes(self._input[:3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind == _RESERVED_BLOCK or size > _BLOCK_BYTES:
            raise self._error(FormatError, "the zstd data is corrupt (an impossible block)")
        data = self._feed(self._take(3 + (1 if kind == _RUN else size) + (4 if last and self._checksum else 0)))
        if last:
            if not self._frame.eof:
                raise self._error(FormatError, "the zstd data is corrupt (a frame continues after its last block)")
            self._frame = None
        return data

    def _feed(self, data: memoryview) -> bytes:
        try:
            out: bytes = self._frame.decompress(data)
        except self._library.ZstdError as error:
            raise self._error(FormatError, f"the zstd data is corrupt ({error})") from None
        return out

    def _want(self, size: int) -> bool:
        """Reads until ``size`` bytes are there; whether they are."""
        while len(self._input) < size:
            got = self._source.read_some(self._piece)
            if got == 0:
                return False
            self._input = memoryview(bytes(self._input) + self._piece[:got])
        return True

    def _take(self, size: int) -> memoryview:
        if not self._want(size):
            raise self._cut()
        data, self._input = self._input[:size], self._input[size:]
        return data

    def _skip(self, size: int) -> None:
        while size:
            if not self._want(1):
                raise self._cut()
            step = min(size, len(self._input))
            self._input = self._input[step:]
            size -= step

    def _cut(self) -> FeedError:
        return self._error(TruncatedFeedError, "the zstd data ends inside a frame; get the whole file")


_MAGIC_BYTES = 13


def is_gzip(head: bytes) -> bool:
    """Tells whether a file that begins with ``head`` is a gzip file, whatever its name."""
    return head.startswith(GZIP_MAGIC)


def open_stream(path: str | os.PathLike[str], *, limits: InflateLimits | None = None) -> InputStream:
    """The decompressed bytes of a file, whatever it is called: raw, gzip, zstd, bz2, xz, lzma, or in a zip archive.

    ``path``: a file, a named pipe, ``-`` for standard input, an archive of one file, or ``archive.zip/name`` of one
    in it. ``limits``: what it may expand to; by default 200 times its size once that is more than 64 MiB, and 1 TiB.

    Raises FeedError where there is nothing to read, FormatError or TruncatedFeedError where an archive's directory is
    damaged, MissingExtraError where a package is needed: ``zstandard`` for zstd. Faults further on are raised by the
    stream's methods.
    """
    limits = InflateLimits.of(limits)
    named = str(path) if str(path) == STANDARD_INPUT else Path(path)
    if isinstance(named, Path) and not named.exists():
        named, member = split_member(named)
        if member is not None:
            return open_member(named, find_member(named, member), limits)
    source = open_source(named)
    try:
        return _opened(source, source.head(_MAGIC_BYTES), limits)
    except BaseException:
        source.close()
        raise


def names_of(path: str | os.PathLike[str], stream: InputStream) -> list[str]:
    """Names of a file that was opened as ``stream``: its path, and for a member its name in the archive and the
    archive's."""
    names = [os.fspath(path)]
    if isinstance(stream, MemberStream) and stream.member is not None:
        names += [stream.member, str(stream.path)]
    return list(dict.fromkeys(names))


def _opened(source: Source, magic: bytes, limits: InflateLimits) -> InputStream:
    if is_gzip(magic):
        return MemberStream(source, limits, gzip_members())
    if is_zstd(magic):
        return ZstdStream(source, limits)
    if magic.startswith(BZ2_MAGICS):
        return MemberStream(source, limits, _bz2_members())
    if magic.startswith(XZ_MAGIC):
        return MemberStream(source, limits, _lzma_members("xz"))
    if is_lzma(magic):
        return MemberStream(source, limits, _lzma_members("lzma"))
    if magic.startswith(ZIP_MAGICS):
        if not isinstance(source, RawStream):
            raise FeedError("a zip archive cannot be read from a pipe: store it in a file", path=source.path)
        source.close()
        return open_member(Path(source.path), find_member(Path(source.path)), limits)
    return source
