"""CSV through a profile beside bare pyarrow on the same file: rows a second, and the ratio on one core.

pytest bench/test_csv.py --benchmark-only
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from strand.binding.columns import DECIMAL, Numbers, TextColumn
from strand.feeds.formats.csv.reader import CsvFeed

arrow_csv = pytest.importorskip("pyarrow.csv")

ROWS: Final = int(os.environ.get("STRAND_BENCH_CSV_ROWS", "1_000_000"))
ROUNDS: Final = 7
#: Of the rate of pyarrow reading the same file with types it infers, on one core.
GOAL: Final = 0.8


@pytest.fixture(scope="module")
def trades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tardis trades: eight columns, 78 bytes a line."""
    rng = np.random.default_rng(1)
    at = (1_700_000_000_000_000 + np.cumsum(rng.integers(0, 2000, ROWS))).tolist()
    numbers = rng.integers(300_000, 400_000, ROWS).tolist()
    path = tmp_path_factory.mktemp("csv") / "trades.csv"
    with path.open("w") as file:
        file.write("exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n")
        for i, (us, n) in enumerate(zip(at, numbers, strict=True)):
            side = "buy" if n & 1 else "sell"
            file.write(f"binance,BTCUSDT,{us},{us + 150},{i},{side},{n / 10:.1f},{n / 1000:.3f}\n")
    return path


def through_profile(path: Path) -> int:
    return sum(len(batch) for batch in CsvFeed(path).batches())


def bare_stream(path: Path) -> int:
    return sum(batch.num_rows for batch in arrow_csv.open_csv(path))


def bare_table(path: Path) -> int:
    return int(arrow_csv.read_csv(path).num_rows)


@pytest.fixture
def one_core() -> Iterator[None]:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("read", [through_profile, bare_stream, bare_table])
def test_rows_a_second(read: Callable[[Path], int], trades: Path, benchmark: Any) -> None:
    assert benchmark.pedantic(read, (trades,), rounds=3, warmup_rounds=1) == ROWS
    benchmark.extra_info["rows_per_s"] = ROWS / benchmark.stats.stats.median


def test_on_one_core_a_profile_costs_little_more_than_bare_pyarrow(
    trades: Path, one_core: None, benchmark: Any
) -> None:
    """Interleaved, so that a neighbour on the machine slows all of them. The median ratio is shown, and asked for."""
    spent: dict[str, list[float]] = {"through_profile": [], "bare_stream": [], "bare_table": []}
    for _ in range(ROUNDS):
        for read in (through_profile, bare_stream, bare_table):
            begun = time.perf_counter()
            assert read(trades) == ROWS
            spent[read.__name__].append(time.perf_counter() - begun)
    for name in ("bare_stream", "bare_table"):
        ratios = [bare / ours for bare, ours in zip(spent[name], spent["through_profile"], strict=True)]
        benchmark.extra_info[f"of_{name}"] = statistics.median(ratios)
    benchmark.pedantic(through_profile, (trades,), rounds=1)
    assert benchmark.extra_info["of_bare_stream"] >= GOAL, benchmark.extra_info


def test_decimals_a_second(benchmark: Any) -> None:
    texts = [f"{n / 100:.2f}".encode() for n in range(1_000_000, 1_065_536)]
    offsets = np.cumsum([0, *(len(text) for text in texts)]).astype(np.int32)
    column = TextColumn(offsets, b"".join(texts), rows=len(texts))
    out, faults = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.uint16)
    assert benchmark(Numbers(DECIMAL, 9).read, column, 0, out, faults) == 0
    benchmark.extra_info["fields_per_s"] = len(texts) / benchmark.stats.stats.median
