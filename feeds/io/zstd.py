"""Zstandard streams (RFC 8878), frame by frame and block by block. Extra ``[zstd]``.

Some streaming interfaces of the library give all that a piece of input expands to, however much that is. The others do
not tell a cut file from a whole one. So the frames and blocks are walked here, by their headers alone: a block gives
128 KiB at most, and where the last one ends is known.
"""

from __future__ import annotations

from typing import Any, Final

from strand.errors import FeedError, FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds.io.bytestream import InflateLimits
from strand.feeds.io.compression import Inflating
from strand.feeds.io.sources import Source

__all__ = ["MAX_WINDOW_BYTES", "ZSTD_MAGIC", "ZstdStream", "is_zstd"]

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
