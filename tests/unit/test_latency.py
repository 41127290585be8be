"""Latencies and their percentiles."""

from __future__ import annotations

import numpy as np
import pytest
from engine_support import counting, ticks_for

from strand import Dispatcher
from strand.stats import Latency

pytestmark = pytest.mark.python


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
