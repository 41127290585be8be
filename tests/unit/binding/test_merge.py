"""Ticks of several sources, merged by the time they were received."""

from __future__ import annotations

from typing import Any

import numpy as np

from strand.binding.merge import UNMAPPED, Merger, Need, ordered
from strand.ticks import zeros


def ticks_at(*times: int, key: int = 0) -> Any:
    ticks = zeros(len(times))
    ticks["ts_recv"], ticks["instrument_id"] = times, key
    return ticks


def table(*numbers: int) -> Any:
    return np.array(numbers, np.uint32)


def test_ticks_come_in_the_order_of_their_times_and_equal_ones_by_their_source() -> None:
    merger, out, sources = Merger(2), zeros(8), np.zeros(8, np.int32)
    for source, times in enumerate(((1, 3, 5), (2, 3, 9))):
        merger.number_by(source, table(source))
        merger.give(source, ticks_at(*times))
    made, need, which = merger.take(out, sources)
    # After 5 the first source may have more before 9.
    assert (made, need, which) == (5, Need.TICKS, 0)
    assert out["ts_recv"][:5].tolist() == [1, 2, 3, 3, 5]
    assert sources[:5].tolist() == [0, 1, 0, 1, 0]
    merger.end(0)
    made, need, which = merger.take(out, sources)
    assert (made, need, which) == (1, Need.TICKS, 1)
    merger.end(1)
    assert merger.take(out, sources)[:2] == (0, Need.NOTHING)


def test_an_id_without_a_number_is_asked_for_with_its_source() -> None:
    merger, out, sources = Merger(1), zeros(4), np.zeros(4, np.int32)
    numbers = table(UNMAPPED, UNMAPPED)
    merger.number_by(0, numbers)
    merger.give(0, ticks_at(1, 2, key=1))
    made, need, source = merger.take(out, sources)
    assert (made, need, source) == (0, Need.NUMBER, 0)
    assert (merger.next_id(0), merger.next_time(0)) == (1, 1)
    numbers[1] = 40
    merger.end(0)
    assert merger.take(out, sources)[0] == 2
    assert out["instrument_id"][:2].tolist() == [40, 40]


def test_ticks_are_in_order_up_to_the_first_whose_time_runs_back() -> None:
    assert ordered(ticks_at(5, 6, 6, 4, 9), 0) == (3, 6)
    assert ordered(ticks_at(5, 6), 6) == (0, 6)
    assert ordered(ticks_at(5, 6), 5) == (2, 6)
