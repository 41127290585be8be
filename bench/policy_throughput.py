"""Cost of scheduling policies: python bench/policy_throughput.py [ROUNDS] [--work 100] [--ticks 3000000]

The stream of `strand bench route` goes to compiled handlers through each policy, in turn, with everything queued: under
Fifo too the publisher handles nothing where it lies. Each ratio is a policy's throughput by Fifo's of the same round;
the median is shown, between the quartiles. A tenth of the symbols is urgent under Levels and Aging; under Fair there
are ten groups. Run it while the machine is quiet.
"""

from __future__ import annotations

import argparse
import dataclasses
from statistics import median, quantiles
from typing import Any

import strand
from strand.bench.route import RouteOptions, make_job
from strand.bench.ways import expected_rows, run


def orders(symbols: int) -> dict[str, dict[str, Any]]:
    urgent = range(0, symbols, 10)
    return {
        "fifo": {},
        "levels": {"policy": strand.Levels(), "priorities": {"*": "low"} | dict.fromkeys(urgent, "immediate")},
        "aging": {"policy": strand.Aging(), "priorities": dict.fromkeys(urgent, 10)},
        "fair": {"policy": strand.Fair(), "groups": {i: f"group {i % 10}" for i in range(symbols)}},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=9)
    parser.add_argument("--work", type=int, default=100)
    parser.add_argument("--ticks", type=int, default=3_000_000)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    job = make_job(RouteOptions(ticks=given.ticks, work=given.work, workers=given.workers, idle="backoff"))
    expected = expected_rows(job)
    jobs = {name: dataclasses.replace(job, order=order) for name, order in orders(job.symbols).items()}
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for n in range(given.rounds):
        for name in list(jobs) if n % 2 else reversed(list(jobs)):
            seconds[name].append(run("strand_queued", jobs[name], expected)[0].seconds)
    for name, took in seconds.items():
        ratios = [fifo / its for fifo, its in zip(seconds["fifo"], took, strict=True)]
        low, _, high = quantiles(ratios, n=4)
        rate = given.ticks / median(took) / 1e6
        print(f"{name:7} {rate:6.2f} Mticks/s, {median(ratios):.3f} of fifo ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
