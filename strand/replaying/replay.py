"""Replaying a recorded file through handlers in one call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import numpy as np
import numpy.typing as npt

from strand import feeds
from strand.brief import in_full, several
from strand.dispatch.configuration import GROUPS, RunOptions, workers_of
from strand.dispatch.dispatcher import Dispatcher
from strand.errors import ConfigurationError, FeedError, HandlerError
from strand.feeds import Feed, FeedInfo, TickBatch
from strand.feeds.base import BaseFeed, Selection, as_base, skipped_of
from strand.feeds.io.files import Frames, Paths, as_paths
from strand.feeds.merge.selected import SelectedFeed, empty_feed, unknown_symbol
from strand.feeds.opening import FeedOptions, options_with_date
from strand.feeds.times import Moment, as_date
from strand.handlers import Handler, HandlerLike, resolve
from strand.options import named_options, options_in
from strand.output.sinks import files_and_sinks
from strand.replaying.days import DayRecorder
from strand.replaying.failed import raise_first, rereading
from strand.replaying.options import Asked, ReplayOptions, read_watch, records, selection, writes
from strand.replaying.result import ReplayResult
from strand.replaying.run import Published, Run, Sampler, Source, Stops, Straddling, pinned, rows_watched, told_of
from strand.replaying.run_result import feed_counts
from strand.symbols import SymbolTable
from strand.validate import file_path, is_number, mapping

if TYPE_CHECKING:
    from strand.dispatch.saving import SavedState
    from strand.feeds.progress_bar import ProgressBar
    from strand.replaying.pacing import Pacer

__all__ = ["ReplayResult", "follow", "replay", "replay_by"]

#: Of a file that a plain loop reads. The loop calls a handler once for all ticks of a symbol in a batch, and a small
#: batch of thousands of symbols has hardly more than one each. A merge makes batches of its own.
_PLAIN_BATCH_TICKS: Final = 262_144


@named_options("replay()", more=RunOptions, groups=GROUPS, declares=Asked)
def replay(
    source: Paths | Frames | Feed,
    handler: HandlerLike | None = None,
    *,
    handlers: Mapping[str, HandlerLike] | None = None,
    **options: Unpack[ReplayOptions],
) -> ReplayResult:
    """Replays a file, several files or a feed through a handler, and returns its rows, outputs and counts.

    A replay that is interrupted handles what it has published, if it is paced, has ``out``, ``watch`` or ``save``. The
    KeyboardInterrupt then has the result as ``partial``. If it comes while the run is being ended, that may be without
    what handlers' ends add.

    Args:
        source: What ``strand.feeds.open`` takes, such as paths or a table in memory, or a feed.
        handler: The handler of all symbols.
        handlers: In place of ``handler``, handlers by symbol, with ``"*"`` for the others.
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
    return replay_by(_kind_of_run(options), source, handler, handlers, options)


#: Options of ``replay`` that ``follow`` sets itself, or that a run in parts cannot have.
_NOT_IN_PARTS: Final = (
    "allow_empty", "date", "end", "feed_options", "fingerprint_every", "fingerprints", "limit", "load", "pdb",
    "per_day", "position", "save", "snapshot", "start", "symbols", "until",
)  # fmt: skip


def follow(
    feed: Feed,
    handler: HandlerLike | None = None,
    *,
    state: str | os.PathLike[str],
    every_s: float = 10.0,
    handlers: Mapping[str, HandlerLike] | None = None,
    out: Mapping[str, str | os.PathLike[str]] | None = None,
    **options: Any,
) -> ReplayResult:
    """Runs a handler on a live feed in parts, so that a run that is killed goes on where its latest part ended.

    At the end of each part the state of the handlers and the place in the feed are saved as one file. The next call
    with this file goes on there: rows, and the files of all parts, are those of a run that was not killed. Over several
    partitions, where a message was late, what depends on the feed's time may differ, as bars of a length do. Ends of
    handlers do not run.

    Args:
        feed: A feed whose place can be saved, as a ``KafkaFeed``.
        handler: The handler of all symbols.
        state: The file of the state. It is made if it does not exist.
        every_s: The length of a part, seconds. A part without a tick goes on until one comes.
        handlers: In place of ``handler``, handlers by symbol.
        out: Files for outputs by name. The files of part 1 of ``"bars.csv"`` are ``bars.000001.csv``, and so on.
        **options: Those of ``replay`` that do not say where it begins or ends.

    Returns:
        The result of the last part. Its rows are of all parts.

    Raises:
        ConfigurationError: If the feed's place cannot be saved, or an option does not go with parts.
        SavedStateError: If the file does not fit.
        FeedError: If the feed fails; the part is read again by the next call.
    """
    for name in _NOT_IN_PARTS:
        if name in options:
            raise ConfigurationError(name, "it does not go together with the parts of follow(): leave it out")
    if not is_number(every_s) or not 0 < every_s < float("inf"):
        raise ConfigurationError("every_s", f"{every_s!r} is not a number of seconds above 0")
    if as_base(feed).state() is None:
        raise ConfigurationError("feed", f"the place in {feed.info.path} cannot be saved: replay() reads such a feed")
    source, path = _Part(feed, every_s), file_path("state", state)
    made = path.with_name(f".{path.name}.part")
    if path.exists():
        from strand.dispatch.saving import SavedState

        source.resume(SavedState(path))
    later = {name: _of_part(file_path("out", file), source.number + 1) for name, file in (out or {}).items()}
    for name, file in later.items():
        if file.exists():
            raise ConfigurationError(
                "out", f"{name}: {file} is of a later part than the state {path}: name other files"
            )
    try:
        while True:
            files = {name: _of_part(file_path("out", file), source.number) for name, file in (out or {}).items()}
            load = path if source.number > 1 else None
            result = replay(
                source, handler, handlers=handlers, out=files or None, save=made, load=load, allow_empty=True, **options
            )
            made.replace(path)  # now that the part's files are whole: without them, the part is read again
            source.end()
            if source.is_over:
                return result
    finally:
        feed.close()


def _ends_whole(feed: Feed, ended_by: BaseException | None) -> bool:
    """Tells whether a run's state can be saved at its end. A part that was cut short is read again, because its feed
    may be inside a batch."""
    return ended_by is None if isinstance(feed, _Part) else not isinstance(ended_by, FeedError)


def _of_part(path: Path, number: int) -> Path:
    """The file of a part of an output: its number stands before all endings."""
    stem, dot, endings = path.name.partition(".")
    return path.with_name(f"{stem}.{number:06}{dot}{endings}")


class _Part(BaseFeed):
    """Part after part of a live feed, each as a feed of its own.

    Attributes:
        number: The number of the part, from 1.
        is_over: Whether the feed has ended.
    """

    def __init__(self, feed: Any, every_s: float) -> None:
        super().__init__()
        self._feed, self._every_s = feed, every_s
        self.skipped, self.is_live = skipped_of(feed), as_base(feed).is_live
        self.number, self.is_over = 1, False
        # Offsets are committed at the end of a part alone: ticks are counted by their part.
        self._saved = 0
        feed.follow(lambda: self.number, lambda: self._saved)
        feed.is_in_parts = True
        self._batches = feed.batches()

    @property
    def info(self) -> FeedInfo:
        info: FeedInfo = self._feed.info
        return info

    @property
    def symbols(self) -> Sequence[str]:
        names: Sequence[str] = self._feed.symbols
        return names

    @property
    def max_symbols(self) -> int:
        return int(self._feed.max_symbols)

    @property
    def reads(self) -> Sequence[str]:
        return ()

    def live_counts(self) -> Mapping[str, Any]:
        return as_base(self._feed).live_counts()

    def statistics(self) -> dict[str, int]:
        return dict(self._feed.statistics())

    def state(self) -> Mapping[str, Any]:
        return {"part": self.number, "feed": self._feed.state()}

    def resume(self, state: SavedState) -> None:
        """Continues from a saved state. Raises SavedStateError for a state of another kind, and ConfigurationError."""
        with state.reading():
            found = state.about["more"]["feed"]
            self.number, place = found["part"] + 1, found["feed"]
        self._feed.resume(place)

    def end(self) -> None:
        """Ends the part, whose state has been saved."""
        self._saved = self.number
        self._feed.commit()
        self.number += 1

    def close(self) -> None:
        """Does nothing: the feed goes on in the next part."""

    def batches(self) -> Iterator[TickBatch]:
        until, seen = time.monotonic() + self._every_s, 0
        for batch in self._batches:
            seen += len(batch)
            yield batch
            if seen and time.monotonic() >= until:
                return
        self.is_over = True

    def batches_from(self, position: int) -> Iterator[TickBatch]:  # noqa: ARG002
        return self.batches()  # the feed itself goes on behind the ticks of earlier parts


def replay_by(
    make: Callable[..., Any],
    given: Paths | Frames | Feed,
    handler: HandlerLike | None,
    handlers: Mapping[str, HandlerLike] | None,
    asked: ReplayOptions,
) -> ReplayResult:
    """``replay`` through the run that ``make`` makes, which takes the arguments of a Dispatcher. ``asked``: with all
    options of ``Asked``."""
    source, own = as_paths(given), options_in(Asked)
    options: RunOptions = {name: one for name, one in asked.items() if name not in own}  # type: ignore[assignment]
    plain, position = workers_of(options) == 0, asked["position"]
    pacer = _pacer(asked)
    cut = (
        None
        if asked["until"] is None and not asked["pdb"]
        else import_module("strand.replaying.until").Until.of(
            asked["until"], pdb=asked["pdb"], workers=workers_of(options)
        )
    )
    asked = {**asked, "watch": read_watch(asked["watch"])}
    if asked["snapshot"] is not None:
        asked = {**asked, "snapshot": import_module("strand.replaying.snapshots").read_snapshot(asked["snapshot"])}
    reading, (bar, progress) = options_with_date(asked["feed_options"], asked["date"]), _progress(asked)
    wanted = feeds.read_symbols(asked["symbols"] or ())
    left = SavedReplay.of(asked, source, reading, plain=plain)
    position = left.position
    whole_handlers, handler = handler, None if handler is None else resolve(handler)
    _check_written(asked, source, reading)
    feed = _feed(source, wanted, asked, reading, plain=plain)
    begun = time.perf_counter()
    with closing(feed), bar or nullcontext():
        if (opened := getattr(progress, "opened", None)) is not None:
            opened(feed)
        in_blocks = not plain and asked.get("ingest") == "blocks"
        ticks = Source(feed, position, in_blocks=in_blocks, limit=asked["limit"])
        _look_at_first(ticks, feed, asked, wanted, skipped=position)
        ready = time.perf_counter()
        handler, handlers = _for_feed(handler, handlers, feed.info)
        # A saved state has no history, and fits dispatchers that keep one no more than others.
        kept = asked["snapshot"] if asked["load"] is None and asked["save"] is None else None
        dispatcher = make(
            SymbolTable.with_capacity(feed.symbols, feed.max_symbols),
            handler,
            handlers=handlers,
            out=asked["out"],
            **({} if asked["load"] is None else {"load": asked["load"]}),
            **(
                {}
                if kept is None
                else {"_history": partial(import_module("strand.replaying.snapshots").history_of, kept)}
            ),
            **(_of_dispatchers(feed, paced=pacer is not None) if make is Dispatcher else {}),
            **options,
        )
        published = Published(feed)
        counts = published.by_symbol
        counts += left.ticks_by_symbol(len(counts))
        again = None if asked["load"] else partial(rereading, replay, source, asked, wanted, reading)
        if cut is not None:
            cut.joins(feed, dispatcher, again)
        recorder = None
        if records(asked):
            header = partial(
                import_module("strand.replaying.recorder").run_header,
                source,
                {"*": whole_handlers} if handlers is None else handlers,
                asked,
                {"symbols": list(wanted), "position": position},
                feed_options=reading,
                settings={**options, "workers": dispatcher.workers},
            )
            recorder = import_module("strand.replaying.recorder").Recorder(
                dispatcher, lambda: feed.symbols, counts, asked, header
            )
        sampler = None
        if asked["timeline"] and isinstance(dispatcher, Dispatcher):
            rows = rows_watched(dispatcher, asked["watch"], counts, feed)
            sampler = Sampler(dispatcher, begun, published.time_ns, rows)
        stops = Stops(
            sampler,
            recorder,
            Straddling.of([handler, *(handlers or {}).values()], feed),
            None
            if asked["snapshot"] is None
            else import_module("strand.replaying.snapshots").snapshots_for(asked["snapshot"], feed, dispatcher, counts),
            DayRecorder(feed, dispatcher, counts) if asked["per_day"] else None,
            cut,
        )
        run = Run(
            feed, dispatcher, published, stops, wanted=wanted, limit=asked["limit"], pacer=pacer,
            in_part=position > 0 or asked["start"] is not None or asked["end"] is not None,
        )  # fmt: skip
        try:
            with (
                recorder or nullcontext(),
                pinned(dispatcher, feed, asked["pin_publisher"]),
                dispatcher,
                sampler or nullcontext(),
                nullcontext() if pacer is None else pacer.serving(),
                nullcontext() if cut is None else closing(cut),
            ):
                run.setup_s = time.perf_counter() - ready
                run.publish(ticks, progress)
                wall_s = time.perf_counter() - begun
                run.end(with_ends=asked["save"] is None)
                if asked["save"] is not None and _ends_whole(feed, run.ended_by):
                    assert isinstance(dispatcher, Dispatcher)
                    dispatcher.learn_symbols(feed.symbols)
                    left.save(dispatcher, asked["save"], position + published.ticks, counts, as_base(feed).state())
                feed_statistics = dict(feed.statistics())
        except (HandlerError, KeyboardInterrupt) as raised:
            raise_first(raised, dispatcher, partial(run.so_far, begun, ticks), again)
    dispatcher.learn_symbols(feed.symbols)
    if stops.days is not None:
        stops.days.end()
    return told_of(run, run.result(wall_s, ticks.spent_s, feed_statistics), feed, wanted, asked)


def _check_written(asked: Asked, source: Any, feed_options: FeedOptions) -> None:
    """Raises ConfigurationError for a file to write that the run reads, or that another output is written to."""
    if writes(asked):
        from strand.feeds.write.destinations import check_outputs, output_paths

        written = [*output_paths(files_and_sinks(asked["out"])[0], asked["fingerprints"]), ("save", asked["save"])]
        check_outputs(written, source, symbols=asked["symbols"], options=feed_options)


def _of_dispatchers(feed: Feed, *, paced: bool) -> dict[str, Any]:
    """Options by which a dispatcher knows of its feed."""
    if not as_base(feed).is_live:
        return {"_paced": paced, "_recorded": True}
    return {"_paced": True, "_feed_counts": partial(feed_counts, feed)}


def _kind_of_run(options: RunOptions) -> Callable[..., Any]:
    """Returns the class that the ticks go to: a dispatcher, or a plain loop."""
    if workers_of(options) != 0:
        return Dispatcher
    from strand.caller.run import CallerRun

    return CallerRun


def _look_at_first(ticks: Source, feed: Feed, asked: Asked, wanted: Sequence[str], *, skipped: int) -> None:
    """Reads the first batch. Raises the errors of a source without ticks."""
    # With allow_empty a fault before the first tick comes with a result, as one after it does.
    if ticks.first(may_be_empty=asked["allow_empty"]) is not None:
        return
    if (unknown := unknown_symbol(feed, wanted)) is not None:
        raise unknown
    if not asked["allow_empty"]:
        selected = bool(wanted or skipped) or asked["start"] is not None or asked["end"] is not None
        raise empty_feed(feed, selected=selected)


def _pacer(asked: Asked) -> Pacer | None:
    """The pacer, if the replay has one. Raises ConfigurationError."""
    if asked["pacer"] is None and asked["speed"] == 0:
        return None
    from strand.replaying.pacing import Pacer

    if asked["pacer"] is None:
        return Pacer(asked["speed"])
    if not isinstance(asked["pacer"], Pacer):
        raise ConfigurationError("pacer", f"{asked['pacer']!r} is not a strand.replaying.pacing.Pacer")
    if asked["speed"] != 0:
        raise ConfigurationError("speed", "give it to the pacer")
    return asked["pacer"]


def _progress(asked: Asked) -> tuple[ProgressBar | None, Any]:
    """Returns the bar of the option ``progress``, if somebody sees one, and the function to call with the ticks so far;
    None: no progress is shown. Raises ConfigurationError."""
    given = asked["progress"]
    if given is not None and not isinstance(given, bool) and not callable(given):
        raise ConfigurationError("progress", f"{given!r} is neither True, False nor a function")
    if given is not True:
        return None, None if isinstance(given, bool) else given
    if asked["pdb"]:
        raise ConfigurationError(
            "progress", "its bar would be drawn over the debugger's prompt; leave it out with pdb=True"
        )
    from strand.feeds.progress_bar import ProgressBar, is_watched

    bar = ProgressBar("replaying", asked["limit"]) if is_watched() else None
    return bar, bar


def _is_one_file(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> bool:
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    return len(paths) == 1 and isinstance(paths[0], str | os.PathLike) and os.path.isfile(paths[0])  # noqa: PTH113


def _feed(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    wanted: Sequence[str],
    asked: Asked,
    options: FeedOptions,
    *,
    plain: bool,
) -> Feed:
    if isinstance(source, str | os.PathLike | Sequence):
        if plain and _is_one_file(source):
            options = {"batch_ticks": _PLAIN_BATCH_TICKS, **options}
        return feeds.open(source, symbols=wanted, start=asked["start"], end=asked["end"], **options)
    if not isinstance(source, Feed):
        raise ConfigurationError(
            "source",
            f"{type(source).__name__} is neither a path, nor a list of them, nor a table or array, nor a feed",
        )
    if options:
        raise ConfigurationError("feed_options", f"{', '.join(options)} are for files; this feed is open already")
    day = as_date(source.info.date) if source.info.date is not None else None
    start_ns, end_ns = (
        None if given is None else Moment.parse(name, given).ns(day, source.info.path, source.info.zone)
        for name, given in (("start", asked["start"]), ("end", asked["end"]))
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


@dataclass
class SavedReplay:
    """``position``: ticks of the selection that were replayed before, or are to be passed over. ``source``: what the
    files are known by, ``selection``: which of their ticks are replayed."""

    position: int
    source: list[dict[str, Any]]
    selection: dict[str, str]
    state: SavedState | None = None

    @classmethod
    def of(cls, asked: Asked, source: Any, feed_options: Mapping[str, Any], *, plain: bool) -> Self:
        """Makes the state from the arguments of a replay; ``plain``: in a plain loop.

        Raises ConfigurationError for arguments that do not go together, and SavedStateError for a file that does not
        fit them. Raises FeedError for a source that cannot be read."""
        if asked["load"] is None and asked["save"] is None:
            return cls(asked["position"], [], {})
        from strand.dispatch.saving import SavedState, check_name
        from strand.replaying.recorder import describe_source

        if asked["save"] is not None:
            check_name(asked["save"])
        if plain:
            cannot = "be saved" if asked["load"] is None else "go on from a saved state"
            raise ConfigurationError("workers", f"a plain loop (workers=0) cannot {cannot}: give 1 or more")
        if asked["per_day"]:
            raise ConfigurationError(
                "per_day", "a saved state has no rows of single days: replay day by day, without it"
            )
        about = describe_source(source, feed_options)
        every = {**selection(asked), **feed_options}
        chosen = {name: in_full(value) for name, value in every.items() if value is not None}
        if asked["load"] is None:
            return cls(asked["position"], about, chosen)
        if asked["position"]:
            raise ConfigurationError("position", "the saved state says where to go on: leave it out")
        if records(asked):
            raise ConfigurationError(
                "fingerprints",
                "they cover a run from its first tick, so they cannot begin at a saved state: leave them out",
            )
        state = SavedState(file_path("load", asked["load"]))
        state.array("ticks_by_symbol")
        with state.reading():
            saved = state.about["more"]
            _check_same(state, saved, about, chosen)
            return cls(int(saved["position"]), about, chosen, state)

    def ticks_by_symbol(self, n: int) -> npt.NDArray[np.int64]:
        """Number of ticks by symbol that were replayed before, shape (n,)."""
        return np.zeros(n, np.int64) if self.state is None else self.state.array("ticks_by_symbol")

    def save(
        self,
        dispatcher: Dispatcher,
        path: str | os.PathLike[str],
        position: int,
        ticks_by_symbol: npt.NDArray[np.int64],
        feed: Mapping[str, Any] | None,
    ) -> None:
        """Ends the run, and writes the file. ``position``: where the next tick is; ``feed``: the feed's own state."""
        more = {
            "feed": feed,
            "position": position,
            "source": self.source,
            "selection": self.selection,
            "ticks_by_symbol": ticks_by_symbol,
        }
        dispatcher.save(path, _more=more)


def _check_same(
    state: SavedState, saved: Mapping[str, Any], source: list[dict[str, Any]], selection: Mapping[str, str]
) -> None:
    """Raises SavedStateError where these are not the ticks that were replayed before."""
    if len(saved["source"]) != len(source):
        raise state.error(
            f"it was saved in a replay of {several(len(saved['source']), 'file')}, and here are {len(source)}"
        )
    for was, now in zip(saved["source"], source, strict=True):
        if was["head"] != now["head"] or (was["size"] is not None and now["size"] < was["size"]):
            raise state.error(f"it was saved in a replay of {was['path']}, and {now['path']} is another file")
    for name in sorted({*saved["selection"], *selection}):
        before, here = saved["selection"].get(name), selection.get(name)
        if before != here:
            raise state.error(f"it was saved with {name}={before}, and here it is {here}: other ticks would be skipped")
