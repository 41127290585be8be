"""The pages of Parquet's row groups, held against the limits before they are read.

Layout: Parquet's parquet.thrift (FileMetaData, PageHeader) in Thrift's compact protocol.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple

from strand.feeds.formats.parquet.limits import VALUE_BYTES, Expansion

__all__ = ["Chunk", "check_row_group", "chunks_of"]

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


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
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
        at = _skipped(data, at, kind, 0)
    yield 0, at + 1, 0


def _elements(data: bytes, at: int) -> Iterator[int]:
    """Offsets of the structs of a list."""
    byte = data[at]
    size, at = (byte >> 4, at + 1) if byte >> 4 != 15 else _varint(data, at + 1)
    if byte & 0x0F != _STRUCT or size > len(data):
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
        byte = data[at]
        size, at = (byte >> 4, at + 1) if byte >> 4 != 15 else _varint(data, at + 1)
        if size > len(data):
            raise IndexError
        for _ in range(size):
            at = at + 1 if byte & 0x0F in (1, 2) else _skipped(data, at, byte & 0x0F, depth + 1)
        return at
    if kind == 12:
        while (byte := data[at]) != 0:
            at += 1
            if not byte >> 4:
                at = _varint(data, at)[1]
            at = _skipped(data, at, byte & 0x0F, depth + 1)
        return at + 1
    raise ValueError
