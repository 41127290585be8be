"""The handlers that Python runs in a plain loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import Failure
from strand.binding.serial import PlainRows
from strand.dispatch.records import RecordReader
from strand.handlers.bound import BoundHandler, BoundPython
from strand.handlers.context import Context
from strand.handlers.failures import failure_of, interrupts
from strand.handlers.timed import Host
from strand.reference.emitted import SerialEmitted
from strand.reference.site import SerialSite

if TYPE_CHECKING:
    from strand.output.rows import Rows
    from strand.symbols import SymbolTable

__all__ = ["SerialPython"]


class SerialPython:
    """Runs Python handlers over ticks, a symbol's in a row, and their timers.

    ``alarms``: when each symbol's timer is due, 0: never; the loop's. ``site``: where the handlers run. They hold that
    and not this: a loop that nobody refers to has to go at once, with its memory.
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
        units: npt.NDArray[np.intp] | None,
    ) -> None:
        self._table = table
        self._reader = reader
        self._rows = rows
        self._emitted = emitted
        self._alarms = alarms
        self.site = SerialSite(memory, reader, emitted, alarms)
        #: Of symbols whose handlers have baskets, by the first of those that share a strand; of others by key.
        self._hosts: dict[int, Host] = {}
        self._first_of = None if units is None else np.unique(units, return_index=True)[1][units]
        self.contexts: dict[int, Context] = {}
        self.objects: dict[int, Any] = {}

    # ---- what the loop asks

    def run(
        self, bound: BoundHandler, numbers: Sequence[int], records: npt.NDArray[Any], positions: npt.NDArray[Any]
    ) -> Failure | None:
        """Runs a handler over one symbol's ticks, with its timers before them; None where that went well."""
        key = self.site.key = int(records[self._reader.key][0])
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
                host = self._host_of(key) or self._bind(bound, key)
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
        self.site.key = key
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
        host = self._host_of(key)
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

    def _first(self, key: int) -> int:
        return key if self._first_of is None else int(self._first_of[key])

    def _host_of(self, key: int) -> Host | None:
        return self._hosts.get(self._first(key))

    def _bind(self, bound: BoundHandler, key: int) -> Host:
        """What is run for a symbol, from its first tick on."""
        assert isinstance(bound, BoundPython)
        key = self._first(key)
        found = bound.bind_symbol(key, symbol=self._table.name(key), row_of=self._rows.at, site=self.site)
        self.contexts[key], self._hosts[key] = _, host = found
        if host.object is not None:
            self.objects[key] = host.object
        return host
