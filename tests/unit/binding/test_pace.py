"""Lateness in C's histogram."""

from __future__ import annotations

import numpy as np

from strand.binding import live


def test_lateness_is_booked_in_the_engines_buckets() -> None:
    book = live.Book()
    floors = book.floors_ns()
    book.note(np.array([100, 200, 5_000, 9_000], np.int64), 5_100, 1_000)
    counts = book.counts()
    for behind, ticks in {5_000: 1, 4_900: 1, 100: 1, 0: 1}.items():
        assert counts[np.searchsorted(floors, behind, side="right") - 1] >= ticks
    assert counts.sum() == book.ticks == 4
    assert book.late == 2
    assert book.furthest_ns == 5_000


def test_what_the_clock_resolves_is_a_whole_number_of_ns_and_measured_once() -> None:
    found = live.resolution_ns()
    assert found >= 1
    assert found == int(found)
    assert live.resolution_ns() is found
