"""Rows as tables: numpy, pandas, polars, Arrow."""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, MissingExtraError
from strand.ticks import PRICE_SCALE, UNDEF_PRICE

__all__ = ["NO_PRICE", "Prices", "columns_of", "is_price", "to_arrow", "to_pandas", "to_polars"]

#: What ``prices`` may be: as they are, in units of currency, or the fields that are to be.
Prices = Literal["int", "float"] | Collection[str]

#: What stands for no price: of a side that is empty, and the high of a bar without a trade.
NO_PRICE: Final = (UNDEF_PRICE, -1 - UNDEF_PRICE)
#: Fields of 8-byte signed integers that are prices by their last name, and those that end in ``_price``.
PRICE_FIELDS: Final = frozenset(("price", "bid", "ask", "open", "high", "low", "close", "vwap"))
#: Upper halves of sums are none, though they are called high.
_SUM: Final = re.compile(r"(^|_)(notional|quoted|effective|mean)_high$")


def columns_of(names: Sequence[str], rows: npt.NDArray[Any], prices: Prices = "int") -> dict[str, npt.NDArray[Any]]:
    """Columns by name, ``symbol`` first; a record within a record gives columns ``part.field``.

    Bytes become text. With ``prices="float"`` prices are divided by 1e9, and what is none (``NO_PRICE``) becomes NaN.
    Raises ConfigurationError for a price field that is none.
    """
    flat: dict[str, npt.NDArray[Any]] = {}
    _flatten(rows, "", flat)
    if isinstance(prices, str):
        if prices not in ("int", "float"):
            raise ConfigurationError(f"prices: {prices!r} is not 'int', 'float' or a list of fields")
        chosen = [name for name in flat if prices == "float" and is_price(name, flat[name].dtype)]
    else:
        chosen = list(prices)
    for name in chosen:
        if name not in flat or flat[name].dtype.kind not in "iu":
            raise ConfigurationError(f"prices: {name!r} is not an integer column; there are {', '.join(flat)}")
        values = flat[name]
        flat[name] = np.where(np.isin(values, NO_PRICE), np.nan, values / PRICE_SCALE)
    return {"symbol": np.array(names, dtype=np.str_), **flat}


def is_price(name: str, dtype: np.dtype[Any]) -> bool:
    """Whether a field holds prices in 1e-9, by its name: ``bid_price``, ``last_close``, ``price_max``."""
    field = name.rpartition(".")[2]
    if dtype != np.dtype("<i8") or _SUM.search(field):
        return False
    return field.rpartition("_")[2] in PRICE_FIELDS or field.startswith("price_")


def _flatten(rows: npt.NDArray[Any], prefix: str, into: dict[str, npt.NDArray[Any]]) -> None:
    for name in rows.dtype.names or ():
        column = rows[name]
        if column.dtype.names is not None and column.ndim == 1:
            _flatten(column, f"{prefix}{name}.", into)
        elif column.dtype.names is not None:
            for i in range(column.shape[1]):
                _flatten(column[:, i], f"{prefix}{name}.{i}.", into)
        elif column.dtype.kind == "S":
            into[prefix + name] = np.char.decode(column, "ascii", "backslashreplace")
        elif column.dtype.kind != "V":  # bytes without a meaning
            into[prefix + name] = np.ascontiguousarray(column)


def _module(name: str, package: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"a table of {package}", package, extra) from error


def to_pandas(columns: dict[str, npt.NDArray[Any]]) -> Any:
    """A pandas.DataFrame, ``symbol`` its index; arrays are cells of lists. Raises MissingExtraError."""
    pandas = _module("pandas", "pandas", "pandas")
    data = {name: values.tolist() if values.ndim > 1 else values for name, values in columns.items()}
    return pandas.DataFrame(data).set_index("symbol")


def to_polars(columns: dict[str, npt.NDArray[Any]]) -> Any:
    """A polars.DataFrame; arrays are cells of lists. Raises MissingExtraError."""
    polars = _module("polars", "polars", "polars")
    series = []
    for name, values in columns.items():
        if values.ndim == 1:
            series.append(polars.Series(name, values))
            continue
        element = polars.Series(values.reshape(-1)[:0]).dtype
        for _ in values.shape[1:]:
            element = polars.List(element)
        series.append(polars.Series(name, values.tolist(), dtype=element))
    return polars.DataFrame(series)


def to_arrow(columns: dict[str, npt.NDArray[Any]]) -> Any:
    """A pyarrow.Table; arrays are cells of fixed-size lists. Raises MissingExtraError."""
    arrow = _module("pyarrow", "pyarrow", "parquet")
    return arrow.table({name: _arrow_column(arrow, values) for name, values in columns.items()})


def _arrow_column(arrow: Any, values: npt.NDArray[Any]) -> Any:
    column = arrow.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        column = arrow.FixedSizeListArray.from_arrays(column, size)
    return column
