"""The level of each symbol, and so of each strand, under a policy that has levels."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.dispatch.policies import LEVELS, Levels, Policy, level_of
from strand.errors import ConfigurationError
from strand.symbols import SymbolTable
from strand.validate import yes_or_no

__all__ = ["Priorities", "kinds_of", "levels_of"]

_NORMAL = LEVELS.index("normal")


def levels_of(policy: Policy, table: SymbolTable, priorities: Mapping[str, Any] | None) -> npt.NDArray[np.uint8]:
    """The level of each symbol, shape (n_symbols,). Raises ConfigurationError where the policy has none, or for an
    unknown level, and UnknownSymbolError."""
    levels = np.full(len(table), _NORMAL, np.uint8)
    if priorities is None or priorities == {}:
        return levels
    if not isinstance(priorities, Mapping):
        raise ConfigurationError(f"priorities: {type(priorities).__name__} is not a dict of levels by symbol")
    _check_policy("priorities", policy)
    named = dict(priorities)
    if "*" in named:
        levels[:] = level_of("priorities: *", named.pop("*"))
    for symbol, level in named.items():
        levels[table.index(symbol)] = level_of(f"priorities: {symbol}", level)
    return levels


def _check_policy(name: str, policy: Policy) -> None:
    if not isinstance(policy, Levels):
        raise ConfigurationError(f"{name}: {type(policy).__name__} has no priorities; give policy=Levels()")


class Priorities:
    """``levels``: of each symbol, shape (n_symbols,); they change here."""

    def __init__(self, engine: Engine, policy: Policy, levels: npt.NDArray[np.uint8]) -> None:
        self._engine = engine
        self._policy = policy
        self._levels = levels
        self._lock = threading.Lock()

    def kinds(self, handler_of_symbol: npt.NDArray[np.uint16]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
        """Symbols of one kind may share a strand: they have one handler and one level. The kind of each symbol, shape
        (n_symbols,), and the handler of each kind, shape (n_kinds,)."""
        return kinds_of(handler_of_symbol, self._levels)

    def route(self, strand_of_symbol: npt.NDArray[np.uint32]) -> None:
        """Tells the engine the level of each strand, before it has ticks."""
        if not isinstance(self._policy, Levels):
            return
        of_strand = np.full(self._engine.config.n_strands, len(LEVELS) - 1, np.uint8)
        np.minimum.at(of_strand, strand_of_symbol, self._levels)
        for strand in np.flatnonzero(of_strand != _NORMAL).tolist():
            self._engine.prioritise(strand, int(of_strand[strand]), for_backlog=False)

    def change(self, index: int, level: Any, strand_of_symbol: npt.NDArray[np.uint32], *, for_backlog: bool) -> None:
        """Gives a symbol another level, and its strand the highest of its symbols'; or raises its strand."""
        _check_policy("prioritise", self._policy)
        for_backlog = yes_or_no("for_backlog", for_backlog)
        number, strand = level_of("level", level), int(strand_of_symbol[index])
        with self._lock:
            if not for_backlog:
                self._levels[index] = number
                number = int(self._levels[strand_of_symbol == strand].min())
            self._engine.prioritise(strand, number, for_backlog=for_backlog)


def kinds_of(
    handler_of_symbol: npt.NDArray[np.uint16], levels: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """See Priorities.kinds."""
    if levels.size and levels.min() == levels.max():
        return handler_of_symbol, np.arange(int(handler_of_symbol.max()) + 1, dtype=np.uint16)
    pairs = handler_of_symbol.astype(np.uint32) * len(LEVELS) + levels
    found, kind_of_symbol = np.unique(pairs, return_inverse=True)
    if len(found) > 65_535:
        raise ConfigurationError(
            f"priorities: handlers and levels make {len(found):,} kinds of symbols, and at most 65,535 are possible"
        )
    return kind_of_symbol.astype(np.uint16), (found // len(LEVELS)).astype(np.uint16)
