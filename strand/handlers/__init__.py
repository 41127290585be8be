"""Handlers: the code that runs over each symbol's ticks, and the row of state each symbol has.

Five kinds, all accepted wherever a handler is asked for, alone or in a ``chain``:

- the name of a built-in one (``"bars"``, ``"bbo"``, ``"book"``, ``"count"``, ``"depth"``, ``"imbalance"``,
  ``"imbalance_bars"``, ``"quote_bars"``, ``"spin"``, ``"spread"``, ``"trade_stats"``, ``"trades"``,
  ``"volatility"``, ``"vwap"``);
- ``native(...)``: a C function of type ``sd_handler_fn``, from a shared object or by address;
- ``@handler(state=...)``: ``def on_tick(row, tick)`` compiled by numba, which needs the extra ``[numba]``;
- ``@batch_handler(state=...)``: ``def on_ticks(symbol, ticks, row)``, run by Python a batch at a time;
- a class with ``on_tick``, ``on_trade``, ``on_book``, ...: an object a symbol, alone or by ``@object_handler(...)``.

``@basket_handler(...)`` makes one of a function, or a class, that sees the ticks of several symbols together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strand.lazy import loading

if TYPE_CHECKING:
    from strand.handlers.base import Handler, HandlerLike
    from strand.handlers.basket_handlers import basket_handler
    from strand.handlers.builtin import BUILTIN
    from strand.handlers.builtin.bar_handlers import (
        BAR,
        BAR_AUCTION,
        BAR_BOUNDED,
        BAR_CUT,
        BAR_EMPTY,
        BAR_HALVES,
        BAR_OUTSIDE,
        BAR_PARTIAL,
        BARS_ROW,
        IMBALANCE_BARS,
        IMBALANCE_BARS_ROW,
        QUOTE_BAR,
        QUOTE_BARS_ROW,
        bars,
        imbalance_bars,
        quote_bars,
    )
    from strand.handlers.builtin.books import BOOK_ROW, book, book_row, depth, depth_row
    from strand.handlers.builtin.counting import COUNT_ROW, SPIN_ROW, spin
    from strand.handlers.builtin.market_tables import BBO, BBO_ROW, TRADES, TRADES_ROW, bbo, trades
    from strand.handlers.builtin.measures import (
        IMBALANCE,
        IMBALANCE_ROW,
        SPREAD,
        SPREAD_ROW,
        TRADE_STATS,
        TRADE_STATS_ROW,
        VOLATILITY,
        VOLATILITY_ROW,
        VWAP,
        VWAP_ROW,
        imbalance,
        spread,
        trade_stats,
        volatility,
        vwap,
    )
    from strand.handlers.chains import ChainHandler, chain
    from strand.handlers.compiled.handlers import CompiledHandler, handler
    from strand.handlers.context import Context, Tick, Trade
    from strand.handlers.host import Bar, Top
    from strand.handlers.loading import resolve
    from strand.handlers.native_handlers import NativeHandler, SymbolMemory, native
    from strand.handlers.python_handlers import ObjectHandler, PythonHandler, batch_handler, object_handler
    from strand.handlers.state import add_total

__all__ = [
    "BAR",
    "BARS_ROW",
    "BAR_AUCTION",
    "BAR_BOUNDED",
    "BAR_CUT",
    "BAR_EMPTY",
    "BAR_HALVES",
    "BAR_OUTSIDE",
    "BAR_PARTIAL",
    "BBO",
    "BBO_ROW",
    "BOOK_ROW",
    "BUILTIN",
    "COUNT_ROW",
    "IMBALANCE",
    "IMBALANCE_BARS",
    "IMBALANCE_BARS_ROW",
    "IMBALANCE_ROW",
    "QUOTE_BAR",
    "QUOTE_BARS_ROW",
    "SPIN_ROW",
    "SPREAD",
    "SPREAD_ROW",
    "TRADES",
    "TRADES_ROW",
    "TRADE_STATS",
    "TRADE_STATS_ROW",
    "VOLATILITY",
    "VOLATILITY_ROW",
    "VWAP",
    "VWAP_ROW",
    "Bar",
    "ChainHandler",
    "CompiledHandler",
    "Context",
    "Handler",
    "HandlerLike",
    "NativeHandler",
    "ObjectHandler",
    "PythonHandler",
    "SymbolMemory",
    "Tick",
    "Top",
    "Trade",
    "add_total",
    "bars",
    "basket_handler",
    "batch_handler",
    "bbo",
    "book",
    "book_row",
    "chain",
    "depth",
    "depth_row",
    "handler",
    "imbalance",
    "imbalance_bars",
    "native",
    "object_handler",
    "quote_bars",
    "resolve",
    "spin",
    "spread",
    "trade_stats",
    "trades",
    "volatility",
    "vwap",
]

#: The public names of each module.
_NAMES: Final = {
    "base": "Handler HandlerLike",
    "basket_handlers": "basket_handler",
    "builtin": "BUILTIN",
    "builtin.bar_handlers": "BAR BARS_ROW BAR_AUCTION BAR_BOUNDED BAR_CUT BAR_EMPTY BAR_HALVES BAR_OUTSIDE "
    "BAR_PARTIAL IMBALANCE_BARS IMBALANCE_BARS_ROW QUOTE_BAR QUOTE_BARS_ROW bars imbalance_bars quote_bars",
    "builtin.books": "BOOK_ROW book book_row depth depth_row",
    "builtin.counting": "COUNT_ROW SPIN_ROW spin",
    "builtin.market_tables": "BBO BBO_ROW TRADES TRADES_ROW bbo trades",
    "builtin.measures": "IMBALANCE IMBALANCE_ROW SPREAD SPREAD_ROW TRADE_STATS TRADE_STATS_ROW VOLATILITY "
    "VOLATILITY_ROW VWAP VWAP_ROW imbalance spread trade_stats volatility vwap",
    "chains": "ChainHandler chain",
    "compiled.handlers": "CompiledHandler handler",
    "context": "Context Tick Trade",
    "host": "Bar Top",
    "loading": "resolve",
    "native_handlers": "NativeHandler SymbolMemory native",
    "python_handlers": "PythonHandler batch_handler ObjectHandler object_handler",
    "state": "add_total",
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names.split()}


if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __getattr__ = loading(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
