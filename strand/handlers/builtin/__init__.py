"""The handlers that are built in, by name: each a function that makes a handler of functions in C."""

from __future__ import annotations

from typing import Final

from strand.handlers.builtin.bar_handlers import bars
from strand.handlers.builtin.books import book, depth
from strand.handlers.builtin.counting import count, spin
from strand.handlers.builtin.definition import Builtin
from strand.handlers.builtin.market_tables import bbo, trades
from strand.handlers.builtin.measures import imbalance, spread, trade_stats, volatility, vwap

__all__ = ["BUILTIN"]

BUILTIN: Final = {
    "bars": Builtin(bars, {"every": "1m"}, instead=("ticks", "volume", "notional")),
    "bbo": Builtin(bbo),
    "book": Builtin(book),
    "count": Builtin(count),
    "depth": Builtin(depth),
    "imbalance": Builtin(imbalance),
    "spin": Builtin(spin, {"work": 0}),
    "spread": Builtin(spread),
    "trade_stats": Builtin(trade_stats),
    "trades": Builtin(trades),
    "volatility": Builtin(volatility, {"step": "5m"}, instead=("ticks",)),
    "vwap": Builtin(vwap),
}
