"""A dispatcher's strands held back, let go and looked at, and what it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand._bindings.engine import Engine
from strand._bindings.engine_words import PAUSED, QUARANTINED, StrandLook
from strand.engine_statistics import statistics_of
from strand.errors import HandlerError
from strand.failures import failures_of
from strand.order_watch import OrderWatch
from strand.run_view import RunView
from strand.stats import Statistics

if TYPE_CHECKING:
    from strand.handlers import Handler
    from strand.python_handlers import PythonHandlers
    from strand.routing import Routing

__all__ = ["StrandsView"]


class StrandsView(RunView):
    """The part of a dispatcher that is for its strands, and for looking on: nothing here publishes, drains or stops."""

    _engine: Engine
    _routing: Routing
    _python: PythonHandlers
    _handlers: list[Handler]
    _look: Any
    _workers: int
    _cores: Sequence[int | None] | None
    _orders: OrderWatch
    _unpinned: str | None = None
    _abandoned: int

    # ---- strands

    def pause(self, symbol: str | int) -> None:
        """Holds back the symbol's strand, and with it the symbols that share it, from the end of the visit under way;
        its ticks queue up to its bound."""
        self._engine.hold(self.strand_of(symbol), PAUSED)

    def resume(self, symbol: str | int) -> None:
        """Lets a paused strand go on."""
        self._engine.resume(self.strand_of(symbol), PAUSED)

    def release(self, symbol: str | int) -> None:
        """Lets a quarantined strand go on, after the tick its handler failed on."""
        self._engine.resume(self.strand_of(symbol), QUARANTINED)

    def strand_of(self, symbol: str | int) -> int:
        """The number of the strand a symbol belongs to."""
        return int(self._routing.by_counts(None)[self._table.index(symbol)])

    def look(self, symbol: str | int) -> StrandLook:
        """The books of the symbol's strand."""
        return self._engine.look(self.strand_of(symbol))

    def time_handlers(self) -> None:
        """To be called before the start: keeps the time that handlers take, for ``handler_times``."""
        self._engine.time_strands()

    def handler_times(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """By symbol, shape (n_symbols,): ns that its handler took, and the ticks that this was for.

        Both are 0 where that is not known: of symbols that share a strand, of ticks that a publisher handled itself,
        and without ``time_handlers``.
        """
        if not self._routing.is_known:
            return np.zeros(len(self._table), np.uint64), np.zeros(len(self._table), np.uint64)
        strand_of = self._routing.by_counts(None)
        ns, ticks = self._engine.strand_times()
        alone = np.bincount(strand_of, minlength=len(ns)) == 1
        return np.where(alone, ns, 0)[strand_of], np.where(alone, ticks, 0)[strand_of]

    # ---- looking on

    @property
    def workers(self) -> int:
        return self._workers

    @property
    def n_strands(self) -> int:
        return self._engine.config.n_strands

    @property
    def failures(self) -> list[HandlerError]:
        """The first failures of handlers (64 at most), in the order they happened."""
        return failures_of(self._engine, self._table, self._handlers, self._python.causes)

    def watermark(self) -> int:
        """Every record whose place in the order of publishing is below this has been handled or dropped."""
        return self._engine.watermark()

    def statistics(self) -> Statistics:
        """Totals since the start; see Statistics."""
        return statistics_of(self._engine, self._cores, self._abandoned, self._unpinned, self._orders.count)

    def read_at_rest(self, index: int, columns: Iterable[npt.NDArray[Any]]) -> list[Any] | None:
        """The values of a symbol in columns of ``rows``, while it runs; None where ticks of its strand are pending.

        For the only thread that publishes. Pending is counted down after the handler's last write, which reading it as
        0 makes visible here, and what this thread does not publish meanwhile nobody handles: so the values belong
        together, and are those after all ticks published. A handler that publishes is seen by what the strand has
        accepted since: None then, too.
        """
        strand = self.strand_of(index)
        before = self._engine.accepted_at_rest(strand, self._look)
        if before is None:
            return None
        values = [column[index] for column in columns]
        return values if self._engine.accepted_at_rest(strand, self._look) == before else None

    def counters_reader(self) -> Callable[[], npt.NDArray[np.uint64]]:
        """What reads every slot's counters, for who looks often: much cheaper than ``statistics()``. It fills one array
        of shape (slots, fields): workers in their order, then publishers; fields as ``COUNTERS`` of
        strand._bindings.engine_words names them."""
        return self._engine.counters_reader()

    def check(self) -> None:
        """Checks the contract's books at rest, for tests and tools. Raises EngineError where they do not balance."""
        self._engine.check()
