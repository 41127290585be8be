"""Strand: market-data ticks through per-symbol handlers on all cores, in order."""

from __future__ import annotations

from strand.dispatcher import Dispatcher
from strand.errors import StrandError
from strand.handlers import Context, Handler, Tick, batch_handler, book, chain, depth, handler, native, object_handler
from strand.headers import get_include
from strand.policies import Fifo
from strand.replay import ReplayResult, replay
from strand.stats import Statistics
from strand.ticks import PRICE_SCALE, TICK, UNDEF_PRICE

__all__ = [
    "PRICE_SCALE",
    "TICK",
    "UNDEF_PRICE",
    "Context",
    "Dispatcher",
    "Fifo",
    "Handler",
    "ReplayResult",
    "Statistics",
    "StrandError",
    "Tick",
    "batch_handler",
    "book",
    "chain",
    "depth",
    "get_include",
    "handler",
    "native",
    "object_handler",
    "replay",
]
