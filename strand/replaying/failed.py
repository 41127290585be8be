"""A replay that a handler's failure ends: what the error says of the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from strand import feeds
from strand.dispatch.base import interior
from strand.errors import ConfigurationError, HandlerError
from strand.feeds import Feed, TickBatch
from strand.feeds.base import batches_from
from strand.fixed import dataclass
from strand.handlers.failures import place_of, timer_of
from strand.replaying.result import ReplayResult
from strand.threads import mended

if TYPE_CHECKING:
    from strand.caller.run import CallerRun
    from strand.dispatch.dispatcher import Dispatcher
    from strand.handlers import Handler
    from strand.replaying.options import Asked

#: Why ticks may have been dropped before a failure. A tick of a strand that has failed comes after it.
_BEFORE_A_FAILURE: Final = ("newest", "oldest", "conflated", "shed", "lost")


@dataclass(frozen=True)
class Rereading:
    """Reads the input of a replay once more. ``batches``: its ticks, from its first one on; ``replay``: the same call
    of ``strand.replay``, in a plain loop, which takes handlers and ``until``."""

    batches: Callable[[], Iterator[TickBatch]]
    replay: Callable[..., ReplayResult]

    def up_to(self, symbol: str, number: int, tick: npt.NDArray[Any]) -> Before:
        """The input up to one tick of a symbol: ``tick``, shape (1,), is its ``number``-th one, from 1."""
        return Before(self, symbol, number, tick)


@dataclass(frozen=True)
class Before:
    """``strand.handlers.compiled.called_again.Before``, of files."""

    input: Rereading
    symbol: str
    number: int
    tick: npt.NDArray[Any]

    def ticks(self) -> Iterator[TickBatch]:
        """The symbol's, up to and with its tick. Raises ConfigurationError where that is another one by now."""
        left, key = self.number, self.tick["instrument_id"][0]
        for batch in self.input.batches():
            own = batch[np.flatnonzero(batch["instrument_id"] == key)[:left]]
            left -= len(own)
            if left == 0 and own[-1:].tobytes() != self.tick.tobytes():
                break
            yield own
            if left == 0:
                return
        raise ConfigurationError(f"replay: tick {self.number:,} of {self.symbol} is another one: the input has changed")

    def fails(self, handler: Handler) -> bool:
        """Tells whether a handler that is called with the symbol's ticks fails by then."""
        try:
            self._replayed(handler, self.number)
        except HandlerError:
            return True
        return False

    def row_after(self, handler: Handler) -> Any:
        """The symbol's row of a handler as it is right after the tick, shape (1,). Raises HandlerError."""
        return self._row(handler, self.number)

    def row_before(self, handler: Handler) -> Any:
        """Row of a handler right before the tick, shape (1,)."""
        return self._row(handler, self.number - 1) if self.number > 1 else np.zeros(1, handler.state)

    def _row(self, handler: Handler, number: int) -> npt.NDArray[Any]:
        result = self._replayed(handler, number)
        index = result.symbols.index(self.symbol)
        return result.rows.as_seen_by(index)[index : index + 1].copy()

    def _replayed(self, handler: Handler, number: int) -> ReplayResult:
        # The others are there for their times, which timers go by.
        return self.input.replay(handlers={self.symbol: handler, "*": "count"}, until=(self.symbol, number))


def raise_first(
    raised: HandlerError | KeyboardInterrupt,
    dispatcher: Dispatcher | CallerRun,
    result: Callable[[], ReplayResult],
    reread: Callable[[], Rereading | None] | None,
) -> NoReturn:
    """Raises the first HandlerError of a run in the order of ticks. It gets ``partial``, the result when the dispatcher
    has stopped, ``number``, and what was before its tick.

    A KeyboardInterrupt gets ``partial`` too: one that came behind the publishing, while the run was being ended.

    ``reread``: makes a reader of the input; None where it cannot be read once more. Only so it is known how many ticks
    of a symbol were before one, where symbols share a strand: nobody counts those as they run.
    """
    if isinstance(raised, KeyboardInterrupt):
        # It may have come before the dispatcher's own end began.
        end = partial(dispatcher.__exit__, KeyboardInterrupt, raised, None)
        mended(end, end)
        raised.partial = result()  # type: ignore[attr-defined]
        raise raised
    again = None if reread is None else reread()
    error = _first(raised, dispatcher, again)
    line_in, error._line_in = error._line_in, None  # the line needs the input, which is not known yet
    error.partial = result()
    if error.number is None and error.tick is not None and again is not None:
        error.number = _number(error, dispatcher, again.batches())
    if error.number is not None and error._again is not None and again is not None:
        before = again.up_to(error.symbol, error.number, np.array([error.tick]))
        error._again = partial(error._again, before=before)
    error._line_in = line_in
    # The other failures after it depend on timing.
    error.partial = replace(error.partial, failures=(str(error),))
    raise error from error.__cause__


def rereading(
    replay: Callable[..., ReplayResult], source: Any, asked: Asked, symbols: Sequence[str], options: Mapping[str, Any]
) -> Rereading | None:
    """Returns a reader of the ticks of a ``replay`` for a second pass, as it was asked for; None where they do not lie
    in files. ``options``: those of ``strand.feeds.open``."""
    paths = [source] if isinstance(source, str | os.PathLike) else source
    if isinstance(source, Feed) or not all(Path(path).is_file() or Path(path).is_dir() for path in paths):
        return None

    def batches() -> Iterator[TickBatch]:
        feed = feeds.open(source, symbols=symbols, start=asked["start"], end=asked["end"], **options)
        try:
            yield from batches_from(feed, asked["position"])
        finally:
            feed.close()

    same = {
        "start": asked["start"],
        "end": asked["end"],
        "symbols": symbols or None,
        "position": asked["position"],
        "feed_options": options,
    }
    return Rereading(batches, partial(replay, source, **same, per_day=asked["per_day"], workers=0, timeline=False))


def _first(raised: HandlerError, dispatcher: Dispatcher | CallerRun, again: Rereading | None) -> HandlerError:
    """The first failure of a run in the order of ticks; ``raised`` is the first one that happened.

    A timer comes before the first tick that reaches its time. Without the input, ticks have the order of their times.
    """
    if len(failures := interior(dispatcher).all_failures) < 2:
        return raised
    timers = [(ns, dispatcher.symbols.index(f.symbol), f) for f in failures if (ns := timer_of(f)) is not None]
    ticks = [f for f in failures if f.tick is not None]
    found = [(*min(timers, key=itemgetter(0, 1)),)] if timers else []
    if ticks and again is not None and not any(dispatcher.statistics().dropped.get(why) for why in _BEFORE_A_FAILURE):
        found += _first_tick(ticks, dispatcher, again.batches())
    elif ticks:
        first = min(ticks, key=lambda f: (int(f.tick["ts_recv"]), int(f.tick["sequence"])))
        found.append((int(first.tick["ts_recv"]), len(dispatcher.symbols), first))
    return min(found, key=itemgetter(0, 1))[2] if found else raised


def _first_tick(
    failures: list[HandlerError], dispatcher: Dispatcher | CallerRun, batches: Iterator[TickBatch]
) -> list[tuple[int, int, HandlerError]]:
    """The failure on the first tick: the feed's time there, a number above all symbols', and the failure."""
    strands = interior(dispatcher).strand_of_symbol
    left = np.full(dispatcher.n_strands, np.iinfo(np.int64).max)
    failure_of = {}
    for failure in failures:
        if (found := place_of(failure)) is not None:
            strand, left[strand] = found
            failure_of[strand] = failure
    time = 0
    for batch in batches:
        of_tick = strands[batch["instrument_id"]]
        counts = np.bincount(of_tick, minlength=len(left))
        reached = np.flatnonzero(left < counts)
        if len(reached):
            place, strand = min((int(np.flatnonzero(of_tick == s)[left[s]]), int(s)) for s in reached)
            return [(max(time, int(batch["ts_recv"][: place + 1].max())), len(strands), failure_of[strand])]
        left -= counts
        time = max(time, int(batch["ts_recv"].max(initial=0)))
    return []


def _number(error: HandlerError, dispatcher: Dispatcher | CallerRun, batches: Iterator[TickBatch]) -> int | None:
    """Number of the failed tick among its symbol's ticks; None where ticks were dropped."""
    if (found := interior(dispatcher).place_of(error)) is None:
        return None
    place, keys_of_strand = found
    key = dispatcher.symbols.index(error.symbol)
    number = 0
    for batch in batches:
        keys = batch["instrument_id"]
        in_strand = np.arange(len(keys)) if keys_of_strand is None else np.flatnonzero(keys_of_strand[keys])
        number += int(np.count_nonzero(keys[in_strand[: place + 1]] == key))
        place -= len(in_strand)
        if place < 0:
            break
    return number if place < 0 else None
