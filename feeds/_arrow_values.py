"""Arrow columns as fields of ticks: exactly, or marked as bad, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand._bindings.values import Field
from strand.feeds._arrow_numpy import nulls as nulls_of
from strand.feeds._arrow_numpy import numbers, times_of
from strand.feeds.mapping.units import Units, decimal_units, float_units, integer_units
from strand.ticks import FIELDS, UNDEF_PRICE, limits

__all__ = [
    "ACTIONS",
    "SIDES",
    "Values",
    "integers",
    "letters",
    "plain_integers",
    "plain_scaled",
    "plain_times",
    "scaled",
    "times",
]

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

_MOST_I64: Final = (1 << 63) - 1
_MOST_UNITS: Final = 1 << 51
_MOST_FACTOR: Final = 18  # a power of ten
_NS_IN: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: What sides and actions may be called, in any case.
SIDES: Final = {"b": b"B", "buy": b"B", "bid": b"B", "a": b"A", "s": b"A", "sell": b"A", "ask": b"A", "offer": b"A",
                "n": b"N", "none": b"N", "": b"N"}  # fmt: skip
ACTIONS: Final = {"a": b"A", "add": b"A", "c": b"C", "cancel": b"C", "d": b"C", "delete": b"C", "m": b"M",
                  "modify": b"M", "r": b"R", "clear": b"R", "t": b"T", "trade": b"T", "f": b"F", "fill": b"F",
                  "n": b"N", "none": b"N", "": b"N"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Values:
    """A field's values, and which of them are none.

    ``bad``: rows without a usable value, None where there are none. ``explain(row)`` says what is wrong with a bad one.
    ``nulls``: rows that hold nothing at all, which are not in ``bad``. ``inexact``: rows whose value was rounded.
    """

    values: Array
    nulls: Mask | None
    bad: Mask | None
    explain: Callable[[int], str]
    inexact: Mask | None = None

    def losing(self, rows: Mask, cure: str) -> Values:
        """The same, where those rows are bad too, for which there is a cure."""

        def explain(row: int) -> str:
            return f"{self.explain(row)}: {cure}" if rows[row] else self.explain(row)

        return Values(self.values, self.nulls, _or(self.bad, rows), explain, self.inexact)


def _multiplied(values: Array, factor: int) -> Array:
    return values if factor == 1 else values * values.dtype.type(factor)


def _or(a: Mask | None, b: Mask | None) -> Mask | None:
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _some(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def _says(column: Any, why: str) -> Callable[[int], str]:
    return lambda row: f"{_shown(column[row])} {why}"


def _shown(scalar: Any) -> str:
    try:
        return repr(scalar.as_py())
    except (ValueError, OverflowError):  # a time that no datetime can be
        return str(getattr(scalar, "value", scalar.type))


# ---- columns that C takes as they lie: of numbers, without nulls. What has no value there the functions below explain


def plain_integers(column: Any, field: str) -> Field | None:
    """A column as ``integers`` reads it; None where C cannot."""
    import pyarrow.types as kinds

    lowest, highest = limits(field)
    if column.null_count:
        return None
    if kinds.is_integer(column.type):
        return Field(numbers(column), *_within(column.type, lowest, highest))
    if kinds.is_float64(column.type):
        return Field(numbers(column), *_units(lowest, highest))
    return None


def plain_times(column: Any, unit: str, zone: str | None) -> Field | None:
    """A column as ``times`` reads it; None where C cannot."""
    import pyarrow.types as kinds

    if column.null_count:
        return None
    if kinds.is_timestamp(column.type) and (column.type.tz is not None or zone is None):
        factor = _NS_IN[column.type.unit]
        return Field(times_of(column), 0, _MOST_I64 // factor, factor)
    if kinds.is_integer(column.type):
        factor = _NS_IN[unit]
        return Field(numbers(column), *_within(column.type, 0, _MOST_I64 // factor), factor)
    return None


def plain_scaled(column: Any, power: int, integer_power: int | None, *, field: str) -> Field | None:
    """A column as ``scaled`` reads it; None where C cannot."""
    import pyarrow.types as kinds

    lowest, highest = limits(field)
    if column.null_count:
        return None
    if kinds.is_integer(column.type):
        power = power if integer_power is None else integer_power
        if not 0 <= power <= _MOST_FACTOR:
            return None
        factor = 10**power
        most = min(highest, UNDEF_PRICE) // factor
        return Field(numbers(column), *_within(column.type, max(-most, lowest), most), factor)
    if kinds.is_float64(column.type) and 0 <= power <= _MOST_FACTOR:
        return Field(numbers(column), *_units(max(lowest, -highest), highest), scale=float(10**power))
    return None


def _within(kind: Any, lowest: int, highest: int) -> tuple[int, int]:
    """Those bounds, where values of the type may be beyond them; else its own."""
    own = np.iinfo(np.dtype(kind.to_pandas_dtype()))
    return max(lowest, own.min), min(highest, own.max)


def _units(lowest: int, highest: int) -> tuple[int, int]:
    """Those bounds of units that floats stand for, of which C knows fewer."""
    return max(lowest, -_MOST_UNITS), min(highest, _MOST_UNITS)


# ---- all columns, row by row


def integers(column: Any, field: str) -> Values | str:
    """A column of integers, or of numbers that happen to be whole, as the tick field of that name; else what is wrong
    with its type."""
    import pyarrow as pa
    import pyarrow.types as kinds

    target = FIELDS[field]
    lowest, highest = limits(field)
    why = _says(column, f"is no whole number from {lowest} to {highest}")
    if kinds.is_boolean(column.type):
        return Values(numbers(column.cast(pa.uint8())).astype(target), nulls_of(column), None, why)
    if kinds.is_floating(column.type) or kinds.is_decimal(column.type):
        found = scaled(column, 0)
        assert not isinstance(found, str)
        values, bad, nulls = found.values, _or(found.bad, found.inexact), found.nulls
    elif kinds.is_integer(column.type):
        values, bad, nulls = numbers(column), None, nulls_of(column)
    else:
        return "is no number"
    if len(values) and (int(values.min()) < lowest or int(values.max()) > highest):
        bad = _or(bad, (values < lowest) | (values > highest))
    with np.errstate(invalid="ignore"):
        return Values(values.astype(target, copy=False), nulls, bad, why)


def times(column: Any, unit: str, zone: str | None) -> Values | str:
    """Times in ns since the epoch: timestamps of any unit and zone, those without one being of ``zone`` (None: UTC),
    and integers, which count in ``unit``."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    why = _says(column, "is no time from 1970 to 2262")
    if kinds.is_timestamp(column.type):
        unit = column.type.unit
        if column.type.tz is None and zone is not None:
            try:
                column = pc.assume_timezone(column, zone)
            except pa.ArrowInvalid as error:
                return f"cannot be taken for times in {zone} ({error})"
        column = column.cast(pa.int64())
    elif not kinds.is_integer(column.type):
        return "is neither a timestamp nor an integer"
    values, factor = numbers(column), _NS_IN[unit]
    bad = None
    if len(values) and (int(values.min()) < 0 or int(values.max()) > _MOST_I64 // factor):
        bad = (values < 0) | (values > _MOST_I64 // factor)
    with np.errstate(over="ignore"):
        return Values(_multiplied(values.astype(np.int64, copy=False), factor), nulls_of(column), bad, why)


def scaled(column: Any, power: int, *, integer_power: int | None = None, field: str | None = None) -> Values | str:
    """Numbers times ten to the ``power``, as int64; integers to ``integer_power`` where that is another. What the tick
    field of that name cannot hold is bad. A float that is no number counts as null.
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    nulls = nulls_of(column)
    if kinds.is_decimal(column.type):
        if not kinds.is_decimal128(column.type):
            try:
                column = column.cast(pa.decimal128(38, column.type.scale))
            except pa.ArrowInvalid as error:
                return f"has decimals too wide to be read ({error})"
        found = _from_decimals(column, power)
    elif kinds.is_integer(column.type):
        power = power if integer_power is None else integer_power
        found = integer_units(numbers(column), power)
    elif kinds.is_floating(column.type):
        floats = numbers(column, null=np.nan)
        nulls = _some(np.isnan(floats))
        found = float_units(floats, power)
    else:
        return "is no number"
    lowest, highest = (-_MOST_I64, _MOST_I64) if field is None else limits(field)
    bad = found.bad
    if len(found.values) and (int(found.values.min()) < lowest or int(found.values.max()) > highest):
        bad = _or(bad, (found.values < lowest) | (found.values > highest))
    why = _says(column, f"is no whole number of units of 1e{-power} from {lowest} to {highest}")
    return Values(found.values, nulls, bad, why, found.inexact)


def _from_decimals(column: Any, power: int) -> Units:
    filled = column.fill_null(Decimal(0)) if column.null_count else column
    if filled.type.scale >= 0:
        words = np.frombuffer(filled.buffers()[1], np.int64, 2 * len(filled), 16 * filled.offset).reshape(-1, 2)
        low, high = np.ascontiguousarray(words[:, 0]), words[:, 1]
        if (high == low >> 63).all():
            return integer_units(low, power - filled.type.scale)
    return decimal_units(np.array([str(value) for value in filled.to_pylist()]), power)


def _entries(column: Any) -> list[Any]:
    """The dictionary of a column, as Python's values; None for those that no row of it has and that are no UTF-8: they
    are those rows' matter. Raises UnicodeDecodeError."""
    try:
        found: list[Any] = column.dictionary.to_pylist()
    except UnicodeDecodeError:
        used = column.indices.unique().drop_null()
        found = [None] * len(column.dictionary)
        for index, value in zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True):
            found[index] = value
    return found


def letters(column: Any, words: dict[str, bytes] | None) -> Values | str:
    """Letters: texts that ``words`` knows in any case, or integers that are ASCII codes; single characters as they are
    where ``words`` is None."""
    import pyarrow.types as kinds

    if kinds.is_integer(column.type):
        codes = integers(column, "flags")
        assert not isinstance(codes, str)
        if words is None:
            return Values(codes.values.view("S1"), codes.nulls, codes.bad, codes.explain)
        known = np.frombuffer(bytes(words.get(chr(i).lower(), b"\0")[0] for i in range(256)), np.uint8)
        found = known[codes.values]
        return Values(found.view("S1"), codes.nulls, _or(codes.bad, _some(found == 0)), _says(column, "is unknown"))
    if not kinds.is_dictionary(column.type):
        if not (kinds.is_string(column.type) or kinds.is_large_string(column.type) or kinds.is_binary(column.type)):
            return "is neither text nor a letter's code"
        column = column.dictionary_encode()
    table = [value.decode("latin-1") if isinstance(value, bytes) else value for value in _entries(column)]
    if not all(value is None or isinstance(value, str) for value in table):
        return "is neither text nor a letter's code"
    if words is None:
        found_by = [
            value.encode() if value is not None and len(value) < 2 and value.isascii() else None for value in table
        ]
    else:
        found_by = [words.get(value.strip().lower()) if value is not None else None for value in table]
    nulls = nulls_of(column)
    indices = numbers(column.indices).astype(np.intp, copy=False)
    made = np.array([value or b"" for value in found_by] or [b""], "S1")[indices]
    unknown = np.array([value is None for value in found_by] or [False], np.bool_)[indices]
    if nulls is not None:
        unknown &= ~nulls
    return Values(made, nulls, _some(unknown), _says(column, "is unknown"))
