"""Runs whose fingerprints are kept, and handlers that part at a tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import strand
from strand.feeds.write.npy import write_npy

HANDLERS = """
import random
import strand

STATE = [("n", "u8"), ("volume", "u8"), ("last", "i8")]


def ways(scale, after):
    @strand.batch_handler(state=STATE)
    def tally(symbol, ticks, row):
        for tick in ticks:
            row["n"] += 1
            row["volume"] += tick["size"] * (scale if tick["sequence"] > after else 1)
            row["last"] = tick["price"]

    return tally


plain = ways(1, 0)
doubled = ways(2, {after})


@strand.batch_handler(state=STATE)
def dice(symbol, ticks, row):
    row["n"] += len(ticks)
    row["last"] = random.getrandbits(60)
"""


def record(folder: Path, letter: str, ticks: Any, names: Any, handler: Any = "count", **options: Any) -> Path:
    """Writes the ticks as a file, replays it, and returns the fingerprint file."""
    write_npy(folder / f"{letter}.npz", ticks, names)
    path = folder / f"{letter}.jsonl"
    options = {"workers": 1, "cores": None, "fingerprint_every": 500} | options
    strand.replay(folder / f"{letter}.npz", handler, fingerprints=path, **options)
    return path
