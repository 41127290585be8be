"""Feeds: readers that turn recorded files and generated markets into batches of ticks."""

from __future__ import annotations

from strand.feeds._open import open_feed
from strand.feeds.base import Feed, FeedInfo, TickBatch

__all__ = ["Feed", "FeedInfo", "TickBatch", "open_feed"]
