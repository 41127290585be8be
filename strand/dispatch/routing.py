"""Strand of each symbol: decided once, by the figures known then."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.engine_words import RunByPython
from strand.binding.native import NativeFunction
from strand.dispatch.basket_units import kinds_of_units
from strand.dispatch.grouping import strands_for
from strand.dispatch.priorities import Priorities
from strand.dispatch.python_handlers import PythonHandlers
from strand.errors import WouldDeadlockError
from strand.threads import WAITS_FOR_ITSELF, Inside

__all__ = ["Routing"]

#: Records of the first array that "auto" looks at to tell busy symbols from quiet ones.
FIRST_LOOK = 1 << 18


class Routing:
    """Routing of symbols to strands. ``handler_of_symbol``: the number of each symbol's handler. ``functions``,
    ``outputs``: those of each handler, as the engine takes them. ``units``: by symbol, the unit that has to share a
    strand."""

    def __init__(
        self,
        engine: Engine,
        python: PythonHandlers,
        handler_of_symbol: npt.NDArray[np.uint16],
        functions: Sequence[NativeFunction | RunByPython],
        outputs: Sequence[Sequence[int]],
        *,
        units: npt.NDArray[np.intp] | None,
        priorities: Priorities,
        inside: Inside,
    ) -> None:
        self._engine = engine
        self._python = python
        self._handler_of_symbol = handler_of_symbol
        self._units = units
        self._priorities = priorities
        self._functions = functions
        self._outputs = outputs
        self._strand_of: npt.NDArray[np.uint32] | None = None
        self._inside = inside
        self._lock = threading.Lock()

    @property
    def is_known(self) -> bool:
        return self._strand_of is not None

    def by_counts(self, counts: npt.NDArray[Any] | None) -> npt.NDArray[np.uint32]:
        """The strand of each symbol, shape (n_symbols,): by what is expected of each, unless it is known already."""
        if self._strand_of is not None:
            return self._strand_of
        if self._inside.here:
            raise WouldDeadlockError(f"strands: they are not decided yet, and {WAITS_FOR_ITSELF}: ask later")
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            with self._lock:
                if self._strand_of is None:
                    self._strand_of = self._settle(counts)
            return self._strand_of
        finally:
            self._inside.threads.remove(me)

    def _settle(self, counts: npt.NDArray[Any] | None) -> npt.NDArray[np.uint32]:
        kind_of_symbol, handler_of = self._priorities.kinds(self._handler_of_symbol)
        alone = [isinstance(self._functions[handler], RunByPython) for handler in handler_of]
        units = self._units
        if units is not None and counts is not None:
            counts = np.bincount(units, weights=counts)
        kinds = kinds_of_units(kind_of_symbol, units)
        found = strands_for(self._engine.config.n_strands, kinds, alone, counts)
        strand_of = found.strand_of_symbol if units is None else found.strand_of_symbol[units]
        return self._take(strand_of, handler_of[found.kind_of_strand])

    def restore(self, strand_of_symbol: npt.NDArray[np.uint32]) -> None:
        """Restores the strands of another process, before anything else is asked for."""
        handler_of_strand = np.zeros(self._engine.config.n_strands, np.uint16)
        handler_of_strand[strand_of_symbol] = self._handler_of_symbol
        self._strand_of = self._take(strand_of_symbol, handler_of_strand)

    def _take(
        self, strand_of_symbol: npt.NDArray[np.uint32], handler_of_strand: npt.NDArray[np.uint16]
    ) -> npt.NDArray[np.uint32]:
        self._engine.route(strand_of_symbol, handler_of_strand)
        self._python.route(strand_of_symbol)
        self._priorities.route(strand_of_symbol)
        self._engine.set_handlers(self._functions, self._outputs)
        return strand_of_symbol

    def by_keys(self, keys: npt.NDArray[Any]) -> None:
        """Routes by the first keys that are published. They are copied: another thread may change them meanwhile."""
        keys, symbols = keys[:FIRST_LOOK].copy(), len(self._handler_of_symbol)
        self.by_counts(np.bincount(keys[keys < symbols], minlength=symbols))
