"""``strand bench latency``: one tick, from the publisher's thread to a handler on another core."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import numpy as np

from strand.binding.lab import ping
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.machine import choose_cores
from strand.options import Whole, named_fields, option, read_options

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


@named_fields
@dataclass(frozen=True, slots=True)
class LatencyOptions:
    """Options of the measurement."""

    spinning: int = option(100_000, Whole(1, 10**8), "Number of ticks to a spinning worker.", flag=None)
    parked: int = option(1_000, Whole(1, 10**8), "Number of ticks to a parked worker, sent 2 ms apart.", flag=None)

    def __post_init__(self) -> None:
        read_options(self).end()


def measure_latency(options: LatencyOptions) -> list[LatencyResult]:
    """Sends single ticks to a worker that spins, one as soon as the last is handled, and to one that parks, 2 ms apart.

    Raises ConfigurationError with fewer than two cores.
    """
    cores = choose_cores(1)
    worker = cores.workers[0]
    if cores.publisher is None or worker is None:
        raise ConfigurationError("cores", "a publisher and a worker need two cores, but this process may use only one")
    results = []
    for idle, n, gap_ns in (("spin", options.spinning, 0), ("park", options.parked, PARKED_GAP_NS)):
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
