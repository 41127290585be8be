"""A task's way in: checked, numbered, and listed in the pool or made to wait."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import CancelledError
from typing import Any, Protocol

from strand.clock import Clock
from strand.errors import StoppedError
from strand.tasks.counts import Counts
from strand.tasks.current import CURRENT_TASK, ENDING_TASK, RunningTask
from strand.tasks.dead_letters import DeadLetters
from strand.tasks.future import TaskFuture
from strand.tasks.groups import CURRENT_GROUP, TaskGroup
from strand.tasks.options import TaskOptions
from strand.tasks.pool import Pool
from strand.tasks.ranks import Ranks
from strand.tasks.registry import task_named
from strand.tasks.running import Running
from strand.tasks.table import Table
from strand.tasks.timers import Timers
from strand.tasks.waiting import Waiting

__all__ = ["Core", "Workers"]


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
        """After ``end``: waits so many seconds at most; whether no task is left."""
        ...

    def left(self) -> int:
        """How many tasks have not ended, those in C too."""
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
        max_queue: int,
        max_dead_letters: int,
        seed: int | None,
    ) -> None:
        self.table = Table(max_queue)
        self.timers = Timers(clock)
        self.now = self.timers.now
        self.dead_letters = DeadLetters(max_dead_letters, self.submit)
        self.counts = Counts(ranks)
        self.waiting = Waiting(self.table, pool, ranks, self.timers, self.counts)
        self.running = Running(self.table, self.waiting, self.dead_letters, seed, self.counts)
        #: The threads of a pool that has some of its own.
        self.workers: Workers | None = None
        self._pool = pool
        self._ranks = ranks
        #: Whether a task without group and wait has nothing to be seen to but its key.
        self._takes_plain = not max_queue and ranks.groups is None
        self._tags = self.counts.submitted.numbers

    def submit(self, options: TaskOptions, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskFuture:
        """Takes a task, and lists it in the pool or makes it wait. See ``TaskExecutor.submit``."""
        refusal = self.table.refusal
        if refusal is not None:
            raise StoppedError(refusal)
        if not callable(fn):
            fn = self.function_of(fn)
        task = TaskFuture(self.waiting, options, next(self._tags), (fn, args, kwargs), self.now())
        group = CURRENT_GROUP.get() if options.group is None else options.group
        if group is None and options.goes_at_once and self._takes_plain:
            if options.deadline_ns is not None:
                task._deadline_ns = task._submitted_ns + options.deadline_ns
            self.table.alive[task.id] = task
            try:
                if options.key is None:
                    task._entry = self._pool.submit(task.id, options.number)
                else:
                    self.table.take_lock()
                    try:
                        self.waiting.keys.join(task)
                    finally:
                        self.table.lock.release()
            except BaseException:
                self.counts.refuse(self._withdraw([task]), withdrawn=True)
                raise
        else:
            self._submit_with([task], options, group)
        # A shutdown in between may have found nothing to wait for.
        if self.table.refusal is not None and self._take_back([task]):
            raise StoppedError(self.table.refusal)
        return task

    def submit_many(self, options: TaskOptions, fn: Any, calls: Iterable[tuple[Any, ...]]) -> list[TaskFuture]:
        """See ``TaskExecutor.submit_many``."""
        refusal = self.table.refusal
        if refusal is not None:
            raise StoppedError(refusal)
        if not callable(fn):
            fn = self.function_of(fn)
        now, tags = self.now(), self._tags
        # What the items raise, they raise before a task is numbered.
        tasks = [TaskFuture(self.waiting, options, next(tags), (fn, args, {}), now) for args in list(calls)]
        if tasks:
            group = CURRENT_GROUP.get() if options.group is None else options.group
            self._submit_with(tasks, options, group)
            if self.table.refusal is not None and self._take_back(tasks):
                raise StoppedError(self.table.refusal)
        return tasks

    @staticmethod
    def function_of(fn: Any) -> Any:
        """A function, or the one that is registered by a name. Raises TypeError and ConfigurationError."""
        if isinstance(fn, str):
            return task_named(fn)
        if callable(fn):
            return fn
        raise TypeError(f"fn: {fn!r} is neither callable nor the name of a task")

    def _submit_with(self, tasks: list[TaskFuture], options: TaskOptions, group: TaskGroup | None) -> None:
        """All or none of them, with whatever is to be seen to. The room for them is taken first."""
        try:
            number = self._ranks.number_in(group, options.number)
            self.table.take_room(len(tasks))
        except BaseException:
            self.counts.refuse(len(tasks))
            raise
        try:
            for task in tasks:
                task._number = number
                if options.deadline_ns is not None:
                    task._deadline_ns = task._submitted_ns + options.deadline_ns
                # From here on the group may cancel it.
                self.table.alive[task.id] = task
                task._group = group
                if group is not None:
                    group.add(task)
            if options.key is None and options.strand is None and not options.waits_ns and not options.marks:
                entries = self._pool.submit_many([task.id for task in tasks], number)
                for task, entry in zip(tasks, entries, strict=True):
                    task._entry = entry
                return
            for task in tasks:
                self.waiting.begin_wait(task)
        except BaseException:
            self.counts.refuse(self._withdraw(tasks), withdrawn=True)
            raise

    def _withdraw(self, tasks: list[TaskFuture]) -> int:
        """Ends those that have not begun. Returns how many."""
        ended = 0
        for task in tasks:
            if self.table.claim(task):
                self.waiting.end(task, "cancelled", None, CancelledError())
                ended += 1
        return ended

    def _take_back(self, tasks: list[TaskFuture]) -> bool:
        """Whether none of them has begun, and so none was accepted; those that have not begun will not."""
        if self._withdraw(tasks) < len(tasks):
            return False
        self.counts.refuse(len(tasks), withdrawn=True)
        return True

    # -- the end

    def waits_for_here(self) -> RunningTask | None:
        """The one of these tasks that has not ended and runs here, or whose callbacks do: a wait for the end of all
        would be one for itself."""
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
        """Tells the threads to end. No task is left, and none will come."""
        self.timers.end()
        self.running.coroutines.end()
        if self.workers is not None:
            self.workers.end()

    def wait_until_over(self, wait_s: float) -> bool:
        """After ``refuse``: waits about so many seconds at most; whether no task is left."""
        return self.table.wait_until_idle(wait_s) and (self.workers is None or self.workers.wait(wait_s))

    def join_threads(self) -> None:
        """Waits for their end, but for the caller's own."""
        self.timers.join()
        self.running.coroutines.join()
        if self.workers is not None:
            self.workers.join()

    def retire(self) -> None:
        """Nobody can submit any more."""
        if not self.table.is_fork:
            self.refuse("nobody refers to the scheduler any more")

    def end_at_exit(self) -> None:
        """The program ends: what waits for a worker is run, and what waits for a time is cancelled."""
        if self.table.is_fork:
            return
        self.refuse("the program ends")
        self.cancel_waiting(everything=False)
        while not self.table.wait_until_idle(None):
            pass
        self.join_threads()

    def cancel_waiting(self, *, everything: bool) -> None:
        """Cancels tasks that are delayed, held, or wait for a retry, and those that come to that from here on.
        ``everything``: all that have not begun."""
        self.table.cancels_all = True
        for task in self.table.alive.copy().values():
            if everything or task.state in ("delayed", "held", "retrying"):
                task.cancel()
