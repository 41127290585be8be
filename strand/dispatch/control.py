"""The part of a dispatcher that holds strands back, lets them go, and looks at them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import PAUSED, QUARANTINED, StrandInspection
from strand.dispatch.routing import Priorities, Routing
from strand.dispatch.state import RunState
from strand.errors import ConfigurationError

__all__ = ["Control"]


class Control:
    """Asks the engine about the strand of a symbol. Its methods are those of the Dispatcher."""

    def __init__(self, state: RunState, routing: Routing, priorities: Priorities) -> None:
        self._engine = state.engine
        self._table = state.table
        self._routing = routing
        self._priorities = priorities
        self._inspection = state.engine.new_inspection()

    def pause(self, symbol: str | int) -> None:
        self._engine.hold(self.strand_of(symbol), PAUSED)

    def resume(self, symbol: str | int) -> None:
        self._engine.resume(self.strand_of(symbol), PAUSED)

    def release(self, symbol: str | int) -> None:
        self._engine.resume(self.strand_of(symbol), QUARANTINED)

    def prioritise(self, symbol: str | int, priority: Any, *, for_backlog: bool) -> None:
        index = self._table.index(symbol)
        self._priorities.change(index, priority, self._routing.by_counts(None), for_backlog=for_backlog)

    def regroup(self, symbol: str | int, group: str) -> None:
        self._priorities.regroup(self._table.index(symbol), group, self._routing.by_counts(None))

    def strand_of(self, symbol: str | int) -> int:
        return int(self._routing.by_counts(None)[self._table.index(symbol)])

    def inspect(self, symbol: str | int) -> StrandInspection:
        return self._engine.inspect(self.strand_of(symbol))

    def handler_times(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        if not self._routing.is_known:
            return np.zeros(len(self._table), np.uint64), np.zeros(len(self._table), np.uint64)
        strand_of = self._routing.by_counts(None)
        ns, ticks = self._engine.strand_times()
        alone = np.bincount(strand_of, minlength=len(ns)) == 1
        return np.where(alone, ns, 0)[strand_of], np.where(alone, ticks, 0)[strand_of]

    def memory_fd(self) -> int:
        if not self._engine.config.attachable:
            raise ConfigurationError("memory_fd", "the dispatcher's memory is private; make it with attachable=True")
        return self._engine.space.fd

    def read_if_quiescent(self, index: int, columns: Iterable[npt.NDArray[Any]]) -> list[Any] | None:
        # Pending is counted down after the handler's last write, which reading it as 0 makes visible here, and what
        # this thread does not publish meanwhile nobody handles. A handler that publishes is seen by what the strand has
        # accepted since.
        strand = self.strand_of(index)
        before = self._engine.accepted_if_quiescent(strand, self._inspection)
        if before is None:
            return None
        values = [column[index] for column in columns]
        return values if self._engine.accepted_if_quiescent(strand, self._inspection) == before else None
