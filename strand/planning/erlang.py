"""Waiting time of work for one of several workers: the queue M/M/c, by Erlang's formulas.

Sources: A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in automatic telephone
exchanges", 1917; R. B. Cooper, "Introduction to Queueing Theory", 2nd ed., 1981, sections 3.3 and 3.4.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from strand.errors import ConfigurationError
from strand.validate import is_number, whole

__all__ = ["MAX_WORKERS", "OVERFLOW", "Queue", "Target", "blocking", "least_workers", "workers_for"]

#: As many workers as a dispatcher may have.
MAX_WORKERS: Final = 1024
#: Share of arrivals that may find a queue of a plan's capacity full.
OVERFLOW: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Target:
    """A wait that is to be kept: ``wait_ns`` is not passed by the share ``quantile`` of all arrivals, such as 0.99, or
    on average (None). Raises ConfigurationError for a quantile outside 0 to 1, and for a wait that is not above 0."""

    wait_ns: float
    quantile: float | None = None

    def __post_init__(self) -> None:
        if not is_number(self.wait_ns) or not 0 < self.wait_ns < math.inf:
            raise ConfigurationError("wait", f"{self.wait_ns!r} is not a number of ns above 0")
        if self.quantile is not None and (not is_number(self.quantile) or not 0 < self.quantile < 1):
            raise ConfigurationError(
                "wait", f"{self.quantile!r} is not a share between 0 and 1, such as 0.99: no bound holds for all waits"
            )


def blocking(load: float) -> Iterator[float]:
    """Erlang B for 0, 1, 2, ... workers: the share of arrivals that find all of them busy, where nobody waits.

    ``load``: rate times service time, above 0. B(0) = 1 and B(c) = load B(c-1) / (c + load B(c-1)). Every value is
    between 0 and 1. No power or factorial can overflow, unlike in the usual sum.
    """
    share = 1.0
    for workers in itertools.count(1):
        yield share
        share = load * share / (workers + load * share)


def _load(rate_per_s: float, service_ns: float) -> Fraction:
    """Rate times service time: so many workers are busy on average. Raises ConfigurationError."""
    for name, value in (("rate", rate_per_s), ("service", service_ns)):
        if not is_number(value) or not 0 < value < math.inf:
            raise ConfigurationError(name, f"{value!r} is not a number above 0")
    return Fraction(float(rate_per_s)) * Fraction(float(service_ns)) / 10**9


def least_workers(rate_per_s: float, service_ns: float) -> int:
    """The least number of workers that keep up: more than are busy on average. Raises ConfigurationError."""
    return math.floor(_load(rate_per_s, service_ns)) + 1


@dataclass(frozen=True, slots=True)
class Queue:
    """Arrivals at random (Poisson) at ``rate_per_s``, each served by one of ``workers``, for a time that is distributed
    exponentially around ``service_ns``; one queue, first in, first out, without a bound.

    Raises ConfigurationError for numbers that are not above 0, and for workers that cannot keep up; it names the least
    number that can.
    """

    rate_per_s: float
    service_ns: float
    workers: int

    def __post_init__(self) -> None:
        least = least_workers(self.rate_per_s, self.service_ns)
        whole("workers", self.workers, 1)
        if self.workers < least:
            raise ConfigurationError(
                "workers",
                f"{self.workers:,} cannot keep up with {self.rate_per_s:,.6g} ticks per second of "
                f"{self.service_ns:,.6g} ns each, which keep {self.load:,.4g} workers busy all the time: the "
                f"queue would grow without end; give at least {least:,}",
            )

    @property
    def load(self) -> float:
        """Workers that are busy on average."""
        return float(_load(self.rate_per_s, self.service_ns))

    @property
    def utilisation(self) -> float:
        """Utilisation of each worker: the share of its time that it is busy, from 0 to below 1."""
        return self.load / self.workers

    @property
    def wait_probability(self) -> float:
        """Erlang C: the share of arrivals that have to wait. C = c B / (c - load (1 - B)) for c workers, B by
        ``blocking``."""
        busy = next(itertools.islice(blocking(self.load), self.workers, None))
        return _waiting(busy, self.load, self._spare)

    @property
    def _spare(self) -> float:
        """Workers that are idle on average. Exact: near a utilisation of 1 the difference of two floats is noise."""
        return float(self.workers - _load(self.rate_per_s, self.service_ns))

    @property
    def mean_wait_ns(self) -> float:
        """Mean wait of all arrivals, those that do not wait among them: C / (workers / service - rate)."""
        return self.wait_probability * self.service_ns / self._spare

    def wait_ns(self, quantile: float) -> float:
        """The wait that a share of all arrivals does not pass: 0 where fewer than the others have to wait.

        P(W > t) = C exp(-(workers / service - rate) t), solved for t. Raises ConfigurationError for a quantile outside
        0 to 1.
        """
        Target(1, quantile)
        return _quantile_ns(self.wait_probability, self.service_ns / self._spare, quantile)

    def capacity(self) -> int:
        """Places to wait in, so that at most ``OVERFLOW`` of all arrivals find none: the least n with
        P(n or more wait) = C utilisation^n <= OVERFLOW, and at least 1. A queue that turns arrivals away is shorter
        than the one without a bound of which that is true, so it turns away fewer."""
        share = self.wait_probability
        if share <= OVERFLOW:
            return 1
        return max(1, math.ceil(math.log(OVERFLOW / share) / math.log1p(-self._spare / self.workers)))


def _waiting(busy: float, load: float, spare: float) -> float:
    """Erlang C from Erlang B, of ``load + spare`` workers."""
    return (load + spare) * busy / (spare + load * busy)


def _quantile_ns(share: float, relief_ns: float, quantile: float) -> float:
    """``relief_ns``: the mean wait of those that wait."""
    return max(0.0, math.log(share / (1 - quantile))) * relief_ns if share > 0 else 0.0


def workers_for(rate_per_s: float, service_ns: float, target: Target) -> int:
    """The least number of workers with which arrivals as in ``Queue`` keep the target. Raises ConfigurationError for
    numbers that are not above 0, and where more than ``MAX_WORKERS`` would be needed."""
    least = least_workers(rate_per_s, service_ns)
    exact = _load(rate_per_s, service_ns)
    load = float(exact)
    for workers, busy in zip(range(MAX_WORKERS + 1), blocking(load), strict=False):
        if workers < least:
            continue
        spare = float(workers - exact)
        share, relief_ns = _waiting(busy, load, spare), service_ns / spare
        if target.quantile is None:
            wait_ns = share * relief_ns
        else:
            wait_ns = _quantile_ns(share, relief_ns, target.quantile)
        if wait_ns <= target.wait_ns:
            return workers
    raise ConfigurationError(
        "wait",
        f"it takes more than {MAX_WORKERS:,} workers, the most that a dispatcher may have; the ticks keep "
        f"{load:,.4g} workers busy all the time",
    )
