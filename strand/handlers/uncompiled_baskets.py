"""Basket handlers written for numba, run as plain Python tick by tick, as ``NUMBA_DISABLE_JIT=1`` asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from strand.handlers.basket_handlers import CompiledBasketHandler
from strand.handlers.called_again import PlainFields, PlainOutputs, PlainRow
from strand.handlers.compiled_handlers import arguments_of
from strand.handlers.hosted_baskets import BasketContext, BasketObjectHandler

__all__ = ["uncompiled_basket"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _UncompiledBasketHandler(BasketObjectHandler):
    """``function``: what is called. A symbol's row counts its calls, which may be with trades alone."""

    function: Callable[..., None]

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return (self.function,)

    @property
    def takes_trades(self) -> bool:
        return self.trades is not None


def uncompiled_basket(handler: CompiledBasketHandler) -> BasketObjectHandler:
    """Same handler, but run by Python. A debugger can stop in its function."""
    method = "on_tick" if handler.trades is None else "on_trade"
    return _UncompiledBasketHandler(
        name=handler.name,
        state=handler.state,
        counts=handler.counts,
        basket_state=handler.basket_state,
        baskets=handler.baskets,
        function=handler.on_tick,
        factory=partial(type(handler.name, (_Plain,), {method: _Plain.run}), handler),
        params=handler.params,
        outputs=handler.outputs,
        trades=handler.trades,
        size_unit=handler.size_unit,
        origin=handler.origin,
    )


class _Plain:
    """The function of a handler, at work for one basket."""

    def __init__(self, handler: CompiledBasketHandler) -> None:
        self._handler = handler

    def on_start(self, ctx: BasketContext) -> None:
        handler = self._handler
        self._call, self._names = handler.on_tick, arguments_of(handler.on_tick)
        self._rows = [PlainRow(row, partial(_before, ctx)) for row in ctx.rows]
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


def _before(ctx: BasketContext, name: str) -> Any:
    """The record of a handler before it in the chain."""
    return ctx.after.get(name)
