"""Handlers in Python that numba compiles, with the loop over a batch around them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from strand._bindings.engine import NativeFunction, pointer_from_address
from strand.errors import ConfigurationError, MissingExtraError
from strand.handlers.base import Handler, OnTick, name_of
from strand.handlers.state import row_dtype

__all__ = ["compile_loop", "handler"]


def handler(*, state: Any, name: str | None = None) -> Callable[[OnTick], Handler]:
    """Decorates ``def on_tick(row, tick)``: numba compiles it, and the loop over a batch around it.

    ``row`` and ``tick`` are records: ``row.volume += tick.size``. ``state`` is the row's dtype, or a list of
    (name, dtype) pairs. Raises MissingExtraError without numba, ConfigurationError when it does not compile.
    """
    dtype = row_dtype(state)

    def wrap(function: OnTick) -> Handler:
        return Handler(name or name_of(function), dtype, on_tick=function)

    return wrap


@lru_cache(maxsize=1)
def _numba() -> Any:
    try:
        import numba
    except ImportError as error:
        raise MissingExtraError("compiling a handler", "numba", "numba") from error
    return numba


def compile_loop(name: str, on_tick: OnTick, record: np.dtype[Any], key: str, row: np.dtype[Any]) -> NativeFunction:
    """The loop over a batch around ``on_tick``, as the engine calls it. Raises ConfigurationError."""
    numba = _numba()
    types = numba.types
    one = numba.njit(on_tick) if not hasattr(on_tick, "py_func") else on_tick

    def run(rows_at, ticks_at, n, context):  # type: ignore[no-untyped-def]
        rows = numba.carray(rows_at, (context[2],))  # context[2] is sd_context.n_rows
        ticks = numba.carray(ticks_at, (n,))
        done = 0
        try:
            for i in range(n):
                one(rows[ticks[i][key]], ticks[i])
                done += 1
        except Exception:
            return done
        return n

    # A field that does not exist is a KeyError to numba, and there is no end to what else it raises.
    try:
        rows_type, ticks_type = numba.from_dtype(row), numba.from_dtype(record)
        signature = types.int64(
            types.CPointer(rows_type), types.CPointer(ticks_type), types.int64, types.CPointer(types.int64)
        )
        function = numba.cfunc(signature)(run)
    except Exception as error:
        raise ConfigurationError(f"handler {name!r} does not compile: {type(error).__name__}: {error}") from error
    return NativeFunction(pointer_from_address(function.address), pure=True, keep=function)
