"""Object handlers in a plain loop, over ticks of symbols that take turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for

from strand.caller.python_handlers import TicksInTurn
from strand.caller.run import CallerRun
from strand.ticks import KIND_QUOTE, KIND_TRADE

pytestmark = pytest.mark.python

KEYS = [0, 1, 0, 2, 1, 0, 2, 2]


def ticks_in_turn() -> Any:
    """Trades and quotes of three symbols, of one price each."""
    ticks = ticks_for(KEYS)
    ticks["ts_recv"] = np.arange(10, 18)
    ticks["size"], ticks["price"] = np.arange(1, 9), 7
    ticks["kind"] = [KIND_TRADE if i % 2 else KIND_QUOTE for i in range(8)]
    ticks["action"] = [b"T" if i % 2 else b"A" for i in range(8)]
    return ticks


def test_ticks_of_symbols_that_take_turns_go_to_their_objects_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = TicksInTurn.call
    monkeypatch.setattr(TicksInTurn, "call", lambda self, ticks: calls.append(len(ticks)) or real(self, ticks))
    notes: list[tuple[str, int]] = []

    class Notes:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            notes.append((self.ctx.symbol, tick.size))

    with CallerRun(["A", "B", "C"], Notes) as loop:
        loop.publish(ticks_in_turn()[:5])
        loop.publish(ticks_in_turn()[5:])
    assert calls == [5, 3]
    assert notes == [("ABC"[key], i + 1) for i, key in enumerate(KEYS)]
    assert loop.rows.array["ticks"].tolist() == [3, 2, 3]


def test_what_an_interrupt_comes_upon_can_be_published_again() -> None:
    interrupted = True
    sizes: list[int] = []

    class Adds:
        def on_trade(self, trade: Any) -> None:
            if interrupted and trade.size == 4:
                raise KeyboardInterrupt
            sizes.append(trade.size)

    ticks = ticks_in_turn()
    with CallerRun(["A", "B", "C"], Adds) as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.publish(ticks)
        done = loop.statistics().accepted
        assert done == 3
        interrupted = False
        loop.publish(ticks[done:])
    assert sizes == [2, 4, 6, 8]
