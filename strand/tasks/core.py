"""The parts of one scheduler's tasks: the way in, and the end of the tasks and of their threads."""

from __future__ import annotations

import time
from _thread import start_new_thread
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar, overload

from strand.binding.engine import Engine
from strand.binding.engine_words import UNIT_WEIGHT
from strand.binding.gate import Code, Thread
from strand.errors import ConfigurationError, StoppedError, StrandError
from strand.options import named_options
from strand.policies.policy import Fair, Levels, Policy
from strand.tasks.ends import Counts, DeadLetters
from strand.tasks.future import TaskFuture
from strand.tasks.groups import CURRENT_GROUP, TaskGroup
from strand.tasks.options import Ranks, TaskOptions, check_wait
from strand.tasks.places import Places
from strand.tasks.pool import Bounds, Pool, Table
from strand.tasks.states import Attempts, States, leave_group
from strand.tasks.timers import Coroutines, Periodic, Timers
from strand.tasks.waits import CURRENT_TASK, ENDING_TASK, Waiter
from strand.threads import Bell, Clock, in_main_thread, mended
from strand.validate import did_you_mean

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


def function_of(fn: Any) -> Any:
    """A function, or the one that is registered by a name. Raises TypeError and ConfigurationError."""
    if isinstance(fn, str):
        return task_named(fn)
    if callable(fn):
        return fn
    raise TypeError(f"fn: {fn!r} is neither callable nor the name of a task")


#: The claim of tasks that begin in their caller's asyncio task: with one of its own each would be garbage in a circle.
_HERE: Final = ("here", None, None)
#: Longest single wait at the end of the program.
_SLICE_S: Final = 0.05
#: The shortest wait for the threads' end, and the interval of looks for tasks in C that are left.
_LOOK_S: Final = 0.001


class Ending:
    """Ends the threads of ``places`` when no task is left. Where there were tasks in C, a thread of its own waits for
    the last of them: nobody calls back when those have ended. ``then``: called when they have ended."""

    def __init__(self, engine: Engine, places: Places, *, then: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._places = places
        self._then = then
        self._bell = Bell()
        #: More than one where an interrupt came between the start of the first one and the note of it.
        self._threads: list[Thread] = []
        self._expects_native = False
        self._is_asked = self._has_given_up = self._are_told = self._is_over = False

    def expect_native(self) -> None:
        """Tasks in C will be submitted. Raises StoppedError where the threads were told to end."""
        with self._bell:
            if self._is_asked:
                raise StoppedError("the workers have stopped: no task can be submitted")
            if not self._expects_native:
                # Now, and not at the end: Python starts no threads while the program ends.
                thread = Thread(self._end_behind_native, "strand-native-tasks")
                self._threads.append(thread)
                thread.start()
                self._expects_native = True

    def let_go(self) -> None:
        """No task will come: nothing is held back any more. From any thread, and again and again; waits for nobody."""
        self._places.let_go()

    def give_up(self) -> None:
        """Lets the end come before tasks in C that have not begun."""
        self._has_given_up = True
        self._bell.ring()

    def end(self) -> None:
        """Tells them to end, when no task in C is left. From any thread."""
        with self._bell:
            self._is_asked = True
            has_threads = bool(self._threads)
        self._bell.ring()
        if not has_threads:
            self._places.end()
            self._are_told = self._is_over = True
            self._bell.ring()

    def wait(self, wait_s: float) -> bool:
        """Waits, after ``end``, so many seconds at most. True if no task is left."""
        return self._bell.wait_for(lambda: self._is_over, wait_s)

    def may_begin_others(self) -> bool:
        """True if a worker may still begin a task in C that was given up."""
        return self._has_given_up and not self._are_told

    def left(self) -> int:
        """Number of tasks that have not ended, those in C too."""
        totals = self._engine.tasks.totals(on_strands=False)
        return totals.submitted - totals.ended

    def join(self) -> None:
        """Waits for their end, but for the caller's own."""
        for thread in self._threads:
            thread.join()
        self._places.join()
        self._then()

    def _end_behind_native(self) -> None:
        self._bell.wait_for(lambda: self._is_asked)
        while self._engine.drain(None, 0) == Code.AGAIN and not self._has_given_up:
            self._bell.wait_for(lambda: self._has_given_up, _LOOK_S)
        self._places.end()
        self._are_told = True
        self._places.join()
        self._engine.tasks.stop()
        self._is_over = True
        self._bell.ring()


class Shutdown:
    """The end of one scheduler's tasks, and of their threads. ``workers``: the threads of a pool that has some of its
    own."""

    def __init__(self, table: Table, timers: Timers, coroutines: Coroutines) -> None:
        self._table = table
        self._timers = timers
        self._coroutines = coroutines
        self.workers: Ending | None = None
        self._told_to_end = False

    def refuse(self, reason: str) -> None:
        """No task can be submitted from here on, none is held back, and when the last has ended, the threads end."""
        if self.workers is not None:
            self.workers.let_go()
        self._table.refuse(reason, self.end_threads)

    def end_threads(self) -> None:
        """Tells the threads to end, from any thread, and again and again. No task is left, and none will come."""
        if in_main_thread():
            start_new_thread(self._end_threads, ())
        else:
            self._end_threads()

    def _end_threads(self) -> None:
        """Ends the threads, in a thread that no signal interrupts."""
        self._timers.end()
        self._coroutines.end()
        if self.workers is not None:
            self.workers.end()
        self._told_to_end = True
        self._table.lock.ring()

    def begin(self, reason: str, periodics: Iterable[Periodic], cancel_futures: bool) -> None:
        """All of a shutdown but the wait. If an exception cuts it short, it can be repeated, in any thread."""
        self.refuse(reason)
        for periodic in periodics:
            periodic.cancel()
        if cancel_futures:
            self._table.cancels_all = True
            for task in self._table.alive.copy().values():
                task.cancel()
            if self.workers is not None:
                self.workers.give_up()

    def wait(self, wait_s: float) -> bool:
        """Waits, after ``refuse``, about so many seconds at most. True if no task is left."""
        if not self._table.wait_until_idle(wait_s):
            return False
        if not self._told_to_end:
            self.end_threads()
            self._table.lock.wait_for(lambda: self._told_to_end, max(wait_s, _SLICE_S))
        return self._told_to_end and (self.workers is None or self.workers.wait(max(wait_s, _LOOK_S)))

    def join_threads(self) -> None:
        """Waits for their end, but for the caller's own."""
        self._timers.join()
        self._coroutines.join()
        if self.workers is not None:
            self.workers.join()

    def retire(self) -> None:
        """Refuses further tasks, since nobody refers to the scheduler any more."""
        if not self._table.is_fork:
            mended(self.refuse, self.refuse, "nobody refers to the scheduler any more")

    def at_exit(self) -> None:
        """Ends with the program: runs the tasks that wait for a worker, and cancels those that wait for a time."""
        if self._table.is_fork:
            return
        self.refuse("the program ends")
        self.cancel_waiting(everything=False)
        while not self.wait(_SLICE_S):
            pass
        self.join_threads()

    def cancel_waiting(self, *, everything: bool) -> None:
        """Cancels tasks that are delayed, held, or wait for a retry, and those that come to that from here on.
        ``everything``: all that have not begun."""
        self._table.cancels_all = True
        for task in self._table.alive.copy().values():
            if (everything or task.state in ("delayed", "held", "retrying")) and not task._options.is_call:
                task.cancel()


def latest_begin(options: TaskOptions, now: int) -> int | None:
    """Time by which a task has to have begun, ns of the clock. Raises ConfigurationError where the task's wait ends
    after it."""
    if options.deadline_at is not None:
        left = options.deadline_at - time.time_ns()
        check_wait(options.delay_ns, options.hold_ns, left)
        return now + left
    return None if options.deadline_ns is None else now + options.deadline_ns


class Core:
    """The parts of one scheduler's tasks. A plain task, without key, hold, group or bound, takes no lock at all.

    Args:
        pool: Lists tasks and calls ``Tasks.run`` in its threads.
        ranks: What the pool's policy makes of priorities.
        clock: The clock of delays, deadlines and times. None: the system's, with a thread for what is due later. With
            another clock, ``Tasks.fire`` does what is due.
        bounds: How many tasks may wait.
        max_dead_letters, seed: As the options of a Scheduler.
        timed: Whether the times that tasks run, and those from submit to end, are counted beside the waits.

    Raises:
        ConfigurationError: If there are bounds by level, and the policy has no levels.
    """

    def __init__(
        self,
        pool: Pool,
        ranks: Ranks,
        *,
        clock: Clock | None = None,
        bounds: Bounds = Bounds(),  # noqa: B008 - frozen
        max_dead_letters: int = 1000,
        seed: int | None = None,
        timed: bool = False,
    ) -> None:
        if bounds.by_level and not ranks.has_levels:
            reason = f"{type(ranks.policy).__name__} has no levels; give policy=Levels()"
            raise ConfigurationError("max_queue_by_level", reason)
        self.table = Table(ranks, bounds)
        self.timers = Timers(clock)
        self.now = self.timers.now
        self.dead_letters = DeadLetters(max_dead_letters, self.submit)
        self.counts = Counts(ranks, timed=timed)
        self.states = States(self.table, pool, ranks, self.timers, self.counts)
        self.attempts = Attempts(self.states, self.dead_letters, seed)
        self.shutdown = Shutdown(self.table, self.timers, self.attempts.coroutines)
        #: How many tasks run at a time.
        self.n_workers = pool.n_workers
        self.pool = pool
        self.ranks = ranks
        #: True if a task without group and wait needs no care but for its key.
        self._takes_plain = not bounds and ranks.groups is None
        self._queued = self.table.queued
        self._tags = self.counts.submitted.numbers

    def submit(self, options: TaskOptions, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskFuture:
        """Takes a task, and lists it in the pool or makes it wait. See ``TaskExecutor.submit``."""
        table = self.table
        refusal = table.refusal
        if refusal is not None:
            raise StoppedError(refusal)
        if not callable(fn):
            fn = function_of(fn)
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
                        task._entry = self.pool.submit(task.id, options.number)
                    else:
                        task._entry = self.pool.submit_on(options.strand, task.id)
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
            fn = function_of(fn)
        now = self.now()
        tasks = [TaskFuture(self.states, options, (fn, args, {}), now) for args in calls]
        group = CURRENT_GROUP.get() if options.group is None else options.group
        if tasks:
            mended(self._submit_many, lambda tasks, *_: self.states.withdraw(tasks), tasks, options, group)
        return tasks

    def begin_here(
        self, options: TaskOptions, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> tuple[TaskFuture, Coroutine[Any, Any, Any]] | None:
        """See ``TaskExecutor.begin_here``."""
        table = self.table
        waits = any(self._queued[: self.ranks.n_places])
        is_plain = options.goes_at_once and not options.is_checked and options.key is None and options.strand is None
        if waits or not is_plain or self.ranks.groups is not None or CURRENT_GROUP.get() is not None:
            return None
        task = TaskFuture(self.states, options, (fn, args, {}), self.now())
        task.__dict__["_claim"] = _HERE  # nobody else may begin or end it
        for task.id in self._tags:
            table.alive[task.id] = task
            break
        if table.refusal is not None:
            del task.__dict__["_claim"]
            self.states.withdraw([task])
            raise StoppedError(table.refusal)
        return task, self.attempts.run_here(task, fn, args)

    def change_policy(self, policy: Policy) -> None:
        """See ``Tasks.change_policy``."""
        with self.table.lock:
            before = self.ranks.policy
            before.check_change(policy)
            if isinstance(policy, Levels):
                self.pool.schedule.retime(policy.timeouts_ns)
            elif isinstance(before, Fair) and isinstance(policy, Fair) and self.ranks.groups is not None:
                names = dict.fromkeys((*before.weights, *policy.weights), 1.0) | dict(policy.weights)
                by_number = {self.ranks.groups.number_named(name): weight for name, weight in names.items()}
                for number, weight in by_number.items():
                    self.pool.schedule.weigh(number, round(weight * UNIT_WEIGHT))
            self.ranks.policy = policy

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
            entries = self.pool.submit_many([task.id for task in tasks], options.number)
            for task, entry in zip(tasks, entries, strict=True):
                task._entry = entry
            return
        deadline_ns = latest_begin(options, tasks[0]._submitted_ns)
        number = self.ranks.number_in(group, options.number)
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
                leave_group(task)
        if options.key is None and options.strand is None and not options.waits_ns and not options.marks:
            entries = self.pool.submit_many(tags, number)
            for task, entry in zip(tasks, entries, strict=True):
                task._entry = entry
            return
        for task in tasks:
            self.states.begin_wait(task)

    def waiting(self) -> list[int]:
        """Number of tasks that wait, by place. One that has risen by its wait counts where it has risen to."""
        waiting = self.table.waiting()
        if self.ranks.has_levels:
            waiting = [a + b for a, b in zip(waiting, self.pool.risen(), strict=True)]
        return waiting

    def figures(self) -> dict[str, Any]:
        """Counts of all tasks together, and of those that wait by place."""
        found = self.counts.totals()
        dead = {"dead_letters": len(self.dead_letters), "dead_letters_gone": self.dead_letters.dropped}
        return found | dead | {"waiting": self.waiting()}

    def waits_for_here(self) -> Waiter | None:
        """Unended task that runs in this thread, or whose callbacks run here; None: there is none. Here nobody can wait
        for the end of all tasks, since that task would have to end first."""
        for me in (CURRENT_TASK.get(), ENDING_TASK.get()):
            if me is not None and self.table.alive.get(me.id) is me:
                return me
        return None
