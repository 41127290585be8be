"""Site of the handlers that Python runs in a plain loop: the services that they ask of the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import Failure
from strand.binding.native import Chained, NativeFunction
from strand.binding.serial import PlainRows, SerialRun
from strand.dispatch.records import RecordReader
from strand.reference.emitted import SerialEmitted

__all__ = ["SerialSite"]


class SerialSite:
    """``key``: the symbol in hand. It knows no handler: those hold it."""

    def __init__(
        self, memory: PlainRows, reader: RecordReader, emitted: SerialEmitted, alarms: npt.NDArray[np.uint64]
    ) -> None:
        self._memory = memory
        self._reader = reader
        self._emitted = emitted
        self._alarms = alarms
        self._tracked: dict[int, SerialRun] = {}
        self.key = 0

        #: If the call in hand fails, all of its ticks come again.
        self.failed_come_again = False

    #: Nothing else happens between two calls.
    brings_rest = True
    ends_at_failure = True
    #: There is one thread.
    participant = 0

    def batch(self) -> SerialEmitted:
        """Records that the current call has emitted."""
        return self._emitted

    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each tick in hand."""
        times: npt.NDArray[np.int64] = self._emitted.positions["time"].copy()
        return times

    def arm(self, handled: int, alarm: int) -> None:  # noqa: ARG002 - a loop asks when the call is over
        """Sets the due time of the current symbol's timer."""
        self._alarms[self.key] = alarm

    def track(self, native: Chained, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> tuple[int, Failure | None]:
        """Runs the native part of a chain that ends in Python tick by tick, and copies the row as it is after each."""
        positions = self._emitted.positions[len(self._emitted.positions) - len(ticks) :]
        return self._run_of(native.function).track(ticks, positions, after)

    def act(self, native: Chained, key: int, time: int, at_end: bool) -> Failure | None:
        """Runs such a native part at timers, and at the end."""
        run = self._run_of(native.function)
        return run.finish(key, time) if at_end else run.wake(key, time)

    def _run_of(self, function: NativeFunction) -> SerialRun:
        run = self._tracked.get(id(function))
        if run is None:
            writers = [self._emitted.writers[number] for number in self._emitted.numbers]
            run = SerialRun(function, self._memory, self._reader, writers)
            self._tracked[id(function)] = run
        return run
