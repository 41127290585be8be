"""Counts the ticks of single orders that are given to handlers which take ticks as they are.

A dispatcher without ``feed=`` does not know what its ticks mean, so these handlers find no price in a fill.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.handlers import Handler
from strand.ticks import KIND_ORDER

__all__ = ["OrderWatch"]


class OrderWatch:
    """``count``: how many so far. The first ones are a RuntimeWarning."""

    def __init__(self, handlers: Sequence[Handler], handler_of_symbol: npt.NDArray[np.uint16]) -> None:
        taken = [handler.takes_ticks_as_plain for handler in handlers]
        self._names: Final = ", ".join(h.name for h, plain in zip(handlers, taken, strict=True) if plain)
        self._of_symbol = np.array(taken)[handler_of_symbol]
        self._lock = threading.Lock()
        self.is_needed: Final = any(taken)
        self.count = 0

    def look(self, ticks: npt.NDArray[Any], *, stacklevel: int) -> None:
        """Counts those among ticks that are about to be handled. ``stacklevel``: as warnings.warn has it, from the
        caller on."""
        keys = ticks["instrument_id"][ticks["kind"] == KIND_ORDER]
        found = int(np.count_nonzero(self._of_symbol[keys[keys < len(self._of_symbol)]]))
        if not found:
            return
        with self._lock:
            first, self.count = self.count == 0, self.count + found
        if first:
            warnings.warn(
                f"feed: single orders reach {self._names}, and without feed= their fills have no price: give "
                "feed='orders', or what the feed's info.ticks says; give feed='plain' if this is right",
                RuntimeWarning,
                stacklevel=stacklevel + 1,
            )
