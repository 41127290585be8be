"""The executor's side of tasks: what submits them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from strand.brief import brief
from strand.clock import Deadline
from strand.errors import StoppedError, WouldDeadlockError
from strand.spans import SpanLike, span_ns
from strand.tasks.core import Core
from strand.tasks.future import TaskFuture
from strand.tasks.options import TaskOptions
from strand.tasks.periodic import Periodic
from strand.threads import mended
from strand.validate import seconds

__all__ = ["TaskExecutor"]

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
