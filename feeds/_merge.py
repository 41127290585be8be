"""Several streams of ticks as one, in the order of a replay: receive time, then stream, then position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from strand.feeds.base import TickBatch
from strand.ticks import TICK

__all__ = ["in_batches", "merge_by_receive_time"]

_OPAQUE: Final = np.dtype((np.void, TICK.itemsize))


def merge_by_receive_time(streams: Sequence[Iterator[TickBatch]]) -> Iterator[TickBatch]:
    """Merge streams whose ``ts_recv`` never goes back. Batches must stay valid after the next one is asked for.

    Holds one batch a stream, and more only of a stream whose batch ends in a run of equal times: the rows of that
    time have to be known to the last before another stream's may follow.
    """
    heads = [_Head(stream) for stream in streams]
    while True:
        heads = [head for head in heads if head.fill()]
        if not heads:
            return
        bounds = [head.last for head in heads if not head.ended]
        parts = [head.take_before(min(bounds)) if bounds else head.take_all() for head in heads]
        if parts := [part for part in parts if len(part)]:
            yield _sorted(parts)
        for head in heads:
            if bounds and not head.ended and head.last == min(bounds):
                head.extend()


class _Head:
    """What has been read of a stream and not been merged yet."""

    def __init__(self, stream: Iterator[TickBatch]) -> None:
        self._stream = stream
        self.ended = False
        self._ticks: TickBatch | None = None
        # Beside the ticks, because a search in a strided field copies the field first.
        self._times: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)

    @property
    def last(self) -> int:
        return int(self._times[-1])

    def fill(self) -> bool:
        """Whether there is anything left, after reading on where nothing is at hand."""
        while len(self._times) == 0 and not self.ended:
            self.extend()
        return len(self._times) > 0

    def extend(self) -> None:
        more = next(self._stream, None)
        if more is None:
            self.ended = True
            return
        self._ticks = more if self._ticks is None or not len(self._times) else _joined([self._ticks, more])
        self._times = np.ascontiguousarray(self._ticks["ts_recv"])

    def take_before(self, bound: int) -> TickBatch:
        return self._take(int(np.searchsorted(self._times, np.uint64(bound), side="left")))

    def take_all(self) -> TickBatch:
        return self._take(len(self._times))

    def _take(self, count: int) -> TickBatch:
        assert self._ticks is not None
        taken, self._ticks = self._ticks[:count], self._ticks[count:]
        self._times = self._times[count:]
        return taken


def _joined(parts: Sequence[TickBatch]) -> TickBatch:
    if len(parts) == 1:
        return parts[0]
    # As records without fields: numpy copies them whole, and those with fields one field at a time.
    return np.concatenate([part.view(_OPAQUE) for part in parts]).view(TICK)


def _sorted(parts: Sequence[TickBatch]) -> TickBatch:
    if len(parts) == 1:
        return parts[0]
    ticks = _joined(parts)
    # Parts stand in the order of their streams, so a stable sort leaves equal times in that order.
    return ticks.view(_OPAQUE)[np.argsort(ticks["ts_recv"], kind="stable")].view(TICK)


def in_batches(chunks: Iterator[TickBatch], batch_ticks: int) -> Iterator[TickBatch]:
    """The same ticks in batches of ``batch_ticks``, the last one shorter."""
    held: list[TickBatch] = []
    count = 0
    for chunk in chunks:
        held.append(chunk)
        count += len(chunk)
        if count < batch_ticks:
            continue
        whole = _joined(held)
        full = count - count % batch_ticks
        for first in range(0, full, batch_ticks):
            yield whole[first : first + batch_ticks]
        held, count = [whole[full:]], count - full
    if count:
        yield _joined(held)
