"""Early end of a replay: after a symbol's tick, or at a time, and a prompt at that tick."""

from __future__ import annotations

import sys
from bdb import BdbQuit
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Final

import numpy as np

from strand.dispatch.base import RunBase, interior
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.feeds import Feed, TickBatch
from strand.feeds.times import Moment
from strand.feeds.trading_day import NEW_YORK, as_date, day_of_ns
from strand.handlers.compiled.called_again import codes_of
from strand.replaying.failed import Rereading
from strand.symbols import near_symbol
from strand.validate import is_whole

__all__ = ["Prompt", "Until"]


#: Methods that are not called with a tick, but may be called before it.
_AT_NO_TICK: Final = ("__init__", "on_start", "on_wake", "on_finish", "on_stop")


@dataclass(slots=True)
class Until:
    """Cuts a run's ticks: after tick ``number``, from 1, of ``symbol``, or before the first tick whose ``ts_recv`` is
    after ``moment``. ``prompt``: pdb starts where the handler is called with that tick. ``seen``: ticks
    of the symbol so far. Without any of these it cuts nothing."""

    symbol: str | None = None
    number: int = 0
    moment: Moment | None = None
    prompt: bool = False
    seen: int = field(default=0, init=False)

    @classmethod
    def of(cls, until: object, *, pdb: bool = False, workers: object = 0) -> Until:
        """Reads the options of ``replay``. Raises ConfigurationError."""
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
        if until is None:
            return cls()
        if not isinstance(until, str) and not is_whole(until):
            raise ConfigurationError("until", f'{until!r} is neither ("AAPL", number) nor a time')
        return cls(moment=Moment.parse("until", until))

    @property
    def cuts(self) -> bool:
        """True if it ends the replay early."""
        return self.symbol is not None or self.moment is not None

    def cut(
        self, batches: Iterator[TickBatch], feed: Feed, run: RunBase, again: Rereading | None
    ) -> Iterator[TickBatch]:
        """The batches up to there; handlers' ends are left out then. ``again``: reads the input once more, None where
        that cannot be. Raises UnknownSymbolError and ConfigurationError where the feed has no such tick, and where the
        tick's handler has no line for a prompt."""
        if self.symbol is not None:
            return self._by_number(batches, feed, run, again)
        return batches if self.moment is None else self._by_time(batches, feed, run)

    def _by_number(
        self, batches: Iterator[TickBatch], feed: Feed, run: RunBase, again: Rereading | None
    ) -> Iterator[TickBatch]:
        for batch in batches:
            names = feed.symbols
            key = names.index(self.symbol) if self.symbol in names else None
            places = np.flatnonzero(batch["instrument_id"] == key) if key is not None else np.empty(0, np.intp)
            if self.seen + len(places) >= self.number:
                at = int(places[self.number - self.seen - 1])
                interior(run).leave_ends_out()
                yield from self._last(batch[: at + 1], run, again)
                return
            self.seen += len(places)
            yield batch
        if self.symbol not in feed.symbols:
            near = near_symbol(self.symbol, feed.symbols)
            raise UnknownSymbolError(f"until: nothing in {feed.info.path} is named {self.symbol!r}{near}")
        raise ConfigurationError(
            "until", f"{self.symbol} has {self.seen:,} ticks in this replay, and so no number {self.number:,}"
        )

    def _last(self, batch: TickBatch, run: RunBase, again: Rereading | None) -> Iterator[TickBatch]:
        """Yields the batch that ends with the last tick, with a prompt at that tick if one is wanted."""
        if not self.prompt:
            yield batch
            return
        yield batch[:-1]
        tick = batch[-1:]
        handler = interior(run).handler_of(int(tick["instrument_id"][0]))
        codes = frozenset(code for code in codes_of(handler.written) if code.co_name not in _AT_NO_TICK)
        if not codes:
            raise ConfigurationError("pdb", f"handler {handler.name!r} is machine code, and has no lines of Python")
        prompt = Prompt(codes)
        prompt.arm()
        try:
            if handler.is_native:
                self._rehearse(tick, run, again)
                if not prompt.has_begun:
                    raise ConfigurationError(
                        "pdb",
                        f"handler {handler.name!r} is not called with tick {self.number:,} of {self.symbol}: it "
                        "is not a trade",
                    )
                prompt.disarm()
            yield tick
        finally:
            prompt.disarm()

    def _rehearse(self, tick: TickBatch, run: RunBase, again: Rereading | None) -> None:
        assert self.symbol is not None
        try:
            interior(run).rehearse(tick, None if again is None else again.up_to(self.symbol, self.number, tick.copy()))
        except (BdbQuit, ConfigurationError):
            raise
        except Exception:
            pass  # the machine code fails as well, and says so

    def _by_time(self, batches: Iterator[TickBatch], feed: Feed, run: RunBase) -> Iterator[TickBatch]:
        assert self.moment is not None
        until_ns: np.int64 | None = None
        for batch in batches:
            if until_ns is None:
                until_ns = self._ns(feed, batch)
            late = np.flatnonzero(batch["ts_recv"] > until_ns)
            if len(late):
                interior(run).leave_ends_out()
                yield batch[: int(late[0])]
                return
            yield batch

    def _ns(self, feed: Feed, first: TickBatch) -> np.int64:
        """The moment, a time of day being one of the feed's date, or else of its first tick's, in the feed's zone."""
        assert self.moment is not None
        info = feed.info
        day = as_date(info.date) if info.date is not None else None
        if day is None and not info.undated and len(first):
            day = day_of_ns(int(first["ts_recv"][0]), info.zone or NEW_YORK)
        return np.int64(self.moment.ns(day, info.path, info.zone))


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
