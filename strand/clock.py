"""The clock that waits and time limits go by: the system's, unless a test has put another in its place."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "Deadline", "install", "installed"]

#: By how much a wait in vain moves a clock that is not the system's, and how long it really takes, in ns.
STEP_NS, REAL_STEP_NS = 100_000_000, 1_000_000
#: The longest wait there is: thirty years.
MAX_S = 1e9


class Clock(Protocol):
    """Source of the time."""

    def now_ns(self) -> int:
        """The time in ns, from wherever it counts; never goes back."""
        ...

    def wait_until(self, time_ns: int) -> None:
        """Returns at that time, or earlier."""
        ...


_installed: list[Clock] = []


def installed() -> Clock | None:
    """The clock that stands in for the system's, if one does."""
    return _installed[-1] if _installed else None


def install(clock: Clock | None) -> None:
    """Puts a clock in the place of the system's for all threads; None: the system's again."""
    _installed[:] = [] if clock is None else [clock]


class Deadline:
    """End of a wait of ``limit_s`` seconds; None: never."""

    def __init__(self, limit_s: float | None) -> None:
        self._clock = installed()
        self._at_ns: int | None = None
        if limit_s is not None:
            self._at_ns = self._now_ns() + int(min(max(limit_s, 0), MAX_S) * 1e9)

    def _now_ns(self) -> int:
        return time.monotonic_ns() if self._clock is None else self._clock.now_ns()

    def has_passed(self) -> bool:
        """True if the wait is over. A wait in vain moves a clock that is not the system's."""
        if self._at_ns is None:
            return False
        now = self._now_ns()
        if self._clock is not None and now < self._at_ns:
            self._clock.wait_until(min(self._at_ns, now + STEP_NS))
            now = self._now_ns()
        return now >= self._at_ns

    def slice_ns(self, max_ns: int) -> int:
        """Time to wait at one go, up to ``max_ns``."""
        if self._at_ns is None:
            return max_ns
        max_ns = max_ns if self._clock is None else REAL_STEP_NS
        return max(0, min(max_ns, self._at_ns - self._now_ns()))

    def left_s(self) -> float | None:
        """The seconds until it is over; None: it never is."""
        return None if self._at_ns is None else max(0, self._at_ns - self._now_ns()) / 1e9
