"""Spans of time that options name."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.errors import ConfigurationError
from strand.handlers.spans import span_ns, span_text

pytestmark = pytest.mark.python


UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}


@pytest.mark.parametrize("unit", UNITS)
def test_a_number_with_a_unit_is_so_many_of_it(unit: str) -> None:
    assert span_ns("every", f"7{unit}") == span_ns("every", f" 7 {unit} ") == 7 * UNITS[unit]


def test_a_timedelta_and_a_whole_number_are_exact() -> None:
    assert span_ns("every", dt.timedelta(days=2, seconds=3, microseconds=4)) == 172_803_000_004_000
    assert span_ns("every", np.int64(5)) == 5
    assert span_ns("every", "1d") == 86_400 * 10**9


@pytest.mark.parametrize(
    "value", ["0s", "s", "1 fortnight", "-1s", "1.5s", 0, -1, 2**63, 1.5, True, None, dt.timedelta(0)]
)
def test_what_is_no_span_is_refused_by_the_options_name(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"every: .* is not a span of time"):
        span_ns("every", value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("30 parsecs", "'30 parsecs' is not a span of time: 'parsecs' is not a unit: give a whole number"),
        ("1.5 Min", "'Min' is not a unit: give"),
        (1.5, "1.5 is not a span of time: a float could be seconds, and a whole number is ns: give"),
        (np.float64(5), "a float could be seconds"),
        ("1.5s", "'1.5s' is not a span of time: give a whole number"),
        ("", "'' is not a span of time: give"),
    ],
)
def test_the_error_says_what_is_wrong_where_one_can_tell(value: Any, says: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        span_ns("every", value)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("ns", "text"),
    [(1, "1ns"), (1_500, "1500ns"), (250_000, "250us"), (30 * 10**9, "30s"), (90 * 10**9, "90s"), (60 * 10**9, "1m"),
     (86_400 * 10**9, "1d"), (2**63 - 1, "9223372036854775807ns")],
)  # fmt: skip
def test_a_span_is_written_in_its_largest_whole_unit(ns: int, text: str) -> None:
    assert span_text(ns) == text


@given(st.integers(1, 10**18 - 1))
def test_a_span_that_is_written_is_read_as_the_same(ns: int) -> None:
    assert span_ns("every", span_text(ns)) == ns
