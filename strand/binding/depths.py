"""Books of price levels in C, seen from Python."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.gate import made
from strand.binding.native import builtin_function
from strand.binding.space import Space
from strand.binding.trades import TradeRules

__all__ = ["DEPTH_LEVEL", "MAX_TOP", "DepthMemory"]

#: One price of one side: ``price`` in 1e-9, ``size`` in the feed's units (docs/handlers/depth.md).
DEPTH_LEVEL: Final = np.dtype([("price", "<i8"), ("size", "<i8")])
#: Levels of a side that a row may hold.
MAX_TOP: Final = 64


class DepthMemory:
    """The level books of symbols 0 to ``n_symbols`` - 1 in a space: at most ``max_levels`` a side, and the best ``top``
    in each row. ``rules``: which ticks are trades, and which bits of a tick's flags mean what.

    Raises MemoryError where there is none for them.
    """

    def __init__(
        self, space: Space, n_symbols: int, *, top: int, max_levels: int, rules: TradeRules | None = None
    ) -> None:
        depths = made(
            lib.sd_depths_create(space.pointer, n_symbols), f"no memory for the books of {n_symbols:,} symbols"
        )
        self._depths = depths
        self._space = space
        params = ffi.new(
            "sd_depth_params *", {"depths": depths, "space": space.pointer, "top": top, "max_levels": max_levels}
        )
        ffi.buffer(ffi.addressof(params, "rules"))[:] = (rules or TradeRules()).packed
        self.function: Final = builtin_function("depth", bytes(ffi.buffer(params)), ends=True, keep=space)

    def levels(self, symbol: int, side: str, n: int) -> npt.NDArray[Any]:
        """The best ``n`` levels of side ``"A"`` or ``"B"``, best first: an array of DEPTH_LEVEL, ``n`` rows at most."""
        found = np.empty(n, DEPTH_LEVEL)
        at = ffi.cast("sd_depth_level *", ffi.from_buffer(found.view(np.uint8)))
        return found[: int(lib.sd_depths_levels(self._depths, symbol, ord(side), at, n))]

    @property
    def offset(self) -> int:
        """Bytes from the start of its space to it: another process finds it there."""
        return self._space.offset_of(self._depths)

    @property
    def bytes(self) -> int:
        """Memory of all books, used or at hand."""
        return int(lib.sd_depths_bytes(self._depths))
