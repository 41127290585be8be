"""PITCH decoding: messages a second of a feed on a plain file, all of it and one symbol.

pytest bench/test_pitch_decode.py --benchmark-only
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from pitch_reference import message

from strand.feeds.base import Selection
from strand.feeds.formats.pitch import PitchFeed

MESSAGES: Final = int(os.environ.get("STRAND_BENCH_MESSAGES", "2_000_000"))
SYMBOLS: Final = 8172


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders that live for some thousands of messages, of symbols drawn evenly."""
    rng = np.random.default_rng(1)
    symbols = rng.integers(0, SYMBOLS, MESSAGES // 2)
    path = tmp_path_factory.mktemp("pitch") / "20190130.pitch"
    with path.open("wb") as out:
        for i in range(MESSAGES // 2):
            ms = 34_200_000 + i // 1000
            out.write(message("A", ms, i + 1, "BS"[i & 1], 100, f"S{symbols[i]}", 1_500_000 + i % 999, "Y") + b"\n")
            gone = message("X", ms, i - 4000, 100) if i > 4000 else message("s", ms, f"S{symbols[i]}")
            out.write(gone + b"\n")
    return path


@pytest.mark.parametrize("symbols", [(), ("S17",)], ids=["all", "one symbol"])
def test_read_a_file(benchmark: Any, day: Path, symbols: tuple[str, ...]) -> None:
    feed = PitchFeed(day, select=Selection(symbols))

    def read() -> int:
        return sum(len(batch) for batch in feed.batches())

    ticks = benchmark.pedantic(read, rounds=3, warmup_rounds=1)
    assert ticks == MESSAGES if not symbols else 0 < ticks < MESSAGES
    if benchmark.stats:  # not under --benchmark-disable
        benchmark.extra_info["million_messages_per_s"] = round(MESSAGES / benchmark.stats.stats.min / 1e6, 1)
