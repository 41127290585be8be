"""Common part of the handlers that Python runs, of functions and of objects."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from strand.binding.trades import TradeMaker
from strand.handlers.base import TradesHandler
from strand.handlers.bound import BindContext, BoundPython, TickByTick
from strand.handlers.context import Context, SymbolFunctions
from strand.handlers.timed import Timed
from strand.handlers.traded import TradesSite, with_trades
from strand.handlers.watches import check_states

__all__ = ["HostedHandler"]


@dataclass(frozen=True, kw_only=True, repr=False)
class HostedHandler(TradesHandler):
    """A handler that Python runs: each symbol has functions of its own, from its first tick on."""

    @property
    def is_native(self) -> bool:
        return False

    @property
    def needs_states(self) -> tuple[str, ...]:
        """Methods that are called after another handler's row has changed."""
        return ()

    @property
    def fails_as_a_whole(self) -> bool:
        """True if a failed call does not say at which of its ticks, and writes to nothing but rows."""
        return False

    def by_tick(self, maker: TradeMaker | None) -> TickByTick | None:  # noqa: ARG002 - as object handlers have it
        """Way to call the handler for several symbols in turn, with trades of a maker; None: the handler takes
        batches."""
        return None

    @abstractmethod
    def functions_in(self, context: BindContext) -> Callable[[Context], SymbolFunctions]:
        """Returns the maker of the functions to call for a symbol in a run."""

    def bind_functions(
        self, context: BindContext, maker: TradeMaker | None
    ) -> Callable[[Context, TradesSite], SymbolFunctions]:
        """Binds the functions to the place where they run, with trades of a maker if they ask for any."""
        functions_of = self.functions_in(context)
        return lambda of_symbol, site: with_trades(functions_of(of_symbol), of_symbol, site, maker)

    def bind_row(self, context: BindContext, row: np.dtype[Any]) -> BoundPython:  # noqa: ARG002 - rows come one by one
        check_states(self.name, self.needs_states, {})
        maker = context.maker_for(self.trades)
        functions_of = self.bind_functions(context, maker)
        return BoundPython(
            name=self.name,
            timers=self.timers,
            ends=self.ends,
            emitting=self,
            host=lambda of_symbol, site: Timed(of_symbol, functions_of(of_symbol, site), site),
            key=context.key,
            params=None if self.params is None else self.params.records(self.name, context.table),
            by_tick=self.by_tick(maker),
        )
