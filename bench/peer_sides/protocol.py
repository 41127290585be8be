"""Protocol of a side of bench/peers.py: a program that loads, says so, waits for the word, runs, and leaves its
results.

    python SIDE.py JOB FOLDER SHARD SHARDS OUT WAY

``JOB``: ``vwap`` or ``book``. ``FOLDER``: what bench/peers.py has written. Of ``SHARDS`` a side takes the symbols whose
hash is ``SHARD``. ``OUT``: where the results go, an array of ``VWAP`` or ``TOP``. ``WAY``: for a side with several.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: An event of an order: ``op`` is A (added), U (``size`` is what is left of it) or D (gone); or, with op T, a trade.
#: ``price`` in 1e-4, ``side`` is B or S, ``ts`` in ns since the epoch.
EVENT = np.dtype(
    [
        ("ts", "<i8"),
        ("order_id", "<u8"),
        ("price", "<i8"),
        ("size", "<u4"),
        ("symbol", "<u4"),
        ("op", "S1"),
        ("side", "S1"),
        ("pad", "<u2"),
        ("more", "<u4"),
    ]
)
#: ``notional`` is the sum of price times size, in 1e-4.
VWAP = np.dtype([("symbol", "<u4"), ("volume", "<u8"), ("notional", "<f8")])
#: Prices in 1e-4, 0 where a side is empty.
TOP = np.dtype(
    [("symbol", "<u4"), ("bid_price", "<i8"), ("bid_size", "<i8"), ("ask_price", "<i8"), ("ask_size", "<i8")]
)


@dataclass(frozen=True)
class Task:
    """``load`` returns ``run``, which returns ``collect``, which returns the results; the second is what is timed."""

    job: str
    folder: Path
    shard: int
    shards: int
    way: str

    def events(self) -> Any:
        """The job's events of this shard, in order, in memory of this process."""
        path = self.folder / f"{self.job}.npy"
        if self.shards == 1:
            return np.load(path)
        # Mapped, so that all processes have one copy of what they choose from.
        events = np.load(path, mmap_mode="r")
        return np.asarray(events[shard_of(events["symbol"], self.shards) == self.shard])


def shard_of(symbols: Any, shards: int) -> Any:
    """The shard of each symbol: Knuth's multiplicative hash."""
    return (symbols.astype(np.uint64) * 2654435761 >> 16) % shards


def by_symbol(events: Any) -> tuple[Any, Any]:
    """Events with those of a symbol together, in order, and where each symbol's begin and the last end."""
    keys = events["symbol"]
    if int(keys.max(initial=0)) < 1 << 16:
        keys = keys.astype(np.uint16)  # which numpy sorts by radix
    events = events[np.argsort(keys, kind="stable")]
    begins = np.flatnonzero(np.diff(events["symbol"], prepend=np.uint32(2**32 - 1)))
    return events, np.append(begins, len(events))


_not_counted_s = 0.0


@contextlib.contextmanager
def not_counted() -> Iterator[None]:
    """Around what is done once a machine, like compiling: it counts as neither loading nor running."""
    global _not_counted_s  # noqa: PLW0603
    begun = time.perf_counter()
    yield
    _not_counted_s += time.perf_counter() - begun


def main(load: Callable[[Task], Callable[[], Callable[[], Any]]]) -> None:
    job, folder, shard, shards, out, way = sys.argv[1:]
    begun = time.perf_counter()
    run = load(Task(job, Path(folder), int(shard), int(shards), way))
    print(json.dumps({"load_s": time.perf_counter() - begun - _not_counted_s}), flush=True)
    if not sys.stdin.readline():
        return  # whoever asked is gone
    begun = time.perf_counter()
    collect = run()
    print(json.dumps({"run_s": time.perf_counter() - begun}), flush=True)
    np.save(out, collect())
    print(json.dumps({"saved": True}), flush=True)
