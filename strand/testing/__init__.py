"""Tools for tests of handlers and feeds: ticks from a list, the plain loop, runs that a seed decides, a clock to
move."""

from __future__ import annotations

from strand.testing.comparing import assert_same, reference
from strand.testing.list_feed import ListFeed, feed
from strand.testing.seeded_run import check_seeds, seeded
from strand.testing.virtual_clock import Clock

__all__ = ["Clock", "ListFeed", "assert_same", "check_seeds", "feed", "reference", "seeded"]


def __dir__() -> list[str]:
    return sorted(__all__)
