"""Feeds: readers that turn recorded files and generated markets into batches of ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strand.lazy import loading

if TYPE_CHECKING:
    from strand.feeds.base import BaseFeed as BaseFeed
    from strand.feeds.base import Feed as Feed
    from strand.feeds.base import FeedInfo as FeedInfo
    from strand.feeds.base import Flags as Flags
    from strand.feeds.base import Selection as Selection
    from strand.feeds.base import TickBatch as TickBatch
    from strand.feeds.io.sources import InflateLimits as InflateLimits
    from strand.feeds.live.join import join as join
    from strand.feeds.merge.adjustments import adjusted as adjusted
    from strand.feeds.opening import open as open  # noqa: A004
    from strand.feeds.opening import read_symbols as read_symbols

if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __all__, __getattr__, __dir__ = loading(
        __name__,
        {
            "base": "BaseFeed Feed FeedInfo Flags Selection TickBatch",
            "io.sources": "InflateLimits",
            "live.join": "join",
            "merge.adjustments": "adjusted",
            "opening": "open read_symbols",
        },
    )
