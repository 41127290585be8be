"""Feeds: readers that turn recorded files and generated markets into batches of ticks."""

from __future__ import annotations

from strand.feeds.base import BaseFeed, Feed, FeedInfo, TickBatch
from strand.feeds.opening import open, read_symbols  # noqa: A004
from strand.feeds.selection import Selection

__all__ = ["BaseFeed", "Feed", "FeedInfo", "Selection", "TickBatch", "open", "read_symbols"]
