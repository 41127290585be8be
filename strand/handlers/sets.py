"""Handlers with many sets of parameters at once: each set has its own row and its own records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.brief import several
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.handlers.base import BindContext, FailedSet, Handler, Shape, SingleHandler, not_callable
from strand.handlers.chains import ChainHandler, chain_dtype
from strand.handlers.compiled.handlers import CompiledHandler
from strand.handlers.context import Context, FailedOnTick, SymbolFunctions, Timer
from strand.handlers.host import Host
from strand.handlers.python_handlers import METHODS, ObjectHandler, PythonHandler, functions_of, made_by
from strand.handlers.set_context import (
    Alarms,
    Each,
    ObjectSetContext,
    OneSet,
    SetContext,
    SetObjects,
    blaming,
    numbered,
    set_of,
)
from strand.handlers.state import SET, SETS, TIMERS, TURN, Parameters, are_shared, records_of_sets
from strand.symbols import SymbolTable

#: Handlers that may be called with many sets.
Swept = CompiledHandler | ObjectHandler | PythonHandler


@dataclass(frozen=True, kw_only=True)
class SetShape(Shape):
    """Shape of a handler with sets of parameters: each symbol has a row per set.

    ``alone``: the handler with one set. ``sets``: the parameters of each, ``numbers``: what they are called.
    """

    has_lines = False  # a failure of one set is found as that of the handler with it alone

    alone: Swept
    sets: tuple[Parameters, ...]
    numbers: tuple[int, ...]

    @property
    def brief(self) -> str:
        return several(len(self.sets), "set") + " of parameters"

    @property
    def shared_params(self) -> bool:
        return are_shared(self.sets)

    def records(self, handler: SingleHandler, table: SymbolTable) -> npt.NDArray[Any]:
        numbered_sets = [_numbered(each, number) for each, number in zip(self.sets, self.numbers, strict=True)]
        return records_of_sets(numbered_sets, handler.name, table)

    def functions_in(self, handler: Any, context: BindContext) -> Callable[[Context], SymbolFunctions]:
        return partial(self._functions_of, records_of_sets(self.sets, handler.name, context.table))

    def _functions_of(self, records: npt.NDArray[Any], context: Context) -> SymbolFunctions:
        alone, params = self.alone, records[context.key if len(records) > 1 else 0]
        assert not isinstance(alone, CompiledHandler)
        make = ObjectSetContext if isinstance(alone, ObjectHandler) else SetContext
        contexts: Any = [
            make(context, one, row=row, params=given, outputs=alone.outputs)
            for one, row, given in zip(self._sets_of(context.symbol), self._rows_of(context.row), params, strict=True)
        ]
        if isinstance(alone, ObjectHandler):
            return _functions_of_objects(alone, contexts, context)
        return _Batches(alone, contexts, context).functions

    def _sets_of(self, symbol: str) -> Iterator[OneSet]:
        return (self._set_at(place, symbol) for place in range(len(self.sets)))

    def _set_at(self, place: int, symbol: str) -> OneSet:
        shared, own = (self.sets[place].values.get(name, {}) for name in ("*", symbol))
        return OneSet(place, self.numbers[place], {**shared, **own} if own else shared)

    def _rows_of(self, row: Any) -> Sequence[Any]:
        """Rows of the sets. A handler without a state has one row for all sets, in which ticks are counted, and cannot
        write to it."""
        if SETS in row.dtype.names:
            return [row[SETS][place] for place in range(len(self.sets))]
        shared = np.asarray(row)
        shared.flags.writeable = False
        return [shared[()]] * len(self.sets)

    def check_again(self, handler: str) -> None:
        raise not_callable(handler)

    def failed_set(
        self, handler: SingleHandler, symbol: str, row: npt.NDArray[Any], cause: BaseException | None
    ) -> FailedSet | None:
        fields, context = row.dtype.names or (), set_of(cause)
        if TURN in fields:
            one = self._set_at(place, symbol) if (place := int(row[TURN][0]) - 1) >= 0 else None
        else:
            one = None if context is None else context.of_set
        if one is None:
            return None
        params = self.sets[one.place]
        alone = _changed(self.alone, params=params, trades=handler.trades, size_unit=handler.size_unit)
        own = np.ascontiguousarray(row[SETS][:, one.place]) if SETS in fields else row
        return FailedSet(one.number, one.values, alone, own, context)


# ---- objects


class _Objects(SetObjects):
    """Each method calls that of all the objects that have it."""

    def __init__(self, handler: ObjectHandler, contexts: Sequence[ObjectSetContext], of_symbol: Context) -> None:
        self._alarms = Alarms(of_symbol, len(contexts)) if handler.timers else None
        self.by_context = {}
        for context in contexts:
            if self._alarms is not None:
                context.alarms = self._alarms
            with blaming(context):
                self.by_context[context] = made_by(handler)
        self._take_methods()

    def _take_methods(self) -> None:
        """Makes one method of the objects' methods of each name, as the objects have them now."""
        for method in set(METHODS) - {"on_start", "on_wake", "on_stop"}:
            those = {
                context: thing for context, thing in self.by_context.items() if getattr(thing, method, None) is not None
            }
            if those:
                setattr(self, method, Each(method, those, self._alarms))

    def on_start(self, _: Context) -> None:
        """Each with the context of its set."""
        for context, thing in self.by_context.items():
            if hasattr(thing, "on_start"):
                with blaming(context, thing):
                    thing.on_start(context)
        # An object may have put others in their places.
        self._take_methods()
        if self._alarms is not None and self._alarms.changed:
            self._alarms.ask()


class _TimedObjects(_Objects):
    """Objects of sets that have timers."""

    _alarms: Alarms

    def _take_methods(self) -> None:
        super()._take_methods()
        self._wakes = [(context, thing, thing.on_wake) for context, thing in self.by_context.items()]

    def on_wake(self, time: int) -> None:
        """Wakes the objects whose timers are due."""
        for context, thing, wake in self._wakes:
            if self._alarms.take(context.of_set.place, time):
                with blaming(context, thing):
                    wake(time)
        self._alarms.ask()


def _functions_of_objects(
    handler: ObjectHandler, contexts: Sequence[ObjectSetContext], of_symbol: Context
) -> SymbolFunctions:
    if not handler.timers:
        return functions_of(_Objects(handler, contexts, of_symbol), handler.name, handler.counts, of_symbol)
    things = _TimedObjects(handler, contexts, of_symbol)
    functions = functions_of(things, handler.name, handler.counts, of_symbol)

    def call(ticks: npt.NDArray[Any]) -> int | None:
        things._alarms.begin()
        return functions.ticks(ticks)

    return functions._replace(ticks=call)


# ---- batches


class _InWindow:
    """Site of the sets' hosts, with the ticks in hand that are for one set. The symbol's host knows the real site."""

    participant = None
    brings_rest = True
    failed_come_again = ends_at_failure = False

    def __init__(self) -> None:
        self.now = np.empty(0, np.int64)

    def times(self) -> npt.NDArray[np.int64]:
        """Times of the set's ticks."""
        return self.now

    def arm(self, handled: int, alarm: int) -> None:
        """Does nothing: the sets' timers are set together."""


class _Batches:
    """Calls the functions of a symbol for each set with all ticks of a batch, one set after the other.

    A set that stops at its timer stops the symbol, and those behind it are given no more ticks than that. Those before
    it are ahead: of the ticks that come again, so many are not for them.
    """

    def __init__(self, handler: PythonHandler, contexts: Sequence[SetContext], of_symbol: Context) -> None:
        self._of_symbol = of_symbol
        self._contexts = contexts
        self._times = _InWindow()
        self._ahead = [0] * len(contexts)
        for context in contexts:
            context.timer = Timer(handler.name) if handler.timers else None
        self._hosts = [Host(context, handler.functions_of(context), self._times) for context in contexts]
        self.functions = SymbolFunctions(
            self._call, self._wake if handler.timers else None, self._finish if handler.ends else None
        )

    def _call(self, ticks: npt.NDArray[Any]) -> int | None:
        before, end = [(host.alarm, ahead) for host, ahead in zip(self._hosts, self._ahead, strict=True)], len(ticks)
        try:
            for place, first in enumerate(self._ahead):
                if first < end:
                    self._ahead[place] = first + self._handled(place, ticks[first:end], first)
                    end = min(end, self._ahead[place])
        except BaseException:
            # If the ticks come again, they come with the rows of before.
            for place, (alarm, ahead) in enumerate(before):
                self._ahead[place] = ahead
                if (timer := self._contexts[place].timer) is not None:
                    timer.alarm = alarm
            raise
        self._ahead = [ahead - end for ahead in self._ahead]
        timer = self._of_symbol.timer
        if timer is not None and (alarm := self._first_alarm()) != timer.alarm:
            timer.ask(alarm, end - 1)
        return None if end == len(ticks) else end

    def _handled(self, place: int, ticks: npt.NDArray[Any], first: int) -> int:
        """Number of ticks that a set has handled, from ``first`` of the batch on. Raises FailedOnTick."""
        context, of_symbol, n = self._contexts[place], self._of_symbol, len(ticks)
        context.emitter.window = (first, n)
        context.trades = of_symbol.trades[first : first + n]
        context.after = {name: rows[first : first + n] for name, rows in of_symbol.after.items()}
        if of_symbol.timer is not None:
            self._times.now = of_symbol.timer.times[first : first + n]
        try:
            with blaming(context):
                handled = self._hosts[place].call(ticks)
        except FailedOnTick as error:
            raise FailedOnTick(first + error.handled) from error.__cause__ or error
        except BaseException as error:
            raise FailedOnTick(first) from error
        return n if handled is None else handled

    def _without_ticks(self, context: SetContext) -> None:
        """A set is about to be called at its timer, or at the end."""
        context.after, context.emitter.window = self._of_symbol.after, None

    def _first_alarm(self) -> int:
        return min((host.alarm for host in self._hosts if host.alarm), default=0)

    def _wake(self, time: int) -> None:
        timer = self._of_symbol.timer
        assert timer is not None
        for context, host in zip(self._contexts, self._hosts, strict=True):
            if 0 < host.alarm <= time:
                self._without_ticks(context)
                with blaming(context):
                    host.wake(time)
        timer.alarm = self._first_alarm()

    def _finish(self) -> None:
        time = self._of_symbol.now
        assert time is not None
        for context, host in zip(self._contexts, self._hosts, strict=True):
            self._without_ticks(context)
            with blaming(context):
                host.finish(time)


#: A row's record of each set lies in one array, whose place the engine takes as 32 bits.
MOST: Final = 4096


def part_with_sets(handler: Handler) -> tuple[str, Swept]:
    """The part of a handler that takes sets of parameters, and its name. Raises ConfigurationError where none can, and
    where it would leave nothing in a table."""
    called, part = handler.parts_as(handler.name)[-1]
    if not isinstance(part, Swept) or part.params is None or type(part.shape) is not Shape:
        raise ConfigurationError(
            "handler",
            f"{called!r} takes no sets of parameters: give strand.handler, strand.object_handler or "
            "strand.batch_handler params=, alone or as the last of a chain; for others run strand.replay once per set",
        )
    if isinstance(part, ObjectHandler) and part.counts and not part.outputs:
        raise ConfigurationError(
            "handler",
            f"{called!r} has no state and no outputs, and a sweep keeps tables, not objects: give "
            "strand.object_handler state= or outputs=, or run strand.replay once per set",
        )
    return called, part


def with_sets(handler: Handler, sets: Sequence[Mapping[str, Any]], numbers: Sequence[int] | None = None) -> Handler:
    """The handler with all the sets of parameters; it is called with one set after the other, tick by tick.

    ``sets``: parameters by name for all symbols, or by symbol as ``Handler.with_params`` takes them. For values that a
    set lacks, the handler's hold. ``numbers``: what they are called, by default from 0. The row has a field ``sets``,
    of shape (number of sets,), and what it emits a field ``set``, their numbers. Raises ConfigurationError for a
    handler that cannot have them, and for what its parameters do not take.
    """
    called, part = part_with_sets(handler)
    if not 1 <= len(sets) <= MOST:
        raise ConfigurationError("params", f"give from 1 to {MOST} sets of them, not {len(sets)}")
    named = list(zip(range(len(sets)) if numbers is None else numbers, sets, strict=True))
    given = tuple(_given(part, number, values) for number, values in named)
    shape = SetShape(alone=part, sets=given, numbers=tuple(number for number, _ in named))
    params, outputs = given[0], {name: _with_number(f"output {name!r}", one) for name, one in part.outputs.items()}
    if isinstance(part, CompiledHandler):
        params = _numbered(params, shape.numbers[0])
        timers = [(TIMERS, "<i8", (len(sets),))] if part.timers else []
        fields = [(SETS, part.state, (len(sets),)), *timers, (TURN, "<u4")]
        state = np.dtype(fields, align=part.timers or part.state.isalignedstruct)
    elif isinstance(part, ObjectHandler) and part.counts:
        state = part.state
    else:
        state = np.dtype([(SETS, part.state, (len(sets),))], align=part.state.isalignedstruct)
    made = _changed(part, state=state, outputs=outputs, params=params, shape=shape, origin=None)
    if not isinstance(handler, ChainHandler):
        return made
    parts: tuple[tuple[str, SingleHandler], ...] = (*handler.parts[:-1], (called, made))
    return replace(handler, parts=parts, state=chain_dtype(parts), origin=None)


def _changed(part: Swept, **fields: Any) -> Swept:
    """The part with other fields. Its code is compiled again: it may name values that have changed since."""
    if isinstance(part, CompiledHandler):
        fields["_compiled"] = {}
    return replace(part, **fields)


def _given(part: Swept, number: int, values: Mapping[str, Any]) -> Parameters:
    """The part's parameters as one set has them."""
    assert part.params is not None
    if not isinstance(values, Mapping):
        raise ConfigurationError("params", f"{values!r} is not a dict of parameters by name", where=f"set {number}")
    by_symbol = values if all(isinstance(value, Mapping) for value in values.values()) else {"*": values}
    before = part.params.values
    merged = {**before, **{symbol: {**before.get(symbol, {}), **row} for symbol, row in by_symbol.items()}}
    try:
        return part.params.given(merged)
    except ConfigurationError as error:
        raise error.at(error.field, f"set {number}") from None


def _numbered(given: Parameters, number: int) -> Parameters:
    """The parameters of one set, and its number."""
    values = {**given.values, "*": {**given.values.get("*", {}), SET: number}}
    return replace(given, dtype=_with_number("params", given.dtype), values=values)


def _with_number(what: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if SET in (dtype.names or ()):
        raise ConfigurationError(
            f"{what}.{SET}", f"a field is named {SET!r}, which is the name of the set's number: rename the field"
        )
    return numbered(dtype)
