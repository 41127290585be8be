"""Counting ticks by symbol."""

import numpy as np

from strand.binding.columns import Seen, TickCounts, count_by_symbol
from strand.ticks import zeros


def _ticks(symbols: list[int]) -> np.ndarray:
    ticks = zeros(len(symbols))
    ticks["instrument_id"] = symbols
    return ticks


def test_kinds_and_times_that_run_backwards_are_counted_over_several_calls() -> None:
    ticks = _ticks([0, 1, 2, 0, 1, 2, 0])
    ticks["kind"] = [1, 2, 3, 3, 3, 0, 4]
    ticks["ts_recv"] = [10, 5, 20, -7, 12, 20, 11]
    for cut in range(8):
        seen = Seen()
        count_by_symbol(ticks[:cut], np.zeros(3, np.int64), seen)
        count_by_symbol(ticks[cut:], np.zeros(3, np.int64), seen)
        assert seen.counts() == TickCounts(
            orders=1, trades=1, quotes=3, zero_sizes=1, behind=3, furthest_ns=9, furthest_at=6, furthest_symbol=0
        )


def test_more_ticks_of_a_kind_than_a_stretch_counts_are_all_counted() -> None:
    ticks = zeros((1 << 21) + 10)
    ticks["kind"] = 3
    ticks["kind"][-4:] = [1, 2, 9, 255]
    ticks["ts_recv"][-1], ticks["ts_recv"][-2] = 1, 2
    seen = Seen()
    count_by_symbol(ticks, np.zeros(1, np.int64), seen)
    found = seen.counts()
    assert (found.orders, found.trades, found.quotes) == (1, 1, len(ticks) - 4)
    assert (found.behind, found.furthest_at) == (1, len(ticks) - 1)
