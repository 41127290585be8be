"""The dispatcher as users see it."""

from __future__ import annotations

import os

import pytest

from strand import Dispatcher, Fifo

pytestmark = pytest.mark.python


def test_a_dispatcher_has_a_policy_and_workers_by_itself() -> None:
    with Dispatcher(3, "count", policy=Fifo()) as d:
        assert d.workers == max(1, len(os.sched_getaffinity(0)) - 1)
        assert d.n_strands == 3
