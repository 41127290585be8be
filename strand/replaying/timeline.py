"""History of a run: counters and rows sampled while it went on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.brief import brief, listed, several

__all__ = ["SymbolTimeline", "Timeline"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SymbolTimeline:
    """State of one symbol at moments of the run.

    Attributes:
        symbol: Its name.
        index: Its index.
        rows: A read-only structured array, shape (n,). ``feed_ns`` (u8) is the feed's time there, ns since the epoch;
            ``position`` (u8) the ticks of the run published by then. The other fields are those of the symbol's row
            that say something of its market (``FIELDS`` of strand.replaying.rows_over_time). Each is the row as it
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
