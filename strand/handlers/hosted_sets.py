"""Handlers that Python runs with many sets of parameters: each set has its row, and its object or calls of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.trades import TradeMaker
from strand.handlers.base import FailedSet
from strand.handlers.batch_handlers import PythonHandler
from strand.handlers.bound import BindContext, TickByTick
from strand.handlers.context import Context, FailedOnTick, SymbolFunctions
from strand.handlers.hosted import HostedHandler
from strand.handlers.object_handlers import METHODS, ObjectHandler, functions_of, made_by
from strand.handlers.parameters import Parameters, records_of_sets
from strand.handlers.set_context import Alarms, Each, ObjectSetContext, OneSet, SetContext, SetObjects, blaming, set_of
from strand.handlers.state import SETS
from strand.handlers.timed import Timed
from strand.handlers.timer import Timer
from strand.handlers.tracked import BatchTimes

__all__ = ["HostedSets"]


@dataclass(frozen=True, kw_only=True, repr=False)
class HostedSets(HostedHandler):
    """``alone``: the handler with one set. ``sets``: the parameters of each, ``numbers``: what they are called."""

    alone: ObjectHandler | PythonHandler
    sets: tuple[Parameters, ...]
    numbers: tuple[int, ...]

    @property
    def timers(self) -> bool:
        return self.alone.timers

    @property
    def ends(self) -> bool:
        return self.alone.ends

    @property
    def needs_ticks(self) -> bool:
        return self.alone.needs_ticks

    @property
    def needs_states(self) -> tuple[str, ...]:
        return self.alone.needs_states

    @property
    def fails_as_a_whole(self) -> bool:
        return self.alone.fails_as_a_whole

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return self.alone.written

    def by_tick(self, maker: TradeMaker | None) -> TickByTick | None:
        return self.alone.by_tick(maker)

    def functions_in(self, context: BindContext) -> Callable[[Context], SymbolFunctions]:
        records = records_of_sets(self.sets, self.name, context.table)
        return partial(self._functions_of, records)

    def _functions_of(self, records: npt.NDArray[Any], context: Context) -> SymbolFunctions:
        params = records[context.key if len(records) > 1 else 0]
        make = ObjectSetContext if isinstance(self.alone, ObjectHandler) else SetContext
        contexts: Any = [
            make(context, one, row=row, params=given, outputs=self.alone.outputs)
            for one, row, given in zip(self._sets_of(context.symbol), self._rows_of(context.row), params, strict=True)
        ]
        if isinstance(self.alone, ObjectHandler):
            return _functions_of_objects(self.alone, contexts, context)
        return _Batches(self.alone, contexts, context).functions

    def _sets_of(self, symbol: str) -> Iterator[OneSet]:
        for place, (number, given) in enumerate(zip(self.numbers, self.sets, strict=True)):
            shared, own = given.values.get("*", {}), given.values.get(symbol)
            yield OneSet(place, number, {**shared, **own} if own else shared)

    def _rows_of(self, row: Any) -> Sequence[Any]:
        """Rows of the sets. A handler without a state has one row for all sets, in which ticks are counted, and cannot
        write to it."""
        if SETS in row.dtype.names:
            return [row[SETS][place] for place in range(len(self.sets))]
        shared = np.asarray(row)
        shared.flags.writeable = False
        return [shared[()]] * len(self.sets)

    def failed_set(
        self,
        symbol: str,  # noqa: ARG002 - the set's context knows it
        row: npt.NDArray[Any],
        cause: BaseException | None,
    ) -> FailedSet | None:
        if (context := set_of(cause)) is None:
            return None
        one = context.of_set
        alone = replace(self.alone, params=self.sets[one.place], trades=self.trades, size_unit=self.size_unit)
        own = np.ascontiguousarray(row[SETS][:, one.place]) if SETS in (row.dtype.names or ()) else row
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


class _Batches:
    """Calls the functions of a symbol for each set with all ticks of a batch, one set after the other.

    A set that stops at its timer stops the symbol, and those behind it are given no more ticks than that. Those before
    it are ahead: of the ticks that come again, so many are not for them.
    """

    def __init__(self, handler: PythonHandler, contexts: Sequence[SetContext], of_symbol: Context) -> None:
        self._of_symbol = of_symbol
        self._contexts = contexts
        self._times = BatchTimes()
        self._ahead = [0] * len(contexts)
        for context in contexts:
            context.timer = Timer(handler.name) if handler.timers else None
        self._hosts = [Timed(context, handler.functions_of(context), self._times) for context in contexts]
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
