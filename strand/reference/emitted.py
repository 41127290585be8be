"""Records that handlers emit in a plain loop: kept as they come, and sorted by the order of the ticks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import Until
from strand.binding.serial import POSITION, SerialOutput
from strand.output.records import HEAD_BYTES, NO_SEQUENCE
from strand.ticks import joined

__all__ = ["AT_END", "TIMER", "SerialEmitted"]

#: In place of a tick's number: a timer's, and the end's.
TIMER = 2**64 - 1
AT_END = 2**64 - 2

_NO_NUMBERS: Final = np.empty(0, np.uint64)


class SerialEmitted:
    """Records that were emitted and not handed out yet, of outputs whose records have so many bytes.

    It is the batch that Python handlers emit for, and the source that outputs are handed out from.
    """

    def __init__(self, record_bytes: Sequence[int]) -> None:
        self.writers = [SerialOutput(size) for size in record_bytes]
        self._from_python: list[list[npt.NDArray[Any]]] = [[] for _ in self.writers]
        self._ready = [np.empty(0, self._merged(writer)) for writer in self.writers]
        self.positions = np.empty(0, POSITION)
        self._sequences_of: Callable[[], npt.NDArray[np.int64]] = lambda: np.empty(0, np.int64)
        self._sequences: npt.NDArray[np.int64] | None = None
        self._first = self.n = 0
        self.numbers: Sequence[int] = ()
        self._keys = np.empty(0, np.uint32)
        self._key = 0
        self.at_timer = False
        self._number = TIMER
        self._time = 0
        #: Bound: after the next sort, records of ticks below this number have been handed out.
        self.outputs_below = 0

    @staticmethod
    def _merged(writer: SerialOutput) -> np.dtype[Any]:
        size = writer.dtype["record"].itemsize
        return np.dtype(
            {
                "names": ["number", "sequence", "ts", "instrument_id", "record"],
                "formats": ["<u8", "<i8", "<i8", "<u4", f"V{size}"],
                "offsets": [0, 8, 16, 24, HEAD_BYTES],
                "itemsize": HEAD_BYTES + size,
            }
        )

    # ---- the batch

    def hold(
        self,
        positions: npt.NDArray[Any],
        sequences_of: Callable[[], npt.NDArray[np.int64]],
        keys: npt.NDArray[np.uint32],
        numbers: Sequence[int],
    ) -> None:
        """The ticks in hand: their positions, sequences and symbols, and the numbers of their handler's outputs.
        Sequences are asked for where something is emitted, once: most calls emit nothing."""
        self.positions, self._sequences_of, self._keys, self.numbers = positions, sequences_of, keys, numbers
        self._sequences = None
        self._first, self.n, self.at_timer = 0, len(positions), False

    def place(self, at: int) -> None:
        """Puts one of the ticks that ``hold`` was given in hand."""
        self._first, self.n = at, 1

    def hold_timer(self, key: int, time: int, numbers: Sequence[int], *, at_end: bool = False) -> None:
        """A symbol's timer in hand, or its end."""
        self.positions, self._key, self.numbers = np.empty(0, POSITION), key, numbers
        self._first = self.n = 0
        self.at_timer, self._time, self._number = True, time, AT_END if at_end else TIMER

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None:
        """Records on behalf of what is in hand, as ``strand.handlers.context.EmittingBatch`` has it."""
        number = self.numbers[output]
        entries: Any = np.zeros(len(records), self.writers[number].dtype)
        if self.at_timer:
            entries["head"]["number"], entries["head"]["time"] = self._number, self._time
            entries["head"]["sequence"], entries["head"]["key"] = NO_SEQUENCE, self._key
        else:
            assert at is not None
            if self._sequences is None:
                self._sequences = self._sequences_of()
            positions = self.positions[self._first + at]
            entries["head"]["number"], entries["head"]["time"] = positions["number"], positions["time"]
            entries["head"]["sequence"] = self._sequences[self._first + at]
            entries["head"]["key"] = self._keys[self._first + at]
        entries["record"] = records.view(entries.dtype["record"])
        self._from_python[number].append(entries)

    def mark(self) -> list[int]:
        """Number of records that Python handlers have emitted since the last sort, one per handler's output, for
        ``forget``."""
        return [len(emitted) for emitted in self._from_python]

    def forget(self, mark: Sequence[int]) -> None:
        """Drops the records that Python handlers have emitted since ``mark``."""
        for emitted, n in zip(self._from_python, mark, strict=False):
            del emitted[n:]

    # ---- the source

    def sort(
        self,
        below: int = AT_END,
        failed: Sequence[tuple[int, int, int]] = (),
        *,
        left: npt.NDArray[np.uint64] = _NO_NUMBERS,
        timers_until: int | None = None,
    ) -> None:
        """Puts what was emitted in its order: timers before the ticks at or after their time, by key; then the ends.
        Records of one tick, timer or end stay as they came.

        ``below``: what belongs to ticks from this number on is left out: a handler failed on that one. ``failed``: so
        is what timers, or an end, that failed have emitted, by number, time and key. ``left``: the numbers of ticks
        that count as not published; ``timers_until``: the feed's time at the failure, which later timers are left out
        for."""
        for number, writer in enumerate(self.writers):
            entries = joined([writer.take(), *self._from_python[number]])
            self._from_python[number].clear()
            head = entries["head"]
            kept = (head["number"] < below) | (head["number"] >= AT_END)
            for timer, ns, key in failed:
                kept &= (head["number"] != timer) | (head["time"] != ns) | (head["key"] != key)
            if len(left):
                kept &= ~np.isin(head["number"], left)
            if timers_until is not None:
                kept &= (head["number"] != TIMER) | (head["time"] <= timers_until)
            entries = entries[kept]
            if not len(entries):
                continue
            entries = entries[_order(entries["head"])]
            merged: Any = np.zeros(len(entries), self._ready[number].dtype)
            merged["number"], merged["sequence"] = entries["head"]["number"], entries["head"]["sequence"]
            merged["ts"], merged["instrument_id"] = entries["head"]["time"], entries["head"]["key"]
            merged["record"] = entries["record"]
            self._ready[number] = joined([self._ready[number], merged])

    def count_beside(self, tick_bytes: int) -> None:
        """Nothing waits here, and no memory is bounded."""

    def settle_outputs(self, until: Until) -> int:  # noqa: ARG002 - everything is final
        """Takes no time: it is in order already."""
        return 0

    def take_output(self, number: int, buffer: npt.NDArray[np.uint8], capacity: int) -> int:
        """Moves up to ``capacity`` records of an output into the buffer; returns how many."""
        taken, self._ready[number] = self._ready[number][:capacity], self._ready[number][capacity:]
        size = taken.dtype.itemsize
        buffer[: len(taken) * size] = taken.view(np.uint8)
        return len(taken)

    @property
    def late_outputs(self) -> int:
        """None: what is emitted is handed out before the next tick is published."""
        return 0

    def stop(self) -> None:
        """Nothing to stop."""


def _order(head: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Order of the entries by the positions in their heads."""
    number = head["number"]
    ticks = number < AT_END
    if ticks.all():
        return np.argsort(number, kind="stable")
    return np.lexsort((np.where(ticks, number, head["key"]), ticks, head["time"], number == AT_END))
