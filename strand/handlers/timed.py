"""A Python handler that has timers, at work for one symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.handlers.context import Call, Context, FailedOnTick, SymbolFunctions
from strand.validate import is_whole

__all__ = ["Clock", "Host", "Timed", "acting"]


class Clock(Protocol):
    """Clock of a timed handler, with ticks of its symbol in hand."""

    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each of them."""

    def arm(self, handled: int, alarm: int) -> None:
        """Sets the due time of the symbol's timer, as of the first ``handled`` of the ticks in hand; 0: never."""


class Host(Protocol):
    """Functions that run one symbol of a Python handler."""

    @property
    def call(self) -> Call:
        """Function to call with the symbol's next ticks."""

    @property
    def plain(self) -> Callable[..., Any] | None:
        """A function of (symbol, ticks, row) that does what ``call`` does, where there is one."""

    @property
    def one(self) -> Callable[[Any], Any] | None:
        """Function to call with one tick, trades apart, where ``TickByTick`` allows it."""

    @property
    def object(self) -> Any:
        """The object whose methods are called; None: it has none."""

    def wake(self, time: int) -> int:
        """Runs the symbol's timer. Returns the due time of the next one, 0: never."""

    def finish(self, time: int) -> None:
        """Runs the end, at the feed's time there."""

    @property
    def alarm(self) -> int:
        """Due time of the symbol's timer; 0: never."""

    @property
    def own_alarm(self) -> int:
        """Due time of the timer that the Python handler itself has set; 0: never."""

    def resume(self, alarm: int) -> None:
        """Goes on where another process left off: the row, and the state of native handlers, are as they were there.
        ``alarm``: the value of ``own_alarm`` then."""


def acting(context: Context, time: int, act: Callable[[], Any] | None) -> None:
    """Does something at a time, with no tick in hand."""
    if act is None:
        return
    at, context.at, context.now = context.at, None, time
    try:
        act()
    finally:
        context.at, context.now = at, None


class Timed:
    """Calls the functions of a handler with its ticks, timers and end, and passes on the timers that they set.

    It gets no tick at or behind the timer that is set. So a handler that sets a timer in the middle of a batch handles
    only the ticks before it: an object is called for no more, a batch handler says how many it took.
    """

    def __init__(self, context: Context, functions: SymbolFunctions, clock: Clock) -> None:
        self._context = context
        self._functions = functions
        self._clock = clock
        self.plain = functions.plain
        self.one = functions.one
        self.object = functions.object

    @property
    def call(self) -> Call:
        return self._functions.ticks if self._context.timer is None else self._call

    @property
    def alarm(self) -> int:
        timer = self._context.timer
        return 0 if timer is None else timer.alarm

    @property
    def own_alarm(self) -> int:
        return self.alarm

    def resume(self, alarm: int) -> None:
        if self._context.timer is not None:
            self._context.timer.resume(alarm)

    def _call(self, ticks: npt.NDArray[Any]) -> int | None:
        timer, n = self._context.timer, len(ticks)
        assert timer is not None
        timer.begin(self._clock.times())
        handled = 0
        try:
            handled = self._took(self._functions.ticks(ticks), n)
        except FailedOnTick as error:
            # Timers set by the ticks before it stand. The failed tick counts as done: it will not come again.
            if timer.over(error.handled):
                self._clock.arm(error.handled + 1, timer.alarm)
            raise
        except BaseException:
            timer.over(0)
            raise
        if timer.over(handled):
            self._clock.arm(handled, timer.alarm)
        return None if handled == n else handled

    def _took(self, said: Any, n: int) -> int:
        """Number of ticks that a call has handled. Raises ConfigurationError for an impossible number."""
        timer, called = self._context.timer, self._context.handler
        assert timer is not None
        if said is None:
            said = n
            if timer.end < n:
                raise ConfigurationError(
                    f"handler {called!r}: the timer it asked for comes before tick {timer.end} of {n}: handle no more "
                    "than wake_at returns, and return how many"
                )
        if not is_whole(said):
            raise ConfigurationError(
                f"handler {called!r}: it returned {said!r}: return how many ticks it handled, or None"
            )
        if not timer.last_asked() < said <= timer.end or said < 1:
            raise ConfigurationError(
                f"handler {called!r}: it returned {said} for {n} ticks, but only {timer.end} come before its timer"
                + (f", which tick {timer.last_asked()} asked for" if timer.last_asked() >= 0 else "")
            )
        return int(said)

    def wake(self, time: int) -> int:
        """Raises what the handler does; its timer is over then as well."""
        timer, wake = self._context.timer, self._functions.wake
        assert timer is not None
        timer.alarm = 0
        if wake is not None:
            acting(self._context, time, lambda: wake(time))
        return timer.alarm

    def finish(self, time: int) -> None:
        """Raises what the handler does."""
        if self._context.timer is not None:
            self._context.timer.finish()
        acting(self._context, time, self._functions.finish)
