"""Floating-point numbers as whole units, exactly or not at all."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["nearest_units", "units_by_decimal", "units_of"]

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

#: Below this a product with a scale is known to its last unit.
_EXACT: Final = float(1 << 52)
_MOST: Final = (1 << 63) - 1
#: An exponent of more digits would make a number that fills the memory.
_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
#: Every digit of the longest line fits, so that rounding happens once.
_WIDE: Final = Context(prec=1 << 17, Emax=999_999, Emin=-999_999)


def nearest_units(text: bytes, power: int) -> int | None:
    """The whole number nearest to a decimal's text times ten to the ``power``, ties to even; None: no such text."""
    if not _NUMBER.fullmatch(text):
        return None
    units = Decimal(text.decode("ascii")).scaleb(power, _WIDE)
    return int(units.to_integral_value(ROUND_HALF_EVEN, _WIDE))


def units_of(floats: Array, scale: int, *, exact: bool) -> tuple[Array, Mask | None]:
    """Floats in units of 1/scale as int64, and which of them are no whole number of units (None: all are).

    A float stands for the shortest decimal that rounds to it. With ``exact=False`` it is rounded to the nearest unit
    from its exact value, ties to even, and only infinities and what int64 cannot hold are bad. What is no number counts
    as 0.
    """
    numbers = np.where(np.isnan(floats), 0, floats)
    if floats.dtype != np.float64:
        # Few of the decimals that a short float may stand for are the one it was written as.
        return units_by_decimal(numbers, scale, exact=exact)
    with np.errstate(over="ignore", invalid="ignore"):
        product = numbers * scale
        rounded = np.rint(product)
        # A quotient is rounded correctly: this is the double nearest to that many units, and below 2^52 units no other
        # number of units has the same one.
        sure = (np.abs(product) < _EXACT) & (rounded / scale == numbers)
    values = np.where(sure, rounded, 0).astype(np.int64)
    if sure.all():
        return values, None
    rest = np.flatnonzero(~sure)
    values[rest], bad_rest = units_by_decimal(numbers[rest], scale, exact=exact)
    if bad_rest is None:
        return values, None
    bad = np.zeros(len(floats), np.bool_)
    bad[rest] = bad_rest
    return values, bad


def units_by_decimal(numbers: Array, scale: int, *, exact: bool) -> tuple[Array, Mask | None]:
    """The same of floats or of decimals' texts the slow way, once for each value that occurs."""
    distinct, places = np.unique(numbers, return_inverse=True)
    made = np.zeros(len(distinct), np.int64)
    bad = np.zeros(len(distinct), np.bool_)
    for i, number in enumerate(distinct):
        value = Decimal(str(number)) if exact or isinstance(number, str) else Decimal(float(number))
        units = value * scale if value.is_finite() else None
        if units is not None and not exact:
            units = units.to_integral_value(ROUND_HALF_EVEN)
        if units is None or units != int(units) or abs(units) > _MOST:
            bad[i] = True
        else:
            made[i] = int(units)
    return made[places], bad[places] if bad.any() else None
