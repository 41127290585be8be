"""Numbers as whole units of a power of ten: exactly, or rounded once and marked as rounded.

A unit is a power of ten, given as text (``"0.001"``, ``"1e-8"``, ``"100"``). A float stands for the shortest decimal
that rounds to it, so a number means the same in a text, a float and a decimal.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError

__all__ = [
    "PRICE_POWER",
    "Units",
    "decimal_units",
    "float_units",
    "integer_units",
    "nearest",
    "nearest_units",
    "unit_power",
]

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

#: Ten to this power units of a tick's price are 1 of currency.
PRICE_POWER: Final = 9
#: The powers of ten that a unit may be.
_MIN_POWER: Final = -18
_MAX_POWER: Final = 9
#: Below this a product with a scale is known to its last unit.
_EXACT: Final = float(1 << 52)
_MAX_I64: Final = (1 << 63) - 1
#: Powers of ten that a double holds exactly.
_EXACT_POWERS: Final = 22
#: An exponent of more digits would make a number that fills the memory.
_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
#: Every digit of the longest line fits, so that rounding happens once.
_WIDE: Final = Context(prec=1 << 17, Emax=999_999, Emin=-999_999)


class Units(NamedTuple):
    """``values``: int64. ``bad``: rows whose number int64 cannot hold, ``inexact``: rows that were rounded to the
    nearest unit, ties to even; None: there are none."""

    values: Array
    bad: Mask | None
    inexact: Mask | None


def unit_power(name: str, unit: object) -> int:
    """The power of ten that a unit is: -3 for ``"0.001"``. Raises ConfigurationError, which names the option."""
    try:
        number = Decimal(str(unit)) if isinstance(unit, str | int | float | Decimal) else Decimal(0)
    except InvalidOperation:
        number = Decimal(0)
    if number.is_finite() and number > 0 and number.normalize().as_tuple().digits == (1,):
        power = number.adjusted()
        if _MIN_POWER <= power <= _MAX_POWER:
            return power
    raise ConfigurationError(
        f"{name}: give a power of ten from 1e{_MIN_POWER} to 1e{_MAX_POWER} as text, like '0.001'; not {unit!r}"
    )


def nearest_units(text: bytes, power: int) -> int | None:
    """The whole number nearest to a decimal's text times ten to the ``power``, ties to even; None: no such text."""
    if not _NUMBER.fullmatch(text):
        return None
    return nearest(Decimal(text.decode("ascii")), power)[0]


def nearest(number: Decimal, power: int) -> tuple[int, bool]:
    """The whole number nearest to a finite number times ten to the ``power``, and whether it is another."""
    units = number.scaleb(power, _WIDE)
    whole = units.to_integral_value(ROUND_HALF_EVEN, _WIDE)
    return int(whole), whole != units


def integer_units(values: Array, power: int) -> Units:
    """Integers times ten to the ``power``."""
    if power >= 0:
        factor = 10**power
        maximum = _MAX_I64 // factor
        bad = None
        if len(values) and (int(values.max()) > maximum or int(values.min()) < -maximum):
            bad = (values > maximum) | (values < -maximum) if values.dtype.kind == "i" else values > maximum
        whole = values.astype(np.int64, copy=False)
        with np.errstate(over="ignore"):
            return Units(whole if factor == 1 or factor > _MAX_I64 else whole * np.int64(factor), bad, None)
    step = 10**-power
    if step > _MAX_I64 or values.dtype.itemsize < 8:
        return decimal_units(values, power)
    below, rest = np.divmod(values, values.dtype.type(step))
    half = values.dtype.type(step // 2)
    up = (rest > half) | ((rest == half) & (below % 2 != 0))
    inexact = rest != 0
    return Units((below + up).astype(np.int64), None, inexact if inexact.any() else None)


def float_units(floats: Array, power: int) -> Units:
    """Floats times ten to the ``power``. A value that is no number counts as 0."""
    numbers = np.where(np.isnan(floats), 0, floats)
    if floats.dtype != np.float64 or not 0 <= power <= _EXACT_POWERS:
        # The check below finds the shortest decimal of doubles alone: a shorter float goes through its text.
        return decimal_units(numbers, power)
    scale = float(10**power)
    with np.errstate(over="ignore", invalid="ignore"):
        product = numbers * scale
        rounded = np.rint(product)
        # A quotient is rounded correctly: this is the double nearest to that many units, and below 2^52 units no other
        # number of units has the same one.
        sure = (np.abs(product) < _EXACT) & (rounded / scale == numbers)
    values = np.where(sure, rounded, 0).astype(np.int64)
    if sure.all():
        return Units(values, None, None)
    rest = np.flatnonzero(~sure)
    values[rest], *masks = decimal_units(numbers[rest], power)
    found: list[Mask | None] = [None, None]
    for at, mask in enumerate(masks):
        if mask is not None:
            whole = np.zeros(len(floats), np.bool_)
            whole[rest] = mask
            found[at] = whole
    return Units(values, *found)


def decimal_units(numbers: Array, power: int) -> Units:
    """Integers, floats or texts of decimals times ten to the ``power``: slow, but each value is computed once."""
    distinct, places = np.unique(numbers, return_inverse=True)
    made = np.zeros(len(distinct), np.int64)
    bad, inexact = np.zeros(len(distinct), np.bool_), np.zeros(len(distinct), np.bool_)
    for i, number in enumerate(distinct):
        value = Decimal(str(number))
        if not value.is_finite():
            bad[i] = True
            continue
        units, inexact[i] = nearest(value, power)
        bad[i] = abs(units) > _MAX_I64
        made[i] = 0 if bad[i] else units
    return Units(made[places], bad[places] if bad.any() else None, inexact[places] if inexact.any() else None)
