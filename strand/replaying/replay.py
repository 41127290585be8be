"""Replaying a recorded file through handlers in one call."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

from strand import feeds
from strand.dispatch.dispatcher import Dispatcher
from strand.dispatch.options import GROUPS, RunOptions, workers_of
from strand.errors import ConfigurationError, FeedError, StrictError, UnknownSymbolError
from strand.feeds import Feed, FeedInfo
from strand.feeds.merge.selected import SelectedFeed, empty_feed, is_live, unknown_symbol
from strand.feeds.opening import options_with_date
from strand.feeds.progress_bar import Told
from strand.feeds.reader_options import FeedOptions
from strand.feeds.selection import Selection
from strand.feeds.times import Moment
from strand.feeds.trading_day import as_date
from strand.feeds.write.destinations import check_outputs, output_paths
from strand.handlers import Handler, HandlerLike, resolve
from strand.options import named_options
from strand.output.sinks import Destination, files_and_sinks
from strand.replaying.days import DayRecorder
from strand.replaying.failed import rereading, telling_more
from strand.replaying.recorder import Recorder, run_header
from strand.replaying.result import ReplayResult
from strand.replaying.run import Published, Run, Source, Stops, Straddling, pinned
from strand.replaying.sampler import Sampler, rows_watched
from strand.replaying.saved_replay import SavedReplay
from strand.replaying.snapshots import Snapshot, check_snapshot, history_of, snapshots_for
from strand.replaying.until import Until
from strand.symbols import SymbolTable, near_symbol
from strand.validate import mapping, whole, yes_or_no

if TYPE_CHECKING:
    from strand.replaying.pacing import Pacer

__all__ = ["ReplayResult", "replay"]

#: Of a file that a plain loop reads. The loop calls a handler once for all ticks of a symbol in a batch, and a small
#: batch of thousands of symbols has hardly more than one each. A merge makes batches of its own.
_PLAIN_BATCH_TICKS: Final = 262_144


@named_options("replay()", more=RunOptions, like=Dispatcher, groups=GROUPS)
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
    """Replays a file, several files or a feed through a handler, and returns its rows, outputs and counts.

    A replay that is interrupted handles what it has published, if it is paced, has ``out``, ``watch`` or ``save``. The
    KeyboardInterrupt then has the result as ``partial``. If it comes while the run is being ended, that may be without
    what handlers' ends add.

    Args:
        source: What ``strand.feeds.open`` takes, or a feed.
        handler: The handler of all symbols.
        handlers: In place of ``handler``, handlers by symbol, with ``"*"`` for the others.
        symbols: Names, globs (``"AA*"``) and ``@FILE`` to keep.
        start: The first receive time to keep, as for ``strand.feeds.open``. Ticks before it are skipped.
        end: The first receive time no longer kept, likewise.
        limit: How many ticks to replay at most, from ``position`` on.
        position: How many ticks of the selection to skip first.
        allow_empty: Return a result where the source has no tick; without it that raises EmptyFeedError.
        progress: True shows a bar, on standard error if it is a terminal, or in a notebook. It has the rate and the
            feed's time; where the end is known, also the share done and the time left. A function is called with the
            number of ticks handled so far, dropped ones included. If it has a method ``opened``, that is called first,
            with the feed. If it has ``follow``, that is called with a function that returns the feed's time, and
            ``given`` with one that returns the number of ticks published so far.
        date: The trading day of files that do not say it.
        feed_options: The other options of ``strand.feeds.open``, by name.
        pin_publisher: Pin the calling thread, for the length of the call, to a core that no worker has. None does so
            too, unless a thread inflates the file and only one such core is left: that thread would have to share a
            worker's core.
        speed: 0 is as fast as possible, 1 as recorded by ``ts_recv``, 10 ten times as fast.
        pacer: In place of ``speed``, a ``Pacer``, which can be paused and stepped during the replay.
        fingerprint_every: After every so many ticks, bring the run to rest and take fingerprints of it and of its
            input: ``result.intervals``.
        fingerprints: A file for these fingerprints and those of each symbol; ``strand diff`` compares such files.
        out: Files for outputs of the handlers, by name: ``{"bars": "bars.parquet"}``; or sinks of your own
            (``strand.Sink``). Other outputs are collected: ``result.outputs["bars"]``. If an error or an interrupt ends
            the run early, files hold what was final by then.
        timeline: Sample counters during the run: ``result.timeline``.
        watch: Symbols whose rows are sampled too: names, or how many of the busiest.
        per_day: At the end of each day (docs/feeds/days.md), bring the run to rest and move its symbols' rows to
            ``result.days``. They begin again as zeros, so ``result.rows`` has the last day's.
        snapshot: A ``strand.snapshot``: values of all symbols at regular times, as ``result.snapshots``.
        strict: Raise StrictError if the run has warnings (``result.warnings``).
        save: A file for the state at the end. Ends of handlers do not run then. An interrupted run saves its state too.
        load: A file of ``save`` to continue from, with the same source and arguments. Ticks that were replayed before
            are read and skipped. ``ticks``, outputs and times of the result are of this call; rows and
            ``ticks_by_symbol`` are of all calls.
        until: Where to stop. All ticks up to there are handled, and rows are as they are then: ends of handlers do not
            run. ``("AAPL", 17)`` stops after the 17th tick of AAPL in this replay; of other symbols, it includes all
            ticks that come before it in the feed, and none after. A time, in the forms of ``start``, stops before the
            first tick with a later ``ts_recv``.
        pdb: Start Python's debugger where the handler is called with the tick of ``until``; needs ``workers=0``. A
            compiled function is called in Python first, on copies, and then as machine code.
        **options: Options of ``strand.Dispatcher``. ``workers=0`` replays in a plain loop on the calling thread,
            without queues; a ``Scheduler`` of tasks then has all cores.

    Raises:
        ConfigurationError: If an argument cannot work, or two exclude each other. Also, before anything is read, if
            ``out`` names a file that the run reads, or one file twice, by whatever path.
        FeedError: If a file cannot be read. In mid-stream, all ticks before the fault are handled first, and
            ``error.partial`` has their result.
        EmptyFeedError: If the source has no tick; it is a FeedError. No output is made then.
        UnknownSymbolError: If the whole feed has no symbol for a name or glob, or for a name in ``watch`` or
            ``snapshot``. It is raised after the run; ``partial`` has the result, if there were ticks.
        HandlerError: If a handler fails, unless ``on_error="quarantine"``; ``partial`` has the result of what was
            handled. Of several failures it is the first in the order of ticks, whatever the workers.
        StrictError: If ``strict`` is given and there are warnings; ``partial`` has the result.
        SinkError: If a sink of ``out`` raises.
        SavedStateError: If the file of ``load`` does not fit, or the state cannot be saved.
        MissingExtraError: If a package is not installed that the source, an output or ``guard`` needs.
    """
    if fingerprint_every is not None:
        fingerprint_every = whole("fingerprint_every", fingerprint_every, 1)
    pacer, cut = _check(limit, position, speed, pacer, snapshot), Until.of(until, pdb=pdb, workers=workers_of(options))
    reading, told = options_with_date(feed_options, date), _told(progress, limit, prompt=pdb)
    _check_flags(
        timeline=timeline, pin_publisher=pin_publisher, per_day=per_day, allow_empty=allow_empty, strict=strict, pdb=pdb
    )
    wanted = feeds.read_symbols(symbols or ())
    left = SavedReplay.of(
        load, source, reading,
        {"workers": workers_of(options), "per_day": per_day,
         "fingerprints": fingerprints is not None or fingerprint_every is not None},
        selection={"symbols": list(symbols or ()) or None, "start": start, "end": end}, position=position, save=save,
    )  # fmt: skip
    position = left.position
    given, handler = handler, None if handler is None else resolve(handler)
    written = [*output_paths(files_and_sinks(out)[0], fingerprints), ("save", save)]
    check_outputs(written, source, symbols=symbols, options=reading)
    feed = _feed(source, wanted, start, end, reading, plain=workers_of(options) == 0)
    begun = time.perf_counter()
    try:
        told.opened(feed)
        ticks = Source(feed, position)
        # With allow_empty a fault before the first tick comes with a result, as one after it does.
        first = ticks.first(may_be_empty=allow_empty)
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
            # A saved state has no history, and fits dispatchers that keep one no more than others.
            **({"_history": partial(history_of, snapshot)} if snapshot and load is None and save is None else {}),
            **({"_paced": pacer is not None or is_live(feed)} if make is Dispatcher else {}),
            **options,
        )
        published = Published(feed)
        counts = published.by_symbol
        counts += left.ticks_by_symbol(len(counts))
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
        if cut is not None:
            cut.joins(feed, dispatcher, again)
        recorder = None if fingerprint_every is None and fingerprints is None else Recorder(
            dispatcher,
            lambda: feed.symbols,
            counts,
            every=fingerprint_every,
            path=fingerprints,
            header=lambda: run_header(
                source,
                {"*": given} if handlers is None else handlers,
                selection={"symbols": list(wanted), "start": start, "end": end, "limit": limit, "position": position},
                feed_options=reading,
                every=fingerprint_every,
                settings={**options, "workers": dispatcher.workers},
            ),
        )  # fmt: skip
        samples = timeline and isinstance(dispatcher, Dispatcher)
        rows = rows_watched(dispatcher, watch, counts, feed) if samples else None
        sampler = Sampler(dispatcher, begun, published.time_ns, rows) if samples else None
        stops = Stops(
            rows,
            recorder,
            Straddling.of([handler, *(handlers or {}).values()], feed),
            None if snapshot is None else snapshots_for(snapshot, feed, dispatcher, counts),
            DayRecorder(feed, dispatcher, counts) if per_day else None,
            cut,
        )
        run = Run(
            feed,
            dispatcher,
            published,
            stops,
            sampler=sampler,
            position=position,
            wanted=wanted,
            limit=limit,
            pacer=pacer,
        )
        with (
            telling_more(dispatcher, partial(run.so_far, begun, ticks), again),
            recorder or nullcontext(),
            pinned(dispatcher, feed, pin_publisher),
            dispatcher,
            sampler or nullcontext(),
            nullcontext() if pacer is None else pacer.serving(),
            nullcontext() if cut is None else closing(cut),
        ):
            setup_s = time.perf_counter() - ready
            run.publish(ticks, told.tell)
            wall_s = time.perf_counter() - begun
            run.end(with_ends=save is None)
            if save is not None and not isinstance(run.ended_by, FeedError):
                assert isinstance(dispatcher, Dispatcher)
                dispatcher.learn_symbols(feed.symbols)
                left.save(dispatcher, save, position + published.ticks, counts)
            feed_statistics = dict(feed.statistics())
    finally:
        told.end()
        feed.close()
    dispatcher.learn_symbols(feed.symbols)
    if stops.days is not None:
        stops.days.end()
    result = run.result(wall_s, setup_s, ticks.spent_s, feed_statistics)
    failed: FeedError | UnknownSymbolError | KeyboardInterrupt | None = run.ended_by
    if failed is None and published.ticks != limit:
        failed = unknown_symbol(feed, wanted) or _unwatched(watch, snapshot, result)
    return _told_of(result, failed, strict=strict)


def _told_of(
    result: ReplayResult, failed: FeedError | UnknownSymbolError | KeyboardInterrupt | None, *, strict: bool
) -> ReplayResult:
    """The result, or the error that ends the replay with it."""
    if failed is not None:
        failed.partial = result  # type: ignore[union-attr]
        raise failed
    if strict and result.warnings:
        raise StrictError(result)
    return result


def _kind_of_run(options: RunOptions) -> Callable[..., Any]:
    """Returns the class that the ticks go to: a dispatcher, or a plain loop."""
    if workers_of(options) != 0:
        return Dispatcher
    from strand.caller.run import CallerRun

    return CallerRun


def _check(
    limit: int | None, position: int, speed: float, pacer: Pacer | None, snapshot: Snapshot | None
) -> Pacer | None:
    """Refuses what cannot work; returns the pacer, if the replay has one."""
    if limit is not None:
        whole("limit", limit, 1)
    whole("position", position, 0)
    check_snapshot(snapshot)
    if pacer is None and speed == 0:
        return None
    from strand.replaying.pacing import Pacer

    if pacer is None:
        return Pacer(speed)
    if not isinstance(pacer, Pacer):
        raise ConfigurationError("pacer", f"{pacer!r} is not a strand.replaying.pacing.Pacer")
    if speed != 0:
        raise ConfigurationError("speed", "give it to the pacer")
    return pacer


def _told(progress: bool | Callable[[int], None] | None, limit: int | None, *, prompt: bool) -> Told:
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise ConfigurationError("progress", f"{progress!r} is neither True, False nor a function")
    if prompt and progress is True:
        raise ConfigurationError(
            "progress", "its bar would be drawn over the debugger's prompt; leave it out with pdb=True"
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
            "source",
            f"{type(source).__name__} is neither a path, nor a list of them, nor a feed; publish ticks "
            "of an array to a Dispatcher",
        )
    if options:
        raise ConfigurationError("feed_options", f"{', '.join(options)} are for files; this feed is open already")
    day = as_date(source.info.date) if source.info.date is not None else None
    moments = Moment.parse("start", start), Moment.parse("end", end)
    start_ns, end_ns = (
        None if moment is None else moment.ns(day, source.info.path, source.info.zone) for moment in moments
    )
    select = Selection(tuple(wanted), start_ns, end_ns)
    return SelectedFeed(source, select) if select else source


def _for_feed(
    handler: HandlerLike | None, handlers: Mapping[str, HandlerLike] | None, info: FeedInfo
) -> tuple[HandlerLike | None, Mapping[str, HandlerLike] | None]:
    """Handlers for the known feed; one handler for several symbols stays one object."""
    made: dict[int | str, Handler] = {}

    def of(like: HandlerLike) -> Handler:
        key = like if isinstance(like, str) else id(like)
        if key not in made:
            made[key] = resolve(like).known(info)
        return made[key]

    by_symbol = (
        None
        if handlers is None
        else {symbol: of(like) for symbol, like in mapping("handlers", handlers, "{'AAPL': 'book'}").items()}
    )
    return None if handler is None else of(handler), by_symbol
