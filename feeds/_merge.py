"""Several streams of ticks as one, in the order of a replay: receive time, then stream, then position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from strand._bindings.merge import Merger, Need
from strand.errors import RecordTypeError
from strand.feeds.base import TickBatch
from strand.ticks import TICK, aligned_ticks, named

__all__ = ["MERGED_TICKS", "Numbers", "as_ticks", "merge_streams"]

#: Ticks in a full batch of a merge.
MERGED_TICKS: Final = 65_536


class Numbers(Protocol):
    """Gives the ids of several streams numbers in one table.

    ``refresh`` is called after a stream was read on, ``assign`` where an id in it has no number yet. Both return the
    stream's table where it is another array than before, else None.
    """

    def table(self, stream: int) -> npt.NDArray[np.uint32]: ...

    def refresh(self, stream: int) -> npt.NDArray[np.uint32] | None: ...

    def assign(self, stream: int, own_id: int) -> npt.NDArray[np.uint32] | None: ...


def merge_streams(
    streams: Sequence[Iterator[TickBatch]], *, batch_ticks: int = MERGED_TICKS, numbers: Numbers | None = None
) -> Iterator[TickBatch]:
    """Merge streams, each in batches that stay valid until its next one is asked for, into full batches that do so too.

    Holds one batch a stream and the one being filled. Where a time runs back in a stream its tick stays where it is, as
    if it bore the latest time before it. A stream that raises has been merged up to its last tick: the batch until then
    comes first, then what it raised.
    """
    if not streams:
        return
    merger = Merger(len(streams))
    if numbers is not None:
        for stream in range(len(streams)):
            merger.number_by(stream, numbers.table(stream))
    out = aligned_ticks(batch_ticks)
    filled = 0
    fault: Exception | None = None
    while fault is None:
        made, need, stream = merger.take(out[filled:])
        filled += made
        changed = None
        try:
            if need is Need.TICKS:
                more = next(streams[stream], None)
                if more is None:
                    merger.end(stream)
                else:
                    merger.give(stream, as_ticks(more))
                if numbers is not None:
                    changed = numbers.refresh(stream)
            elif need is Need.NUMBER:
                assert numbers is not None
                changed = numbers.assign(stream, merger.next_id(stream))
        except Exception as error:  # whatever it is, it comes after the ticks before it
            fault = error
        if changed is not None:
            merger.number_by(stream, changed)
        if need is not Need.NOTHING:
            continue
        if filled < len(out):
            break
        yield out
        filled = 0
    if filled:
        yield out[:filled]
    if fault is not None:
        raise fault


def as_ticks(batch: TickBatch) -> TickBatch:
    """A batch that C can read: contiguous. Raises RecordTypeError for other records than ticks."""
    if batch.dtype != TICK or batch.ndim != 1:
        raise RecordTypeError(f"a feed's batch is {batch.dtype}{batch.shape}, not a one-dimensional array of TICK")
    return named(np.ascontiguousarray(batch))
