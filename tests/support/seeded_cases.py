"""Ticks and handlers for runs that a seed decides."""

from __future__ import annotations

from typing import Any

import strand

SECOND = 1_000_000_000
#: What makes a handler's order of symbols a matter of chance.
TIGHT: dict[str, Any] = {"workers": 3, "strands": "per-symbol", "capacity_ticks": 4, "budget_ticks": 2}


def trades(n: int = 60, symbols: str = "ABCDE") -> list[dict[str, Any]]:
    return [
        {"symbol": symbols[i * 7 % len(symbols)], "time": SECOND * (i + 1), "price": 10 + i / 100, "size": 1 + i % 3}
        for i in range(n)
    ]


@strand.batch_handler(state=[("n", "i8"), ("sum", "i8")])
def own_row_alone(symbol: str, ticks: Any, row: Any) -> None:
    row["n"] += len(ticks)
    row["sum"] += ticks["price"].sum()


class Timed:
    """Emits with each trade, and at timers."""

    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_trade(self, trade: Any) -> None:
        self.ctx.row["n"] += 1
        self.ctx.emit((self.ctx.row["n"],))
        self.ctx.wake_at(trade.ts_recv + 7 * SECOND)

    def on_wake(self, time: int) -> None:
        self.ctx.row["woken"] += 1
        self.ctx.emit((-1,))


def timed() -> strand.Handler:
    return strand.object_handler(Timed, state=[("n", "i8"), ("woken", "i8")], outputs={"seen": [("n", "i8")]})
