"""Lateness in C's histogram."""

from __future__ import annotations

import numpy as np
from merge_support import stamped

from strand.binding import pace
from strand.feeds import TickBatch
from strand.replaying.pacing import Pacer
from strand.testing import Clock


def released(pacer: Pacer, clock: Clock, *batches: TickBatch, takes_ns: int = 0) -> list[tuple[int, list[int]]]:
    """When each slice came out, from the start, and its receive times; publishing one takes ``takes_ns``."""
    found, start = [], clock.now_ns()
    for part in pacer.paced(batches):
        found.append((clock.now_ns() - start, part["ts_recv"].tolist()))
        clock.advance(takes_ns / 1e9)
    return found


def test_lateness_is_booked_in_the_engines_buckets() -> None:
    book = pace.Book()
    floors = book.floors_ns()
    book.note(np.array([100, 200, 5_000, 9_000], np.int64), 5_100, 1_000)
    counts = book.counts()
    for behind, ticks in {5_000: 1, 4_900: 1, 100: 1, 0: 1}.items():
        assert counts[np.searchsorted(floors, behind, side="right") - 1] >= ticks
    assert counts.sum() == book.ticks == 4
    assert book.late == 2
    assert book.furthest_ns == 5_000


def test_percentiles_are_never_above_the_maximum() -> None:
    clock = Clock()
    pacer = Pacer(1, clock=clock)
    released(pacer, clock, stamped([0, 1, 2, 3]), takes_ns=1_000_003)
    lateness = pacer.statistics().lateness
    assert max(lateness.percentiles.values()) == lateness.maximum_ns == 1_000_002
