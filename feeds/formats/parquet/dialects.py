"""Parquet and Arrow files of other programs, as columns of ticks: Databento's, freqtrade's, and those of a Nautilus
catalogue.

Databento's are as ``DBNStore.to_parquet`` writes them, and are read like the records in DBN. Each row is a record whose
columns are its fields (databento, ``DBNStore.to_df`` and ``to_parquet``). Prices are floats in currency, or with
``price_type="fixed"`` whole numbers in units of 1e-9. Times are timestamps, or with ``pretty_ts=False`` whole numbers
of ns. The column ``symbol`` may be missing (``map_symbols=False``).

Nautilus's prices and sizes are little-endian whole numbers: of 8 bytes in units of 1e-9, of 16 bytes in units of 1e-16
(nautilus_model, types/fixed.rs); the highest is undefined, and only prices have a sign. Metadata names the instrument.
``ts_init`` is when a row was received. Quote ticks, trade ticks, deltas of price levels and bars are read.

freqtrade's candles and trades (freqtrade.io, "Data downloading") have the columns of its JSON, and numbers as floats.
The names of its files say the pair and the length of the candles.
"""

from __future__ import annotations

import abc
import functools
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import FormatError
from strand.feeds.base import Flags, TicksAre, usual_flags
from strand.feeds.formats.csv.profile import Part, named_profile, present_parts, table_match
from strand.feeds.formats.parquet.sources import ArrowSource, KeepsGroup
from strand.feeds.mapping.columns import (
    Columns,
    Conversion,
    Reading,
    columns_of,
    constant_rules,
    is_filled,
    woven,
)
from strand.feeds.mapping.events import CONSOLIDATED, LAST, end_views
from strand.feeds.mapping.options import Options
from strand.feeds.mapping.records import numbers
from strand.feeds.mapping.rules import SymbolRule, bar_ns, bar_span
from strand.feeds.mapping.values import Column, either, mapped
from strand.ticks import FIELDS

Array = npt.NDArray[Any]

_CORNERS: Final = ("open", "high", "low", "close")


_HEADER: Final = frozenset({"rtype", "publisher_id", "instrument_id", "ts_event"})
#: The profiles of Databento's CSV, whose rows have the same columns: by schema, the first one that a table fits counts.
_PROFILES: Final = ("mbo", "books", "bbo", "trades", "ohlcv")
#: The length of a bar by ``rtype``, in ns.
_RTYPE_NS: Final = {32: 10**9, 33: 60 * 10**9, 34: 3600 * 10**9, 35: 86400 * 10**9, 36: 86400 * 10**9}


def is_databento(source: ArrowSource) -> bool:
    """True if a table has the columns that all of Databento's records have."""
    return set(source.names) >= _HEADER and not source.metadata.get(b"strand")


class Dialect(ArrowSource):
    """A file of a program whose columns are known: another source, whose rows are given as columns of ticks.

    Attributes:
        symbol: The one symbol of all rows; None: a column has it.
        size_power: The power of ten of the unit of sizes.
        ticks: What the ticks mean.
        flags: Which bits of the ticks' flags mean what.
        bars: The length of a bar in ns, where rows are bars of time.
        venue: The market's name, where it is known.
        instrument: The column of the instrument's number, which may change under one symbol.
    """

    symbol: str | None
    size_power: int
    ticks: TicksAre = "plain"
    venue: str | None = None
    instrument: str | None = None
    _width = 1  # ticks of a row, at most

    def __init__(self, inner: ArrowSource, path: Any) -> None:
        self._inner, self._path = inner, path
        self.metadata, self.row_groups = inner.metadata, inner.row_groups

    @property
    def flags(self) -> Flags:
        return usual_flags(self.ticks, "never")

    @property
    def bars(self) -> int | None:
        return None

    @abc.abstractmethod
    def columns(self, said: Options, reading: Reading) -> Columns:
        """The columns that ticks are made of. ``said``: the user's options."""


class _PartColumns(Columns):
    """Columns of which each row makes several ticks: those of the first part, and those of ``others``."""

    others: Sequence[tuple[Part, Columns]] = ()
    #: Whether a row is a view of a book before a trade, or else a sample of the book; None: it is neither.
    are_views: bool | None = None

    @property
    def names(self) -> list[str]:
        of_parts = [name for part, columns in self.others for name in (*part.where, *columns.names)]
        return list(dict.fromkeys([*super().names, *of_parts, "instrument_id"]))

    def convert(
        self, column: Callable[[str], Column], rows: range | npt.NDArray[np.uint64], keys: npt.NDArray[np.uint32]
    ) -> Conversion:
        column = functools.cache(column)
        made = super().convert(column, rows, keys)
        ticks, kept = [made.ticks], np.ones((len(rows), 1 + len(self.others)), np.bool_)
        for place, (part, columns) in enumerate(self.others, 1):
            found = columns.convert(column, rows, keys)
            ticks.append(found.ticks)
            if part.where and not isinstance(has := mapped(column(part.where[0]), {part.text: 1}, 0, "flags"), str):
                kept[:, place] = has.values != 0
            if part.filled:
                kept[:, place] &= is_filled(found.ticks)
            made.inexact = either(made.inexact, found.inexact)
            if found.bad is not None and found.first is not None:
                made.note(found.bad, found.first.column, found.first.problem)
        made.ticks, made.rows = woven(ticks, kept)
        if self.are_views:
            end_views(made.ticks, made.rows, LAST)
        elif self.are_views is False:
            made.ticks["flags"] |= LAST  # a sample of the book is whole
        if made.first is not None:
            made.first = replace(made.first, index=int(np.searchsorted(made.rows, made.first.index)))
        for name in ("bad", "inexact", "left_out"):
            mask = getattr(made, name)
            setattr(made, name, None if mask is None else mask[made.rows])
        return made


class DatabentoSource(Dialect):
    """Reads another source, whose rows are records of one of Databento's schemas.

    Raises:
        FormatError: If the records are of a schema that makes no trades, quotes or orders.
    """

    def __init__(self, inner: ArrowSource, path: Any) -> None:
        super().__init__(inner, path)
        there = inner.names
        profiles = (replace(named_profile(f"databento-{name}"), symbol=SymbolRule(constant="")) for name in _PROFILES)
        found = table_match(there, profiles)
        if found is None:
            raise FormatError(
                "has Databento's records of a schema without orders, trades, quotes or bars: read it from DBN (it has "
                f"{', '.join(there)})",
                path=path,
            )
        self._profile, self._parts = found.profile, present_parts(found)
        self._width = max(1, len(self._parts))
        self._has_symbols = "symbol" in there and str(inner.schema.field("symbol").type) != "null"
        self.schema, self.names = inner.schema, there
        self.instrument = "instrument_id" if self._has_symbols else None
        self.own_quotes = CONSOLIDATED not in there
        # A name that goes over to another instrument makes one more tick.
        one = (self._width == 1 or self._profile.bars is not None) and not self._has_symbols
        self.rows = inner.rows * self._width if one and inner.rows is not None else None
        self.symbol, self.size_power, self.ticks = None, 0, self._profile.ticks or "dbn"

    def columns(self, said: Options, reading: Reading) -> Columns:
        of_all, ones = self._profile.fields, constant_rules({}, said.constants, reading)
        head, *others = self._parts or [Part(())]
        made = _PartColumns.of_rules(self.names, (*of_all, *head.fields), ones, reading)
        made.of |= {"symbol": "symbol"} if self._has_symbols else {"instrument_id": "instrument_id"}
        made.others = [(part, Columns.of_rules(self.names, (*of_all, *part.fields), ones, reading)) for part in others]
        made.has_sizes |= any(columns.has_sizes for _, columns in made.others)
        made.are_views = "action" in self.names if "bid_px_00" in self.names else None
        return made

    @property
    def bars(self) -> int | None:
        """The length of the first row's bar."""
        if self._profile.bars is None:
            return None
        for _, batch in self._inner.batches(["rtype"], 1, lambda *_: True):
            if batch.num_rows:
                return _RTYPE_NS.get(int(batch.column("rtype")[0].as_py()))
        return None

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        del keeps  # a tick's time is not always that of a column
        import pyarrow as pa
        import pyarrow.compute as pc

        for first, batch in self._inner.batches(columns, max(1, batch_rows // self._width), lambda *_: True, texts):
            if self._has_symbols and batch.column("symbol").null_count:
                ids = batch.column("instrument_id").cast(pa.string())
                names = batch.column("symbol").cast(pa.string())
                numbered = pc.if_else(pc.is_valid(names), names, pc.binary_join_element_wise("id", ids, ":"))
                batch = batch.set_column(batch.schema.get_field_index("symbol"), "symbol", numbered)
            yield first, batch


def _corners(made: dict[str, Any], rows: int) -> dict[str, Any]:
    """Four rows of each bar, its volume at the close."""
    import pyarrow as pa

    width = len(_CORNERS)
    turns = pa.array(np.arange(width * rows).reshape(width, rows).T.ravel())
    zero = pa.array([0] * rows, made["volume"].type)
    prices, sizes = [made[name] for name in _CORNERS], [zero, zero, zero, made["volume"]]
    found = {"price": pa.concat_arrays(prices).take(turns), "size": pa.concat_arrays(sizes).take(turns)}
    found["depth"] = pa.array(np.tile(np.arange(width, dtype=np.uint8), rows))
    every = pa.array(np.repeat(np.arange(rows), width))
    return found | {name: column.take(every) for name, column in made.items() if name.startswith("ts_")}


#: Names of freqtrade's files, and their columns. The groups of a name are the pair and the length of candles.
_FREQTRADE: Final = (
    (re.compile(r"(.+?)-trades\.(?:feather|parquet)"), ("timestamp", "id", "type", "side", "price", "amount", "cost")),
    (
        re.compile(r"(.+?)-(\d+(?:[smhdw]|[mM]o))(?:-futures|-spot)?\.(?:feather|parquet)"),
        ("date", *_CORNERS, "volume"),
    ),
)


def freqtrade_kind(source: ArrowSource, path: Any) -> int | None:
    """0 for a file of freqtrade's trades, 1 for one of its candles; None: it is neither."""
    import pyarrow.types as kinds

    for at, (name, columns) in enumerate(_FREQTRADE):
        if tuple(source.names) == columns and name.fullmatch(Path(path).name):
            return at if at == 0 or kinds.is_timestamp(source.schema.field("date").type) else None
    return None


class FreqtradeSource(Dialect):
    """Reads another source, whose rows are freqtrade's trades or candles: see ``freqtrade_kind``."""

    def __init__(self, inner: ArrowSource, path: Any, kind: int) -> None:
        super().__init__(inner, path)
        found = _FREQTRADE[kind][0].fullmatch(Path(path).name)
        assert found is not None
        self.symbol, self.size_power = found[1].upper(), -8
        self._length = bar_span("bars, from the file's name", found[2]) if kind else None
        self._width = len(_CORNERS) if kind else 1
        self.schema, self.names = inner.schema, inner.names
        if kind:
            import pyarrow as pa

            number, time = inner.schema.field("close").type, pa.timestamp("ns", "UTC")
            fields = {"price": number, "size": inner.schema.field("volume").type, "depth": pa.uint8()}
            self.schema = pa.schema({**fields, "ts_event": time, "ts_recv": time})
            self.names = self.schema.names
        self.rows = None if inner.rows is None else inner.rows * self._width

    def columns(self, said: Options, reading: Reading) -> Columns:
        trade: dict[str, Any] = {"action": {"constant": "T"}, "kind": {"constant": "trade"}}
        if self._length is None:
            ids = {"column": "id", "text": "hash", "empty": "none"}
            given = {"ts_event": {"column": "timestamp", "unit": "ms"}, "price": "price", "size": "amount", **trade}
            given |= {"side": "side", "ref_id": ids}
        else:
            given = {name: name for name in self.names} | trade
        given = {field: keys for field, keys in given.items() if field not in said.constants}
        return columns_of(self.names, dict.fromkeys((*FIELDS, "symbol")) | given, said.constants, reading)

    @property
    def bars(self) -> int | None:
        return None if self._length is None else bar_ns(*self._length)

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        if self._length is None:
            yield from self._inner.batches(columns, batch_rows, keeps, texts)
            return
        import pyarrow as pa

        ns, months = self._length
        there = _FREQTRADE[1][1]
        for first, batch in self._inner.batches(there, max(1, batch_rows // self._width), lambda *_: True):
            made = {name: batch.column(name) for name in there}
            begin = made["date"].cast(pa.timestamp("ns", "UTC")).to_numpy(zero_copy_only=False).astype("M8[ns]")
            end = begin + np.timedelta64(ns, "ns") if not months else begin.astype("M8[M]") + months
            made |= {
                name: pa.array(times.astype("M8[ns]"), pa.timestamp("ns", "UTC"))
                for name, times in (("ts_event", begin), ("ts_recv", end))
            }
            made = _corners(made, batch.num_rows)
            yield first * self._width, pa.record_batch([made[name] for name in columns], names=list(columns))


#: The lengths of bars of time, by their aggregation.
_BAR_NS: Final = {
    "MILLISECOND": 10**6, "SECOND": 10**9, "MINUTE": 60 * 10**9, "HOUR": 3600 * 10**9, "DAY": 86400 * 10**9,
}  # fmt: skip
_SIZES: Final = ("size", "bid_size", "ask_size", "volume")
_NUMBERS: Final = ("price", "bid_price", "ask_price", *_SIZES[:3])
#: By the bytes of a number: its decimals.
_SCALES: Final = {8: 9, 16: 16}
#: nautilus_model's AggressorSide and OrderSide, and its BookAction, as letters of a tick.
_SIDES: Final = {"0": "N", "1": "B", "2": "A"}
_ACTIONS: Final = {"1": "A", "2": "M", "3": "C", "4": "R"}
_CLEAR: Final = 4
#: Flags that mean the same in a tick: last, top of book, snapshot, levels. The others are reserved.
_FLAGS: Final = 0xF0
#: Deltas that are looked at for ends of events.
_LOOKED_AT: Final = 65_536
#: Of each kind of file: the columns that it has, and the rules of ticks' fields beside their times.
_TRADE: Final[dict[str, Any]] = {"action": {"constant": "T"}, "kind": {"constant": "trade"}}
_TABLES: Final[tuple[tuple[set[str], dict[str, Any]], ...]] = (
    ({"bid_price", "ask_price", "bid_size", "ask_size"}, {}),
    ({"aggressor_side", "price", "size"}, {"side": {"column": "aggressor_side", "map": _SIDES}, **_TRADE}),
    (
        {"order_id", "flags", "action", "side", "price", "size"},
        {
            "side": {"column": "side", "map": _SIDES},
            "action": {"column": "action", "map": _ACTIONS},
            "flags": "flags",
            "kind": {"constant": "quote"},
        },
    ),
    ({*_CORNERS, "volume"}, {"price": "price", "size": "size", "depth": "depth", **_TRADE}),
)
_QUOTES, _TRADES, _DELTAS, _BARS = range(4)


def is_nautilus(source: ArrowSource) -> bool:
    """True if a file is of a Nautilus catalogue."""
    import pyarrow.types as kinds

    own = {b"instrument_id", b"price_precision", b"size_precision"} <= set(source.metadata)
    return own and any(kinds.is_fixed_size_binary(kind) for kind in source.schema.types)


class NautilusSource(Dialect):
    """Reads another source and gives its rows in columns of ticks. ``symbol``: the instrument. ``size_power``: the
    power of ten of its size unit, 0 or below."""

    def __init__(self, inner: ArrowSource, path: Any) -> None:
        super().__init__(inner, path)
        there = set(inner.names)
        self._of = next((at for at, (needed, _) in enumerate(_TABLES) if needed <= there), -1)
        if self._of < 0 or not {"ts_event", "ts_init"} <= there:
            raise FormatError(
                "is a file of a Nautilus catalogue without quotes, trades, order book deltas or bars: convert it "
                f"to one of them (it has {', '.join(inner.names)})",
                path=path,
            )
        self.names, self.schema = inner.names, inner.schema
        self._width = len(_CORNERS) if self._of == _BARS else 1
        self.rows = None if inner.rows is None else inner.rows * self._width
        self.symbol = self._said(b"instrument_id")
        self.venue = self.symbol.rpartition(".")[2]
        precision = self._said(b"size_precision")
        if not precision.isdecimal() or int(precision) > max(_SCALES.values()):
            raise FormatError(f"has the size_precision {precision!r} in its metadata, not 0 to 16", path=path)
        self.size_power = -int(precision)

    def columns(self, said: Options, reading: Reading) -> Columns:
        there, more = _TABLES[self._of]
        times = {"ts_event": {"column": "ts_event", "unit": "ns"}, "ts_recv": {"column": "ts_init", "unit": "ns"}}
        given = {name: name for name in there if name in _NUMBERS} | more | times
        given = {field: keys for field, keys in given.items() if field not in said.constants}
        names = ["price", "size", "depth", *times, "ts_init"] if self._of == _BARS else self.names
        columns = dict.fromkeys((*FIELDS, "symbol")) | given | said.columns
        return columns_of(names, columns, said.constants, reading)

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        del keeps, texts
        import pyarrow as pa

        wanted = {*columns, *_TABLES[self._of][0]} & {*self.names}
        for first, batch in self._inner.batches(sorted(wanted), max(1, batch_rows // self._width), lambda *_: True):
            good = batch
            if self._of == _DELTAS and len(orders := np.flatnonzero(self._whole(batch, "order_id"))):
                good = batch.slice(0, int(orders[0]))
            made = {name: self._plain(good, name) for name in sorted(wanted)}
            if self._of == _BARS:
                made = _corners(made, good.num_rows)
            elif self._of == _DELTAS:
                made |= self._delta(made)
            yield first * self._width, pa.record_batch([made[name] for name in columns], names=list(columns))
            if good.num_rows < batch.num_rows:
                raise FormatError(
                    f"row {first + good.num_rows + 1}: has order ids: from a Nautilus catalogue only deltas of price "
                    "levels can be read; read single orders from its source (DBN of mbo)",
                    path=self._path,
                )

    @property
    def flags(self) -> Flags:
        """Flags of deltas, which are kept as they are (16: of price levels). Other rows have none."""
        if self._of != _DELTAS:
            return Flags()
        return Flags(snapshot=32, last=128 if self._has_ends else 0, top=64, other=16)

    @functools.cached_property
    def _has_ends(self) -> bool:
        """True if deltas mark the end of an event. Where the first deltas have no mark, each delta is an event."""
        if not self.row_groups:
            return True
        for _, batch in self._inner.batches(["flags"], _LOOKED_AT, lambda *_: True):
            return bool((self._whole(batch, "flags") & np.uint8(128)).any())
        return True

    @property
    def bars(self) -> int | None:
        """The length of a bar of time in ns, as the metadata says it (``EURUSD.SIM-1-MINUTE-BID-EXTERNAL``)."""
        text = self.metadata.get(b"bar_type", b"").decode("utf-8", "replace").removeprefix(self._said(b"instrument_id"))
        found = re.match(r"-(\d{1,6})-([A-Z]+)-", text)
        if self._of != _BARS or found is None or found[2] not in _BAR_NS:
            return None
        return int(found[1]) * _BAR_NS[found[2]]

    def _said(self, key: bytes) -> str:
        try:
            return bytes(self.metadata[key]).decode()
        except UnicodeDecodeError:
            raise FormatError(f"has metadata {key.decode()!r} that is not UTF-8", path=self._path) from None

    def _delta(self, made: dict[str, Any]) -> dict[str, Any]:
        """The columns of deltas that are not given as they are: a clear has no price."""
        import pyarrow as pa
        import pyarrow.compute as pc

        price = pc.if_else(pc.equal(made["action"], _CLEAR), pa.scalar(None, made["price"].type), made["price"])
        return {"price": price, "flags": pc.bit_wise_and(made["flags"], pa.scalar(_FLAGS, made["flags"].type))}

    def _whole(self, batch: Any, name: str) -> Array:
        import pyarrow.types as kinds

        column = batch.column(name)
        if column.null_count or not kinds.is_unsigned_integer(column.type):
            raise FormatError(f"column {name!r} is {column.type}, not whole numbers without nulls", path=self._path)
        return numbers(column)

    def _plain(self, batch: Any, name: str) -> Any:
        is_number = name in _NUMBERS or name in (*_CORNERS, "volume")
        return self._fixed(batch, name, signed=name not in _SIZES) if is_number else batch.column(name)

    def _fixed(self, batch: Any, name: str, *, signed: bool) -> Any:
        """A column's fixed-point numbers as decimals of 16 places; null where undefined."""
        import pyarrow as pa
        import pyarrow.types as kinds

        column = batch.column(name)
        if not kinds.is_fixed_size_binary(column.type) or column.type.byte_width not in _SCALES or column.null_count:
            raise FormatError(
                f"column {name!r} is {column.type}, not numbers of 8 or 16 bytes without nulls", path=self._path
            )
        width, count = column.type.byte_width, len(column)
        words = np.frombuffer(column.buffers()[1], np.uint64, count * width // 8, column.offset * width)
        words = words.reshape(count, width // 8)
        top = np.uint64((1 << 63) - 1) if signed else np.uint64((1 << 64) - 1)
        undefined = (words[:, -1] == top) & (words[:, :-1] == np.uint64((1 << 64) - 1)).all(axis=1)
        if width == 8:
            high = (words[:, 0].view(np.int64) >> 63).view(np.uint64) if signed else np.zeros(count, np.uint64)
            words = np.column_stack([words[:, 0], high])
        words = np.ascontiguousarray(np.where(undefined[:, None], np.uint64(0), words))
        validity = pa.array(~undefined).buffers()[1]
        kind = pa.decimal128(38, _SCALES[width])
        made = pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(words)])
        return made.cast(pa.decimal128(38, 16)) if width == 8 else made
