"""A task's way in: checked, numbered, and listed in the pool or made to wait."""

from __future__ import annotations

import time
from _thread import start_new_thread
from collections.abc import Iterable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Final, Protocol

from strand.clock import Clock
from strand.errors import StoppedError, StrandError
from strand.tasks.counts import Counts
from strand.tasks.current import CURRENT_TASK, ENDING_TASK, RunningTask
from strand.tasks.dead_letters import DeadLetters
from strand.tasks.future import TaskFuture
from strand.tasks.groups import CURRENT_GROUP, TaskGroup
from strand.tasks.options import TaskOptions, check_wait
from strand.tasks.pool import Pool
from strand.tasks.ranks import Ranks
from strand.tasks.registry import task_named
from strand.tasks.running import Running
from strand.tasks.table import Bounds, Table
from strand.tasks.timers import Timers
from strand.tasks.waiting import WITHDRAWN, Waiting
from strand.threads import in_main_thread, mended

if TYPE_CHECKING:
    from strand.tasks.periodic import Periodic

__all__ = ["Core", "Workers"]

#: Longest single wait at the end of the program.
_SLICE_S: Final = 0.05
#: The shortest wait for the threads' end, which needs no more time than that from a machine with nothing else to do.
_LOOK_S: Final = 0.001


class Workers(Protocol):
    """Threads that end with the last task."""

    def let_go(self) -> None:
        """No task will come: nothing is held back any more. From any thread, and again and again; waits for nobody."""

    def expect_native(self) -> None:
        """Tasks in C will be submitted. Raises StoppedError where the threads were told to end."""

    def end(self) -> None:
        """Tells them to end, when no task in C is left. From any thread."""

    def give_up(self) -> None:
        """The end waits for no task in C that has not begun."""

    def wait(self, wait_s: float) -> bool:
        """Waits, after ``end``, so many seconds at most. True if no task is left."""
        ...

    def left(self) -> int:
        """Number of tasks that have not ended, those in C too."""
        ...

    def join(self) -> None:
        """Waits for their end, but for the caller's own."""


class Core:
    """The parts of one scheduler's tasks. A plain task, without key, hold, group or bound, takes no lock at all."""

    def __init__(
        self,
        pool: Pool,
        ranks: Ranks,
        *,
        clock: Clock | None,
        bounds: Bounds,
        max_dead_letters: int,
        seed: int | None,
    ) -> None:
        self.table = Table(ranks, bounds)
        self.timers = Timers(clock)
        self.now = self.timers.now
        self.dead_letters = DeadLetters(max_dead_letters, self.submit)
        self.counts = Counts(ranks)
        self.waiting = Waiting(self.table, pool, ranks, self.timers, self.counts)
        self.running = Running(self.table, self.waiting, self.dead_letters, seed, self.counts)
        #: The threads of a pool that has some of its own, and how many tasks run at a time.
        self.workers: Workers | None = None
        self.n_workers = 1
        self._pool = pool
        self._ranks = ranks
        #: True if a task without group and wait needs no care but for its key.
        self._takes_plain = not bounds and ranks.groups is None
        self._queued = self.table.queued
        self._tags = self.counts.submitted.numbers
        self._told_to_end = False

    def submit(self, options: TaskOptions, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskFuture:
        """Takes a task, and lists it in the pool or makes it wait. See ``TaskExecutor.submit``."""
        table = self.table
        refusal = table.refusal
        if refusal is not None:
            raise StoppedError(refusal)
        if not callable(fn):
            fn = self.function_of(fn)
        task = TaskFuture(self.waiting, options, (fn, args, kwargs), self.now())
        group = CURRENT_GROUP.get() if options.group is None else options.group
        try:
            if group is None and options.goes_at_once and self._takes_plain:
                for task.id in self._tags:
                    self._queued[options.counted_at].add(task.id)
                    table.alive[task.id] = task
                    break
                if options.deadline_ns is not None:
                    self.waiting.deadlines.add(task, task._submitted_ns + options.deadline_ns)
                if options.key is None:
                    task._entry = self._pool.submit(task.id, options.number)
                else:
                    table.take_lock()
                    try:
                        if "_claim" not in task.__dict__:  # it has not expired meanwhile
                            self.waiting.keys.join(task)
                    finally:
                        table.lock.release()
            else:
                self._submit_with([task], options, group)
            # A shutdown in between may have found nothing to wait for.
            if self.table.refusal is not None and self._withdraw([task]):
                raise StoppedError(self.table.refusal)
        except BaseException:
            try:
                self._withdraw([task])
            except BaseException:
                start_new_thread(self._withdraw, ([task],))
                raise
            raise
        return task

    def submit_many(self, options: TaskOptions, fn: Any, calls: Iterable[tuple[Any, ...]]) -> list[TaskFuture]:
        """See ``TaskExecutor.submit_many``."""
        refusal = self.table.refusal
        if refusal is not None:
            raise StoppedError(refusal)
        if not callable(fn):
            fn = self.function_of(fn)
        now = self.now()
        tasks = [TaskFuture(self.waiting, options, (fn, args, {}), now) for args in calls]
        group = CURRENT_GROUP.get() if options.group is None else options.group
        if tasks:
            mended(self._submit_many, lambda tasks, *_: self._withdraw(tasks), tasks, options, group)
        return tasks

    @staticmethod
    def function_of(fn: Any) -> Any:
        """A function, or the one that is registered by a name. Raises TypeError and ConfigurationError."""
        if isinstance(fn, str):
            return task_named(fn)
        if callable(fn):
            return fn
        raise TypeError(f"fn: {fn!r} is neither callable nor the name of a task")

    def _submit_many(self, tasks: list[TaskFuture], options: TaskOptions, group: TaskGroup | None) -> None:
        try:
            self._submit_with(tasks, options, group)
        except StrandError:
            self._withdraw(tasks)
            raise
        # A shutdown in between may have found nothing to wait for.
        if self.table.refusal is not None and self._withdraw(tasks) == len(tasks):
            raise StoppedError(self.table.refusal)

    def _submit_with(self, tasks: list[TaskFuture], options: TaskOptions, group: TaskGroup | None) -> None:
        """All or none of them, with whatever is to be seen to: the caller withdraws them if it raises."""
        deadline_ns = self.deadline_of(options, tasks[0]._submitted_ns)
        number = self._ranks.number_in(group, options.number)
        for task in tasks:
            task._number = number
            for task.id in self._tags:
                self.table.alive[task.id] = task
                break
        tags = [task.id for task in tasks]
        self.table.take_room(tasks, options)
        if deadline_ns is not None:
            for task in tasks:
                self.waiting.deadlines.add(task, deadline_ns)
        if group is not None:
            for task in tasks:
                task._group = group
                group.add(task)
                # From here on the group may cancel it.
        if options.key is None and options.strand is None and not options.waits_ns and not options.marks:
            entries = self._pool.submit_many(tags, number)
            for task, entry in zip(tasks, entries, strict=True):
                task._entry = entry
            return
        for task in tasks:
            self.waiting.begin_wait(task)

    @staticmethod
    def deadline_of(options: TaskOptions, now: int) -> int | None:
        """Time by which a task has to have begun, ns of the clock. Raises ConfigurationError where the task's wait ends
        after it."""
        if options.deadline_at is not None:
            left = options.deadline_at - time.time_ns()
            check_wait(options.delay_ns, options.hold_ns, left)
            return now + left
        return None if options.deadline_ns is None else now + options.deadline_ns

    def _withdraw(self, tasks: list[TaskFuture]) -> int:
        """Ends those that have not begun, as if nobody had submitted them. Returns how many. It can be repeated."""
        return sum(self.waiting.end_unbegun(task, WITHDRAWN, CancelledError()) for task in tasks if task.id)

    # -- the end

    def waits_for_here(self) -> RunningTask | None:
        """Unended task that runs in this thread, or whose callbacks run here; None: there is none. Here nobody can wait
        for the end of all tasks, since that task would have to end first."""
        for me in (CURRENT_TASK.get(), ENDING_TASK.get()):
            if me is not None and self.table.alive.get(me.id) is me:
                return me
        return None

    def refuse(self, reason: str) -> None:
        """No task can be submitted from here on, none is held back, and when the last has ended, the threads end."""
        if self.workers is not None:
            self.workers.let_go()
        self.table.refuse(reason, self.end_threads)

    def end_threads(self) -> None:
        """Tells the threads to end, from any thread, and again and again. No task is left, and none will come."""
        if in_main_thread():
            start_new_thread(self._end_threads, ())
        else:
            self._end_threads()

    def _end_threads(self) -> None:
        """Ends the threads, in a thread that no signal interrupts."""
        self.timers.end()
        self.running.coroutines.end()
        if self.workers is not None:
            self.workers.end()
        self._told_to_end = True
        self.table.lock.ring()

    def begin_shutdown(self, reason: str, periodics: Iterable[Periodic], cancel_futures: bool) -> None:
        """All of a shutdown but the wait. If an exception cuts it short, it can be repeated, in any thread."""
        self.refuse(reason)
        for periodic in periodics:
            periodic.cancel()
        if cancel_futures:
            self.table.cancels_all = True
            for task in self.table.alive.copy().values():
                task.cancel()
            if self.workers is not None:
                self.workers.give_up()

    def wait_until_over(self, wait_s: float) -> bool:
        """Waits, after ``refuse``, about so many seconds at most. True if no task is left."""
        if not self.table.wait_until_idle(wait_s):
            return False
        if not self._told_to_end:
            self.end_threads()
            self.table.lock.wait_for(lambda: self._told_to_end, max(wait_s, _SLICE_S))
        return self._told_to_end and (self.workers is None or self.workers.wait(max(wait_s, _LOOK_S)))

    def join_threads(self) -> None:
        """Waits for their end, but for the caller's own."""
        self.timers.join()
        self.running.coroutines.join()
        if self.workers is not None:
            self.workers.join()

    def retire(self) -> None:
        """Refuses further tasks, since nobody refers to the scheduler any more."""
        if not self.table.is_fork:
            mended(self.refuse, self.refuse, "nobody refers to the scheduler any more")

    def end_at_exit(self) -> None:
        """The program ends: what waits for a worker is run, and what waits for a time is cancelled."""
        if self.table.is_fork:
            return
        self.refuse("the program ends")
        self.cancel_waiting(everything=False)
        while not self.wait_until_over(_SLICE_S):
            pass
        self.join_threads()

    def cancel_waiting(self, *, everything: bool) -> None:
        """Cancels tasks that are delayed, held, or wait for a retry, and those that come to that from here on.
        ``everything``: all that have not begun."""
        self.table.cancels_all = True
        for task in self.table.alive.copy().values():
            if everything or task.state in ("delayed", "held", "retrying"):
                task.cancel()
