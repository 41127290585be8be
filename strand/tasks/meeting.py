"""A ``concurrent.futures.Future`` that makes its condition only when somebody waits.

How a waiter and the worker that ends the task meet. Both call ``setdefault`` for the same entry of the future's dict,
a waiter with a new condition, the worker with ``NOBODY``. One of the two is first. This is one atomic step with the
GIL, and on a free-threaded build too, where it holds the dict's lock; so whatever was written before one call is seen
after the other.

- The waiter is first: the worker finds its condition. It writes the state and wakes everybody while it holds that, as
  ``concurrent.futures`` does, so ``wait`` and ``as_completed`` never see a state change while they hold it.
- The worker is first: it wrote the result and the final state before, so all of that is there for a waiter that finds
  ``NOBODY``. The state itself may not be written yet. The waiter writes it, too, the same word as the worker does.
  From then on nothing changes any more, so nothing needs a lock: ``NOBODY`` is a condition that does nothing.

A simple write of the state by the worker, and a look for a condition after it, would not do: ``as_completed`` would see
a future as finished that then tells its waiter again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, LOGGER
from typing import Any, Final, cast

from strand.tasks.current import CURRENT_TASK, ENDING_TASK, RunningTask, on_behalf_of
from strand.tasks.lazy import NOBODY, Lazy
from strand.threads import interrupts

__all__ = ["OVER", "LazyFuture"]

#: The states of a future that has ended.
OVER: Final = (FINISHED, CANCELLED_AND_NOTIFIED)


class LazyFuture(Future[Any]):
    """What ``TaskFuture`` builds on: the condition of its waiters, and its end."""

    __slots__ = ("_end", "_result", "_state")
    _end: str | None
    _result: Any
    _state: str
    _exception: BaseException | None = None
    _waiters: Any = Lazy()
    _done_callbacks: Any = Lazy()

    @property
    def _condition(self) -> Any:  # type: ignore[override]  # which the functions of concurrent.futures ask for
        fields = self.__dict__
        found = fields.get("_meeting")
        if found is None:
            found = fields.setdefault("_meeting", threading.Condition())
        if found is NOBODY:
            self._state = _state_of(self._end)
        return found

    def finish(self, end: str, value: Any, error: BaseException | None) -> None:
        """Ends the task. Only the one thread that has the right to calls it."""
        self._result = value
        if error is not None:
            self._exception = error
        self._end = end
        condition = self.__dict__.setdefault("_meeting", NOBODY)
        state = _state_of(end)
        if condition is NOBODY:
            self._state = state
            return
        with condition:
            self._state = state
            for waiter in self._waiters:
                if end == "cancelled":
                    waiter.add_cancelled(self)
                elif error is not None:
                    waiter.add_exception(self)
                else:
                    waiter.add_result(self)
            condition.notify_all()
        callbacks = self.__dict__.pop("_done_callbacks", ())
        if callbacks:
            me = cast(RunningTask, self)
            with on_behalf_of(me, ENDING_TASK), on_behalf_of(CURRENT_TASK.get() or me):
                for callback in callbacks:
                    self._call_back(callback)

    def _call_back(self, callback: Callable[[Future[Any]], object]) -> None:
        try:
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


def _state_of(end: str | None) -> str:
    return CANCELLED_AND_NOTIFIED if end == "cancelled" else FINISHED
