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

from typing import TYPE_CHECKING

from strand.lazy import loading

if TYPE_CHECKING:
    from strand.handlers.base import Handler as Handler
    from strand.handlers.base import HandlerLike as HandlerLike
    from strand.handlers.basket_handlers import basket_handler as basket_handler
    from strand.handlers.builtin import BUILTIN as BUILTIN
    from strand.handlers.builtin.bar_handlers import BAR as BAR
    from strand.handlers.builtin.bar_handlers import BAR_AUCTION as BAR_AUCTION
    from strand.handlers.builtin.bar_handlers import BAR_BOUNDED as BAR_BOUNDED
    from strand.handlers.builtin.bar_handlers import BAR_CUT as BAR_CUT
    from strand.handlers.builtin.bar_handlers import BAR_EMPTY as BAR_EMPTY
    from strand.handlers.builtin.bar_handlers import BAR_HALVES as BAR_HALVES
    from strand.handlers.builtin.bar_handlers import BAR_OUTSIDE as BAR_OUTSIDE
    from strand.handlers.builtin.bar_handlers import BAR_PARTIAL as BAR_PARTIAL
    from strand.handlers.builtin.bar_handlers import BARS_ROW as BARS_ROW
    from strand.handlers.builtin.bar_handlers import IMBALANCE_BARS as IMBALANCE_BARS
    from strand.handlers.builtin.bar_handlers import IMBALANCE_BARS_ROW as IMBALANCE_BARS_ROW
    from strand.handlers.builtin.bar_handlers import QUOTE_BAR as QUOTE_BAR
    from strand.handlers.builtin.bar_handlers import QUOTE_BARS_ROW as QUOTE_BARS_ROW
    from strand.handlers.builtin.bar_handlers import bars as bars
    from strand.handlers.builtin.bar_handlers import imbalance_bars as imbalance_bars
    from strand.handlers.builtin.bar_handlers import quote_bars as quote_bars
    from strand.handlers.builtin.books import BOOK_ROW as BOOK_ROW
    from strand.handlers.builtin.books import book as book
    from strand.handlers.builtin.books import book_row as book_row
    from strand.handlers.builtin.books import depth as depth
    from strand.handlers.builtin.books import depth_row as depth_row
    from strand.handlers.builtin.counting import COUNT_ROW as COUNT_ROW
    from strand.handlers.builtin.counting import SPIN_ROW as SPIN_ROW
    from strand.handlers.builtin.counting import spin as spin
    from strand.handlers.builtin.market_tables import BBO as BBO
    from strand.handlers.builtin.market_tables import BBO_ROW as BBO_ROW
    from strand.handlers.builtin.market_tables import TRADES as TRADES
    from strand.handlers.builtin.market_tables import TRADES_ROW as TRADES_ROW
    from strand.handlers.builtin.market_tables import bbo as bbo
    from strand.handlers.builtin.market_tables import trades as trades
    from strand.handlers.builtin.measures import IMBALANCE as IMBALANCE
    from strand.handlers.builtin.measures import IMBALANCE_ROW as IMBALANCE_ROW
    from strand.handlers.builtin.measures import SPREAD as SPREAD
    from strand.handlers.builtin.measures import SPREAD_ROW as SPREAD_ROW
    from strand.handlers.builtin.measures import TRADE_STATS as TRADE_STATS
    from strand.handlers.builtin.measures import TRADE_STATS_ROW as TRADE_STATS_ROW
    from strand.handlers.builtin.measures import VOLATILITY as VOLATILITY
    from strand.handlers.builtin.measures import VOLATILITY_ROW as VOLATILITY_ROW
    from strand.handlers.builtin.measures import VWAP as VWAP
    from strand.handlers.builtin.measures import VWAP_ROW as VWAP_ROW
    from strand.handlers.builtin.measures import imbalance as imbalance
    from strand.handlers.builtin.measures import spread as spread
    from strand.handlers.builtin.measures import trade_stats as trade_stats
    from strand.handlers.builtin.measures import volatility as volatility
    from strand.handlers.builtin.measures import vwap as vwap
    from strand.handlers.chains import ChainHandler as ChainHandler
    from strand.handlers.chains import chain as chain
    from strand.handlers.compiled.handlers import CompiledHandler as CompiledHandler
    from strand.handlers.compiled.handlers import handler as handler
    from strand.handlers.context import Context as Context
    from strand.handlers.context import Tick as Tick
    from strand.handlers.context import Trade as Trade
    from strand.handlers.host import Bar as Bar
    from strand.handlers.host import Top as Top
    from strand.handlers.loading import resolve as resolve
    from strand.handlers.native_handlers import NativeHandler as NativeHandler
    from strand.handlers.native_handlers import SymbolMemory as SymbolMemory
    from strand.handlers.native_handlers import native as native
    from strand.handlers.python_handlers import ObjectHandler as ObjectHandler
    from strand.handlers.python_handlers import PythonHandler as PythonHandler
    from strand.handlers.python_handlers import batch_handler as batch_handler
    from strand.handlers.python_handlers import object_handler as object_handler
    from strand.handlers.state import add_total as add_total

if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __all__, __getattr__, __dir__ = loading(
        __name__,
        {
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
        },
    )
