"""Spans of time that options name."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from strand.errors import ConfigurationError
from strand.handlers.spans import span_ns

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
    with pytest.raises(ConfigurationError, match=r"every: .* is no span of time"):
        span_ns("every", value)
