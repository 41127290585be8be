"""The dispatcher as users see it."""

from __future__ import annotations

import os

import pytest

from strand import Dispatcher, Fifo

pytestmark = pytest.mark.python


def test_old_names_of_the_dispatcher_and_its_statistics_are_refused_with_the_new_ones() -> None:
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        for thing, old, new in (
            (d, "look", "inspect"),
            (d, "check", "verify"),
            (d, "read_at_rest", "read_if_quiescent"),
            (d.statistics(), "claimed", "handled_inline"),
        ):
            with pytest.raises(AttributeError, match=f"{old} is called {new} now"):
                getattr(thing, old)
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            d.nothing  # noqa: B018


def test_a_dispatcher_has_a_policy_and_workers_by_itself() -> None:
    with Dispatcher(3, "count", policy=Fifo()) as d:
        assert d.workers == max(1, len(os.sched_getaffinity(0)) - 1)
        assert d.n_strands == 3
