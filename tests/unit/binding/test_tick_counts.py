"""Counting ticks by symbol."""

import numpy as np

from strand import TICK
from strand.binding.columns import Seen, TickCounts, count_by_symbol
from strand.ticks import zeros


def _ticks(symbols: list[int]) -> np.ndarray:
    ticks = zeros(len(symbols))
    ticks["instrument_id"] = symbols
    return ticks


def test_ticks_are_added_to_the_counts_of_their_symbols() -> None:
    counts = np.array([5, 0, 7], np.int64)
    count_by_symbol(_ticks([2, 0, 0, 2, 2]), counts)
    assert counts.tolist() == [7, 0, 10]


def test_a_part_of_an_array_with_gaps_is_counted_as_it_is() -> None:
    counts = np.zeros(4, np.int64)
    count_by_symbol(_ticks([0, 1, 2, 3, 0, 1])[::2], counts)
    assert counts.tolist() == [2, 0, 1, 0]


def test_a_symbol_beyond_the_counts_is_left_out() -> None:
    counts = np.zeros(2, np.int64)
    count_by_symbol(_ticks([1, 2, 0xFFFFFFFF, 0]), counts)
    assert counts.tolist() == [1, 1]


def test_no_ticks_change_nothing() -> None:
    counts = np.ones(1, np.int64)
    count_by_symbol(_ticks([]), counts)
    assert counts.tolist() == [1]


def test_records_that_are_no_ticks_are_not_read_beyond_their_end() -> None:
    counts = np.zeros(1, np.int64)
    count_by_symbol(np.zeros(13, np.uint64), counts)
    assert counts.tolist() == [13 * 8 // TICK.itemsize]


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
