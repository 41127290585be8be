"""The tick: the 64-byte record that feeds produce and handlers read."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = [
    "KIND_NONE",
    "KIND_ORDER",
    "KIND_QUOTE",
    "KIND_STATUS",
    "KIND_TASK",
    "KIND_TRADE",
    "PRICE_SCALE",
    "TICK",
    "UNDEF_PRICE",
    "aligned_ticks",
]

#: One tick, 64 bytes. Times are ns since the UNIX epoch, prices are in units of 1e-9, ``instrument_id`` is the
#: dense index into the feed's symbol table, ``action`` and ``side`` are single ASCII letters (docs/design.md, 7).
TICK: Final = np.dtype(
    [
        ("ts_event", "<u8"),
        ("ts_recv", "<u8"),
        ("order_id", "<u8"),
        ("price", "<i8"),
        ("size", "<u4"),
        ("instrument_id", "<u4"),
        ("sequence", "<u8"),
        ("ref_id", "<u8"),
        ("publisher_id", "<u2"),
        ("action", "S1"),
        ("side", "S1"),
        ("flags", "u1"),
        ("depth", "u1"),
        ("kind", "<u2"),
    ]
)

#: The price of a tick that has none.
UNDEF_PRICE: Final = (1 << 63) - 1
#: Units of ``price`` in one unit of currency.
PRICE_SCALE: Final = 1_000_000_000

KIND_NONE: Final = 0
KIND_ORDER: Final = 1
KIND_TRADE: Final = 2
KIND_QUOTE: Final = 3
KIND_STATUS: Final = 4
KIND_TASK: Final = 5


def aligned_ticks(count: int, alignment: int = 64) -> npt.NDArray[Any]:
    """Room for ticks, shape (count,), dtype ``TICK``, values undefined, at a multiple of ``alignment`` bytes: by
    default at a cache line, so that no tick lies across two."""
    raw = np.empty(count * TICK.itemsize + alignment - 1, np.uint8)
    skip = -raw.ctypes.data % alignment
    return raw[skip : skip + count * TICK.itemsize].view(TICK)
