"""Captured MoldUDP64: messages a second of a feed on a plain capture, one line and two.

pytest bench/test_pcap_decode.py --benchmark-only
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import itch_reference as itch
import pcap_reference as ref

from strand.feeds.formats.pcap import PcapFeed

MESSAGES: Final = int(os.environ.get("STRAND_BENCH_MESSAGES", "2_000_000"))
PACKET: Final = 12


@pytest.mark.parametrize("lines", [1, 2], ids=["one line", "two lines"])
def test_read_a_capture(benchmark: Any, tmp_path: Path, lines: int) -> None:
    """Packets of a dozen adds and deletes; the second line brings each packet again."""
    frames = []
    for at in range(0, MESSAGES, PACKET):
        bodies = [
            itch.message("A", 7, i, i, b"B", 100, b"SYMB    ", 1_500_000) if i & 1 else itch.message("D", 9, i, i)
            for i in range(at, min(at + PACKET, MESSAGES))
        ]
        frame = ref.ethernet(ref.ipv4(ref.udp(ref.mold(at + 1, bodies))))
        frames += [(1_548_858_600 * 10**9 + at * 1000 + line, frame) for line in range(lines)]
    path = tmp_path / "capture.pcap"
    path.write_bytes(ref.pcap(frames))
    feed = PcapFeed(path)

    def read() -> int:
        return sum(len(batch) for batch in feed.batches())

    assert benchmark.pedantic(read, rounds=3, warmup_rounds=1) == MESSAGES
    if benchmark.stats:  # not under --benchmark-disable
        benchmark.extra_info["million_messages_per_s"] = round(MESSAGES / benchmark.stats.stats.min / 1e6, 1)
