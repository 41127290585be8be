"""Replaying a recorded file through handlers in one call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strand import feeds
from strand.books import Books
from strand.dispatcher import Dispatcher
from strand.errors import ConfigurationError, FeedError, UnknownSymbolError
from strand.feeds import Feed, FeedInfo, TickBatch
from strand.feeds.merge import MergedFeed
from strand.feeds.selected import SelectedFeed, batches_from, skipped_of
from strand.feeds.selection import Selection
from strand.feeds.skipped import Skipped
from strand.feeds.times import Moment
from strand.feeds.trading_day import as_date
from strand.fingerprint import OutputDigest, fingerprint_of_rows
from strand.fingerprint_file import Interval
from strand.handlers import Handler, HandlerLike, resolve
from strand.observe.sampler import NoSampler, Sampler
from strand.observe.timeline import Timeline
from strand.outputs import output_digests
from strand.pacing import Pacer, Pacing
from strand.recorder import check_recording, recorder_for
from strand.rows import Rows
from strand.run_header import run_header
from strand.serial import SerialLoop
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
    ``feed_statistics`` the feed's own counts, ``skipped`` what it passed over under ``on_error="skip"``,
    ``failures`` of quarantined strands as text, ``outputs`` what handlers emitted, by name, shape (n,), as
    strand.outputs says, ``written`` file and number of records of what went to files, ``books`` the order books where
    a handler keeps them, ``objects`` an object handler's objects by symbol, ``pacing`` how well the pace was kept,
    None for as fast as it goes, ``timeline`` counters and rows over the run (None with ``timeline=False``, and of a
    plain loop), ``intervals`` what ``fingerprint_every`` recorded.
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
    skipped: Skipped
    failures: tuple[str, ...]
    books: Books | None = None
    outputs: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    written: Mapping[str, tuple[Path, int]] = field(default_factory=dict)
    pacing: Pacing | None = None
    objects: Mapping[str, Any] = field(default_factory=dict)
    timeline: Timeline | None = None
    intervals: tuple[Interval, ...] = ()
    _digests: Callable[[], Mapping[str, OutputDigest]] = field(default=dict, repr=False, compare=False)

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that stand for every symbol's row and ticks counted, by name: the same for
        any workers, grouping and batches; and for all outputs. Taken when it is first asked for."""
        return fingerprint_of_rows(self.rows, self.symbols[:], self.ticks_by_symbol, self._digests())

    @property
    def ticks_per_s(self) -> float:
        return self.ticks / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def limited_by(self) -> str:
        """What took most of the run: ``inflate``, ``feed`` (reading and decoding), ``dispatch`` (publishing,
        handlers), ``set-up`` or ``pacing``."""
        waited_s = self.pacing.waited_s if self.pacing is not None else 0.0
        parts = {
            "pacing": waited_s,
            "inflate": self.input_wait_s,
            "feed": self.feed_s - self.input_wait_s,
            "set-up": self.setup_s,
            "dispatch": self.wall_s - self.feed_s - self.setup_s - waited_s,
        }
        return max(parts, key=lambda name: parts[name])

    @property
    def busy_share(self) -> float:
        """Share of the run's time that a worker ran handlers, averaged over workers."""
        busy = [w.busy_ns for w in self.statistics.workers if w.name != "publishers"]
        return sum(busy) / len(busy) / (self.wall_s * 1e9) if busy and self.wall_s > 0 else 0.0

    def plot(self, kind: str | None = None, *, symbols: Sequence[str] | None = None) -> Any:
        """A matplotlib figure of the run, which a notebook shows by itself.

        ``kind``: ``"throughput"`` (and lag), ``"workers"`` (load of each), ``"latency"``, ``"symbols"`` (the busiest),
        ``"prices"`` (top of book and volume of ``symbols``, of those that were watched), or ``"bars"`` (those that a
        handler emitted, of ``symbols`` or the busiest four); None: the first four.
        Raises MissingExtraError without the extra ``plot``, ConfigurationError where there is nothing to draw.
        """
        from strand.observe.figures import plot

        return plot(self, kind, symbols=symbols)

    def report(self, path: str | os.PathLike[str], *, symbols: Sequence[str] | None = None, handler: str = "") -> None:
        """Writes the run as one HTML page that needs nothing else. ``symbols``: whose prices to show, of those watched
        (None: all of them), ``handler``: a name to show.

        Raises MissingExtraError without the extra ``report``, FeedError where the file cannot be written.
        """
        from strand.observe.page import check_page_path, write_page

        check_page_path(Path(path))
        write_page(Path(path), self, symbols=symbols, handler=handler)

    def _repr_html_(self) -> str:
        from strand.observe.card import card

        return card(self)


def replay(  # noqa: PLR0915
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    handler: HandlerLike | None = None,
    *,
    handlers: Mapping[str, HandlerLike] | None = None,
    symbols: Sequence[str] | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    limit: int | None = None,
    position: int = 0,
    progress: Callable[[int], None] | None = None,
    feed_options: Mapping[str, Any] | None = None,
    pin_publisher: bool = True,
    speed: float = 0.0,
    pacer: Pacer | None = None,
    fingerprint_every: int | None = None,
    fingerprints: str | os.PathLike[str] | None = None,
    out: Mapping[str, str | os.PathLike[str]] | None = None,
    timeline: bool = True,
    watch: int | Sequence[str] | None = None,
    **options: Any,
) -> ReplayResult:
    """Replays a file (or several, or a feed) through a handler, or ``handlers`` by symbol with ``"*"`` for the others.

    ``source``: what ``strand.feeds.open`` takes, or a feed. ``symbols``: names, globs (``"AA*"``) and ``@FILE`` to
    keep; ``start``, ``end``: the span of receive times to keep, as ``strand.feeds.open`` has it; what is not kept is
    passed over. ``position``: ticks of the selection to pass over first, ``limit``: ticks to replay then.
    ``progress`` is called with the ticks published so far. ``feed_options`` go to the file's reader, ``options`` to the
    Dispatcher; ``workers=0`` replays in a plain loop on the calling thread, without queues. ``pin_publisher`` pins the
    calling thread for the length of the call to a core no worker has.
    ``speed``: 0 as fast as it goes, 1 as recorded by ``ts_recv``, 10 ten times as fast; or a ``pacer``, which can be
    paused and stepped meanwhile. A replay that is paced, or writes to files, and is interrupted has handled what it
    had published, and its result is the KeyboardInterrupt's ``partial``.
    ``fingerprint_every``: ticks after which the run is brought to rest, and fingerprints of it and of its input are
    taken, as ``result.intervals``; ``fingerprints`` names a file for them and for each symbol's, as ``strand diff``
    compares.
    ``timeline``: whether to sample counters while it runs, and rows of the symbols in ``watch``: names, or how many of
    the busiest.

    ``out``: files that outputs of the handlers are written to, by name: ``{"bars": "bars.parquet"}``; the others are
    collected: ``result.outputs["bars"]``. Where the run ends before its time, by an error or an interrupt, they hold
    what was final by then.

    Raises FeedError for a file that cannot be read; where that shows in mid-stream, after every tick before it has been
    handled, and with the result of those as ``error.partial``. So does UnknownSymbolError, for a name or glob that no
    symbol of the whole feed has. Raises HandlerError, ConfigurationError.
    """
    check_recording(fingerprint_every)
    pacer = _check(limit, position, speed, pacer)
    given = handler
    if handler is not None:
        handler = resolve(handler)
    wanted = feeds.read_symbols(symbols or ())
    feed = _feed(source, wanted, start, end, feed_options or {})
    begun = time.perf_counter()
    fault: FeedError | None = None
    interrupt: KeyboardInterrupt | None = None
    try:
        batches = _Timed(batches_from(feed, position))
        first = next(batches, None)
        if first is None and (unknown := _unknown(feed, wanted)) is not None:
            raise unknown
        ready = time.perf_counter()
        handler, handlers = _for_feed(handler, handlers, feed.info)
        make = SerialLoop if options.get("workers") == 0 else Dispatcher
        dispatcher = make(_names(feed), handler, handlers=handlers, out=out, **options)
        recorder = recorder_for(
            dispatcher,
            feed,
            fingerprint_every,
            fingerprints,
            lambda: run_header(
                source,
                {"*": given} if handlers is None else handlers,
                selection={"symbols": list(wanted), "start": start, "end": end, "limit": limit, "position": position},
                feed_options=feed_options or {},
                every=fingerprint_every,
                settings=options | {"workers": dispatcher.workers},
            ),
        )
        ticks = 0
        uncounted = nothing = np.empty(0, TICK)
        by_symbol = np.zeros(feed.capacity, dtype=np.int64)
        sampler = Sampler(dispatcher, begun, watch, on=timeline) if isinstance(dispatcher, Dispatcher) else NoSampler()
        with recorder, _pinned(dispatcher, pin_publisher), dispatcher, sampler:
            setup_s = time.perf_counter() - ready
            pieces = recorder.cut(_named(_chain(first, batches), feed, dispatcher))
            try:
                for batch in pieces if pacer is None else pacer.paced(pieces):
                    uncounted = chosen = batch if limit is None else batch[: limit - ticks]
                    for part in sampler.parts(chosen, by_symbol, feed.symbols):
                        dispatcher.publish(part)
                    _count(by_symbol, chosen["instrument_id"])
                    ticks += len(chosen)
                    uncounted = nothing
                    recorder.published(chosen, by_symbol)
                    if progress is not None:
                        progress(ticks)
                    if ticks == limit:
                        break
            except FeedError as error:
                fault = error
            except KeyboardInterrupt as error:
                if pacer is None and not out:
                    raise
                interrupt = error
            dispatcher.drain()
            if interrupt is not None:
                # It may have come when a batch was in, and not yet counted.
                more = dispatcher.statistics().accepted - ticks
                if 0 < more <= len(uncounted):
                    _count(by_symbol, uncounted["instrument_id"][:more])
                    ticks += more
            wall_s = time.perf_counter() - begun
            recorder.ending(by_symbol, fault or interrupt)
            sampler.drained(by_symbol, feed.symbols)
            feed_statistics = dict(feed.statistics())
    finally:
        feed.close()
    dispatcher.learn_symbols(feed.symbols)
    result = ReplayResult(
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
        skipped=skipped_of(feed),
        failures=tuple(str(f) for f in dispatcher.failures),
        outputs={name: output.array() for name, output in dispatcher.outputs.items() if output.path is None},
        written={name: (output.path, output.records) for name, output in dispatcher.outputs.items() if output.path},
        books=dispatcher.books if dispatcher.keeps_books else None,
        pacing=None if pacer is None else pacer.statistics(),
        objects=dispatcher.objects,
        timeline=sampler.timeline(by_symbol, dispatcher.symbols),
        intervals=recorder.intervals,
        _digests=partial(output_digests, dispatcher.outputs),
    )
    if interrupt is not None:
        interrupt.partial = result  # type: ignore[attr-defined]
        raise interrupt
    failed: FeedError | UnknownSymbolError | None = fault
    if failed is None and ticks != limit:
        failed = _unknown(feed, wanted)
    if failed is not None:
        failed.partial = result
        raise failed
    return result


def _check(limit: int | None, position: int, speed: float, pacer: Pacer | None) -> Pacer | None:
    """Refuses what cannot work; returns the pacer, if the replay has one."""
    for name, value, least in (("limit", limit, 1), ("position", position, 0)):
        if value is not None and value < least:
            raise ConfigurationError(f"{name}: {value!r} is not a number of ticks from {least} up")
    if pacer is None:
        return Pacer(speed) if speed != 0 else None
    if speed != 0:
        raise ConfigurationError("speed: give it to the pacer")
    return pacer


def _feed(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    wanted: Sequence[str],
    start: str | int | None,
    end: str | int | None,
    options: Mapping[str, Any],
) -> Feed:
    if isinstance(source, str | os.PathLike | Sequence):
        return feeds.open(source, symbols=wanted, start=start, end=end, **options)
    day = as_date(source.info.date) if source.info.date is not None else None
    moments = Moment.parse("start", start), Moment.parse("end", end)
    start_ns, end_ns = (None if moment is None else moment.ns(day, source.info.path) for moment in moments)
    select = Selection(tuple(wanted), start_ns, end_ns)
    return SelectedFeed(source, select) if select else source


def _for_feed(
    handler: HandlerLike | None, handlers: Mapping[str, HandlerLike] | None, info: FeedInfo
) -> tuple[HandlerLike | None, Mapping[str, HandlerLike] | None]:
    """Handlers as they are where the feed is known; what was one handler for several symbols stays one."""
    made: dict[int | str, Handler] = {}

    def of(like: HandlerLike) -> Handler:
        key = like if isinstance(like, str) else id(like)
        if key not in made:
            made[key] = resolve(like).known(info)
        return made[key]

    by_symbol = None if handlers is None else {symbol: of(like) for symbol, like in handlers.items()}
    return None if handler is None else of(handler), by_symbol


def _unknown(feed: Feed, wanted: Sequence[str]) -> UnknownSymbolError | None:
    """The error for the first name or glob that no symbol has as far as symbols are known."""
    # What was wanted was asked of the files, whose names a merge may have put venues to.
    names = feed.plain_symbols if isinstance(feed, MergedFeed) else feed.symbols
    for pattern in wanted:
        one = Selection((pattern,))
        if not any(name and one.keeps(name) for name in names):
            return UnknownSymbolError(f"symbols: nothing in {feed.info.path} is named {pattern!r}")
    return None


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


def _named(batches: Iterator[TickBatch], feed: Feed, dispatcher: Dispatcher | SerialLoop) -> Iterator[TickBatch]:
    """Batches whose symbols' names the dispatcher knows: they are written beside what their ticks emit."""
    known = -1
    for batch in batches:
        if len(dispatcher.outputs) and len(feed.symbols) != known:
            dispatcher.learn_symbols(feed.symbols)
            known = len(feed.symbols)
        yield batch


def _count(by_symbol: npt.NDArray[np.int64], keys: npt.NDArray[Any]) -> None:
    """Adds a batch's ticks by symbol; a short one, as a pace makes them, is not worth a pass over all symbols."""
    if len(keys) < len(by_symbol) // 64:
        np.add.at(by_symbol, keys, 1)
    else:
        by_symbol += np.bincount(keys, minlength=len(by_symbol))


def _names(feed: Feed) -> Sequence[str]:
    """Names for every index the feed may use: those not known yet are empty."""
    known = list(feed.symbols[: feed.capacity])
    return known + [""] * (feed.capacity - len(known))


@contextmanager
def _pinned(dispatcher: Dispatcher | SerialLoop, pin: bool) -> Iterator[None]:
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
