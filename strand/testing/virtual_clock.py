"""A clock that a test moves, in place of the system's."""

from __future__ import annotations

import threading
from typing import Protocol, Self

from strand.brief import brief
from strand.clock import install, installed
from strand.errors import ConfigurationError
from strand.validate import seconds, whole

__all__ = ["Clock"]


class Run(Protocol):
    """A seeded run, whose time goes on by its own steps."""

    def now_ns(self) -> int: ...

    def take(self, ns: int) -> None:
        """Passes time: in a handler its worker is busy for so long; elsewhere the workers go on for so long."""
        ...


class Clock:
    """A clock that stands still until it is moved. Within ``with Clock() as clock:`` it replaces the system's.

    ``advance`` moves it, and so does waiting: a paced replay that waits for a tick moves it to when the tick is due. A
    ``timeout_s`` of a Dispatcher (``publish``, ``drain``, ``stop``, ``call``) goes by it too. Such a call really waits
    for a millisecond. If that was in vain, the clock moves by up to 100 ms: what can happen does, and a timeout of a
    minute takes less than a second.

    It does not move what is measured (``wall_s``, latencies, a timeline), nor the silences and reconnections of live
    feeds. The timers of handlers go by the feed's time, and so by no clock. It may be used from any thread.

    A seeded run (``strand.testing.seeded``) within the block goes by it from its first ticks on. Each step of the run
    moves the clock by 3 ns, and a paced run publishes ticks when they are due. ``advance`` in a handler in Python makes
    its worker busy for so long, and the other workers go on meanwhile. While such a run is under way, only its own
    thread may use the clock.

    Args:
        start_ns: Where the clock begins, ns, 0 or more.

    Raises:
        ConfigurationError: If ``start_ns`` is below 0. On entering the block: if another clock has replaced the
            system's already.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = whole("start_ns", start_ns, 0)
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._before_run_ns = 0

    def __repr__(self) -> str:
        return brief(self, f"{self.now_ns():,} ns")

    def now_ns(self) -> int:
        """The clock's time, ns."""
        return self._now_ns if self._run is None else self._before_run_ns + self._run.now_ns()

    def advance(self, seconds_: float) -> None:
        """Moves the clock on.

        Args:
            seconds_: By how many seconds, from 0 to below 1e9.

        Raises:
            ConfigurationError: If the number is outside of these bounds.
        """
        by = seconds("seconds", seconds_)
        if by is None or not 0 <= by < 1e9:
            raise ConfigurationError("advance", f"{seconds_!r} is not a number of seconds from 0 up")
        if self._run is not None:
            self._run.take(round(by * 1e9))
            return
        with self._lock:
            self._now_ns += round(by * 1e9)

    def wait_until(self, time_ns: int) -> None:
        """Moves the clock on to a time, unless it is past that.

        Args:
            time_ns: The time, ns.
        """
        if self._run is not None:
            self._run.take(max(0, time_ns - self.now_ns()))
            return
        with self._lock:
            self._now_ns = max(self._now_ns, time_ns)

    def follow(self, run: Run | None) -> None:
        """Goes by a seeded run from now on.

        Args:
            run: The run; None: the clock goes by itself again.
        """
        self._now_ns = self.now_ns()
        self._run = run
        self._before_run_ns = 0 if run is None else self._now_ns - run.now_ns()

    def __enter__(self) -> Self:
        if installed() is not None:
            raise ConfigurationError("Clock: another one stands in for the system's already: leave its block first")
        install(self)
        return self

    def __exit__(self, *_: object) -> None:
        install(None)
