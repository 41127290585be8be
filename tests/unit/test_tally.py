"""Counting ticks by symbol."""

import numpy as np

from strand import TICK
from strand._bindings.tally import tally
from strand.ticks import zeros


def _ticks(symbols: list[int]) -> np.ndarray:
    ticks = zeros(len(symbols))
    ticks["instrument_id"] = symbols
    return ticks


def test_ticks_are_added_to_the_counts_of_their_symbols() -> None:
    counts = np.array([5, 0, 7], np.int64)
    tally(_ticks([2, 0, 0, 2, 2]), counts)
    assert counts.tolist() == [7, 0, 10]


def test_a_part_of_an_array_with_gaps_is_counted_as_it_is() -> None:
    counts = np.zeros(4, np.int64)
    tally(_ticks([0, 1, 2, 3, 0, 1])[::2], counts)
    assert counts.tolist() == [2, 0, 1, 0]


def test_a_symbol_beyond_the_counts_is_left_out() -> None:
    counts = np.zeros(2, np.int64)
    tally(_ticks([1, 2, 0xFFFFFFFF, 0]), counts)
    assert counts.tolist() == [1, 1]


def test_no_ticks_change_nothing() -> None:
    counts = np.ones(1, np.int64)
    tally(_ticks([]), counts)
    assert counts.tolist() == [1]


def test_records_that_are_no_ticks_are_not_read_beyond_their_end() -> None:
    counts = np.zeros(1, np.int64)
    tally(np.zeros(13, np.uint64), counts)
    assert counts.tolist() == [13 * 8 // TICK.itemsize]
