"""Handlers written for numba, run as plain Python tick by tick, as ``NUMBA_DISABLE_JIT=1`` asks for."""

from __future__ import annotations

from functools import partial
from typing import Any

from strand.handlers.basket_handlers import BasketContext
from strand.handlers.compiled.called_again import PlainFields, PlainOutputs, PlainRow
from strand.handlers.compiled.handlers import CompiledHandler, arguments_of
from strand.handlers.context import Context
from strand.handlers.python_handlers import ObjectHandler

__all__ = ["uncompiled"]


def uncompiled(handler: CompiledHandler) -> ObjectHandler:
    """Same handler, but run by Python. A debugger can stop in its function."""
    plain = _PlainBasket if handler.shape.shares else _Plain
    methods: dict[str, Any] = {"on_tick" if handler.trades is None else "on_trade": plain.run}
    if handler.on_wake is not None:
        methods["on_wake"] = _Plain.wake
    if handler.on_finish is not None:
        methods["on_finish"] = _Plain.finish
    return ObjectHandler(
        name=handler.name,
        state=handler.state,
        factory=partial(type(handler.name, (plain,), methods), handler),
        calls=handler.written,
        shape=handler.shape,
        params=handler.params,
        outputs=handler.outputs,
        trades=handler.trades,
        size_unit=handler.size_unit,
        origin=handler.origin,
    )


class _Plain:
    """The functions of a handler, at work for one symbol."""

    def __init__(self, handler: CompiledHandler) -> None:
        self._handler = handler

    def on_start(self, context: Context) -> None:
        handler = self._handler
        emit = PlainOutputs(context.emit, handler.outputs)
        further = {
            "params": None if context.params is None else PlainFields(context.params),
            "emit": emit,
            "ctx": context,
        }
        self._row = PlainRow(context.row, partial(_before, context))
        found: list[Any] = [
            None if one is None else partial(one, **{name: further[name] for name in arguments_of(one)[first:]})
            for one, first in ((handler.on_tick, 2), (handler.on_wake, 2), (handler.on_finish, 1))
        ]
        self._run, self._wake, self._finish = found

    def run(self, tick: Any) -> None:
        """``on_tick`` or ``on_trade``."""
        self._run(self._row, tick)

    def wake(self, time: int) -> None:
        """``on_wake``."""
        self._wake(self._row, time)

    def finish(self) -> None:
        """``on_finish``."""
        self._finish(self._row)


def _before(context: Context, name: str) -> Any:
    """The record of a handler before it in the chain."""
    if name not in context.states:
        return None
    return context.after[name][0 if context.at is None or context.now is not None else context.at]


class _PlainBasket:
    """The function of a handler, at work for one basket."""

    def __init__(self, handler: CompiledHandler) -> None:
        self._handler = handler

    def on_start(self, ctx: BasketContext) -> None:
        handler = self._handler
        self._call, self._names = handler.on_tick, arguments_of(handler.on_tick)
        self._rows = [PlainRow(row, partial(_basket_before, ctx)) for row in ctx.rows]
        self._params = [None] * len(ctx.rows) if ctx.params is None else [PlainFields(each) for each in ctx.params]
        self._given: dict[str, Any] = {
            "basket": PlainFields(ctx.row),
            "index": ctx.index,
            "emit": PlainOutputs(ctx.emit, handler.outputs),
        }

    def run(self, tick: Any, member: int) -> None:
        """``on_tick`` or ``on_trade``."""
        of_call = {"tick": tick, "trade": tick, "member": member}
        given = self._given | of_call | {"row": self._rows[member], "params": self._params[member]}
        self._call(*[given[name] for name in self._names])


def _basket_before(ctx: BasketContext, name: str) -> Any:
    """The record of a handler before it in the chain."""
    return ctx.after.get(name)
