"""What a feed's ticks and fills mean to handlers, and where its trades are to be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from strand.binding.trades import TradeRules, TradeSource
from strand.errors import ConfigurationError
from strand.validate import one_of

if TYPE_CHECKING:
    from strand.feeds import FeedInfo
    from strand.feeds.base import TicksAre

__all__ = ["Fills", "On", "fills_of", "source_for", "ticks_of", "trades_of"]

#: What a handler is called with.
On = Literal["tick", "trade"]
#: What a fill (action F) does to its order.
Fills = Literal["reduce", "report"]


def ticks_of(info: FeedInfo) -> TicksAre:
    """What a feed's ticks mean. Raises ConfigurationError where its files do not agree."""
    if info.ticks is None:
        raise ConfigurationError(
            "the merged files differ: only some have single orders, or fills that only report (DBN): give handlers by "
            "symbol, with book= and fills="
        )
    return info.ticks


def fills_of(info: FeedInfo) -> Fills:
    """What a fill does in a feed. Raises ConfigurationError where its files do not agree."""
    return "report" if ticks_of(info) in ("dbn", "dbn-orders") else "reduce"


def source_for(on: On) -> TradeSource | None:
    """Where the trades come from that a handler is called with, as long as no feed is known; None for ticks. Raises
    ConfigurationError."""
    return TradeSource(assumed=True) if one_of("on", on, ("tick", "trade")) == 1 else None


def trades_of(info: FeedInfo) -> TradeSource:
    """Where a feed's trades are to be had. Raises ConfigurationError where its files do not agree."""
    ticks = ticks_of(info)
    rules = TradeRules(orders=ticks in ("orders", "dbn-orders"), fills_report=fills_of(info) == "report")
    return TradeSource(rules, books=ticks == "orders")
