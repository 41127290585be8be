"""A feed of single orders from an array, and a day of them."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from reading import ticks_of

from strand import testing
from strand.feeds.synthetic import SyntheticFeed

__all__ = ["order_feed", "synthetic_day"]

order_feed = partial(testing.feed, ticks="orders")


@lru_cache(maxsize=4)
def synthetic_day(symbols: int = 20, messages: int = 3_000, seed: int = 5) -> tuple[Any, tuple[str, ...]]:
    """A generated day of orders: its ticks, and names by index."""
    feed = SyntheticFeed(symbols, messages, seed=seed, date="2026-01-05")
    ticks = ticks_of(feed)
    ticks.flags.writeable = False
    return ticks, tuple(feed.symbols)
