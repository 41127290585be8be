"""Handlers that Python runs, a batch at a time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from strand.handlers.base import Handler, OnTicks, name_of
from strand.handlers.context import Call, Context
from strand.handlers.emitted import output_dtypes
from strand.handlers.state import defaults_of, row_dtype

__all__ = ["batch_handler"]


def batch_handler(
    *, state: Any, params: Any = None, name: str | None = None, outputs: Mapping[str, Any] | None = None
) -> Callable[[OnTicks], Handler]:
    """Decorates ``def on_ticks(symbol, ticks, row)`` or ``def on_ticks(symbol, ticks, row, ctx)``, run by Python once
    a batch.

    ``ticks`` is an array of shape (n,) of one symbol's records in order, read-only and valid during the call only;
    ``row`` is the symbol's row, a numpy record to write into; ``ctx`` its ``Context``. ``state``: the row, as
    ``strand.handler`` has it; ``params``: likewise, of ``ctx.params``; ``outputs``: dtypes of the records that
    ``ctx.emit`` emits, by name. Runs under the GIL.
    """
    emitted = output_dtypes(outputs)
    row = row_dtype(state)
    parameters = None if params is None else row_dtype(params, "params")

    def wrap(function: OnTicks) -> Handler:
        call: Any = function
        bind = _with_context(call) if _takes_context(function) else _without(call)
        return Handler(
            name or name_of(function),
            row,
            bind=bind,
            params_dtype=parameters,
            params_defaults=defaults_of(params),
            outputs=emitted,
        )

    return wrap


def _with_context(on_ticks: Callable[[str, Any, Any, Context], None]) -> Callable[[Context], Call]:
    def bind(context: Context) -> Call:
        row = context.row

        def call(ticks: npt.NDArray[Any]) -> None:
            context.ticks = ticks
            on_ticks(context.symbol, ticks, row, context)

        return call

    return bind


def _without(on_ticks: Callable[[str, Any, Any], None]) -> Callable[[Context], Call]:
    def bind(context: Context) -> Call:
        row = context.row

        def call(ticks: npt.NDArray[Any]) -> None:
            on_ticks(context.symbol, ticks, row)

        return call

    return bind


def _takes_context(function: Callable[..., None]) -> bool:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in callable without a signature
        return False
    positional = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len([p for p in positional if p.default is p.empty]) > 3
