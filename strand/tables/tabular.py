"""Tables for Arrow, polars and pandas, all with the same dtypes; ticks of a feed as record batches of Arrow, one tick a
row, in memory for one batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.lazy import imported
from strand.symbols import SymbolTable
from strand.tables.arrow import arrow_table
from strand.tables.columns import Prices, ShownColumn, SymbolNames, Table
from strand.ticks import KIND_QUOTE, UNDEF_PRICE, named, zeros
from strand.units import COUNT, PRICE, SIZE, TIME, declare

if TYPE_CHECKING:
    import polars

__all__ = ["Tabular", "TickSource", "pandas_frame", "polars_frame", "tick_stream"]


class Tabular(ABC):
    """Makes tables in natural units of what ``to_arrow`` returns.

    Times are timestamps in UTC to the ns, symbols are text, and undefined values are null. polars, pyarrow and
    others take the object itself, by ``__arrow_c_stream__``; its prices are floats.
    """

    @abstractmethod
    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """Returns a pyarrow.Table.

        Args:
            prices: ``"float"`` makes a price an f8 in units of currency, ``"decimal"`` an exact decimal of nine digits
                after the point. ``"integer"`` leaves it in 1e-9. A price that the handler keeps as a float stays one.

        Raises:
            MissingExtraError: Without pyarrow.
            ConfigurationError: For other ``prices``, or if the unit of sizes is unknown, because merged files differ in
                it.
        """

    def to_polars(self, *, prices: Prices = "float") -> polars.DataFrame:
        """Returns a polars.DataFrame of the same, with the arguments of ``to_arrow``.

        Raises:
            MissingExtraError: Without polars or pyarrow. Other errors are those of ``to_arrow``.
        """
        return polars_frame(partial(self.to_arrow, prices=prices))

    def to_pandas(self, *, prices: Prices = "float") -> Any:
        """Returns a pandas.DataFrame of the same, with the arguments of ``to_arrow``.

        Undefined values are NaN in floats, NaT in times, else NA. Decimals and sub-arrays stay Arrow's.

        Raises:
            MissingExtraError: Without pandas or pyarrow. Other errors are those of ``to_arrow``.
        """
        return pandas_frame(partial(self.to_arrow, prices=prices))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table as a stream of Arrow's C interface. Raises as ``to_arrow``."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def polars_frame(table: Callable[[], Any]) -> polars.DataFrame:
    """The polars.DataFrame of the pyarrow.Table that ``table`` gives. Raises MissingExtraError."""
    made: polars.DataFrame = imported("polars", "polars").from_arrow(table())
    return made


def pandas_frame(table: Callable[[], Any], index: str | None = None) -> Any:
    """The pandas.DataFrame of the pyarrow.Table that ``table`` gives, one column its index. Raises
    MissingExtraError."""
    pandas = imported("pandas", "pandas")
    made = table()
    series = {field.name: _series(pandas, field, made.column(field.name)) for field in made.schema}
    frame = pandas.DataFrame(series)
    return frame if index is None else frame.set_index(index)


def _series(pandas: Any, field: Any, column: Any) -> Any:
    """The dtype follows from the field alone, whatever its values are. pyarrow would make floats of integers with
    nulls."""
    types = imported("pyarrow", "parquet").types
    if types.is_string(field.type):
        dtype = pandas.StringDtype()
    elif types.is_integer(field.type) and field.nullable:
        dtype = pandas.api.types.pandas_dtype(str(field.type).replace("int", "Int").replace("u", "U"))
    elif types.is_decimal(field.type) or types.is_nested(field.type):
        dtype = pandas.ArrowDtype(field.type)
    else:
        return column.to_pandas()
    return pandas.Series(dtype.__from_arrow__(column))


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
    """Columns of ticks, shape (n,). The first tick has the ``number`` given, counted in its feed."""
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
