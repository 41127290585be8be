"""Turns of `bench/paired.py` in one checkout: a request a line of JSON, its figures a line of JSON.

A checkout runs this file with its own interpreter, so that ``strand`` is its own. It uses names only that both
checkouts have. A figure says how fast: ticks a second, or turns a second of a wait.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from functools import cache
from typing import Any

import numpy as np

Figures = dict[str, float]
CORES = sorted(os.sched_getaffinity(0))
STEP_NS = 60_000_000_000


def processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def books(day: str, cores: int) -> Figures:
    """Messages of a file into full books: by the clock, and of processor time."""
    import strand

    os.sched_setaffinity(0, CORES[-cores:])
    before, begun = processor_s(), time.perf_counter()
    ticks = strand.replay(day, "book", workers=max(1, cores - 1), feed_options={"date": "2026-01-05"}).ticks
    spent, processor = time.perf_counter() - begun, processor_s() - before
    os.sched_setaffinity(0, CORES)
    return {"": ticks / spent, ", processor time": ticks / processor}


@cache
def loaded(path: str) -> Any:
    return np.load(path)


def bars(ticks: str) -> Figures:
    """Trades in memory into bars. The publisher keeps to the first core: the worker has the second."""
    import strand

    trades = loaded(ticks)
    begun = time.perf_counter()
    with strand.Dispatcher(8172, strand.bars(STEP_NS), workers=1, feed="plain") as dispatcher:
        os.sched_setaffinity(0, CORES[:1])
        dispatcher.publish(trades)
        os.sched_setaffinity(0, CORES)
    return {"": len(trades) / (time.perf_counter() - begun)}


@cache
def job(skew: str, symbols: int, work: int, count: int) -> Any:
    from strand.bench.route import RouteOptions, make_job, parse_skew
    from strand.bench.ways import expected_rows

    made = make_job(RouteOptions(ticks=count, symbols=symbols, skew=parse_skew(skew), work=work, workers=1))
    return made, expected_rows(made)


def route(skew: str, symbols: int, work: int, count: int) -> Figures:
    """Ticks through strands, as `strand bench route` takes them."""
    from strand.bench.ways import run

    made, expected = job(skew, symbols, work, count)
    return {"": count / run("strand", made, expected)[0].seconds}


def latency(gaps_ns: list[int], ticks: int, parked: int) -> Figures:
    """One tick to a worker on the other core: one over the median time. The worker spins, and ticks come as long after
    the last one was handled as each of the gaps says: how long one takes depends on where in its turn of waiting the
    worker is, so the mean of several says more. Or it sleeps, and is woken by each."""
    from strand.bench.latency import PARKED_GAP_NS, ping

    publisher, worker = CORES[:2]
    spin = [float(np.median(ping(ticks, "spin", gap, publisher, worker).latency_ns)) for gap in gaps_ns]
    found = {", spin": 1e9 / float(np.mean(spin))}
    if parked:
        found[", park"] = 1e9 / float(np.median(ping(parked, "park", PARKED_GAP_NS, publisher, worker).latency_ns))
    os.sched_setaffinity(0, CORES)
    return found


PARTS = {"books": books, "bars": bars, "route": route, "latency": latency}


def main() -> None:
    for line in sys.stdin:
        part, arguments = json.loads(line)
        print(json.dumps(PARTS[part](*arguments)), flush=True)


if __name__ == "__main__":
    main()
