"""Records of numpy become ticks: prices exactly, and the first bad record is named."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strand.feeds.mapping.columns import Reading
from strand.feeds.mapping.records import BadRecordError, RecordColumns

pytestmark = pytest.mark.python


@given(st.floats(min_value=-4e6, max_value=4e6), st.sampled_from([0, -2, -4, -9]))
@example(2.0**-10, 0)
@example(0.5e-9, 0)
@example(1.5e-9, 0)
@example(2.5, -9)
@example(1.0000000005, 0)
def test_floating_prices_are_rounded_as_their_shortest_decimal_says(value: float, power: int) -> None:
    dtype = np.dtype([("p", "<f8")])
    convert = RecordColumns(dtype, {"price": "p"}, {"ts_event": 0}, Reading(power, rounds=True))
    units = Fraction(repr(value)) * 10 ** (9 + power)
    records = np.array([(value,)], dtype)
    if units and not round(units):
        with pytest.raises(BadRecordError, match="rounds to 0"):
            convert.ticks(records, 0)
        return
    assert int(convert.ticks(records, 0)["price"][0]) == round(units)
    assert convert.rounded == (units.denominator != 1)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -1, -4, -9]))
def test_integer_prices_are_scaled_exactly_or_refused(value: int, power: int) -> None:
    dtype = np.dtype([("p", ">i8")])
    convert = RecordColumns(dtype, {"price": "p"}, {"ts_event": 0}, Reading(power))
    records = np.array([(value,)], dtype)
    scale = 10 ** (9 + power)
    if -(2**63) < value * scale < 2**63:
        assert int(convert.ticks(records, 0)["price"][0]) == value * scale
    elif value * scale != -(2**63):
        with pytest.raises(BadRecordError):
            convert.ticks(records, 0)
