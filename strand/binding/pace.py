"""Waiting and lateness of csrc/pacing/pace.h."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib

__all__ = ["Book", "now_ns", "resolution_ns", "wait_until"]


def now_ns() -> int:
    """CLOCK_MONOTONIC."""
    return int(lib.sd_pace_now())


@cache
def resolution_ns() -> float:
    """Resolution of the clock of ``now_ns`` in ns: the median difference of two successive readings. Measured once."""
    readings = [now_ns() for _ in range(1002)]
    return float(max(1, sorted(after - before for before, after in pairwise(readings))[500]))


def wait_until(until_ns: int, spin_ns: int) -> bool:
    """Waits without the GIL, until it is ``until_ns`` (True) or a signal has come (False)."""
    return bool(lib.sd_pace_wait(until_ns, spin_ns))


class Book:
    """Lateness of ticks: counts by bucket of the engine's histograms, but of ns."""

    def __init__(self) -> None:
        self._book: Any = ffi.new("sd_pace_book *")

    def note(self, due_ns: npt.NDArray[np.int64], now_ns: int, late_after_ns: int) -> None:
        """Ticks that were due at these times (contiguous) are published now."""
        lib.sd_pace_note(self._book, ffi.from_buffer("int64_t[]", due_ns), len(due_ns), now_ns, late_after_ns)

    @property
    def ticks(self) -> int:
        return int(self._book.ticks)

    @property
    def late(self) -> int:
        """Ticks that were late by more than what was said to be late."""
        return int(self._book.late)

    @property
    def furthest_ns(self) -> int:
        return int(self._book.furthest)

    def counts(self) -> npt.NDArray[np.uint64]:
        """Ticks by bucket, shape (buckets,)."""
        return np.frombuffer(ffi.buffer(self._book.bucket), np.uint64).copy()

    @staticmethod
    def floors_ns() -> npt.NDArray[np.float64]:
        """The smallest value of each bucket, shape (buckets,)."""
        floors = np.zeros(lib.SD_BUCKETS, np.uint64)
        lib.sd_pace_floors(ffi.from_buffer("uint64_t[]", floors, require_writable=True))
        return floors.astype(np.float64)
