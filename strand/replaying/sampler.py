"""The sampler: looks on while a run goes on, at a bounded cost in time and memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import COUNTERS
from strand.binding.gate import Thread
from strand.dicts import ByName
from strand.dispatch.dispatcher import Dispatcher
from strand.dispatch.engine_run import engine_interior
from strand.threads import mended

if TYPE_CHECKING:
    from strand.replaying.rows_over_time import RowSampler
    from strand.replaying.timeline import Timeline

__all__ = ["NoSampler", "Sampler"]

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
    """Samples a dispatcher's counters in a thread of its own, and rows of a few symbols in the publishing thread.

    ``begun``: ``time.perf_counter()`` at the run's beginning, ``watch``: names of symbols whose rows to keep, or how
    many of the busiest; None keeps none. ``on=False`` makes one that does nothing and whose timeline is None. A context
    manager: the thread lives in the block.
    """

    def __init__(
        self, dispatcher: Dispatcher, begun: float, watch: int | Sequence[str] | None, *, on: bool = True
    ) -> None:
        self._on = on
        self._dispatcher = dispatcher
        self._begun = begun
        self._interval_s = FIRST_INTERVAL_S
        # A Background waits for items, and this thread waits for the next moment, until this lock is released. A
        # lock is waited for in one call, and an event in a dozen.
        self._going_on = threading.Lock()
        self._thread = Thread(self._run, "strand-sampler", once=True)
        self._rows: RowSampler | None = None
        if on and watch not in (None, 0):
            from strand.replaying.rows_over_time import RowSampler

            self._rows = RowSampler(dispatcher, watch)
            dispatcher.time_handlers()
        self._cores = os.sched_getaffinity(0)
        self._feed_ns = 0
        self._feed_now: Callable[[], int] = int
        self._n = 0
        self._read = dispatcher.counters_reader()
        room = CAPACITY if on else 0
        self._at_s = np.zeros(room)
        self._feed = np.zeros(room, np.uint64)
        self._counters = np.zeros((room, len(self._read()), len(_COLUMNS)), np.uint64)

    def __enter__(self) -> Self:
        if self._on:
            self._sample()
            self._going_on.acquire()
            mended(self._thread.start, self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def parts(
        self, batch: npt.NDArray[Any], by_symbol: npt.NDArray[np.int64], names: Sequence[str]
    ) -> Iterator[npt.NDArray[Any]]:
        """The batch in parts, to be published one after the other: rows are looked at in between. ``by_symbol``: ticks
        a symbol up to the batch, ``names``: of symbols, as far as the feed knows them."""
        if not self._on:
            yield batch
            return
        if len(batch):
            self._feed_ns = max(self._feed_ns, int(batch["ts_recv"][-1]))
        if self._rows is None:
            yield batch
        else:
            yield from self._rows.parts(batch, by_symbol, names)

    @property
    def wants_batches(self) -> bool:
        """True if the sampler looks at rows between parts of a batch."""
        return self._rows is not None

    def follow(self, feed_ns: Callable[[], int]) -> None:
        """Takes the feed's time from this function from now on, for there are no batches to tell it."""
        self._feed_now = feed_ns

    def drained(self, by_symbol: npt.NDArray[np.int64], names: Sequence[str]) -> None:
        """Samples the last moment, when all has been handled."""
        if self._on:
            self._end()
            self._sample()
            if self._rows is not None:
                self._rows.look_at_end(self._feed_ns, by_symbol, names)

    def timeline(self, by_symbol: npt.NDArray[np.int64], names: Sequence[str]) -> Timeline | None:
        """Timeline of the samples. ``names``: all symbols that the feed came to know."""
        if not self._on:
            return None
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
            symbols=ByName("watched symbol", {} if self._rows is None else self._rows.timelines(by_symbol, names)),
        )

    def _end(self) -> None:
        if self._going_on.locked():
            self._going_on.release()
        self._thread.join()

    def _run(self) -> None:
        # Not on the core that its maker, the publisher, is pinned to.
        with suppress(OSError):  # where that is refused the publisher is not pinned either
            os.sched_setaffinity(0, self._cores)
        # The dispatcher stops also where an interrupt has cut the end of this thread short.
        while not self._going_on.acquire(timeout=self._interval_s) and not engine_interior(self._dispatcher).is_closing:
            self._sample()

    def _sample(self) -> None:
        if self._n == CAPACITY:
            self._n //= 2
            for kept in (self._at_s, self._feed, self._counters):
                kept[: self._n] = kept[::2].copy()
            self._interval_s *= 2
        self._at_s[self._n] = time.perf_counter() - self._begun
        self._feed[self._n] = max(self._feed_ns, self._feed_now())
        np.take(self._read(), _PICKED, axis=1, out=self._counters[self._n])
        self._n += 1


class NoSampler:
    """Sampler of a plain loop, which has no counters to look at from outside."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def parts(self, batch: npt.NDArray[Any], *_: object) -> Iterator[npt.NDArray[Any]]:
        yield batch

    def drained(self, *_: object) -> None:
        pass

    def timeline(self, *_: object) -> None:
        pass


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    kept = array.copy()
    kept.flags.writeable = False
    return kept
