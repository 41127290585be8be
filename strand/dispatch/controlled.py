"""Control of single strands: a dispatcher calls functions on them, holds them back, and looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import StrandInspection
from strand.dispatch.calls import CallFuture, SymbolView
from strand.dispatch.engine_run import EngineRun

__all__ = ["ControlledRun"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class ControlledRun(EngineRun):
    """A run with the methods of the Dispatcher that are about strands, and not about its ticks or threads."""

    # ---- calls

    def call(
        self, symbol: str | int, fn: Callable[[SymbolView, *Ts], R], *args: *Ts, timeout_s: float | None = None
    ) -> R:
        """Runs ``fn(view, *args)`` on the symbol's strand, in order with its ticks, and returns what it returns.

        It runs after all ticks published before the call and before any published after it, while nothing else of the
        strand runs: ``dispatcher.call("AAPL", lambda view: view.book.bids(5))``. A worker runs it, so it should be
        short. It may publish, as a handler may. It may be called from any thread. A paused strand answers when it is
        resumed.

        Args:
            symbol: Its name or index.
            fn: Called with a ``SymbolView``, which has ``row``, ``book``, ``symbol`` and ``index``. Its exceptions are
                raised here.
            *args: More arguments of ``fn``.
            timeout_s: How many seconds to wait at most. None waits without end.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
            CallTimeoutError: After ``timeout_s``.
            QuarantinedError: If the strand is set aside because a handler failed.
            WouldDeadlockError: Inside a handler, and in a task or call that it would wait for.
            HandlerError: If a handler's failure has stopped the run.
            StoppedError: After a stop, and if no worker was ever started.
            BackpressureError: If too many calls wait already.
        """
        answer: R = self._calls.call(symbol, fn, args, timeout_s)
        return answer

    def submit_call(self, symbol: str | int, fn: Callable[[SymbolView, *Ts], R], *args: *Ts) -> CallFuture[R]:
        """Does what ``call`` does without waiting, and returns a ``concurrent.futures.Future`` of the answer.

        It may be called inside handlers too. There ``result()`` of the future does not wait, but raises
        WouldDeadlockError: give the future an ``add_done_callback``.

        ``cancel()`` of the future gives the call up unless it has begun. A stop ends it with StoppedError, or with
        HandlerError if a handler's failure stopped the run. On a strand that is paused, or quarantined meanwhile, it
        waits.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
            QuarantinedError: If the strand is set aside because a handler failed.
            HandlerError: If a handler's failure has stopped the run.
            StoppedError: After a stop, and if no worker was ever started.
            BackpressureError: If too many calls wait already.
        """
        return self._calls.submit(symbol, fn, args)

    # ---- strands

    def pause(self, symbol: str | int) -> None:
        """Holds back the symbol's strand, from the end of the visit under way.

        Symbols that share the strand are held back with it. Its ticks queue up to its bound.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        self._control.pause(symbol)

    def resume(self, symbol: str | int) -> None:
        """Lets a paused strand go on.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        self._control.resume(symbol)

    def release(self, symbol: str | int) -> None:
        """Lets a quarantined strand go on, after the tick that its handler failed on.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        self._control.release(symbol)

    def prioritise(self, symbol: str | int, priority: Any, *, for_backlog: bool = False) -> None:
        """Gives a symbol another priority of the policy, and its strand the highest of its symbols, at once.

        Under ``Levels`` its wait in the new level begins then.

        Args:
            symbol: Its name or index.
            priority: A priority, as ``priorities=`` takes it.
            for_backlog: Raise the strand only until nothing of it is pending. A priority below its own changes nothing.

        Raises:
            ConfigurationError: If the policy does not have that priority.
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        self._control.prioritise(symbol, priority, for_backlog=for_backlog)

    def regroup(self, symbol: str | int, group: str) -> None:
        """Moves a symbol to another group, under ``Fair``, and with it the symbols that share its strand.

        The old group keeps the on-CPU time that was charged before.

        Args:
            symbol: Its name or index.
            group: A name in ``groups=`` or ``weights=``, or of a symbol that was a group of its own at the start.

        Raises:
            ConfigurationError: If there is no such group, or the policy has none.
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        self._control.regroup(symbol, group)

    def strand_of(self, symbol: str | int) -> int:
        """Returns the number of the strand that a symbol belongs to.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        return self._control.strand_of(symbol)

    def inspect(self, symbol: str | int) -> StrandInspection:
        """Returns the counts and the state of the symbol's strand.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        return self._control.inspect(symbol)

    def time_handlers(self) -> None:
        """Keeps the time that handlers take, for ``handler_times``. Call it before the start.

        Raises:
            MemoryError: If there is no memory for the times.
        """
        self._engine.time_strands()

    def handler_times(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Returns by symbol how many ns its handler took, and for how many ticks; both of shape (n_symbols,), u8.

        Both are 0 where that is not known: of symbols that share a strand, of ticks that a publisher handled, and
        without ``time_handlers``.
        """
        return self._control.handler_times()

    # ---- looking on

    @property
    def memory_fd(self) -> int:
        """The descriptor of the file that its memory lies over, for ``strand.attach(fd=...)``.

        Hand it to the process that attaches. It stays the dispatcher's, which closes it.

        Raises:
            ConfigurationError: Without ``attachable=True``.
        """
        return self._control.memory_fd()

    def read_if_quiescent(self, index: int, columns: Iterable[npt.NDArray[Any]]) -> list[Any] | None:
        """Returns a symbol's values in columns of ``rows`` after all ticks published, which belong together.

        Only the one thread that publishes may call it.

        Args:
            index: The symbol's index.
            columns: Arrays of shape (n_symbols,), such as ``rows.array["price"]``.

        Returns:
            One value per column; None if ticks of the symbol's strand are pending.
        """
        return self._control.read_if_quiescent(index, columns)

    def counters_reader(self) -> Callable[[], npt.NDArray[np.uint64]]:
        """Returns a function that reads every participant's counters, much cheaper than ``statistics()``.

        It returns one array of shape (participants, fields), u8, workers first. ``COUNTERS`` of
        strand.binding.engine_words names the fields.
        """
        return self._engine.counters_reader()
