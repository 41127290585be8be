"""The state machine of tasks: every change of a state, who may make it, and the attempts that workers make.

==============  ======================================  =============================  =================
from            to                                      who                            by
==============  ======================================  =============================  =================
new             waiting, delayed, held                  the thread that submits        begin_wait, enter
delayed, held   delayed, held                           any thread: reprioritise       _set_timer
delayed, held   waiting                                 a timer                        enter
waiting         running                                 a worker with the claim        begin
waiting         waiting                                 a worker, by expire_if         wait_again
running         retrying                                a worker, or asyncio's thread  wait_again
retrying        waiting                                 a timer                        enter
waiting         expired, failed                         a worker, before the start     end
running         done, failed, cancelled, expired, dead  a worker, or asyncio's thread  end
any that waits  cancelled, expired, dropped             any thread, a timer, the pool  end_unbegun
==============  ======================================  =============================  =================

A task that waits is waiting, delayed, held or retrying. A task is in ``alive`` from submit to its end. The right to
begin or end it is the entry ``_claim`` in its dict: the thread that sets it by ``setdefault``, one atomic step, has the
right. That is the worker that begins it, or whoever cancels or drops it. A worker gives the claim up before it lets the
task wait again, and then anybody may take it.

A claim is an object of its own: for a worker, the list of the tasks that its visit has taken; else the end that the
task is to have. So another thread can finish the work that an exception cuts short.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextvars import Context, copy_context
from dataclasses import replace
from datetime import datetime
from types import CoroutineType
from typing import Any, Final, TypeAlias

import numpy as np

from strand.binding.tasks import ROSE_AT
from strand.errors import ConfigurationError, StrandError, TaskDropped, TaskExpired
from strand.logs import Event
from strand.spans import SpanLike
from strand.tasks.ends import MOST_WAITS, ByPlace, Counts, DeadLetter, DeadLetters
from strand.tasks.future import FINISHED, NOBODY, PENDING, RUNNING, TaskFuture
from strand.tasks.groups import CURRENT_GROUP, TaskGroup
from strand.tasks.options import Ranks, deadline_of
from strand.tasks.pool import Keys, Pool, Table
from strand.tasks.retry import BUSINESS, SYSTEM, RetryPolicy
from strand.tasks.timers import Coroutines, Deadlines, Timer, Timers
from strand.tasks.waits import CURRENT_TASK, Waiter, numbered, on_behalf_of
from strand.threads import interrupts, mended

_LOGGER: Final = ".tasks"
_USUAL: Final = RetryPolicy()  # of tasks without a policy: which errors are those of the system
_SYSTEM_ERROR: Final = Event(
    "task.system_error", _LOGGER, "ERROR", "task %(task)d met an error of the system at attempt %(attempt)d: %(error)r",
    "run",
)  # fmt: skip
_ALERT_FAILED: Final = Event("task.on_alert_failed", _LOGGER, "ERROR", "on_alert failed for task %(task)d", "run")
_BUSINESS_ERROR: Final = Event(
    "task.business_error", _LOGGER, "WARNING",
    "task %(task)d is not tried again, because it met a business error: %(error)r", "run",
)  # fmt: skip

#: The end of a task that its submit gives up: it counts as never submitted.
WITHDRAWN: Final = "withdrawn"
#: End that a task is to have: its name, the value, and the error.
Claim: TypeAlias = tuple[str, Any, BaseException | None]


def _end_by(finish: Callable[..., None], task: TaskFuture, claim: Claim) -> bool:
    """Ends a task that nobody has begun or ended: ``finish`` does it, and is called again where an exception cuts
    it short. Returns whether nobody had."""

    def act() -> bool:
        is_mine = task.__dict__.setdefault("_claim", claim) is claim
        if is_mine:
            finish(task, *claim)
        return is_mine

    def mend() -> None:
        if task.__dict__.get("_claim") is claim:
            finish(task, *claim)

    return bool(mended(act, mend))


def leave_group(task: TaskFuture) -> None:
    """Takes a task out of its group that ended before it was there, by its deadline or a shutdown: its end looked
    for the group too early."""
    group = task._group
    if group is not None and task.done():
        group.remove(task, None)


class States:
    """Changes of the states of one scheduler's tasks, and the services that their futures call."""

    def __init__(self, table: Table, pool: Pool, ranks: Ranks, timers: Timers, counts: Counts) -> None:
        self.counts = counts
        #: Called with each task that meets a system error, and the error.
        self.alerted: tuple[Callable[[TaskFuture, BaseException], object], ...] = ()
        self.table = table
        self.ranks = ranks
        self.timers = timers
        self.now = timers.now
        self.lock = table.lock
        self.keys = Keys(self._give, self._raise, ranks.highest)
        #: Tasks and calls that wait while they hold a strand, by the strand.
        self.waits_on: dict[int, Waiter] = {}
        #: Of the scheduler or dispatcher.
        self.name = numbered("scheduler")
        #: Raises WouldDeadlockError where the calling thread would wait for itself; a dispatcher sets it.
        self.check_outside: Callable[[str, str], None] | None = None
        self.pool = pool
        self.deadlines = Deadlines(timers, table.alive, self.expire)
        self._ended = dict(counts.ended)
        self._ended[WITHDRAWN] = ByPlace(ranks, [counts.refused.numbers] * ranks.n_places)
        self._times = counts.times
        self._done = self._ended["done"]
        self._queued = table.queued
        self._alive = table.alive
        self._waits = counts.waits
        self._has_levels = ranks.has_levels

    @property
    def is_fork(self) -> bool:
        """True if this process is a fork of the one that runs the tasks."""
        return self.table.is_fork

    # -- into the pool

    def begin_wait(self, task: TaskFuture) -> None:
        options = task._options
        with self.lock:
            if task._is_claimed:
                return  # its group was cancelled
            if options.waits_ns:
                self._set_timer(task, options.place, task._submitted_ns + options.waits_ns)
            else:
                self.enter(task)

    def _set_timer(self, task: TaskFuture, place: str, due_ns: int) -> None:
        """The task waits until a time. ``lock`` is held."""
        before = task._timer
        timer = Timer(due_ns, lambda: self._come_due(task, timer))
        task._place = place
        task._timer = timer
        if before is not None:
            self.timers.cancel(before)
        self.timers.add(timer)

    def _come_due(self, task: TaskFuture, timer: Timer) -> None:
        """Lists a task whose delay, hold or backoff is over; called by a timer."""
        with self.lock:
            if task._timer is not timer:
                return  # another timer took the place of this one while it was about to come
            task._timer = None
        self._list(task)

    def _list(self, task: TaskFuture) -> None:
        """Lists a task that nobody has claimed, or drops it where the pool does not take it."""
        with self.lock:
            if task._is_claimed:
                return  # it was cancelled
            try:
                self.enter(task)
                return
            except Exception as error:
                failure = error
        self.end_unbegun(task, "dropped", dropped(task, f"it could not be listed: {failure}", failure))

    def enter(self, task: TaskFuture) -> None:
        """Lists a task in its key's order, its strand, or the pool. ``lock`` is held."""
        if task._place != "waiting":
            task._place = "waiting"
            self.table.requeue(task)
        if task._order is not None:
            self.keys.give(task)
        elif task._options.key is not None:
            self.keys.join(task)
        else:
            self._give(task, task._number)

    def _give(self, task: TaskFuture, number: int) -> None:
        options = task._options
        if options.strand is not None:
            task._entry = self.pool.submit_on(options.strand, task.id)
        elif options.marks or number != task._number:
            task._entry = self.pool.submit_as(task.id, number, task._number, options.marks)
        else:
            task._entry = self.pool.submit(task.id, number)

    def _raise(self, task: TaskFuture, number: int) -> None:
        """The priority of a task that is in the pool, or will be given with it. ``lock`` is held."""
        if task._entry is None or task._options.strand is not None:
            return
        if task._place == "waiting" and not task._is_claimed:
            self.pool.prioritise(task._entry, number, task._number)

    def wait_again(self, task: TaskFuture, place: str, number: int, priority: Any, due_ns: int) -> None:
        """Lets a task wait again, with another priority, so that anybody may cancel it; called by the worker that has
        the claim. ``due_ns``: the time when it goes to the pool; 0: now."""
        with self.lock:
            task._priority = self.ranks.name_of(number, priority)
            task._rose = None
            if task._order is not None:
                task._entry = None
                self.keys.change(task, number)
            task._number = number
            if due_ns:
                self._set_timer(task, place, due_ns)
            task._state = PENDING
            del task.__dict__["_claim"]
            self.table.requeue(task)
        if not due_ns:
            self._list(task)
        if self.table.cancels_all or task.cancel_requested:
            self.cancel(task)

    # -- running

    def begin(self, task: TaskFuture, begun: int) -> None:
        """Begins an attempt at a claimed task."""
        if task._begun_ns is None:
            task._begun_ns = begun
            number = task._number if task._rose is None else task._rose
            if self._has_levels and number != task._options.number:
                waits = self._waits[number, task._options.number]
            else:
                waits = self._waits[number]
            waits.append(begun - task._submitted_ns)
            if len(waits) >= MOST_WAITS:
                self.counts.fold()
        task._attempt_ns = begun
        task.attempts += 1
        task._state = RUNNING

    # -- ending

    def end_unbegun(self, task: TaskFuture, end: str, error: BaseException) -> bool:
        """Ends a task that nobody has begun or ended. Returns whether that was so."""
        return _end_by(self._end_and_unlist, task, (end, None, error))

    def _end_and_unlist(self, task: TaskFuture, end: str, value: Any, error: BaseException | None) -> None:
        """Ends a task before its turn, and lets the pool have its entry back."""
        self.end(task, end, value, error)
        if task._entry is not None:
            self.pool.give_up(task._entry)

    def end(self, task: TaskFuture, end: str, value: Any, error: BaseException | None) -> None:
        """Ends a task, and passes the next one of its key to the pool; called by the thread that has the claim. If an
        exception cuts it short, it is called again, here or in another thread, and does the rest."""
        self._conclude(task, end, value, error)
        if task._options.key is not None:
            self._advance(task)
        self.table.remove(task)

    def end_and_follow(
        self, task: TaskFuture, value: Any, now: int, visit_ns: int, visit: list[int]
    ) -> TaskFuture | None:
        """``end`` for a task that is done ``now``, in the thread that ran it. Returns the next one of its key, claimed,
        where the thread may run it at once: with the same priority, as part of the visit that began at ``visit_ns``."""
        if task._failure is None and task._timer is None:  # as ``_conclude`` does, without its call and questions
            task._call = None
            task._result = value
            number = task._number if task._rose is None else task._rose
            for _ in self._done[number]:
                task._end = "done"
                break
            if self._times is not None:
                self._count_times(task, number, now)
            fields = task.__dict__
            if fields.setdefault("_meeting", NOBODY) is NOBODY:
                task._state = FINISHED
                if "_sleepers" in fields:
                    task.wake()
            else:
                task.finish()
            group = task._group
            if group is not None:
                group.remove(task, None)
        else:
            self._conclude(task, "done", value, None)
        if task._options.key is not None:
            if self.pool.may_go_on(now - visit_ns):
                self.table.take_lock()
                try:
                    following = self.keys.next_alike(task)
                    if following is not None:
                        visit.append(following.id)
                        if following.__dict__.setdefault("_claim", visit) is visit:
                            self.table.unqueue(following)
                            self.keys.leave(task)
                            task._following = None
                            self.table.remove(task)
                            return following
                finally:
                    self.lock.release()
            self._advance(task)
        self._alive.pop(task.id, None)  # as ``Table.remove`` does, without its call
        if self.table.refusal is not None:
            self.table.look()
        return None

    def end_visit(self, visit: list[int], error: BaseException) -> None:
        """Ends the tasks of a visit that an exception outside of their functions has cut short. A debugger, another
        thread, or a call of the library raised it in this thread. It can be repeated."""
        for tag in visit:
            task = self._alive.get(tag)
            if task is None or task.__dict__.get("_claim") is not visit:
                continue
            if task._end is not None:
                self.end(task, task._end, task._result, task._exception)
            elif task._begun_ns is None and tag != visit[0]:
                # The visit had taken the next task of the key, and had not begun it.
                with self.lock:
                    if task._order is not None and task.__dict__.get("_claim") is visit:
                        self.keys.give(task)  # perhaps a second time: it runs once
                        del task.__dict__["_claim"]
            else:
                self.end(task, "failed", None, error)

    def _advance(self, task: TaskFuture) -> None:
        """Lists the next task of a key. Where the pool has stopped, all tasks behind are dropped, however many."""
        given_up: list[TaskFuture] = []
        while (following := self._list_next(task)) is not None:
            given_up.append(following)
            task = following
        for task in given_up:
            self.table.remove(task)

    def _list_next(self, task: TaskFuture) -> TaskFuture | None:
        """Lists the next task of a key. Returns it if the pool does not take it: then it has been dropped."""
        following: TaskFuture | None = None
        self.table.take_lock()
        try:
            following = self.keys.leave(task)
            if following is None:
                return None
            if following._end == "dropped":
                return following  # before an exception cut this short
            self.keys.give(following)
            task._following = None
            return None
        except StrandError as raised:
            failure = raised
        finally:
            self.lock.release()
        assert following is not None
        claim = "dropped", None, dropped(following, f"it could not be listed: {failure}", failure)
        return following if _end_by(self._conclude, following, claim) else None  # else it ends elsewhere

    def _conclude(self, task: TaskFuture, end: str, value: Any, error: BaseException | None) -> None:
        """All of an end but the next one of the key, and leaving the table, which is the last step."""
        task._call = None
        if task._failure is not None:
            task._failure = None
        if task._begun_ns is None:
            task._ended_ns = self.now()
        if task._timer is not None:
            with self.lock:
                if task._timer is not None:
                    self.timers.cancel(task._timer)
                    task._timer = None
        if task._state != RUNNING:  # a worker took it off the queue before it began
            self.table.unqueue(task)
        if task._end is None:
            task._result = value
            if error is not None:
                task._exception = error
            number = task._number if task._rose is None else task._rose
            for _ in self._ended[end][number]:
                task._end = "cancelled" if end == WITHDRAWN else end
                break
            if self._times is not None and task._begun_ns is not None:
                self._count_times(task, number, self.now())
        task.finish()
        group = task._group
        if group is not None:
            group.remove(task, error if end in ("failed", "dropped", "dead") else None)

    def _count_times(self, task: TaskFuture, number: int, now: int) -> None:
        """Counts, for a task that has begun and ends now, how long it ran and how long ago it was submitted."""
        assert self._times is not None
        times = self._times[number]
        times.extend((task._ran_ns, now - task._submitted_ns))
        if len(times) >= MOST_WAITS:
            self.counts.fold()

    def drop(self, task: TaskFuture, reason: str) -> bool:
        """Ends a task that the pool gives up. False: it has begun or ended."""
        return self.end_unbegun(task, "dropped", dropped(task, reason))

    def withdraw(self, tasks: list[TaskFuture]) -> int:
        """Ends those that have not begun, as if nobody had submitted them. Returns how many. It can be repeated."""
        n = sum(self.end_unbegun(task, WITHDRAWN, CancelledError()) for task in tasks if task.id)
        for task in tasks:
            leave_group(task)
        return n

    def is_refused(self, tasks: list[TaskFuture]) -> bool:
        """Withdraws tasks. False: one of them has begun or ended, as by a shutdown that cancels, so that all count as
        submitted, and those that are withdrawn as cancelled."""
        n = self.withdraw(tasks)
        withdrawn = sum(not task.id or task.__dict__.get("_claim", (None,))[0] == WITHDRAWN for task in tasks)
        if withdrawn == len(tasks):
            return True
        for _ in range(n):
            next(self.counts.submitted.numbers)
            next(self._ended["cancelled"][tasks[0]._number])
        return False

    # -- what futures ask for

    def expire(self, tag: int, due_ns: int) -> None:
        """Expires a task whose deadline is over, if it waits and has no other deadline by now; called by a timer."""
        task = self.table.alive.get(tag)
        if task is not None and task._deadline_ns == due_ns:
            self.end_unbegun(task, "expired", expired(task, f"the deadline of task {task.id} is over", "deadline"))

    def priority_of(self, task: TaskFuture) -> Any:
        """The level to which a task has risen, or else the priority that it was given."""
        rose = task._rose
        entry = task._entry
        if task._options.strand is not None:
            return task._priority
        if entry is not None and task._state == PENDING and task._place == "waiting" and not self.is_fork:
            rose = self.pool.rose(entry)
        return task._priority if rose is None else self.ranks.name_of(rose, None)

    def cancel(self, task: TaskFuture) -> bool:
        return not self.is_fork and self.end_unbegun(task, "cancelled", CancelledError())

    def reprioritise(self, task: TaskFuture, priority: Any) -> bool:
        number = self.ranks.number_of("priority", priority)
        if task._options.strand is not None:
            raise ConfigurationError("priority", "a symbol's strand has one priority; change that of the symbol")
        if self.is_fork:
            return False
        return bool(mended(self._reprioritise, self._reprioritise_again, task, number, priority))

    def _reprioritise(self, task: TaskFuture, number: int, priority: Any) -> bool:
        with self.lock:
            if task._is_claimed:
                return False
            if task._place in ("delayed", "held"):
                self._hold_by(task, number)
            task._priority = self.ranks.name_of(number, priority)
            self._renumber(task, number)
            self.table.requeue(task)
        return True

    def _reprioritise_again(self, task: TaskFuture, number: int, priority: Any) -> None:
        """Completes a new priority after an exception came between the task's number and the pool's."""
        self._reprioritise(task, number, priority)
        with self.lock:
            self.table.requeue(task)  # also one that has begun meanwhile: it may be counted at two levels
            self.keys.raise_head_of(task)
        self.timers.wake()

    def _renumber(self, task: TaskFuture, number: int) -> None:
        """Gives a task that waits another number, and tells the pool. ``lock`` is held."""
        if task._order is not None:
            self.keys.change(task, number)
        else:
            task._number = number
            self._raise(task, number)

    def _hold_by(self, task: TaskFuture, number: int) -> None:
        """A task that waits for its time waits as long as its new level says."""
        delay_ns, hold_ns = task._options.delay_ns, self.ranks.hold_ns(number)
        due_ns = task._submitted_ns + max(delay_ns, hold_ns)
        if task._deadline_ns is not None and due_ns >= task._deadline_ns:
            raise ConfigurationError("priority", f"the hold of its level ends after the deadline of task {task.id}")
        self._set_timer(task, "delayed" if delay_ns >= hold_ns else "held", due_ns)

    def set_deadline(self, task: TaskFuture, deadline: SpanLike | datetime | None) -> bool:
        span, moment = (None, None) if deadline is None else deadline_of("deadline", deadline)
        if moment is not None:
            span = moment - time.time_ns()
        until = None if span is None else self.now() + span
        if self.is_fork:
            return False
        with self.lock:
            if task._is_claimed:
                return False
            over = span is not None and span <= 0
            if until is not None and not over and task._timer is not None and task._timer.due_ns >= until:
                raise ConfigurationError(
                    "deadline", f"task {task.id} is {task._place} until after it: give a longer one"
                )
            task._deadline_ns = until
            if until is not None:
                self.deadlines.add(task, until)
        return True

    def set_group(self, task: TaskFuture, group: TaskGroup | None) -> bool:
        if group is not None and not isinstance(group, TaskGroup):
            raise ConfigurationError("group", f"{group!r} is not a strand.TaskGroup")
        if self.is_fork:
            return False
        moved: bool | None = None
        while moved is None:
            moved = mended(self._set_group, self._leave_other_group, task, group, task._group)
        return moved

    def _set_group(self, task: TaskFuture, group: TaskGroup | None, before: TaskGroup | None) -> bool | None:
        """None: another thread has moved the task meanwhile, so that it is not in ``before`` any more."""
        with self.lock:
            if task._is_claimed:
                return False
            if task._group is not before:
                return None
            if group is before:
                return True
            number = self.ranks.number_in(group, task._number)
            if group is not None:
                group.add(task)
            task._group = group
            self._renumber(task, number)
        if before is not None:
            before.remove(task, None)
        if task.done() and group is not None:
            group.remove(task, None)  # it ended meanwhile, when it was in no group or in the one before
        return True

    def _leave_other_group(self, task: TaskFuture, group: TaskGroup | None, before: TaskGroup | None) -> None:
        """Completes ``_set_group`` after an exception cut it short: the task is in one of the two groups, and not in
        the other."""
        with self.lock:
            now = task._group
            if now is not None and not task._is_claimed:
                self._renumber(task, self.ranks.number_in(now, task._number))
                self.keys.raise_head_of(task)
        for other in (group, before):
            if other is not None and (other is not now or task.done()):
                other.remove(task, None)

    def ahead_of(self, task: TaskFuture) -> Waiter | None:
        """The task of its key that has to end first, or the task or call that holds its strand while it waits."""
        options = task._options
        head: Waiter | None = None
        if options.strand is not None:
            head = self.waits_on.get(options.strand)
        elif options.key is not None:
            with self.lock:
                head = self.keys.head_of(task)
        return None if head is task else head


def _alert(tell: Callable[[TaskFuture, BaseException], object] | None, task: TaskFuture, error: BaseException) -> None:
    if tell is None:
        _SYSTEM_ERROR(task=task.id, attempt=task.attempts, error=error, run=task.home())
        return
    try:
        tell(task, error)
    except BaseException:  # it must end neither the worker nor the task
        _ALERT_FAILED(task=task.id, run=task.home(), exc_info=True)


class Attempts:
    """Attempts at the tasks of one scheduler. ``seed``: of the random part of backoffs; None: another one each time."""

    def __init__(self, states: States, dead_letters: DeadLetters, seed: int | None) -> None:
        self.coroutines = Coroutines(states.pool.hold, self._coroutine_ended)
        self._alive = states.table.alive
        self._queued = states.table.queued
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
            if task._place != "waiting" or task.__dict__.setdefault("_claim", visit) is not visit:
                return  # somebody else has begun or ended it, or it waits for a time
            self._queued[task._queued_at].discard(task.id)
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
                return self._follow(task, value, now, visit_ns, visit)
        finally:
            task = call = value = None  # type: ignore[assignment]  # the traceback of an error holds this frame
        return None

    def _leave(self, task: TaskFuture | None, outer: Waiter | None, group: TaskGroup | None) -> None:
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
            self.coroutines.run(task, coroutine, context)
        except BaseException:
            coroutine.close()
            raise

    async def run_here(self, task: TaskFuture, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
        """Runs a coroutine as a claimed task within the asyncio task that calls, and returns or raises what it does.
        The task takes no turn in the pool, so nothing but this coroutine may depend on it."""
        outer = CURRENT_TASK.get()
        self._begin(task, self._now())
        task._runner = asyncio.current_task()
        try:
            CURRENT_TASK.set(task)
            value = await fn(*args)
        except BaseException as error:
            CURRENT_TASK.set(outer)
            task._runner = None
            self._coroutine_ended(task, None, error)
            raise
        CURRENT_TASK.set(outer)
        task._runner = None
        self._coroutine_ended(task, value, None)
        return value

    def _coroutine_ended(self, task: TaskFuture, value: Any, error: BaseException | None) -> None:
        if error is not None:
            task._ran_ns += self._now() - task._attempt_ns
            mended(self._failed, self._end_failed, task, error)
            return
        try:
            now = self._now()
            task._ran_ns += now - task._attempt_ns
            if task._options.key is None:
                self._follow(task, value, now, now, [])
            else:  # the next one of the key is for a worker
                self._end(task, "done", value, None)
        except BaseException:
            mended(self._end, self._end, task, "done", value, None)
            raise

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
            options = replace(task._options, group=None, ranks=self._states.ranks)
            self._dead_letters.add(DeadLetter(task.id, *task._call, error, task.attempts, self._now(), options))
        self._end(task, end, None, error)

    def _decide(self, task: TaskFuture, error: BaseException) -> str | None:
        """End of the task; None: it waits for its retry. Raises the errors of ``classify``."""
        policy, alerted = task._options.retry, self._states.alerted
        if policy is None and not alerted:
            return "failed"
        kind = (policy or _USUAL).kind_of(error)
        if kind == SYSTEM:
            for tell in (*alerted, None if policy is None else policy.on_alert):
                _alert(tell, task, error)
        if policy is None:
            return "failed"
        if kind == BUSINESS and isinstance(error, Exception) and task.attempts <= policy.max_retries:
            _BUSINESS_ERROR(task=task.id, error=error, run=task.home())
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


def dropped(task: TaskFuture, reason: str, cause: BaseException | None = None) -> TaskDropped:
    """Returns the exception that ends a task that was given up."""
    error = TaskDropped(f"task {task.id} was dropped: {reason}")
    error.__cause__ = task._failure if cause is None else cause
    return error


def expired(task: TaskFuture, words: str, reason: str) -> TaskExpired:
    """Makes the error of a task that has expired. If it waited for another attempt, the last failure is the cause."""
    error = TaskExpired(words, reason)
    error.__cause__ = task._failure
    return error
