"""Object handlers on the calling thread: each tick goes to the object of its symbol, in the order of ticks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from strand.caller.site import InHand
from strand.handlers.context import Context, FailedOnTick, Tick, Trade, as_ticks, trades_by_place
from strand.handlers.host import Host
from strand.threads import interrupts
from strand.ticks import TRADE

__all__ = ["TicksInTurn"]

#: Functions of a symbol, for each tick and for each trade, and the context that learns the current tick.
_Functions = tuple[Callable[[Tick], Any] | None, Callable[[Trade], Any] | None, Context]


class _Rows(Protocol):
    """``strand.output.rows.Rows``."""

    def as_seen_by(self, index: int) -> npt.NDArray[Any]: ...


class TicksInTurn:
    """Calls one handler's objects over ticks of all its symbols, in the order of the ticks.

    A call for each stretch of one symbol's ticks, as batches need it, takes ten times as long where symbols take
    turns: ticks are made for all of them at once here. ``host_of``: binds a symbol at its first tick; ``rows``: where
    its ticks are to be counted.
    """

    def __init__(
        self,
        host_of: Callable[[int], tuple[Context, Host]],
        *,
        in_hand: InHand,
        rows: _Rows | None,
        key: str,
    ) -> None:
        self._host_of = host_of
        self._in_hand = in_hand
        self._rows = rows
        self._key = key
        self._functions: dict[int, _Functions] = {}
        #: The trades of the ticks in hand, where somebody makes them.
        self.trades: npt.NDArray[Any] = np.empty(0, TRADE)

    def call(self, ticks: npt.NDArray[Any]) -> None:
        """Raises FailedOnTick. A tick is handled when its functions have returned, even if an interrupt comes then."""
        keys, trades, place = ticks[self._key], trades_by_place(self.trades), self._in_hand.place
        handled, is_last = 0, False
        try:
            for i, (key, tick) in enumerate(zip(keys.tolist(), as_ticks(ticks), strict=True)):
                place(i)
                on_tick, on_trade, context = self._functions.get(key) or self._bind(key)
                context.tick = tick
                has_trade = on_trade is not None and i in trades
                if on_tick is not None:
                    is_last = not has_trade
                    on_tick(tick)
                if has_trade:
                    is_last = True
                    on_trade(trades[i])  # type: ignore[misc]
                # Python calls no handler of signals between a function's return and these lines, but right at it.
                handled, is_last = i + 1, False
        except BaseException as error:
            if is_last and interrupts(error) and error.__traceback__ is not None and not error.__traceback__.tb_next:
                handled += 1  # it comes out of no function, so the last one has returned
            raise FailedOnTick(handled) from error
        finally:
            if self._rows is not None and len(ticks):
                np.add.at(self._rows.as_seen_by(int(keys[0]))["ticks"], keys[:handled], 1)

    def _bind(self, key: int) -> _Functions:
        context, host = self._host_of(key)
        self._functions[key] = found = host.one, getattr(host.object, "on_trade", None), context
        return found
