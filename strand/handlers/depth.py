"""The handler ``depth``: books of price levels, from updates and views of them."""

from __future__ import annotations

import numpy as np

from strand._bindings.depths import MOST_TOP, DepthMemory
from strand.handlers.base import Handler
from strand.handlers.options import built_in
from strand.numbers import whole

__all__ = ["depth", "depth_row"]

MOST_LEVELS = 1 << 24


def depth_row(top: int) -> np.dtype[np.void]:
    """The row of ``depth(top=top)``; ``bid_prices`` and the other three hold the best ``top`` levels, best first."""
    shape = (top,)
    return np.dtype(
        [
            ("ticks", "<i8"),
            ("last_ts_recv", "<i8"),
            ("bid_price", "<i8"),
            ("ask_price", "<i8"),
            ("bid_size", "<i8"),
            ("ask_size", "<i8"),
            ("bid_levels", "<i4"),
            ("ask_levels", "<i4"),
            ("volume", "<i8"),
            ("trades", "<i8"),
            ("last_price", "<i8"),
            ("crossed", "<i8"),
            ("snapshots", "<i4"),
            ("absent", "<i4"),
            ("beyond", "<i4"),
            ("unusable", "<i4"),
            ("passed_over", "<i8"),
            ("bid_prices", "<i8", shape),
            ("bid_sizes", "<i8", shape),
            ("ask_prices", "<i8", shape),
            ("ask_sizes", "<i8", shape),
        ]
    )


@built_in
def depth(*, top: int = 5, max_levels: int = 16_384) -> Handler:
    """Books of price levels of all symbols, from feeds of level updates, snapshots and views (docs/handlers/depth.md).

    A row (``depth_row(top)``) shows the best ``top`` levels of both sides, 1 to 64, and counts what did not fit; prices
    are in 1e-9, ``UNDEF_PRICE`` where there is no level. ``Dispatcher.books`` and ``ReplayResult.books`` answer for all
    levels. ``max_levels``: what a side of a symbol keeps at most, which bounds its memory to 24 bytes a level and
    64 more; when it is full the worst level goes, which ``beyond`` counts. Raises ConfigurationError for other values.
    """
    shown, kept = whole("top", top, 1, MOST_TOP), whole("max_levels", max_levels, 1, MOST_LEVELS)
    return Handler(
        "depth", depth_row(shown), memory=lambda n: DepthMemory(n, top=shown, max_levels=kept), needs_ticks=True
    )
