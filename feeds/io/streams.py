"""Byte streams that decoders read in large pieces: files, pipes, and what is compressed in them.

Some streaming interfaces of the library give all that a piece of input expands to, however much that is. The others do
not tell a cut file from a whole one. So the frames and blocks are walked here, by their headers alone: a block gives
128 KiB at most, and where the last one ends is known.

``open_stream`` tells the compression by content. A stream fills a caller's buffer (``readinto``). Data before a fault
is always handed out first: the error comes with the next call, so that a decoder gets every byte there was.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from strand.errors import FeedError, FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds.io.bytestream import HEAD_BYTES, ByteStream, InflateLimits, InputStream
from strand.feeds.io.compression import (
    BZ2_MAGICS,
    GZIP_MAGIC,
    XZ_MAGIC,
    ZIP_MAGICS,
    Bz2Stream,
    GzipStream,
    Inflating,
    XzStream,
    ZipMemberStream,
    find_member,
    inflater_name,
    split_member,
)
from strand.feeds.io.sources import STANDARD_INPUT, RawStream, Source, open_source

__all__ = [
    "HEAD_BYTES", "MAX_WINDOW_BYTES", "STANDARD_INPUT", "ZSTD_MAGIC", "ByteStream", "GzipStream", "InflateLimits",
    "InputStream", "RawStream", "ZstdStream", "inflater_name", "is_gzip", "is_zstd", "names_of", "open_stream",
]  # fmt: skip

ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: Bound on the memory that a frame may ask for.
MAX_WINDOW_BYTES: Final = 1 << 27
_SKIPPABLE: Final = b"\x2a\x4d\x18"  # after a first byte of 0x50 to 0x5f
_BLOCK_BYTES: Final = 128 << 10
_INPUT_PIECE: Final = 256 << 10
_LONGEST_HEADER: Final = 18
# Kinds of blocks: a run of one byte, and one that must not occur.
_RUN: Final = 1
_RESERVED: Final = 3


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
        self._piece = memoryview(bytearray(_INPUT_PIECE))
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
        if kind == _RESERVED or size > _BLOCK_BYTES:
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


_MAGIC_BYTES = 8


def is_gzip(head: bytes) -> bool:
    """Tells whether a file that begins with ``head`` is a gzip file, whatever its name."""
    return head.startswith(GZIP_MAGIC)


def open_stream(path: str | os.PathLike[str], *, limits: InflateLimits | None = None) -> InputStream:
    """The decompressed bytes of a file, whatever it is called: raw, gzip, zstd, bz2, xz, or in a zip archive.

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
            return ZipMemberStream(named, find_member(named, member), limits)
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
    if isinstance(stream, ZipMemberStream):
        names += [stream.member, str(stream.path)]
    return list(dict.fromkeys(names))


def _opened(source: Source, magic: bytes, limits: InflateLimits) -> InputStream:
    if is_gzip(magic):
        return GzipStream(source, limits)
    if is_zstd(magic):
        return ZstdStream(source, limits)
    if magic.startswith(BZ2_MAGICS):
        return Bz2Stream(source, limits)
    if magic.startswith(XZ_MAGIC):
        return XzStream(source, limits)
    if magic.startswith(ZIP_MAGICS):
        if not isinstance(source, RawStream):
            raise FeedError("a zip archive cannot be read from a pipe: store it in a file", path=source.path)
        source.close()
        return ZipMemberStream(Path(source.path), find_member(Path(source.path)), limits)
    return source
