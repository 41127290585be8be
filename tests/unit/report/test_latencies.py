"""Latencies as text, and the depth of queues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import strand
from strand.replaying.timeline import Timeline
from strand.report.counts import latency_cells, latency_rows, queue_depth, shown_latency
from strand.stats import Latency

pytestmark = pytest.mark.python

FLOORS = np.array([0.0, 10.0, 20.0, 4000.0])


def test_a_percentile_below_what_the_clock_resolves_says_so() -> None:
    latency = Latency.from_histogram(np.array([50, 40, 0, 10], np.uint64), FLOORS, 20.0)
    assert latency_cells(latency) == ["under 20 ns", "under 20 ns", "8 us", "8 us", "8 us"]
    assert shown_latency(latency, 20.5) == "20.5 ns"
    # Without a clock that is known, every number is shown.
    assert latency_cells(replace(latency, resolution_ns=0.0))[0] == "20 ns"


def test_what_was_not_measured_is_a_dash() -> None:
    assert latency_cells(Latency.from_histogram(np.zeros(4, np.uint64), FLOORS, 20.0)) == ["-"] * 5


def test_waits_are_named_only_where_ticks_came_at_a_pace(day: strand.ReplayResult) -> None:
    assert [row[0] for row in latency_rows(day.statistics)] == ["handler"]
    paced = replace(day.statistics, paced=True)
    assert [row[0] for row in latency_rows(paced)] == ["wait", "handler", "end to end"]
    assert queue_depth(replace(day, statistics=paced)) is None


def sampled(day: strand.ReplayResult, accepted: list[int], pending: list[int]) -> strand.ReplayResult:
    assert day.timeline is not None
    timeline: Timeline = replace(
        day.timeline, accepted=np.array(accepted, np.uint64), pending=np.array(pending, np.uint64)
    )
    return replace(day, timeline=timeline)


def test_the_depth_is_that_of_the_moments_at_which_ticks_came(day: strand.ReplayResult) -> None:
    rng = np.random.default_rng(5)
    depths = rng.integers(0, 10_000, 100).tolist()
    found = queue_depth(sampled(day, [0, 0, *range(1, 101), 500], [0, 0, *depths, 0]))
    assert found is not None
    # The smallest depth that as many moments as the share says do not exceed, counted one by one.
    for share, depth in ((50, found.p50), (99, found.p99), (100, found.maximum)):
        assert depth in depths
        assert sum(one <= depth for one in depths) >= share
        assert sum(one < depth for one in depths) < share
    assert found.moments == 100
    one = queue_depth(sampled(day, [0, 7, 7], [0, 3, 0]))
    assert str(one) == "queue depth: p50 3 ticks, p99 3, max 3 (published and not yet handled, at 1 moment)"


def test_a_run_that_was_not_sampled_while_ticks_came_has_no_depth(day: strand.ReplayResult) -> None:
    assert queue_depth(sampled(day, [0, 500], [0, 0])) is None
    assert queue_depth(replace(day, timeline=None)) is None
