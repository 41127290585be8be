"""Feeds of ticks at hand, for tests of what is built on feeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from strand.feeds.base import BaseFeed, FeedInfo, TickBatch
from strand.ticks import zeros

__all__ = ["ArrayFeed", "keys", "stamped"]


class ArrayFeed(BaseFeed):
    """Ticks in memory by the batch, in one buffer that each batch overwrites, as readers of files do it.

    ``fault`` is raised behind the last tick. ``learns``: by batch, names that the table has from then on.
    """

    def __init__(
        self,
        ticks: TickBatch,
        symbols: Sequence[str] = (),
        *,
        path: str = "memory",
        batch_ticks: int = 3,
        venue: str | None = None,
        date: str | None = None,
        fault: Exception | None = None,
        max_symbols: int | None = None,
        learns: Sequence[Sequence[str]] = (),
    ) -> None:
        super().__init__()
        self.ticks, self.fault, self.learns = ticks, fault, learns
        self.names = list(symbols)
        self.batch_ticks = batch_ticks
        self.closed = self.ended = 0
        self.read = 0
        self._max_symbols = max_symbols
        span = (int(ticks["ts_recv"].min()), int(ticks["ts_recv"].max())) if len(ticks) else None
        self._info = FeedInfo("array", path, date, venue, span=span)

    @property
    def info(self) -> FeedInfo:
        return self._info

    @property
    def symbols(self) -> Sequence[str]:
        return self.names

    @property
    def max_symbols(self) -> int:
        return len(self.names) if self._max_symbols is None else self._max_symbols

    def batches(self) -> Iterator[TickBatch]:
        buffer = zeros(self.batch_ticks)
        self.read = 0
        try:
            for number, first in enumerate(range(0, len(self.ticks), self.batch_ticks)):
                batch = self.ticks[first : first + self.batch_ticks]
                buffer[:] = zeros(1)
                buffer[: len(batch)] = batch
                if number < len(self.learns):
                    self.names = list(self.learns[number])
                self.read += len(batch)
                yield buffer[: len(batch)]
            if self.fault is not None:
                raise self.fault
        finally:
            self.ended += 1

    def count(self) -> int | None:
        return len(self.ticks)

    def statistics(self) -> dict[str, int]:
        return {"ticks": self.read}

    def close(self) -> None:
        self.closed += 1


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
