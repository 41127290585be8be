"""Rows and records as tables for people: natural units, and null or NaN for what is undefined.

A table shows what ``strand.units`` declares of a field: a price in units of currency, a size in units of the instrument
(whatever the feed's ``size_unit``), a moment as a time in UTC. Such numbers are f8, rounded once from the exact
integers; sizes that count whole units stay integers. What only a handler's inner workings need is left out. A field
that declares nothing is shown as it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, MissingExtraError
from strand.units import NO_SIZE_UNIT, Unit, meaning_of, undeclared, unit_of

#: A spreadsheet runs a text cell that begins with one of these, or with what follows one of the last two.
FORMULA_STARTS: Final = "=+-@\t\r"

__all__ = ["Column", "Prices", "Table", "arrow_column", "to_arrow", "to_pandas", "to_polars"]

#: Prices in units of currency, or exact integers in 1e-9.
Prices = Literal["float", "int"]
#: Values, shape (n, ...): a masked array where some may be undefined. Floats that are masked are NaN, times NaT.
Column = npt.NDArray[Any]
Missing = npt.NDArray[np.bool_]
#: Quantities that tables show in another unit than fields have them.
_SCALED: Final = frozenset(("price", "size", "size squared", "notional"))


class Records(Protocol):
    """Fields by name, each of shape (n, ...): a structured array, or a dict of columns."""

    def __getitem__(self, name: str, /) -> Any: ...


class Table:
    """How the records of a dtype are shown: ``units`` of their exact numbers by column, ``columns`` for people.

    ``declared``: the dtype, with what it declares; ``plain``: the same without. ``size_unit``: what 1 in a size is
    worth, None where nobody knows, because the feeds that are merged differ in it.
    """

    def __init__(self, declared: np.dtype[Any], size_unit: float | None) -> None:
        self.plain = undeclared(declared)
        self._declared = declared
        self._size_unit = size_unit

    @property
    def units(self) -> dict[str, Unit]:
        """The unit of each field's numbers; a record within a record gives ``part.field``."""
        return {path: unit_of(dtype, self._size_unit) for path, dtype in _leaves(self._declared, "")}

    def columns(self, records: Records, prices: Prices = "float") -> dict[str, Column]:
        """Columns by name; a record within a record gives columns ``part.field``, bytes become text.

        Raises ConfigurationError for a size whose unit nobody knows, and other ``prices``.
        """
        if prices not in ("int", "float"):
            raise ConfigurationError(f"prices: {prices!r} is not 'float' or 'int'")
        found: dict[str, Column] = {}
        self._flatten(self._declared, records, "", found, prices)
        return found

    def _flatten(
        self, declared: np.dtype[Any], records: Records, prefix: str, into: dict[str, Column], prices: Prices
    ) -> None:
        for name in declared.names or ():
            path, dtype, values = prefix + name, declared[name], records[name]
            if dtype.base.names is not None:
                for part, where in _parts(values, dtype, path):
                    self._flatten(dtype.base, part, where, into, prices)
            elif dtype.base.kind == "S":
                into[path] = np.char.decode(values, "ascii", "backslashreplace")
            elif dtype.base.kind != "V" and meaning_of(dtype).quantity != "inner":  # bytes without a meaning
                into[path] = self._shown(path, dtype, values, missing(declared, records, name), prices)

    def _shown(
        self, path: str, dtype: np.dtype[Any], values: npt.NDArray[Any], none: Missing | None, prices: Prices
    ) -> Column:
        unit = unit_of(dtype, self._size_unit)
        if unit.quantity in _SCALED and not (unit.quantity == "price" and prices == "int"):
            if unit.scale is None:
                raise ConfigurationError(f"{path}: {NO_SIZE_UNIT}")
            values = _scaled(values, unit.scale)
        elif unit.quantity == "time":
            values = values.astype("<i8").view("<M8[ns]")
        elif unit.quantity == "letter":
            values = np.ascontiguousarray(values, "<u4").view("<U1")
        if none is None:
            return np.ascontiguousarray(values)
        undefined: Any = {"f": np.nan, "M": np.datetime64("NaT")}.get(values.dtype.kind)
        shown = np.ascontiguousarray(values) if undefined is None else np.where(none, undefined, values)
        return np.ma.MaskedArray(shown, none)


def _leaves(dtype: np.dtype[Any], prefix: str) -> Iterator[tuple[str, np.dtype[Any]]]:
    for name in dtype.names or ():
        if dtype[name].base.names is None:
            yield prefix + name, dtype[name]
        else:
            for _, where in _parts(np.empty((0, *dtype[name].shape), dtype[name].base), dtype[name], prefix + name):
                yield from _leaves(dtype[name].base, where)


def _parts(values: npt.NDArray[Any], dtype: np.dtype[Any], path: str) -> Iterator[tuple[npt.NDArray[Any], str]]:
    """Records within records, and what their columns' names begin with."""
    if dtype.shape:
        yield from ((values[:, i], f"{path}.{i}.") for i in range(dtype.shape[0]))
    else:
        yield values, f"{path}."


def missing(declared: np.dtype[Any], records: Records, name: str) -> Missing | None:
    """Where a field is undefined, by its declaration, shape of its values; None: nowhere, in any records."""
    meaning, values = meaning_of(declared[name]), records[name]
    if meaning.quantity == "raw" or (values.dtype.kind != "f" and not meaning.none and not meaning.given):
        return None
    found = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    for none in meaning.none:
        found |= values == none
    for other, minimum in meaning.given.items():
        lacks = missing(declared, records, other) if minimum is None else records[other] < minimum
        if lacks is not None:
            found |= lacks.reshape(-1, *(1,) * (values.ndim - 1))
    return found


def _scaled(values: npt.NDArray[Any], scale: Decimal) -> npt.NDArray[Any]:
    """Values times a power of ten: rounded once."""
    if scale == 1:
        return values
    return values / float(1 / scale) if scale < 1 else values * float(scale)


# ---- as what others know


def _module(name: str, package: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"a table of {package}", package, extra) from error


def _parted(column: Column) -> tuple[npt.NDArray[Any], Missing | None]:
    """A column's values, and where they are undefined; None: nowhere."""
    if isinstance(column, np.ma.MaskedArray):
        return column.data, np.ma.getmaskarray(column)
    return column, None


def to_pandas(columns: Mapping[str, Column], index: str | None = "symbol") -> Any:
    """A pandas.DataFrame, one column its index; arrays are cells of lists. Floats that are undefined are NaN, times
    NaT, integers and text NA. Raises MissingExtraError."""
    pandas = _module("pandas", "pandas", "pandas")
    frame = pandas.DataFrame({name: _pandas_column(pandas, column) for name, column in columns.items()})
    return frame if index is None else frame.set_index(index)


def _pandas_column(pandas: Any, column: Column) -> Any:
    values, none = _parted(column)
    if values.ndim > 1:
        return values.tolist() if values.dtype.kind == "f" else column.tolist()
    if values.dtype.kind == "M":
        return pandas.DatetimeIndex(values, tz="UTC")
    if none is None or values.dtype.kind == "f":
        return values
    if values.dtype.kind in "iu":
        return pandas.arrays.IntegerArray(values, none)
    return pandas.array(column.tolist(), dtype="string")


def to_polars(columns: Mapping[str, Column]) -> Any:
    """A polars.DataFrame. An array is a list in a cell; an undefined number is null. Raises MissingExtraError."""
    polars = _module("polars", "polars", "polars")
    return polars.DataFrame([_polars_column(polars, name, column) for name, column in columns.items()])


def _polars_column(polars: Any, name: str, column: Column) -> Any:
    values, none = _parted(column)
    if values.ndim > 1:
        element = polars.Series(values.reshape(-1)[:0]).dtype
        for _ in values.shape[1:]:
            element = polars.List(element)
        return polars.Series(name, column.tolist(), dtype=element)
    series = polars.Series(name, values)
    if values.dtype.kind == "M":
        return series.dt.replace_time_zone("UTC")
    return series if none is None else series.set(polars.Series(none), None)


def to_arrow(columns: Mapping[str, Column]) -> Any:
    """A pyarrow.Table. An array is a list of fixed size; an undefined number is null. Raises MissingExtraError."""
    arrow = _module("pyarrow", "pyarrow", "parquet")
    return arrow.table({name: arrow_column(arrow, column) for name, column in columns.items()})


def arrow_column(arrow: Any, column: Column) -> Any:
    """An Arrow array, of numbers over the same memory: pyarrow's own way imports pandas first, where that is
    installed, which takes a third of a second."""
    values, none = _parted(column)
    if values.ndim > 1:
        flat = arrow_column(arrow, column.reshape(-1))
        for size in reversed(values.shape[1:]):
            flat = arrow.FixedSizeListArray.from_arrays(flat, size)
        return flat
    valid = None if none is None else arrow.py_buffer(np.packbits(~none, bitorder="little"))
    if values.dtype.kind == "U":
        packed = [word.encode() for word in values.tolist()]
        ends = np.zeros(len(packed) + 1, np.int32)
        np.cumsum([len(word) for word in packed], out=ends[1:])
        return arrow.StringArray.from_buffers(
            len(packed), arrow.py_buffer(ends), arrow.py_buffer(b"".join(packed)), valid
        )
    if values.dtype.kind not in "iufM":
        return arrow.array(values, mask=none)
    kind = arrow.timestamp("ns", "UTC") if values.dtype.kind == "M" else arrow.from_numpy_dtype(values.dtype)
    return arrow.Array.from_buffers(kind, len(values), [valid, arrow.py_buffer(np.ascontiguousarray(values))])
