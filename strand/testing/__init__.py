"""Tools for tests of handlers and feeds: ticks from a list, the plain loop, runs that a seed decides, a clock to
move."""

from __future__ import annotations

from strand.testing.seeded_run import check_seeds, seeded
from strand.testing.tools import Clock, ListFeed, assert_same, feed, reference

__all__ = ["Clock", "ListFeed", "assert_same", "check_seeds", "feed", "reference", "seeded"]


def __dir__() -> list[str]:
    return sorted(__all__)
