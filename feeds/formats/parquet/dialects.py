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
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import FormatError
from strand.feeds.base import Flags, TicksAre, usual_flags
from strand.feeds.formats.csv.profile import Part, SymbolRule, named_profile, present_parts, table_match
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
from strand.feeds.mapping.values import Column, either, mapped
from strand.ticks import (
    KIND_QUOTE,
    KIND_TRADE,
)

__all__ = ["DatabentoSource", "Dialect", "NautilusSource", "is_databento", "is_nautilus"]

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

    def columns(self, constants: Mapping[str, Any], reading: Reading) -> Columns:
        """The columns that ticks are made of."""
        return columns_of(self.names, {}, constants, reading)

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


class _PartColumns(Columns):
    """Columns of which each row makes several ticks: those of the first part, and those of ``others``."""

    others: Sequence[tuple[Part, Columns]] = ()
    #: Whether a row is a view of a book before a trade, or else a sample of the book; None: it is neither.
    are_views: bool | None = None

    @property
    def names(self) -> list[str]:
        of_parts = [name for part, columns in self.others for name in (*part.where, *columns.names)]
        return list(dict.fromkeys([*super().names, *of_parts, "instrument_id"]))

    @property
    def has_sizes(self) -> bool:
        return super().has_sizes or any(columns.has_sizes for _, columns in self.others)

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

    def columns(self, constants: Mapping[str, Any], reading: Reading) -> Columns:
        of_all, ones = self._profile.fields, constant_rules({}, constants, reading)
        head, *others = self._parts or [Part(())]
        made = _PartColumns.of_rules(self.names, (*of_all, *head.fields), ones, reading)
        made.of |= {"symbol": "symbol"} if self._has_symbols else {"instrument_id": "instrument_id"}
        made.others = [(part, Columns.of_rules(self.names, (*of_all, *part.fields), ones, reading)) for part in others]
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
