"""Threads that no exception ends: neither one that another thread raises in them, nor one before their first line."""

from __future__ import annotations

import logging
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from typing import Any, Final

from strand.binding import ffi, lib
from strand.threads import Bell

__all__ = ["Thread"]

_log: Final = logging.getLogger("strand")


class Thread:
    """A daemonic thread that calls ``run``, and calls it again if an exception ends it, until it returns.

    ``PyThreadState_SetAsyncExc`` raises an exception in a thread between any two steps of its Python code. A
    ``threading.Thread`` that it hits before its first line ends there, and its ``start`` waits in vain. This one lives
    in C: ``sd_thread_live`` calls the Python code. So ``start`` waits for nothing, and no call here is left in disorder
    by an interrupt.

    ``run`` may be called again even after it has returned: it has to find out itself that all is done.
    """

    def __init__(self, run: Callable[[], object], name: str) -> None:
        self.name = name
        #: None: it was not started.
        self.ident: int | None = None
        self._native_id: int | None = None
        self._run: Callable[[], object] | None = run
        self._bell = Bell()
        self._is_started = self._is_over = False

    def start(self) -> None:
        """Starts the thread. Raises RuntimeError where the system has no more threads."""
        for ident in map(start_new_thread, (lib.sd_thread_live,), ((lib.sd_thread_step, ffi.new_handle(self)),)):
            # No interrupt comes between the call and these lines.
            self.ident = ident
            self._is_started = True
            break

    @property
    def is_started(self) -> bool:
        """True once the thread was started, even if it has ended."""
        return self._is_started

    @property
    def is_here(self) -> bool:
        """True if the caller runs in this thread."""
        return self.ident == threading.get_ident() and not self._is_over

    @property
    def native_id(self) -> int | None:
        """The number that the system has for the thread: waits until it has begun. None: it was not started."""
        self._bell.wait_for(lambda: self._native_id is not None or not self._is_started)
        return self._native_id

    def is_alive(self) -> bool:
        """True if the thread was started and has not ended."""
        return self._is_started and not self._is_over

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, for so many seconds at most; not at all if it was not started, and in itself."""
        if self._is_started and not self.is_here:
            self._bell.wait_for(lambda: self._is_over, timeout)

    def step(self) -> int:
        """In the thread. Returns 1 when all is done; 0: it has to be called again."""
        try:
            if self._native_id is None:
                self._introduce()
            run = self._run
            if run is not None:
                run()
            self._run = run = None
            _forget_here()
            self._is_over = True
            self._bell.ring()
            return 1
        except BaseException:
            run = None
            _log.exception("an exception in the thread %s, outside of its tasks", self.name)
            return 0

    def _introduce(self) -> None:
        """Does first what ``threading.Thread`` does first."""
        threading.current_thread().name = self.name  # it enters a thread that it does not know
        if (trace := threading.gettrace()) is not None:
            sys.settrace(trace)
        if (profile := threading.getprofile()) is not None:
            sys.setprofile(profile)
        self._native_id = threading.get_native_id()
        self._bell.ring()


def _forget_here() -> None:
    """Takes the calling thread out of the list of ``threading``, which keeps one that it does not know for ever."""
    active: dict[int, Any] = getattr(threading, "_active", {})
    active.pop(threading.get_ident(), None)


@ffi.def_extern(onerror=lambda *_: None)  # type: ignore[untyped-decorator]
def sd_thread_step(thread: Any) -> int:
    """See ``Thread.step``. An exception before its first line, or in what it says of another one, is not told."""
    return int(ffi.from_handle(thread).step())
