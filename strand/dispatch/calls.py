"""The part of a dispatcher for functions that run on a symbol's strand, between two of its ticks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strand.binding.gate import NOT_STARTED
from strand.brief import one_line
from strand.clock import Deadline
from strand.dispatch.control import Control
from strand.dispatch.run_tasks import RunTasks
from strand.dispatch.state import RunState
from strand.errors import (
    BackpressureError,
    CallTimeoutError,
    ConfigurationError,
    HandlerError,
    QuarantinedError,
    QueueFull,
    StoppedError,
)
from strand.tasks.waits import check_not_in_loop, wait_as, waiter_here
from strand.validate import seconds

if TYPE_CHECKING:
    from strand.output.books import Book, Books
    from strand.output.rows import Rows
    from strand.tasks.future import TaskFuture

__all__ = ["Calls", "SymbolView"]

#: Longest single wait of a caller before it checks that the run still goes on.
SLICE_NS: Final = 20_000_000


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


class Calls:
    """The calls of one dispatcher, each a task on its symbol's strand, and its ``tasks``."""

    def __init__(self, state: RunState, control: Control, rows: Rows, books: Books, tasks: RunTasks) -> None:
        self.tasks = tasks
        self._state = state
        self._control = control
        self._rows = rows
        self._books = books

    def submit(self, symbol: str | int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> TaskFuture:
        """Queues a call. Raises BackpressureError where too many calls wait."""
        if not callable(function):
            raise ConfigurationError("fn", f"{function!r} cannot be called")
        index = self._state.table.index(symbol)
        strand = self._control.strand_of(index)
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
        while not future.wait(deadline.slice_ns(SLICE_NS) / 1e9):
            if deadline.has_passed():
                if future.cancel():
                    raise CallTimeoutError(f"the call to {name} was given up after {timeout_s} s", False)
                if not future.done():
                    raise CallTimeoutError(f"the call to {name} still runs after {timeout_s} s", True)
            elif not future.running():
                self._refuse_quarantined(index, future)

    def run(self, tag: int) -> None:
        """Runs a task or call in a worker."""
        self.tasks.run(tag)

    def end(self) -> None:
        """Nothing runs any more: calls and tasks that wait are told."""
        self.tasks.end()

    def _refuse_quarantined(self, index: int, future: TaskFuture | None = None) -> None:
        """Raises where the strand is quarantined, and the call, if there is one yet, could be given up."""
        if not self._control.inspect(index).quarantined or (future is not None and not future.cancel()):
            return
        if self._state.engine.config.on_error == "stop":
            raise self._state.stopped_error()
        name, strand = self._state.table.name(index), self._control.strand_of(index)
        error = QuarantinedError(
            f"{name}: its strand is quarantined because a handler failed; release({name!r}) lets it continue"
        )
        error.__cause__ = next((f for f in self._state.failures if self._strand_of_failure(f) == strand), None)
        raise error

    def _strand_of_failure(self, failure: HandlerError) -> int | None:
        key = self._state.table.find(failure.symbol)  # a basket's failure names none
        return None if key is None else self._control.strand_of(key)
