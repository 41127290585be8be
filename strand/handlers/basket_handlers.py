"""Handlers that see the ticks of several symbols, in the order of publishing, and keep a row for each basket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from strand.binding.native import NativeFunction, pointer_from_address
from strand.errors import ConfigurationError
from strand.handlers.base import Handler, TradesHandler
from strand.handlers.baskets import BasketMemory, Baskets, Members
from strand.handlers.bound import BindContext, BoundNative
from strand.handlers.emitted import check_fields
from strand.symbols import SymbolTable
from strand.ticks import TRADE

if TYPE_CHECKING:
    from strand.handlers.compiled.called_again import FailedCall

__all__ = ["BasketHandler", "CompiledBasketHandler", "basket_parts"]


@dataclass(frozen=True, kw_only=True, repr=False)
class BasketHandler(TradesHandler):
    """A handler with baskets. ``state`` is a symbol's row, ``basket_state`` the dtype of a basket's.
    ``counts``: the user declared no ``state``, and ticks are counted there."""

    baskets: Baskets
    basket_state: np.dtype[Any]
    counts: bool = False

    @property
    def timers(self) -> bool:
        return False

    @property
    def ends(self) -> bool:
        return False

    @property
    def described_params(self) -> dict[str, str]:
        return {**super().described_params, **self.baskets.described}

    def call_again(self, call: FailedCall) -> None:  # noqa: ARG002 - whatever the call, the basket's row is gone on
        raise ConfigurationError(
            f"replay: handler {self.name!r} has baskets, and the basket's row before the tick is not kept: stop before "
            "the tick, with strand.replay(until=...)"
        )

    def members(self, table: SymbolTable) -> Members:
        """The baskets of a table's symbols. Raises UnknownSymbolError and ConfigurationError."""
        return self.baskets.members(self.name, table)

    def memory_in(self, context: BindContext) -> BasketMemory:
        """Rows for the baskets, which begin as zeros; the run shows them."""
        members = self.members(context.table)
        rows = context.space.zeros(len(members.names), self.basket_state)
        context.baskets.append(BasketMemory(self.name, members, rows, self.size_unit))
        return context.baskets[-1]


def basket_parts(handler: Handler) -> tuple[BasketHandler, ...]:
    """Parts of a handler that have baskets."""
    return tuple(part for _, part in handler.parts_as("") if isinstance(part, BasketHandler))


# ---- compiled


@dataclass(frozen=True, kw_only=True, repr=False)
class CompiledBasketHandler(BasketHandler):
    """Basket handler of a function in Python that numba compiles when a dispatcher is made."""

    on_tick: Callable[..., None]
    cache: bool = True
    #: By record, key and row.
    _compiled: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self, basket_state=self.basket_state)

    @property
    def is_native(self) -> bool:
        return True

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return (self.on_tick,)

    @property
    def sees_chain(self) -> bool:
        return True

    def bind_row(self, context: BindContext, row: np.dtype[Any]) -> BoundNative:
        from strand.handlers.compiled.handlers import numba_module

        numba_module()  # before what imports it
        from strand.handlers.compiled.loop import tables_of

        params = None if self.params is None else self.params.records(self.name, context.table)
        memory, maker = self.memory_in(context), context.maker_for(self.trades)
        members = memory.members
        compiled = self._compile(context.record if maker is None else TRADE, context.key, row)
        function = NativeFunction(
            pointer_from_address(compiled.address),
            params=tables_of(members.spans, members.entries, memory.rows, params),
            never_publishes=True,
            keep=(compiled, memory, params),
        )
        return BoundNative(function=function if maker is None else maker.around(function))

    def _compile(self, record: np.dtype[Any], key: str, row: np.dtype[Any]) -> Any:
        signature = (record, key, row)
        if signature not in self._compiled:
            from strand.handlers.compiled.handlers import compile_function
            from strand.handlers.compiled.loop import make_basket_loop

            tick = "tick" if self.trades is None else "trade"
            known = {"row": row, tick: record, "basket": self.basket_state, "member": None, "index": None}
            make = partial(make_basket_loop, key=key, tick_name=tick, counts=self.counts)
            self._compiled[signature] = compile_function(self, self.on_tick, known, key, make, cache=self.cache)
        return self._compiled[signature]

    def reason_of(self, message: str) -> str:
        from strand.handlers.compiled.handlers import reason_of_compiled

        return reason_of_compiled(message)
