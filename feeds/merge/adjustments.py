"""Names and splits over many days: one strand per instrument, one unit of prices and sizes, by tables of the user's."""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, FeedError
from strand.feeds.base import BaseFeed, Feed, FeedInfo, Selection, TickBatch
from strand.feeds.io.files import small_text
from strand.feeds.merge.selected import SelectedFeed
from strand.feeds.times import as_date, midnight_ns
from strand.options import named_options
from strand.ticks import KIND_QUOTE, is_clear, named
from strand.validate import one_of, path, text
from strand.zones import checked_zone

_NEVER: Final = 2**63 - 1
_FACTOR_MOST: Final = 10**6
#: Letters of a factor, and places before and behind its point, at most.
_FACTOR_TEXT: Final = 40


class Rename(NamedTuple):
    """A row of the table of names: a source's ``symbol`` is called ``name`` from a date on, and no longer at another.

    ``start``, ``end``: dates, the end not in it; None: no bound.
    """

    start: dt.date | None
    end: dt.date | None
    symbol: str
    name: str


class Split(NamedTuple):
    """A row of the table of splits: from ``date`` on, ``factor`` of the symbol's units are what one was before."""

    date: dt.date
    symbol: str
    factor: Fraction


@named_options("adjusted()")
def adjusted(
    feed: Feed,
    *,
    renames: Any = None,
    splits: Any = None,
    adjust: Literal["both", "prices", "sizes"] = "both",
    inexact: Literal["raise", "round"] = "raise",
    zone: str | None = None,
) -> BaseFeed:
    """Gives a feed of many days one name per instrument, and one unit of prices and sizes, by tables of one's own.

    A table is a list of rows, tuples or dicts, a table of polars, pandas or Arrow, or the path of a CSV file. Dates are
    ``datetime.date`` or ``"YYYY-MM-DD"``, and begin at midnight in ``zone``. docs/howto/many-days.md has the rules.

    Args:
        feed: The feed, as ``strand.feeds.open`` returns it. Closing the new one closes it.
        renames: Rows of ``from``, ``to`` (not in it; None: no bound), ``symbol`` (in the source) and ``name``.
        splits: Rows of ``date``, ``symbol`` (the name, after ``renames``) and ``factor``: 2 or ``"2/1"`` where one
            share became two, ``"1/10"`` where ten became one. Ticks before the date come in the units after it, as
            price / factor and size x factor.
        adjust: Whether splits change ``"both"``, ``"prices"`` alone or ``"sizes"`` alone.
        inexact: What to do with a price that is then no whole number of 1e-9, or a size that is no whole number of its
            unit: ``"raise"`` a FeedError, or ``"round"`` to the nearest, halves up, and count it as ``split_rounded``.
        zone: The zone of the dates. None: that of the feed, UTC if it has none.

    Raises:
        ConfigurationError: If a row cannot be read, if rows of one symbol or of one name overlap or leave a gap, or if
            there is neither table.
    """
    if renames is None and splits is None:
        raise ConfigurationError("renames", "give renames, splits, or both: without a table nothing is adjusted")
    if feed.info.undated:
        raise ConfigurationError("date", f"{feed.info.path} has times of day alone, and rows have dates: give date=")
    where = feed.info.zone or "UTC" if zone is None else checked_zone("zone", zone)
    names = [] if renames is None else _renames(renames)
    factors = [] if splits is None else _splits(splits)
    which = one_of("adjust", adjust, ("both", "prices", "sizes"))
    rounds = one_of("inexact", inexact, ("raise", "round")) == 1
    return AdjustedFeed(feed, names, factors, where, (which != 2, which != 1), rounds=rounds)


class AdjustedFeed(SelectedFeed):
    """The ticks of another feed under other names, and in the units after splits. Closing it closes the other.

    Its numbers of symbols are its own: a name that two symbols of the source have in turn is one symbol.
    """

    def __init__(
        self,
        feed: Feed,
        renames: Sequence[Rename],
        splits: Sequence[Split],
        zone: str,
        adjusts: tuple[bool, bool],
        *,
        rounds: bool,
    ) -> None:
        super().__init__(feed, Selection())
        self._rules: dict[str, list[tuple[int, int, str]]] = {}
        for row in renames:
            start = 0 if row.start is None else midnight_ns(row.start, zone)
            end = _NEVER if row.end is None else midnight_ns(row.end, zone)
            self._rules.setdefault(row.symbol, []).append((start, end, row.name))
        self._splits: dict[str, list[tuple[int, Fraction]]] = {}
        for split in splits:
            self._splits.setdefault(split.symbol, []).append((midnight_ns(split.date, zone), split.factor))
        bounds = {edge for rows in self._rules.values() for start, end, _ in rows for edge in (start, end)}
        #: The times at which a name or a factor may change.
        self._edges = np.array(
            sorted({0} | bounds | {at for rows in self._splits.values() for at, _ in rows}), np.int64
        )
        #: By table, the symbols of its rows.
        self._rows = {"renames": [row.symbol for row in renames], "splits": [row.symbol for row in splits]}
        self._prices, self._sizes = adjusts
        self._rounds = rounds
        self._begin()

    def _begin(self) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._owners: dict[tuple[int, int], int] = {}  # by name's number and period: the symbol of the source
        self._latest: dict[int, int] = {}  # by symbol of the source that has rows: the number of its latest tick
        self._met: dict[int, tuple[int, Fraction]] = {}  # by symbol and period: number and factor
        self._nameless: dict[int, int] = {}  # by symbol of the source without a name: its number
        self._fault = 0  # the place in a batch at which an error is
        self._renamed = self._split = self._rounded = 0
        for symbol in self._feed.symbols:
            for name in [name for _, _, name in self._rules.get(symbol, ())] or [symbol]:
                if name:
                    self._number(name)

    def _number(self, name: str, key: int = 0) -> int:
        """The number of a name; of a symbol of the source without a name, by its ``key``."""
        number = self._numbers.setdefault(name if name else f"\0{key}", len(self._names))
        if number == len(self._names):
            self._names.append(name)
        return number

    @property
    def symbols(self) -> Sequence[str]:
        """The names of the symbols that are known, then the others in the order in which they are met."""
        return self._names

    @property
    def max_symbols(self) -> int:
        """Every number is below it: a symbol with rows may have as many names as rows."""
        return self._feed.max_symbols + sum(map(len, self._rules.values()))

    @property
    def info(self) -> FeedInfo:
        info, unused = self._feed.info, self._unused()
        examples = {"examples": {**info.details.get("examples", {}), "unused_rows": unused[0]}} if unused else {}
        return replace(info, details={**info.details, **examples, "adjusted": True})

    def _unused(self) -> list[str]:
        """The rows of symbols that did not come in the source."""
        known: dict[str, Collection[str]] = {"renames": {*self._feed.symbols}, "splits": self._numbers}
        return [
            f"{table}.{at}: {symbol!r} fits no symbol"
            for table, symbols in self._rows.items()
            for at, symbol in enumerate(symbols)
            if symbol not in known[table]
        ]

    def batches(self) -> Iterator[TickBatch]:
        """Yields the other feed's ticks under their names and in their units.

        Raises:
            FeedError: At a tick of a symbol that has rows, but none for its date; if two symbols have one name on one
                date; if a number is inexact, under ``inexact="raise"``.
        """
        self._begin()
        for batch in self._feed.batches():
            found, error = self._up_to_fault(batch)
            self._given, self._chosen = len(batch), slice(0, len(found))
            if len(found) or error is None:
                yield found
            if error is not None:
                raise error

    def statistics(self) -> dict[str, int]:
        """Counts of the other feed; ``renamed``, ticks under another name; ``split_adjusted``, ticks in other units;
        ``split_rounded``, numbers that were rounded for it; ``unused_rows``, rows of the tables that fit no symbol so
        far."""
        counts = {"renamed": self._renamed, "split_adjusted": self._split, "split_rounded": self._rounded}
        counts["unused_rows"] = len(self._unused())
        return dict(self._feed.statistics()) | counts

    def _up_to_fault(self, batch: TickBatch) -> tuple[TickBatch, FeedError | None]:
        """The changed ticks up to the first fault, and its error."""
        error = None
        while len(batch):
            counts = self._renamed, self._split, self._rounded
            try:
                return self._changed(batch), error
            except FeedError as fault:
                error, batch = fault, batch[: self._fault]
                self._renamed, self._split, self._rounded = counts
        return batch, error

    def _learn(self, names: Sequence[str]) -> None:
        """Takes over names of symbols that had none at their first ticks. Raises FeedError where a row is late."""
        for key, number in [*self._nameless.items()]:
            if not (name := _name_of(names, key)):
                continue
            if name in self._rules or name in self._splits:
                self._fault = 0
                raise FeedError(
                    f"renames, splits: the feed named {name!r} after ticks of it, too late for its row: give a feed "
                    "that names its symbols before their ticks",
                    path=self._feed.info.path,
                )
            del self._nameless[key]
            if name not in self._numbers:
                self._numbers[name] = number
                self._names[number] = name
            for pair in [pair for pair in self._met if pair // len(self._edges) == key]:
                del self._met[pair]

    def _changed(self, batch: TickBatch) -> TickBatch:
        found = named(np.array(batch))
        periods = np.searchsorted(self._edges, batch["ts_recv"], side="right").astype(np.int64) - 1
        np.maximum(periods, 0, out=periods)
        clears = is_clear(batch)
        keys = batch["instrument_id"].astype(np.int64)
        before = dict(self._latest)
        at = np.flatnonzero(~clears)
        pairs, firsts, places = np.unique(
            keys[at] * len(self._edges) + periods[at], return_index=True, return_inverse=True
        )
        names = self._feed.symbols
        self._learn(names)
        its = []
        for pair, first in zip(pairs.tolist(), at[firsts].tolist(), strict=True):
            self._fault = first
            its.append(self._of(pair, int(batch["ts_recv"][first]), names))
        numbers, factors = [number for number, _ in its], [factor for _, factor in its]
        found["instrument_id"][at] = np.array(numbers, np.uint32)[places]
        sources = (pairs // len(self._edges)).tolist()
        renamed = [self._names[number] != _name_of(names, key) for key, number in zip(sources, numbers, strict=True)]
        self._renamed += int(np.array(renamed, np.bool_)[places].sum())
        for factor in {*factors} - {1}:
            mine = at[np.array([each == factor for each in factors])[places]]
            self._split += len(mine)
            both = mine[(found["kind"][mine] == KIND_QUOTE) & (found["side"][mine] == b"N")]
            if self._prices:
                self._scale(found, "price", mine, 1 / factor)
                self._scale(found, "order_id", both, 1 / factor)
            if self._sizes:
                self._scale(found, "size", mine, factor)
                self._scale(found, "ref_id", both, factor)
        self._end_days(found, keys, clears, before, names)
        return found

    def _end_days(
        self,
        ticks: TickBatch,
        keys: npt.NDArray[np.int64],
        clears: npt.NDArray[np.bool_],
        before: dict[int, int],
        names: Sequence[str],
    ) -> None:
        """Gives clear records the numbers that their symbols had on the day that they end. ``before``: the latest
        numbers before this batch; ``names``: those of the source."""
        for at in np.flatnonzero(clears).tolist():
            key = int(keys[at])
            symbol = _name_of(names, key)
            number = before.get(key)
            if symbol in self._rules:
                own = np.flatnonzero((keys[:at] == key) & ~clears[:at])
                number = int(ticks["instrument_id"][own[-1]]) if len(own) else number
            ticks["instrument_id"][at] = self._number(symbol, key) if number is None else number

    def _of(self, pair: int, time: int, names: Sequence[str]) -> tuple[int, Fraction]:
        """The number and the factor of a symbol in a period. Raises FeedError. ``names``: those of the source."""
        key, period = divmod(pair, len(self._edges))
        if pair not in self._met:
            symbol = _name_of(names, key)
            day = np.datetime64(time, "ns").astype("M8[s]")
            rows = self._rules.get(symbol, ()) if symbol else ()
            name = next((name for start, end, name in rows if start <= time < end), None)
            if rows and name is None:
                raise FeedError(
                    f"renames: {symbol!r} has a tick at {day} UTC, and no row for that date: add one",
                    path=self._feed.info.path,
                )
            name = symbol if name is None else name
            number = self._number(name, key)
            if not name:
                self._nameless[key] = number
            other = self._owners.setdefault((number, period), key)
            if other != key:
                raise FeedError(
                    f"renames: both {_name_of(names, other)!r} and {symbol!r} are named {name!r} at {day} UTC: give "
                    "one of them another name in a row of its own",
                    path=self._feed.info.path,
                )
            later = [factor for at, factor in self._splits.get(name, ()) if time < at]
            self._met[pair] = number, math.prod(later, start=Fraction(1))
        if self._rules:
            self._latest[key] = self._met[pair][0]
        return self._met[pair]

    def _scale(self, ticks: TickBatch, field: str, mine: npt.NDArray[np.intp], by: Fraction) -> None:
        """Multiplies the defined numbers of a field."""
        values = ticks[field].view(np.int64)
        chosen = mine[(values[mine] != _NEVER) & (values[mine] != -_NEVER - 1)]
        numbers = values[chosen]
        too_large = np.abs(numbers) >= _NEVER // (2 * max(by.numerator, by.denominator)) - _FACTOR_MOST
        if too_large.any():
            self._fault = int(chosen[too_large.argmax()])
            raise FeedError(
                f"splits: a {field} times {by} has no room in 63 bits: check the factor", path=self._feed.info.path
            )
        products = numbers * by.numerator
        inexact = products % by.denominator != 0
        if inexact.any():
            first = int(inexact.argmax())
            self._fault = int(chosen[first])
            name = self._names[int(ticks["instrument_id"][chosen[first]])]
            if not self._rounds:
                number = Decimal(int(numbers[first])) / (10**9 if field == "price" else 1)
                unit = "1e-9" if field == "price" else "its unit"
                raise FeedError(
                    f"splits: {field} {number:f} of {name!r} times {by} is no whole number of {unit}: give "
                    "inexact='round' (of strand.feeds.adjusted where the format has no such option), or adjust "
                    "sizes or prices alone",
                    path=self._feed.info.path,
                )
            self._rounded += int(inexact.sum())
        values[chosen] = (2 * products + by.denominator) // (2 * by.denominator)


def _name_of(names: Sequence[str], key: int) -> str:
    return names[key] if key < len(names) else ""


def _renames(table: Any) -> list[Rename]:
    """The rows of a table of names. Raises ConfigurationError for what overlaps or leaves a gap."""
    rows = [
        Rename(
            _bound(path("renames", at, "from"), start),
            _bound(path("renames", at, "to"), end),
            _symbol(path("renames", at, "symbol"), symbol),
            _symbol(path("renames", at, "name"), name),
        )
        for at, (start, end, symbol, name) in _rows("renames", table, ("from", "to", "symbol", "name"))
    ]
    first, last = dt.date.min, dt.date.max
    for row in rows:
        if (row.start or first) >= (row.end or last):
            raise ConfigurationError("renames", f"{row.symbol!r}: from {row.start} is not before to {row.end}")
    for of in ("symbol", "name"):
        groups: dict[str, list[Rename]] = {}
        for row in sorted(rows, key=lambda row: row.start or first):
            groups.setdefault(getattr(row, of), []).append(row)
        for name, its in groups.items():
            for one, other in itertools.pairwise(its):
                end, start = one.end or last, other.start or first
                if start < end:
                    raise ConfigurationError(
                        "renames",
                        f"rows of {of} {name!r} overlap: one ends at {one.end}, and the next begins at {start}",
                    )
                if of == "name" and start > end:
                    raise ConfigurationError(
                        "renames",
                        f"rows of {of} {name!r} leave a gap from {end} to {start}: close it, or give two names",
                    )
    return rows


def _splits(table: Any) -> list[Split]:
    """The rows of a table of splits. Raises ConfigurationError."""
    found = []
    for at, (date, symbol, given) in _rows("splits", table, ("date", "symbol", "factor")):
        day = _bound(path("splits", at, "date"), date)
        try:
            factor = given if isinstance(given, Fraction) else _fraction(str(given).replace(" ", ""))
        except (ValueError, ArithmeticError):
            factor = Fraction(0)
        if day is None or factor <= 0 or max(factor.numerator, factor.denominator) > _FACTOR_MOST:
            said = (
                "a date"
                if day is None
                else f"a factor above 0 of whole numbers up to {_FACTOR_MOST:,}, as '3/2', not {given!r}"
            )
            raise ConfigurationError(path("splits", at, "date" if day is None else "factor"), f"give {said}")
        found.append(Split(day, _symbol(path("splits", at, "symbol"), symbol), factor))
    seen = {(split.date, split.symbol) for split in found}
    if len(seen) < len(found):
        raise ConfigurationError("splits", "a symbol has two rows of one date: multiply their factors")
    return found


def _fraction(text: str) -> Fraction:
    """A fraction of a text. Raises ValueError and ArithmeticError, before a number is made that takes the memory."""
    if len(text) > _FACTOR_TEXT or ("/" not in text and abs(Decimal(text).adjusted()) > _FACTOR_TEXT):
        raise ValueError("it is too long")
    return Fraction(text)


def _symbol(where: str, value: Any) -> str:
    if not (found := text(where, value)):
        raise ConfigurationError(where, "is empty: give a symbol's name")
    return found


def _bound(where: str, value: Any) -> dt.date | None:
    if value is None or value == "" or value != value:  # NaT, NaN  # noqa: PLR0124
        return None
    try:
        return as_date(value)
    except ConfigurationError as error:
        raise ConfigurationError(where, f"{value!r} is not a date: give YYYY-MM-DD") from error


def _rows(option: str, table: Any, columns: tuple[str, ...]) -> Iterator[tuple[int, list[Any]]]:
    """The rows of a table, with their numbers. Raises ConfigurationError."""
    if isinstance(table, str | os.PathLike):
        table = list(csv.DictReader(small_text(table, option).splitlines(), skipinitialspace=True))
    if hasattr(table, "to_dicts"):
        table = table.to_dicts()
    elif hasattr(table, "to_pylist"):
        table = table.to_pylist()
    elif hasattr(table, "to_dict"):
        table = table.to_dict("records")
    if isinstance(table, bytes | Mapping) or not isinstance(table, Iterable):
        raise ConfigurationError(option, f"{type(table).__name__} is no table: give rows of {', '.join(columns)}")
    for number, row in enumerate(table):
        if isinstance(row, Mapping):
            if lacks := [name for name in columns if name not in row]:
                raise ConfigurationError(
                    path(option, number), f"has no column {lacks[0]!r}: there are {', '.join(map(str, row))}"
                )
            yield number, [row[name] for name in columns]
        elif isinstance(row, Sequence) and not isinstance(row, str) and len(row) == len(columns):
            yield number, list(row)
        else:
            raise ConfigurationError(path(option, number), f"{row!r} is no row of {', '.join(columns)}")
