"""Streams and ways to dispatch them, drawn by hypothesis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from strand import batch_handler
from strand.dispatch.configuration import grouped
from strand.handlers import SPIN_ROW

__all__ = ["Case", "cases", "spin_in_python"]


@dataclass(frozen=True)
class Case:
    """A stream, how it is cut and published, and by what it is handled."""

    symbols: int
    streams: tuple[tuple[int, ...], ...]  # keys, a publisher
    cuts: int
    python: bool
    strands: Any
    options: dict[str, Any]


@st.composite
def cases(draw: st.DrawFn, publishers: int = 3) -> Case:
    symbols = draw(st.integers(1, 12))
    keys = st.integers(0, symbols - 1)
    streams = draw(st.lists(st.lists(keys, max_size=400).map(tuple), min_size=1, max_size=publishers).map(tuple))
    options = {
        "workers": draw(st.integers(1, 4)),
        "capacity_ticks": draw(st.sampled_from([1, 2, 7, 31, 32, 100, 65_536])),
        "budget_ticks": draw(st.sampled_from([1, 3, 31, 4096])),
        "batch_ticks": draw(st.sampled_from([1, 5, 64, 4096])),
        "idle": draw(st.sampled_from(["spin", "backoff", "park"])),
        "publisher_drains": draw(st.booleans()),
        "max_publishers": draw(st.integers(1, 4)),
        "_counters_start": draw(st.sampled_from([0, 2**32 - 7, 2**64 - 7])),
    }
    strands = draw(st.sampled_from(["auto", "per-symbol", 1, 3]))
    return Case(
        symbols, streams, draw(st.integers(1, 60)), draw(st.booleans()), strands, grouped(cores=None, **options)
    )


@batch_handler(state=SPIN_ROW)
def spin_in_python(symbol: str, ticks: Any, row: Any) -> None:
    for tick in ticks:
        row["broken"] += tick["sequence"] != row["last_sequence"] + np.uint64(1)
        row["last_sequence"] = tick["sequence"]
        row["ticks"] += np.uint64(1)
        row["value"] += np.uint64(int(tick["price"]))
