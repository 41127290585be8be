"""Feeds: readers that turn recorded files and generated markets into batches of ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strand.lazy import loading

if TYPE_CHECKING:
    from strand.feeds.base import BaseFeed, Feed, FeedInfo, Flags, Selection, TickBatch
    from strand.feeds.io.sources import InflateLimits
    from strand.feeds.live.join import join
    from strand.feeds.merge.adjustments import adjusted
    from strand.feeds.opening import open, read_symbols  # noqa: A004

__all__ = [
    "BaseFeed",
    "Feed",
    "FeedInfo",
    "Flags",
    "InflateLimits",
    "Selection",
    "TickBatch",
    "adjusted",
    "join",
    "open",
    "read_symbols",
]

_MODULES: Final = dict.fromkeys(__all__, "base") | {
    "InflateLimits": "io.sources",
    "adjusted": "merge.adjustments",
    "join": "live.join",
    "open": "opening",
    "read_symbols": "opening",
}


if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __getattr__ = loading(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
