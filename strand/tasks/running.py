"""Worker's part of a task: checks whether it may start, calls it, and handles its outcome."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from concurrent.futures._base import RUNNING
from contextvars import Context, copy_context
from dataclasses import replace
from types import CoroutineType
from typing import Any

import numpy as np

from strand.binding.tasks import ROSE_AT
from strand.tasks.coroutines import Coroutines
from strand.tasks.counts import MOST_WAITS, Counts
from strand.tasks.current import CURRENT_TASK, RunningTask, on_behalf_of
from strand.tasks.dead_letters import DeadLetter, DeadLetters
from strand.tasks.future import TaskFuture
from strand.tasks.groups import CURRENT_GROUP, TaskGroup
from strand.tasks.retrying import Retrying
from strand.tasks.table import Table
from strand.tasks.waiting import Waiting, expired
from strand.threads import interrupts, mended

__all__ = ["Running"]


class Running:
    """``seed``: of the random part of backoffs."""

    def __init__(
        self, table: Table, waiting: Waiting, dead_letters: DeadLetters, seed: int | None, counts: Counts
    ) -> None:
        self.coroutines = Coroutines()
        self._table = table
        self._alive = table.alive
        self._queued = table.queued
        self._has_levels = waiting.ranks.has_levels
        self._waiting = waiting
        self._pool = waiting.pool
        self._now = waiting.now
        self._waits = counts.waits
        self._fold = counts.fold
        self._end = waiting.end
        self._follow = waiting.end_and_follow
        self._dead_letters = dead_letters
        self._retrying = Retrying(waiting, seed)

    def run(self, tag: int) -> None:
        """See ``Tasks.run``."""
        task = self._alive.get(tag)
        if task is None and tag >> ROSE_AT:
            rose, tag = divmod(tag, 1 << ROSE_AT)
            task = self._alive.get(tag)
            if task is not None:
                task._rose = rose - 1
        if task is None or task._place != "waiting":
            return
        visit = [tag]
        try:
            if task.__dict__.setdefault("_claim", visit) is not visit:
                return
            self._queued[task._queued_at].discard(tag)
            begun = visit_ns = self._now()
            # When it returns, this frame holds no task: the traceback of an error holds the frame.
            while (task := self._call(task, begun, visit_ns, visit)) is not None:
                begun = self._now()
        except BaseException as error:
            task = None
            mended(self._mend, self._mend, visit, error)
            if interrupts(error):
                raise

    def _mend(self, visit: list[int], error: BaseException) -> None:
        """Ends the tasks of a visit that an exception outside of their functions has cut short. A debugger, another
        thread, or a call of the library raised it in this thread. It can be repeated."""
        for tag in visit:
            task = self._alive.get(tag)
            if task is None or task.__dict__.get("_claim") is not visit:
                continue
            if task._end is not None:
                self._end(task, task._end, task._result, task._exception)
            elif task._begun_ns is None and tag != visit[0]:
                # The visit had taken the next task of the key, and had not begun it.
                self._waiting.list_again(task, visit)
            else:
                self._end(task, "failed", None, error)

    def _call(self, task: TaskFuture, begun: int, visit_ns: int, visit: list[int]) -> TaskFuture | None:
        """Runs a claimed task. Returns the next one of its key where that runs in the same visit, which began at
        ``visit_ns``."""
        if (task._options.is_checked or task._deadline_ns is not None) and not self._may_start(task, begun):
            return None
        if task._begun_ns is None:
            task._begun_ns = begun
            number, submitted = task._number if task._rose is None else task._rose, task._options.number
            waits = self._waits[number if number == submitted or not self._has_levels else (number, submitted)]
            waits.append(begun - task._submitted_ns)
            if len(waits) >= MOST_WAITS:
                self._fold()
        task._attempt_ns = begun
        task.attempts += 1
        task._state = RUNNING
        group = task._group
        outer = (CURRENT_TASK.get(), CURRENT_GROUP.get())
        call = task._call
        assert call is not None
        try:
            CURRENT_TASK.set(task)
            if group is not outer[1]:
                CURRENT_GROUP.set(group)
            value = call[0](*call[1], **call[2])
            if type(value) is CoroutineType:
                self._hand_on(task, value, copy_context())
        except BaseException as error:
            self._leave(task, outer)
            self._failed(task, error)
        else:
            if type(value) is CoroutineType:
                self._leave(None, outer)
            else:
                self._leave(task, outer)
                return self._follow(task, value, self._now() - visit_ns, visit)
        finally:
            task = call = value = None  # type: ignore[assignment]  # the traceback of an error holds this frame
        return None

    def _leave(self, task: TaskFuture | None, outer: tuple[RunningTask | None, TaskGroup | None]) -> None:
        """Leaves the task: the thread's further work is no part of it. ``outer``: the task and group that the thread
        was in before."""
        CURRENT_TASK.set(outer[0])
        if CURRENT_GROUP.get() is not outer[1]:
            CURRENT_GROUP.set(outer[1])
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
            number = self._waiting.ranks.number_of("expire_if", answer)
        except BaseException as error:
            self._end(task, "failed", None, error)
            return False
        if number == task._number:
            return True
        self._waiting.wait_again(task, "waiting", number, answer, 0)
        return False

    def _failed(self, task: TaskFuture, error: BaseException) -> None:
        if task.cancel_requested and isinstance(error, (CancelledError, asyncio.CancelledError)):
            self._end(task, "cancelled", None, CancelledError())
            return
        try:
            end = on_behalf_of(task, self._retrying.decide, task, error)
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
