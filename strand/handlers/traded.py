"""Trades for handlers that Python runs: made of one symbol's ticks, ahead of the handler."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.trades import TradeMaker
from strand.errors import EngineError
from strand.handlers.context import Call, Context, FailedOnTick, SymbolFunctions
from strand.threads import interrupts
from strand.ticks import TRADE

__all__ = ["Traded", "TradesSite", "warn_of_unpriced", "with_trades"]

_NONE: Final = np.empty(0, TRADE)


def _joined(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Joins trades in the same layout: numpy's concatenate would leave out the bytes between fields."""
    if not len(first) or not len(second):
        return first if len(first) else second
    both = np.empty(len(first) + len(second), TRADE)
    both[: len(first)], both[len(first) :] = first, second
    return both


class TradesSite(Protocol):
    """Site of a handler that is called with trades made from ticks."""

    @property
    def participant(self) -> int | None:
        """The worker that runs it."""

    @property
    def brings_rest(self) -> bool:
        """True if ticks that a call did not reach come again, as the next ones of their symbol."""

    @property
    def failed_come_again(self) -> bool:
        """True if all ticks of the current call come again if the call fails."""


def with_trades(
    functions: SymbolFunctions, context: Context, site: TradesSite, maker: TradeMaker | None
) -> SymbolFunctions:
    """A handler's functions for a symbol; where it asks for trades, each call finds them in ``context.trades``."""
    if maker is None:
        return functions
    call = Traded(context, site, maker, functions.ticks).call
    return functions._replace(ticks=call, plain=None)


def warn_of_unpriced(makers: Iterable[TradeMaker]) -> None:
    """Warns, at the end of a run, of the trades that no handler was called with."""
    unpriced = sum(int(maker.unpriced.sum()) for maker in makers)
    if unpriced:
        warnings.warn(
            f"begin where the feed adds its orders: {unpriced:,} executions of orders that the feed has not added have "
            "no price, and handlers of trades were not called with them",
            RuntimeWarning,
            stacklevel=3,
        )


class HoldsTrades(Protocol):
    """A context, or what stands for those of several symbols."""

    trades: npt.NDArray[Any]


class Traded:
    """Makes the trades of ticks ahead of a handler's call. Ticks that the call leaves over come again, and have been in
    the book by then: what was made of them is kept."""

    def __init__(self, context: HoldsTrades, site: TradesSite, maker: TradeMaker, call: Call) -> None:
        self._context = context
        self._site = site
        self._maker = maker
        self._inner = call
        self._ahead: npt.NDArray[Any] = _NONE

    def call(self, ticks: npt.NDArray[Any]) -> int | None:
        known = min(len(self._ahead), len(ticks))
        new, failure = self._maker.make(ticks[known:], self._site.participant or 0)
        made, further, done = _joined(self._ahead[:known], new), self._ahead[known:], known + len(new)
        handled = 0
        try:
            handled = self._handle(ticks[:done], made)
        except FailedOnTick as error:
            # Ticks that an interrupt came upon come again.
            failed = error.handled + (not interrupts(error.__cause__ or error))
            handled = 0 if self._site.failed_come_again else failed
            raise
        except BaseException:
            handled = 0 if self._site.failed_come_again else 1
            raise
        finally:
            self._ahead = _joined(made[handled:], further) if self._site.brings_rest else _NONE
        if failure is not None and handled == done:
            raise FailedOnTick(done) from EngineError(failure.reason)
        return None if handled == len(ticks) else handled

    def _handle(self, ticks: npt.NDArray[Any], made: npt.NDArray[Any]) -> int:
        if not len(ticks):
            return 0
        self._context.trades = made
        handled = self._inner(ticks)
        return len(ticks) if handled is None else handled
