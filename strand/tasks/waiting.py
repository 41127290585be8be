"""Tasks that wait, what changes them meanwhile, and how they end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures._base import PENDING
from typing import Any

from strand.errors import ConfigurationError, TaskDropped
from strand.handlers.spans import SpanLike, span_ns
from strand.tasks.counts import Counts
from strand.tasks.future import TaskFuture
from strand.tasks.groups import TaskGroup
from strand.tasks.keys import Keys
from strand.tasks.pool import Pool
from strand.tasks.ranks import Ranks
from strand.tasks.table import Table
from strand.tasks.timers import Timers
from strand.tasks.waits import Waiter, numbered

__all__ = ["Waiting", "dropped"]


class Waiting:
    """What the futures of one scheduler know it by."""

    def __init__(self, table: Table, pool: Pool, ranks: Ranks, timers: Timers, counts: Counts) -> None:
        self.counts = counts
        self.ranks = ranks
        self.timers = timers
        self.now = timers.now
        self.lock = table.lock
        self.keys = Keys(self._give, self._raise, ranks.highest)
        #: What the pool calls with a task's tag; ``Running`` sets it.
        self.run: Callable[[int], None]
        #: Tasks and calls that wait while they hold a strand, by the strand.
        self.waits_on: dict[int, Waiter] = {}
        #: Of the scheduler or dispatcher.
        self.name = numbered("scheduler")
        self._table = table
        self.pool = pool
        self._ended = {end: count.numbers for end, count in counts.ended.items()}

    @property
    def is_fork(self) -> bool:
        """Whether this process is a fork of the one that runs the tasks."""
        return self._table.is_fork

    # -- into the pool

    def begin_wait(self, task: TaskFuture) -> None:
        options = task._options
        with self.lock:
            if "_claim" in task.__dict__:
                return  # its group was cancelled
            if options.waits_ns:
                self._set_timer(task, options.place, task._submitted_ns + options.waits_ns)
            else:
                self.enter(task)

    def _set_timer(self, task: TaskFuture, place: str, due_ns: int) -> None:
        """The task waits until a time. ``lock`` is held."""
        if task._timer is not None:
            self.timers.cancel(task._timer)
        task._place = place
        task._timer = self.timers.add(due_ns, lambda: self._come_due(task, due_ns))

    def _come_due(self, task: TaskFuture, due_ns: int) -> None:
        """By a timer: the delay, hold or backoff of a task is over."""
        with self.lock:
            if task._timer is None or task._timer.due_ns != due_ns:
                return  # another timer took the place of this one while it was about to come
            self.timers.cancel(task._timer)
            task._timer = None
        self._list(task)

    def _list(self, task: TaskFuture) -> None:
        """Lists a task that nobody has claimed, or drops it where the pool does not take it."""
        with self.lock:
            if "_claim" in task.__dict__:
                return  # it was cancelled
            try:
                self.enter(task)
                return
            except Exception as error:
                failure = error
        self.drop(task, f"it could not be listed: {failure}", failure)

    def enter(self, task: TaskFuture) -> None:
        """Lists a task in its key's order, its strand, or the pool. ``lock`` is held."""
        task._place = "waiting"
        if task._options.key is not None and not task._in_order:
            self.keys.join(task)
        elif task._in_order:
            self.keys.give(task)
        else:
            self._give(task, task._number)

    def _give(self, task: TaskFuture, number: int) -> None:
        options = task._options
        if options.strand is not None:
            self.pool.submit_on(options.strand, task.id)
        elif options.marks:
            task._entry = self.pool.submit_marked(task.id, number, options.marks)
        else:
            task._entry = self.pool.submit(task.id, number)

    def _raise(self, task: TaskFuture, number: int) -> None:
        """The priority of a task that is in the pool, or will be given with it. ``lock`` is held."""
        if task._entry is not None and task._place == "waiting" and "_claim" not in task.__dict__:
            self.pool.prioritise(task._entry, number)

    def wait_again(self, task: TaskFuture, place: str, number: int, priority: Any, due_ns: int) -> None:
        """By the worker that has the claim: the task waits, with another priority, and anybody may cancel it.
        ``due_ns``: when it goes to the pool; 0: now."""
        with self.lock:
            task.priority = self.ranks.name_of(number, priority)
            if task._in_order:
                task._entry = None
                self.keys.change(task, number)
            task._number = number
            if due_ns:
                self._set_timer(task, place, due_ns)
            task._state = PENDING
            self._table.count(1)
            del task.__dict__["_claim"]
        if not due_ns:
            self._list(task)
        if self._table.cancels_all or task.cancel_requested:
            self.cancel(task)

    # -- ending

    def end(self, task: TaskFuture, end: str, value: Any, error: BaseException | None) -> None:
        """By who has the claim: the task has ended, and the next one of its key goes to the pool."""
        try:
            self._conclude(task, end, value, error)
        finally:
            if task._options.key is not None:
                self._advance(task)

    def end_and_follow(self, task: TaskFuture, value: Any, elapsed_ns: int) -> TaskFuture | None:
        """``end`` for a task that is done, in the thread that ran it. Returns the next one of its key, claimed, where
        the thread may run it at once: with the same priority, as part of the visit that began ``elapsed_ns`` ago."""
        if task._options.key is None:
            self._conclude(task, "done", value, None)
            return None
        try:
            self._conclude(task, "done", value, None)
        except BaseException:  # Ctrl-C in a callback
            self._advance(task)
            raise
        if self.pool.may_go_on(elapsed_ns):
            self._table.take_lock()
            try:
                following = self.keys.next_alike(task)
                if following is not None and self._table.claim(following):
                    self.keys.leave(task)
                    return following
            finally:
                self.lock.release()
        self._advance(task)
        return None

    def _advance(self, task: TaskFuture) -> None:
        """A loop: where the pool has stopped, all tasks behind are dropped, however many."""
        while True:
            following: TaskFuture | None = None
            self._table.take_lock()
            try:
                following = self.keys.leave(task)
                if following is None:
                    return
                self.keys.give(following)
                return
            except Exception as raised:
                failure = raised
            finally:
                self.lock.release()
            assert following is not None
            if not self._table.claim(following):
                return  # it ends elsewhere
            task = following
            self._conclude(task, "dropped", None, dropped(task, f"it could not be listed: {failure}", failure))

    def _conclude(self, task: TaskFuture, end: str, value: Any, error: BaseException | None) -> None:
        task._call = None
        if task._begun_ns is None:
            task._ended_ns = self.now()
        if task._timer is not None:
            with self.lock:
                if task._timer is not None:
                    self.timers.cancel(task._timer)
                    task._timer = None
        next(self._ended[end])
        try:
            task.finish(end, value, error)
        finally:  # a callback in the main thread may let Ctrl-C out
            group = task._group
            if group is not None:
                group.remove(task, error if end in ("failed", "dropped", "dead") else None)
            self._table.remove(task)

    def drop(self, task: TaskFuture, reason: str, cause: BaseException | None = None) -> bool:
        """Ends a task that the pool gives up. False: it has begun or ended."""
        if not self._table.claim(task):
            return False
        self.end(task, "dropped", None, dropped(task, reason, cause))
        return True

    # -- what futures ask for

    def cancel(self, task: TaskFuture) -> bool:
        if self.is_fork or not self._table.claim(task):
            return False
        self.end(task, "cancelled", None, CancelledError())
        return True

    def reprioritise(self, task: TaskFuture, priority: Any) -> bool:
        number = self.ranks.number_of("priority", priority)
        if task._options.strand is not None:
            raise ConfigurationError("priority: a symbol's strand has one priority; change that of the symbol")
        if self.is_fork:
            return False
        with self.lock:
            if "_claim" in task.__dict__:
                return False
            if task._place in ("delayed", "held"):
                self._hold_by(task, number)
            task.priority = self.ranks.name_of(number, priority)
            self._renumber(task, number)
        return True

    def _renumber(self, task: TaskFuture, number: int) -> None:
        """Gives a task that waits another number, and tells the pool. ``lock`` is held."""
        if task._in_order:
            self.keys.change(task, number)
        else:
            task._number = number
            self._raise(task, number)

    def _hold_by(self, task: TaskFuture, number: int) -> None:
        """A task that waits for its time waits as long as its new level says."""
        delay_ns, hold_ns = task._options.delay_ns, self.ranks.hold_ns(number)
        due_ns = task._submitted_ns + max(delay_ns, hold_ns)
        if task._deadline_ns is not None and due_ns >= task._deadline_ns:
            raise ConfigurationError(f"priority: the hold of its level ends after the deadline of task {task.id}")
        self._set_timer(task, "delayed" if delay_ns >= hold_ns else "held", due_ns)

    def set_deadline(self, task: TaskFuture, deadline: SpanLike | None) -> bool:
        until = None if deadline is None else self.now() + span_ns("deadline", deadline)
        if self.is_fork:
            return False
        with self.lock:
            if "_claim" in task.__dict__:
                return False
            if until is not None and task._timer is not None and task._timer.due_ns >= until:
                raise ConfigurationError(f"deadline: task {task.id} is {task._place} until after it: give a longer one")
            task._deadline_ns = until
        return True

    def set_group(self, task: TaskFuture, group: TaskGroup | None) -> bool:
        if group is not None and not isinstance(group, TaskGroup):
            raise ConfigurationError(f"group: {group!r} is not a strand.TaskGroup")
        if self.is_fork:
            return False
        with self.lock:
            before = task._group
            if "_claim" in task.__dict__:
                return False
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

    def ahead_of(self, task: TaskFuture) -> Waiter | None:
        """The task of its key that has to end first, or the task or call that waits while it holds its strand."""
        options = task._options
        head: Waiter | None = None
        if options.strand is not None:
            head = self.waits_on.get(options.strand)
        elif options.key is not None:
            with self.lock:
                head = self.keys.head_of(options.key)
        return None if head is task else head


def dropped(task: TaskFuture, reason: str, cause: BaseException | None = None) -> TaskDropped:
    """What a task ends with that was given up."""
    error = TaskDropped(f"task {task.id} was dropped: {reason}")
    error.__cause__ = cause
    return error
