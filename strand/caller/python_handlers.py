"""The handlers that Python runs on the calling thread: the ticks or the timer in hand, and the calls for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import starmap
from operator import add, call
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakMethod

import numpy as np
import numpy.typing as npt

from strand.binding.caller import POSITION, Caller
from strand.binding.engine import Engine
from strand.binding.engine_words import Failure
from strand.binding.native import Chained
from strand.errors import ConfigurationError, PlaceError
from strand.fixed import dataclass
from strand.handlers.base import BoundHandler, BoundPython, TickByTick
from strand.handlers.context import Call, Context, FailedOnTick, SymbolFunctions, ticks_until
from strand.handlers.failures import failure_of
from strand.handlers.host import Host
from strand.handlers.turns import Source, Turns, sources_of, take_turns
from strand.threads import interrupts
from strand.ticks import TRADE

if TYPE_CHECKING:
    from strand.output.rows import Rows
    from strand.symbols import SymbolTable


class _Rows(Protocol):
    """``strand.output.rows.Rows``."""

    def as_seen_by(self, index: int) -> npt.NDArray[Any]: ...


class _MoreSources(Exception):  # noqa: N818 - the ticks from this one on are taken anew
    """An object has a method for ticks that no object before it has."""


def _nothing(*_: object) -> None:
    """Stand-in for a method that an object lacks."""


class _Methods(dict[int, Callable[..., Any]]):
    """By key, a method of each symbol's object. ``binds``: a method that binds a symbol, at its first tick. A circle of
    references would outlive the run, so this does not keep its object."""

    def __init__(self, binds: Callable[[int], None]) -> None:
        self._binds = WeakMethod(binds)

    def __missing__(self, key: int) -> Callable[..., Any]:
        bind = self._binds()
        assert bind is not None
        bind(key)
        return self[key]


class TicksInTurn:
    """Calls one handler's objects over ticks of all its symbols, in the order of the ticks.

    A call for each stretch of one symbol's ticks, as batches need it, takes ten times as long where symbols take
    turns: ticks are made for all of them at once here. ``host_of``: binds a symbol at its first tick; ``rows``: where
    its ticks are to be counted. For ``Host`` it is the context of all of them.
    """

    timer = None

    def __init__(
        self,
        host_of: Callable[[int], tuple[Context, Host]],
        *,
        in_hand: InHand,
        rows: _Rows | None,
        key: str,
    ) -> None:
        self._host_of = host_of
        self._in_hand, self._clock = in_hand, in_hand.time
        self._rows = rows
        self._key = key
        #: In the order of their calls for one tick.
        self._methods: dict[Source, _Methods] = {}
        self._bound: set[int] = set()
        #: The trades of the ticks in hand, where somebody makes them.
        self.trades: npt.NDArray[Any] = np.empty(0, TRADE)

    def call(self, ticks: npt.NDArray[Any]) -> None:
        """Raises FailedOnTick. A tick is handled when its functions have returned, even if an interrupt comes then."""
        in_hand, n, handled = self._in_hand, len(ticks), 0
        keys: list[int] = ticks[self._key].tolist()
        in_hand.n = 1
        try:
            while handled < n:
                in_hand.first = handled
                turns = self._turns(ticks[handled:], keys[handled:], self.trades[handled:])
                try:
                    take_turns(in_hand, turns)
                    handled = n
                except FailedOnTick as failed:
                    handled += failed.handled
                    if not isinstance(failed.__cause__, _MoreSources):
                        raise FailedOnTick(handled) from failed.__cause__
                except KeyboardInterrupt as error:
                    if error.__traceback__ is not None and not error.__traceback__.tb_next:
                        handled = n
                    raise
        except FailedOnTick:
            raise
        except BaseException as error:
            raise FailedOnTick(handled) from error
        finally:
            if self._rows is not None and n:
                np.add.at(self._rows.as_seen_by(keys[0])["ticks"], keys[:handled], 1)

    def _turns(self, ticks: npt.NDArray[Any], keys: list[int], trades: npt.NDArray[Any]) -> Iterator[Turns]:
        all_taken = [source.taking[0](ticks, trades) for source in self._methods]
        if not any(len(places) == len(keys) for places, _ in all_taken) and set(keys).difference(self._bound):
            # Some symbols have their first ticks among those that no method takes.
            first = {key: i for i, key in enumerate(reversed(keys), 1) if key not in self._bound}
            firsts = sorted(len(keys) - i for i in first.values())
            yield firsts, map(self._bind, [keys[i] for i in firsts])
        for (source, methods), (places, values) in zip(self._methods.items(), all_taken, strict=True):
            those = map(methods.__getitem__, keys if len(places) == len(keys) else map(keys.__getitem__, places))
            if source.fields:
                yield places, starmap(call, map(add, zip(those), values))
            else:
                yield places, map(call, those, values)

    def _bind(self, key: int) -> None:
        """Binds a symbol at its first tick. Raises _MoreSources."""
        context, host = self._host_of(key)
        context.clock = self._clock
        self._bound.add(key)
        its = sources_of(host.object)
        more = [source for source in its if source not in self._methods]
        if more:
            for source in more:
                self._methods[source] = methods = _Methods(self._bind)
                methods.update(dict.fromkeys(self._bound, _nothing))
            self._methods = dict(sorted(self._methods.items(), key=lambda each: each[0].rank))
        for source, methods in self._methods.items():
            methods[key] = getattr(host.object, source.method) if source in its else _nothing
        if more:
            raise _MoreSources


class InHand:
    """The ticks, or the timer, that a handler runs for, and what it emits on their behalf."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.positions = np.empty(0, POSITION)
        self._records: npt.NDArray[Any] = self.positions
        #: The first of the ticks that places count from, and the place in hand; and how many ticks are.
        self.first = self.at = self.n = 0
        self._handler = 0
        self._key = self._time = 0
        self.at_timer = self._at_end = self._is_told = self._has_emitted = False

    def hold(self, handler: int, records: npt.NDArray[Any], positions: npt.NDArray[Any]) -> None:
        """Takes ticks in hand, with their positions, for a handler by its number."""
        self._handler, self._records, self.positions = handler, records, positions
        self.first, self.at, self.n = 0, 0, len(positions)
        self.at_timer = self._is_told = False

    def time(self) -> int:
        """The ``ts_recv`` of the tick in hand."""
        return int(self._records["ts_recv"][self.first + self.at])

    def hold_timer(self, handler: int, key: int, time: int, *, at_end: bool = False) -> None:
        """Takes a symbol's timer in hand, or its end."""
        self._handler, self._key, self._time = handler, key, time
        self._records = self.positions = np.empty(0, POSITION)
        self.first = self.at = self.n = 0
        self.at_timer, self._at_end = True, at_end

    def tell(self) -> None:
        """Tells C of the ticks: at the first record that is emitted for them, since most calls emit nothing."""
        if not self._is_told:
            self._caller.hold(self._handler, self._records, self.positions)
            self._is_told = True

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None:
        """Emits records, as ``strand.handlers.context.EmittingBatch`` has it."""
        self._has_emitted = True
        if at is None:
            self._caller.emit_at_timer(self._key, self._time, output, records, at_end=self._at_end)
            return
        self.tell()
        self._caller.emit(output, self.first + self.at + at, records)

    def keep(self) -> None:
        """Keeps what was emitted since the last call of this, or of ``drop``."""
        if self._has_emitted:
            self._caller.emitted(self._handler)
            self._has_emitted = False

    def drop(self, handled: int = 0) -> None:
        """Drops what was emitted since, but for the first ``handled`` ticks of ``hold``; at a timer, all."""
        if handled >= len(self.positions) and not self.at_timer:
            self.keep()
        elif self._has_emitted:
            self._caller.emitted(self._handler, below=0 if self.at_timer else int(self.positions["number"][handled]))
            self._has_emitted = False


class CallerSite:
    """``key``: the symbol in hand. It knows no handler: those hold it.

    ``alarms``: when the timer of each symbol that Python runs is due, 0: never."""

    def __init__(self, engine: Engine, caller: Caller, in_hand: InHand, alarms: npt.NDArray[np.uint64]) -> None:
        self._engine = engine
        self._caller = caller
        self._in_hand = in_hand
        self._alarms = alarms
        self.participant = caller.participant
        self.key = 0
        #: If the call in hand fails, all of its ticks come again.
        self.failed_come_again = False

    #: Nothing else happens between two calls.
    brings_rest = True
    ends_at_failure = True

    def batch(self) -> InHand:
        """The ticks, or the timer, in hand."""
        return self._in_hand

    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each tick in hand."""
        times: npt.NDArray[np.int64] = self._in_hand.positions["time"].copy()
        return times

    def arm(self, handled: int, alarm: int) -> None:  # noqa: ARG002 - a run asks when the call is over
        """Sets the due time of the current symbol's timer."""
        self._alarms[self.key] = alarm

    def track(self, native: Chained, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> tuple[int, Failure | None]:
        """Runs the native part of a chain that ends in Python tick by tick, and copies the row as it is after each."""
        self._in_hand.tell()
        return self._caller.track(native.function, ticks, after)

    def act(self, native: Chained, key: int, time: int, at_end: bool) -> Failure | None:
        """Runs such a native part at timers, and at the end."""
        return self._engine.chains.act(self.participant, native.function, key, time, at_end)


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
            if (end := ticks_until(alarm, positions["time"])) > start:
                return end, None
            if (failure := self.wake(key, alarm, number)) is not None:
                return start, failure
        return len(positions), None

    def _in_turn_of(self, bound: BoundPython, by_tick: TickByTick) -> Call:
        """Returns the call that runs a handler over ticks of several symbols."""
        found = self._in_turn.get(id(bound))
        if found is None:
            host_of = partial(self._symbols.bind, bound)
            ticks: Any = TicksInTurn(
                host_of, in_hand=self._in_hand, rows=self._rows if by_tick.counts else None, key=self._key
            )
            found = Host(ticks, SymbolFunctions(ticks.call), self.site, maker=by_tick.maker).call
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
            rows_of, symbols = context.rows_of, np.flatnonzero(self._units == unit).tolist()
            self._rows_of_unit[unit] = [context.row] if rows_of is None else rows_of(symbols)
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
