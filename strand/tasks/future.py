"""The future of a task: a ``concurrent.futures.Future`` that makes its condition only when somebody waits.

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

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, LOGGER, PENDING, RUNNING
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from strand.errors import StoppedError
from strand.handlers.spans import SpanLike
from strand.tasks.awaiting import awaited
from strand.tasks.current import CURRENT_TASK, ENDING_TASK, on_behalf_of, wait_as, waiter_here
from strand.tasks.groups import TaskGroup
from strand.tasks.lazy import NOBODY, Lazy
from strand.tasks.options import TaskOptions
from strand.tasks.places import Seat
from strand.tasks.waits import Waiter, begin_wait, check_not_in_loop, end_wait
from strand.threads import interrupts
from strand.validate import seconds

__all__ = ["ENDS", "TaskFuture", "current_task"]

#: How a task ends, each in exactly one of these ways.
ENDS: Final = ("done", "failed", "cancelled", "expired", "dropped", "dead")
#: Tasks that a thread runs one within another: their frames lie on its stack.
_MOST_WITHIN: Final = 16
_OVER: Final = (FINISHED, CANCELLED_AND_NOTIFIED)


def current_task() -> TaskFuture | None:
    """The task that the caller runs in, also in its ``expire_if`` and callbacks of its end; None outside of tasks."""
    return cast("TaskFuture | None", CURRENT_TASK.get())


class Keeper(Protocol):
    """What a future needs of the tasks it is one of."""

    #: Tasks and calls that wait while they hold a strand, by the strand.
    waits_on: dict[int, Waiter]
    #: Of the scheduler or dispatcher.
    name: str

    @property
    def is_fork(self) -> bool: ...
    def now(self) -> int: ...
    def cancel(self, task: TaskFuture) -> bool: ...
    def reprioritise(self, task: TaskFuture, priority: Any) -> bool: ...
    def set_deadline(self, task: TaskFuture, deadline: SpanLike | None) -> bool: ...
    def set_group(self, task: TaskFuture, group: TaskGroup | None) -> bool: ...
    def ahead_of(self, task: TaskFuture) -> Waiter | None: ...
    def run(self, tag: int) -> None: ...


class TaskFuture(Future[Any]):
    """A task and its outcome to come. It works with ``concurrent.futures.wait`` and ``as_completed``, and
    asyncio awaits it.

    ``result()`` returns what the function returned. It raises what the function raised where the task failed or became
    a dead letter, CancelledError, TaskExpired or TaskDropped. ``id`` rises by submit. ``priority`` is the level or
    number that the task has now. ``cancel_requested``: whether it was asked to end while it runs. ``attempts``: how
    often the function was called.
    """

    # What every task writes has a slot: as entries of the dict they would make it grow twice, which is a quarter of
    # what a worker spends on a task. What few tasks have is in the dict when it is set.
    __slots__ = (
        "_attempt_ns",
        "_begun_ns",
        "_call",
        "_end",
        "_entry",
        "_keeper",
        "_number",
        "_options",
        "_ran_ns",
        "_result",
        "_state",
        "_submitted_ns",
        "attempts",
        "id",
        "priority",
    )
    _exception: BaseException | None = None
    _waiters: Any = Lazy()
    _done_callbacks: Any = Lazy()
    _deadline_ns: int | None = None
    _ended_ns = 0  # where it did not begin
    _group: TaskGroup | None = None
    _in_order = False  # of its key
    _runner: asyncio.Task[Any] | None = None  # of a coroutine that runs
    _charge: Callable[[int], object] | None = None  # likewise: where its steps are charged
    _place = "waiting"
    _timer: Any = None
    waits_for: Waiter | None = None
    cancel_requested = False

    def __init__(  # it does not call that of Future, which makes a condition and two lists
        self, keeper: Keeper, options: TaskOptions, tag: int, call: tuple[Any, Any, Any], now_ns: int
    ) -> None:
        self._keeper = keeper
        self._options = options
        self._call: tuple[Any, Any, Any] | None = call
        self._number = options.number
        self._submitted_ns = now_ns
        self._begun_ns: int | None = None
        self._attempt_ns = self._ran_ns = self.attempts = 0
        self._entry: int | None = None
        self._end: str | None = None
        self._state = PENDING
        self._result = None
        self.id = tag
        self.priority = options.priority

    def __repr__(self) -> str:
        return f"<TaskFuture {self.id} {self.state}>"

    @property
    def _condition(self) -> Any:  # type: ignore[override]  # which the functions of concurrent.futures ask for
        fields = self.__dict__
        found = fields.get("_meeting")
        if found is None:
            found = fields.setdefault("_meeting", threading.Condition())
        if found is NOBODY:
            self._state = _state_of(self._end)
        return found

    # -- what it says

    @property
    def state(self) -> str:
        """``"waiting"`` for a worker or its key's turn, ``"delayed"``, ``"held"``, ``"retrying"`` after its backoff,
        ``"running"``, or how it ended: ``"done"``, ``"failed"``, ``"cancelled"``, ``"expired"``, ``"dropped"``,
        ``"dead"``."""
        if self.done() and self._end is not None:
            return self._end
        return "running" if self._state == RUNNING else self._place

    @property
    def deadline_ns(self) -> int | None:
        """When it has to have begun, in ns of the scheduler's clock (``time.monotonic_ns``); None: there is none."""
        return self._deadline_ns

    @property
    def group(self) -> TaskGroup | None:
        """The group it belongs to."""
        return self._group

    @property
    def waited_ns(self) -> int:
        """From submit to when the function was first called, in ns; so far, or to its end, where it was not."""
        until = self._begun_ns or self._ended_ns or self._keeper.now()
        return until - self._submitted_ns

    @property
    def ran_ns(self) -> int:
        """How long the function ran in all attempts together, in ns; so far, while it runs."""
        return self._ran_ns + (self._keeper.now() - self._attempt_ns if self._state == RUNNING else 0)

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._state in _OVER

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._state == CANCELLED_AND_NOTIFIED

    def running(self) -> bool:
        """Whether its function runs now."""
        return self._state == RUNNING

    # -- what changes it

    def cancel(self, running: bool = False) -> bool:
        """Cancels the task unless it has begun; one that waits for its retry is cancelled, too. Returns whether it is
        cancelled, which it never is by a fork's child.

        Args:
            running: A task that runs is asked to end, and True is returned for that. It is not tried again, and
                ``cancel_requested`` of ``strand.tasks.current_task()`` tells its function. A coroutine gets
                CancelledError.
        """
        if self._keeper.cancel(self):
            return True
        if running and not self.done() and not self._keeper.is_fork:
            self.cancel_requested = True
            runner = self._runner
            if runner is not None:
                with suppress(RuntimeError):  # its loop is closed, so it has ended
                    runner.get_loop().call_soon_threadsafe(runner.cancel)
            return not self.done() or self.cancelled()
        return self.cancelled()

    def reprioritise(self, priority: Any) -> bool:
        """Gives a task that waits another priority. Returns False where it has begun or ended, and in a fork's child,
        and nothing changes. A task that is held is due by the hold of its new level.

        Raises:
            ConfigurationError: For a priority that the policy does not have.
        """
        return self._keeper.reprioritise(self, priority)

    def set_deadline(self, deadline: SpanLike | None) -> bool:
        """Gives a task that waits so much time from now to begin, as ``"30s"``, a timedelta or ns; None: any time.
        Returns False where it has begun or ended, and in a fork's child, and nothing changes.

        Raises:
            ConfigurationError: For what is no span, and where a delay, a hold or a backoff ends later.
        """
        return self._keeper.set_deadline(self, deadline)

    def set_group(self, group: TaskGroup | None) -> bool:
        """Moves a task that waits into another group, or into none. Returns False where it has begun or ended, and in a
        fork's child, and nothing changes.

        Raises:
            StoppedError: For a group that takes no more tasks.
        """
        return self._keeper.set_group(self, group)

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Calls ``fn`` with this future when it ends, in the thread that ends it; at once where it has. What ``fn``
        raises is logged."""
        with self._condition:
            if self._state not in _OVER:
                self._done_callbacks.append(fn)
                return
        self._call_back(fn)

    # -- waiting for it

    def result(self, timeout: float | None = None) -> Any:
        """What the function returned, or raises how the task ended otherwise.

        In a task or call it waits as within ``strand.blocking()``. In a task it runs this one at once if that has not
        begun, and has neither key nor symbol.

        Args:
            timeout: Seconds; None: no limit.

        Raises:
            TimeoutError: When the time is over.
            WouldDeadlockError: In a task or call for which this one waits, in a handler, in a coroutine, and where
                ``max_threads`` threads wait.
            StoppedError: In a fork's child, and in a task whose workers have stopped.
            ConfigurationError: For a timeout that is no number.
        """
        if self._state not in _OVER:
            self.wait_for_end(timeout)
        error = self._exception
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error, self  # which hold this frame

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What ``result`` would raise, None where the function returned; but CancelledError is raised. Waits as
        ``result`` does."""
        self.wait_for_end(timeout)
        if self._state == CANCELLED_AND_NOTIFIED:
            raise CancelledError
        return self._exception

    def __await__(self) -> Generator[Any, None, Any]:
        """In asyncio ``await`` gives what ``result`` does. Where the await is cancelled, so is the task, unless it
        has begun. Raises WouldDeadlockError in a coroutine of a scheduler for which this task waits."""
        return awaited(self)

    def wait_for_end(self, timeout: float | None = None) -> None:
        """Waits until the task has ended, and raises only what ``result`` raises about the wait."""
        if self._state in _OVER:
            return
        if self._keeper.is_fork:
            raise StoppedError("this process is a fork of the one that runs the task: it never ends here")
        seat, me = waiter_here()
        if me is None and seat is not None:
            seat.check_not_in_handler()
        if (timeout := seconds("timeout", timeout)) is not None and timeout <= 0:
            self._wait(timeout)
            return
        check_not_in_loop(self.in_words())
        if seat is None or timeout is not None or not isinstance(me, TaskFuture) or not self._runs_within(me, seat):
            wait_as(seat, me, self, lambda: self._wait(timeout))

    def _wait(self, timeout: float | None) -> None:
        condition = self._condition
        with condition:
            if not condition.wait_for(self.done, timeout):
                raise TimeoutError

    def _runs_within(self, me: TaskFuture, seat: Seat) -> bool:
        """Runs the task in this thread, within the task that waits for it, if it has not begun and needs no order of
        its own. False: it has not ended so."""
        options = self._options
        if (
            self._place != "waiting"
            or options.key is not None
            or options.strand is not None
            or self._group is not me._group
            or self._keeper is not me._keeper
            or seat.depth
            or seat.inline == _MOST_WITHIN
        ):
            return False
        begin_wait(me, self)
        seat.inline += 1
        try:
            self._keeper.run(self.id)
        finally:
            seat.inline -= 1
            end_wait(me)
        return self.done()

    # -- for who looks for circles of waits

    def in_words(self) -> str:
        """See ``Waiter``."""
        return f"task {self.id}"

    def home(self) -> str:
        """See ``Waiter``."""
        return self._keeper.name

    def ahead(self) -> Waiter | None:
        """See ``Waiter``."""
        return self._keeper.ahead_of(self)

    def holds(self) -> tuple[dict[int, Waiter], int] | None:
        """See ``Waiter``."""
        strand = self._options.strand
        return None if strand is None else (self._keeper.waits_on, strand)

    # -- for who ends it

    def finish(self, end: str, value: Any, error: BaseException | None) -> None:
        """By the one thread that has the right to: the task has ended."""
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
            with on_behalf_of(self, ENDING_TASK), on_behalf_of(CURRENT_TASK.get() or self):
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
            RuntimeError:
        """
        raise RuntimeError(f"{self!r} is ended by its scheduler alone")

    set_exception = set_running_or_notify_cancel = set_result


def _state_of(end: str | None) -> str:
    return CANCELLED_AND_NOTIFIED if end == "cancelled" else FINISHED
