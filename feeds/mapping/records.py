"""Arrays of numpy and Arrow as columns, and records of any structured dtype as ticks."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.feeds.base import Flags, TicksAre
from strand.feeds.mapping.column_options import ColumnOptions
from strand.feeds.mapping.columns import Conversion, Reading, columns_of
from strand.feeds.mapping.options import check_options
from strand.feeds.mapping.values import (
    NS_IN,
    Column,
    Target,
    Units,
    decimal_units,
    doubles_of,
    integer_units,
    integers,
    unusable,
)
from strand.options import refuse_unknown
from strand.ticks import limits

Array = npt.NDArray[Any]


class BadRecordError(Exception):
    """A value cannot become a field of a tick; ``index`` counts records from the start of the converted array."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index


def numpy_column(values: Array) -> Column:
    """A field of records as a column. NaT counts as null."""
    dtype = values.dtype
    kind: Any = {"i": "integer", "u": "integer", "b": "bool", "f": "float", "M": "time", "S": "text", "U": "text"}.get(
        dtype.kind, "other"
    )
    nulls, ns, words = None, 1, None
    plain = np.ascontiguousarray(values, dtype.newbyteorder("="))
    if kind == "bool":
        plain = plain.view(np.uint8)
    elif kind == "time":
        unit, count = np.datetime_data(dtype)
        none = np.isnat(plain)
        nulls, ns = (none if none.any() else None), NS_IN.get(unit, 0) * count
        plain = np.where(none, 0, plain.view(np.int64))
        kind = kind if ns else "other"
    elif kind == "text":

        def words() -> tuple[Array, list[Any]]:
            texts, indices = np.unique(plain, return_inverse=True)
            return indices, texts.tolist()

    if values.ndim != 1 or (kind == "float" and dtype.itemsize > 8):
        kind = "other"
    elif kind == "float":
        plain = doubles_of(plain)
    return Column(kind, str(dtype), nulls, lambda row: str(values[row]), plain, ns=ns, words=words, local=True)


# pyarrow's own ways (``to_numpy``, ``fill_null``, ``pyarrow.array``) import pandas where there is one, which takes
# longer than reading a million rows.


def numbers(column: Any, null: float = 0) -> npt.NDArray[Any]:
    """A column of integers or floats, with ``null`` where it holds none. Read only, for where there are no nulls it is
    not copied."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    none, data = nulls_of(column), column.buffers()[1]
    if not len(column) or data is None:
        return np.full(len(column), null, dtype)
    values = np.frombuffer(data, dtype, len(column), column.offset * dtype.itemsize)
    if none is None:
        return values
    return np.where(none, dtype.type(null), values)


def times_of(column: Any) -> npt.NDArray[np.int64]:
    """The numbers of a column of timestamps without nulls, in its own unit. Read only, not copied."""
    data = column.buffers()[1]
    if not len(column) or data is None:
        return np.zeros(len(column), np.int64)
    return np.frombuffer(data, np.int64, len(column), column.offset * 8)


def nulls_of(column: Any) -> npt.NDArray[np.bool_] | None:
    """Mask of the rows that hold null; None where none does."""
    import pyarrow as pa

    if not column.null_count:
        return None
    none: npt.NDArray[np.bool_] = numbers(column.is_null().cast(pa.uint8())).view(np.bool_)
    return none


def mask_of(kept: npt.NDArray[np.bool_]) -> Any:
    """Arrow's mask of the rows to keep."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(kept), [None, pa.py_buffer(np.packbits(kept, bitorder="little"))])


def arrow_column(column: Any) -> Column:
    """A column of a record batch, without a copy where it is of numbers without nulls."""
    import pyarrow as pa
    import pyarrow.types as kinds

    kind, nulls = column.type, nulls_of(column)

    def show(row: int) -> str:
        try:
            return repr(column[row].as_py())
        except (ValueError, OverflowError):  # a time that no datetime can be
            return str(getattr(column[row], "value", kind))

    def made(what: Any, values: Array, **more: Any) -> Column:
        return Column(what, str(kind), nulls, show, values, **more)

    none = np.zeros(0, np.int64)
    if kinds.is_integer(kind):
        return made("integer", numbers(column))
    if kinds.is_floating(kind) or kinds.is_boolean(kind):
        real = kinds.is_floating(kind)
        return (
            made("float", doubles_of(numbers(column, null=np.nan)))
            if real
            else made("bool", numbers(column.cast(pa.uint8())))
        )
    if kinds.is_timestamp(kind):
        values = times_of(column) if nulls is None else numbers(column.cast(pa.int64()))
        return made("time", values, ns=NS_IN[kind.unit], local=kind.tz is None)
    if kinds.is_decimal(kind):
        narrow = column
        if not kinds.is_decimal128(kind):
            try:
                narrow = column.cast(pa.decimal128(38, kind.scale))
            except pa.ArrowInvalid as error:
                return made("other", none, problem=f"has decimals too wide to be read ({error})")
        return made("decimal", none, units=lambda power: _from_decimals(narrow, power))
    if getattr(kinds, "is_string_view", lambda _: False)(kind):
        column = column.cast(pa.string())
        kind = column.type
    of = kind.value_type if kinds.is_dictionary(kind) else kind
    if any(is_kind(of) for is_kind in (kinds.is_string, kinds.is_large_string, kinds.is_binary)):
        return made("text", none, words=lambda: _words(column))
    return made("other", none) if of is kind else arrow_column(column.dictionary_decode())


def _from_decimals(column: Any, power: int) -> Units:
    """The units of decimals of 128 bits; 0 for a null."""
    none, data = nulls_of(column), column.buffers()[1]
    if column.type.scale >= 0 and data is not None:
        words = np.frombuffer(data, np.int64, 2 * len(column), 16 * column.offset).reshape(-1, 2)
        low, high = (words[:, half] if none is None else np.where(none, 0, words[:, half]) for half in (0, 1))
        if (high == low >> 63).all():
            return integer_units(np.ascontiguousarray(low), power - column.type.scale)
    return decimal_units(np.array([str(value or 0) for value in column.to_pylist()]), power)


def _words(column: Any) -> tuple[Array, list[Any]]:
    """Indices into the texts of a column, and the texts. Where a text of the dictionary is not UTF-8, the texts that no
    row uses are None. Raises UnicodeDecodeError where a row uses such a text."""
    import pyarrow.types as kinds

    column = column if kinds.is_dictionary(column.type) else column.dictionary_encode()
    try:
        found: list[Any] = column.dictionary.to_pylist()
    except UnicodeDecodeError:
        used = column.indices.unique().drop_null()
        found = [None] * len(column.dictionary)
        for index, value in zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True):
            found[index] = value
    return numbers(column.indices), found


class RecordColumns:
    """Conversion of records of ``dtype`` to ticks, by the same rules as of a table's columns (``Columns``).

    ``instrument_id`` is the key as it is, 0 where no column gives it.
    Raises ConfigurationError for a field or column that there is not, and where no column holds times.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        columns: Mapping[str, str | Mapping[str, Any] | None],
        constants: Mapping[str, int | str | bytes],
        reading: Reading,
    ) -> None:
        if columns.get("symbol") is not None:
            raise ConfigurationError(
                "columns.symbol", "records have a symbol's index, not its name: give columns.instrument_id"
            )
        names = list(dtype.names or ())
        self._columns = columns_of(names, {**columns, "symbol": None}, constants, reading)
        self._dtype = dtype
        self.has_keys = "instrument_id" in self._columns.of
        if not self._columns.has_time:
            raise ConfigurationError(
                "columns", f"say which column holds times by columns={{'ts_event': NAME}}; there are {', '.join(names)}"
            )
        self.converted(np.zeros(0, dtype), 0)  # a type that no value of a field can have is told at once

    @property
    def assumes_prices(self) -> bool:
        """True if prices are whole numbers of an unknown unit."""
        return self._columns.assumes_prices(lambda name: self._dtype[name].kind in "iu")

    @property
    def has_sizes(self) -> bool:
        """True as for ``Columns.has_sizes``."""
        return self._columns.has_sizes

    def flags_of(self, ticks: TicksAre | None) -> Flags:
        """Flags as ``Columns.flags_of`` has them."""
        return self._columns.flags_of(ticks)

    def converted(self, records: Array, position: int) -> Conversion:
        """Ticks of ``records``, whose first one is number ``position`` of the file, from 0, and what is wrong in them.

        Raises ConfigurationError for a column whose type no value of its field can have.
        """
        keys, bad, name = np.zeros(len(records), np.uint32), None, ""
        try:
            if self.has_keys:
                name = self._columns.of["instrument_id"]
                found = integers(numpy_column(records[name]), Target("instrument_id", 0, 0, *limits("instrument_id")))
                if isinstance(found, str):
                    raise TypeError(unusable("instrument_id", name, str(records.dtype[name]), found))
                keys, bad = found.values, found.bad
            rows = range(position + 1, position + 1 + len(records))
            made = self._columns.convert(lambda name: numpy_column(records[name]), rows, keys)
        except TypeError as error:
            raise ConfigurationError(str(error)) from None
        if bad is not None:
            made.note(bad, name, found.explain, over=True)  # type: ignore[union-attr]
        return made


class ArrayColumns:
    """Conversion of arrays in memory, of whatever dtypes come, to ticks: ``RecordColumns`` for each dtype.

    ``columns`` and ``options`` are those of ``NpyFeed``: constants, price_unit, size_unit, time_unit, inexact, nulls.
    An array without times makes ticks that have none. Where no column gives a ``sequence``, it is the row's place among
    all rows that were given, from 1. Several threads may give arrays: each array's rows have places in a row.
    Raises ConfigurationError for an option that there is not, or that cannot be.
    """

    def __init__(self, columns: Mapping[str, str | Mapping[str, Any] | None], options: Mapping[str, Any]) -> None:
        refuse_unknown(options, ColumnOptions.__annotations__, "column_options")
        units = {name: options.get(name) for name in ("price_unit", "size_unit")}
        said = check_options(columns=columns, **{name: options[name] for name in options.keys() - units.keys()})
        self._columns, self._constants = said.columns, said.constants
        self._reading = said.reading(units["price_unit"], units["size_unit"])
        self._made: dict[np.dtype[Any], RecordColumns] = {}
        self._lock = threading.Lock()
        #: Rows given so far.
        self.rows = 0

    def ticks(self, array: Array) -> Array:
        """Ticks of an array of shape (n,). Raises BadRecordError for the first bad record. Raises ConfigurationError
        for a dtype without the columns, or a column that fits no value of the field."""
        made = self._made.get(array.dtype)
        if made is None:
            made = self._made[array.dtype] = self._of(array.dtype)
        with self._lock:
            position, self.rows = self.rows, self.rows + len(array)
        found = made.converted(array, position)
        if found.first is not None:
            raise BadRecordError(found.first.index, str(found.first))
        if left_out := found.counts().get("sequences_left_out"):
            warnings.warn(
                "leave the column out by columns={'sequence': None}: ticks hold sequences up to 2^40 - 1, and "
                f"{left_out:,} rows from {position + 1:,} on have their place instead",
                RuntimeWarning,
                stacklevel=3,
            )
        return found.ticks

    def _of(self, dtype: np.dtype[Any]) -> RecordColumns:
        if dtype.names is None:
            raise ConfigurationError("columns", f"give an array with fields: {dtype} has none")
        there = columns_of(dtype.names, {**self._columns, "symbol": None}, self._constants, self._reading)
        constants = dict(self._constants)
        if not there.has_time:
            constants["ts_recv"] = 0
        made = RecordColumns(dtype, self._columns, constants, self._reading)
        if not made.has_keys:
            raise ConfigurationError(
                "columns",
                "name the field that holds the symbol's index, as {'instrument_id': ...}; there are "
                f"{', '.join(dtype.names)}",
            )
        return made
