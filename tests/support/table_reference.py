"""Tables of records as they should be, record by record in plain Python: ``int``, ``Decimal``, ``Fraction``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from strand.ticks import UNDEF_PRICE
from strand.units import meaning_of

#: Powers of the size unit that 1 in a field is worth.
SIZES = {"size": 1, "size squared": 2, "notional": 1}
#: Integers at which formats and sums break, beside ordinary ones.
EDGES = (0, 1, -1, 5 * 10**9, 12_345_678_901, 2**53 + 1, UNDEF_PRICE, UNDEF_PRICE - 1, -UNDEF_PRICE - 1, -UNDEF_PRICE)


def filled(dtype: np.dtype[Any], n: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """Records whose fields have all kinds of values, also those that stand for nothing."""
    rng = np.random.default_rng(seed)
    found = np.zeros(n, dtype)
    for place in leaves(found):
        place[...] = _values(place.dtype, place.shape, rng)
    return found


def leaves(records: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    if records.dtype.names is None:
        yield records
    for name in records.dtype.names or ():
        yield from leaves(records[name])


def _values(dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if dtype.kind in "iu":
        if meaning_of(dtype).quantity == "letter":
            return rng.choice([0, ord("Q"), ord("é")], shape)
        limits = np.iinfo(dtype)
        fits = [value for value in EDGES if limits.min <= value <= limits.max]
        return rng.choice(np.array(fits, dtype), shape)
    if dtype.kind == "f":
        return rng.choice([0.0, 1.5, math.nan, -2.25e9, 0.1], shape)
    if dtype.kind == "S":
        return rng.choice([b"A", b"B", b"", b"\xff"], shape)
    return rng.integers(0, 2, shape)


def expected(record: Any, declared: np.dtype[Any], size_unit: str, prices: str, prefix: str = "") -> dict[str, Any]:
    """One record's cells by column. Times are ns since the epoch."""
    found: dict[str, Any] = {}
    for name in declared.names or ():
        dtype, value = declared[name], record[name]
        if dtype.base.names is not None:
            several = [(f"{name}.{i}", part) for i, part in enumerate(value)] if dtype.shape else [(name, value)]
            for where, part in several:
                found |= expected(part, dtype.base, size_unit, prices, f"{prefix}{where}.")
        elif dtype.base.kind != "V" and meaning_of(dtype).quantity != "inner":
            found[prefix + name] = _cells(record, declared, name, value.tolist(), (size_unit, prices))
    return found


def _cells(record: Any, declared: np.dtype[Any], name: str, value: Any, form: tuple[str, str]) -> Any:
    if isinstance(value, list):
        return [_cells(record, declared, name, one, form) for one in value]
    return None if undefined(record, declared, name, value) else _shown(declared[name].base, value, *form)


def undefined(record: Any, declared: np.dtype[Any], name: str, value: Any) -> bool:
    meaning = meaning_of(declared[name])
    if meaning.quantity == "raw":
        return False
    if (isinstance(value, float) and math.isnan(value)) or value in meaning.none:
        return True
    for other, minimum in meaning.given.items():
        beside = record[other].item()
        if undefined(record, declared, other, beside) if minimum is None else beside < minimum:
            return True
    return False


def _shown(dtype: np.dtype[Any], value: Any, size_unit: str, prices: str) -> Any:
    quantity = meaning_of(dtype).quantity
    if isinstance(value, bytes):
        return value.decode("ascii", "backslashreplace")
    if quantity == "letter":
        return chr(value)
    if quantity == "price" and isinstance(value, int) and prices != "float":
        with localcontext() as context:
            context.prec = 40
            return Decimal(value) / 10**9 if prices == "decimal" else value
    scale = Fraction(size_unit) ** SIZES[quantity] if quantity in SIZES else Fraction(1)
    if quantity == "price" and isinstance(value, int):
        scale = Fraction(1, 10**9)
    return value if scale == 1 else float(Fraction(value) * scale)


def same(found: Any, wanted: Any) -> bool:
    """Floats may differ by one rounding where the exact integer has more than 53 bits."""
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float) and isinstance(found, float):
        return (math.isnan(wanted) and math.isnan(found)) or math.isclose(found, wanted, rel_tol=2**-52)
    return type(found) is type(wanted) and bool(found == wanted)
