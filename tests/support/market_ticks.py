"""Ticks of every kind that come to no book, and a run of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from engine_support import balanced, ticks_for

from strand import UNDEF_PRICE, Dispatcher
from strand.ticks import KIND_ORDER, KIND_TRADE


def market(n: int, symbols: int, seed: int = 1) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    ticks = ticks_for(rng.integers(0, symbols, n))
    ticks["kind"] = rng.choice([KIND_ORDER, KIND_TRADE], n)
    ticks["price"] = rng.integers(1, 10**12, n)
    ticks["price"][rng.random(n) < 0.05] = UNDEF_PRICE
    ticks["size"] = rng.integers(0, 1_000, n)
    ticks["action"] = rng.choice([b"A", b"C", b"T"], n)
    return ticks


def run(ticks: Any, symbols: int, like: Any, **options: Any) -> Any:
    with Dispatcher(symbols, like, workers=2, cores=None, feed="plain", **options) as d:
        for part in np.array_split(ticks, 5):
            d.publish(part)
        d.drain()
        balanced(d)
    return d.rows.array
