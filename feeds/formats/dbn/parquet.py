"""Databento's records in Parquet and Arrow, as ``DBNStore.to_parquet`` writes them, read like the records in DBN.

Each row is a record whose columns are its fields (databento, ``DBNStore.to_df`` and ``to_parquet``). Prices are floats
in currency, or with ``price_type="fixed"`` whole numbers in units of 1e-9. Times are timestamps, or with
``pretty_ts=False`` whole numbers of ns. The column ``symbol`` may be missing (``map_symbols=False``).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import FormatError
from strand.feeds.formats.parquet.sources import ArrowSource, Dialect, KeepsGroup
from strand.feeds.mapping.events import LAST, end_views
from strand.ticks import KIND_NONE, KIND_ORDER, KIND_QUOTE, KIND_TRADE, PRICE_SCALE, TICK, UNDEF_PRICE, zeros

__all__ = ["DatabentoSource", "is_databento"]

_HEADER: Final = frozenset({"rtype", "publisher_id", "instrument_id", "ts_event"})
_CORNERS: Final = ("open", "high", "low", "close")
_UNDEF_TIME: Final = (1 << 64) - 1
_LEVELS: Final = 10
#: The length of a bar by ``rtype``, in ns.
_BAR_NS: Final = {32: 10**9, 33: 60 * 10**9, 34: 3600 * 10**9, 35: 86400 * 10**9, 36: 86400 * 10**9}
_ORDER_KINDS: Final = {b"T": KIND_TRADE, b"N": KIND_NONE}
#: The fields of ticks that are given on. The symbol's name, or else the instrument's number, stands beside them.
_FIELDS: Final = (
    "ts_event", "ts_recv", "order_id", "price", "size", "sequence", "ref_id", "publisher_id", "action", "side",
    "flags", "depth", "kind",
)  # fmt: skip

Array = npt.NDArray[Any]


def is_databento(source: ArrowSource) -> bool:
    """True if a table has the columns that all of Databento's records have."""
    return set(source.names) >= _HEADER and not source.metadata.get(b"strand")


class DatabentoSource(Dialect):
    """Reads another source and gives the ticks that its records make, as columns of ticks.

    Raises:
        FormatError: If the records are of a schema that makes no trades, quotes or orders.
    """

    def __init__(self, inner: ArrowSource, path: Any) -> None:
        import pyarrow as pa

        self._inner, self._path = inner, path
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
        self.names = list(self.schema.names)
        self.metadata, self.row_groups = inner.metadata, inner.row_groups
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
                return _BAR_NS.get(int(batch.column("rtype")[0].as_py()))
        return None

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        del keeps, texts  # statistics of other columns
        import pyarrow as pa

        rows = max(1, batch_rows // self._width)
        for first, batch in self._inner.batches(self._inner.names, rows, lambda *_: True):
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
        lengths[list(_BAR_NS)] = list(_BAR_NS.values())
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

    def _whole(self, batch: Any, name: str) -> Array:
        import pyarrow.types as kinds

        column = batch.column(name)
        if column.null_count or not kinds.is_integer(column.type):
            raise FormatError(f"column {name!r} is {column.type}, not whole numbers without nulls", path=self._path)
        found: Array = column.to_numpy()
        return found

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
        none = np.isnan(values)
        scaled = np.rint(np.where(none, 0, values) * PRICE_SCALE)
        exact = (np.abs(scaled) < 1 << 52) & (scaled / PRICE_SCALE == np.where(none, 0, values))
        prices = np.where(exact, scaled, 0).astype(np.int64)
        for row in np.flatnonzero(~exact & ~none).tolist():
            price = Decimal(repr(float(values[row]))) * PRICE_SCALE
            if price != price.to_integral_value() or abs(price) >= UNDEF_PRICE:
                raise FormatError(
                    f"column {name!r} holds {values[row]}, which is no whole number of 1e-9", path=self._path
                )
            prices[row] = int(price)
        prices[none] = UNDEF_PRICE
        return prices


def _column(ticks: Array, name: str) -> Any:
    """A field of ticks as a column; a price that is none is null."""
    import pyarrow as pa

    if name == "sequence":
        return pa.array(ticks["sequence_low"].astype(np.int64) | ticks["sequence_high"].astype(np.int64) << 32)
    values = np.ascontiguousarray(ticks[name])
    if TICK[name].kind == "S":
        return pa.array(values.astype("U1"), pa.string())
    return pa.array(values, mask=values == UNDEF_PRICE if name == "price" else None)
