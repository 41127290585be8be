"""Arrow's columns as columns that fields of ticks are made of."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from strand.feeds.formats.parquet.arrays import nulls as nulls_of
from strand.feeds.formats.parquet.arrays import numbers, times_of
from strand.feeds.mapping.units import Units, decimal_units, integer_units
from strand.feeds.mapping.values import NS_IN, Array, Column

__all__ = ["arrow_column"]


def arrow_column(column: Any, zone: str | None = None) -> Column:
    """A column of a record batch, without a copy where it is of numbers without nulls. ``zone``: of times that have
    none of their own (None: UTC)."""
    import pyarrow as pa
    import pyarrow.compute as pc
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
        return made("float", numbers(column, null=np.nan)) if real else made("bool", numbers(column.cast(pa.uint8())))
    if kinds.is_timestamp(kind):
        moments = column
        if kind.tz is None and zone is not None:
            try:
                moments = pc.assume_timezone(column, zone)
            except pa.ArrowInvalid as error:
                return made("other", none, problem=f"cannot be taken for times in {zone} ({error})")
        values = times_of(moments) if nulls is None else numbers(moments.cast(pa.int64()))
        return made("time", values, ns=NS_IN[kind.unit])
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
    if any(is_kind(kind) for is_kind in (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_dictionary)):
        return made("text", none, words=lambda: _words(column))
    return made("other", none)


def _from_decimals(column: Any, power: int) -> Units:
    filled = column.fill_null(Decimal(0)) if column.null_count else column
    if filled.type.scale >= 0:
        words = np.frombuffer(filled.buffers()[1], np.int64, 2 * len(filled), 16 * filled.offset).reshape(-1, 2)
        low, high = np.ascontiguousarray(words[:, 0]), words[:, 1]
        if (high == low >> 63).all():
            return integer_units(low, power - filled.type.scale)
    return decimal_units(np.array([str(value) for value in filled.to_pylist()]), power)


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
    return numbers(column.indices).astype(np.intp, copy=False), found
