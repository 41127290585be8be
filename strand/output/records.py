"""The columns of an output's records, and the feed of a merge that each tick came from.

A record has four columns before the declared ones, and five where a run merges several feeds:

- ``number`` (i8): the place of its tick in the order of publishing, from 0. ``AT_TIMER`` where a timer emitted it,
  ``AT_END`` where the end of the run did.
- ``sequence`` (i8): the feed's own, of its tick. ``NO_SEQUENCE`` where no tick emitted it, and where ticks have no such
  field.
- ``ts`` (i8): the feed's time, ns since the UNIX epoch: the greatest ``ts_recv`` up to its tick, or the timer's time.
- ``instrument_id`` (u4): the symbol.
- ``feed`` (i4): the feed of its tick, by its place in ``info.details["feeds"]``. ``NO_FEED`` where no tick emitted it,
  or a clear record between two days did.

Parquet, Arrow and CSV have null for negative numbers, ``NO_SEQUENCE`` and ``NO_FEED``.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.units import COUNT, TIME, declare

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


#: ``number`` of a record that a timer emitted, and of one that the end of the run emitted.
AT_TIMER = -1
AT_END = -2
#: ``sequence`` of a record without one.
NO_SEQUENCE = -1
HEAD = (
    ("number", declare(COUNT, none=(AT_TIMER, AT_END))),
    ("sequence", declare(COUNT, none=(NO_SEQUENCE,))),
    ("ts", TIME),
    ("instrument_id", np.dtype("<u4")),
)
HEAD_BYTES = 28
FEED = declare(COUNT, "<i4", none=(NO_FEED,))
_OFFSETS = (0, 8, 16, 24, HEAD_BYTES)

Bytes = npt.NDArray[np.uint8]


def merged_dtype(declared: np.dtype[Any], *, merge: bool = False) -> np.dtype[Any]:
    """The dtype of an output's records, from the dtype that its handler declares. ``merge``: the run merges feeds."""
    assert declared.fields is not None
    assert declared.names is not None
    head = [*HEAD, ("feed", FEED)] if merge else HEAD
    before = HEAD_BYTES + (FEED.itemsize if merge else 0)
    return np.dtype(
        {
            "names": [*(name for name, _ in head), *declared.names],
            "formats": [*(form for _, form in head), *(declared.fields[n][0] for n in declared.names)],
            "offsets": [*_OFFSETS[: len(head)], *(before + declared.fields[n][1] for n in declared.names)],
            "itemsize": before + declared.itemsize,
        }
    )


def with_feed(records: Bytes, n: int, feeds: TickFeeds, into: Bytes) -> None:
    """Copies ``n`` records, 1 or more, and inserts the feed of each after its head."""
    declared = len(records) // n - HEAD_BYTES
    narrow: Any = records.view([("head", f"V{HEAD_BYTES}"), ("declared", f"V{declared}")])
    wide: Any = into.view([("head", f"V{HEAD_BYTES}"), ("feed", FEED.str), ("declared", f"V{declared}")])
    wide["head"] = narrow["head"]
    wide["feed"] = feeds.of(np.ndarray(n, "<i8", records, 0, (HEAD_BYTES + declared,)))
    wide["declared"] = narrow["declared"]
