"""Parquet and Arrow files of other programs, as columns of ticks: Databento's and those of a Nautilus catalogue.

Databento's are as ``DBNStore.to_parquet`` writes them, and are read like the records in DBN. Each row is a record whose
columns are its fields (databento, ``DBNStore.to_df`` and ``to_parquet``). Prices are floats in currency, or with
``price_type="fixed"`` whole numbers in units of 1e-9. Times are timestamps, or with ``pretty_ts=False`` whole numbers
of ns. The column ``symbol`` may be missing (``map_symbols=False``).

Nautilus's prices and sizes are little-endian whole numbers: of 8 bytes in units of 1e-9, of 16 bytes in units of 1e-16
(nautilus_model, types/fixed.rs); the highest is undefined, and only prices have a sign. Metadata names the instrument.
``ts_init`` is when a row was received. Quote ticks, trade ticks, deltas of price levels and bars are read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Generator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import FormatError
from strand.feeds.base import Flags, TicksAre, usual_flags
from strand.feeds.formats.parquet.sources import ArrowSource, KeepsGroup
from strand.feeds.mapping.events import CONSOLIDATED, LAST, end_views
from strand.feeds.mapping.values import PRICE_POWER, float_units
from strand.ticks import (
    KIND_NONE,
    KIND_ORDER,
    KIND_QUOTE,
    KIND_TRADE,
    TICK,
    UNDEF_PRICE,
    zeros,
)

__all__ = ["DatabentoSource", "Dialect", "NautilusSource", "is_databento", "is_nautilus"]

Array = npt.NDArray[Any]

_CORNERS: Final = ("open", "high", "low", "close")


_HEADER: Final = frozenset({"rtype", "publisher_id", "instrument_id", "ts_event"})
_UNDEF_TIME: Final = (1 << 64) - 1
_LEVELS: Final = 10
#: The length of a bar by ``rtype``, in ns.
_RTYPE_NS: Final = {32: 10**9, 33: 60 * 10**9, 34: 3600 * 10**9, 35: 86400 * 10**9, 36: 86400 * 10**9}
_ORDER_KINDS: Final = {b"T": KIND_TRADE, b"N": KIND_NONE}
#: The fields of ticks that are given on. The symbol's name, or else the instrument's number, stands beside them.
_FIELDS: Final = (
    "ts_event", "ts_recv", "order_id", "price", "size", "sequence", "ref_id", "publisher_id", "action", "side",
    "flags", "depth", "kind",
)  # fmt: skip


def is_databento(source: ArrowSource) -> bool:
    """True if a table has the columns that all of Databento's records have."""
    return set(source.names) >= _HEADER and not source.metadata.get(b"strand")


class Dialect(ArrowSource):
    """A file of a program whose columns are known: another source, whose rows are given as columns of ticks.

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

    def _rows(self, batch_rows: int) -> Generator[tuple[int, Any], None, None]:
        """All columns of the other source: the number of the first row, and a batch with ticks for ``batch_rows``."""
        # Statistics are of other columns than those that are given.
        return self._inner.batches(self._inner.names, max(1, batch_rows // self._width), lambda *_: True)

    def _whole(self, batch: Any, name: str, *, unsigned: bool = False) -> Array:
        import pyarrow.types as kinds

        column = batch.column(name)
        fits = kinds.is_unsigned_integer if unsigned else kinds.is_integer
        if column.null_count or not fits(column.type):
            raise FormatError(f"column {name!r} is {column.type}, not whole numbers without nulls", path=self._path)
        found: Array = column.to_numpy()
        return found


class DatabentoSource(Dialect):
    """Reads another source and gives the ticks that its records make, as columns of ticks.

    Raises:
        FormatError: If the records are of a schema that makes no trades, quotes or orders.
    """

    def __init__(self, inner: ArrowSource, path: Any) -> None:
        import pyarrow as pa

        super().__init__(inner, path)
        there = set(inner.names)
        if {"order_id", "action", "price", "size"} <= there:
            self._make, self._width = self._orders, 1
        elif {"bid_px_00", "ask_px_00"} <= there:
            self._levels = sum(f"bid_px_{level:02}" in there for level in range(_LEVELS))
            self._make, self._width = self._books, self._levels + 1
        elif {"action", "price", "size", "side"} <= there:
            self._make, self._width = self._trades, 1
        elif {*_CORNERS, "volume"} <= there:
            self._make, self._width = self._bars, len(_CORNERS)
        else:
            raise FormatError(
                "has Databento's records of a schema without orders, trades, quotes or bars: read it from DBN (it has "
                f"{', '.join(inner.names)})",
                path=path,
            )
        self._has_symbols = "symbol" in there and str(inner.schema.field("symbol").type) != "null"
        keys = [pa.field("symbol", pa.string())] if self._has_symbols else []
        keys.append(pa.field("instrument_id", pa.uint32()))
        kinds = {"action": pa.string(), "side": pa.string()}
        fields = [pa.field(name, kinds.get(name, pa.int64())) for name in _FIELDS]
        self.schema = pa.schema([*fields, *keys])
        self.instrument = "instrument_id" if self._has_symbols else None
        self.own_quotes = CONSOLIDATED not in there
        self.names = list(self.schema.names)
        one = self._width == 1 or self._make == self._bars
        # A name that goes over to another instrument makes one more tick.
        one = one and not self._has_symbols
        self.rows = inner.rows * self._width if one and inner.rows is not None else None
        self.symbol, self.size_power, self.price_power = None, 0, -9
        self.ticks = "dbn-orders" if self._make == self._orders else "dbn"

    @property
    def bars(self) -> int | None:
        """The length of the first row's bar."""
        if self._make != self._bars:
            return None
        for _, batch in self._inner.batches(["rtype"], 1, lambda *_: True):
            if batch.num_rows:
                return _RTYPE_NS.get(int(batch.column("rtype")[0].as_py()))
        return None

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        del keeps, texts
        import pyarrow as pa

        for first, batch in self._rows(batch_rows):
            ticks, of_row = self._make(batch, first)
            made: dict[str, Any] = {name: _column(ticks, name) for name in _FIELDS}
            ids = pa.array(self._whole(batch, "instrument_id"), pa.uint32())
            made["instrument_id"] = ids.take(pa.array(of_row))
            if self._has_symbols:
                import pyarrow.compute as pc

                names = batch.column("symbol").cast(pa.string())
                numbered = pc.binary_join_element_wise("id", ids.cast(pa.string()), ":")
                made["symbol"] = pc.if_else(pc.is_valid(names), names, numbered).take(pa.array(of_row))
            yield first, pa.record_batch([made[name] for name in columns], names=list(columns))

    # ---- records of a schema, each with the row of every tick

    def _orders(self, batch: Any, first: int) -> tuple[Array, Array]:
        ticks, rows = self._heads(batch, first)
        ticks["order_id"] = self._whole(batch, "order_id")
        ticks["kind"] = KIND_ORDER
        for action, kind in _ORDER_KINDS.items():
            ticks["kind"][ticks["action"] == action] = kind
        return ticks, rows

    def _trades(self, batch: Any, first: int) -> tuple[Array, Array]:
        ticks, rows = self._heads(batch, first)
        ticks["kind"] = KIND_TRADE
        return ticks, rows

    def _books(self, batch: Any, first: int) -> tuple[Array, Array]:
        heads, rows = self._heads(batch, first)
        every = np.repeat(heads[:, None], self._width, axis=1)
        kept = np.ones(every.shape, np.bool_)
        for level in range(self._levels):
            quotes = every[:, level]
            of = {name: f"{name}_{level:02}" for name in ("bid_px", "ask_px", "bid_sz", "ask_sz")}
            ask = self._prices(batch, of["ask_px"])
            quotes["price"], quotes["order_id"] = self._prices(batch, of["bid_px"]), ask.view(np.uint64)
            quotes["size"], quotes["ref_id"] = self._whole(batch, of["bid_sz"]), self._whole(batch, of["ask_sz"])
            quotes["side"], quotes["depth"], quotes["kind"] = b"N", level, KIND_QUOTE
            if level:
                kept[:, level] = (quotes["price"] != UNDEF_PRICE) | (ask != UNDEF_PRICE)
        every["kind"][:, -1] = KIND_TRADE
        kept[:, -1] = (heads["action"] == b"T") & ("action" in batch.schema.names)
        ticks = every[kept]
        if "action" in batch.schema.names:
            end_views(ticks, np.repeat(np.arange(len(kept)), kept.sum(axis=1)), LAST)
        else:
            ticks["flags"] |= LAST  # a sample of the book is whole
        return ticks, np.repeat(rows, kept.sum(axis=1))

    def _bars(self, batch: Any, first: int) -> tuple[Array, Array]:
        heads, rows = self._heads(batch, first)
        lengths = np.zeros(256, np.int64)
        lengths[list(_RTYPE_NS)] = list(_RTYPE_NS.values())
        heads["ts_recv"] = heads["ts_event"] + lengths[self._whole(batch, "rtype").astype(np.uint8)]
        heads["action"], heads["kind"] = b"T", KIND_TRADE
        every = np.repeat(heads[:, None], self._width, axis=1)
        for corner, name in enumerate(_CORNERS):
            every["price"][:, corner], every["depth"][:, corner] = self._prices(batch, name), corner
        every["size"][:, -1] = self._whole(batch, "volume").astype(np.int64)
        return every.ravel(), np.repeat(rows, self._width)

    def _heads(self, batch: Any, first: int) -> tuple[Array, Array]:
        """Ticks with the common fields of each record, and the rows of the records."""
        n, there = batch.num_rows, set(batch.schema.names)
        ticks = np.asarray(zeros(n))
        event = self._times(batch, "ts_event")
        recv = self._times(batch, "ts_recv") if "ts_recv" in there else event
        ticks["ts_event"] = np.where(event == _UNDEF_TIME, np.where(recv == _UNDEF_TIME, 0, recv), event)
        ticks["ts_recv"] = np.where(recv == _UNDEF_TIME, ticks["ts_event"].astype(np.uint64), recv)
        ticks["price"], ticks["action"], ticks["side"] = UNDEF_PRICE, b"N", b"N"
        for name in ("publisher_id", "flags", "depth"):
            if name in there:
                ticks[name] = self._whole(batch, name)
        sequence = self._whole(batch, "sequence") if "sequence" in there else np.arange(first + 1, first + 1 + n)
        ticks["sequence_low"], ticks["sequence_high"] = sequence & 0xFFFFFFFF, sequence >> 32
        if "action" in there:
            ticks["price"], ticks["size"] = self._prices(batch, "price"), self._whole(batch, "size")
            ticks["action"], ticks["side"] = self._letters(batch, "action"), self._letters(batch, "side")
        return ticks, np.arange(n)

    # ---- a column

    def _times(self, batch: Any, name: str) -> Array:
        import pyarrow as pa
        import pyarrow.types as kinds

        column = batch.column(name)
        if not kinds.is_timestamp(column.type):
            return self._whole(batch, name).astype(np.uint64)
        ns = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
        found: Array = ns.cast(pa.uint64()).fill_null(_UNDEF_TIME).to_numpy(zero_copy_only=False)
        return found

    def _letters(self, batch: Any, name: str) -> Array:
        import pyarrow as pa

        return np.array(batch.column(name).cast(pa.binary()).to_pylist(), "S1")

    def _prices(self, batch: Any, name: str) -> Array:
        """Prices in units of 1e-9. A float stands for the shortest decimal that rounds to it."""
        import pyarrow.types as kinds

        column = batch.column(name)
        if kinds.is_integer(column.type):
            return self._whole(batch, name).astype(np.int64)
        if not kinds.is_floating(column.type):
            raise FormatError(f"column {name!r} is {column.type}, not prices", path=self._path)
        values = column.fill_null(np.nan).to_numpy(zero_copy_only=False).astype(np.float64)
        prices, *wrong = float_units(values, PRICE_POWER)
        for rows in wrong:
            if rows is not None:
                value = values[np.argmax(rows)]
                raise FormatError(f"column {name!r} holds {value}, which is no whole number of 1e-9", path=self._path)
        prices[np.isnan(values)] = UNDEF_PRICE
        return prices


def _column(ticks: Array, name: str) -> Any:
    """Makes a column of a field of ticks. A price of UNDEF_PRICE becomes null."""
    import pyarrow as pa

    if name == "sequence":
        return pa.array(ticks["sequence_low"].astype(np.int64) | ticks["sequence_high"].astype(np.int64) << 32)
    values = np.ascontiguousarray(ticks[name])
    if TICK[name].kind == "S":
        return pa.array(values.astype("U1"), pa.string())
    return pa.array(values, mask=values == UNDEF_PRICE if name == "price" else None)


#: The lengths of bars of time, by their aggregation.
_BAR_NS: Final = {
    "MILLISECOND": 10**6, "SECOND": 10**9, "MINUTE": 60 * 10**9, "HOUR": 3600 * 10**9, "DAY": 86400 * 10**9,
}  # fmt: skip
#: By the bytes of a number: its decimals.
_SCALES: Final = {8: 9, 16: 16}
#: nautilus_model's AggressorSide and OrderSide, and its BookAction, as letters of a tick.
_SIDES: Final = ("N", "B", "A")
_ACTIONS: Final = ("", "A", "M", "C", "R")
#: Flags that mean the same in a tick: last, top of book, snapshot, levels. The others are reserved.
_FLAGS: Final = 0xF0
#: Deltas that are looked at for ends of events.
_LOOKED_AT: Final = 65_536
#: A kind's columns as the file has them, and as they are given.
_TABLES: Final = (
    ({"bid_price", "ask_price", "bid_size", "ask_size"}, ("bid_price", "ask_price", "bid_size", "ask_size")),
    ({"aggressor_side", "price", "size"}, ("price", "size", "side", "action", "kind")),
    ({"order_id", "flags", "action", "side", "price", "size"}, ("price", "size", "side", "action", "flags", "kind")),
    ({*_CORNERS, "volume"}, ("price", "size", "depth", "action", "kind")),
)


def is_nautilus(source: ArrowSource) -> bool:
    """True if a file is of a Nautilus catalogue."""
    import pyarrow.types as kinds

    own = {b"instrument_id", b"price_precision", b"size_precision"} <= set(source.metadata)
    return own and any(kinds.is_fixed_size_binary(kind) for kind in source.schema.types)


class _BadRowError(Exception):
    """A row, counted within its batch, that is not as it should be."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index


class NautilusSource(Dialect):
    """Reads another source and gives its rows in columns of ticks. ``symbol``: the instrument. ``size_power``: the
    power of ten of its size unit, 0 or below."""

    def __init__(self, inner: ArrowSource, path: Any) -> None:
        import pyarrow as pa

        super().__init__(inner, path)
        there = set(inner.names)
        self._of = next((at for at, (needed, _) in enumerate(_TABLES) if needed <= there), -1)
        if self._of < 0 or not {"ts_event", "ts_init"} <= there:
            raise FormatError(
                "is a file of a Nautilus catalogue without quotes, trades, order book deltas or bars: convert it "
                f"to one of them (it has {', '.join(inner.names)})",
                path=path,
            )
        self.names = [*_TABLES[self._of][1], "ts_event", "ts_recv"]
        self.schema = pa.schema([pa.field(name, self._type(name)) for name in self.names])
        self._width = len(_CORNERS) if self._of == 3 else 1
        self.rows = None if inner.rows is None else inner.rows * self._width
        self.symbol = self._said(b"instrument_id")
        self.venue = self.symbol.rpartition(".")[2]
        precision = self._said(b"size_precision")
        if not precision.isdecimal() or int(precision) > max(_SCALES.values()):
            raise FormatError(f"has the size_precision {precision!r} in its metadata, not 0 to 16", path=path)
        self.size_power = -int(precision)

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        del keeps, texts
        import pyarrow as pa

        for first, batch in self._rows(batch_rows):
            bad: _BadRowError | None = None
            while isinstance(made := self._made_or_bad(batch), _BadRowError):
                bad = made
                batch = batch.slice(0, bad.index)
            chosen = [made[name] for name in columns]
            yield first * self._width, pa.record_batch(chosen, names=list(columns))
            if bad is not None:
                raise FormatError(f"row {first + bad.index + 1}: {bad}", path=self._path)

    def _made_or_bad(self, batch: Any) -> dict[str, Any] | _BadRowError:
        try:
            return self._made(batch)
        except _BadRowError as bad:
            return bad

    @property
    def flags(self) -> Flags:
        """Flags of deltas, which are kept as they are (16: of price levels). Other rows have none."""
        if self._of != 2:
            return Flags()
        return Flags(snapshot=32, last=128 if self._has_ends else 0, top=64, other=16)

    @functools.cached_property
    def _has_ends(self) -> bool:
        """True if deltas mark the end of an event. Where the first deltas have no mark, each delta is an event."""
        if not self.row_groups:
            return True
        for _, batch in self._inner.batches(["flags"], _LOOKED_AT, lambda *_: True):
            return bool((self._whole(batch, "flags", unsigned=True) & np.uint8(128)).any())
        return True

    @property
    def bars(self) -> int | None:
        """The length of a bar of time in ns, as the metadata says it (``EURUSD.SIM-1-MINUTE-BID-EXTERNAL``)."""
        text = self.metadata.get(b"bar_type", b"").decode("utf-8", "replace").removeprefix(self._said(b"instrument_id"))
        found = re.match(r"-(\d{1,6})-([A-Z]+)-", text)
        if self._of != 3 or found is None or found[2] not in _BAR_NS:
            return None
        return int(found[1]) * _BAR_NS[found[2]]

    def _type(self, name: str) -> Any:
        import pyarrow as pa

        if name in ("ts_event", "ts_recv"):
            return pa.uint64()
        if name in ("side", "action"):
            return pa.string()
        return pa.uint8() if name in ("flags", "kind", "depth") else pa.decimal128(38, 16)

    def _said(self, key: bytes) -> str:
        try:
            return bytes(self.metadata[key]).decode()
        except UnicodeDecodeError:
            raise FormatError(f"has metadata {key.decode()!r} that is not UTF-8", path=self._path) from None

    def _made(self, batch: Any) -> dict[str, Any]:
        import pyarrow as pa

        rows = batch.num_rows
        event, recv = (self._times(batch, name) for name in ("ts_event", "ts_init"))
        if self._of == 3:
            corners = [self._fixed(batch, name, signed=True) for name in _CORNERS]
            zero = pa.array([0] * rows, pa.decimal128(38, 16))
            sizes = [zero, zero, zero, self._fixed(batch, "volume", signed=False)]
            width = len(_CORNERS)
            turns = pa.array(np.arange(width * rows).reshape(width, rows).T.ravel())
            made = {"price": pa.concat_arrays(corners).take(turns), "size": pa.concat_arrays(sizes).take(turns)}
            made["depth"] = pa.array(np.tile(np.arange(width, dtype=np.uint8), rows))
            event, recv, rows = np.repeat(event, width), np.repeat(recv, width), width * rows
        elif self._of == 0:
            made = {name: self._fixed(batch, name, signed=name.endswith("price")) for name in _TABLES[0][1]}
        else:
            made = {name: self._fixed(batch, name, signed=name == "price") for name in ("price", "size")}
            made |= self._delta(batch, made["price"]) if self._of == 2 else {}
            if self._of == 1:
                made["side"] = self._letters(batch, "aggressor_side", _SIDES)
        if self._of in (1, 3):
            made["action"] = pa.array(["T"] * rows)
        made["kind"] = pa.array(np.full(rows, KIND_QUOTE if self._of == 2 else KIND_TRADE, np.uint8))
        return made | {"ts_event": pa.array(event), "ts_recv": pa.array(recv)}

    def _delta(self, batch: Any, price: Any) -> dict[str, Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        orders = np.flatnonzero(self._whole(batch, "order_id", unsigned=True))
        if len(orders):
            raise _BadRowError(
                int(orders[0]),
                "has order ids: from a Nautilus catalogue only deltas of price levels can be read; read single orders "
                "from its source (DBN of mbo)",
            )
        action = self._letters(batch, "action", _ACTIONS)
        # A clear has no price.
        none = pa.scalar(None, price.type)
        return {
            "side": self._letters(batch, "side", _SIDES),
            "action": action,
            "flags": pa.array((self._whole(batch, "flags", unsigned=True) & np.uint8(_FLAGS)).astype(np.uint8)),
            "price": pc.if_else(pc.equal(action, "R"), none, price),
        }

    def _times(self, batch: Any, name: str) -> Any:
        import pyarrow as pa
        import pyarrow.types as kinds

        column = batch.column(name)
        if kinds.is_timestamp(column.type) and not column.null_count:
            return column.cast(pa.timestamp("ns")).cast(pa.int64()).to_numpy().astype(np.uint64)
        return self._whole(batch, name, unsigned=True)

    def _letters(self, batch: Any, name: str, letters: Sequence[str]) -> Any:
        import pyarrow as pa

        codes = self._whole(batch, name, unsigned=True)
        known = np.array([bool(letter) for letter in letters])
        bad = np.flatnonzero((codes >= len(letters)) | ~known[np.minimum(codes, len(letters) - 1)])
        if len(bad):
            raise _BadRowError(int(bad[0]), f"column {name!r} holds {codes[bad[0]]}, which Nautilus has no name for")
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), pa.array(letters)).cast(pa.string())

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
