"""Jobs for the benchmarks of routing, on workers that are not pinned."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from strand.bench.streams import numbered
from strand.bench.ways import Job
from strand.handlers import Handler, spin
from strand.machine import Cores
from strand.ticks import zeros


def unpinned(workers: int) -> Cores:
    return Cores(None, (None,) * workers)


def job_of(ticks: npt.NDArray[Any], symbols: int, handler: Handler | None = None, **more: Any) -> Job:
    options: dict[str, Any] = {"handler": handler or spin(3), "cores": unpinned(2), "idle": "backoff", **more}
    counts = np.bincount(ticks["instrument_id"], minlength=symbols)
    return Job(ticks=ticks, symbols=symbols, counts=counts, **options)


def small_stream(count: int, symbols: int, seed: int) -> npt.NDArray[Any]:
    rng = np.random.default_rng(seed)
    ticks = zeros(count)
    ticks["instrument_id"] = (symbols * rng.random(count) ** 3).astype(np.uint32)
    ticks["price"] = rng.integers(-(2**40), 2**40, count)
    return numbered(ticks)
