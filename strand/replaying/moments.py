"""The market at given moments and between them: joins of a user's events and orders with quotes and trades.

docs/howto/own-trades.md has the rules.
"""

from __future__ import annotations

import glob
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

import numpy as np
import numpy.typing as npt

from strand.brief import brief, listed, several
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.feeds.times import MISREAD_NS, check_unit, day_of_ns
from strand.handlers.builtin.tape import TOP, Tape
from strand.handlers.feed_trades import Contracts, Fills
from strand.lazy import imported
from strand.output.emitted import EmittedRecords
from strand.replaying.options import ReplayOptions
from strand.replaying.replay import replay
from strand.spans import SpanLike, span_ns
from strand.tables.columns import Prices, Table
from strand.tables.tabular import Tabular
from strand.units import COUNT, INNER, PRICE, SIZE, SPAN, TIME, declare
from strand.validate import did_you_mean, one_of, path, text, yes_or_no
from strand.zones import checked_zone

if TYPE_CHECKING:
    from strand.replaying.result import ReplayResult
    from strand.replaying.run_result import RunWarning

_LOW: Final = declare(INNER, "<u8")
#: An ``sd_moment_state`` of csrc/measures/moments.h.
_STATE: Final = [
    *TOP,
    ("quoted", INNER),
    ("volume", SIZE),
    ("notional_low", _LOW),
    ("notional_high", INNER),
    ("trades", COUNT),
    ("priced_ns", SPAN),
    ("price_low", _LOW),
    ("price_high", INNER),
]
_MOMENT: Final = np.dtype([("index", _LOW), *_STATE])
_INNER: Final = [(name, INNER) for name in ("price", "now", "at", "end", "begun")]
#: The same memory; the names tell a run's warnings what it is for.
_AS_OF_ROW: Final = np.dtype([*_STATE, *_INNER, ("ignored", INNER)])
_BETWEEN_ROW: Final = np.dtype([*_STATE, *_INNER, ("unpriced", COUNT)])
_QUOTED: Final = {"quote_time": 1}
#: The best bid and ask that stood, and when they came to stand.
_AS_OF: Final = np.dtype(
    [*((name, declare(dtype, given=_QUOTED)) for name, dtype in TOP), ("quote_time", declare(TIME, none=(0,)))]
)
_TRADED: Final = {"volume": 1}
_BETWEEN: Final = np.dtype(
    [
        ("trades", COUNT),
        ("volume", SIZE),
        ("vwap", declare(PRICE, "<f8", given=_TRADED)),
        ("twap", declare(PRICE, "<f8", given={"twap_ns": 1})),
        ("twap_ns", SPAN),
        ("bid", PRICE),
        ("ask", PRICE),
    ]
)
_SLIPPAGE: Final = np.dtype(
    [*((name, _BETWEEN[name]) for name in _BETWEEN.names or ()), ("slippage", declare(PRICE, "<f8"))]
)
_SIDES: Final = {"b": 1, "buy": 1, "bid": 1, "s": -1, "sell": -1, "a": -1, "ask": -1}
#: A moment behind the last tick is answered at a symbol's end, which ``until``, ``save`` and a quarantine leave out.
_NOT_OF_JOINS: Final = ("symbols", "out", "snapshot", "watch", "per_day", "load", "save", "until")
_UNITS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class _Joined(Tabular):
    """One's own table with more columns, row by row in its order.

    Attributes:
        missing: The symbols that the source does not have, with the number of their rows.
        warnings: Those of the run.
    """

    def __init__(self, own: Any, found: npt.NDArray[Any], size_unit: float | None, run: _Run) -> None:
        self._own, self._found = own, EmittedRecords(found, Table(found.dtype, size_unit))
        self.missing: Mapping[str, int] = run.missing
        self.warnings: tuple[RunWarning, ...] = run.warnings

    @property
    def figures(self) -> EmittedRecords:
        """The new columns as records of exact integers, a record for each row."""
        return self._found

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """See ``Tabular``: the columns of one's own table as they are, and behind them the new ones. A new column whose
        name is taken ends in ``_market``."""
        found, made = self._own, self._found.to_arrow(prices=prices)
        for field, column in zip(made.schema, made.columns, strict=True):
            name = field.name
            while name in found.column_names:
                name += "_market"
            found = found.append_column(field.with_name(name), column)
        return found

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        missing = [f"{several(sum(self.missing.values()), 'row')} of missing symbols"] if self.missing else []
        return brief(self, several(len(self), "row"), listed(self._found.dtype.names or ()), *missing)


class AsOf(_Joined):
    """Result of ``strand.asof``: one's own table with ``bid``, ``ask``, ``bid_size``, ``ask_size`` and
    ``quote_time``, the time of the change that made them stand. All are null where no quote stood.

    Attributes:
        missing: The symbols that the source does not have, with the number of their rows.
        warnings: Those of the run.
        figures: The new columns as records of exact integers.
    """


class Between(_Joined):
    """Result of ``strand.between``: one's own table with ``trades``, ``volume``, ``vwap``, ``twap``, ``twap_ns``,
    ``bid``, ``ask`` and perhaps ``slippage``.

    Attributes:
        missing: The symbols that the source does not have, with the number of their rows.
        warnings: Those of the run.
        figures: The new columns as records.
    """


def asof(
    source: Any,
    events: Any,
    *,
    time: str = "time",
    symbol: str = "symbol",
    at: Literal["before", "at-or-before"] = "before",
    max_age: SpanLike | None = None,
    zone: str | None = None,
    book: bool | None = None,
    fills: Fills | None = None,
    **options: Unpack[ReplayOptions],
) -> AsOf:
    """Joins one's own events with the best bid and ask that stood just before each of them, in one pass over a feed.

    Rows come back in the order of ``events``. Events need not be sorted, and several may have one symbol and time.
    A tick's time is ``ts_recv``. A new day empties the quotes.

    Args:
        source: What ``strand.replay`` takes.
        events: A table with a column of times and one of symbols: of polars, pandas or Arrow, a structured array, or a
            dict of columns. Times have a zone, or are ns since the epoch, or ``zone`` is theirs.
        time: The name of the column of times.
        symbol: The name of the column of symbols.
        at: ``"before"``: only ticks strictly before an event count. ``"at-or-before"``: those of its own time too.
        max_age: A quote that came to stand longer before its event is none, as ``"5s"``. None: any stands.
        zone: The zone of times that have none.
        book: Whether quotes come from order books; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.
        **options: Those of ``strand.replay``, but for handlers, outputs, ``symbols``, ``until`` and a quarantine.

    Raises:
        ConfigurationError: If a column is missing, or has null, text that is no time, or times without a zone.
        MissingExtraError: Without pyarrow. Other errors are those of ``strand.replay``.
    """
    age = None if max_age is None else span_ns("max_age", max_age)
    strict = one_of("at", at, ("before", "at-or-before")) == 0
    own = _table("events", events)
    times, names = _times("events", own, time, zone), _texts("events", own, symbol)
    given = {"row": _AS_OF_ROW, "strict": strict, "book": book, "fills": fills}
    run = _Run(source, names, [(path("events", time), times)], given, dict(options))
    states = run.states
    found = np.zeros(len(times), _AS_OF)
    for name, _ in TOP:
        found[name] = states[name]
    found["quote_time"] = states["quoted"]
    if age is not None:
        found["quote_time"][times - states["quoted"] > age] = 0
    return AsOf(own, found, run.size_unit, run)


def between(
    source: Any,
    orders: Any,
    *,
    starts: str = "start",
    ends: str = "end",
    symbol: str = "symbol",
    twap: Literal["trade", "mid"] = "trade",
    price: str | None = None,
    side: str | None = None,
    zone: str | None = None,
    book: bool | None = None,
    fills: Fills | None = None,
    **options: Unpack[ReplayOptions],
) -> Between:
    """Measures the market between the start and the end of each of one's own orders or trades, in one pass over a feed.

    A tick counts from the start on, and no longer at the end; its time is ``ts_recv``. The columns are the number of
    trades, their volume and average price, the time-weighted average price with the time that it has (``twap_ns``), and
    the best bid and ask that stood just before the start. Averages are rounded once from exact sums.

    Args:
        source: What ``strand.replay`` takes.
        orders: A table as for ``strand.asof``, with columns of starts, ends and symbols.
        starts: The name of the column of starts.
        ends: The name of the column of ends, which are not before the starts.
        symbol: The name of the column of symbols.
        twap: The price that is weighted by time: of the last ``"trade"``, or the ``"mid"`` where both sides stand. A
            price stands until the next one, or until the day ends; there is none before a day's first.
        price: The name of a column of one's own prices, in units of currency. With ``side`` there is another column
            ``slippage``: how much worse than ``vwap`` the own price is.
        side: The name of a column of one's own sides: ``buy``, ``sell``, ``B``, ``S`` or ``A``.
        zone: The zone of times that have none.
        book: Whether trades and quotes come from order books; None: as the feed says, see ``strand.bars``.
        fills: What a fill does, ``"reduce"`` or ``"report"``; None: as the feed says, see ``strand.bars``.
        **options: Those of ``strand.replay``, but for handlers, outputs, ``symbols``, ``until`` and a quarantine.

    Raises:
        ConfigurationError: As for ``strand.asof``; if an end is before its start, or if only one of ``price`` and
            ``side`` is given.
        MissingExtraError: Without pyarrow. Other errors are those of ``strand.replay``.
    """
    mid = one_of("twap", twap, ("trade", "mid")) == 1
    if (price is None) != (side is None):
        raise ConfigurationError(
            "side" if side is None else "price", "slippage needs both price and side: give the other"
        )
    own = _table("orders", orders)
    since, until = _times("orders", own, starts, zone), _times("orders", own, ends, zone)
    names = _texts("orders", own, symbol)
    if (wrong := np.flatnonzero(until < since)).size:
        raise ConfigurationError("orders", f"row {wrong[0]}: {ends!r} is before {starts!r}: exchange them")
    signs = None if side is None else _signs(own, side)
    prices = None if price is None else _numbers(own, price)
    given = {"row": _BETWEEN_ROW, "strict": True, "mid": mid, "book": book, "fills": fills}
    moments = [(path("orders", starts), since), (path("orders", ends), until)]
    run = _Run(source, names, moments, given, dict(options))
    first, last = run.states[: len(own)], run.states[len(own) :]
    found = np.zeros(len(own), _BETWEEN if signs is None else _SLIPPAGE)
    for name in ("trades", "volume"):
        found[name] = last[name] - first[name]
    found["twap_ns"] = last["priced_ns"] - first["priced_ns"]
    found["vwap"] = _quotients(first, last, "notional", found["volume"], 10**9)
    found["twap"] = _quotients(first, last, "price", found["twap_ns"], 2 * 10**9 if mid else 10**9)
    found["bid"], found["ask"] = first["bid"], first["ask"]
    if signs is not None and prices is not None:
        found["slippage"] = signs * (prices - np.where(found["volume"] > 0, found["vwap"], np.nan))
    return Between(own, found, run.size_unit, run)


def _quotients(
    first: npt.NDArray[Any], last: npt.NDArray[Any], name: str, by: npt.NDArray[np.int64], scale: int
) -> npt.NDArray[np.float64]:
    """Differences of sums of 128 bits / ``by`` / ``scale``, each rounded once; 0 where ``by`` is 0."""
    sums = [
        (high << 64) + low
        for table in (first, last)
        for low, high in zip(table[f"{name}_low"].tolist(), table[f"{name}_high"].tolist(), strict=True)
    ]
    n = len(first)
    parts = zip(sums[:n], sums[n:], by.tolist(), strict=True)
    return np.array([(after - before) / (count * scale) if count > 0 else 0.0 for before, after, count in parts])


class _Run:
    """A replay that answers for moments.

    Attributes:
        states: The state at each moment, in their order.
        missing: The symbols that the source does not have, with the number of their rows.
        size_unit: The worth of a size of 1.
        warnings: Those of the run.
    """

    def __init__(
        self,
        source: Any,
        names: npt.NDArray[Any],
        moments: Sequence[tuple[str, npt.NDArray[np.int64]]],
        given: dict[str, Any],
        options: dict[str, Any],
    ) -> None:
        """``names``: the symbol of each row. ``moments``: columns of times by their names."""
        for name in _NOT_OF_JOINS:
            if options.pop(name, None) not in (None, False):
                raise ConfigurationError(name, "is no option of a join with one's own rows: leave it out")
        if options.get("on_error") == "quarantine":
            raise ConfigurationError(
                "on_error", "a join has no figures of a symbol that is set aside: leave on_error out, or its rows"
            )
        if given["book"] is not None:
            yes_or_no("book", given["book"])
        known, lists = np.unique(names, return_inverse=True)
        counts = np.bincount(lists, minlength=len(known)).tolist()
        times, lists = np.concatenate([column for _, column in moments]), np.tile(lists, len(moments))
        order = np.lexsort((times, lists))
        sorted_times = np.ascontiguousarray(times[order])
        bounds = np.searchsorted(lists[order], np.arange(len(known) + 1)).astype(np.uint64)
        self.states = np.zeros(len(times), _MOMENT)
        for side in ("bid", "ask"):
            self.states[side] = 2**63 - 1
        self.warnings: tuple[RunWarning, ...] = ()
        self.size_unit: float | None = 1.0
        there: set[str] = set()
        if len(known):
            symbols = [glob.escape(name) for name in known.tolist()]
            mid = bool(given.get("mid"))
            handler = Tape(
                "moments",
                given["row"],
                struct.pack("=QQII", sorted_times.ctypes.data, bounds.ctypes.data, given["strict"], mid),
                book=given["book"],
                fills=given["fills"],
                quotes=True,
                contracts=(Contracts(tuple((name, Decimal(i + 1), False) for i, name in enumerate(symbols))), None),
                outputs={"moments": _MOMENT},
                ends=True,
            ).handler()
            result = _replayed(source, handler, symbols, _Answers(self.states, order), options)
            if result is not None:
                there = set(result.symbols) & set(known.tolist())
                self.size_unit = result.rows.size_unit
                self.warnings = tuple(one for one in result.warnings if one.kind != "unused contracts")
                _check_units(moments, int(result.rows.array["now"].max(initial=0)))
        self.missing = {name: n for name, n in zip(known.tolist(), counts, strict=True) if name not in there}


def _check_units(moments: Sequence[tuple[str, npt.NDArray[np.int64]]], latest: int) -> None:
    """Refuses times of our days that were given in another unit than ns. ``latest``: the time of a tick."""
    for name, times in moments:
        wrong = np.flatnonzero((times >= MISREAD_NS[0]) & (times < MISREAD_NS[1]))
        for row in wrong[:1].tolist():
            check_unit(name, int(times[row]), day_of_ns(latest, "UTC"))


def _replayed(
    source: Any, handler: Any, symbols: list[str], answers: _Answers, options: dict[str, Any]
) -> ReplayResult | None:
    """The result; None where the source has none of the symbols."""
    try:
        return replay(source, handler, symbols=symbols, out={"moments": answers}, **options)
    except UnknownSymbolError as error:
        return getattr(error, "partial", None)


class _Answers:
    """A sink for the states at moments. ``order``: the place of each in the user's table."""

    def __init__(self, states: npt.NDArray[Any], order: npt.NDArray[np.intp]) -> None:
        self._states, self._order = states, order

    def write(self, batch: Any) -> None:
        records = np.asarray(batch)
        places = self._order[records["index"].astype(np.intp)]
        for name in _MOMENT.names or ():
            self._states[name][places] = records[name]

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


# ---- one's own table


def _table(name: str, given: Any) -> Any:
    """One's own table as a pyarrow.Table. Raises ConfigurationError."""
    arrow = imported("pyarrow", "parquet", "a join with one's own rows")
    try:
        if isinstance(given, np.ndarray) and given.dtype.names is not None:
            given = {field: given[field] for field in given.dtype.names}
        if isinstance(given, Mapping):
            return arrow.table({str(field): _column(arrow, column) for field, column in given.items()})
        return arrow.table(given)
    except (TypeError, ValueError, arrow.ArrowException) as error:
        raise ConfigurationError(
            name,
            f"{type(given).__name__} is no table: give one of polars, pandas or Arrow, a structured array, or a dict "
            f"of columns ({str(error)[:200]})",
        ) from error


def _column(arrow: Any, column: Any) -> Any:
    if isinstance(column, np.ndarray) and column.dtype.kind == "S":
        return arrow.array(np.char.decode(column, "ascii", "backslashreplace").tolist())
    return arrow.array(column.tolist()) if isinstance(column, np.ndarray) and column.dtype.kind == "U" else column


def _of(table: str, own: Any, name: str) -> Any:
    """A column without nulls, in one piece. Raises ConfigurationError."""
    if name not in own.column_names:
        near = did_you_mean(name, own.column_names, before=", ")
        raise ConfigurationError(
            table, f"there is no column {name!r}{near}: there are {listed(own.column_names)}; say which one it is"
        )
    if own.column_names.count(name) > 1:
        raise ConfigurationError(table, f"there are several columns {name!r}: leave one")
    column = own.column(name).combine_chunks()
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise ConfigurationError(table, f"row {row}: {name!r} is null: leave such rows out")
    return column


def _is_text(column: Any) -> bool:
    return str(column.type) in ("string", "large_string", "string_view")


def _times(table: str, own: Any, name: str, zone: str | None) -> npt.NDArray[np.int64]:
    """A column of times in ns since the epoch. Raises ConfigurationError."""
    arrow, compute = imported("pyarrow", "parquet"), imported("pyarrow.compute", "parquet")
    column, types = _of(table, own, name), arrow.types
    where = path(table, name)
    if zone is not None:
        zone = checked_zone("zone", text("zone", zone))
    try:
        if types.is_null(column.type):  # of a table without rows
            column = column.cast(arrow.int64())
        if _is_text(column):
            column = column.cast(arrow.string())
            try:
                column = column.cast(arrow.timestamp("ns", "UTC"))
            except arrow.ArrowInvalid:
                column = column.cast(arrow.timestamp("ns"))
        if types.is_timestamp(column.type) and column.type.tz is None:
            if zone is None:
                raise ConfigurationError(
                    where, "these times have no time zone: give zone=, as zone='UTC', or times with their zone"
                )
            column = compute.assume_timezone(column, zone, ambiguous="raise", nonexistent="raise")
        if types.is_timestamp(column.type):
            column = column.cast(arrow.timestamp("ns", column.type.tz)).cast(arrow.int64())
        elif not types.is_integer(column.type):
            raise ConfigurationError(
                where, f"{column.type} is no time: give timestamps, text of ISO 8601, or ns since the epoch"
            )
        found: npt.NDArray[np.int64] = column.cast(arrow.int64()).to_numpy(zero_copy_only=False)
    except arrow.ArrowException as error:
        raise ConfigurationError(where, f"a time cannot be read: {str(error)[:200]}") from error
    if (early := np.flatnonzero(found < 0)).size:
        raise ConfigurationError(where, f"row {early[0]}: {found[early[0]]} is before 1970: give ns since the epoch")
    return found


def _texts(table: str, own: Any, name: str) -> npt.NDArray[Any]:
    """A column of symbols. Raises ConfigurationError."""
    arrow = imported("pyarrow", "parquet")
    column = _of(table, own, name)
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if arrow.types.is_null(column.type):
        column = column.cast(arrow.string())
    if not _is_text(column):
        raise ConfigurationError(path(table, name), f"{column.type} is no symbol: give text")
    found = column.to_pylist()
    if "" in found:
        raise ConfigurationError(path(table, name), f"row {found.index('')}: is empty: leave such rows out")
    return np.array(found, dtype=np.str_)


def _numbers(own: Any, name: str) -> npt.NDArray[np.float64]:
    arrow = imported("pyarrow", "parquet")
    column = _of("orders", own, name)
    try:
        return np.asarray(column.cast(arrow.float64()).to_numpy(zero_copy_only=False))
    except arrow.ArrowException as error:
        raise ConfigurationError(path("orders", name), f"{column.type} is no price: give numbers") from error


def _signs(own: Any, name: str) -> npt.NDArray[np.int64]:
    """1 for each buy, -1 for each sell. Raises ConfigurationError."""
    words, places = np.unique(_texts("orders", own, name), return_inverse=True)
    for i, word in enumerate(words.tolist()):
        if word.casefold() not in _SIDES:
            row = int(np.flatnonzero(places == i)[0])
            raise ConfigurationError(path("orders", name), f"row {row}: {word!r} is no side: give buy or sell")
    return np.array([_SIDES[word.casefold()] for word in words.tolist()], np.int64)[places]
