"""The messages of Arrow files and streams, held against the limits before pyarrow gets them.

Layout: Arrow's format/Message.fbs, Schema.fbs and File.fbs as flatbuffers.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from strand.errors import FormatError
from strand.feeds.formats.parquet.limits import VALUE_BYTES, Expansion

__all__ = ["CONTINUATION", "FramedReader", "blocks_of", "check_blocks"]

CONTINUATION: Final = b"\xff\xff\xff\xff"
# Arrow's kinds of messages that have a body of buffers.
_DICTIONARY, _BATCH = 2, 3
_PREFIX: Final = 8
_LONGEST_METADATA: Final = 1 << 26
_PIECE: Final = 1 << 20


def blocks_of(footer: bytes) -> list[tuple[int, int, int]]:
    """Offsets of the messages in the index of an Arrow file, with the bytes of their metadata and bodies, in
    the order of the file.

    The index is a flatbuffer (Footer in Arrow's format/File.fbs): its table's third and fourth fields are vectors of
    (offset i64, metadata's bytes i32, four bytes of padding, body's bytes i64).
    """
    table = struct.unpack_from("<I", footer, 0)[0]
    fields = table - struct.unpack_from("<i", footer, table)[0]
    if fields < 0:
        raise ValueError
    held = struct.unpack_from("<H", footer, fields)[0]
    blocks = []
    for field in (8, 10):
        place = struct.unpack_from("<H", footer, fields + field)[0] if field < held else 0
        if not place:
            continue
        vector = table + place + struct.unpack_from("<I", footer, table + place)[0]
        (count,) = struct.unpack_from("<I", footer, vector)
        if count > len(footer) // 24:
            raise ValueError
        blocks += [struct.unpack_from("<qi4xq", footer, vector + 4 + 24 * i) for i in range(count)]
    return sorted(blocks)


def _field(data: bytes, table: int, number: int) -> int:
    """Offset of a field of a flatbuffer's table; 0: the field is left out."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    if entries < 0:
        raise ValueError
    place = 4 + 2 * number
    if place >= struct.unpack_from("<H", data, entries)[0]:
        return 0
    offset = struct.unpack_from("<H", data, entries + place)[0]
    return table + offset if offset else 0


def _table(data: bytes, at: int) -> int:
    return int(at + struct.unpack_from("<I", data, at)[0])


def _message(metadata: bytes) -> tuple[int, int, list[tuple[int, int]]]:
    """The bytes of a message's body, its rows, and the place and length of each buffer in the body where buffers are
    compressed. Raises struct.error and ValueError for bytes that are no message."""
    message = _table(metadata, 0)
    body_at, kind_at, header_at = (_field(metadata, message, number) for number in (3, 1, 2))
    body = struct.unpack_from("<q", metadata, body_at)[0] if body_at else 0
    kind = metadata[kind_at] if kind_at else 0
    if kind not in (_DICTIONARY, _BATCH) or not header_at:
        return body, 0, []
    batch = _table(metadata, header_at)
    if kind == _DICTIONARY:
        data_at = _field(metadata, batch, 1)
        if not data_at:
            return body, 0, []
        batch = _table(metadata, data_at)
    rows_at, buffers_at = _field(metadata, batch, 0), _field(metadata, batch, 2)
    rows = struct.unpack_from("<q", metadata, rows_at)[0] if rows_at else 0
    if not _field(metadata, batch, 3) or not buffers_at:
        return body, rows, []
    vector = _table(metadata, buffers_at)
    count = struct.unpack_from("<I", metadata, vector)[0]
    if count > len(metadata) // 16:
        raise ValueError
    return body, rows, [struct.unpack_from("<qq", metadata, vector + 4 + 16 * i) for i in range(count)]


def _unpacked(buffers: Sequence[tuple[int, int]], prefixes: Iterator[bytes]) -> int:
    """The bytes that buffers hold once inflated. A buffer begins with that number, or with -1 where it is not
    compressed."""
    made = 0
    for (_, length), prefix in zip(buffers, prefixes, strict=True):
        said = int.from_bytes(prefix, "little", signed=True) if len(prefix) == _PREFIX else 0
        made += said if said >= 0 else length
    return made


def check_blocks(file: Any, blocks: Sequence[tuple[int, int, int]], expansion: Expansion) -> None:
    """Adds the messages that a file's index names: where each begins, the bytes of its metadata and of its body."""
    for offset, size, length in blocks:
        file.seek(offset)
        head = file.read(min(size, _LONGEST_METADATA))
        skip = 8 if head.startswith(CONTINUATION) else 4
        try:
            _, rows, buffers = _message(head[skip:])
        except (struct.error, ValueError, IndexError):
            continue  # pyarrow says what is wrong with it
        made = _unpacked(buffers, _prefixes_in(file, offset + size, buffers))
        expansion.add(max(made, VALUE_BYTES * rows), size + length, f"the message at byte {offset}")


def _prefixes_in(file: Any, begin: int, buffers: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    for at, length in buffers:
        if at < 0 or length < _PREFIX:
            yield b""
            continue
        file.seek(begin + at)
        yield file.read(_PREFIX)


class FramedReader(io.RawIOBase):
    """An Arrow stream as pyarrow wants it, whose messages are looked at before pyarrow gets them.

    ``source``: its ``read(n)`` gives fewer than ``n`` bytes at the end only, and its ``fault`` keeps what is
    wrong. A message with compressed buffers is read
    whole first, which takes no more memory than the input has bytes.
    """

    def __init__(self, source: Any, expansion: Expansion) -> None:
        self._source = source
        self._expansion = expansion
        self._ready = memoryview(b"")
        self._body = 0  # bytes of a message that are handed on as they come
        self._framed = True

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """``size`` bytes, or fewer at the end."""
        pieces = bytearray()
        while size < 0 or len(pieces) < size:
            piece = self._some(_PIECE if size < 0 else min(_PIECE, size - len(pieces)))
            if not piece:
                break
            pieces += piece
        return bytes(pieces)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        piece = self._some(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def _some(self, size: int) -> bytes | memoryview:
        if not self._ready and not self._body and self._framed:
            self._next()
        if self._ready:
            piece, self._ready = self._ready[:size], self._ready[size:]
            return piece
        if self._body or not self._framed:
            data: bytes = self._source.read(min(size, self._body) if self._body else size)
            self._body -= min(self._body, len(data))
            return data
        return b""

    def _next(self) -> None:
        """The next message's frame, and its body where that is compressed."""
        head = self._source.read(8)
        # Old versions have no mark before the length.
        marked = head.startswith(CONTINUATION)
        length = int.from_bytes(head[4:8] if marked else head[:4], "little", signed=True)
        head, begun = (head, b"") if marked else (head[:4], head[4:])
        whole = len(head) + len(begun) == 8 and 0 < length <= _LONGEST_METADATA
        metadata = begun + (self._source.read(length - len(begun)) if whole and length > len(begun) else b"")
        self._ready = memoryview(head + metadata)
        if not whole or len(metadata) != length:
            # Its end, or damage: what follows is pyarrow's to judge.
            self._framed = False
            return
        try:
            body, rows, buffers = _message(metadata)
        except (struct.error, ValueError, IndexError):
            self._framed = False
            return
        if body < 0:
            self._framed = False
            return
        data = self._source.read(body) if buffers else b""
        prefixes = (data[at : at + _PREFIX] if at >= 0 else b"" for at, _ in buffers)
        made = max(_unpacked(buffers, prefixes), VALUE_BYTES * rows)
        try:
            self._expansion.add(made, len(head) + length + (len(data) if buffers else body), "a message")
        except FormatError as error:
            self._source.fault = error
            raise OSError(str(error)) from error
        if buffers:
            self._ready = memoryview(head + metadata + data)
        else:
            self._body = body
