"""Several streams of ticks as one, in the order of a replay: receive time, then stream, then position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.merge import UNMAPPED, Merger, Need
from strand.errors import RecordTypeError
from strand.feeds.base import TickBatch
from strand.feeds.merge.days import Boundaries, RollsBetween
from strand.ticks import TICK, aligned_ticks, named

#: Ticks in a full batch of a merge.
MERGED_TICKS: Final = 65_536
_NO_NUMBERS: Final = np.full(1, UNMAPPED, np.uint32)


class Numbers(Protocol):
    """Gives the ids of several streams numbers in one table.

    ``refresh`` is called after a stream was read on, ``assign`` where an id in it has no number yet. Both return the
    stream's table where it is another array than before, else None.
    """

    def table(self, stream: int) -> npt.NDArray[np.uint32]: ...

    def refresh(self, stream: int) -> npt.NDArray[np.uint32] | None: ...

    def assign(self, stream: int, own_id: int) -> npt.NDArray[np.uint32] | None: ...


def merge_streams(
    streams: Sequence[Iterator[TickBatch]],
    *,
    batch_ticks: int = MERGED_TICKS,
    numbers: Numbers | None = None,
    days: Boundaries | None = None,
    rolls: RollsBetween | None = None,
    tell: Callable[[npt.NDArray[np.int32]], None] | None = None,
) -> Iterator[TickBatch]:
    """Merges streams of batches into full batches. Batches, of streams and merged, are valid until the next one is
    asked for.

    Holds one batch a stream and the one being filled. Where a time runs back in a stream its tick stays where it is, as
    if it bore the latest time before it. A stream that raises has been merged up to its last tick: the batch until then
    comes first, then what it raised.
    ``days`` and ``rolls``, which need ``numbers``: clear records come as batches of their own, behind one that is not
    full.
    ``tell`` is called before each batch with the stream of each of its ticks, -1 for a clear record. The array is valid
    as long as the batch.
    """
    if not streams:
        return
    sources = _Sources(streams, numbers, days, rolls)
    out, stream_of = aligned_ticks(batch_ticks), np.empty(batch_ticks, np.int32)
    filled = 0

    def made_so_far() -> TickBatch:
        if tell is not None:
            tell(stream_of[:filled])
        made_ticks: TickBatch = out[:filled]
        return made_ticks

    fault: Exception | None = None
    while fault is None:
        made, need, stream = sources.merger.take(out[filled:], stream_of[filled:])
        filled += made
        if sources.begins(need, stream) or sources.meets(need, stream):
            begins = sources.begins(need, stream)
            clears = sources.begin(stream, out[:filled]) if begins else sources.meet(stream)
            if len(clears):
                if filled:
                    yield made_so_far()
                    filled = 0
                if tell is not None:
                    tell(np.full(len(clears), -1, np.int32))
                yield clears
            continue
        try:
            sources.answer(need, stream)
        except Exception as error:  # whatever it is, it comes after the ticks before it
            fault = error
        if need is not Need.NOTHING:
            continue
        if days is not None:
            days.took(out[:filled])
        if filled < len(out):
            break
        yield made_so_far()
        filled = 0
    if filled:
        yield made_so_far()
    if fault is not None:
        raise fault


class _Sources:
    """Gives a merger its streams. Where days end, a stream's ids have no numbers at first, so that the merge stops at
    its first tick. Where names may roll, each id has none before its first tick."""

    def __init__(
        self,
        streams: Sequence[Iterator[TickBatch]],
        numbers: Numbers | None,
        days: Boundaries | None,
        rolls: RollsBetween | None,
    ) -> None:
        self.merger = Merger(len(streams))
        self._streams = streams
        self._numbers = numbers
        self._days = days
        self._rolls = rolls
        self._met = {
            stream: np.full(1, UNMAPPED, np.uint32)
            for stream in range(len(streams))
            if rolls is not None and rolls.knows(stream)
        }
        self._waiting = set(range(len(streams))) if days is not None else set()
        if numbers is not None:
            for stream in range(len(streams)):
                self.merger.number_by(stream, _NO_NUMBERS if stream in self._waiting else self._table(stream))

    def begins(self, need: Need, stream: int) -> bool:
        """Tells whether the merge stopped at a stream's first tick."""
        return need is Need.NUMBER and stream in self._waiting

    def begin(self, stream: int, made: TickBatch) -> TickBatch:
        """The clear records before a stream's first tick. ``made``: the ticks merged so far, which come first."""
        assert self._numbers is not None
        assert self._days is not None
        self._waiting.remove(stream)
        tables = [self._numbers.table(one) for one in range(len(self._streams))]
        self.merger.number_by(stream, self._table(stream))
        self._days.took(made)
        return self._days.begins(stream, self.merger.next_time(stream), tables)

    def meets(self, need: Need, stream: int) -> bool:
        """Tells whether the merge stopped at the first tick of a name that may have rolled."""
        return need is Need.NUMBER and stream in self._met

    def meet(self, stream: int) -> TickBatch:
        """The clear record before a name's first tick in a stream, if there is to be one."""
        assert self._numbers is not None
        assert self._rolls is not None
        own_id = self.merger.next_id(stream)
        table = self._numbers.table(stream)
        if own_id >= len(table) or table[own_id] == UNMAPPED:
            self._numbers.assign(stream, own_id)
            table = self._numbers.table(stream)
        met = self._met[stream]
        if own_id >= len(met):
            met = np.full(max(own_id + 1, 2 * len(met)), UNMAPPED, np.uint32)
            met[: len(self._met[stream])] = self._met[stream]
            self._met[stream] = met
        met[own_id] = table[own_id]
        self.merger.number_by(stream, met)
        return self._rolls.meets(stream, own_id, int(table[own_id]), self.merger.next_time(stream))

    def _table(self, stream: int) -> npt.NDArray[np.uint32]:
        assert self._numbers is not None
        return self._met[stream] if stream in self._met else self._numbers.table(stream)

    def answer(self, need: Need, stream: int) -> None:
        """Gives the merger what it stopped for: ticks, or a number for an id. Raises what the stream raises."""
        changed = None
        if need is Need.TICKS:
            more = next(self._streams[stream], None)
            if more is not None:
                self.merger.give(stream, as_ticks(more))
                if self._rolls is not None and stream in self._met:
                    self._rolls.gave(stream, more)
            else:
                self.merger.end(stream)
                if self._days is not None:
                    self._days.ended(stream)
                if self._rolls is not None and stream in self._met:
                    self._rolls.ended(stream, self._met[stream])
            if self._numbers is not None:
                changed = self._numbers.refresh(stream)
        elif need is Need.NUMBER:
            assert self._numbers is not None
            changed = self._numbers.assign(stream, self.merger.next_id(stream))
        if changed is not None and stream not in self._waiting and stream not in self._met:
            self.merger.number_by(stream, changed)


def as_ticks(batch: TickBatch) -> TickBatch:
    """A batch that C can read: contiguous. Raises RecordTypeError for other records than ticks."""
    if batch.dtype != TICK or batch.ndim != 1:
        raise RecordTypeError(f"a feed's batch is {batch.dtype}{batch.shape}, not a one-dimensional array of TICK")
    return named(np.ascontiguousarray(batch))
