"""Dukascopy's files of ticks, written and read by struct and lzma alone: nothing here is Strand's."""

from __future__ import annotations

import datetime as dt
import lzma
import random
import struct
from collections.abc import Iterable
from pathlib import Path

#: ms in the hour, ask, bid, the ask's volume, the bid's volume.
Record = tuple[int, int, int, float, float]
ENTRY = struct.Struct(">IIIff")


def packed(records: Iterable[Record]) -> bytes:
    """A file of an hour; of no records a file of no bytes, as the source has it."""
    data = b"".join(ENTRY.pack(*record) for record in records)
    return compressed(data) if data else b""


def compressed(data: bytes) -> bytes:
    """LZMA alone, with the size in its header, as the source has it and Python does not write it."""
    made = lzma.compress(data, lzma.FORMAT_ALONE)
    return made[:5] + struct.pack("<Q", len(data)) + made[13:]


def some(seed: int, count: int = 20, middle: int = 114_000) -> list[Record]:
    """Made-up records: times that rise, prices around ``middle``, volumes of two decimals."""
    rng = random.Random(seed)
    times = sorted(rng.sample(range(3_600_000), count))
    bids = [middle + rng.randint(-50, 50) for _ in times]
    return [
        (ms, bid + rng.randint(0, 9), bid, rng.randint(1, 999) / 100, rng.choice([1.0, 0.75, rng.randint(1, 99) / 8]))
        for ms, bid in zip(times, bids, strict=True)
    ]


def place(root: Path, symbol: str, hour: dt.datetime) -> Path:
    """The path of an hour at the source: months count from 0."""
    return root / symbol / f"{hour:%Y}" / f"{hour.month - 1:02}" / f"{hour:%d}" / f"{hour:%H}h_ticks.bi5"


def write(root: Path, symbol: str, hour: dt.datetime, data: bytes) -> Path:
    path = place(root, symbol, hour)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read(path: Path, digits: int) -> list[tuple[int, int, int, int, int]]:
    """Ticks of a file in its folders: ns since the epoch, bid and ask in 1e-9, volumes of both in units."""
    year, month, day, name = path.parts[-4:]
    begin = dt.datetime(int(year), int(month) + 1, int(day), int(name[:2]), tzinfo=dt.UTC)
    data = lzma.decompress(path.read_bytes(), lzma.FORMAT_ALONE) if path.stat().st_size else b""
    ticks = []
    for ms, ask, bid, ask_volume, bid_volume in ENTRY.iter_unpack(data):
        at = int(
            (begin + dt.timedelta(milliseconds=ms) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) / dt.timedelta(0, 0, 1)
        )
        units = [round(float(f"{volume:.7g}") * 10**6) for volume in (bid_volume, ask_volume)]
        ticks.append((at * 1000, bid * 10 ** (9 - digits), ask * 10 ** (9 - digits), *units))
    return ticks
