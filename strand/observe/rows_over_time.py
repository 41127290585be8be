"""Rows of a few symbols over a run, each as it stood after a given tick of the feed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.dispatcher import Dispatcher
from strand.errors import ConfigurationError
from strand.observe.timeline import SymbolTimeline

__all__ = ["FIELDS", "RowSampler"]

#: Fields of rows that are kept over time, where a handler has them.
FIELDS: Final = (
    "bid_price", "ask_price", "bid_size", "ask_size", "last_price", "vwap", "volume", "trades",
)  # fmt: skip

#: Moments kept a symbol; when there are as many, every other one goes and the next are twice as far apart.
CAPACITY: Final = 192
#: Ticks of the feed from one moment to the next, at first.
FIRST_STEP: Final = 512
#: The most symbols to be watched as the busiest; what were among them for a while are kept for long.
MOST: Final = 16
#: What waiting for busy symbols may take of the publishing thread: a share of the run, and so much of a short one.
BUDGET_SHARE: Final = 0.05
BUDGET_S: Final = 0.02
#: The longest wait for symbols to come to rest.
WAIT_S: Final = 0.002


class RowSampler:
    """Splits batches where rows are to be looked at, and looks between the parts.

    Rows are live memory, and one read while a handler writes it may be torn. So they are read between two calls of
    publish, by the thread that publishes, where nothing of the symbol is pending (``Dispatcher.read_at_rest``). Where
    something is, the thread first helps to drain for a moment, as far as ``BUDGET_SHARE`` of the run allows it; a
    symbol that is not at rest even then has no sample at that place.
    """

    def __init__(self, dispatcher: Dispatcher, watch: int | Sequence[str]) -> None:
        """``watch``: names, or how many of the busiest symbols."""
        names: list[str] = []
        if isinstance(watch, Sequence) and not isinstance(watch, str) and all(isinstance(name, str) for name in watch):
            names = list(dict.fromkeys(watch))
        elif isinstance(watch, bool) or not isinstance(watch, int) or not 1 <= watch <= MOST:
            raise ConfigurationError(
                f"watch: {watch!r} is neither a list of symbols' names nor a number from 1 to {MOST}"
            )
        self._dispatcher = dispatcher
        self._busiest = watch if isinstance(watch, int) else 0
        self._watch = names
        self._chosen: list[int] = []
        self._series: dict[int, list[tuple[int, int, list[Any]]]] = {}
        self._columns: dict[int, dict[str, npt.NDArray[Any]]] = {}
        self._begun = time.perf_counter()
        self._waited_s = 0.0
        self._position = 0
        self._step = FIRST_STEP
        self._choose_at = 0

    def parts(
        self, batch: npt.NDArray[Any], by_symbol: npt.NDArray[np.int64], names: Sequence[str]
    ) -> Iterator[npt.NDArray[Any]]:
        """The batch in parts, to be published one after the other; looks at rows where it is asked for the next.

        ``by_symbol``: ticks a symbol before the batch, ``names`` of symbols by index, as far as they are known."""
        if self._position >= self._choose_at and len(batch):
            # Who is busiest changes less and less.
            counts = by_symbol + np.bincount(batch["instrument_id"], minlength=len(by_symbol))
            self._choose(counts, names)
            self._choose_at = self._position + max(len(batch), self._position // 2)
        at = 0
        while at < len(batch):
            end = min(len(batch), at + self._step - self._position % self._step)
            part = batch[at:end]
            yield part
            self._position += len(part)
            at = end
            if self._position % self._step == 0:
                self._look(int(part["ts_recv"][-1]), self._chosen)

    def at_rest(self, feed_ns: int, by_symbol: npt.NDArray[np.int64], names: Sequence[str]) -> None:
        """The last look, when all has been handled."""
        self._look(feed_ns, self._choose(by_symbol, names))

    def timelines(self, by_symbol: npt.NDArray[np.int64], names: Sequence[str]) -> dict[str, SymbolTimeline]:
        """By name: the busiest first, or in the order that was asked for."""
        return {
            names[i]: SymbolTimeline(names[i], i, _as_array(self._columns[i], self._series[i]))
            for i in self._choose(by_symbol, names)
            if self._series.get(i)
        }

    def _choose(self, by_symbol: npt.NDArray[np.int64], names: Sequence[str]) -> list[int]:
        if self._busiest:
            there = np.flatnonzero(by_symbol)
            if len(there) > self._busiest:
                there = there[by_symbol[there] >= np.partition(by_symbol[there], -self._busiest)[-self._busiest]]
            self._chosen = there[np.argsort(-by_symbol[there], kind="stable")[: self._busiest]].tolist()
            if len(self._series) > 8 * MOST:
                keep = sorted(self._series, key=lambda i: -int(by_symbol[i]))[: 4 * MOST]
                self._series = {i: self._series[i] for i in keep}
        elif len(self._chosen) < len(self._watch):
            # A feed learns names as it goes.
            index_of = {name: i for i, name in enumerate(names) if name}
            self._chosen = [index_of[name] for name in self._watch if name in index_of]
        return self._chosen

    def _look(self, feed_ns: int, chosen: Sequence[int]) -> None:
        busy = [index for index in chosen if not self._read(index, feed_ns)]
        at = time.perf_counter()
        if busy and self._waited_s <= BUDGET_S + BUDGET_SHARE * (at - self._begun):
            self._dispatcher.drain(WAIT_S)
            self._waited_s += time.perf_counter() - at
            for index in busy:
                self._read(index, feed_ns)
        if self._series and max(len(series) for series in self._series.values()) >= CAPACITY:
            self._thin()

    def _thin(self) -> None:
        self._step *= 2
        for index, series in self._series.items():
            self._series[index] = [sample for sample in series if sample[1] % self._step == 0]

    def _read(self, index: int, feed_ns: int) -> bool:
        columns = self._columns.get(index)
        if columns is None:
            columns = self._columns[index] = _columns(self._dispatcher.rows.as_seen_by(index))
        values = self._dispatcher.read_at_rest(index, columns.values())
        if values is None:
            return False
        self._series.setdefault(index, []).append((feed_ns, self._position, values))
        return True


def _columns(rows: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Views of the fields that matter; those of a row within a row (a chain of handlers) count as its own."""
    parts = [rows, *(rows[name] for name in rows.dtype.names or () if rows.dtype[name].names is not None)]
    return {
        field: part[field]
        for field in FIELDS
        for part in reversed(parts)
        if field in (part.dtype.names or ()) and part[field].ndim == 1
    }


def _as_array(
    columns: Mapping[str, npt.NDArray[Any]], series: Sequence[tuple[int, int, list[Any]]]
) -> npt.NDArray[Any]:
    dtype = [("feed_ns", "<u8"), ("position", "<u8"), *((name, column.dtype) for name, column in columns.items())]
    rows = np.zeros(len(series), dtype)
    rows["feed_ns"] = [feed_ns for feed_ns, _, _ in series]
    rows["position"] = [position for _, position, _ in series]
    for at, name in enumerate(columns):
        rows[name] = [values[at] for _, _, values in series]
    rows.flags.writeable = False
    return rows
