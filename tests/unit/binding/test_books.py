"""Memory of order books in C."""

from __future__ import annotations

import numpy as np
from book_runs import run
from engine_support import ticks_for


def test_an_order_takes_at_most_64_bytes_with_its_share_of_the_index() -> None:
    for n in (1_000, 20_001, 300_000):
        adds = ticks_for(np.zeros(n, np.int64), kind=1)
        adds["order_id"], adds["price"], adds["size"] = np.arange(n) + 1, 100 + np.arange(n) % 200, 1
        adds["action"], adds["side"] = b"A", b"B"
        empty = run(symbols=1).books.bytes
        d = run(adds)
        assert d.books.live_orders == n
        assert d.books.bytes - empty <= 64 * n + 16_384  # and a level for each price
