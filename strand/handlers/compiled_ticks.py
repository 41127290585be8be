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


def record_type(dtype: np.dtype[Any]) -> Any:
    """numba's type of a handler's records."""
    plain = numba.from_dtype(dtype)
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
