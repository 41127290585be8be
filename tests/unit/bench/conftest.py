"""Needs of benchmarks."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def two_cores() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a publisher and a worker need a core each")
