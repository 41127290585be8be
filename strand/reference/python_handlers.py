"""The handlers that Python runs in a plain loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand.binding.chain import Chained
from strand.binding.engine_words import Failure
from strand.binding.native import NativeFunction
from strand.binding.serial import PlainRows, SerialRun
from strand.dispatch.records import RecordReader
from strand.handlers.bound import BoundHandler, BoundPython
from strand.handlers.context import Context
from strand.handlers.failures import failure_of, interrupts
from strand.handlers.timed import Host
from strand.reference.emitted import SerialEmitted

if TYPE_CHECKING:
    from strand.output.rows import Rows
    from strand.symbols import SymbolTable

__all__ = ["SerialPython"]


class SerialPython:
    """Runs Python handlers over ticks, a symbol's in a row, and their timers. It is the site that they run at.

    ``alarms``: when each symbol's timer is due, 0: never; the loop's.
    """

    def __init__(
        self,
        table: SymbolTable,
        reader: RecordReader,
        *,
        memory: PlainRows,
        rows: Rows,
        emitted: SerialEmitted,
        alarms: npt.NDArray[np.uint64],
    ) -> None:
        self._table = table
        self._reader = reader
        self._memory = memory
        self._rows = rows
        self._emitted = emitted
        self._alarms = alarms
        self._hosts: dict[int, Host] = {}
        self._tracked: dict[int, SerialRun] = {}
        self._key = 0
        self.contexts: dict[int, Context] = {}

    # ---- what the loop asks

    def run(
        self, bound: BoundHandler, numbers: Sequence[int], records: npt.NDArray[Any], positions: npt.NDArray[Any]
    ) -> Failure | None:
        """Runs a handler over one symbol's ticks, with its timers before them; None where that went well."""
        key = self._key = int(records[self._reader.key][0])
        shown = records.view()
        shown.flags.writeable = False
        sequences = self._reader.sequences(records)
        start = 0
        while start < len(records):
            end, failure = self._wake_until(key, numbers, positions["time"], start)
            if failure is not None:
                return replace(failure, handled=start)
            self._emitted.hold(positions[start:end], sequences[start:end], key, numbers)
            try:
                host = self._hosts.get(key) or self._bind(bound, key)
                handled = host.call(shown[start:end])
            except BaseException as error:
                failure = failure_of(error)
                if failure.cause is not None and interrupts(failure.cause):
                    raise failure.cause from None
                return replace(failure, handled=start + failure.handled)
            start = end if handled is None else start + handled
        return None

    def wake(self, key: int, time: int, numbers: Sequence[int]) -> Failure | None:
        """Runs a symbol's timer; None where that went well."""
        self._key = key
        self._emitted.hold_timer(key, time, numbers)
        try:
            alarm = self._hosts[key].wake(time)
        except BaseException as error:
            if interrupts(error):
                raise
            return replace(failure_of(error), key=key, time=time)
        self._alarms[key] = alarm
        return None

    def finish(self, key: int, time: int, numbers: Sequence[int]) -> Failure | None:
        """Runs a symbol's end, if a tick of it came as far as its handler; None where that went well."""
        host = self._hosts.get(key)
        if host is None:
            return None
        self._emitted.hold_timer(key, time, numbers, at_end=True)
        try:
            host.finish(time)
        except BaseException as error:
            if interrupts(error):
                raise
            return replace(failure_of(error), key=key, time=time)
        return None

    def learn_symbols(self) -> None:
        """The table has learnt names."""
        for key, context in self.contexts.items():
            context.symbol = self._table.name(key)

    def _wake_until(
        self, key: int, numbers: Sequence[int], times: npt.NDArray[np.int64], start: int
    ) -> tuple[int, Failure | None]:
        """Runs the timers before tick ``start``; returns where the ticks end that come before the next one, and how one
        of them failed."""
        while alarm := int(self._alarms[key]):
            if alarm > times[start]:
                return start + int(np.searchsorted(times[start:], np.int64(alarm))), None
            if (failure := self.wake(key, alarm, numbers)) is not None:
                return start, failure
        return len(times), None

    def _bind(self, bound: BoundHandler, key: int) -> Host:
        """What is run for a symbol, from its first tick on."""
        assert isinstance(bound, BoundPython)
        found = bound.bind_symbol(key, symbol=self._table.name(key), row=self._rows.at(key), site=self)
        self.contexts[key], self._hosts[key] = found
        return found[1]

    # ---- what handlers ask

    #: Nothing else happens between two calls.
    brings_rest = True
    #: There is one thread.
    participant = 0

    def batch(self) -> SerialEmitted:
        """What is in hand."""
        return self._emitted

    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each tick in hand."""
        times: npt.NDArray[np.int64] = self._emitted.positions["time"].copy()
        return times

    def arm(self, handled: int, alarm: int) -> None:  # noqa: ARG002 - a loop asks when the call is over
        """When the timer of the symbol in hand is due from now on."""
        self._alarms[self._key] = alarm

    def track(self, native: Chained, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> tuple[int, Failure | None]:
        """For chains that end in Python: runs their native part tick by tick, and copies the row as it is after."""
        run, copies = self._run_of(native.function), after.view(np.uint8).reshape(len(after), after.itemsize)
        start = self._key * self._memory.stride
        positions = self._emitted.positions[len(self._emitted.positions) - len(ticks) :]
        for i in range(len(ticks)):
            if 0 < native.alarm(self._key) <= positions["time"][i]:
                return i, None
            failure = run(ticks[i : i + 1], positions[i : i + 1])
            if failure is not None:
                return i, failure
            copies[i] = self._memory.memory[start : start + copies.shape[1]]
        return len(ticks), None

    def act(self, native: Chained, key: int, time: int, at_end: bool) -> Failure | None:
        """The same at timers, and at the end."""
        run = self._run_of(native.function)
        return run.finish(key, time) if at_end else run.wake(key, time)

    def _run_of(self, function: NativeFunction) -> SerialRun:
        run = self._tracked.get(id(function))
        if run is None:
            writers = [self._emitted.writers[number] for number in self._emitted.numbers]
            run = SerialRun(function, self._memory, self._reader, writers)
            self._tracked[id(function)] = run
        return run
