"""States of the tasks of one scheduler: every change of a state is made here, and who may make it.

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

import os
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from strand.binding.gate import NOT_STARTED
from strand.brief import several
from strand.errors import ConfigurationError, QueueFull, StrandError, TaskDropped, TaskExpired
from strand.spans import SpanLike
from strand.tasks.ends import MOST_WAITS, Counts
from strand.tasks.future import FINISHED, NOBODY, PENDING, RUNNING, TaskFuture
from strand.tasks.groups import TaskGroup
from strand.tasks.options import Ranks, TaskOptions, deadline_of
from strand.tasks.pool import Keys, Pool
from strand.tasks.timers import Deadlines, Timer, Timers
from strand.tasks.waits import Waiter, numbered
from strand.threads import Bell, Inside, mended

__all__ = ["WITHDRAWN", "Bounds", "Claim", "States", "Table", "dropped", "expired"]

#: Parts of ``queued`` other than that of tasks that wait for a time.
_PARTS = {"waiting": 0, "retrying": 2}
_FORKED = "this process is a fork of the one that runs the scheduler: make a scheduler of its own here"
#: All of this process, which a fork's child has to stop.
_all: weakref.WeakSet[Table] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on the number of waiting tasks; 0: any number. ``queue``: tasks that could start now or wait for a turn.
    ``by_level``: those of them at each level. ``held``: tasks that are delayed or held."""

    queue: int = 0
    by_level: Mapping[str, int] = field(default_factory=dict)
    held: int = 0

    def __bool__(self) -> bool:
        return bool(self.queue or self.by_level or self.held)


class Table:
    """``lock`` guards the orders of keys, and changes of tasks that wait: priority, timer, group. It is reentrant, as
    the garbage collector may run a ``__del__`` that submits or cancels while it is held."""

    def __init__(self, ranks: Ranks, bounds: Bounds) -> None:
        self._ranks = ranks
        self._bounds = bounds
        self._n = ranks.n_places
        self.alive: dict[int, TaskFuture] = {}
        #: The tags of tasks that wait, by place: what their priority is counted by. First come places of those that
        #: could start now or wait for a turn, then of those that are delayed or held, then of those that wait for a
        #: retry. One is taken out by a single step, twice if need be.
        self.queued: list[set[int]] = [set() for _ in range(3 * self._n)]
        #: Threads that submit tasks in C, which are not in ``alive``. The end waits for them, so that what they submit
        #: is run. They enter before they look at ``refusal``.
        self.submitting = Inside()
        #: Why nothing can be submitted; None: it can.
        self.refusal: str | None = None
        self.is_fork = False
        #: True if tasks that do not run are to be cancelled.
        self.cancels_all = False
        self.lock = Bell()
        self._when_over: Callable[[], None] | None = None
        _all.add(self)

    def take_lock(self) -> None:
        """Takes ``lock``, for what each task with a key goes through. A thread that sleeps in the lock would have it
        before it has the GIL; whoever has the GIL would soon sleep in the lock in turn, and so on: two switches of
        threads for each task. So it never sleeps there, but lets the one that has the lock have the GIL.

        The loop ends by the iterator in C that has taken the lock, so no interrupt comes between that and the return.
        """
        for _ in iter(partial(self.lock.acquire, False), True):
            time.sleep(0)

    @property
    def stage(self) -> str:
        """Stage of the scheduler, in a word or two, and the number of Python tasks that have not ended."""
        words = {None: "running", NOT_STARTED: "not started"}.get(self.refusal, "stopped")
        return f"{words}, {several(len(self.alive), 'task')} pending"

    def take_room(self, tasks: Collection[TaskFuture], options: TaskOptions) -> None:
        """Queues tasks that will wait, all or none. Raises QueueFull."""
        place, n = options.counted_at, len(tasks)
        queued = self.queued[place]
        with self.lock:
            if self._bounds and place >= self._n:
                timed = self.queued[self._n : 2 * self._n]
                self._check_room("max_held", self._bounds.held, timed, n, "are delayed or held")
            elif self._bounds:
                self._check_room("max_queue", self._bounds.queue, self.queued[: self._n], n, "wait")
                level = self._ranks.names[place] if self._bounds.by_level else ""
                bound = self._bounds.by_level.get(level, 0)
                self._check_room("max_queue_by_level", bound, [queued], n, f"of level {level!r} wait")
            queued.update([task.id for task in tasks])
        for task in tasks:
            if task._is_claimed:  # meanwhile, by a shutdown
                queued.discard(task.id)

    @staticmethod
    def _check_room(name: str, bound: int, queued: Collection[set[int]], n: int, what: str) -> None:
        there = sum(map(len, queued))
        if bound and there + n > bound:
            raise QueueFull(
                f"{name}: {there:,} of {bound:,} tasks {what}, and {n:,} more were submitted: submit later, or fewer "
                "at once",
                np.arange(n),
            )

    def unqueue(self, task: TaskFuture) -> None:
        """Takes a claimed task off the queue. Repeated calls do no harm."""
        self.queued[task._queued_at].discard(task.id)

    def requeue(self, task: TaskFuture) -> None:
        """A task waits elsewhere now, or once more, which no bound refuses. ``lock`` is held. It can be repeated."""
        after = self._ranks.place_of(task._number) + _PARTS.get(task._place, 1) * self._n
        self.queued[after].add(task.id)
        task._queued_at = after
        # All others: an interrupt may have left the task at one that nothing else knows of.
        for place, queued in enumerate(self.queued):
            if place != after or task._is_claimed:  # claimed meanwhile, by one that looked at the place before
                queued.discard(task.id)

    def waiting(self) -> list[int]:
        """Number of tasks that wait, by the index of their priority."""
        return [sum(map(len, self.queued[at :: self._n])) for at in range(self._n)]

    def submit_is_over(self) -> None:
        """Notes that a thread among ``submitting`` is done."""
        if self.refusal is not None:
            self.look()

    def is_idle(self) -> bool:
        """True if no task is left, as far as this table knows."""
        return not self.alive and not self.submitting.threads

    def remove(self, task: TaskFuture) -> None:
        """A task has ended: this is the last step of its end."""
        self.alive.pop(task.id, None)
        if self.refusal is not None:
            self.look()

    def refuse(self, reason: str, when_over: Callable[[], None]) -> None:
        """Refuses further tasks. ``when_over``: called when no task is left, here or where the last one ends, and
        perhaps more than once."""
        self.refusal = self.refusal or reason
        self._when_over = when_over
        self.look()

    def look(self) -> None:
        """Tells those that wait for the end, where no task is left; called after each end once ``refusal`` is set."""
        self.lock.ring()
        when_over = self._when_over
        if when_over is not None and self.is_idle():
            when_over()

    def wait_until_idle(self, wait_s: float | None) -> bool:
        """Waits so many seconds at most, None: without a limit; whether no task is left."""
        return self.lock.wait_for(self.is_idle, wait_s)


def _stop_in_child() -> None:
    for table in list(_all):
        table.is_fork = True
        table.refusal = _FORKED


os.register_at_fork(after_in_child=_stop_in_child)


#: The end of a task that its submit gives up: it counts as never submitted.
WITHDRAWN: Final = "withdrawn"
#: End that a task is to have: its name, the value, and the error.
Claim: TypeAlias = tuple[str, Any, BaseException | None]


class States:
    """Changes of the states of one scheduler's tasks, and the services that their futures call."""

    def __init__(self, table: Table, pool: Pool, ranks: Ranks, timers: Timers, counts: Counts) -> None:
        self.counts = counts
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
        self.check_outside: Callable[[str, str], None] = lambda *_: None
        self.pool = pool
        self.deadlines = Deadlines(timers, table.alive, self.expire)
        self._ended = {end: count.numbers for end, count in counts.ended.items()}
        self._ended[WITHDRAWN] = counts.refused.numbers
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

    def _list_again(self, task: TaskFuture, claim: object) -> None:
        """Gives up the claim of a task that has not begun, and lists it, perhaps a second time: it runs once."""
        with self.lock:
            if task._order is not None and task.__dict__.get("_claim") is claim:
                self.keys.give(task)
                del task.__dict__["_claim"]

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

    def claim(self, task: TaskFuture, visit: list[int]) -> bool:
        """Gives the right to begin a task to a worker's visit, and takes the task off the queue. False: somebody else
        has begun or ended it, or it waits for a time."""
        if task._place != "waiting" or task.__dict__.setdefault("_claim", visit) is not visit:
            return False
        self._queued[task._queued_at].discard(task.id)
        return True

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
        return self._end_by(self._end_and_unlist, task, (end, None, error))

    @staticmethod
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

    def end_and_follow(self, task: TaskFuture, value: Any, elapsed_ns: int, visit: list[int]) -> TaskFuture | None:
        """``end`` for a task that is done, in the thread that ran it. Returns the next one of its key, claimed, where
        the thread may run it at once: with the same priority, as part of the visit that began ``elapsed_ns`` ago."""
        if task._failure is None and task._timer is None:  # as ``_conclude`` does, without its call and questions
            task._call = None
            task._result = value
            for _ in self._done:
                task._end = "done"
                break
            if task.__dict__.setdefault("_meeting", NOBODY) is NOBODY:
                task._state = FINISHED
            else:
                task.finish()
            group = task._group
            if group is not None:
                group.remove(task, None)
        else:
            self._conclude(task, "done", value, None)
        if task._options.key is not None:
            if self.pool.may_go_on(elapsed_ns):
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
                self._list_again(task, visit)
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
        return following if self._end_by(self._conclude, following, claim) else None  # else it ends elsewhere

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
            for _ in self._ended[end]:
                task._end = "cancelled" if end == WITHDRAWN else end
                break
        task.finish()
        group = task._group
        if group is not None:
            group.remove(task, error if end in ("failed", "dropped", "dead") else None)

    def drop(self, task: TaskFuture, reason: str) -> bool:
        """Ends a task that the pool gives up. False: it has begun or ended."""
        return self.end_unbegun(task, "dropped", dropped(task, reason))

    def withdraw(self, tasks: list[TaskFuture]) -> int:
        """Ends those that have not begun, as if nobody had submitted them. Returns how many. It can be repeated."""
        n = sum(self.end_unbegun(task, WITHDRAWN, CancelledError()) for task in tasks if task.id)
        for task in tasks:
            self.leave_group(task)
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
            next(self.counts.ended["cancelled"].numbers)
        return False

    @staticmethod
    def leave_group(task: TaskFuture) -> None:
        """Takes a task out of its group that ended before it was there, by its deadline or a shutdown: its end looked
        for the group too early."""
        group = task._group
        if group is not None and task.done():
            group.remove(task, None)

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
        span, moment = deadline_of(deadline)
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
