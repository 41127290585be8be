"""The handlers that are built in, by name: each a function that makes a handler of functions in C."""

from __future__ import annotations

from typing import Final

from strand.handlers.builtin.definition import Builtin

__all__ = ["BUILTIN"]

BUILTIN: Final = {
    "bars": Builtin(
        "bars", "strand.handlers.builtin.bar_handlers", {"every": "1m"}, instead=("ticks", "volume", "notional")
    ),
    "bbo": Builtin("bbo", "strand.handlers.builtin.market_tables"),
    "book": Builtin("book", "strand.handlers.builtin.books"),
    "count": Builtin("count", "strand.handlers.builtin.counting"),
    "depth": Builtin("depth", "strand.handlers.builtin.books"),
    "imbalance": Builtin("imbalance", "strand.handlers.builtin.measures"),
    "imbalance_bars": Builtin(
        "imbalance_bars", "strand.handlers.builtin.bar_handlers", {"expected_ticks": 1000}, instead=("threshold",)
    ),
    "quote_bars": Builtin("quote_bars", "strand.handlers.builtin.bar_handlers", {"every": "1m"}, instead=("ticks",)),
    "spin": Builtin("spin", "strand.handlers.builtin.counting", {"work": 0}),
    "spread": Builtin("spread", "strand.handlers.builtin.measures"),
    "trade_stats": Builtin("trade_stats", "strand.handlers.builtin.measures"),
    "trades": Builtin("trades", "strand.handlers.builtin.market_tables"),
    "volatility": Builtin("volatility", "strand.handlers.builtin.measures", {"step": "5m"}, instead=("ticks",)),
    "vwap": Builtin("vwap", "strand.handlers.builtin.measures"),
}
