"""Strand: market-data ticks through per-symbol handlers on all cores, in order."""

from __future__ import annotations

from strand import _starting

if _starting.is_command():
    _starting.begin()
from strand.dispatch.dispatcher import Dispatcher
from strand.errors import StrandError
from strand.handlers import (
    Context,
    Handler,
    Tick,
    Trade,
    bars,
    batch_handler,
    bbo,
    book,
    chain,
    depth,
    handler,
    imbalance,
    native,
    object_handler,
    spread,
    trade_stats,
    trades,
    volatility,
    vwap,
)
from strand.headers import get_include
from strand.policies import Fifo
from strand.replay import ReplayResult, replay
from strand.sessions import Sessions
from strand.stats import Statistics
from strand.ticks import PRICE_SCALE, TICK, UNDEF_PRICE

_starting.done()

__all__ = [
    "PRICE_SCALE",
    "TICK",
    "UNDEF_PRICE",
    "Context",
    "Dispatcher",
    "Fifo",
    "Handler",
    "ReplayResult",
    "Sessions",
    "Statistics",
    "StrandError",
    "Tick",
    "Trade",
    "bars",
    "batch_handler",
    "bbo",
    "book",
    "chain",
    "depth",
    "get_include",
    "handler",
    "imbalance",
    "native",
    "object_handler",
    "replay",
    "spread",
    "trade_stats",
    "trades",
    "volatility",
    "vwap",
]
