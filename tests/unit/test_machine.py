"""Cores: those there are, and threads pinned to them."""

from __future__ import annotations

import os

import pytest

from strand.errors import ConfigurationError
from strand.machine import Cores, choose_cores, pinned


def test_pinning_is_undone() -> None:
    before = os.sched_getaffinity(0)
    with pinned(min(before)):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_without_a_core_for_each_thread_nothing_is_pinned() -> None:
    too_many = len(os.sched_getaffinity(0))
    assert choose_cores(too_many) == Cores(None, (None,) * too_many)
    assert choose_cores(too_many).pinned_workers is None


def test_cores_that_cannot_be_used_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"cores: \[4000\]"):
        choose_cores(1, [0, 4000])
    with pytest.raises(ConfigurationError, match="a publisher and 1 workers need 2 cores"):
        choose_cores(1, [min(os.sched_getaffinity(0))])
