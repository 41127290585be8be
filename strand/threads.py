"""Threads and interrupts: code that Ctrl-C may cut short anywhere, and threads that must not wait for themselves."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from _thread import RLock, allocate_lock, start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from strand.errors import StrandError

__all__ = [
    "WAITS_FOR_ITSELF",
    "Bell",
    "Inside",
    "has_gil",
    "in_main_thread",
    "interrupts",
    "interrupts_later",
    "mended",
    "sleep_exactly",
]

_PR_SET_TIMERSLACK: Final = 29

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
        for sleeper in tuple(self._sleepers):
            with suppress(RuntimeError):  # it is awake
                sleeper.release()

    notify_all = ring  # the name in concurrent.futures

    def wait_for(self, is_so: Callable[[], bool], timeout: float | None = None) -> bool:
        """Sleeps until ``is_so()``, for so many seconds at most. Returns what that says in the end."""
        if is_so():
            return True
        until = None if timeout is None else time.monotonic() + timeout
        sleeper = allocate_lock()
        sleeper.acquire()
        try:
            self._sleepers.append(sleeper)
            while not is_so():
                left = -1 if until is None else until - time.monotonic()
                if until is not None and left <= 0:
                    return is_so()
                sleeper.acquire(True, min(left, threading.TIMEOUT_MAX))
            return True
        finally:
            with suppress(ValueError):
                self._sleepers.remove(sleeper)


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
