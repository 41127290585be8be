"""Sources of record batches: Arrow IPC files and streams; and checks of them and of Parquet files.

pyarrow reads a file only as far as its declared sizes stay within the limits on what a compressed file may expand to.
Layout of Arrow: its format/Message.fbs, Schema.fbs and File.fbs as flatbuffers. Layout of Parquet: parquet.thrift
(FileMetaData, PageHeader) in Thrift's compact protocol.
"""

from __future__ import annotations

import abc
import contextlib
import io
import os
import struct
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.io.sources import InflateLimits, InputStream, ObjectStream
from strand.feeds.io.stores import ObjectFile, object_at
from strand.feeds.io.streams import RawStream, open_stream

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


class _Pieces(io.RawIOBase):
    """A file object for pyarrow that a subclass gives the next bytes of. A length that a damaged file claims takes no
    memory by itself."""

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

    @abc.abstractmethod
    def _some(self, size: int) -> bytes | memoryview:
        """The next bytes, at most ``size``; none at the end."""


class FramedReader(_Pieces):
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
# Types of Thrift's compact protocol, and fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_INTEGERS, _LIST, _STRUCT = (4, 5, 6), 9, 12
_ROW_GROUPS, _COLUMNS, _META_DATA = (4, _LIST), (1, _LIST), (3, _STRUCT)
_CODEC, _SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 4, 7, 9, 11


class Chunk(NamedTuple):
    """A column's part of a row group: how it is packed (a CompressionCodec), its bytes in the file, where it begins."""

    codec: int
    size: int
    begin: int


def chunks_of(file: BinaryIO | ObjectFile) -> list[list[Chunk]]:
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
        return _struct(footer, 0, _FILE)[0].get(_ROW_GROUPS, [])  # type: ignore[no-any-return]
    except IndexError:
        raise ValueError("its footer is cut") from None


def _group(footer: bytes, at: int) -> tuple[list[Chunk], int]:
    found, at = _struct(footer, at, _GROUP)
    if _COLUMNS not in found:
        raise ValueError("a row group without columns")
    return found[_COLUMNS], at


def _chunk(footer: bytes, at: int) -> tuple[Chunk, int]:
    column, at = _struct(footer, at, _CHUNK)
    if _META_DATA not in column:
        raise ValueError("a column without metadata")
    found = column[_META_DATA]
    data, dictionary = found.get(_DATA_PAGE, 0), found.get(_DICTIONARY_PAGE, 0)
    begin = dictionary if 0 < dictionary < data else data
    return Chunk(found.get(_CODEC, 0), found.get(_SIZE, 0), begin), at


def check_row_group(
    pread: Callable[[int, int], bytes], chunks: Sequence[Chunk], rows: int, expansion: Expansion, number: int
) -> None:
    """Adds columns of a row group of a file, by the headers of their pages. ``pread`` gives bytes from a place on.

    The file's metadata is not trusted: it may promise less than pages hold. A page whose header cannot be read is left
    to pyarrow, which reads no further either.
    """
    made = read = 0
    for chunk in chunks:
        size = max(0, chunk.size)
        unpacked, packed = 0, size
        if chunk.codec not in _HARDLY_EXPANDS:
            packed = 0
            for page, stored in _pages(pread, chunk.begin, chunk.begin + size):
                expansion.check(page, stored, f"a page of row group {number}")
                unpacked, packed = unpacked + page, packed + stored
        made += max(unpacked, VALUE_BYTES * rows)
        read += packed
    expansion.add(made, read, f"row group {number}")


def _pages(pread: Callable[[int, int], bytes], at: int, end: int) -> Iterator[tuple[int, int]]:
    """The bytes that each page of a column chunk holds and has in the file."""
    while at < end:
        for most in (_HEADER_BYTES, _LONGEST_HEADER):
            try:
                fields, size = _struct(pread(min(most, end - at), at), 0, {})
                break
            except IndexError:
                continue
            except ValueError:
                return
        else:
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


#: Reads a value of a struct: returns it, and the offset after it.
Reader = Callable[[bytes, int], tuple[Any, int]]


def _struct(
    data: bytes, at: int, readers: Mapping[tuple[int, int], Reader], depth: int = 0
) -> tuple[dict[Any, Any], int]:
    """Integers of a Thrift struct by their fields, what ``readers`` read by field and type, and the offset after it.
    Raises IndexError where it goes on behind ``data``, ValueError where it is none."""
    found: dict[Any, Any] = {}
    last = 0
    while byte := data[at]:
        at += 1
        kind = byte & 0x0F
        if byte > 0x0F:
            last += byte >> 4
        else:
            zigzag, at = _varint(data, at)
            last = (zigzag >> 1) ^ -(zigzag & 1)
        if kind in _INTEGERS:
            zigzag, at = _varint(data, at)
            found[last] = (zigzag >> 1) ^ -(zigzag & 1)
        elif (last, kind) in readers:
            found[last, kind], at = readers[last, kind](data, at)
        else:
            at = _skipped(data, at, kind, depth)
    return found, at + 1


def _list(data: bytes, at: int) -> tuple[int, int, int]:
    """A list's length, the type of its elements, and where they begin."""
    byte = data[at]
    size, at = (byte >> 4, at + 1) if byte >> 4 != 15 else _varint(data, at + 1)
    return size, byte & 0x0F, at


def _structs(data: bytes, at: int, of: Reader) -> tuple[list[Any], int]:
    """The structs of a list, each as ``of`` reads it, and the offset after the list."""
    size, kind, at = _list(data, at)
    if kind != _STRUCT or size > len(data):
        raise ValueError("a list of something else")
    found = [None] * size
    for i in range(size):
        found[i], at = of(data, at)
    return found, at


def _skipped(data: bytes, at: int, kind: int, depth: int) -> int:
    """Offset after a value of Thrift's compact protocol."""
    if depth > 16:
        raise ValueError
    if kind in (1, 2):
        return at
    if kind == 3:
        return at + 1
    if kind in _INTEGERS:
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
        return _struct(data, at, {}, depth + 1)[1]
    raise ValueError


_CHUNK: Final = {_META_DATA: partial(_struct, readers={})}
_GROUP: Final = {_COLUMNS: partial(_structs, of=_chunk)}
_FILE: Final = {_ROW_GROUPS: partial(_structs, of=_group)}


KeepsGroup = Callable[[Any, Any], bool]


class ArrowSource:
    """A file of record batches."""

    schema: Any
    names: list[str]
    metadata: Mapping[bytes, bytes]
    rows: int | None = None
    row_groups: int | None = None
    own_quotes: bool = False  # a quote is one publisher's, and not of all together

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        """Record batches of those columns, and what number (from 0) the first row of each has in the file.

        ``keeps``: asked for every row group of a Parquet file, with its metadata and the columns' places; those it
        turns down are not read, and come as the number of their rows. ``texts``: columns of text that may be given as
        dictionaries, where that costs less.
        """
        raise NotImplementedError


def needs_its_end(what: str, stream: InputStream, path: Path | str, note: str = "") -> FeedError:
    """The error for a file that is packed, or comes out of a pipe, where its end is needed first."""
    where, do = "a pipe", "store it in a file first"
    if stream.compression != "none":
        where, do = f"{stream.compression} data", f"decompress it into a file first {note}".rstrip()
    return FeedError(f"{what} is read from its end, which {where} does not allow: {do}", path=path)


def names_of(schema: Any, path: Path | str) -> list[str]:
    """The names of a schema's columns. Raises FormatError where two have one name, or one is no text."""
    try:
        names = list(schema.names)
        for kind in schema.types:  # a time's zone is text too
            str(kind)
            getattr(kind, "tz", None)
    except UnicodeDecodeError as error:
        raise FormatError(f"has a column whose name or zone is not UTF-8: {error}", path=path) from None
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FormatError(f"has more than one column named {twice[0]!r}", path=path)
    return names


def first_line(error: Exception) -> str:
    """First line of an error of pyarrow's, without the lines about pyarrow's own code."""
    return (str(error).splitlines() or [type(error).__name__])[0]


ARROW_MAGIC: Final = b"ARROW1\0\0"
_ARROW_TAIL: Final = b"ARROW1"
_END_OF_STREAM: Final = CONTINUATION + bytes(4)
_PADDING: Final = 64
_MAX_SCHEMA: Final = 1 << 24
_BUFFER: Final = 1 << 18
_PIECE: Final = 1 << 20


def is_arrow_stream(head: bytes) -> bool:
    """Tells whether bytes begin as an Arrow IPC stream does: a mark, then the length of the schema's message."""
    if len(head) < 16 or not head.startswith(CONTINUATION):
        return False
    length = int.from_bytes(head[4:8], "little")
    return 0 < length <= _MAX_SCHEMA and length % 8 == 0


class _Reader(_Pieces):
    """An ``InputStream``, of which the last bytes are kept, and the stream's own fault."""

    def __init__(self, stream: InputStream) -> None:
        self._stream = stream
        self.fault: FeedError | None = None  # the stream's, or what was found in it
        self.tail = b""

    def _some(self, size: int) -> memoryview:
        piece = memoryview(bytearray(size))
        return piece[: self.readinto(piece)]

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        try:
            got = self._stream.readinto(view)
        except FeedError as error:
            self.fault = error
            raise OSError(str(error)) from error
        if got:
            self.tail = (self.tail + bytes(view[max(0, got - 16) : got]))[-16:]
        return got


class IpcSource(ArrowSource):
    """An Arrow IPC file (Feather 2) or stream, read from its start to its end: compressed ones and pipes too.

    A file begins with a stream, as the format has it; polars' begin with the schema alone (2.1 does), and what is in
    them has to be looked up in the index at their end.
    """

    def __init__(self, path: Path | str, limits: InflateLimits | None) -> None:
        self._path = path
        self._limits = limits
        with open_stream(path, limits=limits) as stream:
            head = stream.head(16)
            odd = len(head) == 16 and head.startswith(ARROW_MAGIC) and head[8:12] != CONTINUATION
            self._by_index = odd and isinstance(stream, RawStream | ObjectStream)
            if not self._by_index:
                try:
                    self.schema = self._begin(stream, Expansion(limits, path))[0].schema
                except FormatError as error:
                    if not odd:
                        raise
                    raise needs_its_end("an Arrow file whose schema stands alone", stream, path) from error
        if self._by_index:
            # Of an object of a store, the messages are looked at when they are read.
            with self._indexed(checks=object_at(path) is None) as reader:
                self.schema = reader.schema
        self.names = names_of(self.schema, path)
        self.metadata = self.schema.metadata or {}

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        del keeps, texts  # there are no statistics to ask about
        row = 0
        for whole in self._by_their_index() if self._by_index else self._in_turn():
            chosen = whole.select(list(columns))
            self._check(chosen, row)
            for first in range(0, chosen.num_rows, batch_rows):
                part = chosen.slice(first, batch_rows)
                yield row, part
                row += part.num_rows

    def _in_turn(self) -> Generator[Any, None, None]:
        with open_stream(self._path, limits=self._limits) as stream:
            reader, file, is_file = self._begin(stream, Expansion(self._limits, self._path))
            while (whole := self._next(reader, file)) is not None:
                yield whole
            self._check_end(file, stream, is_file)

    def _by_their_index(self) -> Generator[Any, None, None]:
        import pyarrow as pa

        with self._indexed() as reader:
            for i in range(reader.num_record_batches):
                try:
                    whole = reader.get_batch(i)
                except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
                    raise self._fault(error, None) from None
                yield whole

    @contextlib.contextmanager
    def _indexed(self, *, checks: bool = True) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.ipc

        # Not mapped: a mapped file that shrinks kills the process.
        with contextlib.ExitStack() as opened:
            try:
                found = object_at(self._path)
                if found is None:
                    file = opened.enter_context(pa.OSFile(os.fspath(self._path)))
                else:
                    raw = opened.enter_context(ObjectFile(found))
                    file = opened.enter_context(pa.PythonFile(raw, mode="r"))
                file.seek(max(0, file.size() - len(_ARROW_TAIL)))
                if file.read() != _ARROW_TAIL:
                    raise TruncatedFeedError(
                        "ends before the mark that ends an Arrow file, and can only be read by the index there; get "
                        "the whole file",
                        path=self._path,
                        offset=file.size(),
                    )
                if checks:
                    self._check_index(file)
                if found is not None and checks:
                    raw.plan([(0, raw.size)])
                file.seek(0)
                reader = opened.enter_context(pyarrow.ipc.open_file(file))
            except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
                raise self._fault(error, None) from None
            yield reader

    def _check_index(self, file: Any) -> None:
        """The messages that the index names lie one behind the other, the last one before the index: a damaged one may
        name fewer than there are, and pyarrow would not miss them."""
        end = file.size() - len(_ARROW_TAIL) - 4
        file.seek(end)
        length = int.from_bytes(file.read(4), "little", signed=True)
        start = end - length
        if not len(ARROW_MAGIC) <= start < end:
            raise FormatError(f"its index cannot be {length} bytes long", path=self._path, offset=end)
        file.seek(start)
        try:
            blocks = blocks_of(file.read(length))
        except (struct.error, ValueError):
            raise FormatError("its index cannot be read", path=self._path, offset=start) from None
        # The schema precedes the first one; the index has it too.
        begins = [offset for offset, _, _ in blocks] + [start]
        gaps = [begins[i + 1] - sum(blocks[i]) for i in range(len(blocks))]
        if begins[0] > len(ARROW_MAGIC) + length + _PADDING or not all(0 <= gap < _PADDING for gap in gaps):
            raise FormatError("its index does not name all that is in it", path=self._path, offset=start)
        check_blocks(file, blocks, Expansion(self._limits, self._path, file.size()))

    def _begin(self, stream: InputStream, expansion: Expansion) -> tuple[Any, _Reader, bool]:
        import pyarrow as pa
        import pyarrow.ipc

        is_file = stream.head(8).startswith(ARROW_MAGIC)
        if is_file:  # what follows the magic is a stream, and then an index of it
            stream.readinto(memoryview(bytearray(8)))
        file = _Reader(stream)
        try:
            framed = FramedReader(file, expansion)
            return pyarrow.ipc.open_stream(pa.PythonFile(framed, mode="r")), file, is_file
        except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
            raise self._fault(error, file) from None

    def _next(self, reader: Any, file: _Reader) -> Any:
        import pyarrow as pa

        try:
            return reader.read_next_batch()
        except StopIteration:
            return None
        except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
            raise self._fault(error, file) from None

    def _check(self, batch: Any, row: int) -> None:
        """Checks offsets and indices: pyarrow trusts those of the file, and would read outside its buffers."""
        import pyarrow as pa

        try:
            batch.validate(full=True)
        except (ValueError, pa.ArrowException) as error:
            raise FormatError(
                f"the rows from {row + 1} on cannot be read as Arrow: {first_line(error)}", path=self._path
            ) from None

    def _fault(self, error: Exception, file: _Reader | None) -> FeedError:
        if file is not None and file.fault is not None:
            return file.fault
        text = first_line(error)
        # pyarrow raises the same error for every fault: only its text tells a short read.
        kind = TruncatedFeedError if "xpected" in text and "read" in text else FormatError
        return kind(f"cannot be read as Arrow: {text}", path=self._path)

    def _check_end(self, file: _Reader, stream: InputStream, is_file: bool) -> None:
        """Checks the end: pyarrow does not notice a file that is cut between two messages, nor a second file appended
        to it."""
        ended = stream.bytes_out
        try:
            while file.readinto(bytearray(_BUFFER)):
                pass
        except OSError as error:
            raise self._fault(error, file) from None
        rest = stream.bytes_out - ended
        ends = file.tail.endswith(_ARROW_TAIL) if is_file else file.tail.endswith(_END_OF_STREAM)
        if not ends:
            raise TruncatedFeedError(
                "ends before the mark that ends an Arrow file; get the whole file, or keep what was read",
                path=self._path,
                offset=stream.bytes_out,
            )
        # Behind a file's last message lie an index, its length, and the mark.
        index = int.from_bytes(file.tail[-10:-6], "little") + 10 if is_file else 0
        if not index <= rest < index + _PADDING:
            raise FormatError(
                f"{rest} bytes follow the last message, and are not part of an Arrow file",
                path=self._path,
                offset=ended,
            )
