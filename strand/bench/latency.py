"""``strand bench latency``: one tick, from the publisher's thread to a handler on another core."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from strand.binding.lab import ping
from strand.errors import ConfigurationError
from strand.machine import choose_cores
from strand.validate import whole

__all__ = ["LatencyResult", "measure_latency"]

#: A parked worker has to be asleep when its tick comes.
PARKED_GAP_NS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """Times in ns. CPU is the worker's: its share of the time while ticks come, a tick, and its share of the time while
    nothing comes (``quiet``)."""

    idle: str
    ticks: int
    gap_ns: int
    p50_ns: float
    p99_ns: float
    p999_ns: float
    max_ns: float
    worker_cpu_share: float
    cpu_ns_a_tick: float
    quiet_cpu_share: float
    parks: int

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self)


def measure_latency(spinning: int = 100_000, parked: int = 1_000) -> list[LatencyResult]:
    """Sends single ticks to a worker that spins, one as soon as the last is handled, and to one that parks, 2 ms apart.

    Raises ConfigurationError for a count below 1, or with fewer than two cores.
    """
    for name, value in (("spinning", spinning), ("parked", parked)):
        whole(name, value, 1, 10**8)
    cores = choose_cores(1)
    worker = cores.workers[0]
    if cores.publisher is None or worker is None:
        raise ConfigurationError("cores", "a publisher and a worker need two cores, but this process may use only one")
    results = []
    for idle, n, gap_ns in (("spin", spinning, 0), ("park", parked, PARKED_GAP_NS)):
        result = ping(n, idle, gap_ns, cores.publisher, worker)
        p50, p99, p999 = np.percentile(result.latency_ns, (50, 99, 99.9))
        results.append(
            LatencyResult(
                idle=idle,
                ticks=n,
                gap_ns=gap_ns,
                p50_ns=float(p50),
                p99_ns=float(p99),
                p999_ns=float(p999),
                max_ns=float(result.latency_ns.max()),
                worker_cpu_share=round(result.worker_cpu_ns / max(result.wall_ns, 1), 5),
                cpu_ns_a_tick=round(result.worker_cpu_ns / n, 1),
                quiet_cpu_share=round(result.quiet_cpu_ns / max(result.quiet_ns, 1), 5),
                parks=result.parks,
            )
        )
    return results
