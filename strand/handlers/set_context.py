"""Context of one of a handler's sets of parameters, where Python runs the handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.handlers.context import Context, Emit, FailedOnTick, alarm_of, places_of, records_of
from strand.handlers.state import SET
from strand.handlers.turns import taking_whole

#: The attribute of what a handler raised that has the context of the set it was called for.
_SET_OF: Final = "_strand_set"


class OneSet(NamedTuple):
    """``place``: among the sets, ``number``: what it is called, ``values``: its parameters as they were given for the
    symbol."""

    place: int
    number: int
    values: Mapping[str, Any]


class SetEmit:
    """Emits the records of one set, with its number.

    ``outputs``: the dtypes that the handler declares. ``window``: the first of the ticks in the set's hands, and
    how many, in the batch of the symbol; None: all of that, or a timer or the end.
    """

    def __init__(self, of_symbol: Context, outputs: Mapping[str, np.dtype[Any]], number: int) -> None:
        assert isinstance(of_symbol._emit, Emit)
        self._of_symbol = of_symbol
        self._whole = of_symbol._emit
        self._outputs = outputs
        self._number = number
        self.window: tuple[int, int] | None = None

    def __call__(self, records: Any, at: Any, output: str | None) -> None:
        """See Context.emit."""
        name = self._whole.name_of(output)
        own = records_of(records, self._outputs[name], name)
        if self.window is not None:
            first, n = self.window
            at = places_of(at, len(own), n) + first
        made: npt.NDArray[Any] = np.zeros(len(own), self._whole.dtype_of(name))
        made[SET] = self._number
        for field in own.dtype.names or ():
            made[field] = own[field]
        assert self._of_symbol._emit is not None
        self._of_symbol._emit(made, at, name)


def numbered(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A record with the number of its set before its fields."""
    fields = [(SET, np.dtype("<u4")), *((field, dtype[field]) for field in dtype.names or ())]
    return np.dtype(fields, align=dtype.isalignedstruct)


class SetContext(Context):
    """A set's row, parameters and way to emit. All else that it is asked for is as the symbol's context has it.

    ``object``: in an error, the set's object, where there are some.
    """

    def __init__(
        self, of_symbol: Context, of_set: OneSet, *, row: Any, params: Any, outputs: Mapping[str, np.dtype[Any]]
    ) -> None:
        self._of_symbol = of_symbol
        self.of_set = of_set
        self.row = row
        self.params = params
        self._emit = self.emitter = SetEmit(of_symbol, outputs, of_set.number)
        self.object: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._of_symbol, name)


@contextmanager
def blaming(context: SetContext, thing: Any = None) -> Iterator[None]:
    """Notes on exceptions of the block that the set of this context, with its object, raised them."""
    try:
        yield
    except BaseException as error:
        blame(error, context, thing)
        raise


def blame(error: BaseException, context: SetContext, thing: Any) -> None:
    """Notes on an exception that the set of this context raised it."""
    context.object = thing
    raised = error.__cause__ or error if type(error) is FailedOnTick else error
    # An exception's class may refuse attributes, as a frozen dataclass does.
    BaseException.__setattr__(raised, _SET_OF, context)


def set_of(error: BaseException | None) -> SetContext | None:
    """The context of the set whose call raised this; None: it was none's."""
    found: SetContext | None = getattr(error, _SET_OF, None)
    return found


class Alarms:
    """Due times of the sets' timers, 0: never. The symbol's timer is the first of them.

    The context does not know the sets' contexts: their objects keep those, and a circle would outlive the run.
    """

    def __init__(self, of_symbol: Context, n_sets: int) -> None:
        self._of_symbol = of_symbol
        self._at = [0] * n_sets
        #: A timer set before the first tick counts from that tick's time, which is unknown yet.
        self._early = True
        #: A set has asked since ``ask``.
        self.changed = False

    def begin(self) -> None:
        """Puts the symbol's next ticks in hand. A timer set before the first tick counts from that tick's time."""
        if self._early:
            timer = self._of_symbol.timer
            assert timer is not None
            self._at = [alarm_of(alarm, int(timer.times[0])) for alarm in self._at]
            self._early = False

    def put(self, place: int, alarm: int) -> None:
        """A set has asked."""
        self._at[place] = alarm
        self.changed = True

    def take(self, place: int, time: int) -> bool:
        """Tells whether a set's timer is due at a time, and unsets it if so."""
        due = 0 < self._at[place] <= time
        if due:
            self._at[place] = 0
        return due

    def ask(self) -> None:
        """Asks for the symbol's timer, in the name of what is in hand."""
        self.changed = False
        first = min(filter(None, self._at), default=0)
        context, timer = self._of_symbol, self._of_symbol.timer
        assert timer is not None
        if context.now is not None:
            timer.alarm = first
        elif context.starts:
            timer.ask_early(first)
        else:
            timer.ask(first, context.at)


class ObjectSetContext(SetContext):
    """Context of a set's object, which gets a tick before the next set's object does. ``alarms``: of all sets."""

    alarms: Alarms

    @property
    def time(self) -> int:
        return self._of_symbol.time

    @property
    def times(self) -> npt.NDArray[np.int64]:
        return self._of_symbol.times

    def wake_at(self, ns: int, at: int | None = None) -> int:
        """Sets a timer as the symbol's context does. An object asks for the tick in hand, so it leaves ``at`` out."""
        if at is not None and at != self.at:
            raise ConfigurationError(
                "at",
                "with several sets of parameters an object leaves it out",
                where=f"handler {self.handler!r}: wake_at",
            )
        end = self._of_symbol.wake_at(ns)
        timer = self._of_symbol.timer
        assert timer is not None
        self.alarms.put(self.of_set.place, timer.latest)
        return end

    @contextmanager
    def rehearsing(self, time: int, row: Any, after: Mapping[str, npt.NDArray[Any]]) -> Iterator[None]:
        told = self._of_symbol.told
        self.told = [(own, value) for each, value in told if isinstance(each, Each) for own in each.of(self)]
        before, self.row = self.row, row
        try:
            with self._of_symbol.rehearsing(time, row, after):
                yield
        finally:
            self.row = before


class SetObjects:
    """The objects of one symbol, one for each set, by their contexts."""

    by_context: dict[ObjectSetContext, Any]


class Each:
    """Calls a method of the sets' objects. ``objects``: those of the sets whose object has the method. ``alarms``: None
    for a handler without timers."""

    def __init__(self, name: str, objects: Mapping[ObjectSetContext, Any], alarms: Alarms | None) -> None:
        self._calls = [(taking_whole(getattr(thing, name), name), context, thing) for context, thing in objects.items()]
        self._alarms = alarms

    def __call__(self, *value: Any) -> None:
        at = -1
        try:
            for at, (method, _, _) in enumerate(self._calls):  # noqa: B007 - of the one that fails
                method(*value)
        except BaseException as error:
            blame(error, *self._calls[at][1:])
            raise
        if self._alarms is not None and self._alarms.changed:
            self._alarms.ask()

    def of(self, context: ObjectSetContext) -> list[Callable[..., Any]]:
        """The method of a set's object, if it has it."""
        return [method for method, each, _ in self._calls if each is context]
