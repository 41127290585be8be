"""A ``concurrent.futures.Future`` that makes a lock and a bell only when somebody waits.

How a waiter and the worker that ends the task meet. Both call ``setdefault`` for the same entry of the future's dict,
a waiter with a new ``Bell``, the worker with ``NOBODY``. One of the two is first. This is one atomic step with the
GIL, and on a free-threaded build too, where it holds the dict's lock; so whatever was written before one call is seen
after the other.

- The waiter is first: the worker finds its bell. It writes the state while it holds that as a lock, as
  ``concurrent.futures`` does, so ``wait`` and ``as_completed`` never see a state change while they hold it.
- The worker is first: it wrote the result and the final state before, so all of that is there for a waiter that finds
  ``NOBODY``. The state itself may not be written yet. The waiter writes it, too, the same word as the worker does.
  From then on nothing changes any more, so nothing needs a lock: ``NOBODY`` is a bell that does nothing.

A simple write of the state by the worker, and a look for a bell after it, would not do: ``as_completed`` would see
a future as finished that then tells its waiter again.

An end that an exception cuts short is repeated, so each step of it may be done twice, but for two: to tell a waiter of
``concurrent.futures``, and to call a callback. A signal must not interrupt the first one, so the main thread leaves it
to another thread. A callback is taken off the list before its first step.
"""

from __future__ import annotations

import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from concurrent.futures import Future, _base
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, LOGGER
from typing import Any, Final, cast

from strand.tasks.current import CURRENT_TASK, ENDING_TASK, RunningTask
from strand.tasks.lazy import NOBODY, Lazy
from strand.threads import Bell, in_main_thread, interrupts

__all__ = ["OVER", "LazyFuture"]

#: The states of a future that has ended.
OVER: Final = (FINISHED, CANCELLED_AND_NOTIFIED)
#: Longest single wait for a waiter's lock by a thread that ends a task; then it checks that the waiter still exists.
_LOOK_S: Final = 0.1


class _Event:
    """A ``threading.Event`` whose wait an interrupt may cut short: ``set`` never waits for a lock of it."""

    def __init__(self) -> None:
        self._bell = Bell()
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._bell.ring()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._bell.wait_for(self.is_set, timeout)


class _Waiters(list[Any]):
    """Waiters of ``wait`` and ``as_completed``, which enter here before they wait for their events."""

    def append(self, waiter: Any) -> None:
        if isinstance(waiter.event, threading.Event):
            waiter.event = _Event()
        super().append(waiter)


class LazyFuture(Future[Any]):
    """Base of ``TaskFuture``: the bell of its waiters, and its end."""

    __slots__ = ("_end", "_result", "_state")
    _end: str | None
    _result: Any
    _state: str
    _exception: BaseException | None = None
    _waiters: Any = Lazy(_Waiters)
    _done_callbacks: Any = Lazy()

    @property
    def _condition(self) -> Any:  # type: ignore[override]  # which the functions of concurrent.futures ask for
        fields = self.__dict__
        found = fields.get("_meeting")
        if found is None:
            found = fields.setdefault("_meeting", Bell())
        if found is NOBODY:
            self._state = _state_of(self._end)
        return found

    def finish(self) -> None:
        """Ends the task, whose ``_end``, ``_result`` and ``_exception`` are there. Only the one thread that has the
        right to calls it, or, where an exception has cut it short, another one after it."""
        bell = self.__dict__.setdefault("_meeting", NOBODY)
        if bell is NOBODY:
            self._state = _state_of(self._end)
            return
        if "_waiters" in self.__dict__ and in_main_thread():
            start_new_thread(self._tell, (bell,))
            bell.wait_for(lambda: self._state in OVER)
        else:
            self._tell(bell)
        callbacks = self.__dict__.get("_done_callbacks")
        if callbacks:
            outer = CURRENT_TASK.get(), ENDING_TASK.get()
            try:
                ENDING_TASK.set(cast(RunningTask, self))
                CURRENT_TASK.set(outer[0] or cast(RunningTask, self))
                while callbacks:
                    self._call_back(callbacks)
            finally:
                CURRENT_TASK.set(outer[0])
                ENDING_TASK.set(outer[1])

    def _tell(self, bell: Bell) -> None:
        """Writes the state, and tells those that wait."""
        is_mine = bell.acquire(timeout=_LOOK_S)
        while not is_mine and not _is_left_behind(bell):
            is_mine = bell.acquire(timeout=_LOOK_S)
        try:
            if self._state not in OVER:
                for waiter in self.__dict__.get("_waiters", ()):
                    if self not in waiter.finished_futures:
                        if self._end == "cancelled":
                            waiter.add_cancelled(self)
                        elif self._exception is not None:
                            waiter.add_exception(self)
                        else:
                            waiter.add_result(self)
                self._state = _state_of(self._end)
        finally:
            if is_mine:
                bell.release()
        bell.ring()

    def _call_back(self, callbacks: list[Callable[[Future[Any]], object]]) -> None:
        """Calls the first of the callbacks, which is then in the list no more."""
        try:
            callback = callbacks[0]
            del callbacks[0]
            callback(self)
        except BaseException as error:  # SystemExit, too: it must not end the worker
            LOGGER.exception("exception calling callback for %r", self)
            if interrupts(error):
                raise

    def set_result(self, *_: Any, **__: Any) -> Any:
        """Not for users: the scheduler alone ends a task.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(f"{self!r} is ended by its scheduler alone")

    set_exception = set_running_or_notify_cancel = set_result


def _is_left_behind(bell: Bell) -> bool:
    """Tells whether an interrupt has ended a ``wait`` or ``as_completed`` of the main thread while it took its futures'
    locks. CPython's code does not give back the locks that it holds then."""
    main = threading.main_thread().ident
    frame = sys._current_frames().get(main or 0)
    while frame is not None:
        if frame.f_code.co_filename == _base.__file__:
            return False
        frame = frame.f_back
    return f"owner={main} " in repr(bell)


def _state_of(end: str | None) -> str:
    return CANCELLED_AND_NOTIFIED if end == "cancelled" else FINISHED
