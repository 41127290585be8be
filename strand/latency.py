"""A distribution of latencies: how many were counted, and their percentiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.brief import brief
from strand.frozen_dict import FrozenDict

__all__ = ["Latency", "percentiles_of"]

PERCENTILES = (50.0, 90.0, 99.0, 99.9)


def _fixed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, repr=False)
class Latency:
    """A latency distribution in ns, known to one part in sixteen; counted once per tick, or once per task.

    Attributes:
        count: How many were counted.
        percentiles: ns by percentile: 50, 90, 99 and 99.9. None is below ``resolution_ns``.
        maximum_ns: The upper edge of the highest bucket hit, in ns; not below ``resolution_ns``.
        counts: Ticks (or tasks) per bucket, shape (n_buckets,), u8; empty if the distribution was not made from a
            histogram.
        floors_ns: The buckets' lower edges in ns, shape (n_buckets,), f8; likewise empty.
        resolution_ns: What the clock resolves, in ns.
    """

    count: int
    percentiles: Mapping[float, float]
    maximum_ns: float
    counts: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64), compare=False, repr=False)
    floors_ns: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0), compare=False, repr=False)
    resolution_ns: float = 0.0

    def __repr__(self) -> str:
        percentiles = (f"p{p:g} {ns:,.0f} ns" for p, ns in self.percentiles.items())
        return brief(self, f"{self.count:,} counted", *percentiles, f"maximum {self.maximum_ns:,.0f} ns")

    @classmethod
    def from_histogram(
        cls, counts: npt.NDArray[np.uint64], floors_ns: npt.NDArray[np.float64], resolution_ns: float = 0.0
    ) -> Latency:
        """Makes a distribution from bucket counts and the buckets' lower edges in ns, both shape (n_buckets,).

        A percentile is its bucket's upper edge.
        """
        found = cls(int(counts.sum()), {}, 0.0, _fixed(counts.view()), _fixed(floors_ns.view()), resolution_ns)
        values = FrozenDict({p: found.percentile(p) or 0.0 for p in PERCENTILES})
        return replace(found, percentiles=values, maximum_ns=found.percentile(100) or 0.0)

    def percentile(self, p: float) -> float | None:
        """Returns a percentile in ns, of a latency that was made from a histogram: its bucket's upper edge.

        Args:
            p: The percentile, above 0 and at most 100.

        Returns:
            None if nothing was counted.

        Raises:
            ValueError: If ``p`` is not above 0 and at most 100.
        """
        if not 0 < p <= 100:
            raise ValueError(f"p: {p!r} is not above 0 and at most 100")
        if not self.counts.any():
            return None
        edges = np.append(self.floors_ns[1:], self.floors_ns[-1] * 2)
        return max(float(edges[_bucket(np.cumsum(self.counts), p)]), self.resolution_ns)


def _bucket(running: npt.NDArray[np.uint64], p: float) -> int:
    """The bucket in which the p-th percentile of the ticks is; ``running``: ticks up to each bucket's end."""
    return int(np.searchsorted(running, max(1, np.ceil(int(running[-1]) * p / 100))))


def percentiles_of(found: Latency) -> dict[str, float | None]:
    """Number of latencies, and their percentiles in ns; None where there are none."""
    numbers = {f"p{p:g}_ns": ns for p, ns in found.percentiles.items()} | {"maximum_ns": found.maximum_ns}
    return {"count": found.count} | {name: ns if found.count else None for name, ns in numbers.items()}
