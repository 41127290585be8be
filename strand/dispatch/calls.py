"""Code that runs beside the ticks: a dispatcher's tasks, and calls, which are tasks on a symbol's strand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strand.binding.gate import NOT_STARTED, Code
from strand.brief import one_line
from strand.dispatch.routing import Routing
from strand.dispatch.state import FORKED, RunState
from strand.errors import (
    BackpressureError,
    CallTimeoutError,
    ConfigurationError,
    HandlerError,
    QuarantinedError,
    QueueFull,
    StoppedError,
    WouldDeadlockError,
)
from strand.tasks.waits import check_not_in_loop, in_loop, wait_as, waiter_here
from strand.threads import WAITS_FOR_ITSELF, Deadline, Inside
from strand.validate import seconds

if TYPE_CHECKING:
    from strand.output.books import Book, Books
    from strand.output.rows import Rows
    from strand.tasks.core import Core
    from strand.tasks.future import TaskFuture
    from strand.tasks.options import TaskOptions
    from strand.tasks.retry import RetryPolicy
    from strand.tasks.tasks import Tasks


#: Longest single wait of a caller, or of a stop, before it looks how far the run is.
_SLICE_NS: Final = 20_000_000
#: Strands whose options are kept from one call to the next.
_MOST_OPTIONS: Final = 1024


class SymbolView:
    """A symbol as a call finds it, with every tick published before the call handled and none published after it.

    ``symbol`` and ``index`` name it. Valid while the function runs; what ``row`` and the book's methods give are
    copies, which may be kept and returned.
    """

    __slots__ = ("_books", "_rows", "index", "symbol")

    def __init__(self, index: int, symbol: str, rows: Rows, books: Books) -> None:
        self.index = index
        self.symbol = symbol
        self._rows = rows
        self._books = books

    @property
    def row(self) -> np.void:
        """A copy of the symbol's row."""
        return self._rows.at(self.index).copy()

    @property
    def book(self) -> Book:
        """The symbol's order book; a ``DepthBook`` after ``depth``. Raises ConfigurationError where its handler keeps
        none."""
        found: Book = self._books[self.index]
        return found

    def __repr__(self) -> str:
        return one_line(f"<SymbolView of {self.symbol}>")


class RunTasks:
    """The tasks of one dispatcher. They are made when somebody first asks for them. ``retry``: of tasks that are given
    none; None: they fail at once. Raises ConfigurationError for what is no RetryPolicy."""

    def __init__(self, state: RunState, routing: Routing, retry: RetryPolicy | None = None) -> None:
        if retry is not None:
            from strand.tasks.options import check_retry

            check_retry(retry)
        self._state = state
        self._routing = routing
        self._retry = retry
        # Reentrant: a signal handler may submit a call while its thread is here.
        self._lock = threading.RLock()
        #: Threads that make the tasks.
        self._making = Inside()
        self._tasks: Tasks | None = None
        self._core: Core | None = None
        self._call_options: Callable[[int], TaskOptions] | None = None

    def get(self) -> Tasks:
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
            from strand.tasks.core import Core
            from strand.tasks.groups import GroupAccounts
            from strand.tasks.options import Ranks, call_options
            from strand.tasks.pool import Pool
            from strand.tasks.tasks import Tasks

            engine, policy, groups = self._state.engine, self._routing.policy, self._routing.groups
            if groups is not None:
                groups.accounts = GroupAccounts(engine, groups)
            ranks = Ranks(policy, None if groups is None else groups.accounts)
            core = Core(Pool(engine, policy), ranks, timed=engine.config.attachable)
            tasks = Tasks(core, retry=self._retry, strand_of=self._routing.strand_of, key_of=self._state.table.index)
            core.states.name = self._state.name
            core.states.check_outside = self._state.check_outside
            # An interrupt in between leaves no tasks, and the next call makes new ones.
            self._call_options = lru_cache(_MOST_OPTIONS)(partial(call_options, ranks))
            self._core = core
            self._tasks = tasks

    def core(self) -> Core | None:
        """State of the tasks; None: nobody has asked for them yet."""
        return self._core

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
        """True if a task that has not ended runs in this thread. A coroutine runs in a thread beside the workers.
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
        core.shutdown.cancel_waiting(everything=not drain)
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
        core.shutdown.refuse("the dispatcher was stopped: no task can be submitted")

    def end(self) -> None:
        """Ends what the workers left: tells tasks that have not begun, cancels coroutines, and tries none again."""
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
        if core is None or in_loop():
            return
        while not core.table.wait_until_idle(_SLICE_NS / 1e9):
            pass
        core.shutdown.join_threads()


class Calls:
    """The calls of one dispatcher, each a task on its symbol's strand, and its ``tasks``."""

    def __init__(self, state: RunState, routing: Routing, rows: Rows, books: Books, tasks: RunTasks) -> None:
        self.tasks = tasks
        self._state = state
        self._routing = routing
        self._rows = rows
        self._books = books

    def submit(self, symbol: str | int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> TaskFuture:
        """Queues a call. Raises BackpressureError where too many calls wait."""
        if not callable(function):
            raise ConfigurationError("fn", f"{function!r} cannot be called")
        index = self._state.table.index(symbol)
        strand = self._routing.strand_of(index)
        if self._state.closing:
            raise self._state.stopped_error()
        if not self._state.threads:
            raise StoppedError(NOT_STARTED)
        self._refuse_quarantined(index)
        try:
            return self.tasks.submit_on(strand, self._run, (index, function, arguments))
        except StoppedError:
            raise self._state.stopped_error() from None
        except QueueFull:
            raise BackpressureError(
                f"{self._state.engine.config.n_tasks:,} calls or more wait for their strands: wait for some answers "
                "first"
            ) from None

    def _run(self, index: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Runs a call, on its strand. Raises StoppedError where nobody holds the dispatcher any more."""
        try:
            if self._state.dropped:
                raise self._state.stopped_error()
            return function(SymbolView(index, self._state.table.name(index), self._rows, self._books), *arguments)
        finally:
            function = arguments = None  # type: ignore[assignment]  # the error's traceback holds them

    def call(
        self, symbol: str | int, function: Callable[..., Any], arguments: tuple[Any, ...], timeout_s: float | None
    ) -> Any:
        """Queues a call and waits for its answer."""
        check_not_in_loop("call")
        self._state.check_outside("call", "use submit_call")
        deadline = Deadline(seconds("timeout_s", timeout_s))
        future = self.submit(symbol, function, arguments)
        try:
            wait_as(*waiter_here(), future, lambda: self._wait_for_answer(symbol, future, deadline, timeout_s))
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def _wait_for_answer(
        self, symbol: str | int, future: TaskFuture, deadline: Deadline, timeout_s: float | None
    ) -> None:
        index = self._state.table.index(symbol)
        name = self._state.table.name(index)
        while not future.wait(deadline.slice_ns(_SLICE_NS) / 1e9):
            if deadline.has_passed():
                if future.cancel():
                    raise CallTimeoutError(f"the call to {name} was given up after {timeout_s} s", False)
                if not future.done():
                    raise CallTimeoutError(f"the call to {name} still runs after {timeout_s} s", True)
            elif not future.running():
                self._refuse_quarantined(index, future)

    def _refuse_quarantined(self, index: int, future: TaskFuture | None = None) -> None:
        """Raises where the strand is quarantined, and the call, if there is one yet, could be given up."""
        strand = self._routing.strand_of(index)
        if not self._state.engine.strands.inspect(strand).quarantined or (future is not None and not future.cancel()):
            return
        if self._state.engine.config.on_error == "stop":
            raise self._state.stopped_error()
        name = self._state.table.name(index)
        error = QuarantinedError(
            f"{name}: its strand is quarantined because a handler failed; release({name!r}) lets it continue"
        )
        error.__cause__ = next((f for f in self._state.failures if self._strand_of_failure(f) == strand), None)
        raise error

    def _strand_of_failure(self, failure: HandlerError) -> int | None:
        key = self._state.table.find(failure.symbol)  # a basket's failure names none
        return None if key is None else self._routing.strand_of(key)
