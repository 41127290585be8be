"""ITCH 5.0 decoding: messages a second of the decoder itself, of a feed on a plain file, on a gzip file, of one symbol.

pytest bench/test_itch_decode.py --benchmark-only
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from strand.binding.itch import ItchDecoder
from strand.feeds.formats.itch.reader import ItchFeed
from strand.feeds.selection import Selection
from strand.ticks import zeros

MESSAGES: Final = int(os.environ.get("STRAND_BENCH_MESSAGES", "10_000_000"))
SYMBOLS: Final = 8172
_CHUNK: Final = 250_000

#: Share of each type in a busy day's stream, its length without the length field, and where its side lies.
MIX: Final = {
    "A": (0.420, 36, 19),
    "D": (0.400, 19, None),
    "U": (0.080, 35, None),
    "E": (0.045, 31, None),
    "X": (0.025, 23, None),
    "F": (0.015, 40, 19),
    "C": (0.005, 36, None),
    "P": (0.010, 44, 19),
}

Bytes = npt.NDArray[np.uint8]


def _frames_of_type(letter: str, times: npt.NDArray[np.int64], rng: np.random.Generator) -> Bytes:
    """Fields are random within their ranges: orders have no lifecycle, which a decoder does not look at."""
    _, length, side_at = MIX[letter]
    count = len(times)
    frames = rng.integers(0, 256, size=(count, length + 2), dtype=np.uint8)
    frames[:, :2] = np.frombuffer(length.to_bytes(2, "big"), np.uint8)
    message = frames[:, 2:]
    message[:, 0] = ord(letter)
    message[:, 1:3] = rng.integers(1, SYMBOLS + 1, size=count).astype(">u2").view(np.uint8).reshape(-1, 2)
    message[:, 5:11] = times.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]
    if length > 27:  # shares and prices of few digits, so that gzip finds what it finds in a real file
        message[:, 19 + (side_at is not None) : 21 + (side_at is not None)] = 0
        message[:, -4:-2] = 0
    message[:, 11:14] = 0
    if side_at is not None:
        message[:, side_at] = np.frombuffer(b"BS", np.uint8)[rng.integers(0, 2, size=count)]
        message[:, 24:32] = np.frombuffer(b"SYMB    ", np.uint8)
    return frames


def synthesise(messages: int, *, true_lengths: bool = True) -> Bytes:
    """``messages`` frames as one array of bytes; all length fields are 0 unless ``true_lengths``."""
    rng = np.random.default_rng(1)
    letters = list(MIX)
    shares = np.array([share for share, _, _ in MIX.values()])
    sizes = np.array([length + 2 for _, length, _ in MIX.values()])
    parts: list[Bytes] = []
    for start in range(0, messages, _CHUNK):
        which = rng.choice(len(letters), size=min(_CHUNK, messages - start), p=shares / shares.sum())
        ends = np.cumsum(sizes[which])
        times = 34_200_000_000_000 + (start + np.arange(len(which))) * 2_000
        part = np.empty(int(ends[-1]), np.uint8)
        for i, letter in enumerate(letters):
            mine = which == i
            frames = _frames_of_type(letter, times[mine], rng)
            if not true_lengths:
                frames[:, :2] = 0
            part[(ends[mine] - sizes[i])[:, None] + np.arange(sizes[i])] = frames
        parts.append(part)
    return np.concatenate(parts)


def _report(benchmark: Any, messages: int, feed: ItchFeed | None = None) -> None:
    if not benchmark.stats:  # --benchmark-disable
        return
    seconds = benchmark.stats.stats
    benchmark.extra_info["million_messages_per_s"] = round(messages / seconds.min / 1e6, 1)
    if feed is not None:
        benchmark.extra_info["inflater"] = feed.info.details["inflater"]
        benchmark.extra_info["waiting_share"] = round(feed.statistics()["wait_ns"] / 1e9 / seconds.data[-1], 2)


@pytest.mark.parametrize("true_lengths", [True, False], ids=["true-lengths", "zero-lengths"])
def test_decode_from_memory(benchmark: Any, true_lengths: bool) -> None:
    stream = memoryview(synthesise(MESSAGES, true_lengths=true_lengths)).cast("B")
    out = zeros(16384)

    def decode() -> int:
        decoder = ItchDecoder(midnight_ns=0, skip=False)
        rest = stream
        while rest:
            _, used, sound = decoder.decode(rest, last=True, out=out)
            assert sound
            rest = rest[used:]
        return decoder.statistics()["ticks"]

    assert benchmark.pedantic(decode, rounds=5, warmup_rounds=1) == MESSAGES
    _report(benchmark, MESSAGES)


def test_read_one_symbol(benchmark: Any, tmp_path: Path) -> None:
    """Beside ``test_read_a_file[plain]``: what a selection of one symbol of 8,172 costs."""
    names = b"".join(
        b"\0\x27R" + i.to_bytes(2, "big") + bytes(8) + f"S{i}".ljust(8).encode() + bytes(20)
        for i in range(1, SYMBOLS + 1)
    )
    path = tmp_path / "20190130.itch"
    path.write_bytes(names + synthesise(MESSAGES).tobytes())
    feed = ItchFeed(path, select=Selection(("S17",)))

    def read() -> int:
        return sum(len(batch) for batch in feed.batches())

    assert 0 < benchmark.pedantic(read, rounds=3, warmup_rounds=1) < MESSAGES / 1000
    _report(benchmark, MESSAGES, feed)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_read_a_file(benchmark: Any, tmp_path: Path, packed: bool) -> None:
    messages = MESSAGES // 5 if packed else MESSAGES
    content = synthesise(messages).tobytes()
    path = tmp_path / "20190130.itch"
    path.write_bytes(gzip.compress(content, 4) if packed else content)
    feed = ItchFeed(path)

    def read() -> int:
        return sum(len(batch) for batch in feed.batches())

    assert benchmark.pedantic(read, rounds=3, warmup_rounds=1) == messages
    _report(benchmark, messages, feed)
