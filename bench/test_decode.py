"""Decoding of plain files: messages a second of PITCH, all of it and one symbol, and of captured MoldUDP64, one line
and two.

pytest bench/test_decode.py --benchmark-only
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import itch_reference as itch
import pcap_reference as pcap
import pitch_reference as pitch

from strand.feeds import Feed
from strand.feeds.base import Selection
from strand.feeds.formats.pcap import PcapFeed
from strand.feeds.formats.pitch import PitchFeed

MESSAGES: Final = int(os.environ.get("STRAND_BENCH_MESSAGES", "2_000_000"))
SYMBOLS: Final = 8172
PACKET: Final = 12


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders that live for some thousands of messages, of symbols drawn evenly."""
    rng = np.random.default_rng(1)
    symbols = rng.integers(0, SYMBOLS, MESSAGES // 2)
    path = tmp_path_factory.mktemp("pitch") / "20190130.pitch"
    with path.open("wb") as out:
        for i in range(MESSAGES // 2):
            ms = 34_200_000 + i // 1000
            added = pitch.message("A", ms, i + 1, "BS"[i & 1], 100, f"S{symbols[i]}", 1_500_000 + i % 999, "Y")
            gone = pitch.message("X", ms, i - 4000, 100) if i > 4000 else pitch.message("s", ms, f"S{symbols[i]}")
            out.write(added + b"\n" + gone + b"\n")
    return path


def ticks_of(benchmark: Any, feed: Feed) -> int:
    """Reads a feed three times, and returns its number of ticks."""
    ticks = benchmark.pedantic(lambda: sum(map(len, feed.batches())), rounds=3, warmup_rounds=1)
    if benchmark.stats:  # not under --benchmark-disable
        benchmark.extra_info["million_messages_per_s"] = round(MESSAGES / benchmark.stats.stats.min / 1e6, 1)
    return int(ticks)


@pytest.mark.parametrize("symbols", [(), ("S17",)], ids=["all", "one symbol"])
def test_read_pitch(benchmark: Any, day: Path, symbols: tuple[str, ...]) -> None:
    ticks = ticks_of(benchmark, PitchFeed(day, select=Selection(symbols)))
    assert ticks == MESSAGES if not symbols else 0 < ticks < MESSAGES


@pytest.mark.parametrize("lines", [1, 2], ids=["one line", "two lines"])
def test_read_a_capture(benchmark: Any, tmp_path: Path, lines: int) -> None:
    """Packets of a dozen adds and deletes; the second line brings each packet again."""
    frames = []
    for at in range(0, MESSAGES, PACKET):
        bodies = [
            itch.message("A", 7, i, i, b"B", 100, b"SYMB    ", 1_500_000) if i & 1 else itch.message("D", 9, i, i)
            for i in range(at, min(at + PACKET, MESSAGES))
        ]
        frame = pcap.ethernet(pcap.ipv4(pcap.udp(pcap.mold(at + 1, bodies))))
        frames += [(1_548_858_600 * 10**9 + at * 1000 + line, frame) for line in range(lines)]
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap.pcap(frames))
    assert ticks_of(benchmark, PcapFeed(path)) == MESSAGES
