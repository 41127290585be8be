"""Numbers of columns that become fields of ticks."""

from __future__ import annotations

import numpy as np
import pytest

from strand.binding.columns import Field, look_up, value_ticks, whole
from strand.ticks import zeros


def test_fields_are_multiplied_and_all_others_are_the_blanks() -> None:
    blank = zeros(1)
    blank["publisher_id"] = 7
    prices = np.array([1, -2, 3], np.int32)
    ticks, good = value_ticks(
        blank, 10, 3, {"price": Field(prices, -5, 5, factor=1000), "side": whole(np.array([b"A", b"B", b"N"]))}
    )
    assert good == 3
    assert ticks["price"].tolist() == [1000, -2000, 3000]
    assert ticks["side"].tolist() == [b"A", b"B", b"N"]
    assert ticks["publisher_id"].tolist() == [7, 7, 7]
    assert ticks["sequence"].tolist() == [10, 11, 12]


@pytest.mark.parametrize(("low", "high", "good"), [(0, 9, 3), (2, 9, 0), (0, 2, 2), (0, 0, 0)])
def test_rows_are_good_up_to_the_first_value_out_of_its_bounds(low: int, high: int, good: int) -> None:
    values = np.array([1, 2, 3], np.int64)
    assert value_ticks(zeros(1), 0, 3, {"size": Field(values, low, high)})[1] == good


def test_floats_are_whole_units_of_the_scale_or_out_of_bounds() -> None:
    field = Field(np.array([0.25, 1.5, 0.3]), 0, 100, factor=5, scale=4.0)
    ticks, good = value_ticks(zeros(1), 0, 3, {"price": field})
    assert good == 2
    assert ticks["price"][:2].tolist() == [5, 30]


def test_bounds_of_whole_numbers_are_those_of_their_type() -> None:
    assert (whole(np.zeros(1, np.int8)).lowest, whole(np.zeros(1, np.int8)).highest) == (-128, 127)


@pytest.mark.parametrize("values", [np.zeros(2, "f4"), np.zeros((2, 1), "i8"), np.zeros(2, ">i8")])
def test_what_is_no_column_of_numbers_is_refused(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="does not hold numbers of a known type"):
        value_ticks(zeros(1), 0, 2, {"price": Field(values, 0, 1)})
    with pytest.raises(ValueError, match="2 values of price for 3 rows"):
        value_ticks(zeros(1), 0, 3, {"price": whole(np.zeros(2, "i8"))})


def test_integers_are_looked_up_and_those_a_table_lacks_are_listed() -> None:
    none = 2**32 - 1
    found, rows = look_up(np.array([2, 0, -1, 1, 5], np.int16), np.array([10, none, 12], np.uint32), none)
    assert found.tolist() == [12, 10, none, none, none]
    assert rows.tolist() == [2, 3, 4]
