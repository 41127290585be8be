"""Spans of time that options name."""

from __future__ import annotations

import ctypes
import datetime as dt
import pickle
import threading
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from engine_support import counting, ticks_for
from hypothesis import given
from hypothesis import strategies as st

from strand import Dispatcher
from strand.errors import ConfigurationError
from strand.spans import span_ns, span_text
from strand.stats import Latency
from strand.threads import sleep_exactly

pytestmark = pytest.mark.python


UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}


@pytest.mark.parametrize("unit", UNITS)
def test_a_number_with_a_unit_is_so_many_of_it(unit: str) -> None:
    assert span_ns("every", f"7{unit}") == span_ns("every", f" 7 {unit} ") == 7 * UNITS[unit]
    if UNITS[unit] > 1:
        assert span_ns("every", f"0.75{unit}") * 4 == 3 * UNITS[unit]


@pytest.mark.parametrize(
    "value",
    [dt.timedelta(days=2, microseconds=4), np.timedelta64(172_800_000_004, "us"), pd.Timedelta("2D 4us"),
     "172800.000004s", 172_800.000004],
)  # fmt: skip
def test_spans_of_every_kind_are_exact(value: Any) -> None:
    assert span_ns("every", value) == 172_800_000_004_000


def test_spans_of_pandas_and_numpy_keep_their_ns_and_their_days() -> None:
    assert (
        span_ns("every", pd.Timedelta(1_000_000_001)) == span_ns("every", np.timedelta64(10**9 + 1, "ns")) == 10**9 + 1
    )
    assert (
        span_ns("every", np.timedelta64(2, "W")) == 14 * span_ns("every", np.timedelta64(1, "D")) == 14 * 86_400 * 10**9
    )


@given(st.integers(1, 10**13))
def test_a_float_is_seconds_to_the_nearest_ns(ns: int) -> None:
    assert abs(span_ns("every", float(Decimal(ns) / 10**9)) - ns) <= ns / 2**52


@pytest.mark.parametrize("value", [60, np.int64(60), np.int8(60), "60", " 60 "])
def test_a_number_without_a_unit_is_refused_with_both_readings(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^every: 60 has no unit: give '60s'.* for seconds, or '60ns' for"):
        span_ns("every", value)
    assert span_ns("every", "60s") == span_ns("every", 60.0) == 60 * 10**9  # the cures that it names
    assert span_ns("every", "60ns") == 60


@pytest.mark.parametrize(
    "value",
    ["0s", "s", "1 fortnight", "-1s", "1.5ns", 0, -1, 0.0, -1.5, 1e-12, float("nan"), float("inf"), 1e300, True, None,
     dt.timedelta(0), np.timedelta64("NaT"), np.timedelta64(1, "M"), np.timedelta64(60)],
)  # fmt: skip
def test_what_is_no_span_is_refused_by_the_options_name(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"every: .* is not a span of time"):
        span_ns("every", value)


def test_zero_and_less_are_spans_where_they_mean_something() -> None:
    zeros: list[Any] = [0, 0.0, "0s", dt.timedelta(0), np.int64(0)]
    for zero in zeros:
        assert span_ns("delay", zero, least=0) == 0
    below: list[Any] = [-5, -5e-9, "-5ns", np.timedelta64(-5, "ns")]
    for less in below:
        assert span_ns("deadline", less, least=None) == -5
        with pytest.raises(ConfigurationError, match="is not a span of time: give a number of at least 0"):
            span_ns("delay", less, least=0)


def test_what_was_read_is_taken_again() -> None:
    read = span_ns("every", "250us")
    assert span_ns("every", read) == span_ns("every", pickle.loads(pickle.dumps(read))) == 250_000


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("30 parsecs", "'30 parsecs' is not a span of time: 'parsecs' is not a unit: give a number above 0 with"),
        ("1.5 Min", "'Min' is not a unit: give"),
        ("1.5ns", "it is no whole number of ns: give"),
        ("", "'' is not a span of time: give"),
    ],
)
def test_the_error_says_what_is_wrong_where_one_can_tell(value: Any, says: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        span_ns("every", value)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0s"), (1, "1ns"), (1_500, "1500ns"), (250_000, "250us"), (30 * 10**9, "30s"), (90 * 10**9, "90s"),
     (60 * 10**9, "1m"), (86_400 * 10**9, "1d"), (2**63 - 1, "9223372036854775807ns")],
)  # fmt: skip
def test_a_span_is_written_in_its_largest_whole_unit(ns: int, text: str) -> None:
    assert span_text(ns) == text


@given(st.integers(1, 2**63 - 1))
def test_a_span_that_is_written_is_read_as_the_same(ns: int) -> None:
    assert span_ns("every", span_text(ns)) == ns


# ---- Latencies and their percentiles


def test_percentiles_are_the_upper_edges_of_the_buckets_that_hold_them() -> None:
    floors = np.array([0.0, 10.0, 20.0, 40.0])
    latency = Latency.from_histogram(np.array([50, 40, 9, 1], np.uint64), floors)
    assert latency.count == 100
    assert dict(latency.percentiles) == {50.0: 10.0, 90.0: 20.0, 99.0: 40.0, 99.9: 80.0}
    assert latency.maximum_ns == 80.0
    empty = Latency.from_histogram(np.zeros(4, np.uint64), floors)
    assert (empty.count, empty.maximum_ns, set(empty.percentiles.values())) == (0, 0.0, {0.0})


def test_no_percentile_is_below_what_the_clock_resolves() -> None:
    floors = np.array([0.0, 10.0, 20.0, 40.0])
    counts = np.array([50, 40, 9, 1], np.uint64)
    latency = Latency.from_histogram(counts, floors, 15.0)
    assert dict(latency.percentiles) == {50.0: 15.0, 90.0: 20.0, 99.0: 40.0, 99.9: 80.0}
    assert latency.percentile(1) == 15.0
    below = Latency.from_histogram(counts, floors, 100.0)
    assert {*below.percentiles.values(), below.maximum_ns} == {100.0}
    assert Latency.from_histogram(np.zeros(4, np.uint64), floors, 15.0).percentiles[50.0] == 0.0
    with Dispatcher(4, counting, workers=1, cores=None) as d:
        d.publish(ticks_for([0] * 10))
        d.drain()
        s = d.statistics()
    assert 0 < s.handler.resolution_ns < 1e6
    for found in s.latencies.values():
        assert min(found.percentiles.values()) >= s.handler.resolution_ns


# ---- Threads that a dispatcher waits for


def test_a_thread_that_sleeps_exactly_has_no_slack_and_the_one_it_came_from_keeps_its_own() -> None:
    def slack_ns() -> int:
        return int(ctypes.CDLL(None).prctl(30, 0, 0, 0, 0))  # PR_GET_TIMERSLACK

    def exact() -> None:
        sleep_exactly()
        found.append(slack_ns())

    before, found = slack_ns(), list[int]()
    thread = threading.Thread(target=exact)
    thread.start()
    thread.join(60)
    assert found == [1]
    assert slack_ns() == before
