"""Turns records of any structured dtype into ticks, exactly or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.ticks import FIELDS, UNDEF_PRICE, limits, zeros

__all__ = ["BadRecordError", "FieldMap"]

# Below this a double still tells halves apart, so that a tie can be seen.
_EXACT: Final = float(1 << 52)
_SPLITTER: Final = float((1 << 27) + 1)
_TICKS_OF_UNIT: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

Array = npt.NDArray[Any]


class BadRecordError(Exception):
    """A value cannot become a field of a tick; ``index`` counts records from the start of the converted array."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index


class FieldMap:
    """Conversion of records of ``dtype`` to ticks.

    ``fields`` says which source field each tick field comes from, ``constants`` gives fields one value for all.
    What neither names: ``price`` is UNDEF_PRICE, ``action`` and ``side`` are ``N``, of ``ts_event`` and ``ts_recv``
    one stands in for the other, ``sequence`` is the record's position in the file from 1, the rest is 0.

    Integers must fit their tick field, times may be ``datetime64``, letters are ``S1`` or an integer of one byte.
    ``price`` is multiplied by ``price_scale``, units of 1e-9 in one unit of the source. A floating-point source is
    refused without it; with it each product is rounded to the nearest integer, ties to even, from its exact value.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        fields: Mapping[str, str],
        constants: Mapping[str, int | bytes] | None = None,
        price_scale: int | None = None,
    ) -> None:
        self.rounds_prices = False
        self._constants = dict(constants or {})
        self._fields = dict(fields)
        for name in (*self._fields, *self._constants):
            if name not in FIELDS:
                raise ConfigurationError(f"a tick has no field {name!r}: it has {', '.join(FIELDS)}")
        if both := self._fields.keys() & self._constants.keys():
            raise ConfigurationError(f"{', '.join(sorted(both))}: given both in fields and in constants")
        if price_scale is not None and (not isinstance(price_scale, int) or not 1 <= price_scale <= 10**12):
            raise ConfigurationError(f"price_scale must be a whole number from 1 to 10^12, not {price_scale!r}")
        if price_scale is not None and "price" not in self._fields:
            raise ConfigurationError("price_scale is given, and fields names no source for price")
        self._check_constants()
        self._converters = {
            name: self._converter(name, source, dtype, price_scale) for name, source in self._fields.items()
        }

    def ticks(self, records: Array, position: int) -> Array:
        """Ticks of ``records``, whose first one is number ``position`` of the file, from 0."""
        out = zeros(len(records))
        given = self._fields.keys() | self._constants.keys()
        if "price" not in given:
            out["price"] = UNDEF_PRICE
        for letter in {"action", "side"} - given:
            out[letter] = b"N"
        if "sequence" not in given:
            out["sequence"] = np.arange(position + 1, position + 1 + len(records), dtype=np.uint64)
        for name, constant in self._constants.items():
            out[name] = constant
        for name, convert in self._converters.items():
            out[name] = convert(records[self._fields[name]])
        for name, other in (("ts_event", "ts_recv"), ("ts_recv", "ts_event")):
            if name not in given and other in given:
                out[name] = out[other]
        return out

    def _check_constants(self) -> None:
        for name, value in self._constants.items():
            dtype = FIELDS[name]
            if dtype.kind == "S":
                good = isinstance(value, bytes) and len(value) == 1
            else:
                good = isinstance(value, int) and limits(name)[0] <= value <= limits(name)[1]
            if not good:
                raise ConfigurationError(f"constants: {value!r} is no value of the tick field {name} ({dtype})")

    def _converter(
        self, name: str, source: str, dtype: np.dtype[Any], price_scale: int | None
    ) -> Callable[[Array], Array]:
        if source not in (dtype.names or ()):
            raise ConfigurationError(
                f"fields: there is no source field {source!r} for {name}; there are {', '.join(dtype.names or ())}"
            )
        found, target = dtype[source], FIELDS[name]
        label = f"field {source!r} ({found}) for {name}"
        if target.kind == "S":
            if found.kind == "S" and found.itemsize == 1:
                return lambda values: values
            if found.kind in "iu" and found.itemsize == 1:
                return lambda values: np.ascontiguousarray(values).view("S1")
            raise ConfigurationError(f"{label}: a letter is S1 or an integer of one byte")
        scale = (price_scale or 1) if name == "price" else 1
        if found.kind in "iub":
            return lambda values: _scaled_integers(values, scale, name, label)
        if found.kind == "M":
            unit, count = np.datetime_data(found)
            if not name.startswith("ts_") or unit not in _TICKS_OF_UNIT:
                raise ConfigurationError(f"{label}: datetime64 of ns, us, ms or s can become a time, and nothing else")
            return lambda values: _scaled_integers(_as_counts(values, label), _TICKS_OF_UNIT[unit] * count, name, label)
        if found.kind == "f" and name == "price":
            if price_scale is None or found.itemsize > 8:
                raise ConfigurationError(
                    f"{label}: a floating-point price is rounded to units of 1e-9 only when price_scale says what "
                    "one is worth (1_000_000_000 for prices in dollars), and has at most 64 bits"
                )
            self.rounds_prices = True
            return lambda values: _rounded_prices(values, float(price_scale), label)
        raise ConfigurationError(f"{label}: cannot become {target} exactly")


def _first(bad: npt.NDArray[np.bool_]) -> int:
    return int(np.argmax(bad))


def _scaled_integers(values: Array, scale: int, field: str, label: str) -> Array:
    target, (least, most) = FIELDS[field], limits(field)
    # Division towards zero on both ends: exactly the values whose product stays within the bounds.
    lowest, highest = -(-least // scale) if least < 0 else 0, most // scale
    if len(values) and (int(values.min()) < lowest or int(values.max()) > highest):
        index = next(i for i, value in enumerate(values.tolist()) if not lowest <= value <= highest)
        raise BadRecordError(index, f"{label}: {values[index]} is outside {lowest} to {highest}")
    converted = values.astype(target)
    return converted if scale == 1 else converted * target.type(scale)


def _as_counts(values: Array, label: str) -> Array:
    if (bad := np.isnat(values)).any():
        raise BadRecordError(_first(bad), f"{label}: is not a time")
    return values.astype(values.dtype.newbyteorder("=")).view(np.int64)


def _halves(values: Array) -> tuple[Array, Array]:
    """Veltkamp's split: two parts of at most 26 bits whose sum is the value."""
    shifted = values * _SPLITTER
    high = shifted - (shifted - values)
    return high, values - high


def _rounded_prices(values: Array, scale: float, label: str) -> Array:
    prices = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        product = prices * scale
        bad = ~(np.abs(product) < _EXACT)
    if bad.any():
        index = _first(bad)
        raise BadRecordError(
            index, f"{label}: {prices[index]!r} times {scale:.0f} is not a number below 2^52, where rounding is exact"
        )
    rounded = np.rint(product)
    # Dekker's product: `rest` is what the multiplication itself rounded off. It decides where the product looks
    # like a tie and is none.
    (a, b), (c, d) = _halves(prices), _halves(np.full(1, scale))
    rest = ((a * c - product) + a * d + b * c) + b * d
    almost_tie = (np.abs(product - rounded) == 0.5) & (rest != 0)
    rounded[almost_tie] = (product + np.copysign(0.5, rest))[almost_tie]
    return rounded.astype(np.int64)
