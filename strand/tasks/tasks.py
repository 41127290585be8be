"""Tasks: the executors that users submit to, and joblib's backend over them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding.tasks import NO_KEY, TASK_BYTES
from strand.brief import brief
from strand.errors import ConfigurationError, MissingExtraError, StoppedError, WouldDeadlockError
from strand.options import named_methods, named_options
from strand.policies.policy import Policy
from strand.spans import SpanLike, span_ns
from strand.stats import TaskStatistics
from strand.tasks.core import Core, function_of, latest_begin
from strand.tasks.ends import DeadLetters
from strand.tasks.future import TaskFuture
from strand.tasks.options import NativeKeywords, TaskKeywords, TaskOptions, check_wait
from strand.tasks.pool import NativeTask
from strand.tasks.retry import ONCE, RetryPolicy
from strand.tasks.timers import Periodic
from strand.tasks.waits import blocking
from strand.threads import Deadline, mended
from strand.validate import seconds

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

#: Longest single wait of ``shutdown`` before it checks its time limit.
_SLICE_NS = 50_000_000


@named_methods
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

    def begin_here(
        self, fn: Callable[..., Awaitable[Any]], /, *args: Any
    ) -> tuple[TaskFuture, Coroutine[Any, Any, Any]] | None:
        """Begins a task in the calling asyncio task, if its turn is there: no task waits, and it has neither key,
        deadline, delay nor group. That costs a part of a submit, which goes to a worker and back.

        Args:
            fn: An ``async`` function.
            *args: Its arguments.

        Returns:
            The future of the task, and the coroutine that runs it, which the caller awaits at once; None: submit it.

        Raises:
            StoppedError: As ``submit``.
        """
        return self._core.begin_here(self._options, fn, args)

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
        fn = function_of(fn)
        each = replace(options, delay_ns=0, ranks=core.ranks)
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
        mended(core.shutdown.begin, core.shutdown.begin, reason, list(self._periodics), cancel_futures)
        if not wait:
            return
        while not core.shutdown.wait(deadline.slice_ns(_SLICE_NS) / 1e9):
            alive, workers = len(core.table.alive), core.shutdown.workers
            left = alive or (0 if workers is None else workers.left())
            # What is cancelled does not begin behind a call that has ended.
            if left and deadline.has_passed() and (alive or workers is None or not workers.may_begin_others()):
                raise TimeoutError(f"shutdown: {left:,} tasks have not ended after {timeout} s")
        core.shutdown.join_threads()


@named_methods
class Tasks(TaskExecutor):
    """The tasks of one scheduler, and an executor of tasks without options.

    Tasks and dead letters live in memory only: this is no durable queue. Every task ends in exactly one way: done,
    failed, cancelled, expired, dropped or dead (``TaskFuture.state``).

    Args:
        core: What the tasks are made of.
        retry: The retry policy of tasks that are given none; None: they fail at once.
        strand_of, key_of: The strand of a symbol, for ``symbol=``, and its index; None: there are no symbols.
    """

    def __init__(
        self,
        core: Core,
        *,
        retry: RetryPolicy | None = None,
        strand_of: Callable[[Any], int] | None = None,
        key_of: Callable[[Any], int] | None = None,
    ) -> None:
        self._retry = retry
        self._strand_of = strand_of
        self._key_of = key_of
        usual = core.ranks.usual
        options = TaskOptions(core.ranks, usual, core.ranks.name_of(usual, None), retry=retry)
        super().__init__(core, options, weakref.WeakSet())

    @named_options("options()", declares=TaskKeywords)
    def options(self, **options: Unpack[TaskKeywords]) -> TaskExecutor:
        """An executor of this scheduler whose tasks have these options; it does not change.

        Spans are texts with a unit like ``"30s"``, timedeltas, or float seconds.

        Raises:
            ConfigurationError: If a value cannot work: a priority that the policy does not have, a delay or hold that
                ends after the deadline, a symbol beside a key or priority.
            UnknownSymbolError: If there is no such symbol.
        """
        return TaskExecutor(self._core, self._read(options), self._periodics)

    def _read(self, read: Any) -> TaskOptions:
        """The options of tasks, by name, as their kinds have read them. Raises as ``options`` does."""
        ranks, retry = self._core.ranks, read["retry"]
        priority, key, symbol = read["priority"], read["key"], read["symbol"]
        number = ranks.usual if priority is None else ranks.number_of("priority", priority)
        deadline_ns, deadline_at = read["deadline"] or (None, None)
        strand = None
        if symbol is not None:
            if key is not None:
                reason = "give either symbol or key: a task is in order with a symbol's ticks or with a key's tasks"
                raise ConfigurationError("symbol", reason)
            if priority is not None:
                raise ConfigurationError("priority", "a symbol's strand has one priority; change that of the symbol")
            if self._strand_of is None:
                raise ConfigurationError("symbol", "this scheduler has no ticks; give key= for an order among tasks")
            strand = self._strand_of(symbol)
        found = TaskOptions(
            ranks,
            number,
            ranks.name_of(number, priority),
            key=key,
            strand=strand,
            deadline_ns=deadline_ns,
            deadline_at=deadline_at,
            delay_ns=read["delay"] or 0,
            retry=self._retry if retry is None else None if retry is ONCE else retry,
            group=read["group"],
            expire_if=read["expire_if"],
            marks=read["marks"] or 0,
        )
        check_wait(found.delay_ns, found.hold_ns, deadline_ns)
        return found

    @named_options("submit_native()", declares=NativeKeywords)
    def submit_native(
        self, task: NativeTask, arguments: bytes | npt.NDArray[Any] = b"", **options: Unpack[NativeKeywords]
    ) -> int:
        """Submits tasks in C, which workers run without the GIL.

        The function is called with ``SD_TASK_RUN`` on its turn, and may ask for another turn by ``ctx->again``. If its
        first turn comes after the deadline, it is called once with ``SD_TASK_EXPIRED``. A shutdown waits for these
        tasks, too, and for a submit that has begun before it. With ``cancel_futures``, and if a dispatcher stops
        without draining, tasks that wait are told ``SD_TASK_STOPPED``. ``max_queue`` does not count these tasks, and
        they belong to no group.

        Args:
            task: The function in C.
            arguments: Bytes, for one task; or an array of shape (n,) of any dtype without objects, for a task per item,
                in their order. A task gets a copy of its item, of 32 bytes at most; of no bytes it gets NULL.

        Returns:
            How many tasks were submitted, which is all of them.

        Raises:
            QueueFull: If the engine has no room for more tasks. Its ``rejected`` are the places of the items that were
                not submitted.
            StoppedError: After a shutdown.
            ConfigurationError: If ``arguments`` is no array of one dimension, or too long. Also for a priority that the
                policy does not have or holds, and for a symbol beside a priority.
            UnknownSymbolError: If there is no such symbol.
        """
        if not isinstance(task, NativeTask):
            raise ConfigurationError("task", f"{task!r} is not a strand.NativeTask")
        items = _items(arguments)
        found = self._read({**dict.fromkeys(TaskKeywords.__annotations__), **options})
        if found.waits_ns:
            raise ConfigurationError("priority", f"{found.priority!r} has a hold, and a task in C cannot be held")
        key = NO_KEY if options["symbol"] is None or self._key_of is None else self._key_of(options["symbol"])
        number = self._core.ranks.number_in(None, found.number)
        table, me = self._core.table, threading.get_ident()
        try:
            table.submitting.threads.append(me)
            if table.refusal is not None:
                raise StoppedError(table.refusal)
            if (workers := self._core.shutdown.workers) is not None:
                workers.expect_native()
            left = latest_begin(found, 0)
            within_ns = 0 if left is None else max(left, 1)  # 0 is none; of one that is over 1 ns is left
            return self._core.pool.submit_native(
                task, items, key=key, priority=number, marks=found.marks, within_ns=within_ns
            )
        finally:
            table.submitting.threads.remove(me)
            table.submit_is_over()

    def __repr__(self) -> str:
        dead = len(self.dead_letters)
        letters = f"{dead:,} dead letters" if dead else ""
        return brief(self, self._core.states.name, self._core.table.stage, letters, repr(self._core.ranks.policy))

    @property
    def refusal(self) -> str | None:
        """The reason for which no task can be submitted, as after a shutdown; None: tasks are taken."""
        return self._core.table.refusal

    @property
    def policy(self) -> Policy:
        """The scheduling policy, as it is now."""
        return self._core.ranks.policy

    def change_policy(self, policy: Policy) -> None:
        """Changes the policy while it runs: the ``timeouts`` of ``Levels``, or the ``weights`` of ``Fair``.

        Waits that are under way count by the new timeouts, and time that is used from now on by the new weights. That
        of ``dispatcher.tasks`` changes the policy of the dispatcher's symbols too.

        Args:
            policy: A policy of the same kind, whose other options are those of ``policy``.

        Raises:
            ConfigurationError: If the kind or another option differs, or a weight is of a group that had none at the
                start. Nothing changes then.
        """
        self._core.change_policy(policy)

    @property
    def dead_letters(self) -> DeadLetters:
        """Tasks that failed after their last retry."""
        return self._core.dead_letters

    def unended(self, limit: int | None = None) -> list[TaskFuture]:
        """Returns the tasks that have not ended, the oldest first.

        Args:
            limit: The greatest number of them; None: all.
        """
        return [task for _, task in sorted(self._core.table.alive.copy().items())[:limit]]

    def unended_task(self, task_id: int) -> TaskFuture | None:
        """Returns a task that has not ended; None if there is none of that id.

        Args:
            task_id: The id of its future.
        """
        return self._core.table.alive.get(task_id)

    def add_alert(self, tell: Callable[[TaskFuture, BaseException], object]) -> None:
        """Calls a function with each task that meets a system error from now on, and the error.

        It is called at once, in the worker, so it should be short. It is called for tasks of any retry policy, beside
        the policy's ``on_alert``. For tasks without a policy the usual types are system errors.

        Args:
            tell: The function. What it raises is logged.
        """
        self._core.states.alerted = (*self._core.states.alerted, tell)

    def remove_alert(self, tell: Callable[[TaskFuture, BaseException], object]) -> None:
        """Calls a function no more that ``add_alert`` was given.

        Args:
            tell: The function.
        """
        states = self._core.states
        states.alerted = tuple(each for each in states.alerted if each != tell)

    def run_coroutines_in(self, loop: AbstractEventLoop | None) -> None:
        """Runs coroutines that begin from now on in an event loop of the program, such as a web server's.

        The scheduler still decides when each begins. The loop has to run until these tasks have ended. In its thread,
        waits without ``await`` raise WouldDeadlockError, as they do in the scheduler's asyncio thread.

        Args:
            loop: The loop, which another thread than the workers runs; None: the scheduler's own asyncio thread again.
        """
        self._core.attempts.coroutines.use(loop)

    def pending_count(self) -> dict[str, int]:
        """Number of tasks that wait, by level under ``Levels``, by class under ``Aging``; empty under other
        policies.

        It counts those that have not begun, delayed and held ones too, and those that wait for a retry. A task that has
        risen by its wait counts in the level to which it has risen. It takes about a microsecond, however many wait.
        """
        return self._core.ranks.by_name(self._core.waiting())

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


def _items(arguments: Any) -> npt.NDArray[Any]:
    """The arguments as an array of shape (n,)."""
    if isinstance(arguments, bytes):
        items = np.frombuffer(arguments, f"V{len(arguments)}") if arguments else np.empty(1, "V0")
    elif isinstance(arguments, np.ndarray) and arguments.ndim == 1 and not arguments.dtype.hasobject:
        items = arguments
    else:
        raise ConfigurationError(
            "arguments", f"a {type(arguments).__name__} is neither bytes nor an array of one dimension without objects"
        )
    if items.itemsize > TASK_BYTES:
        raise ConfigurationError(
            "arguments",
            f"{items.itemsize} bytes for a task, and it copies at most {TASK_BYTES}: give it the address of "
            "what is longer",
        )
    return items


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
