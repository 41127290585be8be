"""Turns records of any structured dtype into ticks, exactly or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.feeds.mapping.units import PRICE_POWER, Units, float_units, integer_units
from strand.ticks import FIELDS, UNDEF_PRICE, limits, zeros

__all__ = ["BadRecordError", "FieldMap", "count_inexact", "faults_of"]

_TICKS_OF_UNIT: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


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
    Units are the powers of ten that they are: ``price_power`` of 1 in the source's price (None: integers are in 1e-9,
    floats are currency), ``size_power`` of 1 in a tick's size. A float stands for the shortest decimal that rounds to
    it; a price that is no whole number of 1e-9, a size that is none of its unit is refused, or with ``rounds`` rounded
    to the nearest, ties to even; ``rounded``: in how many of the latest records.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        fields: Mapping[str, str],
        constants: Mapping[str, int | bytes] | None = None,
        *,
        price_power: int | None = None,
        size_power: int = 0,
        rounds: bool = False,
    ) -> None:
        self.rounded = 0
        self._units: list[Units] = []
        self._price_power, self._size_power, self._rounds = price_power, size_power, rounds
        self._constants = dict(constants or {})
        self._fields = dict(fields)
        for name in (*self._fields, *self._constants):
            if name not in FIELDS:
                raise ConfigurationError(f"a tick has no field {name!r}: it has {', '.join(FIELDS)}")
        if both := self._fields.keys() & self._constants.keys():
            raise ConfigurationError(f"{', '.join(sorted(both))}: given both in columns and in constants")
        self._check_constants()
        self._converters = {name: self._converter(name, source, dtype) for name, source in self._fields.items()}

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
        self._units.clear()
        for name, convert in self._converters.items():
            out[name] = convert(records[self._fields[name]])
        self.rounded = count_inexact(*self._units)
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

    def _converter(self, name: str, source: str, dtype: np.dtype[Any]) -> Callable[[Array], Array]:
        if source not in (dtype.names or ()):
            raise ConfigurationError(
                f"columns: there is no column {source!r} for {name}; there are {', '.join(dtype.names or ())}"
            )
        found, target = dtype[source], FIELDS[name]
        label = f"column {source!r} ({found}) for {name}"
        if target.kind == "S":
            if found.kind == "S" and found.itemsize == 1:
                return lambda values: values
            if found.kind in "iu" and found.itemsize == 1:
                return lambda values: np.ascontiguousarray(values).view("S1")
            raise ConfigurationError(f"{label}: a letter is S1 or an integer of one byte")
        if name in ("price", "size") and (found.kind in "iu" or (found.kind == "f" and found.itemsize <= 8)):
            return lambda values: self._scaled(name, values, label)
        if found.kind in "iub":
            return lambda values: _scaled_integers(values, 1, name, label)
        if found.kind == "M":
            unit, count = np.datetime_data(found)
            if not name.startswith("ts_") or unit not in _TICKS_OF_UNIT:
                raise ConfigurationError(f"{label}: datetime64 of ns, us, ms or s can become a time, and nothing else")
            return lambda values: _scaled_integers(_as_counts(values, label), _TICKS_OF_UNIT[unit] * count, name, label)
        raise ConfigurationError(f"{label}: cannot become {target} exactly")

    def _scaled(self, name: str, values: Array, label: str) -> Array:
        floats = values.dtype.kind == "f"
        power = -self._size_power
        if name == "price":
            power = 0 if self._price_power is None and not floats else PRICE_POWER + (self._price_power or 0)
        found = (float_units if floats else integer_units)(values.astype(values.dtype.newbyteorder("=")), power)
        faults = [(bad, why) for bad, _, why in faults_of(found, name, "", self._rounds)]
        if floats:
            faults.append((np.isnan(values), "is no number"))
        wrong = [(_first(bad), why) for bad, why in faults if bad.any()]
        if wrong:
            index, why = min(wrong)
            raise BadRecordError(index, f"{label}: {values[index]} {why}")
        self._units.append(found)
        return found.values


def faults_of(found: Units, field: str, column: str, rounds: bool) -> list[tuple[Mask, str, str]]:
    """What is wrong with numbers for a price or a size: the rows, the column, and the words for it."""
    lowest, highest = limits(field)
    values = found.values
    beyond = (values < lowest) | (values > highest)
    faults = [(beyond if found.bad is None else beyond | found.bad, column, f"is outside what a {field} holds")]
    if found.inexact is not None:
        unit = "1e-9" if field == "price" else "size_unit"
        why = f"is no whole number of units of {unit}: inexact='round' rounds it"
        if not rounds:
            faults.append((found.inexact, column, why))
        elif field == "size":
            faults.append((found.inexact & (values == 0), column, "rounds to 0: give a finer size_unit"))
    return faults


def count_inexact(*found: Units) -> int:
    """In how many rows a number was rounded."""
    masks = [each.inexact for each in found if each.inexact is not None]
    return int(np.count_nonzero(np.logical_or.reduce(masks))) if masks else 0


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
