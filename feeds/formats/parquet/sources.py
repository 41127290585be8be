"""Record batches of the columns asked for, from Parquet files and Arrow IPC files and streams."""

from __future__ import annotations

import contextlib
import io
import os
import struct
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from strand.errors import FeedError, FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds.base import Flags, Selection, TicksAre, usual_flags
from strand.feeds.formats.parquet.limits import (
    CONTINUATION,
    Expansion,
    FramedReader,
    blocks_of,
    check_blocks,
    check_row_group,
    chunks_of,
)
from strand.feeds.io.sources import InflateLimits, InputStream
from strand.feeds.io.streams import RawStream, open_stream
from strand.feeds.mapping.columns import Columns, Reading
from strand.feeds.mapping.values import NS_IN

__all__ = [
    "ARROW_MAGIC", "PARQUET_MAGIC", "ArrowSource", "Dialect", "IpcSource", "KeepsGroup", "ParquetSource", "first_line",
    "group_filter", "is_arrow_stream", "names_of", "needs_its_end", "open_arrow",
]  # fmt: skip

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


class Dialect(ArrowSource):
    """A file of a program whose columns are known: it gives columns of ticks.

    Attributes:
        symbol: The one symbol of all rows; None: a column has it.
        size_power: The power of ten of the unit of sizes.
        price_power: The power of ten of prices that are whole numbers; None: no price is one.
        ticks: What the ticks mean.
        flags: Which bits of the ticks' flags mean what.
        bars: The length of a bar in ns, where rows are bars of time.
        venue: The market's name, where it is known.
        instrument: The column of the instrument's number, which may change under one symbol.
    """

    symbol: str | None
    size_power: int
    price_power: int | None = None
    ticks: TicksAre = "plain"
    venue: str | None = None
    instrument: str | None = None

    @property
    def flags(self) -> Flags:
        return usual_flags(self.ticks, "never")

    @property
    def bars(self) -> int | None:
        return None


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


class _Reader(io.RawIOBase):
    """An ``InputStream`` as a file object for pyarrow. Keeps the last bytes, and the stream's own fault."""

    def __init__(self, stream: InputStream) -> None:
        self._stream = stream
        self.fault: FeedError | None = None  # the stream's, or what was found in it
        self.tail = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """``size`` bytes, or fewer at the end. A length that a damaged file claims takes no memory by itself."""
        pieces = bytearray()
        while size < 0 or len(pieces) < size:
            piece = bytearray(_PIECE if size < 0 else min(_PIECE, size - len(pieces)))
            got = self.readinto(piece)
            if got == 0:
                break
            pieces += piece[:got]
        return bytes(pieces)

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
            self._by_index = odd and isinstance(stream, RawStream)
            if not self._by_index:
                try:
                    self.schema = self._begin(stream, Expansion(limits, path))[0].schema
                except FormatError as error:
                    if not odd:
                        raise
                    raise needs_its_end("an Arrow file whose schema stands alone", stream, path) from error
        if self._by_index:
            with self._indexed() as reader:
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
    def _indexed(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.ipc

        # Not mapped: a mapped file that shrinks kills the process.
        with contextlib.ExitStack() as opened:
            try:
                file = opened.enter_context(pa.OSFile(os.fspath(self._path)))
                file.seek(max(0, file.size() - len(_ARROW_TAIL)))
                if file.read() != _ARROW_TAIL:
                    raise TruncatedFeedError(
                        "ends before the mark that ends an Arrow file, and can only be read by the index there; get "
                        "the whole file",
                        path=self._path,
                        offset=file.size(),
                    )
                self._check_index(file)
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


PARQUET_MAGIC: Final = b"PAR1"


class ParquetSource(ArrowSource):
    """A Parquet file: a part of a row group at a time, and only the columns asked for. The pages of each group are held
    against the limits first."""

    def __init__(self, path: Path, limits: InflateLimits | None) -> None:
        self._path = path
        self._limits = limits
        self._places: dict[str, int] = {}
        with self._opened() as file:
            self.schema = file.schema_arrow
            self.names = names_of(self.schema, path)
            self.metadata = {**(self.schema.metadata or {}), **(file.metadata.metadata or {})}
            self.rows = file.metadata.num_rows
            self.row_groups = file.metadata.num_row_groups
            self._places = {file.schema.column(i).path: i for i in range(len(file.schema.names))}
        with path.open("rb") as footer:
            try:
                self._chunks = chunks_of(footer)
            except ValueError as error:
                raise FormatError(f"cannot be read as Parquet: {error}", path=path) from None
        if len(self._chunks) != self.row_groups or any(len(of) != len(self._places) for of in self._chunks):
            raise FormatError("cannot be read as Parquet: its row groups lack columns", path=path)

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        row = 0
        places = [at for path, at in self._places.items() if path.split(".", 1)[0] in columns or path in columns]
        with self._opened(texts) as file, self._path.open("rb") as pages:
            expansion = Expansion(self._limits, self._path, self._path.stat().st_size)
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                first, row = row, row + group.num_rows
                if not keeps(group, self._places):
                    yield first, group.num_rows
                    continue
                chunks = [self._chunks[number][at] for at in places]
                check_row_group(pages.fileno(), chunks, group.num_rows, expansion, number)
                batches = file.iter_batches(batch_rows, row_groups=[number], columns=list(columns), use_threads=False)
                while (batch := self._next(batches, number)) is not None:
                    yield first, batch
                    first += batch.num_rows
                if first != row:
                    raise FormatError(
                        f"row group {number} holds {group.num_rows - (row - first)} rows and announces "
                        f"{group.num_rows}",
                        path=self._path,
                    )

    def _next(self, batches: Iterator[Any], group: int) -> Any:
        try:
            batch = next(batches, None)
        except (OSError, ValueError, OverflowError, MemoryError, NotImplementedError) as error:
            raise FormatError(f"row group {group} cannot be read: {first_line(error)}", path=self._path) from None
        for column in () if batch is None else batch.columns:
            if not _stays_within(column):
                raise FormatError(f"row group {group} cannot be read: index not in dictionary", path=self._path)
        return batch

    def _opened(self, texts: Sequence[str] = ()) -> Any:
        import pyarrow.parquet as pq

        encoded = [self._places[text] for text in texts if text in self._places] or None
        try:
            return pq.ParquetFile(self._path, pre_buffer=False, buffer_size=_BUFFER, read_dictionary=encoded)
        except FileNotFoundError:
            raise FeedError("there is no such file", path=self._path) from None
        except (OSError, ValueError, OverflowError, MemoryError, NotImplementedError) as error:
            size = self._path.stat().st_size
            with self._path.open("rb") as file:
                file.seek(max(0, size - 4))
                whole = file.read(4) in (PARQUET_MAGIC, b"PARE")
            if not whole:
                raise TruncatedFeedError(
                    "the file does not end as Parquet does, and what it holds is described at its end; get the whole "
                    "file",
                    path=self._path,
                    offset=size,
                ) from None
            raise FormatError(f"cannot be read as Parquet: {first_line(error)}", path=self._path) from None


def _stays_within(column: Any) -> bool:
    """Tells whether a dictionary column's indices lie within its dictionary; pyarrow does not check it."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if not kinds.is_dictionary(column.type):
        return True
    minimum, maximum = (bound.as_py() for bound in pc.min_max(column.indices).values())
    return minimum is None or (minimum >= 0 and maximum < len(column.dictionary))


def open_arrow(path: Path | str, limits: InflateLimits | None) -> ArrowSource:
    """The source for a file, by its first bytes. Raises FeedError and its kinds, MissingExtraError."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError("reading Parquet and Arrow files", "pyarrow", "parquet") from None
    with open_stream(path, limits=limits) as stream:
        head = stream.head(16)
        if head.startswith(PARQUET_MAGIC):
            if not isinstance(stream, RawStream):
                raise needs_its_end("a Parquet file", stream, path, "(its columns are compressed already)")
            return ParquetSource(Path(path), limits)
        if head.startswith(ARROW_MAGIC) or is_arrow_stream(head):
            return IpcSource(path, limits)
    raise FormatError(
        f"is neither a Parquet nor an Arrow file: it starts with {head[:8].hex(' ') or 'nothing'}", path=path, offset=0
    )


_WILD: Final = "*?["


def group_filter(
    columns: Columns, reading: Reading, select: Selection, schema: Any
) -> Callable[[Any, Mapping[str, int]], bool]:
    """Returns the test for row groups that may hold wanted rows. Without statistics, a row group may."""
    checks: list[Callable[[Any, Mapping[str, int]], bool]] = []
    factor = _time_factor(columns, reading, schema)
    if factor is not None and columns.time is not None and (select.start_ns is not None or select.end_ns is not None):
        column, start, end = columns.time, select.start_ns, select.end_ns

        def in_time(group: Any, places: Mapping[str, int]) -> bool:
            found = _bounds(group, places, column)
            if found is None:
                return True
            low, high = (int(bound) * factor for bound in found)
            return (end is None or low < end) and (start is None or high >= start)

        checks.append(in_time)
    name_column = columns.of.get("symbol")
    if (
        name_column is not None
        and select.symbols
        and not any(mark in name for name in select.symbols for mark in _WILD)
    ):
        wanted = [name.encode() for name in select.symbols]

        def has_symbol(group: Any, places: Mapping[str, int]) -> bool:
            found = _bounds(group, places, name_column)
            if found is None or not all(isinstance(bound, bytes) for bound in found):
                return True
            return any(found[0] <= name <= found[1] for name in wanted)

        checks.append(has_symbol)
    return lambda group, places: all(check(group, places) for check in checks)


def _bounds(group: Any, places: Mapping[str, int], column: str) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column, as they are stored; None where they are not known.

    Nulls are no values, and may be what a bad row holds: a group with any is read.
    """
    place = places.get(column)
    statistics = None if place is None else group.column(place).statistics
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
        return None
    return statistics.min_raw, statistics.max_raw


def _time_factor(columns: Columns, reading: Reading, schema: Any) -> int | None:
    """ns in a unit of the stored times; None where stored numbers are not in that order or not of that zone."""
    import pyarrow.types as kinds

    if columns.time is None:
        return None
    kind = schema.field(columns.time).type
    if kinds.is_timestamp(kind):
        return NS_IN[kind.unit] if kind.tz is not None or reading.zone is None else None
    # Unsigned ones are stored as signed numbers: beyond 2^63 they would look negative.
    whole = kinds.is_int64(kind) or kinds.is_int32(kind)
    return NS_IN[columns.time_unit] if whole and columns.time_unit is not None else None
