"""The timer of one symbol, as a Python handler asks for it."""

from __future__ import annotations

import operator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, PlaceError

__all__ = ["Timer", "alarm_of"]

_NO_TICKS: Final = np.empty(0, np.int64)
#: The greatest time: no timer fires then, also where a tick says it.
_NEVER: Final = 2**63 - 1


def _ns(value: Any) -> int:
    """A time. Raises ConfigurationError."""
    try:
        ns = operator.index(value)
    except TypeError:
        raise ConfigurationError(f"wake_at: {value!r} is not a time: give whole nanoseconds since the epoch") from None
    if not 0 <= ns < 2**63:
        raise ConfigurationError(f"wake_at: {ns} is not a time: nanoseconds since the epoch are from 0 to 2**63 - 1")
    return ns


def alarm_of(ns: int, now: int) -> int:
    """Due time of a timer that was asked for at ``now``; 0: never."""
    alarm = ns and max(ns, now + 1)
    return alarm if alarm < _NEVER else 0


class Timer:
    """Timer of a symbol. ``alarm``: its due time, 0: never. While ticks are in hand, ``times`` is the feed's time at
    each of them, and ``end`` the number of ticks before the timer. ``latest``: the due time of the latest request;
    before the first tick, the requested time itself."""

    __slots__ = ("_asked", "_early", "_ended", "alarm", "end", "handler", "latest", "times")

    def __init__(self, handler: str) -> None:
        self.handler = handler
        self.alarm = 0
        self.latest = 0
        self.times: npt.NDArray[np.int64] = _NO_TICKS
        self.end = 0
        #: The places of ticks that have asked, and for when.
        self._asked: list[tuple[int, int]] = []
        #: A timer set before the first tick, which counts from that tick's time.
        self._early: int | None = None
        self._ended = False

    def begin(self, times: npt.NDArray[np.int64]) -> None:
        """Ticks are in hand, all of them before ``alarm``."""
        self.times = times
        self.end = len(times)
        self._asked.clear()
        if self._early is not None:
            self.ask(self._early, 0)

    def ask(self, ns: Any, at: Any) -> int:
        """Sets a timer for the tick at a position of the ticks in hand; returns ``end``."""
        ns, n = _ns(ns), len(self.times)
        who = f"handler {self.handler!r}: wake_at"
        if not n:
            raise ConfigurationError(f"{who}: no tick or timer is being handled that could ask for it")
        if at is None:
            raise ConfigurationError(f"{who}: say which tick asks: wake_at(ns, at=place)")
        place, last = operator.index(at), self.last_asked()
        if not 0 <= place < n:
            raise PlaceError(f"at: {place} is not a place in a batch of {n} ticks: places count from 0")
        if place < last:
            raise ConfigurationError(f"{who}: tick {place} asks after tick {last} did: ask in order")
        if place >= self.end:
            raise ConfigurationError(
                f"{who}: tick {place} comes after the timer that tick {last} asked for: handle the {self.end} before "
                f"it, and return {self.end}"
            )
        alarm = self.latest = alarm_of(ns, int(self.times[place]))
        self._asked.append((place, alarm))
        self.end = n if not alarm or alarm > self.times[-1] else int(self.times.searchsorted(np.int64(alarm)))
        return self.end

    def ask_again(self, ns: Any, now: int) -> int:
        """Sets a timer from the timer that runs, at its time; returns 0, as no ticks are in hand."""
        ns = _ns(ns)
        if self._ended:
            raise ConfigurationError(f"handler {self.handler!r}: wake_at: the run has ended, and its timers with it")
        self.alarm = self.latest = alarm_of(ns, now)
        return 0

    def ask_early(self, ns: Any) -> int:
        """Sets a timer before the symbol's first tick, in its name; returns 0, as no ticks are in hand."""
        self._early = self.latest = _ns(ns)
        return 0

    def over(self, handled: int) -> bool:
        """The first ``handled`` of the ticks in hand were. Whether one of them has asked: ``alarm`` is what was asked
        for last."""
        alarms = [alarm for place, alarm in self._asked if place < handled]
        self.times = _NO_TICKS
        if handled:
            self._early = None
        if alarms:
            self.alarm = alarms[-1]
        return bool(alarms)

    def resume(self, alarm: int) -> None:
        """Resumes in another process, with the due time that the timer had. Requests before the first tick were met
        there."""
        self.alarm = alarm
        self._early = None

    def last_asked(self) -> int:
        """The place of the last tick that has asked; -1: none has."""
        return self._asked[-1][0] if self._asked else -1

    def finish(self) -> None:
        """The run has ended."""
        self._ended = True
