"""Ticks of a feed as record batches of Arrow: one tick a row, in memory for one batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.symbols import SymbolTable
from strand.tables.arrow import arrow_table, imported
from strand.tables.columns import Prices, ShownColumn, SymbolNames, Table
from strand.ticks import KIND_QUOTE, UNDEF_PRICE, named, zeros
from strand.units import COUNT, PRICE, SIZE, TIME, declare

__all__ = ["TickSource", "tick_stream"]

#: Rows of a record batch at most.
BATCH_ROWS: Final = 1 << 16

_ID: Final = declare(COUNT, "<u8", none=(0,))
#: The columns, with what they mean: ``number`` and ``sequence`` are those of an output's records.
COLUMNS: Final = np.dtype(
    [
        ("number", declare(COUNT, none=(-1,))),
        ("sequence", declare(COUNT, none=(-1,))),
        ("ts_event", TIME),
        ("ts_recv", TIME),
        ("instrument_id", "<u4"),
        ("kind", "u1"),
        ("action", "S1"),
        ("side", "S1"),
        ("price", PRICE),
        ("size", SIZE),
        ("bid_price", PRICE),
        ("bid_size", declare(SIZE, given={"bid_price": None})),
        ("ask_price", PRICE),
        ("ask_size", declare(SIZE, given={"ask_price": None})),
        ("order_id", _ID),
        ("ref_id", _ID),
        ("publisher_id", declare(COUNT, "<u2", none=(0,))),
        ("flags", "u1"),
        ("depth", "u1"),
    ]
)


class TickSource(Protocol):
    """A feed: see ``strand.feeds.base.Feed``."""

    @property
    def info(self) -> Any: ...

    @property
    def symbols(self) -> Any: ...

    @property
    def max_symbols(self) -> int: ...

    def batches(self) -> Iterator[npt.NDArray[np.void]]: ...


def tick_stream(feed: TickSource, prices: Prices) -> Any:
    """A pyarrow.RecordBatchReader that reads the feed from its start, in batches of at most 65,536 rows.

    Raises MissingExtraError without pyarrow, ConfigurationError for other ``prices``, and for sizes whose unit nobody
    knows. Exceptions of the feed while it is read come out of the reader.
    """
    arrow = imported("pyarrow", "parquet")
    table = Table(COLUMNS, feed.info.size_unit)
    symbols = SymbolTable.with_capacity(feed.symbols, max(feed.max_symbols, 1))
    schema = arrow_table(_columns(table, zeros(0), 0, symbols, prices)).schema

    def read() -> Iterator[Any]:
        number = 0
        for ticks in feed.batches():
            symbols.learn(feed.symbols)
            for at in range(0, len(ticks), BATCH_ROWS):
                # A copy: the feed uses the memory again, and the reader's user may keep the batch.
                part = ticks[at : at + BATCH_ROWS].copy()
                yield from arrow_table(_columns(table, part, number, symbols, prices)).to_batches()
                number += len(part)

    return arrow.RecordBatchReader.from_batches(schema, read())


def _columns(
    table: Table, ticks: npt.NDArray[np.void], number: int, symbols: SymbolTable, prices: Prices
) -> dict[str, ShownColumn]:
    """Columns of ticks, shape (n,), the first of which is the feed's tick ``number``."""
    ticks = named(ticks)
    records: dict[str, Any] = {name: ticks[name] for name in COLUMNS.names or () if name != "number"}
    records["number"] = np.arange(number, number + len(ticks))
    quotes = ticks["kind"] == KIND_QUOTE
    both = quotes & (ticks["side"] == b"N")
    for name in ("bid_price", "ask_price"):
        records[name] = np.where(quotes, records[name], UNDEF_PRICE)
    for name in ("order_id", "ref_id"):  # which hold the ask of a quote of both sides
        records[name] = np.where(both, 0, records[name])
    records["ts_recv"] = np.where(ticks["ts_recv"] < 0, UNDEF_PRICE, ticks["ts_recv"])
    found: dict[str, ShownColumn] = {}
    for name, column in table.shown(records, prices).items():
        if name == "instrument_id":
            found["symbol"] = SymbolNames(records[name], symbols)
        found[name] = column
    return found
