"""Columns of numbers into fields of ticks (csrc/codec/values/values.h), all of them in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.ticks import TICK, empty

__all__ = ["Field", "look_up", "value_ticks", "whole"]

_KINDS: Final[Mapping[str, int]] = {
    "i1": lib.SD_VALUES_I8,
    "i2": lib.SD_VALUES_I16,
    "i4": lib.SD_VALUES_I32,
    "i8": lib.SD_VALUES_I64,
    "u1": lib.SD_VALUES_U8,
    "u2": lib.SD_VALUES_U16,
    "u4": lib.SD_VALUES_U32,
    "u8": lib.SD_VALUES_U64,
    "f8": lib.SD_VALUES_F64,
}
_WORD: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Field:
    """A field of ticks from numbers: integers, or float64 that are whole units of 1/``scale``.

    ``values``, of native byte order and shape (rows,), may be from ``lowest`` to ``highest`` (a float's units) and are
    multiplied by ``factor``; the products fit the field.
    """

    values: npt.NDArray[Any]
    lowest: int
    highest: int
    factor: int = 1
    scale: float = 1.0


def whole(values: npt.NDArray[Any]) -> Field:
    """Numbers that fit their field as they are: integers or letters (S1)."""
    values = values.view(np.uint8) if values.dtype.kind == "S" else values
    bounds = np.iinfo(values.dtype)
    return Field(values, bounds.min, bounds.max)


def value_ticks(
    blank: npt.NDArray[Any], first: int, rows: int, fields: Mapping[str, Field]
) -> tuple[npt.NDArray[Any], int]:
    """Ticks (TICK), shape (rows,), like ``blank``, an array of one, numbered from ``first``, with those fields; and how
    many are good: up to the first row with a value out of its bounds. The others are undefined."""
    ticks = empty(rows)
    columns = ffi.new("sd_values[]", len(fields))
    kept = []
    for column, (name, field) in zip(columns, fields.items(), strict=True):
        if len(field.values) != rows:
            raise ValueError(f"{len(field.values)} values of {name} for {rows} rows")
        kind, values = _numbers(field.values)
        kept.append(values)
        at = "sequence_low" if name == "sequence" else name
        dtype, column.at = TICK.fields[at][:2]  # type: ignore[index]
        column.width = lib.SD_VALUES_SEQUENCE if name == "sequence" else dtype.itemsize
        column.kind = kind
        column.values = ffi.cast("void *", values.ctypes.data)
        column.lowest = field.lowest & _WORD
        column.more = field.highest - field.lowest
        column.factor = field.factor & _WORD
        column.scale = field.scale
    out, like = (ffi.cast("sd_tick *", array.ctypes.data) for array in (ticks, blank))
    return ticks, int(lib.sd_value_ticks(out, rows, like, first, columns, len(columns)))


def look_up(
    values: npt.NDArray[Any], table: npt.NDArray[np.uint32], none: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Looks integers up in a table by value. Returns the entries found, ``none`` for values without an entry, and the
    rows that have one, in order."""
    kind, numbers = _numbers(values)
    found, rows = np.empty(len(values), np.uint32), np.empty(len(values), np.uint32)
    n = lib.sd_look_up(
        ffi.cast("void *", numbers.ctypes.data), kind, len(values), ffi.from_buffer("uint32_t[]", table), len(table),
        none, ffi.from_buffer("uint32_t[]", found), ffi.from_buffer("uint32_t[]", rows),
    )  # fmt: skip
    return found, rows[:n]


def _numbers(values: npt.NDArray[Any]) -> tuple[int, npt.NDArray[Any]]:
    """The kind of numbers, and those at addresses that C may read them at."""
    kind = _KINDS.get(values.dtype.str[1:])
    if kind is None or not values.dtype.isnative or values.ndim != 1:
        raise ValueError(f"an array of {values.dtype} of shape {values.shape} does not hold numbers of a known type")
    return kind, np.require(values, requirements=["A", "C"])
