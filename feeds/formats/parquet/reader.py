"""Parquet files, and Arrow IPC files (Feather 2) and streams, as ticks. Extra ``[parquet]``.

Columns are found by name or by the option ``columns``; docs/feeds/parquet.md lists the names that are known and how
values become fields of ticks.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import starmap
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, FeedError, FormatError
from strand.feeds.base import BaseFeed, FeedInfo, Flags, TickBatch, TicksAre
from strand.feeds.formats.dbn.parquet import DatabentoSource, is_databento
from strand.feeds.formats.nautilus import NautilusSource, is_nautilus
from strand.feeds.formats.own_metadata import OWN_KEY, Own, own_from
from strand.feeds.formats.parquet.columns import Keys, arrow_column, mask_of, numbers
from strand.feeds.formats.parquet.sources import (
    ARROW_MAGIC,
    PARQUET_MAGIC,
    Dialect,
    group_filter,
    is_arrow_stream,
    open_arrow,
)
from strand.feeds.io.bytestream import InflateLimits
from strand.feeds.io.prefetch import PrefetchedBatches, may_prefetch
from strand.feeds.mapping.columns import BadRow, Columns
from strand.feeds.mapping.events import Rolls, with_ends
from strand.feeds.mapping.options import MEND, Options, check_options
from strand.feeds.selection import Selection
from strand.ticks import TICK, empty
from strand.validate import unit_power, whole

__all__ = ["ParquetFeed", "recognise"]

_SPARE: Final = 65536

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


class ParquetFeed(BaseFeed):
    """Reads a Parquet or Arrow file as batches of ticks, in the order of its rows.

    Only the columns that are used are read. A float stands for the shortest decimal that rounds to it.

    Args:
        path: The file.
        columns: A map from tick fields, ``symbol``, and of quotes ``bid_price``, ``bid_size``, ``ask_price`` and
            ``ask_size`` to columns (None: none), or to tables of a profile's keys (docs/feeds/parquet.md). A field that
            is missing from the map is recognised by common names.
        constants: Tick fields that have one value for all ticks, by name.
        symbol: The one symbol of a file without a column for it.
        price_unit: What 1 in the price column is worth, a power of ten (``"0.0001"``). None: currency.
        size_unit: What 1 in a tick's ``size`` is worth, for fractions of a coin.
        inexact: What to do with a price that is no whole number of 1e-9, or a size that is no whole number of
            ``size_unit``. ``"raise"``: it is a bad row; ``"round"``: it is rounded to the nearest, ties to even, and
            counted. A size above 0 that rounds to 0 is a bad row.
        time_unit: The unit of times that are plain numbers. None: what the file or the column's name says; integers
            that only ns can be need no word. Others are refused. Timestamps may have any unit.
        zone: The time zone of timestamps that have none; None: UTC.
        ticks: What the ticks mean, a ``TicksAre``: what is a trade, and what a fill does to its order. ``"plain"``,
            unless the file says it.
        flags: Masks of the ticks' flags by meaning, the names of ``strand.feeds.Flags``: ``{"unprinted": 1}``. None: as
            the file says; else bits of a column have no meaning.
        event: What rows of one message of the venue have in common: ``"ts_recv"``, or several fields. Books change at
            the last of these rows. None: each row is an event, or the flags say where one ends.
        nulls: ``"raise"``: a null is a bad row; ``"undefined"``: it is the field's undefined value, except in times and
            symbols.
        max_symbols: The greatest number of symbols; None: 65,536.
        on_bad_record: ``"raise"``, or ``"skip"`` to skip bad rows, and to count and sample them.
        select: Only these ticks are read. Row groups whose statistics lie outside of it are not read; other rows are
            skipped before they become ticks. None: all.
        batch_ticks: The greatest number of rows that are read at a time.
        limits: How far a compressed file may expand; None: ``InflateLimits()``.

    Raises:
        FormatError: If the file has no usable columns, or a row is bad.
        TruncatedFeedError: If the file is cut.
        ConfigurationError: If an option cannot work.
        MissingExtraError: If pyarrow is not installed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Mapping[str, str | Mapping[str, Any] | None] | None = None,
        constants: Mapping[str, int | str | bytes] | None = None,
        symbol: str | None = None,
        price_unit: str | Decimal | None = None,
        size_unit: str | Decimal | None = None,
        inexact: Literal["raise", "round"] = "raise",
        time_unit: Literal["s", "ms", "us", "ns"] | None = None,
        zone: str | None = None,
        ticks: TicksAre | None = None,
        flags: Mapping[str, int] | None = None,
        event: str | Sequence[str] | None = None,
        nulls: Literal["raise", "undefined"] = "raise",
        max_symbols: int | None = None,
        on_bad_record: Literal["raise", "skip"] = "raise",
        select: Selection | None = None,
        batch_ticks: int = 131072,
        limits: InflateLimits | None = None,
    ) -> None:
        super().__init__()
        said = check_options(
            columns=columns,
            constants=constants,
            inexact=inexact,
            time_unit=time_unit,
            zone=zone,
            ticks=ticks,
            flags=flags,
            event=event,
            nulls=nulls,
            on_bad_record=on_bad_record,
        )
        self._path: str | Path = str(path) if str(path) == "-" else Path(path)
        self._skip = said.skips
        self._select = select if select is not None else Selection()
        self._batch_ticks = whole("batch_ticks", batch_ticks, 1, 1 << 24)
        names = (
            "rows",
            "ticks",
            "not_selected",
            "skipped_rows",
            "rows_rounded",
            "row_groups_passed_over",
            "rolled_instruments",
        )
        self._counts = dict.fromkeys(names, 0)

        self._source = open_arrow(self._path, limits)
        dialect = self._dialect(said)
        if dialect is not None:
            self._source = dialect
            size_unit = f"1e{dialect.size_power}" if size_unit is None else size_unit
            price_unit = f"1e{dialect.price_power}" if dialect.price_power is not None else price_unit
        self._instrument = None if dialect is None else dialect.instrument
        self._rolls = Rolls()
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
            price_unit, size_unit, own_size_power=own_power, own=own is not None, **of_ticks, **of_dialect
        )
        self._columns = Columns(self._source.names, said.columns, said.constants, self._reading)
        if not self._columns.has_time:
            raise FormatError(
                f"no column looks like times (there are {', '.join(self._source.names) or 'none'}): say by "
                "columns={'ts_event': NAME} which one it is",
                path=self._path,
            )
        self._keys = Keys(
            self._columns,
            names=None if own is None else own.symbols,
            one=dialect.symbol if symbol is None and dialect is not None else symbol,
            keeps=self._select.keeps,
            max_symbols=_SPARE if max_symbols is None else whole("max_symbols", max_symbols, 1, 1 << 24),
            path=self._path,
            schema=self._source.schema,
        )
        #: Names of the ticks yielded so far. Ticks are made ahead, so the table of keys may know more.
        self._names = list(self._keys.names)
        # Columns of text that the source may give as dictionaries.
        self._texts = [name for name in self._columns.letters if str(self._source.schema.field(name).type) == "string"]
        if self._keys.text is not None:
            self._texts.append(self._keys.text)
        unit = own_unit if size_unit is None else float(Decimal(str(size_unit)))
        info = self._info_of(own, dialect, unit, said)
        self._event, masks = said.ends_of(info.flags or Flags(), own is not None or dialect is not None)
        self._info = replace(info, flags=masks)

    def _dialect(self, said: Options) -> Dialect | None:
        """The source as one of a program that writes such columns. A user who names columns knows them."""
        if is_nautilus(self._source):
            return NautilusSource(self._source, self._path)
        return DatabentoSource(self._source, self._path) if is_databento(self._source) and not said.columns else None

    def _info_of(self, own: Own | None, dialect: Dialect | None, unit: float | None, said: Options) -> FeedInfo:
        details = {
            "rows": self._source.rows,
            "row_groups": self._source.row_groups,
            "columns": dict(self._columns.of),
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
            prices_assumed=dialect is None and self._columns.assumes_prices(self._is_whole),
            flags=said.masks or flags,
            has_sizes=self._columns.has_sizes,
            bars=None if dialect is None else dialect.bars,
            zone=self._reading.zone,
        )

    def _is_whole(self, column: str) -> bool:
        import pyarrow.types as kinds

        return bool(kinds.is_integer(self._source.schema.field(column).type))

    @property
    def info(self) -> FeedInfo:
        """``details["columns"]`` says which column each field comes from."""
        rolled = self._rolls.details(self._keys.names)
        return replace(self._info, details=self._info.details | rolled) if rolled else self._info

    @property
    def symbols(self) -> Sequence[str]:
        """Names by ``instrument_id``, in the order they come; of instruments known by a number only, ``id:N``."""
        return self._names

    @property
    def max_symbols(self) -> int:
        return self._keys.max_symbols

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

    def _batches(self) -> Iterator[TickBatch]:
        counts = self._counts
        counts.update(dict.fromkeys(counts, 0))
        self.skipped.counts.clear()
        self.skipped.samples.clear()
        self._rolls = Rolls()
        self._check_open()
        # A thread runs ahead only for a regular file: closing then waits for one batch at most, and for a pipe it could
        # wait for ever.
        ahead = self._is_file and may_prefetch()
        made = PrefetchedBatches(self._made(), f"strand make {Path(self._path).name}") if ahead else self._made()
        try:
            while (part := next(made, None)) is not None:
                self._check_open()
                for name, n in part.counts.items():
                    counts[name] += n
                self._names += self._keys.names[len(self._names) : part.known]
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
            made.close()

    def _made(self) -> Generator[_Made, None, None]:
        """The rows as ticks. Another thread may run it, ahead of the ticks yielded."""
        batches = self._read()
        try:
            yield from starmap(self._convert, batches)
        finally:
            batches.close()

    def _read(self) -> PrefetchedBatches[Read] | Generator[Read, None, None]:
        keeps = group_filter(self._columns, self._reading, self._select, self._source.schema)
        batches = self._source.batches(self._columns.names, self._batch_ticks, keeps, self._texts)
        # Reading Parquet takes longer than making ticks of it, so a thread reads ahead.
        if self._source.row_groups is None or not may_prefetch():
            return batches
        return PrefetchedBatches(batches, f"strand read {Path(self._path).name}")

    def _convert(self, first: int, batch: Any) -> _Made:
        """The wanted ticks of a record batch, up to its first fault. ``first``: the number of its first row, from 0.
        Rows that were not read make no ticks."""
        made = _Made()
        if isinstance(batch, int):
            made.counts = {"row_groups_passed_over": 1, "not_selected": batch}
        else:
            made.counts = {"rows": batch.num_rows, "not_selected": 0}
            made.fault = self._make(batch, first, made)
        made.known = len(self._keys.names)
        return made

    def _make(self, batch: Any, first: int, made: _Made) -> FeedError | None:
        rows: range | npt.NDArray[np.uint64] = range(first + 1, first + 1 + batch.num_rows)
        try:
            keys, wanted, bad_key = self._keys.of(batch)
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
        except OverflowError as error:
            return FormatError(f"in the rows from {first + 1}: {error}", path=self._path)
        ticks, bad, problem, rounded = found.ticks, found.bad, found.first, found.inexact
        if bad_key is not None and bad_key.any():
            index = int(np.argmax(bad_key))
            if problem is None or index <= problem.index:
                problem = BadRow(index, self._keys.column, self._keys.problem)
            bad = bad_key if bad is None else bad | bad_key
        fault = None
        good: npt.NDArray[np.bool_] | None = None
        if bad is not None and problem is not None:
            row = int(rows[problem.index])
            if self._skip:
                count = int(np.count_nonzero(bad))
                made.counts["skipped_rows"] = count
                made.passed = count, row, f"{problem.column}: {problem.problem}"
                good = ~bad
            else:
                fault = FormatError(
                    f"row {row}: column {problem.column!r} {problem.problem}: {MEND}",
                    path=self._path,
                )
                good = np.arange(len(ticks)) < problem.index
        within = self._within(ticks, good)
        if rounded is not None:
            made.counts["rows_rounded"] = int(np.count_nonzero(rounded if within is None else rounded & within))
        if within is not None:
            passed = int(np.count_nonzero(~within)) - (0 if good is None else int(np.count_nonzero(~good)))
            made.counts["not_selected"] += passed
            # numpy copies records field by field, unless they look like one field.
            ticks = ticks.view(f"V{TICK.itemsize}")[within].view(TICK)
        if self._instrument is not None:
            ids = numbers(batch.column(self._instrument))
            before = self._rolls.count
            ticks = self._rolls.put_in(ticks, ids if within is None else ids[within])
            made.counts["rolled_instruments"] = self._rolls.count - before
        made.ticks = ticks
        return fault

    def _within(self, ticks: TickBatch, good: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
        """Mask of the good ticks whose times are wanted; None: all of them."""
        within = self._select.within(ticks["ts_recv"])
        kept = within if good is None else good if within is None else good & within
        return None if kept is None or kept.all() else kept

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration: ``rows`` read, ``ticks``, ``not_selected``, ``skipped_rows``,
        ``rows_rounded`` (rows of ticks in which a number was rounded), ``row_groups_passed_over``,
        ``rolled_instruments`` (names that went over to another instrument, in Databento's tables)."""
        return dict(self._counts)
