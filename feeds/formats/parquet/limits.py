"""Limits on the size that Parquet and Arrow files expand to, held against what they declare before pyarrow reads it.

Layout: Arrow's format/Message.fbs, Schema.fbs and File.fbs as flatbuffers.

Layout: Parquet's parquet.thrift (FileMetaData, PageHeader) in Thrift's compact protocol.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from strand.errors import FormatError
from strand.feeds.io.sources import InflateLimits

__all__ = [
    "CONTINUATION", "VALUE_BYTES", "Chunk", "Expansion", "FramedReader", "blocks_of", "check_blocks",
    "check_row_group", "chunks_of",
]  # fmt: skip

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
    table = _table(footer, 0)
    blocks = []
    for number in (2, 3):
        place = _field(footer, table, number)
        if not place:
            continue
        vector = _table(footer, place)
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


# A page's header is rarely longer: statistics and their names.
_HEADER_BYTES: Final = 512
_LONGEST_HEADER: Final = 1 << 20
# The content of such a page is in proportion to its bytes in the file.
_HARDLY_EXPANDS: Final = (0, 1)  # uncompressed, Snappy
# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData, and types of Thrift's compact protocol.
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_CODEC, _SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 4, 7, 9, 11
_INTEGERS: Final = (4, 5, 6)
_LIST, _STRUCT = 9, 12


class Chunk(NamedTuple):
    """A column's part of a row group: how it is packed (a CompressionCodec), its bytes in the file, where it begins."""

    codec: int
    size: int
    begin: int


def chunks_of(file: BinaryIO) -> list[list[Chunk]]:
    """The columns' parts of each row group of a Parquet file, by its footer.

    pyarrow ends the process where it is asked for a part that a damaged footer does not describe. Raises ValueError for
    such a footer.
    """
    end = file.seek(0, os.SEEK_END) - 8
    file.seek(end)
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(0, end - length))
    footer = file.read(length)
    try:
        groups: list[list[Chunk]] = []
        for number, at, kind in _fields(footer, 0):
            if number == _ROW_GROUPS and kind == _LIST:
                groups = [_group(footer, group) for group in _elements(footer, at)]
        return groups
    except IndexError:
        raise ValueError("its footer is cut") from None


def _group(footer: bytes, at: int) -> list[Chunk]:
    for number, place, kind in _fields(footer, at):
        if number == _COLUMNS and kind == _LIST:
            return [_chunk(footer, column) for column in _elements(footer, place)]
    raise ValueError("a row group without columns")


def _chunk(footer: bytes, at: int) -> Chunk:
    for number, place, kind in _fields(footer, at):
        if number == _META_DATA and kind == _STRUCT:
            found = {field: _number(footer, where) for field, where, of in _fields(footer, place) if of in _INTEGERS}
            data = found.get(_DATA_PAGE, 0)
            dictionary = found.get(_DICTIONARY_PAGE, 0)
            return Chunk(found.get(_CODEC, 0), found.get(_SIZE, 0), dictionary if 0 < dictionary < data else data)
    raise ValueError("a column without metadata")


def check_row_group(file: int, chunks: Sequence[Chunk], rows: int, expansion: Expansion, number: int) -> None:
    """Adds columns of a row group of an open file, by the headers of their pages.

    The file's metadata is not trusted: it may promise less than pages hold. A page whose header cannot be read is left
    to pyarrow, which reads no further either.
    """
    made = read = 0
    for chunk in chunks:
        size = max(0, chunk.size)
        unpacked, packed = 0, size
        if chunk.codec not in _HARDLY_EXPANDS:
            packed = 0
            for page, stored in _pages(file, chunk.begin, chunk.begin + size):
                expansion.check(page, stored, f"a page of row group {number}")
                unpacked, packed = unpacked + page, packed + stored
        made += max(unpacked, VALUE_BYTES * rows)
        read += packed
    expansion.add(made, read, f"row group {number}")


def _pages(file: int, at: int, end: int) -> Iterator[tuple[int, int]]:
    """The bytes that each page of a column chunk holds and has in the file."""
    while at < end:
        header = os.pread(file, min(_HEADER_BYTES, end - at), at)
        try:
            fields, size = _page_header(header)
        except IndexError:
            header = os.pread(file, min(_LONGEST_HEADER, end - at), at)
            try:
                fields, size = _page_header(header)
            except (IndexError, ValueError):
                return
        except ValueError:
            return
        unpacked, packed = fields.get(2, 0), fields.get(3, 0)
        if packed < 0 or unpacked < 0:
            return
        yield unpacked, packed
        at += size + packed


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError


def _number(data: bytes, at: int) -> int:
    zigzag, _ = _varint(data, at)
    return (zigzag >> 1) ^ -(zigzag & 1)


def _fields(data: bytes, at: int, depth: int = 0) -> Iterator[tuple[int, int, int]]:
    """A Thrift struct's fields: number, where the value begins, its type. Raises IndexError where it goes on behind
    ``data``, ValueError where it is none. Last comes field 0, where the struct ends."""
    last = 0
    while (byte := data[at]) != 0:
        at += 1
        kind = byte & 0x0F
        if byte >> 4:
            last += byte >> 4
        else:
            last, (_, at) = _number(data, at), _varint(data, at)
        yield last, at, kind
        at = _skipped(data, at, kind, depth)
    yield 0, at + 1, 0


def _list(data: bytes, at: int) -> tuple[int, int, int]:
    """A list's length, the type of its elements, and where they begin."""
    byte = data[at]
    size, at = (byte >> 4, at + 1) if byte >> 4 != 15 else _varint(data, at + 1)
    return size, byte & 0x0F, at


def _elements(data: bytes, at: int) -> Iterator[int]:
    """Offsets of the structs of a list."""
    size, kind, at = _list(data, at)
    if kind != _STRUCT or size > len(data):
        raise ValueError("a list of something else")
    for _ in range(size):
        yield at
        at = _skipped(data, at, _STRUCT, 0)


def _page_header(data: bytes) -> tuple[dict[int, int], int]:
    """The integers of a page's header, by field, and its bytes. Raises as ``_fields`` does."""
    found: dict[int, int] = {}
    size = 0
    for number, at, kind in _fields(data, 0):
        if kind in _INTEGERS:
            found[number] = _number(data, at)
        size = at
    return found, size


def _skipped(data: bytes, at: int, kind: int, depth: int) -> int:
    """Offset after a value of Thrift's compact protocol."""
    if depth > 16:
        raise ValueError
    if kind in (1, 2):
        return at
    if kind == 3:
        return at + 1
    if kind in (4, 5, 6):
        return _varint(data, at)[1]
    if kind == 7:
        return at + 8
    if kind == 8:
        size, at = _varint(data, at)
        if at + size > len(data):
            raise IndexError
        return at + size
    if kind in (9, 10):
        size, element, at = _list(data, at)
        if size > len(data):
            raise IndexError
        for _ in range(size):
            at = at + 1 if element in (1, 2) else _skipped(data, at, element, depth + 1)
        return at
    if kind == _STRUCT:
        return max(end for _, end, _ in _fields(data, at, depth + 1))
    raise ValueError
