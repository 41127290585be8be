"""The priority and the marks of each symbol, and so of each strand."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.errors import ConfigurationError
from strand.policies.fair import Groups, groups_of
from strand.policies.policy import Policy
from strand.symbols import SymbolTable
from strand.validate import path, yes_or_no

__all__ = ["Priorities", "kinds_of", "priorities_of", "ranks_of"]


def priorities_of(policy: Policy, table: SymbolTable, given: Mapping[str, Any] | None) -> npt.NDArray[np.uint32]:
    """The priority of each symbol as the core has it, shape (n_symbols,). Raises ConfigurationError where the policy
    has none, or for a priority that it does not have, and UnknownSymbolError."""
    found = np.full(len(table), policy.usual_priority or 0, np.uint32)
    if given is None or given == {}:
        return found
    if not isinstance(given, Mapping):
        raise ConfigurationError("priorities", f"{type(given).__name__} is not a dict of priorities by symbol")
    if policy.usual_priority is None:
        policy.priority_of("priorities", None)
    named = dict(given)
    if "*" in named:
        found[:] = policy.priority_of("priorities.*", named.pop("*"))
    for symbol, priority in named.items():
        found[table.index(symbol)] = policy.priority_of(path("priorities", symbol), priority)
    return found


def ranks_of(
    policy: Policy, table: SymbolTable, priorities: Mapping[str, Any] | None, groups: Mapping[str, str] | None
) -> tuple[npt.NDArray[np.uint32], Groups | None]:
    """The priority of each symbol, shape (n_symbols,), which under Fair is the number of its group, and the groups.
    Warns of weights that seem to be misspelt. Raises what ``priorities_of`` and ``groups_of`` raise."""
    found, grouped = priorities_of(policy, table, priorities), groups_of(policy, table, groups)
    if grouped is None:
        return found, None
    for name, near in grouped.misspelt.items():
        warnings.warn(
            f"weights: no symbol is in the group {name!r}: did you mean {near!r}?", RuntimeWarning, stacklevel=4
        )
    return grouped.of_symbol, grouped


class Priorities:
    """``priorities``: of each symbol, shape (n_symbols,); they change here. ``marks``: of each symbol, a set
    of bits, likewise. ``groups``: under Fair, whose numbers are the priorities then."""

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        priorities: npt.NDArray[np.uint32],
        marks: npt.NDArray[np.uint8],
        groups: Groups | None = None,
    ) -> None:
        self.groups = groups
        self.policy = policy
        self._engine = engine
        self._priorities = priorities
        self._marks = marks
        self._lock = threading.Lock()

    def kinds(self, handler_of_symbol: npt.NDArray[np.uint16]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint16]]:
        """Symbols of one kind may share a strand: they have one handler, one priority and the same marks. The kind of
        each symbol, shape (n_symbols,), and the handler of each kind, shape (n_kinds,)."""
        return kinds_of(handler_of_symbol, self._priorities, self._marks)

    def route(self, strand_of_symbol: npt.NDArray[np.uint32]) -> None:
        """Tells the engine the priority of each strand, and the marks of all its symbols, before it has ticks."""
        usual = self.policy.usual_priority if self.groups is None else 0
        if usual is None:
            return
        if self.groups is not None:
            self._engine.set_groups(len(self.groups), self.groups.weights)
        order = np.argsort(strand_of_symbol, kind="stable")
        strands, first = np.unique(strand_of_symbol[order], return_index=True)
        for strand, of_symbols in zip(strands.tolist(), np.split(self._priorities[order], first[1:]), strict=True):
            priority = self.policy.of_strand(of_symbols)
            if priority != usual:
                self._engine.prioritise(strand, priority, for_backlog=False)
        marks = np.zeros(self._engine.config.n_strands, np.uint8)
        np.bitwise_or.at(marks, strand_of_symbol, self._marks)
        for strand in np.flatnonzero(marks).tolist():
            self._engine.mark(strand, int(marks[strand]))

    def change(self, index: int, priority: Any, strand_of_symbol: npt.NDArray[np.uint32], *, for_backlog: bool) -> None:
        """Gives a symbol another priority, and its strand the highest of its symbols' priorities; or raises its
        strand."""
        number, strand = self.policy.priority_of("priority", priority), int(strand_of_symbol[index])
        for_backlog = yes_or_no("for_backlog", for_backlog)
        with self._lock:
            if not for_backlog:
                self._priorities[index] = number
                number = self.policy.of_strand(self._priorities[strand_of_symbol == strand])
            self._engine.prioritise(strand, number, for_backlog=for_backlog)

    def regroup(self, index: int, group: str, strand_of_symbol: npt.NDArray[np.uint32]) -> None:
        """Moves a symbol's strand, and all symbols that share it, into another group."""
        if self.groups is None:
            raise ConfigurationError(f"group: {type(self.policy).__name__} has no groups; give policy=Fair()")
        number, strand = self.groups.number(group), int(strand_of_symbol[index])
        with self._lock:
            self._priorities[strand_of_symbol == strand] = number
            self._engine.prioritise(strand, number, for_backlog=False)


def kinds_of(
    handler_of_symbol: npt.NDArray[np.uint16],
    priorities: npt.NDArray[np.uint32],
    marks: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint16]]:
    """See Priorities.kinds."""
    if priorities.size and priorities.min() == priorities.max() and marks.min() == marks.max():
        return handler_of_symbol.astype(np.uint32), np.arange(int(handler_of_symbol.max()) + 1, dtype=np.uint16)
    orders = marks.astype(np.uint64) << np.uint64(32) | priorities
    found, kind_of_symbol = np.unique(
        handler_of_symbol.astype(np.uint64) << np.uint64(40) | orders, return_inverse=True
    )
    return kind_of_symbol.astype(np.uint32), (found >> np.uint64(40)).astype(np.uint16)
