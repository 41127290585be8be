"""What handlers emit in a plain loop: kept as it comes, and put in the order of the ticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from strand._bindings.engine import Until
from strand._bindings.serial import MARK, SerialOutput

__all__ = ["SerialEmitted"]

#: ``sequence``, ``ts`` and ``instrument_id`` of a merged record.
HEAD_BYTES = 20


class SerialEmitted:
    """Records that were emitted and not handed out yet, of outputs whose records have so many bytes.

    It is the claim that Python handlers emit for, and the source that outputs are handed out from.
    """

    def __init__(self, record_bytes: Sequence[int]) -> None:
        self.sinks = [SerialOutput(size) for size in record_bytes]
        self._from_python: list[list[npt.NDArray[Any]]] = [[] for _ in self.sinks]
        self._ready = [np.empty(0, self._merged(sink)) for sink in self.sinks]
        self.marks = np.empty(0, MARK)
        self.numbers: Sequence[int] = ()
        self._key = 0

    @staticmethod
    def _merged(sink: SerialOutput) -> np.dtype[Any]:
        size = sink.dtype["record"].itemsize
        return np.dtype(
            {
                "names": ["sequence", "ts", "instrument_id", "record"],
                "formats": ["<u8", "<u8", "<u4", f"V{size}"],
                "offsets": [0, 8, 16, HEAD_BYTES],
                "itemsize": HEAD_BYTES + size,
            }
        )

    # ---- the claim

    def hold(self, marks: npt.NDArray[Any], key: int, numbers: Sequence[int]) -> None:
        """The ticks in hand: their marks, their symbol, and the numbers of what their handler emits."""
        self.marks, self._key, self.numbers = marks, key, numbers

    @property
    def n(self) -> int:
        """Ticks in hand."""
        return len(self.marks)

    def emit(self, output: int, at: npt.NDArray[np.int64], records: npt.NDArray[Any]) -> None:
        """Records on behalf of ticks in hand, as ``strand.handlers.emit.Claim`` has it."""
        number = self.numbers[output]
        entries: Any = np.zeros(len(records), self.sinks[number].dtype)
        entries["head"]["number"], entries["head"]["time"] = self.marks["number"][at], self.marks["time"][at]
        entries["head"]["key"] = self._key
        entries["record"] = records.view(entries.dtype["record"])
        self._from_python[number].append(entries)

    # ---- the source

    def sort(self, below: int = 2**64 - 1) -> None:
        """Puts what was emitted in the order of the ticks; records of one tick stay as they came. What belongs to
        ticks from number ``below`` on is left out: a handler failed on that one."""
        for number, sink in enumerate(self.sinks):
            entries = np.concatenate([sink.take(), *self._from_python[number]])
            self._from_python[number].clear()
            entries = entries[entries["head"]["number"] < below]
            if not len(entries):
                continue
            entries = entries[np.argsort(entries["head"]["number"], kind="stable")]
            merged: Any = np.zeros(len(entries), self._ready[number].dtype)
            merged["sequence"], merged["ts"] = entries["head"]["number"], entries["head"]["time"]
            merged["instrument_id"], merged["record"] = entries["head"]["key"], entries["record"]
            self._ready[number] = np.concatenate([self._ready[number], merged])

    def settle_outputs(self, until: Until) -> int:  # noqa: ARG002 - everything is final
        """Takes no time: it is in order already."""
        return 0

    def take_output(self, number: int, buffer: npt.NDArray[np.uint8], room: int) -> int:
        """Moves up to ``room`` records of an output into the buffer; returns how many."""
        taken, self._ready[number] = self._ready[number][:room], self._ready[number][room:]
        size = taken.dtype.itemsize
        buffer[: len(taken) * size] = taken.view(np.uint8)
        return len(taken)

    @property
    def late_outputs(self) -> int:
        """None: what is emitted is handed out before the next tick is published."""
        return 0

    def stop(self) -> None:
        """Nothing to stop."""
