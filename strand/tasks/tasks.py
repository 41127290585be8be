"""Tasks: the way in, and what a scheduler is made of, over whatever pool of threads runs it."""

from __future__ import annotations

import time
import weakref
from _thread import start_new_thread
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar, overload

from strand.brief import brief
from strand.errors import ConfigurationError, MissingExtraError, StoppedError, StrandError, WouldDeadlockError
from strand.options import named_options
from strand.policies.policy import LEVELS, level_of
from strand.spans import SpanLike, span_ns
from strand.stats import TaskStatistics
from strand.tasks.attempts import Attempts
from strand.tasks.ends import Counts, DeadLetters
from strand.tasks.future import TaskFuture
from strand.tasks.groups import CURRENT_GROUP, TaskGroup
from strand.tasks.options import Ranks, TaskOptions, check_wait, options_of
from strand.tasks.pool import Pool
from strand.tasks.retry import RetryPolicy
from strand.tasks.states import Bounds, States, Table
from strand.tasks.timers import Periodic, Timers
from strand.tasks.waits import CURRENT_TASK, ENDING_TASK, RunningTask, blocking
from strand.threads import Clock, Deadline, in_main_thread, mended
from strand.validate import did_you_mean, seconds, whole

__all__ = ["Core", "TaskExecutor", "Tasks", "Workers", "register_joblib", "task", "task_named"]

Function = TypeVar("Function", bound=Callable[..., Any])

_functions: dict[str, Callable[..., Any]] = {}


@overload
def task(function: Function, /, *, name: str | None = None) -> Function: ...
@overload
def task(*, name: str | None = None) -> Callable[[Function], Function]: ...
@named_options("task()")
def task(function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Registers a function, so that ``submit("name", ...)`` finds it: ``@strand.task``, ``@strand.task(name="mail")``.

    A module that is loaded again replaces its own functions.

    Args:
        function: The function.
        name: Its name; None: the function's own name.

    Returns:
        The function as it is.

    Raises:
        ConfigurationError: If the name is empty or no text, if another function has the name, or if ``function`` cannot
            be called.
    """
    if name is not None and (not isinstance(name, str) or not name):
        raise ConfigurationError("name", f"{name!r} is not the name of a task: give text")

    def register(found: Function) -> Function:
        if not callable(found):
            raise ConfigurationError("task", f"{found!r} cannot be called")
        called = name or getattr(found, "__name__", "")
        if not called:
            raise ConfigurationError("task", f"{found!r} has no name of its own; give name=")
        known = _functions.setdefault(called, found)
        if known is not found:
            if _place(known) != _place(found):
                raise ConfigurationError("name", f"{called!r} is already the task {'.'.join(_place(known))}")
            _functions[called] = found
        return found

    return register if function is None else register(function)


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", repr(function)))


def task_named(name: str) -> Callable[..., Any]:
    """The function that is registered by a name. Raises ConfigurationError where there is none."""
    found = _functions.get(name)
    if found is None:
        cure = did_you_mean(name, _functions) or "register a function by @strand.task(name=...)"
        raise ConfigurationError("fn", f"no task is named {name!r}: {cure}")
    return found


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
        self.states = States(self.table, pool, ranks, self.timers, self.counts)
        self.attempts = Attempts(self.states, self.dead_letters, seed)
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
        task = TaskFuture(self.states, options, (fn, args, kwargs), self.now())
        group = CURRENT_GROUP.get() if options.group is None and not options.is_call else options.group
        try:
            if group is None and options.goes_at_once and self._takes_plain:
                for task.id in self._tags:
                    self._queued[options.counted_at].add(task.id)
                    table.alive[task.id] = task
                    break
                if options.deadline_ns is not None:
                    self.states.deadlines.add(task, task._submitted_ns + options.deadline_ns)
                if options.key is None:
                    if options.strand is None:
                        task._entry = self._pool.submit(task.id, options.number)
                    else:
                        task._entry = self._pool.submit_on(options.strand, task.id)
                else:
                    table.take_lock()
                    try:
                        if not task._is_claimed:  # it has not expired meanwhile
                            self.states.keys.join(task)
                    finally:
                        table.lock.release()
            else:
                self._submit_with([task], options, group)
            # A shutdown in between may have found nothing to wait for.
            if self.table.refusal is not None and self.states.is_refused([task]):
                raise StoppedError(self.table.refusal)
        except BaseException as error:
            try:
                if isinstance(error, StoppedError) and not self.states.is_refused([task]):
                    return task
                self.states.withdraw([task])
            except BaseException:
                start_new_thread(self.states.withdraw, ([task],))
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
        tasks = [TaskFuture(self.states, options, (fn, args, {}), now) for args in calls]
        group = CURRENT_GROUP.get() if options.group is None else options.group
        if tasks:
            mended(self._submit_many, lambda tasks, *_: self.states.withdraw(tasks), tasks, options, group)
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
            # A shutdown in between may have found nothing to wait for.
            if self.table.refusal is not None:
                raise StoppedError(self.table.refusal)
        except StoppedError:
            if self.states.is_refused(tasks):
                raise
        except StrandError:
            self.states.withdraw(tasks)
            raise

    def _submit_with(self, tasks: list[TaskFuture], options: TaskOptions, group: TaskGroup | None) -> None:
        """All or none of them, with whatever is to be seen to: the caller withdraws them if it raises."""
        is_plain = options.goes_at_once and self._takes_plain and options.key is None and options.strand is None
        if group is None and is_plain:
            queued, alive = self._queued[options.counted_at], self.table.alive
            for task in tasks:
                for task.id in self._tags:
                    queued.add(task.id)
                    alive[task.id] = task
                    break
            if options.deadline_ns is not None:
                for task in tasks:
                    self.states.deadlines.add(task, task._submitted_ns + options.deadline_ns)
            entries = self._pool.submit_many([task.id for task in tasks], options.number)
            for task, entry in zip(tasks, entries, strict=True):
                task._entry = entry
            return
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
                self.states.deadlines.add(task, deadline_ns)
        if group is not None:
            for task in tasks:
                task._group = group
                group.add(task)
                # From here on the group may cancel it.
                self.states.leave_group(task)
        if options.key is None and options.strand is None and not options.waits_ns and not options.marks:
            entries = self._pool.submit_many(tags, number)
            for task, entry in zip(tasks, entries, strict=True):
                task._entry = entry
            return
        for task in tasks:
            self.states.begin_wait(task)

    @staticmethod
    def deadline_of(options: TaskOptions, now: int) -> int | None:
        """Time by which a task has to have begun, ns of the clock. Raises ConfigurationError where the task's wait ends
        after it."""
        if options.deadline_at is not None:
            left = options.deadline_at - time.time_ns()
            check_wait(options.delay_ns, options.hold_ns, left)
            return now + left
        return None if options.deadline_ns is None else now + options.deadline_ns

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
        self.attempts.coroutines.end()
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
        self.attempts.coroutines.join()
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
            if (everything or task.state in ("delayed", "held", "retrying")) and not task._options.is_call:
                task.cancel()


#: Longest single wait of ``shutdown`` before it checks its time limit.
_SLICE_NS = 50_000_000


class TaskExecutor(Executor):
    """A ``concurrent.futures.Executor`` whose tasks all have the same options. ``Tasks.options`` makes one."""

    def __init__(self, core: Core, options: TaskOptions, periodics: weakref.WeakSet[Periodic]) -> None:
        self._core = core
        self._options = options
        self._periodics = periodics

    def __repr__(self) -> str:
        return brief(self, self._core.table.stage, *self._options.figures)

    @property
    def _max_workers(self) -> int:
        """Number of tasks that run at a time: dask asks an executor for it by this name."""
        return self._core.n_workers

    def submit(self, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> TaskFuture:
        """Submits a call of ``fn(*args, **kwargs)``, which a worker runs.

        If the function returns a coroutine, as an ``async`` function does, the scheduler's asyncio thread awaits it,
        and the task ends with it. Deadline, ``expire_if`` and retries go by its start, and its key or symbol waits for
        its end.

        Args:
            fn: A function, or the name of one registered by ``@strand.task``.
            *args: Positional arguments of ``fn``.
            **kwargs: Keyword arguments of ``fn``: all keywords go to it.

        Returns:
            The future of the task.

        Raises:
            StoppedError: After a shutdown, in a child of a fork, and if the task's group has ended or was cancelled.
            QueueFull: If ``max_queue`` tasks wait.
            ConfigurationError: If no function has the name.
            TypeError: If ``fn`` cannot be called.
        """
        return self._core.submit(self._options, fn, args, kwargs)

    def submit_many(self, fn: Callable[..., Any] | str, /, *iterables: Iterable[Any]) -> list[TaskFuture]:
        """Submits a call of a function for each item, which costs less than as many ``submit``.

        If it raises, which it does as ``submit``, it has submitted none of them.

        Args:
            fn: A function, or the name of one registered by ``@strand.task``.
            *iterables: The items; those of several iterables are taken side by side, as ``map`` pairs them.

        Returns:
            The futures in their order.
        """
        return self._core.submit_many(self._options, fn, zip(*iterables, strict=False))

    def every(self, period: SpanLike, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Periodic:
        """Submits a call of a function each period.

        It raises what ``submit`` raises, too. ``shutdown`` cancels the turns.

        Args:
            period: The period, as ``"1s"`` or float seconds. The first turn comes after one period, or after the
                ``delay`` of the options.
            fn: A function, or the name of one registered by ``@strand.task``.
            *args: Positional arguments of ``fn``.
            **kwargs: Keyword arguments of ``fn``.

        Returns:
            What counts the turns and cancels them.

        Raises:
            ConfigurationError: If the period is no span of time.
        """
        period_ns = span_ns("period", period)
        core, options = self._core, self._options
        if core.table.refusal is not None:
            raise StoppedError(core.table.refusal)
        fn = core.function_of(fn)
        each = options
        if options.delay_ns:
            hold_ns = options.hold_ns
            place = "held" if hold_ns else "waiting"
            each = replace(options, delay_ns=0, waits_ns=hold_ns, place=place, goes_at_once=False)
        first_ns = core.now() + (options.delay_ns or period_ns)
        found = Periodic(core.timers, lambda: core.submit(each, fn, args, kwargs), first_ns, period_ns)
        self._periodics.add(found)
        mended(found.begin, found.cancel)
        return found

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False, timeout: float | None = None) -> None:
        """Ends the whole scheduler, from whichever of its executors: no task can be submitted any more.

        Periodic functions have no more turns. Tasks that were submitted still run, those too that are delayed or wait
        for a retry.

        Args:
            wait: Whether to return only when all tasks have ended.
            cancel_futures: Whether to cancel all tasks that have not begun.
            timeout: Seconds to wait; None: any time.

        Raises:
            TimeoutError: If the time is over; ``shutdown`` may be called again then.
            WouldDeadlockError: From within a task that it would wait for, and from its callbacks.
            StoppedError: In a child of a fork.
            ConfigurationError: If the timeout is no number.
        """
        core = self._core
        if core.table.is_fork:
            raise StoppedError("this process is a fork of the one that runs the scheduler: that one shuts it down")
        deadline = Deadline(seconds("timeout", timeout))
        me = core.waits_for_here()
        if wait and me is not None:
            raise WouldDeadlockError(f"shutdown: task {me.id} would wait for its own end: use wait=False")
        if wait and core.table.submitting.here:
            raise WouldDeadlockError("shutdown: it would wait for the submit_native of this thread that it interrupts")
        reason = "the scheduler was shut down: no task can be submitted"
        mended(core.begin_shutdown, core.begin_shutdown, reason, list(self._periodics), cancel_futures)
        if not wait:
            return
        while not core.wait_until_over(deadline.slice_ns(_SLICE_NS) / 1e9):
            left = len(core.table.alive) or (0 if core.workers is None else core.workers.left())
            if left and deadline.has_passed():
                raise TimeoutError(f"shutdown: {left:,} tasks have not ended after {timeout} s")
        core.join_threads()


class Tasks(TaskExecutor):
    """The tasks of one scheduler, and an executor of tasks without options.

    Tasks and dead letters live in memory only: this is no durable queue. Every task ends in exactly one way: done,
    failed, cancelled, expired, dropped or dead (``TaskFuture.state``).

    Args:
        pool: Lists tasks and calls ``run`` in its threads.
        ranks: What the pool's policy makes of priorities.
        clock: The clock of delays, deadlines and times. None: the system's, with a thread for what is due later. With
            another clock, ``fire`` does what is due.
        max_queue: How many tasks may wait that could start now or wait for a turn; 0: any number. No retry is refused.
        max_queue_by_level: By level, how many of these may wait, under ``Levels``.
        max_held: How many tasks may be delayed or held; 0: any number.
        max_dead_letters: How many dead letters are kept.
        seed: The seed of the random part of backoffs; None: another one each time.
        retry: The retry policy of tasks that are given none; None: they fail at once.
        strand_of: The strand of a symbol, for ``symbol=``; None: there are no symbols.

    Raises:
        ConfigurationError: If a number is not one or is below 0.
    """

    def __init__(
        self,
        pool: Pool,
        ranks: Ranks,
        *,
        clock: Clock | None = None,
        max_queue: int = 0,
        max_queue_by_level: Mapping[str, int] | None = None,
        max_held: int = 0,
        max_dead_letters: int = 1000,
        seed: int | None = None,
        retry: RetryPolicy | None = None,
        strand_of: Callable[[Any], int] | None = None,
    ) -> None:
        core = Core(
            pool,
            ranks,
            clock=clock,
            bounds=_bounds(ranks, max_queue, max_queue_by_level, max_held),
            max_dead_letters=whole("max_dead_letters", max_dead_letters, 0),
            seed=None if seed is None else whole("seed", seed, 0),
        )
        self._ranks = ranks
        self._retry = retry
        self._strand_of = strand_of
        super().__init__(core, options_of(ranks, strand_of, retry=retry), weakref.WeakSet())

    @named_options("options()")
    def options(
        self,
        *,
        priority: Any = None,
        key: Hashable | None = None,
        symbol: str | int | None = None,
        deadline: SpanLike | datetime | None = None,
        delay: SpanLike | None = None,
        retry: RetryPolicy | None = None,
        group: TaskGroup | None = None,
        expire_if: Callable[[], Any] | None = None,
        marks: str | Iterable[str] | None = None,
    ) -> TaskExecutor:
        """An executor of this scheduler whose tasks have these options; it does not change.

        Spans are texts with a unit like ``"30s"``, timedeltas, or float seconds.

        Args:
            priority: A priority of the policy; None: the usual one.
            key: Tasks of one key run in the order in which they join it, one at a time. A task joins when its delay or
                hold is over, and keeps its place while it waits for a retry. The next task has the highest priority of
                all that wait behind it.
            symbol: The task runs in order with that symbol's ticks; a retry comes behind the ticks that wait then.
            deadline: A task that has not begun so long after its submit expires then, and is neither started nor tried
                again. A datetime with a time zone is a moment instead. A deadline of 0 or less, or in the past, is
                over: the task expires at once. None: no deadline.
            delay: The task waits at least so long; 0 or less: not at all.
            retry: When the task is tried again; None: as the scheduler says.
            group: The group that the task belongs to; None: that of the block or task that submits it.
            expire_if: Called without arguments in the worker before each start. True: the task expires. A priority: it
                waits anew with that one, if it is another one. False or None: it starts. If it raises, the task fails.
            marks: ``"io"``, ``"frees_memory"`` or both, for the guard.

        Raises:
            ConfigurationError: If a value cannot work: a priority that the policy does not have, a delay or hold that
                ends after the deadline, a symbol beside a key or priority.
            UnknownSymbolError: If there is no such symbol.
        """
        found = options_of(
            self._ranks,
            self._strand_of,
            priority=priority,
            key=key,
            symbol=symbol,
            deadline=deadline,
            delay=delay,
            retry=self._retry if retry is None else retry,
            group=group,
            expire_if=expire_if,
            marks=marks,
        )
        return TaskExecutor(self._core, found, self._periodics)

    def __repr__(self) -> str:
        dead = len(self.dead_letters)
        letters = f"{dead:,} dead letters" if dead else ""
        return brief(self, self._core.states.name, self._core.table.stage, letters, repr(self._ranks.policy))

    @property
    def dead_letters(self) -> DeadLetters:
        """Tasks that failed after their last retry."""
        return self._core.dead_letters

    def pending_count(self) -> dict[str, int]:
        """Number of tasks that wait, by level under ``Levels``, by class under ``Aging``; empty under other
        policies.

        It counts those that have not begun, delayed and held ones too, and those that wait for a retry. A task that has
        risen by its wait counts in the level to which it has risen. It takes about a microsecond, however many wait.
        """
        waiting = self._core.table.waiting()
        if self._ranks.has_levels:
            waiting = [a + b for a, b in zip(waiting, self._core.states.pool.risen(), strict=True)]
        return self._ranks.by_name(waiting)

    def pending_total(self) -> int:
        """Number of tasks that wait, under any policy: the sum that ``pending_count`` has by level."""
        return sum(self._core.table.waiting())

    def statistics(self) -> TaskStatistics:
        """Totals since the start, of tasks alone; see TaskStatistics. It stops nothing, and takes microseconds."""
        return self._core.counts.read()

    # -- for the pool

    def run(self, tag: int) -> None:
        """Runs the task of a tag, unless it has ended; a thread of the pool calls it. It raises nothing: whatever a
        task raises ends the task.
        """
        self._core.attempts.run(tag)

    def drop(self, tag: int, reason: str) -> bool:
        """Gives a task up, in place of ``run``; the pool calls it. The task's future raises TaskDropped.

        Args:
            tag: The task.
            reason: Why it is dropped, in words.

        Returns:
            False if the task has ended, or its function or coroutine runs.
        """
        task = self._core.table.alive.get(tag)
        return task is not None and self._core.states.drop(task, reason)

    def fire(self) -> int | None:
        """Runs all that is due, with a clock that is not the system's.

        Returns:
            When something is due next, in ns of the clock; None if nothing is.
        """
        self._core.timers.fire()
        return self._core.timers.next_due_ns()


def _bounds(ranks: Ranks, queue: int, by_level: Mapping[str, int] | None, held: int) -> Bounds:
    """Raises ConfigurationError."""
    if by_level is not None and not isinstance(by_level, Mapping):
        raise ConfigurationError("max_queue_by_level", f"{type(by_level).__name__} is not a dict of numbers by level")
    if by_level and not ranks.has_levels:
        raise ConfigurationError(
            "max_queue_by_level", f"{type(ranks.policy).__name__} has no levels; give policy=Levels()"
        )
    found = {
        LEVELS[level_of("max_queue_by_level", level)]: whole(f"max_queue_by_level: {level}", n, 1)
        for level, n in (by_level or {}).items()
    }
    return Bounds(whole("max_queue", queue, 0), found, whole("max_held", held, 0))


def register_joblib() -> None:
    """Makes ``"strand"`` a backend of joblib, for ``joblib.parallel_config(backend="strand", executor=...)``.

    ``executor`` is a ``strand.Scheduler``, or what its ``options(...)`` return, so that the tasks have a level, a
    group, or retries. ``n_jobs`` bounds how many batches run at a time, besides the scheduler's workers; all workers
    without it. A call of ``Parallel`` within a task gives its worker to other tasks while it waits.

    Raises:
        MissingExtraError: Without joblib.
    """
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError:
        raise MissingExtraError("a backend of joblib", "joblib", "joblib") from None
    register_parallel_backend("strand", _backend_class())


def _backend_class() -> type[Any]:
    """The class, whose bases joblib has."""
    from joblib.parallel import AutoBatchingMixin, ParallelBackendBase

    class StrandBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
        """See ``register_joblib``; joblib's ``ParallelBackendBase`` describes the methods."""

        default_n_jobs = -1
        supports_retrieve_callback = True
        supports_sharedmem = True
        uses_threads = True

        def __init__(self, executor: TaskExecutor | None = None, **more: Any) -> None:
            super().__init__(**more)
            if not isinstance(executor, TaskExecutor):
                raise ConfigurationError(
                    "executor",
                    f"{executor!r} is no strand.Scheduler: give "
                    'joblib.parallel_config(backend="strand", executor=scheduler)',
                )
            self._executor = executor
            self._futures: weakref.WeakSet[TaskFuture] = weakref.WeakSet()

        def __reduce__(self) -> tuple[Any, ...]:
            raise TypeError("a backend of a scheduler stays in the process of its scheduler")

        def effective_n_jobs(self, n_jobs: int | None) -> int:
            if n_jobs == 0:
                raise ValueError("n_jobs == 0 in Parallel has no meaning")
            workers = self._executor._max_workers
            if n_jobs is None:
                return workers
            return min(n_jobs, workers) if n_jobs > 0 else max(workers + 1 + n_jobs, 1)

        def submit(self, func: Callable[[], Any], callback: Callable[[Any], object] | None = None) -> TaskFuture:
            future = self._executor.submit(func)
            self._futures.add(future)
            if callback is not None:
                future.add_done_callback(callback)
            return future

        def retrieve_result_callback(self, out: TaskFuture) -> Any:
            return out.result()

        def abort_everything(self, ensure_ready: bool = True) -> None:
            for future in list(self._futures):
                future.cancel(running=True)
            self._futures.clear()
            if ensure_ready:
                self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

        def get_nested_backend(self) -> tuple[Any, int | None]:
            level = (self.nesting_level or 0) + 1
            return type(self)(executor=self._executor, nesting_level=level), None

        def retrieval_context(self) -> AbstractContextManager[None]:
            return blocking()

    return StrandBackend
