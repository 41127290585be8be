"""The sampler: looks on while a run goes on, at a bounded cost in time and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from strand.background import Rounds
from strand.binding.engine_words import COUNTERS
from strand.dicts import ByName
from strand.dispatch.dispatcher import Dispatcher
from strand.dispatch.engine_run import engine_interior
from strand.feeds import Feed
from strand.threads import mended

if TYPE_CHECKING:
    from strand.replaying.rows_over_time import RowSampler
    from strand.replaying.timeline import Timeline

__all__ = ["Sampler", "rows_watched"]

#: Moments kept; when there are as many, every other one goes and the next are twice as far apart.
CAPACITY: Final = 512
#: Between two samples the code for one leaves the caches: it is dearer than it looks in a loop.
FIRST_INTERVAL_S: Final = 0.01

_COLUMNS: Final = (
    "accepted", "handled", "busy_ns",
    "failed", "lost", "dropped_newest", "dropped_oldest", "conflated", "dropped_quarantined", "shed",
)  # fmt: skip
_PICKED: Final = [COUNTERS.index(name) for name in _COLUMNS]


class Sampler:
    """Samples a dispatcher's counters in a thread of its own, which lives in the block of this context manager.

    ``begun``: ``time.perf_counter()`` at the run's beginning. ``feed_ns``: gives the time of the latest tick that was
    published, in ns since the epoch; None before the first. ``rows``: keeps rows of a few symbols.
    """

    def __init__(
        self, dispatcher: Dispatcher, begun: float, feed_ns: Callable[[], int | None], rows: RowSampler | None
    ) -> None:
        self._dispatcher = dispatcher
        self._begun = begun
        self._interval_s = FIRST_INTERVAL_S
        # Not on the core that its maker, the publisher, will be pinned to.
        cores = sorted(os.sched_getaffinity(0))
        self._rounds = Rounds(self._look, FIRST_INTERVAL_S, "strand-sampler", allowed=cores)
        self._rows = rows
        self._feed_ns = 0
        self._feed_now = feed_ns
        self._n = 0
        self._read = dispatcher.counters_reader()
        self._at_s = np.zeros(CAPACITY)
        self._feed = np.zeros(CAPACITY, np.uint64)
        self._counters = np.zeros((CAPACITY, len(self._read()), len(_COLUMNS)), np.uint64)

    def __enter__(self) -> Self:
        self._sample()
        mended(self._rounds.start, self._rounds.end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rounds.end()

    def drained(self) -> None:
        """Samples the last moment, when all has been handled."""
        self._rounds.end()
        self._sample()
        if self._rows is not None:
            self._rows.look_at_end(self._feed_ns)

    def timeline(self, names: Sequence[str]) -> Timeline:
        """Timeline of the samples. ``names``: all symbols that the feed came to know."""
        from strand.replaying.timeline import Timeline

        n, workers = self._n, self._dispatcher.workers
        slots = self._counters[:n]
        totals = slots.sum(axis=1)
        accepted, handled, dropped = totals[:, 0], totals[:, 1], totals[:, 3:].sum(axis=1)
        # Workers' slots are read before publishers': what was accepted may be a moment younger than what was handled.
        # Where publishers handle too, it may be a moment older: nothing is pending then.
        pending = np.maximum(accepted.astype(np.int64) - handled.astype(np.int64) - dropped.astype(np.int64), 0)
        by_worker = np.concatenate((slots[:, :workers], slots[:, workers:].sum(axis=1, keepdims=True)), axis=1)
        handler_ns, handler_ticks = self._dispatcher.handler_times()
        return Timeline(
            at_s=_frozen(self._at_s[:n]),
            feed_ns=_frozen(self._feed[:n]),
            accepted=_frozen(accepted),
            handled=_frozen(handled),
            dropped=_frozen(dropped),
            pending=_frozen(pending.astype(np.uint64)),
            worker_names=tuple(w.name for w in self._dispatcher.statistics().workers),
            worker_handled=_frozen(by_worker[:, :, 1]),
            worker_busy_ns=_frozen(by_worker[:, :, 2]),
            handler_ns=_frozen(handler_ns),
            handler_ticks=_frozen(handler_ticks),
            symbols=ByName("watched symbol", {} if self._rows is None else self._rows.timelines(names)),
        )

    def _look(self, _: bool) -> float | None:
        # The dispatcher stops also where an interrupt has cut the end of this thread short.
        if engine_interior(self._dispatcher).is_closing:
            return None
        self._sample()
        return self._interval_s

    def _sample(self) -> None:
        if self._n == CAPACITY:
            self._n //= 2
            for kept in (self._at_s, self._feed, self._counters):
                kept[: self._n] = kept[::2].copy()
            self._interval_s *= 2
        self._at_s[self._n] = time.perf_counter() - self._begun
        self._feed_ns = max(self._feed_ns, self._feed_now() or 0)
        self._feed[self._n] = self._feed_ns
        np.take(self._read(), _PICKED, axis=1, out=self._counters[self._n])
        self._n += 1


def rows_watched(
    dispatcher: Dispatcher, watch: int | Sequence[str] | None, counts: npt.NDArray[np.int64], feed: Feed
) -> RowSampler | None:
    """Makes what keeps rows of symbols: of those with these names, or of so many of the busiest; None: of none. Raises
    ConfigurationError."""
    if watch in (None, 0):
        return None
    from strand.replaying.rows_over_time import RowSampler

    rows = RowSampler(dispatcher, watch, counts, feed)
    dispatcher.time_handlers()
    return rows


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    kept = array.copy()
    kept.flags.writeable = False
    return kept
