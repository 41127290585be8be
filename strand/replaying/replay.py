"""Replaying a recorded file through handlers in one call."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

from strand import feeds
from strand.dispatch.configuration import RENAMED
from strand.dispatch.dispatcher import Dispatcher
from strand.dispatch.options import GROUPS, RunOptions, workers_of
from strand.errors import ConfigurationError, FeedError, StrictError, UnknownSymbolError
from strand.feeds import Feed, FeedInfo
from strand.feeds.merge.selected import SelectedFeed, batches_from, empty_feed, is_live, unknown_symbol
from strand.feeds.opening import options_with_date
from strand.feeds.progress_bar import Told
from strand.feeds.reader_options import FeedOptions
from strand.feeds.selection import Selection
from strand.feeds.times import Moment
from strand.feeds.trading_day import as_date
from strand.feeds.write.destinations import check_outputs, output_paths
from strand.handlers import Handler, HandlerLike, resolve
from strand.options import named_options
from strand.output.sink import Destination, files_and_sinks
from strand.replaying.days import DayRecorder, NoDays
from strand.replaying.failed import rereading, telling_more
from strand.replaying.header import run_header
from strand.replaying.recorder import recorder_for
from strand.replaying.result import ReplayResult
from strand.replaying.run import Run, Timed, chain, pinned
from strand.replaying.sampler import NoSampler, Sampler
from strand.replaying.saved_replay import SavedReplay
from strand.replaying.snapshots import Snapshot
from strand.replaying.until import Until
from strand.symbols import SymbolTable, near_symbol
from strand.validate import whole, yes_or_no

if TYPE_CHECKING:
    from strand.replaying.pacing import Pacer

__all__ = ["ReplayResult", "replay"]

#: Of a file that a plain loop reads. The loop calls a handler once for all ticks of a symbol in a batch, and a small
#: batch of thousands of symbols has hardly more than one each. A merge makes batches of its own.
_PLAIN_BATCH_TICKS: Final = 262_144


@named_options("replay()", RENAMED, more=RunOptions, like=Dispatcher, groups=GROUPS)
def replay(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    handler: HandlerLike | None = None,
    *,
    handlers: Mapping[str, HandlerLike] | None = None,
    symbols: Sequence[str] | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    limit: int | None = None,
    position: int = 0,
    allow_empty: bool = False,
    progress: bool | Callable[[int], None] = False,
    date: dt.date | str | None = None,
    feed_options: FeedOptions | None = None,
    pin_publisher: bool | None = None,
    speed: float = 0.0,
    pacer: Pacer | None = None,
    fingerprint_every: int | None = None,
    fingerprints: str | os.PathLike[str] | None = None,
    out: Mapping[str, Destination] | None = None,
    timeline: bool = True,
    watch: int | Sequence[str] | None = None,
    per_day: bool = False,
    snapshot: Snapshot | None = None,
    strict: bool = False,
    save: str | os.PathLike[str] | None = None,
    load: str | os.PathLike[str] | None = None,
    until: tuple[str, int] | str | int | None = None,
    pdb: bool = False,
    _dispatcher: Callable[..., Any] | None = None,
    **options: Unpack[RunOptions],
) -> ReplayResult:
    """Replays a file (or several, or a feed) through a handler, or ``handlers`` by symbol with ``"*"`` for the others.

    ``source``: what ``strand.feeds.open`` takes, or a feed. ``symbols``: names, globs (``"AA*"``) and ``@FILE`` to
    keep; ``start``, ``end``: the span of receive times to keep, as ``strand.feeds.open`` has it; what is not kept is
    passed over. ``position``: ticks of the selection to pass over first, ``limit``: ticks to replay then.
    ``allow_empty``: what ends without one tick has a result, and is no error.
    ``progress``: True shows a bar, on standard error where that is a terminal, or in a notebook: rate, feed time, and
    where the end is known the share done and the time left. A function is called with the ticks published so far; its
    method ``opened``, if it has one, with the feed before, and ``follow`` with a function that gives the feed's time.
    ``date``: the trading day of files that do not say it. ``feed_options``: the other options of ``strand.feeds.open``,
    by name. ``options`` go to the Dispatcher; ``workers=0`` replays in a plain loop on
    the calling thread, without queues (a ``Scheduler`` of tasks has all cores then). ``pin_publisher`` pins the calling
    thread for the length of the call to a core no worker has; by default not where a thread inflates the file, which
    would be left with a share of some worker's core, unless there is one more that no worker has.
    ``speed``: 0 as fast as it goes, 1 as recorded by ``ts_recv``, 10 ten times as fast; or a ``pacer``, which can be
    paused and stepped meanwhile. A replay that is paced, writes to files or watches symbols, and is interrupted, has
    handled what it had published, and its result is the KeyboardInterrupt's ``partial``.
    ``fingerprint_every``: ticks after which the run is brought to rest, and fingerprints of it and of its input are
    taken, as ``result.intervals``; ``fingerprints`` names a file for them and for each symbol's, as ``strand diff``
    compares.
    ``timeline``: whether to sample counters while it runs, and rows of the symbols in ``watch``: names, or how many of
    the busiest.

    ``per_day``: where a day ends (docs/feeds/days.md) the run is brought to rest, the rows of its symbols go to
    ``result.days``, and begin anew as zeros; ``result.rows`` are then those of the last day.

    ``snapshot``: what ``strand.snapshot`` makes; all symbols' values at regular times are ``result.snapshots`` then.

    ``save``: a file for the state at the end, for which ends of handlers do not run; an interrupt ends it so, too.
    ``load``: such a file, to go on from where it was saved, with the same source and arguments: ticks that were
    replayed before are read and passed over. ``ticks``, outputs and times of the result are then of this call; rows and
    ``ticks_by_symbol`` are of all.

    ``until``: where to stop, with everything published up to there handled, and rows as they are then: ends of handlers
    do not run. ``("AAPL", 17)``: after the 17th tick of AAPL in this replay; ticks of other symbols are in that come
    before it in the feed, and none behind it. A time, as ``start`` has it: before the first tick whose ``ts_recv`` is
    after it. ``pdb``: start Python's debugger where the handler is called with that tick; needs ``workers=0``. A
    compiled function is called in Python then, on copies, before its machine code is.

    ``strict``: warnings of the run (``result.warnings``) are a StrictError, which has the result as ``partial``.

    ``out``: files that outputs of the handlers are written to, by name: ``{"bars": "bars.parquet"}``, or sinks of your
    own (``strand.Sink``); the others are collected: ``result.outputs["bars"]``. Where the run ends before its time, by
    an error or an interrupt, they hold what was final by then. A file that the run reads, or that two of them would be
    written to, is refused before anything is read, whatever path leads to it.

    Raises FeedError for a file that cannot be read; where that shows in mid-stream, after every tick before it has been
    handled, and with the result of those as ``error.partial``. A HandlerError has what came before it as ``partial``
    too. So does UnknownSymbolError, for a name or glob that no symbol of the whole feed has, and for a name in
    ``watch`` or ``snapshot``. Raises EmptyFeedError, a FeedError, before any output is made, where no tick comes of the
    source. Raises StrictError, HandlerError, SinkError, SavedStateError, ConfigurationError.
    """
    if fingerprint_every is not None:
        fingerprint_every = whole("fingerprint_every", fingerprint_every, 1)
    pacer, stop = _check(limit, position, speed, pacer), Until.of(until, pdb=pdb, workers=workers_of(options))
    reading, told = options_with_date(feed_options, date), _told(progress, limit, prompt=pdb)
    _check_flags(
        timeline=timeline, pin_publisher=pin_publisher, per_day=per_day, allow_empty=allow_empty, strict=strict, pdb=pdb
    )
    left = SavedReplay.of(
        load, source, reading,
        {"workers": workers_of(options), "per_day": per_day,
         "fingerprints": fingerprints is not None or fingerprint_every is not None},
        selection={"symbols": list(symbols or ()) or None, "start": start, "end": end}, position=position, save=save,
    )  # fmt: skip
    position = left.position
    given = handler
    if handler is not None:
        handler = resolve(handler)
    written = [*output_paths(files_and_sinks(out)[0], fingerprints), ("save", save)]
    check_outputs(written, source, symbols=symbols, options=reading)
    wanted = feeds.read_symbols(symbols or ())
    feed = _feed(source, wanted, start, end, reading, plain=workers_of(options) == 0)
    begun = time.perf_counter()
    try:
        told.opened(feed)
        batches = Timed(batches_from(feed, position))
        # With allow_empty a fault before the first tick comes with a result, as one after it does.
        first = next(batches if allow_empty else filter(len, batches), None)
        if first is None and (unknown := unknown_symbol(feed, wanted)) is not None:
            raise unknown
        if first is None and not allow_empty:
            raise empty_feed(feed, selected=bool(wanted or position) or start is not None or end is not None)
        ready = time.perf_counter()
        handler, handlers = _for_feed(handler, handlers, feed.info)
        make = _dispatcher or _kind_of_run(options)
        dispatcher = make(
            SymbolTable.with_capacity(feed.symbols, feed.max_symbols),
            handler,
            handlers=handlers,
            out=out,
            **({} if load is None else {"load": load}),
            **({"_paced": pacer is not None or is_live(feed)} if make is Dispatcher else {}),
            **options,
        )
        recorder = recorder_for(
            dispatcher,
            feed,
            fingerprint_every,
            fingerprints,
            lambda: run_header(
                source,
                {"*": given} if handlers is None else handlers,
                selection={"symbols": list(wanted), "start": start, "end": end, "limit": limit, "position": position},
                feed_options=reading,
                every=fingerprint_every,
                settings={**options, "workers": dispatcher.workers},
            ),
        )
        sampler = Sampler(dispatcher, begun, watch, on=timeline) if isinstance(dispatcher, Dispatcher) else NoSampler()
        days = DayRecorder(feed, dispatcher) if per_day else NoDays()
        run = Run(feed, dispatcher, recorder, sampler, days, position=position, snapshot=snapshot, wanted=wanted)
        run.by_symbol += left.ticks_by_symbol(len(run.by_symbol))
        again = (
            None
            if load
            else rereading(
                replay,
                source,
                position,
                symbols=wanted,
                start=start,
                end=end,
                options=reading,
                per_day=per_day,
            )
        )
        with (
            telling_more(
                dispatcher,
                partial(run.so_far, begun, batches, pacer),
                again,
            ),
            recorder,
            pinned(dispatcher, feed, pin_publisher),
            dispatcher,
            sampler,
        ):
            setup_s = time.perf_counter() - ready
            pieces = run.pieces(stop.cut(chain(first, batches), feed, dispatcher, again))
            run.publish(
                pieces if pacer is None else pacer.paced(pieces),
                fed=batches if pacer is None and position == 0 and run.may_feed and not stop.cuts else None,
                limit=limit,
                progress=told.tell,
                hold_interrupt=pacer is not None or bool(out) or watch is not None or save is not None,
            )
            wall_s = time.perf_counter() - begun
            run.end()
            if save is not None and not isinstance(run.ended_by, FeedError):
                assert isinstance(dispatcher, Dispatcher)
                dispatcher.learn_symbols(feed.symbols)
                left.save(dispatcher, save, position + run.ticks, run.by_symbol)
            feed_statistics = dict(feed.statistics())
    finally:
        told.end()
        feed.close()
    dispatcher.learn_symbols(feed.symbols)
    days.end(run.by_symbol)
    result = run.result(wall_s, setup_s, batches.spent_s, feed_statistics, pacer)
    failed: FeedError | UnknownSymbolError | KeyboardInterrupt | None = run.ended_by
    if failed is None and run.ticks != limit:
        failed = unknown_symbol(feed, wanted) or _unwatched(watch, snapshot, result)
    if failed is not None:
        failed.partial = result  # type: ignore[union-attr]
        raise failed
    if strict and result.warnings:
        raise StrictError(result)
    return result


def _kind_of_run(options: RunOptions) -> Callable[..., Any]:
    """What the ticks go to: a dispatcher, or a plain loop."""
    if workers_of(options) != 0:
        return Dispatcher
    from strand.reference.loop import SerialLoop

    return SerialLoop


def _check(limit: int | None, position: int, speed: float, pacer: Pacer | None) -> Pacer | None:
    """Refuses what cannot work; returns the pacer, if the replay has one."""
    for name, value, least in (("limit", limit, 1), ("position", position, 0)):
        if value is not None:
            whole(name, value, least)
    if pacer is None and speed == 0:
        return None
    from strand.replaying.pacing import Pacer

    if pacer is None:
        return Pacer(speed)
    if not isinstance(pacer, Pacer):
        raise ConfigurationError(f"pacer: {pacer!r} is no strand.replaying.pacing.Pacer")
    if speed != 0:
        raise ConfigurationError("speed: give it to the pacer")
    return pacer


def _told(progress: bool | Callable[[int], None] | None, limit: int | None, *, prompt: bool) -> Told:
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise ConfigurationError(f"progress: {progress!r} is neither True nor False, and cannot be called")
    if prompt and progress is True:
        raise ConfigurationError(
            "progress: its bar would be drawn over the debugger's prompt; leave it out with pdb=True"
        )
    return Told("replaying", progress, limit)


def _check_flags(**flags: bool | None) -> None:
    for name, value in flags.items():
        if value is not None:
            yes_or_no(name, value)


def _unwatched(
    watch: int | Sequence[str] | None, snapshot: Snapshot | None, result: ReplayResult
) -> UnknownSymbolError | None:
    """The error for names to be watched, or of a snapshot, that the whole feed has not."""
    watched = () if watch is None or isinstance(watch, int) else watch
    of_snapshot = () if snapshot is None else snapshot.symbols or ()
    for option, given in (("watch (--report-symbols)", watched), ("snapshot: symbols", of_snapshot)):
        if names := [name for name in given if name not in result.symbols]:
            near = near_symbol(names[0], iter(result.symbols))
            named = ", ".join(map(repr, names))
            return UnknownSymbolError(f"{option}: nothing in {result.info.path} is named {named}{near}")
    return None


def _is_one_file(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> bool:
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    return len(paths) == 1 and isinstance(paths[0], str | os.PathLike) and os.path.isfile(paths[0])  # noqa: PTH113


def _feed(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    wanted: Sequence[str],
    start: str | int | None,
    end: str | int | None,
    options: FeedOptions,
    *,
    plain: bool,
) -> Feed:
    if isinstance(source, str | os.PathLike | Sequence):
        if plain and _is_one_file(source):
            options = {"batch_ticks": _PLAIN_BATCH_TICKS, **options}
        return feeds.open(source, symbols=wanted, start=start, end=end, **options)
    if not isinstance(source, Feed):
        raise ConfigurationError(
            f"source: {type(source).__name__} is neither a path, nor a list of them, nor a feed; publish ticks "
            "of an array to a Dispatcher"
        )
    if options:
        raise ConfigurationError(f"feed_options: {', '.join(options)} are for files; this feed is open already")
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
