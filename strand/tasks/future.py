"""The future of a task: its state, the calls that change the task, and the ways to wait for it.

How ``wait``, ``as_completed``, or who adds a callback, and the worker that ends the task meet. Both call ``setdefault``
for the same entry of the future's dict, the one that waits with a new lock, the worker with ``NOBODY``. One of the two
is first. This is one atomic step with the GIL, and on a free-threaded build too, where it holds the dict's lock; so
whatever was written before one call is seen after the other.

- The waiter is first: the worker finds its lock. It writes the state while it holds that, as ``concurrent.futures``
  does, so ``wait`` and ``as_completed`` never see a state change while they hold it.
- The worker is first: it wrote the result and the final state before, so all of that is there for a waiter that finds
  ``NOBODY``. The state itself may not be written yet. The waiter writes it, too, the same word as the worker does.
  From then on nothing changes any more, so nothing needs a lock: ``NOBODY`` is a lock that does nothing.

A simple write of the state by the worker, and a look for a lock after it, would not do: ``as_completed`` would see
a future as finished that then tells its waiter again. For ``result`` it does: a thread enters the list of sleepers,
and then looks at the state, and the worker writes the state, and then looks at that list.

An end that an exception cuts short is repeated, so each step of it may be done twice, but for two: to tell a waiter of
``concurrent.futures``, and to call a callback. A signal must not interrupt the first one, so the main thread leaves it
to another thread. A callback is taken off the list before its first step.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from _thread import RLock, start_new_thread
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Protocol, cast

from strand.errors import StoppedError
from strand.logs import Event
from strand.spans import SpanLike
from strand.tasks.groups import InLoop, TaskGroup, waiter_in_loop
from strand.tasks.options import TaskOptions
from strand.tasks.places import seat_here
from strand.tasks.waits import (
    CURRENT_TASK,
    ENDING_TASK,
    Waiter,
    begin_wait,
    check_not_in_loop,
    end_wait,
    in_loop,
    wait_as,
)
from strand.threads import Bell, LoopCalls, in_main_thread, interrupts, sleep_until, wake
from strand.validate import seconds

#: The states that ``wait`` and ``as_completed`` of ``concurrent.futures`` know, in their words.
PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
FINISHED: Final = "FINISHED"
CANCELLED_AND_NOTIFIED: Final = "CANCELLED_AND_NOTIFIED"
#: In the logger in which a Future reports a callback's exception.
_CALLBACK_FAILED: Final = Event(
    "task.callback_failed", "concurrent.futures", "ERROR", "exception calling callback for %(future)s", "task", "run"
)


class _Nobody:
    """The lock of a future that is done: nothing changes any more."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        pass


#: The lock of every future that is done.
NOBODY: Final = _Nobody()


class Lazy:
    """A list that a future gets on its first use. ``kind``: what makes it."""

    def __init__(self, kind: Callable[[], list[Any]] = list) -> None:
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, future: Any, owner: type) -> Any:
        return future.__dict__.setdefault(self._name, self._kind())


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


class _Meeting:
    """A coroutine that waits for the end of a task, among the sleepers of its future: ``wake`` of ``strand.threads``
    releases it. ``over``: the future on which the coroutine sleeps."""

    __slots__ = ("_calls", "over")

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.over = loop.create_future()
        self._calls = LoopCalls.of(loop)

    def release(self) -> None:
        """Wakes the coroutine, from any thread. Raises RuntimeError where its loop is closed: nobody waits any more."""
        self._calls.add(self._tell)

    def _tell(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


def _is_left_behind(lock: RLock) -> bool:
    """Tells whether an interrupt has ended a ``wait`` or ``as_completed`` of the main thread while it took its futures'
    locks. CPython's code does not give back the locks that it holds then."""
    main = threading.main_thread().ident
    frame = sys._current_frames().get(main or 0)
    while frame is not None:
        if frame.f_code.co_filename == wait.__code__.co_filename:
            return False
        frame = frame.f_back
    return f"owner={main} " in repr(lock)


def _state_of(end: str | None) -> str:
    return CANCELLED_AND_NOTIFIED if end == "cancelled" else FINISHED


#: Ends of a task: each task has exactly one of them.


def current_task() -> TaskFuture | None:
    """The task that the caller runs in, also in its ``expire_if`` and callbacks; None outside of tasks."""
    return cast("TaskFuture | None", CURRENT_TASK.get())


class Keeper(Protocol):
    """Services that a future needs from its scheduler or dispatcher."""

    #: Tasks and calls that wait while they hold a strand, by the strand.
    waits_on: dict[int, Waiter]
    #: Of the scheduler or dispatcher.
    name: str
    #: Raises WouldDeadlockError where the calling thread would wait for itself: in words, and with another way. None:
    #: no thread would.
    check_outside: Callable[[str, str], None] | None

    @property
    def is_fork(self) -> bool: ...
    def now(self) -> int: ...
    def cancel(self, task: TaskFuture) -> bool: ...
    def priority_of(self, task: TaskFuture) -> Any: ...
    def reprioritise(self, task: TaskFuture, priority: Any) -> bool: ...
    def set_deadline(self, task: TaskFuture, deadline: SpanLike | datetime | None) -> bool: ...
    def set_group(self, task: TaskFuture, group: TaskGroup | None) -> bool: ...
    def ahead_of(self, task: TaskFuture) -> Waiter | None: ...


class TaskFuture(Future[Any]):
    """A task and its outcome to come. asyncio awaits it, and ``concurrent.futures.wait`` and ``as_completed`` take it.

    ``result()`` returns what the function returned. It raises what the function raised if the task failed or became a
    dead letter. Else it raises CancelledError, TaskExpired or TaskDropped.

    Attributes:
        id: The number of the task, which rises with each submit.
        cancel_requested: Whether the task was asked to end while it runs.
        attempts: How often the function was called.
    """

    # Attributes that every task writes, or that are read on the way of each, have slots. As entries of the dict they
    # would make it grow twice: a quarter of a worker's time for a task. To read a default of the class takes four times
    # as long as a slot. Attributes that few tasks have lie in the dict, once they are set.
    __slots__ = (
        "_attempt_ns",
        "_begun_ns",
        "_call",
        "_deadline_ns",
        "_end",
        "_entry",
        "_failure",
        "_group",
        "_keeper",
        "_number",
        "_options",
        "_order",
        "_place",
        "_priority",
        "_queued_at",
        "_ran_ns",
        "_result",
        "_rose",
        "_state",
        "_submitted_ns",
        "_timer",
        "attempts",
        "id",
    )
    _exception: BaseException | None = None
    _waiters: Any = Lazy(_Waiters)
    _done_callbacks: Any = Lazy()
    _ended_ns = 0  # where it did not begin
    _following: TaskFuture | None = None  # of its key: what its end has to list
    _runner: asyncio.Task[Any] | None = None  # of a coroutine that runs
    _charge: Callable[[int], object] | None = None  # likewise: where its steps are charged
    waits_for: Waiter | None = None
    cancel_requested = False

    def __init__(  # it does not call that of Future, which makes a condition and two lists
        self, keeper: Keeper, options: TaskOptions, call: tuple[Any, Any, Any], now_ns: int
    ) -> None:
        # CPython 3.11 makes the dict of an object in several steps. The garbage collector may run between them, and let
        # other threads go. If two threads made one at that moment, both dicts would have the same memory, and free it
        # twice. So it is made before another thread can ask for it.
        self.__dict__  # noqa: B018
        self._keeper = keeper
        self._options = options
        self._call: tuple[Any, Any, Any] | None = call
        self._number = options.number
        self._submitted_ns = now_ns
        self._begun_ns: int | None = None
        self._attempt_ns = self._ran_ns = self.attempts = 0
        self._entry: int | None = None
        self._end: str | None = None
        self._state: str = PENDING
        self._result: Any = None
        self.id = 0  # until it is numbered
        self._priority = options.priority
        self._queued_at = options.counted_at
        self._place = options.place
        self._deadline_ns: int | None = None
        self._group: TaskGroup | None = None
        self._order: Any = None  # of its key, while it has a place there
        self._rose: int | None = None  # the level to which it had risen when it began
        self._timer: Any = None
        self._failure: BaseException | None = None  # of the last attempt, until it ends

    def __repr__(self) -> str:
        return f"<TaskFuture {self.id} {self.state}>"

    # -- what it says

    @property
    def state(self) -> str:
        """State of the task, or its end.

        Before the end the state is ``"waiting"`` (for a worker, or for its key's turn), ``"delayed"``, ``"held"``,
        ``"retrying"`` (until its backoff is over) or ``"running"``. At the end it is ``"done"``, ``"failed"``,
        ``"cancelled"``, ``"expired"``, ``"dropped"`` or ``"dead"``.
        """
        if self.done() and self._end is not None:
            return self._end
        return "running" if self._state == RUNNING else self._place

    @property
    def priority(self) -> Any:
        """The level or number that the task has now: under ``Levels`` the level to which it has risen by its wait."""
        return self._keeper.priority_of(self)

    @property
    def submitted_priority(self) -> Any:
        """The level or number that the task was submitted with."""
        return self._options.priority

    @property
    def deadline_ns(self) -> int | None:
        """Time by which the task has to have begun, in ns of the scheduler's clock (``time.monotonic_ns``); None: any
        time."""
        return self._deadline_ns

    @property
    def group(self) -> TaskGroup | None:
        """The group that the task belongs to; None: no group."""
        return self._group

    @property
    def waited_ns(self) -> int:
        """The time from submit to the first call of the function, in ns. Without a call it is the time so far, or to
        the end.
        """
        until = self._begun_ns or self._ended_ns or self._keeper.now()
        return until - self._submitted_ns

    @property
    def ran_ns(self) -> int:
        """Running time of the function in all attempts together, in ns; while it runs, the time so far."""
        return self._ran_ns + (self._keeper.now() - self._attempt_ns if self._state == RUNNING else 0)

    def done(self) -> bool:
        """True if the task has ended, in whatever way."""
        return self._state in OVER

    def cancelled(self) -> bool:
        """True if the task was cancelled."""
        return self._state == CANCELLED_AND_NOTIFIED

    def running(self) -> bool:
        """True while the function runs."""
        return self._state == RUNNING

    @property
    def _is_claimed(self) -> bool:
        """True if somebody begins or ends the task, or has done so: see ``strand.tasks.states``."""
        return "_claim" in self.__dict__

    # -- what changes it

    def cancel(self, running: bool = False) -> bool:
        """Cancels the task unless it has begun; a task that waits for its retry is cancelled too.

        A child of a fork cancels nothing.

        Args:
            running: Whether to ask a task that runs to end. It is not tried again, and ``cancel_requested`` of
                ``strand.tasks.current_task()`` tells its function. A coroutine gets CancelledError.

        Returns:
            Whether the task is cancelled, or was asked to end.
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
        """Gives a task that waits another priority. A task that is held is due by the hold of its new level.

        Args:
            priority: A priority of the policy.

        Returns:
            False if the task has begun or ended, and in a child of a fork; nothing changes then.

        Raises:
            ConfigurationError: If the policy does not have the priority, or if the task belongs to a symbol. Also if
                the hold of the new level ends after the task's deadline.
        """
        return self._keeper.reprioritise(self, priority)

    def set_deadline(self, deadline: SpanLike | datetime | None) -> bool:
        """Gives a task that waits a new deadline to begin.

        Args:
            deadline: The time from now, as ``"30s"`` or float seconds; a moment as a datetime with a time zone; None:
                any time. If it is over already, the task expires at once.

        Returns:
            False if the task has begun or ended, and in a child of a fork; nothing changes then.

        Raises:
            ConfigurationError: If the deadline is neither, or if a delay, a hold or a backoff ends later.
        """
        return self._keeper.set_deadline(self, deadline)

    def set_group(self, group: TaskGroup | None) -> bool:
        """Moves a task that waits into another group, or into none.

        Args:
            group: The new group; None: no group.

        Returns:
            False if the task has begun or ended, and in a child of a fork; nothing changes then.

        Raises:
            StoppedError: If the group takes no more tasks.
            ConfigurationError: If ``group`` is neither a TaskGroup nor None.
        """
        return self._keeper.set_group(self, group)

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Calls a function with this future when the task ends, in the thread that ends it; at once if it has ended.

        A callback of asyncio, as ``asyncio.wait`` adds one, is called in its event loop.

        Args:
            fn: The function. Its exceptions are logged.
        """
        if getattr(fn, "__module__", None) == "asyncio.tasks":
            fn = InLoop(fn)
        with self._condition:
            if self._state not in OVER:
                self._done_callbacks.append(fn)
                return
        self._call_back([fn])

    def remove_done_callback(self, fn: Callable[..., object]) -> int:
        """Forgets a callback; ``asyncio.wait`` needs it.

        Args:
            fn: The function that ``add_done_callback`` got.

        Returns:
            How many callbacks were forgotten: 0 if the task has ended.
        """
        with self._condition:
            if self._state in OVER:
                return 0
            kept = [each for each in self._done_callbacks if each != fn]
            removed = len(self._done_callbacks) - len(kept)
            self._done_callbacks[:] = kept
            return removed

    # -- waiting for it

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the end of the task, and returns what the function returned.

        In a task or call it waits as within ``strand.blocking()``: another thread runs this task.

        Args:
            timeout: Seconds; None: no limit.

        Raises:
            Exception: What the function raised, if the task failed or became a dead letter.
            concurrent.futures.CancelledError: If the task was cancelled.
            TaskExpired: If the task expired.
            TaskDropped: If the task was dropped.
            TimeoutError: If the time is over.
            WouldDeadlockError: In a task or call for which this one waits, in a handler, in a coroutine, and if
                ``max_threads`` threads wait.
            StoppedError: In a child of a fork, and in a task whose workers have stopped.
            ConfigurationError: If the timeout is no number.
        """
        if self._state not in OVER:
            self.wait_for_end(timeout)
        error = self._exception
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error, self  # which hold this frame

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits as ``result`` does, and returns what ``result`` would raise; None if the function returned.

        Args:
            timeout: Seconds; None: no limit.

        Raises:
            concurrent.futures.CancelledError: If the task was cancelled.
        """
        self.wait_for_end(timeout)
        if self._state == CANCELLED_AND_NOTIFIED:
            raise CancelledError
        return self._exception

    def __await__(self) -> Generator[Any, None, Any]:
        """Awaits the result in asyncio. If the await is cancelled, so is the task, unless it has begun. Raises
        WouldDeadlockError in a coroutine of a scheduler for which this task waits."""
        if self._state not in OVER:
            me = waiter_in_loop()
            if me is not None:
                begin_wait(me, self)
            meeting = _Meeting()
            sleepers = self.__dict__.setdefault("_sleepers", [])
            try:
                sleepers.append(meeting)
                if self._state not in OVER:  # whoever ends it looks at the list after it has written that
                    yield from meeting.over
            except asyncio.CancelledError:
                self.cancel()
                raise
            finally:
                if meeting in sleepers:
                    sleepers.remove(meeting)
                if me is not None:
                    end_wait(me)
        try:
            return self.result()
        except CancelledError as error:
            raise asyncio.CancelledError(*error.args) from None

    def wait_for_end(self, timeout: float | None = None) -> None:
        """Waits until the task has ended, and raises only what ``result`` raises about the wait.

        Args:
            timeout: Seconds; None: no limit.
        """
        if self._state in OVER:
            return
        keeper, me, seat = self._keeper, CURRENT_TASK.get(), seat_here()
        # By now a worker that the submit has woken is about to want the GIL: the usual wait hurries to sleep.
        if keeper.is_fork:
            raise StoppedError("this process is a fork of the one that runs the task: it never ends here")
        if me is None and seat is None and timeout is None and keeper.check_outside is None and not in_loop():
            sleep_until(self._has_ended, self.__dict__.setdefault("_sleepers", []))
            return
        if timeout is not None and (timeout := seconds("timeout", timeout)) is not None and timeout <= 0:
            self._wait(timeout)
            return
        if keeper.check_outside is not None:
            keeper.check_outside(self.in_words(), "use add_done_callback, or look for done() later")
        if me is None and seat is not None:
            seat.check_not_in_handler()
        check_not_in_loop(self.in_words())
        wait_as(seat, me, self, lambda: self._wait(timeout))

    def _wait(self, timeout: float | None) -> None:
        if not self.wait(timeout):
            raise TimeoutError

    def wait(self, timeout: float | None) -> bool:
        """Waits for the end of the task, in whatever thread, and raises nothing.

        Args:
            timeout: Seconds; None: no limit.

        Returns:
            Whether the task has ended.
        """
        return sleep_until(self._has_ended, self.__dict__.setdefault("_sleepers", []), timeout)

    def _has_ended(self) -> bool:
        """``done``, also where the worker has written all but the state."""
        if self._state not in OVER and self.__dict__.get("_meeting") is NOBODY:
            self._state = _state_of(self._end)
        return self._state in OVER

    # -- its end

    @property
    def _condition(self) -> Any:  # type: ignore[override]  # which the functions of concurrent.futures ask for
        fields = self.__dict__
        found = fields.get("_meeting")
        if found is None:
            found = fields.setdefault("_meeting", RLock())
        if found is NOBODY:
            self._state = _state_of(self._end)
        return found

    def finish(self) -> None:
        """Ends the task, whose ``_end``, ``_result`` and ``_exception`` are there. Only the one thread that has the
        right to calls it, or, where an exception has cut it short, another one after it."""
        lock = self.__dict__.setdefault("_meeting", NOBODY)
        if lock is NOBODY:
            self._state = _state_of(self._end)
            self.wake()
            return
        if "_waiters" in self.__dict__ and in_main_thread():
            start_new_thread(self._tell, (lock,))
            self.wait(None)
        else:
            self._tell(lock)
        callbacks = self.__dict__.get("_done_callbacks")
        if callbacks:
            outer = CURRENT_TASK.get(), ENDING_TASK.get()
            try:
                ENDING_TASK.set(self)
                CURRENT_TASK.set(outer[0] or self)
                while callbacks:
                    self._call_back(callbacks)
            finally:
                CURRENT_TASK.set(outer[0])
                ENDING_TASK.set(outer[1])

    def wake(self) -> None:
        """Wakes the threads that wait for the end."""
        wake(self.__dict__.get("_sleepers", ()))

    def _tell(self, lock: RLock) -> None:
        """Writes the state, and tells those that wait."""
        is_mine = lock.acquire(timeout=_LOOK_S)
        while not is_mine and not _is_left_behind(lock):
            is_mine = lock.acquire(timeout=_LOOK_S)
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
                lock.release()
        self.wake()

    def _call_back(self, callbacks: list[Callable[[Future[Any]], object]]) -> None:
        """Calls the first of the callbacks, which is then in the list no more."""
        try:
            callback = callbacks[0]
            del callbacks[0]
            callback(self)
        except BaseException as error:  # SystemExit, too: it must not end the worker
            _CALLBACK_FAILED(future=repr(self), task=self.id, run=self.home(), exc_info=True)
            if interrupts(error):
                raise

    def set_result(self, *_: Any, **__: Any) -> Any:
        """Not for users: the scheduler alone ends a task.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(f"{self!r} is ended by its scheduler alone")

    set_exception = set_running_or_notify_cancel = set_result

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
