"""Threads, interrupts and time limits: code that Ctrl-C may cut short anywhere, threads that must not wait for
themselves, and the clock that waits go by: the system's, unless a test has put another in its place."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
import weakref
from _thread import RLock, allocate_lock, start_new_thread
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from strand.errors import StrandError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_PR_SET_TIMERSLACK: Final = 29
#: After so long a wake-up of an event loop is taken for lost, as an interrupt of the main thread may lose one.
_LOST_S: Final = 1.0

#: Error text for a thread that is inside and would wait.
WAITS_FOR_ITSELF: Final = (
    "this thread is inside the dispatcher and would wait for itself (in a handler, on_stop or on_finish, "
    "or in a signal handler or __del__ that interrupts a call of the dispatcher)"
)


class Inside:
    """The threads that a dispatcher waits for, or that hold a lock of it: one that waits for it waits for itself.

    A handler runs in such a thread. A signal handler, or a ``__del__``, may run in one at any moment. These lines mark
    a thread, and no function does: an interrupt in one could leave the mark behind::

        me = threading.get_ident()
        try:
            inside.threads.append(me)
            ...
        finally:
            inside.threads.remove(me)
    """

    __slots__ = ("threads",)

    def __init__(self) -> None:
        #: By their idents, once for each time that a thread went in.
        self.threads: list[int] = []

    @property
    def here(self) -> bool:
        """True if the calling thread is one of them."""
        return threading.get_ident() in self.threads


class Bell(RLock):  # type: ignore[misc]  # it is final in the stubs alone
    """A reentrant lock, and threads that sleep until something is so. An interrupt in any call leaves both in order.

    ``threading.Condition`` and ``Event`` do not have this property. Python code takes and gives back their lock, and
    an interrupt between two of its steps leaves the lock taken. A sleeper here has a lock of its own, and needs not
    the one of the bell: it enters the list first and looks then, so a ring after a change always reaches it.
    """

    __slots__ = ("_sleepers",)

    def __init__(self) -> None:
        self._sleepers: list[Any] = []

    def ring(self) -> None:
        """Makes all sleepers look again. A call that an interrupt cuts short can be repeated."""
        wake(self._sleepers)

    notify_all = ring  # the name in concurrent.futures

    def wait_for(self, is_so: Callable[[], bool], timeout: float | None = None) -> bool:
        """Sleeps until ``is_so()``, for so many seconds at most. Returns what that says in the end."""
        return sleep_until(is_so, self._sleepers, timeout)


def sleep_until(is_so: Callable[[], bool], sleepers: list[Any], timeout: float | None = None) -> bool:
    """Sleeps until ``is_so()``, for so many seconds at most. Returns what that says in the end. It is asked again after
    each ``wake`` of the sleepers."""
    until = None if timeout is None else time.monotonic() + timeout
    sleeper = allocate_lock()
    sleeper.acquire()
    try:
        sleepers.append(sleeper)
        while not is_so():
            if until is None:
                sleeper.acquire()
                continue
            left = until - time.monotonic()
            if left <= 0:
                return is_so()
            sleeper.acquire(True, min(left, threading.TIMEOUT_MAX))
        return True
    finally:
        try:  # noqa: SIM105 - ``suppress`` takes longer than all the rest where nobody sleeps
            sleepers.remove(sleeper)
        except ValueError:
            pass


def wake(sleepers: Iterable[Any]) -> None:
    """Makes all sleepers of a list look again."""
    for sleeper in tuple(sleepers):
        try:  # noqa: SIM105 - as above
            sleeper.release()
        except RuntimeError:  # it is awake
            pass


class LoopCalls:
    """Calls that other threads hand to an event loop, many by one wake-up: a wake-up is a call of the system, which
    gives up the GIL. A call must raise nothing. All who use a loop share the object that ``of`` returns."""

    __slots__ = ("__weakref__", "_calls", "_context", "_loop", "_woken_s")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._calls: deque[Callable[[], object]] = deque()
        #: The calls are part of nothing that the thread is in that happens to wake the loop.
        self._context = Context()
        #: When the loop was woken for the calls; never, where it has to be for the next one.
        self._woken_s = -inf

    @staticmethod
    def of(loop: AbstractEventLoop) -> LoopCalls:
        """The calls of a loop, made on the first use."""
        return _loop_calls.get(loop) or _loop_calls.setdefault(loop, LoopCalls(loop))

    @property
    def loop(self) -> AbstractEventLoop:
        """The loop. Raises RuntimeError where it is gone."""
        loop = self._loop()
        if loop is None:
            raise RuntimeError("the event loop is gone")
        return loop

    @property
    def is_closed(self) -> bool:
        """True if the loop calls nothing any more."""
        loop = self._loop()
        return loop is None or loop.is_closed()

    def add(self, call: Callable[[], object]) -> None:
        """Makes the loop call it, from any thread. Raises RuntimeError where the loop is closed."""
        self._calls.append(call)  # before the look: the loop says that it must be woken before it looks here
        now = time.monotonic()
        if now - self._woken_s > _LOST_S:
            self._woken_s = now
            try:
                self.loop.call_soon_threadsafe(self._run, context=self._context)
            except RuntimeError:
                self._woken_s = -inf
                self._calls.clear()
                raise

    def _run(self) -> None:
        """Makes the calls that are there. Those that come meanwhile have another turn, so that the loop gets on with
        other things."""
        calls = self._calls
        try:
            for _ in range(len(calls)):
                calls.popleft()()
        finally:
            if not calls:
                self._woken_s = -inf
            if calls:  # a second look: whoever added one before the line above has not woken the loop
                self._woken_s = time.monotonic()
                self.loop.call_soon(self._run, context=self._context)


_loop_calls: weakref.WeakKeyDictionary[AbstractEventLoop, LoopCalls] = weakref.WeakKeyDictionary()


def mended(act: Callable[..., Any], mend: Callable[..., object], *arguments: Any) -> Any:
    """Returns what ``act`` returns. If an exception cuts that short, ``mend`` makes the state whole.

    The exception then goes on. An error of Strand's own is an answer, and cuts nothing short. ``mend`` may be called
    again: if another exception cuts it short, it runs in a thread of its own, where no signal interrupts it. A single
    call of C starts that thread: Python raises no interrupt between the beginning of an ``except`` and the end of the
    first such call.
    """
    try:
        return act(*arguments)
    except StrandError:
        raise
    except BaseException:
        try:
            mend(*arguments)
        except BaseException:
            start_new_thread(mend, arguments)
            raise
        raise


def in_main_thread() -> bool:
    """True if a signal may interrupt the calling thread: Python runs signal handlers in the main thread alone."""
    return threading.get_ident() == threading.main_thread().ident


def interrupts(error: BaseException) -> bool:
    """Tells whether an exception out of a handler is the user's Ctrl-C, which Python raises in the main thread. Every
    other one is the handler's failure, SystemExit too."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def has_gil() -> bool:
    """True if only one thread at a time runs Python."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def sleep_exactly() -> None:
    """Lets the sleeps of the calling thread end when they are due. By default Linux ends them up to 50 us later, which
    is many times what a thread needs that only lets others have the GIL. Where the system refuses, nothing changes."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Runs handlers of signals after the block, in the main thread, and not in it: nothing in it is done by half."""
    if not in_main_thread():
        yield
        return
    held: list[int] = []
    before: dict[int, Any] = {}
    are_held = [True]

    def handle(which: int, frame: Any) -> None:
        # An interrupt may come before all handlers are those of before.
        if are_held:
            held.append(which)
        else:
            before[which](which, frame)

    try:
        for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(handler := signal.getsignal(kind)):
                before[kind] = handler
                signal.signal(kind, handle)
        yield
    finally:
        are_held.clear()
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            before[held[0]](held[0], None)


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
    """End of a wait of ``limit_s`` seconds; None: never, as in ``NEVER``."""

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


NEVER: Final = Deadline(None)
