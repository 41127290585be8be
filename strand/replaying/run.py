"""A replay under way: batches go through a dispatcher and are counted, whatever ends it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from strand.binding.columns import Seen, count_by_symbol
from strand.binding.feeder import Feeder
from strand.dicts import ByName
from strand.dispatch.base import interior
from strand.dispatch.dispatcher import Dispatcher
from strand.errors import ConfigurationError, FeedError, RecordTypeError
from strand.feeds import Feed, TickBatch
from strand.feeds.formats.decoded import DecodedFeed
from strand.feeds.merge.selected import are_wanted, feeds_of_batch, skipped_of, tick_feeds_of
from strand.handlers import Handler
from strand.handlers.native_handlers import NativeHandler
from strand.output.emitted import EmittedRecords
from strand.output.output import output_digests
from strand.output.outputs import Outputs
from strand.output.records import TickFeeds
from strand.replaying.days import NoDays
from strand.replaying.recorder import NoRecorder
from strand.replaying.result import ReplayResult
from strand.replaying.run_result import inflates
from strand.replaying.sampler import NoSampler, Sampler
from strand.replaying.snapshots import Snapshot, snapshots_for
from strand.threads import interrupts_later
from strand.ticks import KIND_TRADE, empty, named

if TYPE_CHECKING:
    from strand.caller.run import CallerRun
    from strand.replaying.pacing import Pacer

__all__ = ["Run", "Timed", "add_feed_column", "chain", "pinned"]

_NOTHING = empty(0)
#: Seconds between two calls of ``progress`` while nothing is published any more.
_PROGRESS_S: Final = 0.1


class Run:
    """State of a run: the ticks published so far, in all (``ticks``), by symbol and otherwise (``seen``). ``ended_by``
    is the cause of an early end, if there was one."""

    def __init__(
        self,
        feed: Feed,
        dispatcher: Dispatcher | CallerRun,
        recorder: NoRecorder,
        sampler: Sampler | NoSampler,
        days: NoDays,
        *,
        position: int = 0,
        snapshot: Snapshot | None = None,
        wanted: Sequence[str] = (),
        handlers: Sequence[Handler] = (),
    ) -> None:
        self._straddling = Straddling(handlers, feed)
        self._feed = feed
        self._dispatcher = dispatcher
        self._inside = interior(dispatcher)
        self._recorder = recorder
        self._sampler = sampler
        self._days = days
        self._snapshots = snapshots_for(snapshot, feed, dispatcher)
        self._uncounted: TickBatch = _NOTHING
        self._latest: TickBatch = _NOTHING
        self._feeder: Feeder | None = None
        self._finished = self._inside.finished_reader()
        self.by_symbol = np.zeros(feed.max_symbols, dtype=np.int64)
        self.seen = Seen()
        self.unpriced = self.unended = np.zeros(feed.max_symbols, dtype=np.int64)
        self.ended_by: FeedError | KeyboardInterrupt | None = None
        self._wanted = wanted
        self._tick_feeds = add_feed_column(feed, dispatcher.outputs)
        #: True if the next batch's beginning may have been passed over.
        self._cut = position > 0

    def pieces(self, batches: Iterator[TickBatch]) -> Iterator[TickBatch]:
        """The batches to publish: cut at the run's rests, and with the names of their symbols, which are written beside
        the records of their ticks."""
        named = self._snapshots.cut(self._named(batches), self.by_symbol)
        return self._recorder.cut(self._days.cut(named, self.by_symbol))

    @property
    def ticks(self) -> int:
        """Number of ticks that have been published and counted. C counts them by symbol in the same call, so an
        interrupt comes before or after both."""
        return self.seen.ticks

    @property
    def may_feed(self) -> bool:
        """Tells whether the feed's decoder may publish as it decodes: the batches are the feed's own, and nobody wants
        to see them."""
        return (
            isinstance(self._feed, DecodedFeed)
            and self._feed.takes_feeder
            and not len(self._dispatcher.outputs)
            and not self._inside.wants_names
            and type(self._recorder) is NoRecorder
            and not self._days.on
            and not self._snapshots.sees_batches
            and not self._straddling.looks
            and isinstance(self._sampler, Sampler)
            and not self._sampler.wants_batches
        )

    def publish(
        self,
        pieces: Iterator[TickBatch],
        *,
        fed: Timed | None,
        limit: int | None,
        progress: Callable[[int], None] | None,
    ) -> None:
        """Publishes up to ``limit`` ticks, and has all of them handled.

        A feed's fault and a KeyboardInterrupt end the publishing (``ended_by``): what is published by then is handled.
        Another interrupt meanwhile is raised.

        Args:
            pieces: What ``pieces`` gives.
            fed: The feed's own batches, of which all after the first are published as they are decoded.
            limit: The number of ticks to stop after.
            progress: Called with the number of ticks that are handled or dropped.
        """
        for method, function in (("follow", self._feed_ns), ("given", lambda: self.ticks)):
            if (hears := getattr(progress, method, None)) is not None:
                hears(function)
        try:
            for batch in pieces:
                self._uncounted = chosen = batch if limit is None else batch[: limit - self.ticks]
                for part in self._sampler.parts(chosen, self.by_symbol, self._feed.symbols):
                    self._dispatcher.publish(part)
                with interrupts_later():
                    count_by_symbol(chosen, self.by_symbol, self.seen)
                    self._uncounted = _NOTHING
                    self._recorder.published(chosen, self.by_symbol)
                    self._snapshots.published(chosen)
                    self._straddling.published(chosen)
                if progress is not None:
                    self._latest = chosen
                    progress(self._finished())
                if self.ticks == limit:
                    break
                if fed is not None:
                    self._feed_from(fed, limit, progress)
                    break
            self._drain(progress)
        except FeedError as error:
            self.ended_by = error
            self._drain(progress)
        except KeyboardInterrupt as error:
            self.ended_by = error
            self._dispatcher.drain()
            self.count_the_rest()

    def _drain(self, progress: Callable[[int], None] | None) -> None:
        while not self._dispatcher.drain(None if progress is None else _PROGRESS_S):
            assert progress is not None
            progress(self._finished())
        if progress is not None and self.ticks:
            progress(self._finished())

    def count_the_rest(self, *, runs: bool = True) -> None:
        """Counts the ticks of a batch that was published before the run ended, but not yet counted. ``runs``: the
        dispatcher has not stopped, so it can be brought to rest there."""
        more = self._dispatcher.statistics().accepted - self.ticks
        if 0 < more <= len(self._uncounted):
            first = self._inside.first_of(self._uncounted, more)
            count_by_symbol(first, self.by_symbol, self.seen)
            self._straddling.published(first)
            if runs:
                self._recorder.published(first, self.by_symbol)
                self._snapshots.published(first)

    def _feed_from(self, batches: Timed, limit: int | None, progress: Callable[[int], None] | None) -> None:
        assert isinstance(self._sampler, Sampler)
        left = None if limit is None else limit - self.ticks
        feeder = self._inside.feeder(self.by_symbol, self.seen, left)
        assert feeder is not None
        self._sampler.follow(lambda: feeder.feed_ns)
        self._feeder = feeder
        try:
            for _ in batches.feed(feeder):
                if progress is not None:
                    progress(self._finished())
                if self.ticks == limit:
                    break
        finally:
            self._uncounted = feeder.held

    def _feed_ns(self) -> int | None:
        """The time of the latest tick that was published, in ns since the epoch; None before the first."""
        if self._feeder is not None and self._feeder.feed_ns:
            return self._feeder.feed_ns
        return int(self._latest["ts_recv"][-1]) if len(self._latest) else None

    def end(self, *, with_ends: bool) -> None:
        """All that was published has been handled: to be called before the dispatcher stops. ``with_ends``: the run
        ends what is open."""
        self._recorder.ending(self.by_symbol, self.ended_by)
        self._snapshots.end(self.by_symbol)
        self._sampler.drained(self.by_symbol, self._feed.symbols)
        self.unpriced, self.unended = self._inside.take_unfit(with_open=with_ends)

    def so_far(self, begun: float, batches: Timed, pacer: Pacer | None) -> ReplayResult:
        """The result of a run that has begun at a time of ``perf_counter``, and was ended by an error."""
        self._dispatcher.learn_symbols(self._feed.symbols)
        self.count_the_rest(runs=False)
        wall_s = time.perf_counter() - begun
        return self.result(wall_s, 0.0, batches.spent_s, dict(self._feed.statistics()), pacer)

    def result(
        self,
        wall_s: float,
        setup_s: float,
        feed_s: float,
        feed_statistics: dict[str, int],
        pacer: Pacer | None,
    ) -> ReplayResult:
        """Result of the run, once it has ended and the dispatcher knows all symbols."""
        dispatcher, outputs = self._dispatcher, self._dispatcher.outputs
        if self._wanted:
            dispatcher.rows.show_only(are_wanted(self._feed, self._wanted))
        # A feed may have room for many more symbols than it had.
        ticked = np.flatnonzero(self.by_symbol)
        symbols = dispatcher.symbols.first(int(ticked[-1]) + 1 if len(ticked) else 0)
        return ReplayResult(
            info=self._feed.info,
            symbols=symbols,
            rows=dispatcher.rows,
            baskets=dispatcher.baskets,
            ticks=self.ticks,
            ticks_by_symbol=self.by_symbol,
            seen=self.seen.counts(),
            unpriced=self.unpriced,
            unended=self.unended,
            straddling=self._straddling.counts,
            contracts=self._inside.contracts_used(),
            wall_s=wall_s,
            setup_s=setup_s,
            feed_s=feed_s,
            input_wait_s=feed_statistics.get("wait_ns", 0) / 1e9,
            workers=dispatcher.workers,
            n_strands=dispatcher.n_strands,
            statistics=dispatcher.statistics(),
            feed_statistics=feed_statistics,
            skipped=skipped_of(self._feed),
            failures=tuple(str(f) for f in dispatcher.failures),
            outputs=_collected(outputs),
            written=ByName("file of an output", _written(outputs)),
            _books=dispatcher.books if dispatcher.keeps_books else None,
            pacing=None if pacer is None else pacer.statistics(),
            objects=dispatcher.objects,
            timeline=self._sampler.timeline(self.by_symbol, dispatcher.symbols),
            intervals=self._recorder.intervals,
            days=self._days.days,
            _snapshots=self._snapshots.snapshots(),
            _digests=partial(output_digests, outputs),
        )

    def _named(self, batches: Iterator[TickBatch]) -> Iterator[TickBatch]:
        known = -1
        for batch in batches:
            if self._tick_feeds is not None:
                self._tick_feeds.add(feeds_of_batch(self._feed, len(batch), cut=self._cut))
                self._cut = self._cut and not len(batch)
            wants = len(self._dispatcher.outputs) or self._inside.wants_names
            if wants and len(self._feed.symbols) != known:
                self._dispatcher.learn_symbols(self._feed.symbols)
                known = len(self._feed.symbols)
            yield batch


_DAY: Final = 86_400_000_000_000
#: A session of a whole day is longer where clocks are set back (csrc/measures/calendar.h).
_SET_BACK: Final = 7_200_000_000_000


class Straddling:
    """Ready-made bars that begin before the session or interval that they count in, by symbol: ``counts``.

    Args:
        handlers: The run's handlers, of which some may have sessions or intervals.
        feed: The feed, which may have ready-made bars.
    """

    def __init__(self, handlers: Sequence[Handler], feed: Feed) -> None:
        self.counts = np.zeros(feed.max_symbols, np.int64)
        self._bars = feed.info.bars or 0
        alone = [part for handler in handlers for _, part in handler.parts_as("")]
        known = [one.intervals for one in alone if isinstance(one, NativeHandler) and one.intervals and self._bars]
        grids = [(every, np.frombuffer(table, np.int64)[2:].reshape(-1, 2)) for every, table in sorted(set(known))]
        self._grids = [(every, table) for every, table in grids if every or len(table)]

    @property
    def looks(self) -> bool:
        """True if it has to be told of batches."""
        return bool(self._grids)

    def published(self, batch: TickBatch) -> None:
        """Counts the bars of a batch, each by its close."""
        if not self._grids:
            return
        closes = batch[(batch["kind"] == KIND_TRADE) & (batch["depth"] == _CLOSE) & (batch["ts_recv"] > 0)]
        last, begins = closes["ts_recv"] - 1, closes["ts_event"]
        begins = np.where(begins > last, closes["ts_recv"] - self._bars, begins)
        across = np.zeros(len(closes), np.bool_)
        for every, table in self._grids:
            across |= begins < _starts(last, every, table)
        np.add.at(self.counts, closes["instrument_id"][across], 1)


#: The ``depth`` of a ready-made bar's close.
_CLOSE: Final = 3


def _starts(times: npt.NDArray[np.int64], every: int, table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The start of the session, or of its interval, that each time is in; 0 where it is in none."""
    starts, ends = np.zeros_like(times), np.full_like(times, np.iinfo(np.int64).max)
    if len(table):
        at = np.searchsorted(table[:, 0], times, side="right") - 1
        inside = (at >= 0) & (times < table[at, 1])
        starts, ends = np.where(inside, table[at, 0], 0), np.where(inside, table[at, 1], 0)
    if not every:
        return starts
    found = starts + (times - starts) // every * every
    if every == _DAY:
        found = np.where((found > starts) & (ends - found <= _SET_BACK), found - every, found)
    return np.where(ends > 0, found, 0)


def _collected(outputs: Outputs) -> ByName[EmittedRecords]:
    there = {name: output.array() for name, output in outputs.items() if output.is_collected}
    files = {name: f"it was written to {path}" for name, (path, _) in _written(outputs).items()}
    return ByName("output", there, {name: "it went to a sink" for name in outputs if name not in there} | files)


def _written(outputs: Outputs) -> dict[str, tuple[Path, int]]:
    return {name: (output.path, output.records) for name, output in outputs.items() if output.path}


def add_feed_column(feed: Feed, outputs: Outputs) -> TickFeeds | None:
    """Gives records of a merge's ticks a column for their feed. Returns what has to know the feed of each tick before
    it is published; None: the feed is no merge, or nothing is emitted. The outputs have not started."""
    if not len(outputs) or tick_feeds_of(feed) is None:
        return None
    tick_feeds = TickFeeds()
    outputs.add_feed_column(tick_feeds)
    return tick_feeds


class Timed(Iterator[TickBatch]):
    """An iterator that knows how long it was waited for."""

    def __init__(self, batches: Iterator[TickBatch]) -> None:
        self._batches = batches
        self.spent_s = 0.0

    def __next__(self) -> TickBatch:
        start = time.perf_counter()
        try:
            batch = next(self._batches)
        finally:
            self.spent_s += time.perf_counter() - start
        # A feed of one's own may give anything; None would pass for its end.
        if not isinstance(batch, np.ndarray) or batch.dtype.names is None:
            what = f"an array of {batch.dtype}" if isinstance(batch, np.ndarray) else type(batch).__name__
            raise RecordTypeError(f"batches: the feed gives {what}, and not arrays of strand.TICK")
        return named(batch)

    def feed(self, feeder: Feeder) -> Iterator[None]:
        """Lets a feeder take what is left, and comes back now and then."""
        assert isinstance(self._batches, Generator)
        sent: Feeder | None = feeder
        while True:
            start, published_s = time.perf_counter(), feeder.publishing_s
            try:
                batch = self._batches.send(sent)
            except StopIteration:
                return
            finally:
                self.spent_s += time.perf_counter() - start - (feeder.publishing_s - published_s)
            if len(batch):
                raise RecordTypeError(
                    f"batches: {len(batch)} ticks did not go through the feeder that should take them"
                )
            sent = None
            yield


def chain(first: TickBatch | None, rest: Iterator[TickBatch]) -> Iterator[TickBatch]:
    """The first batch, if there is one, and the others."""
    if first is not None:
        yield first
        yield from rest


@contextmanager
def pinned(dispatcher: Dispatcher | CallerRun, feed: Feed, asked: bool | None) -> Iterator[None]:
    """Pins the calling thread to the first core that no worker is pinned to, if there is one; unless ``asked`` says so,
    not where a thread inflates the feed's file and there is one such core only.

    The inflating thread wants the core that a publisher waits on. Pinned, a publisher keeps it for itself (books from
    .gz on four cores: 7.4 million messages a second, 8.7 where the publisher is free to give way). Where there are two,
    each has its own: 0.96 to 1.00 of the time that it takes with both of them free.
    """
    allowed = os.sched_getaffinity(0)
    free = sorted(allowed - {w.core for w in dispatcher.statistics().workers if w.core is not None})
    apart = isinstance(feed, DecodedFeed) and inflates(feed.info) and len(free) > 1
    pin = apart or not inflates(feed.info) if asked is None else asked
    if not pin or not free or len(free) == len(allowed):
        yield
        return
    try:
        os.sched_setaffinity(0, {free[0]})
    except OSError as error:
        if asked:
            raise ConfigurationError(
                "pin_publisher",
                f"the system refused to pin this thread to core {free[0]} ({error.strerror}): leave the option out",
            ) from error
        pin = False  # workers will be refused theirs as well, and the statistics say so
    if not pin:
        yield
        return
    try:
        if apart:
            assert isinstance(feed, DecodedFeed)
            feed.keep_reading_to(free[1:])
        yield
    finally:
        os.sched_setaffinity(0, allowed)
