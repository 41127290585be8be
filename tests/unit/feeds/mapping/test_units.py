"""Numbers as whole units of a power of ten are what fractions say: exact, or rounded once, ties to even."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strand.errors import ConfigurationError
from strand.feeds.mapping.values import Units, decimal_units, float_units, integer_units, nearest_units
from strand.validate import unit_power

pytestmark = pytest.mark.python

MAX_I64 = (1 << 63) - 1
POWERS = st.integers(-20, 20)


def check(found: Units, numbers: list[Fraction], power: int) -> None:
    """Bad where int64 cannot hold the number; its units, and whether they were rounded, elsewhere."""
    exact = [number * Fraction(10) ** power for number in numbers]
    bad = [abs(round(units)) > MAX_I64 for units in exact]
    none = [False] * len(exact)
    assert (none if found.bad is None else found.bad.tolist()) == bad
    inexact = none if found.inexact is None else found.inexact.tolist()
    for units, is_bad, value, is_inexact in zip(exact, bad, found.values.tolist(), inexact, strict=True):
        if not is_bad:
            assert (value, is_inexact) == (round(units), units.denominator != 1)


@given(st.sampled_from("bBhHiIqQ"), st.data(), POWERS)
def test_integers_of_any_type(kind: str, data: st.DataObject, power: int) -> None:
    own = np.iinfo(kind)
    # What 64 bits without a sign hold beyond those with one is no tick's number.
    bounds = {"min_value": max(own.min, -MAX_I64), "max_value": min(own.max, MAX_I64)}
    halves = [odd * 10**-power // 2 for odd in (-3, -1, 1, 3, 5) if power < 0]
    halves = [value for value in halves if bounds["min_value"] <= value <= bounds["max_value"]] or [0]
    values = data.draw(st.lists(st.integers(**bounds) | st.sampled_from(halves), max_size=9))
    check(integer_units(np.array(values, kind), power), [Fraction(value) for value in values], power)


@pytest.mark.parametrize("power", range(1, 19))
def test_integers_up_to_where_64_bits_end(power: int) -> None:
    last = MAX_I64 // 10**power
    values = [last, last + 1, -last, -last - 1]
    check(integer_units(np.array(values), power), [Fraction(value) for value in values], power)


@given(st.lists(st.one_of(st.floats(-1e12, 1e12), st.decimals(-9999, 9999, places=4).map(float)), max_size=9), POWERS)
@example([2.0**-10, 0.5e-9, 1.5e-9, 1.0000000005, -0.0], 9)
@example([0.5, 1.5, 2.5, -0.5], 0)
@example([9.3e9, -9.3e9, 1e300], 9)
def test_a_float_stands_for_its_shortest_decimal(values: list[float], power: int) -> None:
    check(float_units(np.array(values, np.float64), power), [Fraction(repr(value)) for value in values], power)


@given(st.lists(st.decimals(-(10**6), 10**6, places=12).map(str), max_size=9), POWERS)
def test_texts_of_decimals(texts: list[str], power: int) -> None:
    check(decimal_units(np.array(texts, "U40"), power), [Fraction(text) for text in texts], power)
    for text in texts:
        assert nearest_units(text.encode(), power) == round(Fraction(text) * Fraction(10) ** power)


def test_what_is_no_number_is_none_and_counts_as_nothing() -> None:
    for text in (b"", b".", b"1e", b"nan", b"0x1", b"1 ", b"1e99999", b"1_0"):
        assert nearest_units(text, 9) is None
    units = float_units(np.array([np.nan, 1.5]), 1)
    assert units.values.tolist() == [0, 15]
    assert decimal_units(np.array([np.inf, 1.0]), 0).bad.tolist() == [True, False]  # type: ignore[union-attr]


@given(st.integers(-18, 9))
def test_a_unit_is_a_power_of_ten_in_any_spelling(power: int) -> None:
    number = Decimal(1).scaleb(power)
    for unit in (number, f"{number:f}", f"1e{power}", float(number)):
        assert unit_power("size_unit", unit) == power


@pytest.mark.parametrize("unit", ["1e-19", "1e10", "0.03", "2e-3"])
def test_a_unit_beyond_the_bounds_or_of_another_digit_is_refused_by_the_options_name(unit: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^size_unit: give a power of ten from 1e-18 to 1e9"):
        unit_power("size_unit", unit)
