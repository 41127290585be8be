"""Attempts at tasks, in a worker: whether a task may start, the call, and the end or the retry that follows."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import CancelledError
from contextvars import Context, copy_context
from dataclasses import replace
from types import CoroutineType
from typing import Any, Final

import numpy as np

from strand.binding.gate import Thread
from strand.binding.tasks import ROSE_AT
from strand.tasks.ends import DeadLetter, DeadLetters
from strand.tasks.future import TaskFuture
from strand.tasks.groups import CURRENT_GROUP, TaskGroup
from strand.tasks.places import Turn
from strand.tasks.retry import BUSINESS, SYSTEM, RetryPolicy
from strand.tasks.states import States, expired
from strand.tasks.waits import CURRENT_TASK, IN_LOOP, RunningTask, on_behalf_of
from strand.threads import interrupts, mended

__all__ = ["Attempts", "Coroutines"]

#: Time for which the end waits for asyncio tasks that coroutines have started, and that have not ended.
_LEFT_S: Final = 1.0


class Coroutines:
    """The asyncio thread of a scheduler. It starts with the first coroutine, and ends with ``end``."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        #: Those that have not ended, and were not told that all end.
        self._tasks: set[TaskFuture] = set()
        self._running = 0
        #: Turns that are over.
        self._over: list[Turn] = []

    def run(
        self,
        task: TaskFuture,
        coroutine: Coroutine[Any, Any, Any],
        context: Context,
        hold: Callable[[], Turn],
        ended: Callable[[TaskFuture, Any, BaseException | None], None],
    ) -> None:
        """Runs a coroutine in the thread, in a context, and calls ``ended`` there with its value or with what it
        raised. ``hold``: called here, for the turn that is over after that. Raises RuntimeError where no thread can be
        started, and what ``hold`` raises."""

        def begin() -> None:
            if turn.charge is not None and loop.get_task_factory() is None:
                loop.set_task_factory(_charged_task)
            running = loop.create_task(_guarded(coroutine), context=context)
            running.add_done_callback(end)
            task._runner = running
            if task.cancel_requested:
                running.cancel()

        def end(running: asyncio.Task[Any]) -> None:
            with self._lock:
                self._tasks.discard(task)
                self._running -= 1
            task._runner = task._charge = None
            try:
                if running.cancelled():  # before its first step: later ones hand CancelledError over as a value
                    coroutine.close()
                    ended(task, None, asyncio.CancelledError())
                else:
                    ended(task, *running.result())
            finally:
                if not self._over:
                    loop.call_soon(self._let_go)
                self._over.append(turn)

        with self._lock:
            loop = self._loop = self._loop or self._started()
            turn = hold()
            task._charge = turn.charge
            self._tasks.add(task)
            self._running += 1
            loop.call_soon_threadsafe(begin)

    def _let_go(self) -> None:
        """Gives back the turns that are over, in the loop's thread. Each worker that this wakes wants the GIL, so they
        go together."""
        over, self._over = self._over, []
        for turn in over:
            turn.over()

    def cancel(self) -> None:
        """Raises CancelledError in all coroutines that have not ended, once in each."""
        with self._lock:
            tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel(running=True)

    def _started(self) -> asyncio.AbstractEventLoop:
        """A loop in a thread of its own. Raises RuntimeError where the system has no thread left."""
        loop = asyncio.new_event_loop()
        thread = Thread(_Loop(loop).run, "strand task coroutines")
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._thread = thread
        return loop

    def end(self) -> None:
        """Tells the thread to end. Does nothing where a coroutine was begun meanwhile, which calls this at its end."""
        with self._lock:
            if self._running:
                return
            loop, self._loop = self._loop, None
        if loop is not None:  # in a thread that no signal interrupts
            loop.call_soon_threadsafe(loop.stop)

    def join(self) -> None:
        """Waits for the thread's end, unless this is the thread."""
        if self._thread is not None:
            self._thread.join()


async def _guarded(coroutine: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Result and exception of a coroutine, as values: SystemExit and KeyboardInterrupt would end the loop's thread."""
    try:
        return await coroutine, None
    except BaseException as error:
        return None, error


class _Charged(Coroutine[Any, Any, Any]):
    """A coroutine whose steps the group of a task pays for, as long as the task has not ended."""

    __slots__ = ("_coroutine", "_task")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], task: RunningTask) -> None:
        self._coroutine = coroutine
        self._task = task

    def send(self, value: Any) -> Any:
        return self._step(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._coroutine.throw, *error)

    def close(self) -> None:
        self._step(self._coroutine.close)

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self._coroutine.__await__())

    def _step(self, go_on: Callable[..., Any], *arguments: Any) -> Any:
        begun = time.thread_time_ns()
        try:
            return go_on(*arguments)
        finally:
            charge = self._task._charge
            if charge is not None:
                charge(time.thread_time_ns() - begun)


def _charged_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Makes an asyncio task. One that belongs to a strand task, as its context says, is charged."""
    context = options.get("context")
    task = CURRENT_TASK.get() if context is None else context.get(CURRENT_TASK)
    steps = coroutine if task is None or task._charge is None else _Charged(coroutine, task)
    return asyncio.Task(steps, loop=loop, **options)


class _Loop:
    """The life of the asyncio thread. An exception of another thread may end ``run`` anywhere, and then it is called
    again."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_stopped = False

    def run(self) -> None:
        IN_LOOP.here = True
        loop = self._loop
        if loop.is_closed():
            return
        if not self._is_stopped:
            loop.run_forever()
            self._is_stopped = True
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_LEFT_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


_log = logging.getLogger(__package__)


def _alert(policy: RetryPolicy, task: TaskFuture, error: BaseException) -> None:
    if policy.on_alert is None:
        _log.error("task %d met an error of the system at attempt %d: %r", task.id, task.attempts, error)
        return
    try:
        policy.on_alert(task, error)
    except BaseException:  # it must end neither the worker nor the task
        _log.exception("on_alert failed for task %d", task.id)


class Attempts:
    """Attempts at the tasks of one scheduler. ``seed``: of the random part of backoffs; None: another one each time."""

    def __init__(self, states: States, dead_letters: DeadLetters, seed: int | None) -> None:
        self.coroutines = Coroutines()
        self._alive = states.table.alive
        self._claim = states.claim
        self._begin = states.begin
        self._states = states
        self._pool = states.pool
        self._now = states.now
        self._end = states.end
        self._follow = states.end_and_follow
        self._dead_letters = dead_letters
        self._generator = random.Random(seed)
        self._lock = threading.Lock()  # around a call of C that runs no code of a user

    def run(self, tag: int) -> None:
        """See ``Tasks.run``."""
        task = self._alive.get(tag)
        if task is None and tag >> ROSE_AT:
            rose, tag = divmod(tag, 1 << ROSE_AT)
            task = self._alive.get(tag)
            if task is not None:
                task._rose = rose - 1
        if task is None:
            return
        visit = [tag]
        try:
            if not self._claim(task, visit):
                return
            begun = visit_ns = self._now()
            # When it returns, this frame holds no task: the traceback of an error holds the frame.
            while (task := self._call(task, begun, visit_ns, visit)) is not None:
                begun = self._now()
        except BaseException as error:
            task = None
            mended(self._states.end_visit, self._states.end_visit, visit, error)
            if interrupts(error):
                raise

    def _call(self, task: TaskFuture, begun: int, visit_ns: int, visit: list[int]) -> TaskFuture | None:
        """Runs a claimed task. Returns the next one of its key where that runs in the same visit, which began at
        ``visit_ns``."""
        if (task._options.is_checked or task._deadline_ns is not None) and not self._may_start(task, begun):
            return None
        self._begin(task, begun)
        group = task._group
        outer_task, outer_group = CURRENT_TASK.get(), CURRENT_GROUP.get()
        call = task._call
        assert call is not None
        try:
            CURRENT_TASK.set(task)
            if group is not outer_group:
                CURRENT_GROUP.set(group)
            value = call[0](*call[1], **call[2])
            if type(value) is CoroutineType:
                self._hand_on(task, value, copy_context())
        except BaseException as error:
            self._leave(task, outer_task, outer_group)
            self._failed(task, error)
        else:
            if type(value) is CoroutineType:
                self._leave(None, outer_task, outer_group)
            else:
                CURRENT_TASK.set(outer_task)  # as ``_leave`` does, without its call
                if CURRENT_GROUP.get() is not outer_group:
                    CURRENT_GROUP.set(outer_group)
                now = self._now()
                task._ran_ns += now - begun
                return self._follow(task, value, now - visit_ns, visit)
        finally:
            task = call = value = None  # type: ignore[assignment]  # the traceback of an error holds this frame
        return None

    def _leave(self, task: TaskFuture | None, outer: RunningTask | None, group: TaskGroup | None) -> None:
        """Leaves the task: the thread's further work is no part of it. ``outer``, ``group``: those that the thread was
        in before."""
        CURRENT_TASK.set(outer)
        if CURRENT_GROUP.get() is not group:
            CURRENT_GROUP.set(group)
        if task is not None:
            task._ran_ns += self._now() - task._attempt_ns

    def _hand_on(self, task: TaskFuture, coroutine: CoroutineType[Any, Any, Any], context: Context) -> None:
        """Passes a coroutine to the asyncio thread, where it keeps the turn of its task. Raises the reason if that
        fails, and closes the coroutine then."""
        try:
            self.coroutines.run(task, coroutine, context, self._pool.hold, self._coroutine_ended)
        except BaseException:
            coroutine.close()
            raise

    def _coroutine_ended(self, task: TaskFuture, value: Any, error: BaseException | None) -> None:
        task._ran_ns += self._now() - task._attempt_ns
        if error is not None:
            mended(self._failed, self._end_failed, task, error)
        else:
            mended(self._end, self._end, task, "done", value, None)

    def _end_failed(self, task: TaskFuture, error: BaseException) -> None:
        self._end(task, "failed", None, error)

    def _may_start(self, task: TaskFuture, now: int) -> bool:
        """Looks at the deadline and asks ``expire_if``; ends or lists the task otherwise."""
        if task._deadline_ns is not None and now >= task._deadline_ns:
            self._end(task, "expired", None, expired(task, f"the deadline of task {task.id} is over", "deadline"))
            return False
        expire_if = task._options.expire_if
        if expire_if is None:
            return True
        try:
            answer = on_behalf_of(task, expire_if)
            if isinstance(answer, np.bool_):
                answer = bool(answer)
            if answer is None or answer is False:
                return True
            if answer is True:
                error = expired(task, f"expire_if of task {task.id} says that it need not run", "expire_if")
                self._end(task, "expired", None, error)
                return False
            number = self._states.ranks.number_of("expire_if", answer)
        except BaseException as error:
            self._end(task, "failed", None, error)
            return False
        if number == task._number:
            return True
        self._states.wait_again(task, "waiting", number, answer, 0)
        return False

    def _failed(self, task: TaskFuture, error: BaseException) -> None:
        if task.cancel_requested and isinstance(error, (CancelledError, asyncio.CancelledError)):
            self._end(task, "cancelled", None, CancelledError())
            return
        try:
            end = on_behalf_of(task, self._decide, task, error)
        except BaseException as raised:  # by classify
            raised.__context__ = error
            self._end(task, "failed", None, raised)
            return
        if end is None:
            return
        if end == "expired":
            over = expired(task, f"the deadline of task {task.id} is over before its retry", "deadline")
            over.__cause__ = error
            self._end(task, end, None, over)
            return
        if end == "dead" and task._call is not None:
            options = replace(task._options, group=None)
            self._dead_letters.add(DeadLetter(task.id, *task._call, error, task.attempts, self._now(), options))
        self._end(task, end, None, error)

    def _decide(self, task: TaskFuture, error: BaseException) -> str | None:
        """End of the task; None: it waits for its retry. Raises the errors of ``classify``."""
        policy = task._options.retry
        if policy is None:
            return "failed"
        kind = policy.kind_of(error)
        if kind == SYSTEM:
            _alert(policy, task, error)
        if kind == BUSINESS and isinstance(error, Exception) and task.attempts <= policy.max_retries:
            _log.warning("task %d is not tried again, because it met a business error: %r", task.id, error)
        if kind == BUSINESS or task.cancel_requested:
            return "failed"
        if task.attempts > policy.max_retries:
            return "dead"
        with self._lock:
            delay_ns = policy.delay_ns(task.attempts, self._generator)
        due_ns = self._now() + delay_ns
        if task._deadline_ns is not None and due_ns >= task._deadline_ns:
            return "expired"
        ranks = self._states.ranks
        number = ranks.raised(task._number) if kind == SYSTEM else ranks.for_retry(task._number)
        next(self._states.counts.retries.numbers)
        task._failure = error
        self._states.wait_again(task, "retrying", number, task._priority, due_ns)
        return None
