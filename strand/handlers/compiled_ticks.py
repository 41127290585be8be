"""What compiled handlers read of a tick by a name of its own though it lies in several fields, as ``Ticks`` has it:
``tick.sequence``, and both sides of a quote. Imported with numba only."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from strand.handlers.compiled_names import models, overload_attribute, register_model, types
from strand.ticks import TICK, UNDEF_PRICE

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


def _type_of(dtype: np.dtype[Any]) -> Any:
    """numba's type of a field, or of a record, which may have truth values in arrays."""
    if dtype.names is not None:
        fields: Any = dtype.fields
        made = [(name, {"type": _type_of(fields[name][0]), "offset": fields[name][1]}) for name in dtype.names]
        return types.Record(made, dtype.itemsize, dtype.isalignedstruct)
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
    tick = _Tick.__new__(_Tick)
    tick.__dict__.update(plain.__dict__)
    return tick


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
