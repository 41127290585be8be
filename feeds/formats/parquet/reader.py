"""Parquet files, and Arrow IPC files (Feather 2) and streams, as ticks. Extra ``[parquet]``.

Columns are found by name or by the option ``columns``; docs/feeds/parquet.md lists the names that are known and how
values become fields of ticks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any, BinaryIO, Final, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding.columns import FAULT_EMPTY, FAULT_NAME, FAULT_NAMES, FAULT_RANGE, Faults
from strand.errors import ConfigurationError, FeedError, FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds.base import BaseFeed, FeedInfo, Flags, Selection, TickBatch
from strand.feeds.formats.options import ParquetOptions
from strand.feeds.formats.own_metadata import OWN_KEY, Own, own_from
from strand.feeds.formats.parquet.dialects import (
    DatabentoSource,
    Dialect,
    FreqtradeSource,
    NautilusSource,
    freqtrade_kind,
    is_databento,
    is_nautilus,
)
from strand.feeds.formats.parquet.sources import (
    ARROW_MAGIC,
    ArrowSource,
    Expansion,
    IpcSource,
    KeepsGroup,
    check_row_group,
    chunks_of,
    first_line,
    is_arrow_stream,
    names_of,
    needs_its_end,
)
from strand.feeds.io.files import Frame, frame_at
from strand.feeds.io.prefetch import PrefetchedBatches, may_prefetch
from strand.feeds.io.sources import InflateLimits, ObjectStream
from strand.feeds.io.stores import ObjectFile, object_at
from strand.feeds.io.streams import RawStream, open_stream
from strand.feeds.mapping.columns import Columns, Reading, columns_of
from strand.feeds.mapping.events import Rolls, with_ends
from strand.feeds.mapping.options import MEND, Options, options_among
from strand.feeds.mapping.records import arrow_column, mask_of, nulls_of, numbers
from strand.feeds.mapping.symbols import ByRow, SymbolIndex, is_text, joined_texts
from strand.feeds.mapping.values import NS_IN, unusable
from strand.options import named_options
from strand.symbols import NAME_BYTES, check_name
from strand.ticks import empty, picked
from strand.validate import unit_power

_SPARE: Final = 65536
_COUNTS: Final = (
    "rows", "ticks", "not_selected", "skipped_rows", "rows_rounded", "sequences_left_out", "row_groups_passed_over",
    "rolled_instruments", "mixed_quotes",
)  # fmt: skip


def _without_views(batch: Any) -> Any:
    """A record batch whose texts are no views, from which Arrow cannot choose rows. Only such texts are copied."""
    import pyarrow as pa
    import pyarrow.types as kinds

    is_view = getattr(kinds, "is_string_view", lambda _: False)
    columns, changed = list(batch.columns), False
    for at, column in enumerate(columns):
        if is_view(column.type):
            columns[at], changed = column.cast(pa.string()), True
        elif kinds.is_dictionary(column.type) and is_view(column.type.value_type):
            words = column.dictionary.cast(pa.string())
            columns[at], changed = pa.DictionaryArray.from_arrays(column.indices, words), True
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names) if changed else batch


class _FrameSource(ArrowSource):
    """A table in memory, or a reader of record batches, by Arrow's C interface. Its columns are not copied."""

    def __init__(self, frame: Frame, path: Path) -> None:
        self._frame, self._path = frame, path
        #: The only one that a reader of record batches gives.
        self._stream: Any = self._streamed()
        self.schema = self._stream.schema
        self.names = names_of(self.schema, path)
        self.metadata = self.schema.metadata or {}
        if not frame.is_read_once:
            self._stream = None
            rows = getattr(frame.table, "num_rows", None)
            self.rows = rows if rows is not None else len(frame.table) if hasattr(frame.table, "__len__") else None

    def _streamed(self) -> Any:
        import pyarrow as pa

        table = self._frame.table
        try:
            return pa.RecordBatchReader.from_stream(table)
        except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
            raise FormatError(f"cannot be read as Arrow: {first_line(error)}", path=self._path) from error

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        """See ``ArrowSource``."""
        import pyarrow as pa

        del keeps, texts
        if self._frame.is_read_once:
            stream, self._stream = self._stream, None
            if stream is None:
                raise FeedError("was read before, and cannot begin anew: give a table", path=self._path)
        else:
            stream = self._streamed()
        first = 0
        try:
            for batch in stream:
                chosen = batch.select(list(columns))
                for at in range(0, batch.num_rows, batch_rows):
                    yield first + at, chosen.slice(at, batch_rows)
                first += batch.num_rows
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FormatError(f"cannot be read on after row {first}: {first_line(error)}", path=self._path) from error


PARQUET_MAGIC: Final = b"PAR1"
#: Bytes at the end of an object of a store that are asked for first; most descriptions of files are shorter.
FOOTER_BYTES: Final = 1 << 16
#: Bytes that pyarrow reads of a column at a time.
_BUFFER: Final = 1 << 18


class ParquetSource(ArrowSource):
    """A Parquet file: a part of a row group at a time, and only the columns asked for. The pages of each group are held
    against the limits first."""

    def __init__(self, path: Path, limits: InflateLimits | None) -> None:
        self._path = path
        self._limits = limits
        self._places: dict[str, int] = {}
        with self._raw() as raw, self._opened((), raw) as file:
            self.schema = file.schema_arrow
            self.names = names_of(self.schema, path)
            self.metadata = {**(self.schema.metadata or {}), **(file.metadata.metadata or {})}
            self.rows = file.metadata.num_rows
            self.row_groups = file.metadata.num_row_groups
            self._places = {file.schema.column(i).path: i for i in range(len(file.schema.names))}
            try:
                self._chunks = chunks_of(raw)
            except ValueError as error:
                raise FormatError(f"cannot be read as Parquet: {error}", path=path) from None
        if len(self._chunks) != self.row_groups or any(len(of) != len(self._places) for of in self._chunks):
            raise FormatError("cannot be read as Parquet: its row groups lack columns", path=path)

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        row = 0
        places = [at for path, at in self._places.items() if path.split(".", 1)[0] in columns or path in columns]
        with self._raw() as pages, self._opened(texts, pages) as file:
            expansion = Expansion(self._limits, self._path, pages.seek(0, os.SEEK_END))
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            kept = [keeps(group, self._places) for group in groups]
            if isinstance(pages, ObjectFile):
                chunks = [self._chunks[number][at] for number, keep in enumerate(kept) if keep for at in places]
                pages.plan((chunk.begin, chunk.begin + max(0, chunk.size)) for chunk in chunks)
                pread = pages.pread
            else:
                pread = partial(os.pread, pages.fileno())
            for number, group in enumerate(groups):
                first, row = row, row + group.num_rows
                if not kept[number]:
                    yield first, group.num_rows
                    continue
                chunks = [self._chunks[number][at] for at in places]
                check_row_group(pread, chunks, group.num_rows, expansion, number)
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

    def _raw(self) -> ObjectFile | BinaryIO:
        """The file's bytes. An object of a store is read in the parts that are asked for."""
        found = object_at(self._path)
        if found is None:
            return self._path.open("rb")
        file = ObjectFile(found)
        file.plan([(file.size - FOOTER_BYTES, file.size)])
        return file

    def _next(self, batches: Iterator[Any], group: int) -> Any:
        try:
            batch = next(batches, None)
        except (OSError, ValueError, OverflowError, MemoryError, NotImplementedError) as error:
            raise FormatError(f"row group {group} cannot be read: {first_line(error)}", path=self._path) from None
        for column in () if batch is None else batch.columns:
            if not _stays_within(column):
                raise FormatError(f"row group {group} cannot be read: index not in dictionary", path=self._path)
        return batch

    def _opened(self, texts: Sequence[str], raw: ObjectFile | BinaryIO) -> Any:
        import pyarrow.parquet as pq

        encoded = [self._places[text] for text in texts if text in self._places] or None
        source: Any = raw if isinstance(raw, ObjectFile) else self._path
        try:
            return pq.ParquetFile(source, pre_buffer=False, buffer_size=_BUFFER, read_dictionary=encoded)
        except FileNotFoundError:
            raise FeedError("there is no such file", path=self._path) from None
        except (OSError, ValueError, OverflowError, MemoryError, NotImplementedError) as error:
            size = raw.seek(0, os.SEEK_END)
            raw.seek(max(0, size - 4))
            if raw.read(4) not in (PARQUET_MAGIC, b"PARE"):
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


def _open_arrow(path: Path | str, limits: InflateLimits | None) -> ArrowSource:
    """The source for a file, by its first bytes. Raises FeedError and its kinds, MissingExtraError."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError("reading Parquet and Arrow files", "pyarrow", "parquet") from None
    if (frame := frame_at(path)) is not None:
        return _FrameSource(frame, Path(path))
    with open_stream(path, limits=limits) as stream:
        head = stream.head(16)
        if head.startswith(PARQUET_MAGIC):
            if not isinstance(stream, RawStream | ObjectStream):
                raise needs_its_end("a Parquet file", stream, path, "(its columns are compressed already)")
            return ParquetSource(Path(path), limits)
        if head.startswith(ARROW_MAGIC) or is_arrow_stream(head):
            return IpcSource(path, limits)
    raise FormatError(
        f"is neither a Parquet nor an Arrow file: it starts with {head[:8].hex(' ') or 'nothing'}", path=path, offset=0
    )


def _dialect_of(source: ArrowSource, path: Path | str, said: Options) -> Dialect | None:
    """A source as one of a program that writes such columns. A user who names columns knows them."""
    if is_nautilus(source):
        return NautilusSource(source, path)
    if said.columns:
        return None
    if (kind := freqtrade_kind(source, path)) is not None:
        return FreqtradeSource(source, path, kind)
    return DatabentoSource(source, path) if is_databento(source) else None


def _interrupt(path: Path | str) -> None:
    """Ends requests to a store, for which a thread may wait."""
    found = object_at(path)
    for file in () if found is None else list(found.files):
        file.interrupt()


# The number of the first row, and then a record batch, or how many rows were not read.
Read = tuple[int, Any]


def recognise(head: bytes) -> bool:
    """Tells whether an uncompressed file that starts with ``head`` is Parquet, an Arrow IPC file or an Arrow IPC
    stream."""
    return head.startswith((PARQUET_MAGIC, ARROW_MAGIC)) or is_arrow_stream(head)


@dataclass(slots=True)
class _Made:
    """The ticks of some rows, and a ``fault`` where one ends the iteration behind them. ``counts``, ``passed`` and
    ``known`` take effect when the ticks are yielded: the counters to add, the skipped bad rows (how many, the number of
    the first, what is wrong with it), and how many symbols are known by then."""

    ticks: TickBatch = field(default_factory=lambda: empty(0))
    fault: FeedError | None = None
    counts: dict[str, int] = field(default_factory=dict)
    passed: tuple[int, int, str] | None = None
    known: int = 0


@named_options("ParquetFeed()", declares=ParquetOptions)
class ParquetFeed(BaseFeed):
    """Reads a Parquet or Arrow file as batches of ticks, in the order of its rows.

    Only the columns that are used are read. A float stands for the shortest decimal that rounds to it.

    Args:
        path: The file.

    Raises:
        FormatError: If the file has no usable columns, or a row is bad.
        TruncatedFeedError: If the file is cut.
        ConfigurationError: If an option cannot work.
        MissingExtraError: If pyarrow is not installed.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[ParquetOptions]) -> None:
        super().__init__()
        said, size_unit, symbol = options_among(options), options["size_unit"], options["symbol"]
        self._path: str | Path = str(path) if str(path) == "-" else Path(path)
        self._skip = said.skips
        self._select = options["select"] or Selection()
        self._batch_ticks = options["batch_ticks"]
        self._counts = dict.fromkeys(_COUNTS, 0)

        self._source = _open_arrow(self._path, options["limits"])
        dialect = _dialect_of(self._source, self._path, said)
        if dialect is not None:
            self._source = dialect
            size_unit = f"1e{dialect.size_power}" if size_unit is None else size_unit
        self._instrument = None if dialect is None else dialect.instrument
        self._rolls = Rolls(quotes=self._source.own_quotes)
        self._is_file = isinstance(self._path, Path) and self._path.is_file()
        text = self._source.metadata.get(OWN_KEY)
        own = None if text is None else own_from(text, self._path)
        #: Attributes of each stock from the source, by name, if strand wrote the file and the source had them.
        self.directory = {} if own is None else own.directory
        own_unit = 1.0 if own is None else own.info.size_unit
        if own_unit is None and size_unit is not None:
            raise ConfigurationError("size_unit", "leave it out: the sizes in the file are of several units")
        own_power = 0 if own_unit is None else unit_power("the file's size_unit", own_unit)
        of_ticks = {"time_unit": "ns"} if own is not None or dialect is not None else {}
        of_dialect = {} if dialect is None else {"undefined_nulls": True}
        self._reading = said.reading(
            options["price_unit"], size_unit, own_size_power=own_power, own=own is not None, **of_ticks, **of_dialect
        )
        self._columns = (
            columns_of(self._source.names, said.columns, said.constants, self._reading)
            if dialect is None
            else dialect.columns(said, self._reading)
        )
        if not self._columns.has_time:
            raise FormatError(
                f"no column looks like times (there are {', '.join(self._source.names) or 'none'}): say by "
                "columns={'ts_event': NAME} which one it is",
                path=self._path,
            )
        self._rows = _Rows(
            self._columns,
            own=None if own is None else own.symbols,
            one=dialect.symbol if symbol is None and dialect is not None else symbol,
            keeps=self._select.keeps,
            max_symbols=options["max_symbols"] or _SPARE,
            path=self._path,
            schema=self._source.schema,
        )
        #: Names of the ticks yielded so far. Ticks are made ahead, so the table of keys may know more.
        self._names = list(self._rows.keys.names)
        # Columns of text that the source may give as dictionaries.
        self._texts = [name for name in self._columns.letters if is_text(self._source.schema.field(name).type)]
        if self._rows.text is not None:
            self._texts.append(self._rows.text)
        unit = own_unit if size_unit is None else float(Decimal(str(size_unit)))
        info = self._info_of(own, dialect, unit, said)
        self._event, masks = said.ends_of(info.flags or Flags(), own is not None or dialect is not None)
        self._info = replace(info, flags=masks)

    def _info_of(self, own: Own | None, dialect: Dialect | None, unit: float | None, said: Options) -> FeedInfo:
        from pyarrow.types import is_integer

        schema = self._source.schema
        details = {
            "rows": self._source.rows,
            "row_groups": self._source.row_groups,
            "columns": {**self._columns.of, **({"symbol": list(joined)} if (joined := self._columns.joined) else {})},
        }
        name = "parquet" if self._source.row_groups is not None else "arrow"
        if own is not None:
            return own.info.info(name, str(self._path), details, unit, said)
        flags = self._columns.flags_of(said.ticks) if dialect is None else dialect.flags
        return FeedInfo(
            name,
            str(self._path),
            venue=None if dialect is None else dialect.venue,
            details=details,
            size_unit=unit,
            ticks=said.ticks or ("plain" if dialect is None else dialect.ticks),
            ticks_assumed=said.ticks is None and dialect is None,
            prices_assumed=dialect is None
            and self._columns.assumes_prices(lambda name: is_integer(schema.field(name).type)),
            flags=said.masks or flags,
            has_sizes=self._columns.has_sizes,
            bars=None if dialect is None else dialect.bars,
            zone=self._reading.zone,
        )

    @property
    def info(self) -> FeedInfo:
        """``details["columns"]`` says which column each field comes from."""
        rolled = self._rolls.details(self._rows.keys.names)
        return replace(self._info, details=self._info.details | rolled) if rolled else self._info

    @property
    def symbols(self) -> Sequence[str]:
        """Names by ``instrument_id``, in the order they come; of instruments known by a number only, ``id:N``."""
        return self._names

    @property
    def max_symbols(self) -> int:
        return self._rows.keys.max_symbols

    @property
    def rolls(self) -> Rolls | None:
        """The instruments of names, as far as they were read; None: the file does not tell them."""
        return None if self._instrument is None else self._rolls

    def count(self) -> int | None:
        """The number of rows, if nothing is left out and the file says how many it has; else None.

        A name that goes over to another instrument adds a tick, so a file that tells instruments has none.
        """
        return None if self._select or self._skip or self._instrument is not None else self._source.rows

    def batches(self) -> Iterator[TickBatch]:
        """Yields the rows from the first one on, at most ``batch_ticks`` at a time.

        Raises:
            FormatError: If a row is bad, after every tick before it; it names the row (from 1) and the column.
        """
        flags = self._info.flags
        rows = self._batches()
        return with_ends(rows, self._event, flags.last) if self._event and flags is not None else rows

    def last_batches(self, ticks: int) -> Iterator[TickBatch] | None:
        """See ``BaseFeed``: the row groups of a Parquet file that hold them."""
        count = self.count()
        if count is None or self._source.row_groups is None or self._event:
            return None
        seen = 0

        def is_near_the_end(group: Any, _: Mapping[str, int]) -> bool:
            nonlocal seen
            seen += int(group.num_rows)
            return seen > count - ticks

        return self._batches(is_near_the_end)

    def _batches(self, keeps: KeepsGroup | None = None) -> Iterator[TickBatch]:
        counts = self._counts
        counts.update(dict.fromkeys(counts, 0))
        self.skipped.clear()
        self._rolls = Rolls(quotes=self._source.own_quotes)
        self._check_open()
        # A thread runs ahead only for a regular file: closing then waits for one batch at most, and for a pipe it could
        # wait for ever.
        ahead = self._is_file and may_prefetch()
        made = (
            PrefetchedBatches(self._made(keeps), f"strand make {Path(self._path).name}") if ahead else self._made(keeps)
        )
        try:
            while (part := next(made, None)) is not None:
                self._check_open()
                for name, n in part.counts.items():
                    counts[name] += n
                self._names += self._rows.keys.names[len(self._names) : part.known]
                if part.passed is not None:
                    n, row, what = part.passed
                    self.skipped.add("bad row", n, line=row, text=what)
                if len(part.ticks):
                    counts["ticks"] += len(part.ticks)
                    yield part.ticks
                    self._check_open()
                if part.fault is not None:
                    raise part.fault
                del part  # frees the batch before the wait for the next one
        finally:
            _interrupt(self._path)
            made.close()

    def close(self) -> None:
        """See ``BaseFeed``."""
        super().close()
        _interrupt(self._path)

    def _made(self, keeps: KeepsGroup | None) -> Generator[_Made, None, None]:
        """The rows as ticks. Another thread may run it, ahead of the ticks yielded."""
        if keeps is None:
            keeps = _group_filter(self._columns, self._reading, self._select, self._source.schema)
        batches: PrefetchedBatches[Read] | Generator[Read, None, None]
        batches = self._source.batches(self._columns.names, self._batch_ticks, keeps, self._texts)
        # Reading Parquet takes longer than making ticks of it, so a thread reads ahead.
        if self._source.row_groups is not None and may_prefetch():
            batches = PrefetchedBatches(batches, f"strand read {Path(self._path).name}")
        try:
            yield from starmap(self._convert, batches)
        finally:
            batches.close()

    def _convert(self, first: int, batch: Any) -> _Made:
        """The wanted ticks of a record batch, up to its first fault. ``first``: the number of its first row, from 0.
        Rows that were not read make no ticks."""
        made = _Made()
        if isinstance(batch, int):
            made.counts = {"row_groups_passed_over": 1, "not_selected": batch}
        else:
            made.counts = {"rows": batch.num_rows, "not_selected": 0}
            made.fault = self._make(batch, first, made)
        made.known = len(self._rows.keys.names)
        return made

    def _make(self, batch: Any, first: int, made: _Made) -> FeedError | None:
        rows: range | npt.NDArray[np.uint64] = range(first + 1, first + 1 + batch.num_rows)
        batch = _without_views(batch)
        try:
            keys, wanted, bad_key, why = self._rows.of(batch)
            if wanted is not None:
                kept = wanted if bad_key is None else wanted | bad_key
                if not kept.all():
                    made.counts["not_selected"] += int(np.count_nonzero(~kept))
                    batch, rows, keys = batch.filter(mask_of(kept)), np.array(rows, np.uint64)[kept], keys[kept]
                    bad_key = None if bad_key is None else bad_key[kept]
            found = self._columns.convert(lambda name: arrow_column(batch.column(name)), rows, keys)
        except TypeError as error:
            return FormatError(str(error), path=self._path)
        except UnicodeDecodeError as error:
            return FormatError(f"in the rows from {first + 1}: text that is not UTF-8 ({error})", path=self._path)
        if found.rows is not None:
            rows = np.asarray(rows)[found.rows]
            bad_key = None if bad_key is None else bad_key[found.rows]
        if bad_key is not None and bad_key.any():
            found.note(bad_key, self._rows.column, why, over=True)
        ticks, fault, good = found.ticks, None, found.kept(self._skip)
        if found.bad is not None and found.first is not None:
            row, problem = int(rows[found.first.index]), found.first
            if self._skip:
                count = made.counts["skipped_rows"] = len(np.unique(np.asarray(rows)[found.bad]))
                made.passed = count, row, f"{problem.column}: {problem.problem}"
            else:
                text = f"row {row}: column {problem.column!r} {problem.problem}: {MEND}"
                fault = FormatError(text, path=self._path)
        within = self._select.within(ticks["ts_recv"])
        within = within if good is None else good if within is None else good & within
        within = None if within is None or within.all() else within
        made.counts.update(found.counts(within))
        if within is not None:
            passed = int(np.count_nonzero(~within)) - (0 if good is None else int(np.count_nonzero(~good)))
            made.counts["not_selected"] += passed
            ticks = picked(ticks, within)
        ids = None
        if self._instrument is not None:
            ids = numbers(batch.column(self._instrument))
            ids = ids if found.rows is None else ids[found.rows]
            ids = ids if within is None else ids[within]
        made.ticks, counts = self._rolls.follow(ticks, ids)
        made.counts |= counts
        return fault

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration: ``rows`` read, ``ticks``, ``not_selected``, ``skipped_rows``,
        ``rows_rounded`` (rows of ticks in which a number was rounded), ``sequences_left_out`` (above 2^40 - 1),
        ``row_groups_passed_over``, and of Databento's tables ``rolled_instruments`` (names that went over to another
        instrument) and ``mixed_quotes`` (of one publisher after another's, under one name)."""
        return dict(self._counts)


Mask = npt.NDArray[np.bool_]
_PROBLEMS: Final = {
    FAULT_EMPTY: "holds null or an empty text where a symbol must be",
    FAULT_NAME: "holds a value that is not a symbol's name, which is UTF-8 text of at most "
    f"{NAME_BYTES} bytes without control characters",
}


class _Rows:
    """The keys of rows, from the columns that name their symbols.

    ``own``: the names that a file of strand's own keeps; its ``instrument_id`` is then the key. ``one``: the symbol of
    all rows. ``text``: the column of symbols, if it is of text and for them alone, so that it may come as a dictionary.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        own: Sequence[str] | None,
        one: str | None,
        keeps: Callable[[str], bool],
        max_symbols: int,
        path: str | Path,
        schema: Any,
    ) -> None:
        named, numbered = columns.of.get("symbol"), columns.of.get("instrument_id")
        self._columns: tuple[str, ...] = columns.joined or tuple(filter(None, [named or numbered]))
        self._is_own = one is None and named is None and own is not None
        if one is not None:
            if named is not None:
                raise ConfigurationError("symbol", "the file has a column of symbols; leave it out by columns")
            self._columns, names = (), [check_name("symbol", one)]
        elif self._is_own:
            names = list(own or ())
            if numbered is None:
                raise FormatError("its column 'instrument_id' is missing", path=path)
        elif not self._columns:
            raise FormatError(
                "no column looks like symbols: say by columns={'symbol': NAME} which one it is, or name the one symbol "
                "of the file by symbol=",
                path=path,
            )
        else:
            names = []
        self.keys = SymbolIndex(max(1, len(names)) if names or self._is_own else max_symbols, keeps, names=names)
        self.column, self._field = next(iter(self._columns), ""), "instrument_id" if named is None else "symbol"
        alone = len(self._columns) == 1 and list(columns.of.values()).count(self.column) == 1
        self.text = self.column if named and alone and is_text(schema.field(self.column).type) else None

    def of(self, batch: Any) -> tuple[ByRow, Mask | None, Mask | None, str]:
        """Keys of a record batch's rows, which rows are wanted (None: all), which have no key (None: none), and why
        the first of these has none.

        Raises TypeError for a column of another kind.
        """
        if not self._columns:
            keys, faults = np.zeros(batch.num_rows, np.uint32), np.zeros(batch.num_rows, np.uint16)
        elif self._is_own:
            keys, faults = self._own(batch.column(self.column))
        else:
            every = [batch.column(name) for name in self._columns]
            column = every[0] if len(every) == 1 else joined_texts(every)
            try:
                keys, faults = self.keys.of_arrow(column, texts=self._field == "symbol")
            except TypeError as error:
                raise TypeError(unusable(self._field, self.column, str(column.type), str(error))) from None
        if not faults.any():
            return keys, self.keys.wanted(keys), None, ""
        bad = faults != 0
        keys = np.where(bad, np.uint32(0), keys)
        wanted = self.keys.wanted(keys)
        return keys, None if wanted is None else wanted & ~bad, bad, self._problem(batch, int(np.argmax(bad)), faults)

    def _own(self, column: Any) -> tuple[ByRow, Faults]:
        import pyarrow.types as kinds

        if not kinds.is_uint32(column.type):
            raise TypeError(f"column {self.column!r} is {column.type}, not uint32")
        keys, nulls = numbers(column), nulls_of(column)
        faults = (keys >= len(self.keys.names)).astype(np.uint16) * np.uint16(FAULT_RANGE)
        if nulls is not None:
            faults[nulls] = FAULT_EMPTY
        return keys, faults

    def _problem(self, batch: Any, row: int, faults: Faults) -> str:
        if faults[row] == FAULT_RANGE:
            return f"holds a key beyond the file's {len(self.keys.names)} symbols"
        if faults[row] != FAULT_NAMES:
            return _PROBLEMS[int(faults[row])]
        shown, most = batch.column(self.column)[row].as_py(), self.keys.max_symbols
        room = f"the {most} there is room for: give max_symbols= if the file really has so many"
        return f"is full: {shown!r} is one symbol more than {room}"


_WILD: Final = "*?["


def _group_filter(
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
    name_column = None if columns.joined else columns.of.get("symbol")
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
            # Blanks around a name do not count: one that begins with a blank may stand for any name.
            return found[0] < b"!" or any(found[0].rstrip(b" ") <= name <= found[1] for name in wanted)

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
