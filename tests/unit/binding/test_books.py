"""Memory of order books in C."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from engine_support import balanced, ticks_for

from strand import Dispatcher, book


def run(*parts: npt.NDArray[Any], symbols: int = 1) -> Dispatcher:
    with Dispatcher(symbols, book(), workers=2, cores=None) as d:
        for part in parts:
            d.publish(part)
        d.drain()
        balanced(d)
    return d


def test_an_order_takes_at_most_64_bytes_with_its_share_of_the_index() -> None:
    for n in (1_000, 20_001, 300_000):
        adds = ticks_for(np.zeros(n, np.int64), kind=1)
        adds["order_id"], adds["price"], adds["size"] = np.arange(n) + 1, 100 + np.arange(n) % 200, 1
        adds["action"], adds["side"] = b"A", b"B"
        empty = run(symbols=1).books.bytes
        d = run(adds)
        assert d.books.live_orders == n
        assert d.books.bytes - empty <= 64 * n + 16_384  # and a level for each price
