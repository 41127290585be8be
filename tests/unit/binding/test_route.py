"""Benchmarks of routing in C, seen from Python."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from route_jobs import job_of, small_stream

from strand.bench.ways import run
from strand.binding import lab as routes
from strand.errors import ConfigurationError
from strand.machine import Cores


def test_a_core_that_does_not_exist_is_refused() -> None:
    job = job_of(small_stream(10, 2, 9), 2, cores=Cores(None, (4000, None)))
    with pytest.raises(ConfigurationError, match="cannot be pinned"):
        run("static", job)


def test_more_workers_than_homes_can_number_are_refused() -> None:
    rows, ticks = np.zeros(1, np.dtype(("V", 64))), small_stream(1, 1, 1)
    with pytest.raises(ConfigurationError, match="workers: 256"):
        routes.static(job_of(ticks, 1).function, rows, ticks, home=np.zeros(1, np.uint8), cores=[None] * 256)


def until(what: Callable[[], bool]) -> bool:
    """Waits for it, for a minute at most."""
    end = time.monotonic() + 60
    while not what() and time.monotonic() < end:
        time.sleep(0.005)
    return what()


def threads() -> set[str]:
    return {path.name for path in Path("/proc/self/task").iterdir()}


def test_a_neighbour_keeps_a_core_busy_until_the_context_is_left() -> None:
    before, cpu = threads(), time.process_time()
    with routes.Neighbour(min(os.sched_getaffinity(0))):
        assert until(lambda: time.process_time() > cpu + 0.02)
        assert threads() > before
    assert threads() == before


def test_a_neighbour_ends_by_itself() -> None:
    before = threads()
    with routes.Neighbour(min(os.sched_getaffinity(0)), max_s=0.01):
        assert until(lambda: threads() == before)
