"""Threads that an interrupt may have kept from starting, and those that must not wait for their own dispatcher."""

from __future__ import annotations

import ctypes
import sys
import threading
from contextlib import suppress
from typing import Final

__all__ = ["WAITS_FOR_ITSELF", "Inside", "has_gil", "interrupts", "join", "sleep_exactly"]

_PR_SET_TIMERSLACK: Final = 29

#: What is wrong where a thread that is inside would wait.
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
        """Whether the calling thread is one of them."""
        return threading.get_ident() in self.threads


def interrupts(error: BaseException) -> bool:
    """Whether what came out of a handler is the user's Ctrl-C: Python raises that in the main thread, whatever runs
    there. All else is the handler's failure, SystemExit too."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def has_gil() -> bool:
    """Whether one thread at a time runs Python."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def join(thread: threading.Thread) -> None:
    """Waits for the thread's end. One whose ``start`` an interrupt cut short has not begun, as far as it knows: it has
    been told to stop, and finds that out when it does begin."""
    with suppress(RuntimeError):
        thread.join()


def sleep_exactly() -> None:
    """Lets the sleeps of the calling thread end when they are due. By default Linux ends them up to 50 us later, which
    is many times what a thread needs that only lets others have the GIL. Where the system refuses, nothing changes."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
