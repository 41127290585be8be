"""Which feed of a merge each tick came from, by its number in the order of publishing."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["NO_FEED", "TickFeeds"]

#: Of a tick, or a record, that came from none of the feeds.
NO_FEED: Final = -1


class TickFeeds:
    """Told of each batch before it is published; forgets what nobody will ask for any more.

    It takes 4 bytes per tick until the tick is final. The engine counts them toward ``output_memory``, so a strand that
    is paused or quarantined does not let them grow without a bound.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: The number of the first tick, and the feeds of it and those behind it.
        self._batches: deque[tuple[int, npt.NDArray[np.int32]]] = deque()
        self._next = 0

    def add(self, feeds: npt.NDArray[np.int32]) -> None:
        """Those of the ticks that are published next, shape (n,). The array may be reused."""
        with self._lock:
            self._batches.append((self._next, feeds.copy()))
            self._next += len(feeds)

    def of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The feed of each tick, by numbers of which those from 0 up do not fall; ``NO_FEED`` for what is below 0."""
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
        """Nobody will ask for ticks below this number."""
        with self._lock:
            while self._batches and self._batches[0][0] + len(self._batches[0][1]) <= below:
                self._batches.popleft()
