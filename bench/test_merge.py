"""Merging feeds: ticks a second of the whole way, from arrays in memory and from files, on the calling thread alone.

pytest bench/test_merge.py --benchmark-only
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from strand import TICK
from strand.feeds.base import BaseFeed, FeedInfo, TickBatch
from strand.feeds.formats.npy.reader import NpyFeed
from strand.feeds.merge.feeds import merge_feeds
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

TICKS: Final = int(os.environ.get("STRAND_BENCH_TICKS", "8_000_000"))
SYMBOLS: Final = 8172
_NAMES: Final = tuple(f"S{i}" for i in range(SYMBOLS))


class _Memory(BaseFeed):
    def __init__(self, ticks: TickBatch) -> None:
        super().__init__()
        self._ticks = ticks

    @property
    def info(self) -> FeedInfo:
        return FeedInfo("array", "memory")

    @property
    def symbols(self) -> Sequence[str]:
        return _NAMES

    def batches(self) -> Iterator[TickBatch]:
        for first in range(0, len(self._ticks), 16_384):
            yield self._ticks[first : first + 16_384]


def _ticks(count: int, run: int, seed: int) -> TickBatch:
    """Ticks that come in runs of the same time, as one packet's do, a microsecond a tick on average."""
    rng = np.random.default_rng(seed)
    ticks = zeros(count)
    steps = rng.geometric(1 / (1000 * run), -(-count // run))
    ticks["ts_recv"] = 1_700_000_000_000_000_000 + np.repeat(np.cumsum(steps), run)[:count]
    ticks["instrument_id"] = rng.integers(0, SYMBOLS, count)
    return ticks


def _report(benchmark: Any, ticks: int) -> None:
    if benchmark.stats:  # not with --benchmark-disable
        benchmark.extra_info["million_ticks_per_s"] = round(ticks / benchmark.stats.stats.median / 1e6, 1)


@pytest.mark.parametrize("reorder_ns", [0, 1_000_000], ids=["no-window", "1ms-window"])
@pytest.mark.parametrize(("feeds", "run"), [(8, 1), (8, 32), (2, 1), (1000, 1)], ids=["8", "8-runs", "2", "1000"])
def test_merge_from_memory(benchmark: Any, feeds: int, run: int, reorder_ns: int) -> None:
    made = [_Memory(_ticks(TICKS // feeds, run, seed)) for seed in range(feeds)]

    def merge() -> int:
        return sum(len(batch) for batch in merge_feeds(made, reorder_ns=reorder_ns).batches())

    assert benchmark.pedantic(merge, rounds=5, warmup_rounds=1) == TICKS // feeds * feeds
    _report(benchmark, TICKS)


def test_merge_eight_files(benchmark: Any, tmp_path: Path) -> None:
    paths = [tmp_path / f"{seed}.npz" for seed in range(8)]
    for seed, path in enumerate(paths):
        write_npy(path, _ticks(TICKS // 8, 1, seed), _NAMES)

    def merge() -> int:
        with merge_feeds([NpyFeed(path) for path in paths]) as merged:
            return sum(len(batch) for batch in merged.batches())

    assert benchmark.pedantic(merge, rounds=5, warmup_rounds=1) == TICKS // 8 * 8
    _report(benchmark, TICKS)


def test_merge_beside_one_stable_sort(benchmark: Any) -> None:
    """Time of numpy when everything is in memory at once."""
    made = [_ticks(TICKS // 8, 1, seed) for seed in range(8)]
    opaque = np.dtype((np.void, TICK.itemsize))

    def sort() -> int:
        together = np.concatenate([ticks.view(opaque) for ticks in made])
        return len(together[np.argsort(together.view(TICK)["ts_recv"], kind="stable")])

    assert benchmark.pedantic(sort, rounds=3, warmup_rounds=1) == TICKS // 8 * 8
    _report(benchmark, TICKS)
