"""The feed of a merge that each tick came from, by the tick's number in the order of publishing."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["NO_FEED", "TickFeeds"]

#: The feed of a tick, or a record, that came from none of the feeds.
NO_FEED: Final = -1


class TickFeeds:
    """Keeps the feed of each tick from before the tick is published until its records are merged.

    It takes 4 bytes per tick until the tick is final. The engine counts them toward ``output_memory``, so a strand that
    is paused or quarantined does not let them grow without a bound.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: For each batch the number of its first tick, and the feeds of its ticks.
        self._batches: deque[tuple[int, npt.NDArray[np.int32]]] = deque()
        self._next = 0

    def add(self, feeds: npt.NDArray[np.int32]) -> None:
        """Adds the feeds of the ticks that are published next, shape (n,). The array may be reused."""
        with self._lock:
            self._batches.append((self._next, feeds.copy()))
            self._next += len(feeds)

    def of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The feed of each number, ``NO_FEED`` for those below 0. The others are in rising order, some repeated."""
        found = np.full(len(numbers), NO_FEED, np.int32)
        ticks = np.flatnonzero(numbers >= 0)
        if not len(ticks):
            return found
        wanted = numbers[ticks]
        with self._lock:
            batches = list(self._batches)
        for first, feeds in batches:
            begin, end = np.searchsorted(wanted, (first, first + len(feeds)))
            found[ticks[begin:end]] = feeds[wanted[begin:end] - first]
        return found

    def forget(self, below: int) -> None:
        """Removes the feeds of ticks below this number, which are not asked for any more."""
        with self._lock:
            while self._batches and self._batches[0][0] + len(self._batches[0][1]) <= below:
                self._batches.popleft()
