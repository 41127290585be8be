"""What the engine answers."""

from __future__ import annotations

import numpy as np

from strand.binding.engine_words import COUNTERS, Failure, clock_resolution_ns, histogram_floors_ns


def test_a_failure_has_a_reason_also_without_words() -> None:
    assert Failure(-7, "").reason == "code -7"
    assert Failure(-7, "no such order").reason == "no such order"


def test_edges_of_buckets_rise_and_count_in_ns_of_the_clock() -> None:
    floors = histogram_floors_ns(1.0)
    assert floors[0] == 0
    assert np.all(np.diff(floors) > 0)
    assert np.allclose(histogram_floors_ns(2.5), 2.5 * floors)
    # Known to one part in sixteen.
    assert np.all(np.diff(floors)[100:] / floors[100:-1] <= 1 / 16 + 1e-9)


def test_each_counter_has_a_name_of_its_own() -> None:
    assert len(set(COUNTERS)) == len(COUNTERS)


def test_what_the_clock_resolves_is_measured_once_and_a_seeded_run_counts_steps() -> None:
    from strand.binding.scheduled import lib as scheduled

    first = clock_resolution_ns()
    assert 0 < first < 1e6
    assert clock_resolution_ns() is first
    assert clock_resolution_ns(scheduled) == 1
