"""The load that a recorded file is."""

from __future__ import annotations

import numpy as np
import pytest

import strand
from strand import feeds
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.planning.plan import Arrivals, measure_arrivals, measure_service
from strand.testing import feed

pytestmark = pytest.mark.python

SECOND = 10**9


def of(
    times: list[int], symbols: list[str] | None = None, *, limit: int | None = None, batches: int | None = None
) -> Arrivals:
    names = symbols or ["A"] * len(times)
    ticks = [{"symbol": name, "ts_recv": ns, "price": 1.0, "size": 1} for name, ns in zip(names, times, strict=True)]
    return measure_arrivals(feed(ticks, batches=batches), limit=limit)


def test_rates_are_ticks_over_the_time_between_them() -> None:
    found = of([SECOND, 2 * SECOND, 3 * SECOND, 5 * SECOND], ["A", "B", "A", "A"])
    assert found.ticks == 4
    assert found.rate_per_s == pytest.approx(3 / 4)
    assert found.by_symbol == pytest.approx({"A": 3 / 4, "B": 1 / 4})


def test_how_arrivals_spread_is_the_variance_of_their_gaps_over_the_square_of_the_mean() -> None:
    times = [0, 1, 5, 6, 20, 21, 22]
    gaps = np.diff(times)
    found = of([SECOND + ns * 1000 for ns in times])
    assert found.burstiness.squared_variation == pytest.approx(gaps.var() / gaps.mean() ** 2)
    for batches in (1, 2, 3):
        assert of([SECOND + ns * 1000 for ns in times], batches=batches) == found
    assert of([SECOND * n for n in range(1, 9)]).burstiness.squared_variation == pytest.approx(0)
    draw = np.random.default_rng(7)
    random = np.cumsum(draw.exponential(1_000_000, 4_000)).astype(int) + 1
    assert of(random.tolist()).burstiness.squared_variation == pytest.approx(1, rel=0.1)


def test_the_busiest_second_is_found_across_batches() -> None:
    times = [SECOND, SECOND + 5, SECOND + 7, 4 * SECOND, 4 * SECOND + 1]
    for batches in (1, 2, 5):
        assert of(times, batches=batches).burstiness.busiest_per_s == 3


def test_a_time_that_runs_back_counts_as_no_later_than_the_one_before() -> None:
    gaps = np.array([2, 0, 2])
    for batches in (1, 2, 4):
        found = of([SECOND, 3 * SECOND, 2 * SECOND, 5 * SECOND], batches=batches)
        assert found.rate_per_s == pytest.approx(3 / 4)
        assert found.burstiness.squared_variation == pytest.approx(gaps.var() / gaps.mean() ** 2)


def test_what_is_undefined_is_none_or_refused() -> None:
    assert of([SECOND, 2 * SECOND]).burstiness.squared_variation is None
    for times in ([SECOND], [SECOND, SECOND]):
        with pytest.raises(ConfigurationError, match=f"the rate is undefined: {len(times)} ticks, and no time between"):
            of(times)


def test_a_limit_ends_the_reading() -> None:
    found = of([SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND], limit=3)
    assert (found.ticks, found.rate_per_s) == (3, pytest.approx(1))


def test_a_file_is_measured_by_its_reader_and_a_replay() -> None:
    day = {"date": SAMPLE_DATE}
    found = measure_arrivals(feeds.open(sample_path(), **day))
    result = strand.replay(sample_path(), "count", feed_options=day)
    assert found.ticks == result.ticks
    assert set(found.by_symbol) == {name for name, n in zip(result.symbols, result.ticks_by_symbol, strict=False) if n}
    fast = measure_service(sample_path(), "count", feed_options=day, limit=50_000)
    slow = measure_service(sample_path(), strand.handlers.spin(work=2000), feed_options=day, limit=50_000)
    assert 0 < fast < slow / 5
