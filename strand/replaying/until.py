"""Early end of a replay: after a symbol's tick, or at a time, and a prompt at that tick."""

from __future__ import annotations

import sys
from bdb import BdbQuit
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any, Final, Self

import numpy as np

from strand.dispatch.base import RunBase, interior
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.feeds import Feed, TickBatch
from strand.feeds.times import NEW_YORK, Moment, as_date, check_unit, day_of_ns
from strand.handlers.compiled.called_again import codes_of
from strand.replaying.failed import Rereading
from strand.replaying.stops import Stop
from strand.symbols import near_symbol
from strand.validate import is_whole

#: Methods that are not called with a tick, but may be called before it.
_AT_NO_TICK: Final = ("__init__", "on_start", "on_wake", "on_finish", "on_stop")


class Until(Stop):
    """End of a run: after tick ``number``, from 1, of ``symbol``, or before the first tick whose ``ts_recv`` is after
    ``moment``. ``prompt``: pdb starts where the handler is called with that tick.

    ``is_reached``: the run has come to its end; handlers' ends are left out then.
    """

    def __init__(
        self, symbol: str | None = None, number: int = 0, moment: Moment | None = None, *, prompt: bool = False
    ) -> None:
        self.is_reached = False
        self._symbol = symbol
        self._number = number
        self._moment = moment
        self._until_ns: np.int64 | None = None
        self._wants_prompt = prompt
        self._prompt: Prompt | None = None
        #: Ticks of the symbol before the batch.
        self._seen = 0
        #: In the batch at hand: the place behind the last tick, and that of the tick for a prompt.
        self._end: int | None = None
        self._at: int | None = None

    @classmethod
    def of(cls, until: object, *, pdb: bool = False, workers: object = 0) -> Self:
        """Reads the options of a ``replay`` that has one of both. Raises ConfigurationError."""
        if isinstance(until, tuple | list):
            if len(until) != 2 or not isinstance(until[0], str) or not is_whole(until[1]) or until[1] < 1:
                raise ConfigurationError(
                    "until", f'{until!r} is not a pair (symbol, number): give ("AAPL", 17) for its 17th tick, or a time'
                )
            if pdb and workers != 0:
                raise ConfigurationError("pdb", "a prompt stops one thread: give workers=0")
            return cls(until[0], int(until[1]), prompt=pdb)
        if pdb:
            raise ConfigurationError("pdb", 'say at which tick: until=("AAPL", 17)')
        if not isinstance(until, str) and not is_whole(until):
            raise ConfigurationError("until", f'{until!r} is neither ("AAPL", number) nor a time')
        return cls(moment=Moment.parse("until", until))

    def joins(self, feed: Feed, run: RunBase, reread: Callable[[], Rereading | None] | None) -> None:
        """Belongs to a run from now on. ``reread``: makes a reader of the input; None where it cannot be read again."""
        self._feed, self._run, self._reread = feed, run, reread

    @property
    def idle_until_ns(self) -> int | None:
        return None if self._until_ns is None else int(self._until_ns)

    def end_in(self, batch: TickBatch) -> int | None:
        """Returns the place in the feed's next batch where the run ends; None: it goes on."""
        self._at, self._batch = None, batch
        if self._moment is not None:
            if self._until_ns is None:
                self._until_ns = self._ns(self._moment, batch)
            late = np.flatnonzero(batch["ts_recv"] > self._until_ns)
            return int(late[0]) if len(late) else None
        names = self._feed.symbols
        key = names.index(self._symbol) if self._symbol in names else None
        places = np.flatnonzero(batch["instrument_id"] == key) if key is not None else np.empty(0, np.intp)
        left = self._number - self._seen
        self._seen += len(places)
        if len(places) < left:
            return None
        last = int(places[left - 1])
        self._at = last if self._wants_prompt else None
        return last + 1

    def reach(self) -> None:
        """All ticks up to the end are published."""
        self.close()
        self.is_reached = True
        interior(self._run).leave_ends_out()

    def check_reached(self) -> None:
        """The feed is over. Raises UnknownSymbolError and ConfigurationError where it has no such tick."""
        if self.is_reached or self._symbol is None:
            return
        feed = self._feed
        if self._symbol not in feed.symbols:
            near = near_symbol(self._symbol, feed.symbols)
            raise UnknownSymbolError(f"until: nothing in {feed.info.path} is named {self._symbol!r}{near}")
        raise ConfigurationError(
            "until", f"{self._symbol} has {self._seen:,} ticks in this replay, and so no number {self._number:,}"
        )

    def next(self, at: int) -> int | None:
        return self._at if self._at is not None and self._at > at else None

    def act(self, at: int) -> None:
        """Begins to look for the call with the last tick. Raises ConfigurationError where its handler has no line for a
        prompt."""
        if at != self._at:
            return
        tick = self._batch[at : at + 1]
        handler = interior(self._run).handler_of(int(tick["instrument_id"][0]))
        codes = frozenset(code for code in codes_of(handler.written) if code.co_name not in _AT_NO_TICK)
        if not codes:
            raise ConfigurationError("pdb", f"handler {handler.name!r} is machine code, and has no lines of Python")
        self._prompt = prompt = Prompt(codes)
        prompt.arm()
        if handler.is_native:
            self._rehearse(tick)
            if not prompt.has_begun:
                raise ConfigurationError(
                    "pdb",
                    f"handler {handler.name!r} is not called with tick {self._number:,} of {self._symbol}: it is not a "
                    "trade",
                )
            prompt.disarm()

    def close(self) -> None:
        """Ends a prompt, when the run has ended, however it did."""
        if self._prompt is not None:
            self._prompt.disarm()

    def _rehearse(self, tick: TickBatch) -> None:
        assert self._symbol is not None
        again = None if self._reread is None else self._reread()
        before = None if again is None else again.up_to(self._symbol, self._number, tick.copy())
        try:
            interior(self._run).rehearse(tick, before)
        except (BdbQuit, ConfigurationError):
            raise
        except Exception:
            pass  # the machine code fails as well, and says so

    def _ns(self, moment: Moment, first: TickBatch) -> np.int64:
        """The moment, a time of day being one of the feed's date, or else of its first tick's, in the feed's zone."""
        info = self._feed.info
        day = as_date(info.date) if info.date is not None else None
        if day is None and not info.undated and len(first):
            day = day_of_ns(int(first["ts_recv"][0]), info.zone or NEW_YORK)
        ns = moment.ns(day, info.path, info.zone)
        if day is not None:
            check_unit("until", ns, day)
        return np.int64(ns)


class Prompt:
    """Starts pdb where one of a handler's functions begins, once. It is for the thread that ``arm`` is called in."""

    def __init__(self, codes: Iterable[CodeType]) -> None:
        self._codes = frozenset(codes)
        self.has_begun = False

    def arm(self) -> None:
        """Starts to look."""
        sys.settrace(self._look)

    def disarm(self) -> None:
        """Stops to look, also where pdb is at work."""
        sys.settrace(None)

    def _look(self, frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or frame.f_code not in self._codes:
            return None
        import pdb

        self.has_begun = True
        debugger = pdb.Pdb(nosigint=True)
        debugger.set_trace(frame)
        return debugger.trace_dispatch
