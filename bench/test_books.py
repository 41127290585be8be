"""Order books: every tick of a generated day through the handler, in one thread's worth of work.

pytest bench/test_books.py --benchmark-only
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strand import Dispatcher, book
from strand.feeds.synthetic.market import SyntheticFeed


@pytest.mark.parametrize("symbols", [50, 8_172])
def test_books_of_a_day(benchmark: Any, symbols: int) -> None:
    """The publisher handles inline what it can and one worker has the rest: together a little more than one core."""
    feed = SyntheticFeed(symbols, 2_000_000, seed=1)
    ticks = np.concatenate([batch.copy() for batch in feed.batches()])

    def day() -> int:
        with Dispatcher(feed.max_symbols, book(), workers=1, cores=None) as d:
            d.publish(ticks)
            d.drain()
            return d.books.live_orders

    assert benchmark.pedantic(day, rounds=5, warmup_rounds=1) > 0
    if benchmark.stats:  # none with --benchmark-disable
        benchmark.extra_info["ns_per_tick"] = round(benchmark.stats.stats.median / len(ticks) * 1e9, 2)
