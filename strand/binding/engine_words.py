"""Requests to the engine and its answers: codes and counters, a failure, a strand's books."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.gate import text_of

__all__ = [
    "BUCKETS_AN_OCTAVE",
    "COUNTERS",
    "HISTOGRAMS",
    "MARKS",
    "PAUSED",
    "QUARANTINED",
    "RESOURCES",
    "Failure",
    "RunByPython",
    "StrandInspection",
    "Until",
    "clock_resolution_ns",
    "histogram_floors_ns",
    "text_of",
]

PAUSED: Final[int] = lib.SD_PAUSED
QUARANTINED: Final[int] = lib.SD_QUARANTINED

#: Of a set of resources that are short, or of a symbol's marks, the bit of each.
RESOURCES: Final = {"cpu": 1 << lib.SD_CPU, "memory": 1 << lib.SD_MEMORY, "io": 1 << lib.SD_IO}
MARKS: Final = {"io": int(lib.SD_MARK_IO), "frees_memory": int(lib.SD_MARK_FREES_MEMORY)}

COUNTERS: Final = (
    "accepted", "handled", "failed", "dropped_newest", "dropped_oldest", "conflated", "dropped_quarantined", "shed",
    "lost",
    "visits", "handled_inline", "stolen", "cut", "busy_ns", "parks", "wakes", "waited_ns",
)  # fmt: skip
#: Of a histogram: from a power of two of the clock's counts to the next.
BUCKETS_AN_OCTAVE: Final[int] = lib.SD_SUB
HISTOGRAMS: Final = {"wait": lib.SD_WAIT, "handler": lib.SD_HANDLER_TIME, "end_to_end": lib.SD_END_TO_END}


class Until(IntEnum):
    """Bound up to which emitted records are final, see csrc/merge/rounds.h."""

    WATERMARK = lib.SD_FINAL_LIVE
    FIRST_PENDING = lib.SD_FINAL_ABANDONED
    END = lib.SD_FINAL_ALL


class RunByPython(NamedTuple):
    """A handler that Python runs: whether it has timers, and an end."""

    wakes: bool = False
    finishes: bool = False


class Failure(NamedTuple):
    """A handler failed. This is how every part says so, up to the HandlerError that is raised in the end.

    ``code`` and ``message`` are the handler's own; ``cause`` is the exception, where Python runs the handler.
    ``handled`` records of its call come before the one that it failed on. ``key`` is the symbol, and ``sequence`` the
    feed's, of that record; ``time`` is that of the timer, or the end, at which it failed instead. ``handler``,
    ``strand`` and ``participant`` are the engine's numbers of the handler, its strand, the worker or publisher. Unknown
    values are None. ``record``: the bytes of that record; ``place``: how many of its strand's were handled, or had
    failed, before it.
    """

    code: int
    message: str
    cause: BaseException | None = None
    handled: int = 0
    key: int | None = None
    sequence: int | None = None
    time: int | None = None
    handler: int | None = None
    strand: int | None = None
    participant: int | None = None
    record: bytes | None = None
    place: int | None = None

    @property
    def reason(self) -> str:
        """Reason of the failure in words: the handler's message, or its code."""
        return self.message or f"code {self.code}"


@dataclass(frozen=True, slots=True)
class StrandInspection:
    """Counts of one strand, read without stopping it: accepted = handled + failed + lost + dropped + pending at rest.
    ``calls`` that wait or run are not in ``pending``."""

    pending: int
    owner: int | None
    accepted: int
    handled: int
    failed: int
    lost: int
    dropped: tuple[int, int, int, int, int]
    paused: bool
    quarantined: bool
    capacity: int
    calls: int = 0


@cache
def clock_resolution_ns(core: Any = lib) -> float:
    """The shortest span, in ns, that the clock of the histograms tells from none. Measured once per process. ``core``:
    the module in C whose clock it is; that of a seeded run counts steps."""
    return float(core.sd_clock_resolution_ns())


def histogram_floors_ns(ns_per_count: float | None = None) -> npt.NDArray[np.float64]:
    """Lower edges of the histograms' buckets, in ns, by the clock that counts: this process's, or one of that rate."""
    floors = np.empty(lib.SD_BUCKETS, dtype=np.float64)
    lib.sd_bucket_floors(ns_per_count or lib.sd_ns_per_count(), ffi.cast("double *", ffi.from_buffer(floors)))
    return floors
