"""A replay under way: one loop publishes the feed's ticks, up to the nearest stop each time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

import numpy as np
import numpy.typing as npt

from strand.background import Rounds
from strand.binding.columns import Seen, count_by_symbol
from strand.binding.engine_words import COUNTERS
from strand.binding.feeder import Feeder
from strand.dicts import ByName
from strand.dispatch.base import interior
from strand.dispatch.engine_run import engine_interior
from strand.errors import ConfigurationError, FeedError, RecordTypeError, StrictError, UnknownSymbolError
from strand.feeds import Feed, TickBatch
from strand.feeds.base import (
    as_base,
    batches_from,
    inflates,
    merges_in_blocks,
    skipped_of,
)
from strand.feeds.formats.decoded import DecodedFeed, Reading
from strand.feeds.merge.selected import are_wanted, feeds_of_batch, unknown_symbol
from strand.fixed import dataclass
from strand.handlers import Handler, HandlerLike
from strand.handlers.native_handlers import NativeHandler
from strand.handlers.sessions import sessions_in, table_in
from strand.output.emitted import EmittedRecords
from strand.output.output import Output, output_digests
from strand.output.outputs import Outputs
from strand.output.records import TickFeeds
from strand.replaying.options import Asked
from strand.replaying.result import ReplayResult
from strand.replaying.stops import Stop
from strand.symbols import near_symbol
from strand.threads import interrupts_later, mended
from strand.ticks import KIND_TRADE, empty, named
from strand.validate import MAXIMUM

if TYPE_CHECKING:
    from strand.caller.run import CallerRun
    from strand.dispatch.dispatcher import Dispatcher
    from strand.feeds.merge.feeds import MergedFeed, MergedReading
    from strand.replaying.days import DayRecorder
    from strand.replaying.pacing import Pacer
    from strand.replaying.recorder import Recorder
    from strand.replaying.snapshots import SnapshotRecorder
    from strand.replaying.timeline import RowSampler, Timeline
    from strand.replaying.until import Until

_NOTHING = empty(0)
#: Seconds between two calls of ``progress`` while nothing is published any more.
_PROGRESS_S: Final = 0.1


class Published:
    """Ticks that have been published so far: ``by_symbol``, shape (max_symbols,), and other facts of them (``seen``). C
    counts both in one call, so an interrupt comes before or after both."""

    def __init__(self, feed: Feed) -> None:
        self.by_symbol = np.zeros(feed.max_symbols, np.int64)
        self.seen = Seen()
        self.feeder: Feeder | None = None
        #: The time of the latest tick that went no way through a feeder.
        self.feed_ns: int | None = None

    @property
    def ticks(self) -> int:
        """Number of the ticks."""
        return self.seen.ticks

    def count(self, ticks: TickBatch) -> None:
        """Counts ticks that have been published."""
        count_by_symbol(ticks, self.by_symbol, self.seen)

    def time_ns(self) -> int | None:
        """The time of the latest tick, in ns since the epoch; None before the first."""
        fed = self.feeder.feed_ns if self.feeder is not None else 0
        return fed or None if self.feed_ns is None else max(fed, self.feed_ns)


@dataclass(frozen=True)
class Stops:
    """The stops of a run, in the order of their turns at a place: the rows that a sampler keeps are the first."""

    sampler: Sampler | None
    recorder: Recorder | None
    straddling: Straddling | None
    snapshots: SnapshotRecorder | None
    days: DayRecorder | None
    until: Until | None

    def __iter__(self) -> Iterator[Stop]:
        rows = None if self.sampler is None else self.sampler.rows
        every = rows, self.recorder, self.straddling, self.snapshots, self.days, self.until
        return (stop for stop in every if stop is not None)


class Run:
    """State of a run: the ticks ``published`` so far, and ``ended_by``, the cause of an early end, if there was one.

    Args:
        feed: The feed.
        dispatcher: The run that handles its ticks.
        published: Facts of the ticks, before the first one is published.
        stops: Objects that have something to do between ticks.
        wanted: The names and globs that were asked for.
        limit: The number of ticks to stop after.
        pacer: Says when ticks are due.
        in_part: Whether the feed's ticks before or behind some place were not asked for.
    """

    def __init__(
        self,
        feed: Feed,
        dispatcher: Dispatcher | CallerRun,
        published: Published,
        stops: Stops,
        *,
        wanted: Sequence[str],
        limit: int | None,
        pacer: Pacer | None,
        in_part: bool,
    ) -> None:
        self.published, self.setup_s = published, 0.0
        self.ended_by: FeedError | KeyboardInterrupt | None = None
        self._feed = feed
        self._dispatcher = dispatcher
        self._inside = interior(dispatcher)
        self._stops, self._all_stops = stops, [*stops]
        self._sampler = stops.sampler
        self._limit, self._in_part = limit, in_part
        self._until = stops.until
        #: Whether somebody asks for the time of the latest tick.
        self._tells_time = stops.sampler is not None
        self._pacer = pacer
        self._uncounted: TickBatch = _NOTHING
        self._finished = self._inside.finished_reader()
        self._is_drained = False
        handled = self._inside.handled_reader()
        as_base(feed).follow(
            lambda: self.published.ticks, lambda: self.published.ticks if self._is_drained else handled()
        )
        self._unpriced = self._unended = np.zeros(feed.max_symbols, dtype=np.int64)
        self._wanted = wanted
        self._outputs: Mapping[str, Output] = dispatcher.outputs if len(dispatcher.outputs) else {}
        self._learns = bool(self._outputs) or self._inside.wants_names
        self._known = -1
        self._tick_feeds = add_feed_column(feed, dispatcher.outputs)
        #: True if the next batch's beginning may have been passed over.
        self._cut = False

    def may_feed(self, source: Source) -> bool:
        """Tells whether the feed's decoder may publish as it decodes: both can, and nobody wants to see the ticks."""
        looks = self._learns or self._pacer or any(stop.sees_ticks for stop in self._all_stops)
        return source.feeds and self._inside.takes_feeder and not looks

    def publish(self, source: Source, progress: Callable[[int], None] | None) -> None:
        """Publishes ticks up to the run's end, and has all of them handled.

        A feed's fault and a KeyboardInterrupt end the publishing (``ended_by``): what is published by then is handled.
        Another interrupt meanwhile is raised.

        Args:
            source: The feed's ticks.
            progress: Called with the number of ticks that are handled or dropped.
        """
        for method, function in (("follow", self.published.time_ns), ("given", lambda: self.published.ticks)):
            if (hears := getattr(progress, method, None)) is not None:
                hears(function)
                self._tells_time = True
        feeds, self._cut = self.may_feed(source), source.begins_inside
        try:
            while (batch := source.take()) is not None:
                if self._publish_batch(batch, progress):
                    break
                if feeds:
                    self._feed_from(source, progress)
                    break
                if self._feed_blocks(source, len(batch), progress):
                    break
            else:
                if self._until is not None:
                    self._until.check_reached()
            self._drain(progress)
        except FeedError as error:
            self.ended_by = error
            self._drain(progress)
        except KeyboardInterrupt as error:
            self.ended_by = error
            self._dispatcher.drain()
            self.count_the_rest()

    def _publish_batch(self, batch: TickBatch, progress: Callable[[int], None] | None) -> bool:
        """Publishes a batch, up to the nearest stop each time. Returns True if the run ends in it."""
        if self._tick_feeds is not None:
            self._tick_feeds.add(feeds_of_batch(self._feed, len(batch), cut=self._cut))
            self._cut = self._cut and not len(batch)
        if self._learns and len(self._feed.symbols) != self._known:
            self._dispatcher.learn_symbols(self._feed.symbols)
            self._known = len(self._feed.symbols)
        end = None if self._until is None else self._until.end_in(batch)
        left = None if self._limit is None else self._limit - self.published.ticks
        n = len(batch)
        if end is not None or (left is not None and left < n):
            n = min(each for each in (n, end, left) if each is not None)
            batch = batch[:n]
        for stop in self._all_stops:
            stop.begin(batch)
        if self._pacer is not None:
            self._pacer.begin(batch)
        at = 0
        while True:
            to = n
            if at < n:
                for stop in self._all_stops:
                    stop.act(at)
                    place = stop.next(at)
                    to = to if place is None else min(to, place)
                if self._pacer is not None:
                    to = self._pacer.release(at, to)
            self._publish(batch if at == 0 and to == n else batch[at:to])
            if progress is not None:
                progress(self._finished())
            at = to
            if at >= n:
                break
        if n == 0 and (time_ns := as_base(self._feed).passed_ns) is not None:
            self._dispatcher.advance(time_ns)
        if self._until is not None and end == n:
            self._until.reach()
        return n in (end, left)

    def _publish(self, ticks: TickBatch) -> None:
        self._uncounted = ticks
        if self._tells_time and len(ticks):
            self.published.feed_ns = int(ticks["ts_recv"][-1])
        self._dispatcher.publish(ticks)
        with interrupts_later():
            self._count(ticks)
            self._uncounted = _NOTHING

    def _count(self, ticks: TickBatch) -> None:
        self.published.count(ticks)
        for stop in self._all_stops:
            stop.published(ticks)

    def _drain(self, progress: Callable[[int], None] | None) -> None:
        while not self._dispatcher.drain(None if progress is None else _PROGRESS_S):
            assert progress is not None
            progress(self._finished())
        self._is_drained = True
        if progress is not None and self.published.ticks:
            progress(self._finished())

    def count_the_rest(self, *, runs: bool = True) -> None:
        """Counts the ticks that were published before the run ended, but not yet counted. ``runs``: the dispatcher has
        not stopped, so it can be brought to rest there."""
        more = self._dispatcher.statistics().accepted - self.published.ticks
        if 0 < more <= len(self._uncounted):
            first, straddling = self._inside.first_of(self._uncounted, more), self._stops.straddling
            if runs:
                self._count(first)
                return
            self.published.count(first)
            if straddling is not None:
                straddling.published(first)

    def _feed_from(self, source: Source, progress: Callable[[int], None] | None) -> None:
        """Publishes all that is left through a feeder."""
        feeder = self._feeder()
        try:
            while source.feed(feeder):
                if progress is not None:
                    progress(self._finished())
                if self.published.ticks == self._limit:
                    break
        finally:
            self._uncounted = feeder.held

    def _feeder(self) -> Feeder:
        left = None if self._limit is None else self._limit - self.published.ticks
        self.published.feeder = self._inside.feeder(self.published.by_symbol, self.published.seen, left)
        return self.published.feeder

    def _feed_blocks(self, source: Source, passed: int, progress: Callable[[int], None] | None) -> bool:
        """Publishes what goes in blocks, which bring no new names, behind a batch of so many ticks. Returns True if the
        run ends there."""
        if self._pacer or not source.goes_in_blocks or not self._inside.takes_feeder or self._tick_feeds is not None:
            return False
        times = [stop.idle_until_ns for stop in self._all_stops]
        if None in times:
            return False
        until_ns = min((time for time in times if time is not None), default=MAXIMUM)
        feeder = self.published.feeder
        if feeder is None:
            feeder, passed = self._feeder(), 0
            source.offer(feeder)
        feeder.pass_by(passed, until_ns)
        try:
            while source.feed_blocks(feeder):
                if progress is not None:
                    progress(self._finished())
                if self.published.ticks == self._limit:
                    return True
        finally:
            self._uncounted = feeder.held
        return False

    def end(self, *, with_ends: bool) -> None:
        """Ends the stops, when all that was published has been handled and before the dispatcher stops. ``with_ends``:
        the run ends what is open, unless it was cut short."""
        if self._stops.recorder is not None:
            self._stops.recorder.ending(self.ended_by)
        if self._stops.snapshots is not None:
            self._stops.snapshots.end()
        if self._sampler is not None:
            self._sampler.drained()
        with_open = with_ends and not (self._until is not None and self._until.is_reached)
        self._unpriced, self._unended = self._inside.take_unfit(with_open=with_open)

    def so_far(self, begun: float, source: Source) -> ReplayResult:
        """The result of a run that has begun at a time of ``perf_counter``, and was ended by an error."""
        self._dispatcher.learn_symbols(self._feed.symbols)
        self.count_the_rest(runs=False)
        wall_s = time.perf_counter() - begun
        return self.result(wall_s, source.spent_s, dict(self._feed.statistics()))

    def _is_in_part(self) -> bool:
        """Tells whether the run may have left ticks of its symbols unread."""
        is_over = self.published.ticks == self._limit or (self._until is not None and self._until.is_reached)
        return self._in_part or is_over or self.ended_by is not None or as_base(self._feed).is_live

    def result(
        self,
        wall_s: float,
        feed_s: float,
        feed_statistics: dict[str, int],
    ) -> ReplayResult:
        """Result of the run, once it has ended and the dispatcher knows all symbols."""
        dispatcher, outputs, by_symbol = self._dispatcher, self._outputs, self.published.by_symbol
        stops, statistics = self._stops, dispatcher.statistics()
        if self._wanted:
            dispatcher.rows.show_only(are_wanted(self._feed, self._wanted))
        # A feed may have room for many more symbols than it had.
        ticked = np.flatnonzero(by_symbol)
        symbols = dispatcher.symbols.first(int(ticked[-1]) + 1 if len(ticked) else 0)
        return ReplayResult(
            info=self._feed.info,
            symbols=symbols,
            rows=dispatcher.rows,
            ticks=self.published.ticks,
            ticks_by_symbol=by_symbol,
            seen=self.published.seen.counts(),
            unpriced=self._unpriced,
            unended=self._unended,
            straddling=np.zeros_like(by_symbol) if stops.straddling is None else stops.straddling.counts,
            contracts=self._inside.contracts_used(),
            wall_s=wall_s,
            setup_s=self.setup_s,
            feed_s=feed_s,
            # Files of a merge may be waited for at the same time, each in its thread.
            input_wait_s=min(feed_statistics.get("wait_ns", 0) / 1e9, feed_s),
            workers=dispatcher.workers,
            n_strands=dispatcher.n_strands,
            statistics=statistics,
            feed_statistics=feed_statistics,
            skipped=skipped_of(self._feed),
            failures=tuple(str(f) for f in dispatcher.failures),
            outputs=_collected(outputs),
            written=ByName("file of an output", _written(outputs)),
            _in_part=self._is_in_part(),
            _books=dispatcher.books if dispatcher.keeps_books else None,
            pacing=None if self._pacer is None else self._pacer.statistics(),
            objects=dispatcher.objects,
            timeline=None
            if self._sampler is None
            else self._sampler.timeline(dispatcher.symbols, [w.name for w in statistics.workers]),
            intervals=() if stops.recorder is None else stops.recorder.intervals,
            days=() if stops.days is None else stops.days.days,
            _snapshots=None if stops.snapshots is None else stops.snapshots.snapshots(),
            _digests=partial(output_digests, outputs),
        )


def told_of(run: Run, result: ReplayResult, feed: Feed, wanted: Sequence[str], asked: Asked) -> ReplayResult:
    """Returns the result of a run that has ended, or raises the error that ends the replay with it."""
    failed: FeedError | UnknownSymbolError | KeyboardInterrupt | None = run.ended_by
    if failed is None and result.ticks != asked["limit"]:
        failed = (unknown_symbol(feed, wanted) if wanted else None) or _unwatched(asked, result)
    if failed is not None:
        failed.partial = result  # type: ignore[union-attr]
        raise failed
    if asked["strict"] and result.warnings:
        raise StrictError(result)
    return result


def _unwatched(asked: Asked, result: ReplayResult) -> UnknownSymbolError | None:
    """The error for symbols that ``watch`` or a snapshot names and the whole feed lacks."""
    watched = () if asked["watch"] is None or isinstance(asked["watch"], int) else asked["watch"]
    snapshot = asked["snapshot"]
    of_snapshot = () if snapshot is None or isinstance(snapshot, str) else snapshot.symbols or ()
    for option, given in (("watch (--report-symbols)", watched), ("snapshot: symbols", of_snapshot)):
        if names := [name for name in given if name not in result.symbols]:
            near = near_symbol(names[0], iter(result.symbols))
            named = ", ".join(map(repr, names))
            return UnknownSymbolError(f"{option}: nothing in {result.info.path} is named {named}{near}")
    return None


_DAY: Final = 86_400_000_000_000
#: A session of a whole day is longer where clocks are set back (csrc/measures/calendar.h).
_SET_BACK: Final = 7_200_000_000_000


class Straddling(Stop):
    """Ready-made bars that begin before the session or interval that they count in, by symbol: ``counts``.

    Args:
        handlers: The run's handlers, of which some may have sessions or intervals.
        feed: The feed, which may have ready-made bars.
    """

    def __init__(self, handlers: Sequence[Handler], feed: Feed) -> None:
        self.counts = np.zeros(feed.max_symbols, np.int64)
        self._bars = feed.info.bars or 0
        alone = [part for handler in handlers for part in handler.singles]
        known = [one.intervals for one in alone if isinstance(one, NativeHandler) and one.intervals and self._bars]
        grids = [(every, table_in(table)) for every, table in sorted(set(known))]
        self._grids = [(every, table) for every, table in grids if every or len(table)]

    @classmethod
    def of(cls, handlers: Sequence[HandlerLike | None], feed: Feed) -> Self | None:
        """Makes the counter of a run; None where there are no such bars or no sessions."""
        made = cls([like for like in handlers if isinstance(like, Handler)], feed)
        return made if made._grids else None

    def published(self, ticks: TickBatch) -> None:
        """Counts the bars of ticks, each by its close."""
        closes = ticks[(ticks["kind"] == KIND_TRADE) & (ticks["depth"] == _CLOSE) & (ticks["ts_recv"] > 0)]
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
        starts, ends = np.moveaxis(sessions_in(table, times), -1, 0)
    if not every:
        return starts
    found = starts + (times - starts) // every * every
    if every == _DAY:
        found = np.where((found > starts) & (ends - found <= _SET_BACK), found - every, found)
    return np.where(ends > 0, found, 0)


def _collected(outputs: Mapping[str, Output]) -> ByName[EmittedRecords]:
    there = {name: output.array() for name, output in outputs.items() if output.is_collected}
    files = {name: f"it was written to {path}" for name, (path, _) in _written(outputs).items()}
    return ByName("output", there, {name: "it went to a sink" for name in outputs if name not in there} | files)


def _written(outputs: Mapping[str, Output]) -> dict[str, tuple[Path, int]]:
    return {name: (output.path, output.records) for name, output in outputs.items() if output.path}


def add_feed_column(feed: Feed, outputs: Outputs) -> TickFeeds | None:
    """Gives records of a merge's ticks a column for their feed. Returns what has to know the feed of each tick before
    it is published; None: the feed is no merge, or nothing is emitted. The outputs have not started."""
    if not len(outputs) or as_base(feed).tick_feeds is None:
        return None
    tick_feeds = TickFeeds()
    outputs.add_feed_column(tick_feeds)
    return tick_feeds


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
        self.rows = rows
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
        if self.rows is not None:
            self.rows.look_at_end(self._feed_ns)

    def timeline(self, names: Sequence[str], worker_names: Sequence[str]) -> Timeline:
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
        untimed = np.zeros(len(self._dispatcher.symbols), np.uint64)
        handler_ns, handler_ticks = (untimed, untimed) if self.rows is None else self._dispatcher.handler_times()
        return Timeline(
            at_s=_frozen(self._at_s[:n]),
            feed_ns=_frozen(self._feed[:n]),
            accepted=_frozen(accepted),
            handled=_frozen(handled),
            dropped=_frozen(dropped),
            pending=_frozen(pending.astype(np.uint64)),
            worker_names=tuple(worker_names),
            worker_handled=_frozen(by_worker[:, :, 1]),
            worker_busy_ns=_frozen(by_worker[:, :, 2]),
            handler_ns=_frozen(handler_ns),
            handler_ticks=_frozen(handler_ticks),
            symbols=ByName("watched symbol", {} if self.rows is None else self.rows.timelines(names)),
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
    ConfigurationError where ticks have to go in blocks."""
    if watch is None:
        return None
    from strand.replaying.timeline import RowSampler

    rows = RowSampler(dispatcher, watch, counts, feed)
    dispatcher.time_handlers()
    return rows


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    kept = array.copy()
    kept.flags.writeable = False
    return kept


class Source:
    """The ticks of a feed from a position on: as batches, and from any batch on through a feeder, if it ``feeds``.

    ``in_blocks``: a feeder is to take them in blocks. ``limit``: how many are wanted. ``spent_s``: seconds in which the
    feed was waited for.
    """

    def __init__(self, feed: Feed, position: int, *, in_blocks: bool, limit: int | None) -> None:
        start = time.perf_counter()
        #: True if ticks of the feed are passed over.
        self.begins_inside = position > 0
        #: True if a feeder may take the ticks.
        self.feeds = False
        #: True if it may take some of them in blocks.
        self.goes_in_blocks = False
        self._batches: Iterator[TickBatch]
        if position == 0 and isinstance(feed, DecodedFeed) and feed.is_its_reading:
            self.feeds = feed.takes_feeder(in_blocks=in_blocks)
            self.goes_in_blocks = self.feeds
            self._batches = feed.reading(in_blocks=in_blocks, limit=limit)
        elif position == 0 and merges_in_blocks(feed):
            self.goes_in_blocks = True
            self._batches = cast("MergedFeed", feed).reading()
        else:
            self._batches = batches_from(feed, position)
        self._first: TickBatch | None = None
        self.spent_s = time.perf_counter() - start

    def first(self, *, may_be_empty: bool) -> TickBatch | None:
        """Reads the first batch, which is the first to be taken, and returns it; None where the feed has none.
        ``may_be_empty``: a batch without ticks counts too."""
        while (batch := self.take()) is not None and not len(batch) and not may_be_empty:
            pass
        self._first = batch
        return batch

    def take(self) -> TickBatch | None:
        """Returns the next batch, valid until the one after it; None at the end. Raises what the feed raises, and
        RecordTypeError for an object that is no batch of ticks."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        start = time.perf_counter()
        try:
            batch = next(self._batches)
        except StopIteration:
            return None
        except BaseException:
            self.close()
            raise
        finally:
            self.spent_s += time.perf_counter() - start
        # A feed of one's own may give anything; None would pass for its end.
        if not isinstance(batch, np.ndarray) or batch.dtype.names is None:
            what = f"an array of {batch.dtype}" if isinstance(batch, np.ndarray) else type(batch).__name__
            raise RecordTypeError(f"batches: the feed gives {what}, and not arrays of strand.TICK")
        return named(batch)

    def offer(self, feeder: Feeder) -> None:
        """Offers what is left to be taken in blocks."""
        self._reading.offer(feeder)

    def feed(self, feeder: Feeder) -> bool:
        """Lets a feeder go on with what is left, for a while. Returns False when it has taken all ticks. Raises what
        the feed and the feeder raise."""
        assert isinstance(self._batches, Reading)
        return self._with(feeder, self._batches.feed)

    def feed_blocks(self, feeder: Feeder) -> bool:
        """Lets a feeder take ticks in blocks for a while. Returns False when the next batch is to be taken. Raises what
        the feed and the feeder raise."""
        return self._with(feeder, self._reading.feed_blocks)

    @property
    def _reading(self) -> Reading | MergedReading:
        assert self.goes_in_blocks
        return cast("Reading | MergedReading", self._batches)

    def _with(self, feeder: Feeder, go_on: Callable[[Feeder], bool]) -> bool:
        start, published_s = time.perf_counter(), feeder.publishing_s
        try:
            return go_on(feeder)
        except BaseException:
            self.close()
            raise
        finally:
            self.spent_s += time.perf_counter() - start - (feeder.publishing_s - published_s)

    def close(self) -> None:
        """Ends the reading of a file, and its thread."""
        if self.goes_in_blocks or isinstance(self._batches, Reading):
            cast("Reading | MergedReading", self._batches).close()


@contextmanager
def pinned(dispatcher: Dispatcher | CallerRun, feed: Feed, asked: bool | None) -> Iterator[None]:
    """Pins the calling thread to the first core that no worker is pinned to, if there is one; unless ``asked`` says so,
    not where a thread inflates the feed's file and there is one such core only.

    The inflating thread wants the core that a publisher waits on. Pinned, a publisher keeps it for itself (books from
    .gz on four cores: 7.4 million messages a second, 8.7 where the publisher is free to give way). Where there are two,
    each has its own: 0.96 to 1.00 of the time that it takes with both of them free.
    """
    allowed = os.sched_getaffinity(0)
    free = sorted(allowed.difference(interior(dispatcher).pinned_cores))
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
