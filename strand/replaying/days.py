"""Results of each day of a run: rows that begin anew where a clear record says that a day begins."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from strand.brief import brief, several
from strand.feeds import Feed, TickBatch
from strand.fixed import dataclass
from strand.output.fingerprint import fingerprint_of_rows
from strand.output.rows import BasketRows, Rows
from strand.replaying.stops import Stop
from strand.ticks import empty, is_clear

if TYPE_CHECKING:
    from strand.caller.run import CallerRun
    from strand.dispatch.dispatcher import Dispatcher


@dataclass(frozen=True, repr=False)
class Day:
    """Day of the symbols whose venue ended it.

    Attributes:
        start_ns: The receive time of the day's first tick, ns since the epoch.
        end_ns: The receive time of the next day's first tick; None for what was under way when the run ended.
        symbols: The names of symbols with ticks.
        ticks_by_symbol: How many ticks each of these had, without clear records, shape (n,), i8.
        rows: The rows as a replay of that day alone leaves them.
    """

    start_ns: int
    end_ns: int | None
    symbols: tuple[str, ...]
    ticks_by_symbol: npt.NDArray[np.int64]
    rows: Rows

    def __repr__(self) -> str:
        day = str(np.datetime64(self.start_ns, "ns"))[:10]
        return brief(self, day, several(self.ticks, "tick"), several(len(self.symbols), "symbol"))

    @property
    def ticks(self) -> int:
        return int(self.ticks_by_symbol.sum())

    @property
    def baskets(self) -> BasketRows:
        """The baskets' rows, as those of symbols."""
        return self.rows.shared

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that stand for the day's rows, ticks and baskets, by name. Emitted records are no part
        of it."""
        return fingerprint_of_rows(self.rows, self.symbols, self.ticks_by_symbol)


class DayRecorder(Stop):
    """Brings a run to rest where a day ends, takes its rows, and lets them begin as zeros. ``counts``: of published
    ticks, by symbol, up to date at each place."""

    def __init__(self, feed: Feed, dispatcher: Dispatcher | CallerRun, counts: npt.NDArray[np.int64]) -> None:
        self._feed = feed
        self._dispatcher = dispatcher
        self._counts = counts
        self._counted = np.zeros(feed.max_symbols, np.int64)
        self._start = np.full(feed.max_symbols, -1, np.int64)
        self._first: int | None = None
        self._over: list[npt.NDArray[np.uint32]] = []
        self._over_ns = 0
        self._batch: TickBatch = empty(0)
        #: Where stretches of clear records, and of other ticks, begin in the batch, and its end.
        self._places = [0, 0]
        self.days: tuple[Day, ...] = ()

    def begin(self, batch: TickBatch) -> None:
        clear = is_clear(batch)
        self._batch = batch
        self._places = [0, *(np.flatnonzero(clear[1:] != clear[:-1]) + 1).tolist(), len(batch)]

    def next(self, at: int) -> int:
        return self._places[bisect_right(self._places, at)]

    def act(self, at: int) -> None:
        if self._places[bisect_right(self._places, at) - 1] != at:
            return
        stretch = self._batch[at : self.next(at)]
        if is_clear(stretch[:1])[0]:
            self._take(stretch)
        else:
            time = int(stretch["ts_recv"][0])
            self._begin(time)
            if self._first is None:
                self._first = time

    def end(self) -> None:
        """Takes the rows of the days under way, when all has been handled."""
        self._begin()
        self._rest()
        self._add(self._symbols, None)

    def _take(self, clears: TickBatch) -> None:
        """Some symbols' day is over. A batch may end among the clear records of a boundary."""
        if not self._over:
            self._dispatcher.drain()
            self._rest()
            self._over_ns = int(clears["ts_recv"][0])
        self._over.append(clears["instrument_id"].copy())

    def _rest(self) -> None:
        """Keeps the rows of all symbols that had ticks on their day."""
        self._dispatcher.learn_symbols(self._feed.symbols)
        self._symbols = np.flatnonzero(self._counts > self._counted)
        self._ticks = self._counts[self._symbols] - self._counted[self._symbols]
        rows = self._dispatcher.rows
        self._rows = rows.of(self._symbols, rows.shared.names) if len(self._symbols) else None

    def _begin(self, time: int | None = None) -> None:
        """All clear records of a boundary are published: the rows of their symbols begin anew. ``time``: of the tick
        that comes next, None at the end."""
        if not self._over:
            return
        over = np.unique(np.concatenate(self._over)).astype(np.intp)
        self._over = []
        self._dispatcher.drain()
        shared = self._add(over, self._over_ns)
        from strand.dispatch.base import interior  # which commands that show results do without

        inside = interior(self._dispatcher)
        if inside.history is not None and time is not None:
            inside.history.keep(over, max(time, inside.feed_time))
        self._dispatcher.rows.begin(over, shared)
        self._counted[over] = self._counts[over]
        self._start[over] = self._over_ns

    def _add(self, over: npt.NDArray[np.intp], end_ns: int | None) -> list[str]:
        """The day of some symbols, of those whose rows were kept. Returns the names of the shared rows that are on it.
        Raises ConfigurationError for one on two days."""
        others, symbols = np.setdiff1d(self._symbols, over), self._dispatcher.symbols
        shared = self._dispatcher.rows.shared.on_day_of(over, others, symbols)
        at = np.flatnonzero(np.isin(self._symbols, over))
        if not len(at) or self._rows is None:
            return shared
        starts = self._start[self._symbols[at]]
        rows = self._rows.of(at, shared)
        day = Day(
            start_ns=int(np.where(starts < 0, self._first or 0, starts).min()),
            end_ns=end_ns,
            symbols=tuple(rows.symbols),
            ticks_by_symbol=self._ticks[at],
            rows=rows,
        )
        self.days = (*self.days, day)
        return shared
