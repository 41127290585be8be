"""Symbols and orders of a dispatcher that others look at."""

from __future__ import annotations

from typing import Any

import numpy as np
from engine_support import ticks_for

SYMBOLS = [f"S{i}" for i in range(40)]


def some_ticks(n: int = 20_000, seed: int = 1) -> Any:
    ticks = ticks_for(np.random.default_rng(seed).integers(0, len(SYMBOLS), n), kind=1)
    ticks["action"], ticks["side"], ticks["size"] = b"A", b"B", 100
    ticks["price"] = 10**9 * (1 + np.arange(n) % 50)
    ticks["order_id"] = np.arange(1, n + 1)
    return ticks
