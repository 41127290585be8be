"""A feed of an array, cut into batches as a test wants them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from strand.errors import TruncatedFeedError
from strand.feeds import FeedInfo, TickBatch
from strand.feeds.base import BaseFeed
from strand.feeds.synthetic.market import SyntheticFeed


class ArrayFeed(BaseFeed):
    """``ticks`` in batches of ``batch``, of single orders; ``fault``: it ends in an error. Names come to be known with
    ``learn_after`` ticks."""

    def __init__(
        self, ticks: Any, symbols: Sequence[str], batch: int = 4096, *, fault: bool = False, learn_after: int = 0
    ) -> None:
        super().__init__()
        self.ticks, self.batch, self.fault = ticks, batch, fault
        self._names, self._learn_after, self._given = list(symbols), learn_after, 0

    @property
    def info(self) -> FeedInfo:
        return FeedInfo("array", "memory", ticks="orders")

    @property
    def symbols(self) -> Sequence[str]:
        return self._names if self._given >= self._learn_after else []

    @property
    def max_symbols(self) -> int:
        return len(self._names)

    def batches(self) -> Iterator[TickBatch]:
        self._given = 0
        for at in range(0, len(self.ticks), self.batch):
            self._given = min(at + self.batch, len(self.ticks))
            yield self.ticks[at : at + self.batch]
        if self.fault:
            raise TruncatedFeedError("cut", offset=7)


@lru_cache(maxsize=4)
def synthetic_day(symbols: int = 20, messages: int = 3_000, seed: int = 5) -> tuple[Any, tuple[str, ...]]:
    """A generated day of orders: its ticks, and names by index."""
    feed = SyntheticFeed(symbols, messages, seed=seed, date="2026-01-05")
    ticks = np.concatenate([batch.copy() for batch in feed.batches()])
    ticks.flags.writeable = False
    return ticks, tuple(feed.symbols)
