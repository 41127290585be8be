"""A feed whose receive times run back, put in order as far as a window reaches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from strand.binding.merge import ordered
from strand.errors import DisorderError
from strand.feeds.base import TickBatch
from strand.feeds.merge.streams import as_ticks
from strand.feeds.skipped import Skipped
from strand.ticks import TICK, named

__all__ = ["DISORDER", "OnDisorder", "Reorder"]

OnDisorder = Literal["raise", "keep", "skip"]
DISORDER: Final = ("raise", "keep", "skip")

# Ticks as records without fields, which numpy copies whole. It copies records with fields one field at a time.
_OPAQUE: Final = np.dtype((np.void, TICK.itemsize))

Times = npt.NDArray[np.int64]


class Reorder:
    """Puts one feed's ticks in order, and counts those whose time ran back.

    ``reordered``: ticks put in order; ``kept``: ticks further back than the window that stayed where they came;
    ``furthest_ns``: the furthest that any tick ran back. ``skipped`` counts the skipped ones.
    """

    def __init__(self, path: str, *, window_ns: int, on_disorder: OnDisorder, skipped: Skipped) -> None:
        self.reordered = self.kept = self.furthest_ns = 0
        self._path = path
        self._window_ns = window_ns
        self._on_disorder = on_disorder
        self._skipped = skipped
        self._latest = 0
        self._position = 0

    def stream(self, batches: Iterator[TickBatch]) -> Iterator[TickBatch]:
        """A feed's ticks by receive time, then position, in batches that are valid until the next one is asked for.

        A tick that is at most the window behind the latest time before it goes where it belongs; one that is further
        behind raises DisorderError, is kept right behind what came before it, or is skipped. Holds the ticks that are
        less than the window behind the latest; where times do not run back and there is no window, nothing is held or
        copied. An exception of ``batches`` is raised after all ticks that were held.
        """
        held = _Held()
        fault: Exception | None = None
        while fault is None:
            try:
                batch = next(batches, None)
            except Exception as error:
                fault = error
                break
            if batch is None:
                break
            ticks, times, fault = self._placed(as_ticks(batch))
            if not len(ticks):
                continue
            if not self._window_ns:
                yield ticks
                continue
            held.add(ticks, times)
            yield from held.until(self._latest - self._window_ns)
            held.own()
        yield from held.until(self._latest)
        if fault is not None:
            raise fault

    def _placed(self, ticks: TickBatch) -> tuple[TickBatch, Times | None, DisorderError | None]:
        """The ticks of a batch that are not skipped, the times at which they are placed (None: their own, in order),
        and the error that follows them."""
        position, latest = self._position, self._latest
        self._position += len(ticks)
        good, self._latest = ordered(ticks, latest)
        if good == len(ticks):
            return ticks, None, None
        times = np.ascontiguousarray(ticks["ts_recv"])
        reached = np.maximum(np.maximum.accumulate(times), np.int64(latest))
        behind = reached - times
        outside = behind > np.int64(self._window_ns)
        fault = None
        if self._on_disorder == "raise" and outside.any():
            end = int(np.argmax(outside))
            fault = self._error(position + end, int(behind[end]))
            ticks, times, reached, behind, outside = (a[:end] for a in (ticks, times, reached, behind, outside))
        self._latest = max(latest, int(reached.max(initial=0)))
        self.furthest_ns = max(self.furthest_ns, int(behind.max(initial=0)))
        late = int(np.count_nonzero(outside))
        self.reordered += int(np.count_nonzero(behind)) - late
        if late and self._on_disorder == "skip":
            first = int(np.argmax(outside))
            place = f"{self._path}: tick {position + first}, {int(behind[first])} ns back"
            self._skipped.add("out of order", late, text=place)
            ticks, times = ticks.view(_OPAQUE)[~outside].view(TICK), times[~outside]
        elif late:
            self.kept += late
            times = np.where(outside, reached, times)
        return ticks, times, fault

    def _error(self, position: int, behind_ns: int) -> DisorderError:
        return DisorderError(
            f"the receive time of tick {position} is {behind_ns} ns before an earlier one's"
            + (f", and the window is {self._window_ns} ns" if self._window_ns else "")
            + ": give a wider reorder_ns, or on_disorder='keep' or 'skip'",
            path=self._path,
            position=position,
        )


class _Held:
    """Ticks that wait because later ones may belong between them. The parts are in order, and so are the ticks of
    each."""

    def __init__(self) -> None:
        self._parts: deque[tuple[TickBatch, Times]] = deque()
        self._borrowed = False

    def add(self, ticks: TickBatch, times: Times | None) -> None:
        """Adds ticks, with the times at which they are placed (None: their own, in order)."""
        self._borrowed = times is None
        if times is None:
            self._parts.append((ticks, np.ascontiguousarray(ticks["ts_recv"])))
            return
        behind: list[tuple[TickBatch, Times]] = [(ticks, times)]
        earliest = times.min()
        while self._parts and self._parts[-1][1][-1] > earliest:
            before, before_times = self._parts.pop()
            cut = int(np.searchsorted(before_times, earliest, side="right"))
            behind.append((before[cut:], before_times[cut:]))
            if cut:
                self._parts.append((before[:cut], before_times[:cut]))
        times = np.concatenate([part for _, part in reversed(behind)])
        # A stable sort leaves equal times in the order they came.
        order = np.argsort(times, kind="stable")
        joined = np.concatenate([part.view(_OPAQUE) for part, _ in reversed(behind)])
        self._parts.append((named(joined[order].view(TICK)), times[order]))

    def until(self, bound: int) -> Iterator[TickBatch]:
        """Takes out the ticks placed at ``bound`` or before: no later tick belongs before them."""
        while self._parts and int(self._parts[0][1][0]) <= bound:
            ticks, times = self._parts.popleft()
            cut = int(np.searchsorted(times, np.int64(bound), side="right"))
            if cut < len(ticks):
                self._parts.appendleft((ticks[cut:], times[cut:]))
            yield ticks[:cut]

    def own(self) -> None:
        """Copies the ticks that still lie in the feed's batch: its next batch may overwrite them."""
        if self._borrowed and self._parts:
            ticks, times = self._parts.pop()
            self._parts.append((ticks.view(_OPAQUE).copy().view(TICK), times))
        self._borrowed = False
