"""Replaying a recorded file through handlers in one call."""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.dispatcher import Dispatcher
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.feeds import Feed, FeedInfo, TickBatch, open_feed
from strand.handlers import HandlerLike, resolve
from strand.rows import Rows
from strand.stats import Statistics
from strand.ticks import TICK

__all__ = ["ReplayResult", "replay"]


@dataclass(frozen=True)
class ReplayResult:
    """What a replay did.

    ``ticks``: handed to the dispatcher. ``wall_s``: asking for the first batch to the last handler's end; of it,
    ``setup_s`` went into making the dispatcher and starting its workers.
    ``feed_s``: time the publishing thread spent getting batches (reading, inflating, decoding); of it, ``input_wait_s``
    was spent waiting for the thread that inflates. ``statistics`` as of the end, ``rows`` the final state,
    ``feed_statistics`` the feed's own counts, ``failures`` of quarantined strands as text.
    """

    info: FeedInfo
    symbols: Sequence[str]
    rows: Rows
    ticks: int
    ticks_by_symbol: npt.NDArray[np.int64]
    wall_s: float
    setup_s: float
    feed_s: float
    input_wait_s: float
    workers: int
    n_strands: int
    statistics: Statistics
    feed_statistics: Mapping[str, int]
    failures: tuple[str, ...]

    @property
    def ticks_per_s(self) -> float:
        return self.ticks / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def limited_by(self) -> str:
        """What took most of the run: ``inflate``, ``feed`` (reading and decoding), ``dispatch`` (publishing,
        handlers) or ``set-up``."""
        parts = {
            "inflate": self.input_wait_s,
            "feed": self.feed_s - self.input_wait_s,
            "set-up": self.setup_s,
            "dispatch": self.wall_s - self.feed_s - self.setup_s,
        }
        return max(parts, key=lambda name: parts[name])

    @property
    def busy_share(self) -> float:
        """Share of the run's time that a worker ran handlers, averaged over workers."""
        busy = [w.busy_ns for w in self.statistics.workers if w.name != "publishers"]
        return sum(busy) / len(busy) / (self.wall_s * 1e9) if busy and self.wall_s > 0 else 0.0


def replay(
    source: str | Path | Sequence[str | Path] | Feed,
    handler: HandlerLike | None = None,
    *,
    handlers: Mapping[str, HandlerLike] | None = None,
    symbols: Sequence[str] | None = None,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
    feed_options: Mapping[str, Any] | None = None,
    pin_publisher: bool = True,
    **options: Any,
) -> ReplayResult:
    """Replays a file (or several, or a feed) through a handler, or ``handlers`` by symbol with ``"*"`` for the others.

    ``symbols``: names or globs (``"AA*"``) to keep; ticks of others are passed over. ``limit``: ticks to replay.
    ``progress`` is called with the ticks published so far. ``feed_options`` go to the file's reader, ``options`` to the
    Dispatcher. ``pin_publisher`` pins the calling thread for the length of the call to a core no worker has.

    Raises FeedError for a file that cannot be read, HandlerError, ConfigurationError.
    """
    feed = open_feed(source, **(feed_options or {})) if isinstance(source, str | Path | Sequence) else source
    if limit is not None and limit < 1:
        raise ConfigurationError(f"limit: {limit!r} is not a positive number of ticks")
    if handler is not None:
        handler = resolve(handler)
    start = time.perf_counter()
    try:
        batches = _Timed(feed.batches())
        first = next(batches, None)
        keep = _kept(feed, symbols)
        ready = time.perf_counter()
        dispatcher = Dispatcher(_names(feed), handler, handlers=handlers, **options)
        ticks = 0
        by_symbol = np.zeros(feed.capacity, dtype=np.int64)
        with _pinned(dispatcher, pin_publisher), dispatcher:
            setup_s = time.perf_counter() - ready
            for batch in _chain(first, batches):
                chosen = batch if keep is None else _select(batch, keep)
                if limit is not None and ticks + len(chosen) >= limit:
                    chosen = chosen[: limit - ticks]
                dispatcher.publish(chosen)
                by_symbol += np.bincount(chosen["instrument_id"], minlength=feed.capacity)
                ticks += len(chosen)
                if progress is not None:
                    progress(ticks)
                if ticks == limit:
                    break
            dispatcher.drain()
            wall_s = time.perf_counter() - start
            feed_statistics = dict(feed.statistics())
    finally:
        feed.close()
    dispatcher.learn_symbols(feed.symbols)
    return ReplayResult(
        info=feed.info,
        symbols=dispatcher.symbols,
        rows=dispatcher.rows,
        ticks=ticks,
        ticks_by_symbol=by_symbol,
        wall_s=wall_s,
        setup_s=setup_s,
        feed_s=batches.spent_s,
        input_wait_s=feed_statistics.get("wait_ns", 0) / 1e9,
        workers=dispatcher.workers,
        n_strands=dispatcher.n_strands,
        statistics=dispatcher.statistics(),
        feed_statistics=feed_statistics,
        failures=tuple(str(f) for f in dispatcher.failures),
    )


class _Timed(Iterator[TickBatch]):
    """An iterator that knows how long it was waited for."""

    def __init__(self, batches: Iterator[TickBatch]) -> None:
        self._batches = batches
        self.spent_s = 0.0

    def __next__(self) -> TickBatch:
        start = time.perf_counter()
        try:
            return next(self._batches)
        finally:
            self.spent_s += time.perf_counter() - start


def _chain(first: TickBatch | None, rest: Iterator[TickBatch]) -> Iterator[TickBatch]:
    if first is not None:
        yield first
        yield from rest


def _names(feed: Feed) -> Sequence[str]:
    """Names for every index the feed may use: those not known yet are empty."""
    known = list(feed.symbols[: feed.capacity])
    return known + [""] * (feed.capacity - len(known))


def _kept(feed: Feed, symbols: Sequence[str] | None) -> npt.NDArray[np.bool_] | None:
    """Which indices to keep, by names and globs; None: all."""
    if symbols is None:
        return None
    keep = np.zeros(feed.capacity, dtype=bool)
    names = list(feed.symbols)
    for pattern in symbols:
        found = [i for i, name in enumerate(names) if name and fnmatch.fnmatchcase(name, pattern)]
        if not found:
            raise UnknownSymbolError(f"symbols: nothing in {feed.info.path} is named {pattern!r}")
        keep[found] = True
    return keep


def _select(batch: TickBatch, keep: npt.NDArray[np.bool_]) -> TickBatch:
    # numpy copies records field by field, unless they look like one field.
    whole = np.ascontiguousarray(batch).view(f"V{TICK.itemsize}")
    chosen: TickBatch = whole[keep[batch["instrument_id"]]].view(TICK)
    return chosen


@contextmanager
def _pinned(dispatcher: Dispatcher, pin: bool) -> Iterator[None]:
    """Pins the calling thread to the first core that no worker is pinned to, if there is one."""
    allowed = os.sched_getaffinity(0)
    free = sorted(allowed - {w.core for w in dispatcher.statistics().workers if w.core is not None})
    if not pin or not free or len(free) == len(allowed):
        yield
        return
    os.sched_setaffinity(0, {free[0]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
