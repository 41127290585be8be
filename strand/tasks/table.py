"""The tasks of one scheduler that have not ended, who may do what with them, and how many may wait.

A task is in ``alive`` from submit to its end. The right to begin or end it is the entry ``_claim`` in its dict: the
thread that sets it by ``setdefault``, one atomic step, has the right. That is the worker that begins it, or whoever
cancels or drops it. A worker gives the claim up before a retry, and then anybody may take it again.

A claim is an object of its own: for a worker, the list of the tasks that its visit has taken; else the end that the
task is to have. So another thread can finish the work that an exception cuts short.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from strand.binding.gate import NOT_STARTED
from strand.brief import several
from strand.errors import QueueFull
from strand.tasks.future import TaskFuture
from strand.tasks.options import Ranks, TaskOptions
from strand.threads import Bell, Inside

__all__ = ["Bounds", "Table"]

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
            if "_claim" in task.__dict__:  # meanwhile, by a shutdown
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
            if place != after or "_claim" in task.__dict__:  # claimed meanwhile, by one that looked at the place before
                queued.discard(task.id)

    def waiting(self) -> list[int]:
        """Number of tasks that wait, by the index of their priority."""
        return [sum(map(len, self.queued[at :: self._n])) for at in range(self._n)]

    def submit_is_over(self) -> None:
        """Notes that a thread among ``submitting`` is done."""
        if self.refusal is not None:
            self._look()

    def is_idle(self) -> bool:
        """True if no task is left, as far as this table knows."""
        return not self.alive and not self.submitting.threads

    def remove(self, task: TaskFuture) -> None:
        """A task has ended: this is the last step of its end."""
        self.alive.pop(task.id, None)
        if self.refusal is not None:
            self._look()

    def refuse(self, reason: str, when_over: Callable[[], None]) -> None:
        """Refuses further tasks. ``when_over``: called when no task is left, here or where the last one ends, and
        perhaps more than once."""
        self.refusal = self.refusal or reason
        self._when_over = when_over
        self._look()

    def _look(self) -> None:
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
