"""History of a run: counters sampled while it went on, and rows of a few symbols as they stood after given ticks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.columns import count_by_symbol
from strand.brief import brief, listed, several
from strand.dispatch.calls import SymbolView
from strand.dispatch.dispatcher import Dispatcher
from strand.errors import BackpressureError, QuarantinedError
from strand.feeds import Feed, TickBatch
from strand.fixed import dataclass
from strand.replaying.stops import Stop


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SymbolTimeline:
    """State of one symbol at moments of the run.

    Attributes:
        symbol: Its name.
        index: Its index.
        rows: A read-only structured array, shape (n,). ``feed_ns`` (u8) is the feed's time there, ns since the epoch;
            ``position`` (u8) the ticks of the run published by then. The other fields are those of the symbol's row
            that say something of its market (``FIELDS``). Each is the row as it
            stood after exactly that many ticks, whatever the number of workers.
    """

    symbol: str
    index: int
    rows: npt.NDArray[Any]

    def __repr__(self) -> str:
        return brief(self, self.symbol, several(len(self.rows), "moment"), listed(self.rows.dtype.names or ()))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Timeline:
    """Counters of a run at n moments, the end included: read-only arrays, totals since the start.

    Slots are read one after the other while they count on, so the columns of one moment may be microseconds apart. A
    long run has as many moments as a short one: when there is no room, every other one is forgotten.

    Attributes:
        at_s: f8 (n,), seconds since the run began (asking for the first batch).
        feed_ns: u8 (n,), the feed's time published by then, ns since the epoch; 0 before the first tick.
        accepted, handled, dropped, pending: u8 (n,), ticks.
        worker_names: The workers, ``"publishers"`` last.
        worker_handled: u8 (n, workers + 1), ticks.
        worker_busy_ns: u8 (n, workers + 1), time in handlers in ns, which a visit counts when it ends.
        handler_ns: u8 (n_symbols,), the ns that a symbol's handler took by the end. 0 where that is not known
            (``Dispatcher.handler_times``), and where no symbols are watched.
        handler_ticks: u8 (n_symbols,), the ticks that ``handler_ns`` was for; 0 likewise.
        symbols: The state of watched symbols, by name.
    """

    at_s: npt.NDArray[np.float64]
    feed_ns: npt.NDArray[np.uint64]
    accepted: npt.NDArray[np.uint64]
    handled: npt.NDArray[np.uint64]
    dropped: npt.NDArray[np.uint64]
    pending: npt.NDArray[np.uint64]
    worker_names: tuple[str, ...]
    worker_handled: npt.NDArray[np.uint64]
    worker_busy_ns: npt.NDArray[np.uint64]
    handler_ns: npt.NDArray[np.uint64]
    handler_ticks: npt.NDArray[np.uint64]
    symbols: Mapping[str, SymbolTimeline]

    def __repr__(self) -> str:
        seconds = f"{self.at_s[-1]:.3g} s" if len(self) else ""
        return brief(self, several(len(self), "moment"), seconds, listed(self.symbols))

    def __len__(self) -> int:
        return len(self.at_s)

    def rate(self, bins: int = 200) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Ticks handled per second in ``bins`` equal spans of the run at most: edges in s (k + 1,) and rates (k,)."""
        edges = self._edges(bins)
        return edges, np.diff(np.interp(edges, self.at_s, self.handled.astype(np.float64))) / np.diff(edges)

    def load(self, bins: int = 200) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Share of its time each worker ran handlers, in spans as ``rate`` has them: edges in s, shape (k + 1,), and
        shares from 0 to 1, shape (k, workers + 1)."""
        edges = self._edges(bins)
        busy = self.worker_busy_ns.astype(np.float64) / 1e9
        at_edges = np.stack([np.interp(edges, self.at_s, column) for column in busy.T], axis=1)
        return edges, np.clip(np.diff(at_edges, axis=0) / np.diff(edges)[:, np.newaxis], 0.0, 1.0)

    def _edges(self, bins: int) -> npt.NDArray[np.float64]:
        """Edges of spans, as many as there are moments to tell them apart."""
        if len(self) < 2 or self.at_s[-1] <= self.at_s[0]:
            return np.zeros(1)
        return np.linspace(self.at_s[0], self.at_s[-1], max(1, min(bins, len(self) - 1)) + 1)


#: Fields of rows that are kept over time, where a handler has them.
FIELDS: Final = (
    "bid_price", "ask_price", "bid", "ask", "bid_size", "ask_size", "last_price", "vwap", "volume", "trades",
)  # fmt: skip

#: Places kept; when there are as many, every other one goes and the next are twice as far apart.
CAPACITY: Final = 256
#: Ticks of the feed from one place to the next, at first.
FIRST_STEP: Final = 1024

#: Symbols whose samples are kept, as those that were among the busiest for a while; of more, the busier half stays.
SYMBOLS: Final = 128

#: Wait while as many calls wait as there may be.
WAIT_S: Final = 0.05

_Values = list[Any]


class RowSampler(Stop):
    """Looks at rows at regular places of the feed, and asks for them there.

    Rows are live memory, and one read while a handler writes it may be torn. So each is asked for by a call, which the
    symbol's strand answers in order with its ticks: after all those of the parts before, and before any of the next. A
    strand with nothing pending need not be asked: then no handler is at work on it, and none can begin before this
    thread, the one that publishes, goes on (``Dispatcher.read_if_quiescent``). Answers are not waited for; only when a
    thousand are owed, the thread helps to drain for a moment. The samples depend neither on workers nor on time.
    """

    def __init__(
        self, dispatcher: Dispatcher, watch: int | Sequence[str], counts: npt.NDArray[np.int64], feed: Feed
    ) -> None:
        """``watch``: names, or how many of the busiest symbols. ``counts``: of published ticks, by symbol."""
        self._dispatcher = dispatcher
        self._counts = counts
        self._feed = feed
        self._busiest, self._watch = (watch, []) if isinstance(watch, int) else (0, [*watch])
        self._chosen: list[int] = []
        #: By symbol and position: the feed's time there, and the row's values, or the call that will have them.
        self._series: dict[int, dict[int, tuple[int, _Values | Future[_Values]]]] = {}
        self._columns: dict[int, dict[str, npt.NDArray[Any]]] = {}
        self._position = 0
        self._places = 0
        self._step = FIRST_STEP
        self._choose_at = 0

    def begin(self, batch: TickBatch) -> None:
        if self._position >= self._choose_at and len(batch):
            # The busiest symbols change less and less.
            counts = self._counts.copy()
            count_by_symbol(batch, counts)
            self._choose(counts)
            self._choose_at = self._position + max(len(batch), self._position // 2)

    def next(self, at: int) -> int:
        return at + self._step - self._position % self._step

    def published(self, ticks: TickBatch) -> None:
        self._position += len(ticks)
        if len(ticks) and self._position % self._step == 0:
            self._look(int(ticks["ts_recv"][-1]))

    def look_at_end(self, feed_ns: int) -> None:
        """The last look, when all has been handled."""
        self._choose(self._counts)
        self._look(feed_ns)

    def timelines(self, names: Sequence[str]) -> dict[str, SymbolTimeline]:
        """Timelines by name: the busiest first, or in the order that was asked for. A symbol whose strand was set aside
        has only earlier samples. ``names``: all symbols that the feed came to know."""
        found = {}
        for index in self._choose(self._counts):
            answered = [
                (feed_ns, position, values if isinstance(values, list) else values.result())
                for position, (feed_ns, values) in sorted(self._series.get(index, {}).items())
                if isinstance(values, list) or (values.done() and not values.cancelled() and not values.exception())
            ]
            if answered:
                found[names[index]] = SymbolTimeline(names[index], index, _as_array(self._columns[index], answered))
        return found

    def _choose(self, by_symbol: npt.NDArray[np.int64]) -> list[int]:
        if self._busiest:
            there = np.flatnonzero(by_symbol)
            if len(there) > self._busiest:
                there = there[by_symbol[there] >= np.partition(by_symbol[there], -self._busiest)[-self._busiest]]
            self._chosen = there[np.argsort(-by_symbol[there], kind="stable")[: self._busiest]].tolist()
            if len(self._series) > SYMBOLS:
                keep = sorted(self._series, key=lambda i: -int(by_symbol[i]))[: SYMBOLS // 2]
                self._series = {i: self._series[i] for i in keep}
        elif len(self._chosen) < len(self._watch):
            # A feed learns names as it goes.
            index_of = {name: i for i, name in enumerate(self._feed.symbols) if name}
            self._chosen = [index_of[name] for name in self._watch if name in index_of]
        return self._chosen

    def _look(self, feed_ns: int) -> None:
        for index in self._chosen:
            if index not in self._columns:
                self._columns[index] = _columns(self._dispatcher.rows.as_seen_by(index))
            columns = self._columns[index].values()
            values: _Values | Future[_Values] | None = self._dispatcher.read_if_quiescent(index, columns)
            if values is None:
                values = self._ask(index, columns)
            if values is not None:
                self._series.setdefault(index, {})[self._position] = feed_ns, values
        self._places += 1
        if self._places == CAPACITY:
            self._thin()

    def _ask(self, index: int, columns: Iterable[npt.NDArray[Any]]) -> Future[_Values] | None:
        def read(_: SymbolView) -> _Values:
            return [column[index] for column in columns]

        for _ in range(2):
            try:
                return self._dispatcher.submit_call(index, read)
            except BackpressureError:
                self._dispatcher.drain(WAIT_S)
            except QuarantinedError:
                break
        return None

    def _thin(self) -> None:
        self._places //= 2
        self._step *= 2
        for index, series in self._series.items():
            self._series[index] = {position: kept for position, kept in series.items() if position % self._step == 0}


def _columns(rows: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Views of the fields that matter; those of a row within a row (a chain of handlers) count as its own."""
    parts = [rows, *(rows[name] for name in rows.dtype.names or () if rows.dtype[name].names is not None)]
    return {
        field: part[field]
        for field in FIELDS
        for part in reversed(parts)
        if field in (part.dtype.names or ()) and part[field].ndim == 1
    }


def _as_array(columns: Mapping[str, npt.NDArray[Any]], series: Sequence[tuple[int, int, _Values]]) -> npt.NDArray[Any]:
    dtype = [("feed_ns", "<i8"), ("position", "<u8"), *((name, column.dtype) for name, column in columns.items())]
    rows = np.zeros(len(series), dtype)
    rows["feed_ns"] = [feed_ns for feed_ns, _, _ in series]
    rows["position"] = [position for _, position, _ in series]
    for at, name in enumerate(columns):
        rows[name] = [values[at] for _, _, values in series]
    rows.flags.writeable = False
    return rows
