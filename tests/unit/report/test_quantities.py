"""Numbers as tables, figures and pages write them."""

from __future__ import annotations

import pytest

from strand.report.quantities import duration, rate


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"), (0.5, "0.5 ns"), (850, "850 ns"), (999.7, "1 us"), (41_835, "41.8 us"), (2_190_000, "2.19 ms"),
        (999_960_000, "1 s"), (1.2e9, "1.2 s"), (999.7e9, "1,000 s"), (86_400e9, "86,400 s"),
    ],
)  # fmt: skip
def test_durations_have_three_digits_and_the_unit_that_keeps_them_short(ns: float, text: str) -> None:
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [
        (0, "0 ticks/s"), (3.456, "3.46 ticks/s"), (999.4, "999 ticks/s"), (999.6, "1 k ticks/s"),
        (12_345, "12.3 k ticks/s"), (99_940, "99.9 k ticks/s"), (99_960, "0.10 M ticks/s"),
        (25_120_000, "25.12 M ticks/s"),
    ],
)  # fmt: skip
def test_rates_of_slow_runs_are_not_rounded_to_nothing(per_s: float, text: str) -> None:
    assert " ".join(rate(per_s)) == text
