"""Meaning of a feed's ticks and fills for handlers, and the source of its trades."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from strand.binding.trades import TradeRules, TradeSource
from strand.errors import ConfigurationError
from strand.spans import span_text
from strand.validate import one_of

if TYPE_CHECKING:
    from strand.feeds import FeedInfo, Flags
    from strand.feeds.base import TicksAre

__all__ = ["Fills", "On", "check_intervals", "fills_of", "flags_of", "source_for", "ticks_of", "trades_of", "usual_for"]

#: Input of a handler.
On = Literal["tick", "trade"]
#: Effect of a fill (action F) on its order.
Fills = Literal["reduce", "report"]


def ticks_of(info: FeedInfo) -> TicksAre:
    """Meaning of a feed's ticks. Raises ConfigurationError where its files do not agree."""
    if info.ticks is None:
        raise ConfigurationError(
            "the merged files differ: only some have single orders, or fills that only report (DBN): give handlers by "
            "symbol, with book= and fills="
        )
    return info.ticks


def fills_of(info: FeedInfo) -> Fills:
    """Effect of a fill in a feed. Raises ConfigurationError where its files do not agree."""
    return "report" if ticks_of(info) in ("dbn", "dbn-orders") else "reduce"


def flags_of(info: FeedInfo) -> Flags:
    """Meaning of the bits of a feed's flags. Raises ConfigurationError where its files do not agree."""
    if info.flags is None:
        raise ConfigurationError(
            "the merged files differ: one bit of their flags has two meanings: replay files of one format at a time, "
            "or say by flags= what the bits of each file mean"
        )
    return info.flags


_WEEK: Final = 7 * 86400 * 10**9


def check_intervals(every: int, bars: int, days_of: str | None = None) -> None:
    """Raises ConfigurationError where ready-made bars of ``bars`` ns cannot fill intervals of ``every`` ns.

    ``days_of``: the zone whose days the bars are, where intervals are aligned to the UNIX epoch.
    """
    if not bars:
        raise ConfigurationError(
            "the merged files differ: only some have ready-made bars, or bars of one length: replay them apart"
        )
    if every % bars:
        raise ConfigurationError(
            f"every: the feed has ready-made bars of {span_text(bars)}, which do not fill intervals of "
            f"{span_text(every)}: give a multiple of {span_text(bars)}"
        )
    if bars % _WEEK == 0:
        raise ConfigurationError(
            "every: the feed's bars are weeks from Monday on, and intervals of 7d begin on Thursdays, as the UNIX "
            "epoch does: leave every out, and for bars give ticks=1"
        )
    if days_of is not None:
        raise ConfigurationError(
            f"every: the feed's bars are days of {days_of}, and without sessions an interval is a day of UTC: give "
            f"sessions='00:00-00:00 {days_of} mon-sun'"
        )


def usual_for(fills: Fills | None) -> Flags:
    """Flags of ticks of which no feed is known."""
    from strand.feeds.base import usual_flags

    return usual_flags("dbn" if fills == "report" else "plain")


def source_for(on: On) -> TradeSource | None:
    """Source of a handler's trades, as long as no feed is known; None for a handler of ticks. Raises
    ConfigurationError."""
    source = TradeSource(TradeRules(flags=usual_for(None)), assumed=True)
    return source if one_of("on", on, ("tick", "trade")) == 1 else None


def trades_of(info: FeedInfo) -> TradeSource:
    """Source of a feed's trades. Raises ConfigurationError where its files do not agree."""
    ticks = ticks_of(info)
    rules = TradeRules(
        orders=ticks in ("orders", "dbn-orders"),
        fills_report=fills_of(info) == "report",
        flags=flags_of(info),
        sizeless=not info.has_sizes,
    )
    return TradeSource(rules, books=ticks == "orders")
