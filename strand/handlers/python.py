"""Handlers that Python runs, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strand.handlers.base import Handler, OnTicks, name_of
from strand.handlers.state import row_dtype

__all__ = ["batch_handler"]


def batch_handler(*, state: Any, name: str | None = None) -> Callable[[OnTicks], Handler]:
    """Decorates ``def on_ticks(symbol, ticks, row)``, run by Python once a batch.

    ``ticks`` is an array of shape (n,) of one symbol's records in order, valid during the call only; ``row`` is the
    symbol's row, a numpy record to write into. Runs under the GIL.
    """
    dtype = row_dtype(state)

    def wrap(function: OnTicks) -> Handler:
        return Handler(name or name_of(function), dtype, on_ticks=function)

    return wrap
