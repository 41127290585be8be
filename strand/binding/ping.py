"""Ping of one tick to another core (csrc/lab/bench/latency.h)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.engine_config import IDLE
from strand.binding.gate import checked

__all__ = ["PingResult", "ping"]


#: Time for which an idle worker is watched.
QUIET_NS: Final = 200_000_000


@dataclass(frozen=True, slots=True)
class PingResult:
    """``latency_ns`` has shape (n,), uint64. ``wall_ns`` and ``worker_cpu_ns`` are of the span in which ticks came,
    ``quiet_ns`` and ``quiet_cpu_ns`` of the one after it, in which none did."""

    latency_ns: npt.NDArray[np.uint64]
    wall_ns: int
    worker_cpu_ns: int
    quiet_ns: int
    quiet_cpu_ns: int
    parks: int


def ping(n: int, idle: str, gap_ns: int, publisher_core: int | None, worker_core: int | None) -> PingResult:
    """Publishes ``n`` single ticks, each ``gap_ns`` after the last one was handled, to one worker that waits ``idle``.

    Raises ConfigurationError for a core that cannot be used.
    """
    latency_ns = np.zeros(n, np.uint64)
    ping: Any = ffi.new(
        "sd_bench_ping *",
        {
            "idle": IDLE[idle],
            "publisher_core": -1 if publisher_core is None else publisher_core,
            "worker_core": -1 if worker_core is None else worker_core,
            "gap_ns": gap_ns,
            "n": n,
            "quiet_ns": QUIET_NS,
            "latency_ns": ffi.from_buffer("uint64_t[]", latency_ns, require_writable=True),
        },
    )
    code = lib.sd_bench_ping_run(ping)
    checked(
        code,
        f"a single tick was not published: code {code}",
        argument=f"cores: a thread cannot be pinned to core {publisher_core} or {worker_core}",
        no_memory="no memory, or no threads, to measure with",
    )
    times = (ping.wall_ns, ping.worker_cpu_ns, ping.quiet_ns, ping.quiet_cpu_ns, ping.parks)
    return PingResult(latency_ns, *map(int, times))
