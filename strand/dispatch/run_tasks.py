"""The part of a dispatcher for tasks: functions that its workers run beside the ticks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from strand.binding.gate import NOT_STARTED, Code
from strand.clock import Deadline
from strand.dispatch.control import Control
from strand.dispatch.routing import Priorities
from strand.dispatch.state import FORKED, RunState
from strand.errors import WouldDeadlockError
from strand.tasks.waits import IN_LOOP, numbered
from strand.threads import WAITS_FOR_ITSELF, Inside

if TYPE_CHECKING:
    from strand.tasks.engine_pool import EngineTasks
    from strand.tasks.future import TaskFuture
    from strand.tasks.options import TaskOptions
    from strand.tasks.retry import RetryPolicy
    from strand.tasks.tasks import Core

__all__ = ["RunTasks"]

#: Longest single wait of a stop for tasks to end.
_SLICE_NS = 20_000_000
#: Strands whose options are kept from one call to the next.
_MOST_OPTIONS: Final = 1024


class RunTasks:
    """The tasks of one dispatcher. They are made when somebody first asks for them. ``retry``: of tasks that are given
    none; None: they fail at once. Raises ConfigurationError for what is no RetryPolicy."""

    def __init__(
        self, state: RunState, control: Control, priorities: Priorities, retry: RetryPolicy | None = None
    ) -> None:
        if retry is not None:
            from strand.tasks.options import check_retry

            check_retry(retry)
        self._state = state
        self._control = control
        self._priorities = priorities
        self._retry = retry
        # Reentrant: a signal handler may submit a call while its thread is here.
        self._lock = threading.RLock()
        #: Threads that make the tasks.
        self._making = Inside()
        self._tasks: EngineTasks | None = None
        self._core: Core | None = None
        self._call_options: Callable[[int], TaskOptions] | None = None

    def get(self) -> EngineTasks:
        """See ``Dispatcher.tasks``. Raises WouldDeadlockError in a signal handler that interrupts the first call."""
        if self._tasks is None:
            me = threading.get_ident()
            if self._making.here:
                raise WouldDeadlockError(
                    f"tasks: {WAITS_FOR_ITSELF}: ask for dispatcher.tasks once before a signal may come"
                )
            try:
                self._making.threads.append(me)
                self._make()
            finally:
                self._making.threads.remove(me)
        core, tasks = self._core, self._tasks
        assert core is not None
        assert tasks is not None
        with self._lock:
            if self._state.forked:
                core.table.is_fork, core.table.refusal = True, core.table.refusal or FORKED
            elif not self._state.threads:
                core.table.refusal = NOT_STARTED
            elif core.table.refusal == NOT_STARTED:
                core.table.refusal = None
            if self._state.closing:
                self._refuse(core)
        return tasks

    def _make(self) -> None:
        with self._lock:
            if self._tasks is not None:
                return
            # Only now: they import asyncio and more, which a replay without tasks does not need.
            from strand.tasks.engine_pool import EnginePool, EngineTasks, core_of
            from strand.tasks.groups import GroupAccounts
            from strand.tasks.options import Ranks, call_options

            engine, policy, groups = self._state.engine, self._priorities.policy, self._priorities.groups
            if groups is not None:
                groups.accounts = GroupAccounts(engine, groups)
            ranks = Ranks(policy, None if groups is None else groups.accounts)
            tasks = EngineTasks(
                EnginePool(engine, policy),
                ranks,
                retry=self._retry,
                strand_of=self._control.strand_of,
                key_of=self._state.table.index,
            )
            core = core_of(tasks)
            core.states.name = numbered("dispatcher")
            core.states.check_outside = self._state.check_outside
            # An interrupt in between leaves no tasks, and the next call makes new ones.
            self._call_options = lru_cache(_MOST_OPTIONS)(partial(call_options, ranks))
            self._core = core
            self._tasks = tasks

    def submit_on(self, strand: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> TaskFuture:
        """Submits a call, which belongs to no group and is not tried again. A stop does not cancel it, but ends it with
        ``RunState.stopped_error``. Raises QueueFull and StoppedError."""
        self.get()
        assert self._core is not None
        assert self._call_options is not None
        return self._core.submit(self._call_options(strand), function, arguments, {})

    def run(self, tag: int) -> None:
        """Runs a task in a worker. An unknown tag is ignored, as that of a cancelled task is."""
        if self._tasks is not None:
            self._tasks.run(tag)

    @property
    def waiting(self) -> int:
        """Number of tasks that have not ended."""
        return 0 if self._core is None else len(self._core.table.alive)

    @property
    def here(self) -> bool:
        """True if a task that has not ended runs in this thread: a coroutine does so in a thread that is no worker.
        True also if this call interrupts a submit of tasks in C."""
        core = self._core
        return core is not None and (core.waits_for_here() is not None or core.table.submitting.here)

    def begin_end(self, *, drain: bool, timeout_s: float | None) -> bool:
        """A stop begins: no task can be submitted any more, and those that are delayed, held, or wait for a retry are
        cancelled. ``drain``: waits until the others have ended; else they are cancelled too. False: ``timeout_s`` was
        over before."""
        core = self._core
        if core is None:
            return True
        self._refuse(core)
        core.cancel_waiting(everything=not drain)
        deadline = Deadline(timeout_s)
        while drain and not self._state.engine.stopping:
            if core.table.wait_until_idle(deadline.slice_ns(_SLICE_NS) / 1e9) or self._only_held(core):
                return True
            if deadline.has_passed():
                return False
        return True

    def _only_held(self, core: Core) -> bool:
        """Tells whether all tasks that are left wait on strands that are paused or quarantined."""
        if core.table.submitting.threads:
            return False
        tasks = core.table.alive.copy().values()
        waits = all(task._options.strand is not None and task.state == "waiting" for task in tasks)
        return waits and self._state.engine.drain(None, 0) == Code.OK

    @staticmethod
    def _refuse(core: Core) -> None:
        core.refuse("the dispatcher was stopped: no task can be submitted")

    def end(self) -> None:
        """No worker runs any more: tasks that have not begun are told, coroutines are cancelled, and none is tried
        again."""
        if self._tasks is None or self._core is None:
            return
        self._refuse(self._core)
        self._core.table.cancels_all = True
        for tag, task in self._core.table.alive.copy().items():
            if task._options.is_call:
                self._core.states.end_unbegun(task, "dropped", self._state.stopped_error())
            else:
                self._tasks.drop(tag, "the dispatcher was stopped")
        self._core.attempts.coroutines.cancel()

    def join(self) -> None:
        """Ends the tasks that are left, after the workers have ended. Waits for coroutines and their thread, unless it
        is called in that thread."""
        self.end()
        core = self._core
        if core is None or IN_LOOP.here:
            return
        while not core.table.wait_until_idle(_SLICE_NS / 1e9):
            pass
        core.join_threads()
