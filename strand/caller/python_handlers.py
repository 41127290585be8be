"""The handlers that Python runs on the calling thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand.binding.caller import Caller
from strand.binding.engine import Engine
from strand.binding.engine_words import Failure
from strand.caller.site import CallerSite, InHand
from strand.errors import ConfigurationError, PlaceError
from strand.handlers.bound import BoundHandler, BoundPython, TickByTick
from strand.handlers.context import Call, Context
from strand.handlers.failures import failure_of
from strand.handlers.host import Host, Traded
from strand.threads import interrupts

if TYPE_CHECKING:
    from strand.output.rows import Rows
    from strand.symbols import SymbolTable

__all__ = ["CallerPython"]


class CallerPython:
    """Runs Python handlers over ticks, a symbol's in a row, and their timers.

    ``key``: the records' field with the symbol's index. ``alarms``: when each symbol's timer is due, 0: never; the
    run's. ``site``: where the handlers run. They hold that and not this: a run that nobody refers to has to go at once,
    with its memory.
    """

    def __init__(
        self,
        table: SymbolTable,
        key: str,
        *,
        engine: Engine,
        caller: Caller,
        rows: Rows,
        alarms: npt.NDArray[np.uint64],
        units: npt.NDArray[np.intp] | None,
    ) -> None:
        self._table = table
        self._key = key
        self._rows = rows
        self._in_hand = InHand(caller)
        self._alarms = alarms
        self.site = CallerSite(engine, caller, self._in_hand, alarms)
        self._symbols = symbols = _Symbols(table, rows, self.site, units)
        self._hosts, self.contexts, self.objects = symbols.hosts, symbols.contexts, symbols.objects
        self._in_turn: dict[int, Call] = {}
        #: Of the ticks of the last call, how many were handled.
        self.handled = 0

    # ---- what the run asks

    def run(
        self,
        bound: BoundHandler,
        number: int,
        records: npt.NDArray[Any],
        positions: npt.NDArray[Any],
        keys: npt.NDArray[np.uint32],
    ) -> Failure | None:
        """Runs a handler over one symbol's ticks, with its timers before them, or over those of several where it takes
        them in turn; None where that went well. ``number``: the handler's. ``records``: read-only.

        A function that fails on a batch does not say on which tick: it is called again with one tick at a time, unless
        it named places or a timer that the batch does not have. Of one that an interrupt comes upon no tick is
        handled."""
        self.handled = start = 0
        assert isinstance(bound, BoundPython)
        in_turn = None if bound.by_tick is None else self._in_turn_of(bound, bound.by_tick)
        key = self.site.key = int(keys[0])
        whole: _Whole | None = None
        while start < len(records):
            end, failure = self._wake_until(key, number, positions, start)
            if failure is not None:
                return failure._replace(handled=start)
            if whole is not None:
                if start >= whole.end:
                    return whole.failure
                end = start + 1
            part = records[start:end] if end - start < len(records) else records
            self._in_hand.hold(number, part, positions[start:end])
            undo, again = None, False
            try:
                call = in_turn or (self._symbols.host_of(key) or self._symbols.bind(bound, key)[1]).call
                self.site.failed_come_again = again = end - start > 1 and bound.emitting.fails_as_a_whole
                if bound.emitting.fails_as_a_whole:
                    rows = self._symbols.rows_of(key)
                    undo = rows, [row.tobytes() for row in rows]
                handled = call(part)
            except BaseException as error:
                failure = failure_of(error)
                self.handled = start + failure.handled
                interrupt = failure.cause if failure.cause is not None and interrupts(failure.cause) else None
                if undo is not None and (again or interrupt is not None):
                    self._in_hand.drop()
                    _put_back(*undo)
                    self.handled = start
                self._in_hand.drop(failure.handled)
                if interrupt is not None:
                    raise interrupt from None
                failure = failure._replace(handled=start + failure.handled)
                if not again or isinstance(failure.cause, ConfigurationError | PlaceError):
                    return failure
                whole = _Whole(failure, end)
                continue
            # No call of a function comes before this: an interrupt would find ticks handled and not counted.
            self.handled = start = end if handled is None else start + handled
            self._in_hand.keep()
        return None if whole is None else whole.failure

    def wake(self, key: int, time: int, number: int) -> Failure | None:
        """Runs a symbol's timer; None where that went well."""
        self.site.key = key
        self._in_hand.hold_timer(number, key, time)
        try:
            alarm = self._hosts[key].wake(time)
        except BaseException as error:
            self._in_hand.drop()
            if interrupts(error):
                raise
            return _at(failure_of(error), key, time, "timer")
        self._alarms[key] = alarm
        self._in_hand.keep()
        return None

    def finish(self, key: int, time: int, number: int) -> Failure | None:
        """Runs a symbol's end, if a tick of it came as far as its handler; None where that went well."""
        host = self._symbols.host_of(key)
        if host is None:
            return None
        self._in_hand.hold_timer(number, key, time, at_end=True)
        try:
            host.finish(time)
        except BaseException as error:
            self._in_hand.drop()
            if interrupts(error):
                raise
            return _at(failure_of(error), key, time, "end")
        self._in_hand.keep()
        return None

    def keep_emitted(self) -> None:
        """Keeps what was emitted, where an interrupt came before that."""
        self._in_hand.keep()

    def learn_symbols(self) -> None:
        """The table has learnt names."""
        for key, context in self.contexts.items():
            context.symbol = self._table.name(key)

    def _wake_until(self, key: int, number: int, positions: npt.NDArray[Any], start: int) -> tuple[int, Failure | None]:
        """Runs the timers before tick ``start``. Returns the end of the ticks before the next timer, and the failure of
        a timer."""
        while alarm := int(self._alarms[key]):
            times = positions["time"]
            if alarm > times[-1]:
                break
            if alarm > times[start]:
                return start + int(times[start:].searchsorted(np.int64(alarm))), None
            if (failure := self.wake(key, alarm, number)) is not None:
                return start, failure
        return len(positions), None

    def _in_turn_of(self, bound: BoundPython, by_tick: TickByTick) -> Call:
        """Returns the call that runs a handler over ticks of several symbols."""
        found = self._in_turn.get(id(bound))
        if found is None:
            from strand.caller.tick_by_tick import TicksInTurn

            host_of = partial(self._symbols.bind, bound)
            ticks = TicksInTurn(
                host_of, in_hand=self._in_hand, rows=self._rows if by_tick.counts else None, key=self._key
            )
            found = ticks.call
            if by_tick.maker is not None:
                found = Traded(ticks, self.site, by_tick.maker, ticks.call).call
            self._in_turn[id(bound)] = found
        return found


def _at(failure: Failure, key: int, time: int, what: str) -> Failure:
    """Failure of a symbol's timer, or of its end."""
    where = f"its {what} at {time} ns"
    message = f"{where}: {failure.message}" if failure.message else where
    return failure._replace(message=message, key=key, time=time)


def _put_back(rows: Sequence[Any], before: Sequence[bytes]) -> None:
    """Restores the rows."""
    for row, data in zip(rows, before, strict=True):
        for name in row.dtype.names:  # a row of no fields has no bytes, of which numpy makes no record
            row[name] = np.frombuffer(data, row.dtype)[0][name]


@dataclass(frozen=True)
class _Whole:
    """Failure of a call for a whole batch, and the end of that batch."""

    failure: Failure
    end: int


class _Symbols:
    """Host and context of each symbol, from its first tick on.

    Symbols that share rows have one of each for all on their strand (``units``), by the first's key."""

    def __init__(self, table: SymbolTable, rows: Rows, site: CallerSite, units: npt.NDArray[np.intp] | None) -> None:
        self._table = table
        self._rows = rows
        self._site = site
        self._units = units
        self._first_of = None if units is None else np.unique(units, return_index=True)[1][units]
        self._rows_of_unit: dict[int, list[Any]] = {}
        self.hosts: dict[int, Host] = {}
        self.contexts: dict[int, Context] = {}
        self.objects: dict[int, Any] = {}

    def host_of(self, key: int) -> Host | None:
        """Host of a symbol; None before the symbol's first tick."""
        return self.hosts.get(self._first(key))

    def rows_of(self, key: int) -> list[Any]:
        """The rows that a call for a bound symbol may write to: its own, or those of all symbols on its strand, and the
        rows that they share."""
        context = self.contexts[self._first(key)]
        if self._units is None:
            return [context.row]
        unit = int(self._units[key])
        if unit not in self._rows_of_unit:
            self._rows_of_unit[unit] = context.rows_of(np.flatnonzero(self._units == unit).tolist())
        return self._rows_of_unit[unit]

    def bind(self, bound: BoundPython, key: int) -> tuple[Context, Host]:
        """Binds a handler to a symbol."""
        key = self._first(key)
        found = bound.bind_symbol(key, symbol=self._table.name(key), row_of=self._rows.at, site=self._site)
        self.contexts[key], self.hosts[key] = _, host = found
        if host.object is not None:
            self.objects[key] = host.object
        return found

    def _first(self, key: int) -> int:
        return key if self._first_of is None else int(self._first_of[key])
