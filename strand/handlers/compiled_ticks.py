"""Fields of a tick that compiled handlers read by one name though several fields hold them, as ``Ticks`` has it:
``tick.sequence``, and both sides of a quote. Imported with numba only."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from strand.handlers.compiled_names import models, overload_attribute, register_model, types
from strand.handlers.compiled_totals import TOTAL_TYPE
from strand.ticks import TICK, UNDEF_PRICE
from strand.units import meaning_of

__all__ = ["record_type"]

_NONE = np.int64(UNDEF_PRICE)


def _sequence(record: Any) -> Any:
    return np.int64(record.sequence_low) | np.int64(record.sequence_high) << np.int64(32)


def _bid_price(record: Any) -> Any:
    return _NONE if record.side == b"A" else record.price


def _bid_size(record: Any) -> Any:
    return np.int64(0) if record.side == b"A" else record.size


def _ask_price(record: Any) -> Any:
    if record.side == b"B":
        return _NONE
    return record.price if record.side == b"A" else np.int64(record.order_id)


def _ask_size(record: Any) -> Any:
    if record.side == b"B":
        return np.int64(0)
    return record.size if record.side == b"A" else np.int64(record.ref_id)


class _Tick(types.Record):  # type: ignore[misc]
    """A record of ``TICK``: numba's own of the same fields, which has these names beside them."""


register_model(_Tick)(models.RecordModel)


class _Flags(types.NestedArray):  # type: ignore[misc]
    """An array of truth values in a record. numba's own does not know how many bytes one has."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        types.Array.__init__(self, types.boolean, len(shape), "C", name=f"flags({shape})")

    @property
    def size(self) -> int:
        return 1


register_model(_Flags)(models.NestedArrayModel)


class _Summing(types.Record):  # type: ignore[misc]
    """A record of which some fields are totals, by their names in ``totals``."""

    totals: frozenset[str] = frozenset()

    def typeof(self, key: str) -> Any:
        """numba's type of a field."""
        return TOTAL_TYPE if key in self.totals else super().typeof(key)


register_model(_Summing)(models.RecordModel)


def _like(record: Any, kind: Any) -> Any:
    """A record of another class with the same fields."""
    made = kind.__new__(kind)
    made.__dict__.update(record.__dict__)
    return made


def is_total(dtype: np.dtype[Any]) -> bool:
    """Tells whether a field is declared as a total. Those in arrays are not checked, so they cannot be declared."""
    return meaning_of(dtype).quantity == "total"


def _type_of(dtype: np.dtype[Any]) -> Any:
    """numba's type of a field, or of a record, which may have truth values in arrays."""
    if dtype.names is not None:
        fields: Any = dtype.fields
        made = [(name, {"type": _type_of(fields[name][0]), "offset": fields[name][1]}) for name in dtype.names]
        record = types.Record(made, dtype.itemsize, dtype.isalignedstruct)
        totals = frozenset(name for name in dtype.names if is_total(dtype[name]))
        if not totals:
            return record
        summing = _like(record, _Summing)
        summing.totals, summing.name = totals, f"{record.name} with totals {sorted(totals)}"
        return summing
    if dtype.subdtype is not None and dtype.base.kind == "b":
        return _Flags(dtype.shape)
    if dtype.subdtype is not None and dtype.base.names is not None:
        return types.NestedArray(_type_of(dtype.base), dtype.shape)
    return numba.from_dtype(dtype)


def record_type(dtype: np.dtype[Any]) -> Any:
    """numba's type of a handler's records."""
    plain = _type_of(dtype)
    if dtype != TICK:
        return plain
    return _like(plain, _Tick)


def _declare(name: str, read: Any) -> None:
    def attribute(record: Any) -> Any:
        return read

    overload_attribute(_Tick, name)(attribute)


for _name, _read in (
    ("sequence", _sequence),
    ("bid_price", _bid_price),
    ("bid_size", _bid_size),
    ("ask_price", _ask_price),
    ("ask_size", _ask_size),
):
    _declare(_name, _read)
