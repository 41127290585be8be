"""Feeds of ticks at hand, for tests of what is built on feeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import reading
from hypothesis import strategies as st

from strand.errors import FeedError
from strand.feeds import Feed, TickBatch
from strand.feeds.base import BaseFeed
from strand.feeds.merge.feeds import MergedFeed, merge_feeds
from strand.testing import ListFeed
from strand.ticks import zeros

__all__ = ["TIMES", "ArrayFeed", "keys", "merged", "read", "read_until_fault", "stamped"]


class ArrayFeed(ListFeed):
    """Ticks by the batch. ``learns``: by batch, names that the table has from then on. ``ended``: how often an
    iteration did, and ``read``: ticks of the latest one."""

    def __init__(
        self,
        ticks: TickBatch,
        symbols: Sequence[str] = (),
        *,
        batch_ticks: int = 3,
        fault: Exception | None = None,
        max_symbols: int | None = None,
        learns: Sequence[Sequence[str]] = (),
        **info: Any,
    ) -> None:
        super().__init__(ticks, symbols, batches=batch_ticks, error=fault, max_symbols=max_symbols, **info)
        self.learns = learns
        self.ended = 0

    @property
    def read(self) -> int:
        return self.statistics()["ticks"]

    def batches(self) -> Iterator[TickBatch]:
        try:
            for number, batch in enumerate(super().batches()):
                if number < len(self.learns):
                    self.names = list(self.learns[number])
                yield batch
        finally:
            self.ended += 1


def stamped(times: Sequence[int], feed: int = 0, ids: Sequence[int] | int = 0) -> TickBatch:
    """Ticks of these receive times: ``publisher_id`` is the feed, ``sequence`` the position, ``order_id`` the id."""
    ticks = zeros(len(times))
    ticks["ts_recv"] = np.array(times, np.uint64)
    ticks["publisher_id"] = feed
    ticks["sequence"] = np.arange(len(ticks))
    ticks["instrument_id"] = ids
    ticks["order_id"] = ticks["instrument_id"]
    return ticks


def keys(ticks: TickBatch) -> list[tuple[int, int, int]]:
    """Receive time, feed and position of each tick."""
    return list(zip(ticks["ts_recv"].tolist(), ticks["publisher_id"].tolist(), ticks["sequence"].tolist(), strict=True))


#: Receive times that may run back.
TIMES = st.lists(st.integers(0, 60), max_size=40)


def read(feed: Feed, position: int = 0) -> TickBatch:
    """All ticks, copied before the next batch overwrites them."""
    return reading.ticks_of(feed.batches_from(position) if isinstance(feed, BaseFeed) else feed.batches())


def read_until_fault(feed: Feed) -> tuple[TickBatch, FeedError]:
    ticks, error = reading.read(feed.batches())
    assert error is not None
    return ticks, error


def merged(*feeds: Feed, batch_ticks: int = 7, **options: object) -> MergedFeed:
    return merge_feeds(feeds, batch_ticks=batch_ticks, **options)  # type: ignore[arg-type]
