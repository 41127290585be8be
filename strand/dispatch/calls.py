"""The part of a dispatcher for functions that run on a symbol's strand, between two of its ticks."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
    StoppedError,
    WouldDeadlockError,
)
from strand.tasks.places import Seat, seat_here
from strand.tasks.waits import Waiter, check_not_in_loop, wait_as, waiter_here
from strand.threads import WAITS_FOR_ITSELF, Bell, interrupts
from strand.validate import seconds

if TYPE_CHECKING:
    from strand.output.books import Book, Books
    from strand.output.rows import Rows

__all__ = ["CallFuture", "Calls", "SymbolView"]

R = TypeVar("R")

#: Longest single wait of a caller before it checks that the run still goes on.
SLICE_NS = 20_000_000
#: The first tag of a call. Tasks have those below.
_FIRST: Final = 1 << 62
#: Logger in which Future reports a callback's exception.
_log = logging.getLogger("concurrent.futures")


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


class CallFuture(Future[R]):
    """The answer of a call to come: a ``concurrent.futures.Future`` which asyncio awaits.

    ``cancel()`` gives the call up unless it has begun. ``symbol`` is the one it is about. ``result()`` and
    ``exception()`` wait as within ``strand.blocking()`` in a task or another call. They raise WouldDeadlockError where
    they would wait inside a handler, or for what waits for them: use ``add_done_callback`` there, or look for
    ``done()`` later.
    """

    #: See ``Waiter``.
    waits_for: Waiter | None = None

    def __init__(self, calls: Calls, tag: int, symbol: str, strand: int) -> None:
        super().__init__()
        self._condition = Bell()  # type: ignore[assignment]  # of which CPython's code takes the lock and notify_all
        self.symbol = symbol
        self._strand = strand
        #: The engine's tag for it, once it is enqueued.
        self.handle = 0
        self._calls = calls
        self._tag = tag

    def __repr__(self) -> str:
        state = "running" if self.running() else "pending"
        if self.done():
            state = "cancelled" if self.cancelled() else "done"
        return one_line(f"<CallFuture of {self.symbol}: {state}>")

    def cancel(self) -> bool:
        """Gives the call up. False: it runs already, or is done."""
        if not super().cancel():
            return False
        self._calls.forget(self._tag)
        return True

    def result(self, timeout: float | None = None) -> R:
        """Returns the result of the call, or raises its exception; waits for it as ``Future.result`` does."""
        found: R = self._calls.wait_for(self, timeout, super().result)
        return found

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the exception of the call, None where it returned; waits for it as ``Future.exception`` does."""
        found: BaseException | None = self._calls.wait_for(self, timeout, super().exception)
        return found

    def wait(self, timeout: float | None) -> bool:
        """Waits for the end, so many seconds at most, and wherever an interrupt comes: whether it is there."""
        bell: Bell = self._condition  # type: ignore[assignment]
        return bell.wait_for(self.done, timeout)

    def __await__(self) -> Generator[Any, None, Any]:
        """Awaits the result in asyncio. If the await is cancelled, so is the call, unless it has begun. Raises
        WouldDeadlockError in a coroutine of a scheduler for which this call waits."""
        from strand.tasks.groups import awaited  # whose asyncio is there where somebody awaits

        return awaited(self)

    # -- for who looks for circles of waits

    def in_words(self) -> str:
        """See ``Waiter``."""
        return f"the call to {self.symbol}"

    def home(self) -> str:
        """See ``Waiter``."""
        return self._calls.tasks.name

    def ahead(self) -> Waiter | None:
        """See ``Waiter``."""
        return self._calls.tasks.waits_on.get(self._strand)

    def holds(self) -> tuple[dict[int, Waiter], int]:
        """See ``Waiter``."""
        return self._calls.tasks.waits_on, self._strand


class Calls:
    """The calls of one dispatcher that are under way, by the tag the engine knows each by, and its ``tasks``."""

    def __init__(self, state: RunState, control: Control, rows: Rows, books: Books, tasks: RunTasks) -> None:
        self.tasks = tasks
        self._state = state
        self._control = control
        self._rows = rows
        self._books = books
        self._engine = state.engine
        self._inside = state.inside
        self._tags = itertools.count(_FIRST)
        self._waiting: dict[int, tuple[CallFuture[Any], int, Callable[..., Any], tuple[Any, ...]]] = {}

    def submit(
        self,
        symbol: str | int,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> CallFuture[Any]:
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
        tag = next(self._tags)
        future: CallFuture[Any] = CallFuture(self, tag, self._state.table.name(index), strand)
        self._waiting[tag] = (future, index, function, arguments)
        try:
            handle = self._engine.tasks.enqueue(strand, tag)
        except BaseException as error:
            self._waiting.pop(tag, None)
            if isinstance(error, StoppedError):
                raise self._state.stopped_error() from None
            raise
        if handle is None:
            self._waiting.pop(tag, None)
            raise BackpressureError(
                f"{self._engine.config.n_tasks:,} calls or more wait for their strands: wait for some answers first"
            )
        future.handle = handle
        # A stop in between may have found nothing to tell.
        if self._engine.stopping and self._waiting.pop(tag, None) is not None:
            raise self._state.stopped_error()
        return future

    def call(
        self, symbol: str | int, function: Callable[..., Any], arguments: tuple[Any, ...], timeout_s: float | None
    ) -> Any:
        """Queues a call and waits for its answer."""
        seat, waiter = self._place_of_wait("call", f"call: {WAITS_FOR_ITSELF}: use submit_call")
        deadline = Deadline(seconds("timeout_s", timeout_s))
        future = self.submit(symbol, function, arguments)
        try:
            wait_as(seat, waiter, future, lambda: self._wait_for_answer(symbol, future, deadline, timeout_s))
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def _wait_for_answer(
        self, symbol: str | int, future: CallFuture[Any], deadline: Deadline, timeout_s: float | None
    ) -> None:
        me = threading.get_ident()
        try:
            # It holds locks of the future, which a worker needs to answer.
            self._inside.threads.append(me)
            while not future.wait(deadline.slice_ns(SLICE_NS) / 1e9):
                if deadline.has_passed():
                    if future.cancel():
                        raise CallTimeoutError(f"the call to {future.symbol} was given up after {timeout_s} s", False)
                    if not future.done():
                        raise CallTimeoutError(f"the call to {future.symbol} still runs after {timeout_s} s", True)
                elif not future.running():
                    self._refuse_quarantined(self._state.table.index(symbol), future)
        finally:
            self._inside.threads.remove(me)

    def wait_for(self, future: CallFuture[Any], timeout: float | None, ask: Callable[[float | None], Any]) -> Any:
        """Returns the result of ``ask`` with the timeout, unless a wait for the future would be a wait of the call for
        itself."""
        if not future.done() and ((timeout := seconds("timeout", timeout)) is None or timeout > 0):
            words = future.in_words()
            refusal = f"{words}: {WAITS_FOR_ITSELF}: use add_done_callback, or look for done() later"
            return wait_as(*self._place_of_wait(words, refusal), future, lambda: self._ask(future, timeout, ask))
        return self._ask(future, timeout, ask)

    def _ask(self, future: CallFuture[Any], timeout: float | None, ask: Callable[[float | None], Any]) -> Any:
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            if not future.wait(timeout):
                raise TimeoutError
            return ask(0)
        finally:
            self._inside.threads.remove(me)

    def _place_of_wait(self, words: str, refusal: str) -> tuple[Seat | None, Waiter | None]:
        """``waiter_here`` for a wait, for what ``words`` say. Raises WouldDeadlockError where the thread is inside in
        another way, as a handler is, and in one that runs coroutines."""
        check_not_in_loop(words)
        seat, waiter = waiter_here()
        times_inside = self._inside.threads.count(threading.get_ident())
        if seat is not None and waiter is not None:
            times_inside -= any(thread.is_here for thread in self._state.threads)
        if times_inside:
            raise WouldDeadlockError(refusal)
        return seat, waiter

    def run(self, tag: int) -> None:
        """Runs a task, or a call of the strand that the calling worker holds, unless it was given up, or nobody holds
        the dispatcher."""
        if tag < _FIRST:
            self.tasks.run(tag)
            return
        found = self._waiting.pop(tag, None)
        if found is None:
            return
        future, index, function, arguments = found
        try:
            self._run(future, index, function, arguments)
        except BaseException as error:  # from outside of the function
            if not future.done():
                _answer(future.set_exception, error)
            elif interrupts(error):
                raise
        finally:
            found = future = function = arguments = None  # type: ignore[assignment]  # the error's traceback holds them

    def _run(
        self, future: CallFuture[Any], index: int, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        if not future.set_running_or_notify_cancel():
            return
        if self._state.dropped:
            _answer(future.set_exception, self._state.stopped_error())
            return
        seat = seat_here()
        if seat is not None:
            seat.call = future
        try:
            answer = function(SymbolView(index, self._state.table.name(index), self._rows, self._books), *arguments)
        except BaseException as error:
            _answer(future.set_exception, error)
        else:
            _answer(future.set_result, answer)
        finally:
            if seat is not None:
                seat.call = None
            function = arguments = None  # type: ignore[assignment]  # the error's traceback holds them
            del future

    def forget(self, tag: int) -> None:
        """A call that was cancelled."""
        if found := self._waiting.pop(tag, None):
            self._engine.tasks.give_up(found[0].handle)

    def end(self) -> None:
        """Nothing runs any more: those that wait are told, and tasks too."""
        self.tasks.end()
        for tag in list(self._waiting):
            found = self._waiting.pop(tag, None)
            if found is None:
                continue
            future = found[0]
            if future.set_running_or_notify_cancel():
                _answer(future.set_exception, self._state.stopped_error())

    def _refuse_quarantined(self, index: int, future: CallFuture[Any] | None = None) -> None:
        """Raises where the strand is quarantined, and the call, if there is one yet, could be given up."""
        if not self._control.inspect(index).quarantined or (future is not None and not future.cancel()):
            return
        if self._engine.config.on_error == "stop":
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


def _answer(tell: Callable[[Any], None], answer: Any) -> None:
    """Answers a future, whose callbacks run here: what one raises that is no Exception is logged as Exceptions are."""
    try:
        tell(answer)
    except BaseException as error:
        if interrupts(error):
            raise
        _log.exception("exception calling callback")
