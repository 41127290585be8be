"""Turns of `bench/paired.py` in one checkout: a request a line of JSON, its figures a line of JSON.

A checkout runs this file with its own interpreter, so that ``strand`` is its own. It uses names only that both
checkouts have. A figure says how fast: ticks a second, or turns a second of a wait.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import cache
from typing import Any

import numpy as np
from turns import processor_s

Figures = dict[str, float]
CORES = sorted(os.sched_getaffinity(0))
STEP = "60s"


def books(day: str, cores: int) -> Figures:
    """Messages of a file into full books: by the clock, and of processor time."""
    import strand

    os.sched_setaffinity(0, CORES[-cores:])
    before, begun = processor_s(), time.perf_counter()
    ticks = strand.replay(day, "book", workers=max(1, cores - 1), feed_options={"date": "2026-01-05"}).ticks
    spent, processor = time.perf_counter() - begun, processor_s() - before
    os.sched_setaffinity(0, CORES)
    return {"": ticks / spent, ", processor time": ticks / processor}


def caller(day: str, handler: str) -> Figures:
    """Messages of a file through a handler, all in the thread that reads."""
    import strand

    before = processor_s()
    ticks = strand.replay(day, handler, workers=0, feed_options={"date": "2026-01-05"}).ticks
    return {"": ticks / (processor_s() - before)}


def sweep(day: str, kind: str, sets: int) -> Figures:
    """A file through a book and so many sets of parameters of a signal: ``array`` or ``machine``."""
    from swept_signals import MACHINE, SIGNAL, machine_sets, signal_sets

    import strand

    signal, make = (SIGNAL, signal_sets) if kind == "array" else (MACHINE, machine_sets)
    before = processor_s()
    strand.sweep(day, signal, make(sets), feed_options={"date": "2026-01-05"}, workers=1)
    return {"": 1 / (processor_s() - before)}


@cache
def loaded(path: str) -> Any:
    return np.load(path)


def bars(ticks: str) -> Figures:
    """Trades in memory into bars. The publisher keeps to the first core: the worker has the second."""
    import strand

    trades = loaded(ticks)
    begun = time.perf_counter()
    with strand.Dispatcher(8172, strand.bars(STEP), workers=1, feed="plain") as dispatcher:
        os.sched_setaffinity(0, CORES[:1])
        dispatcher.publish(trades)
        os.sched_setaffinity(0, CORES)
    return {"": len(trades) / (time.perf_counter() - begun)}


def table(path: str, handler: str, workers: int) -> Figures:
    """Rows of a file through a handler."""
    import strand

    begun = time.perf_counter()
    ticks = strand.replay(path, handler, workers=workers).ticks
    return {"": ticks / (time.perf_counter() - begun)}


class EachTick:
    """A handler in Python that is called for each tick."""

    def __init__(self) -> None:
        self.size = 0

    def on_tick(self, tick: Any) -> None:
        self.size += tick.size


def in_python(ticks: str, kind: str, workers: int) -> Figures:
    """Ticks of a file through a handler in Python: ``object`` or ``batch``."""
    import strand

    @strand.batch_handler(state=[("n", "i8")])
    def batch(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        row["n"] += len(ticks)

    begun = time.perf_counter()
    handler, limit = (EachTick, 200_000) if kind == "object" else (batch, None)
    n = strand.replay(ticks, handler, workers=workers, limit=limit).ticks
    return {"": n / (time.perf_counter() - begun)}


@cache
def scheduler() -> Any:
    import strand

    return strand.Scheduler(2)


def tasks(how: str, count: int) -> Figures:
    """Empty tasks, from the first submit to the last result."""
    executor = scheduler()
    if how == "with key, priority and deadline":
        views = [executor.options(key=key, priority="high", deadline="1h") for key in range(64)]
    else:
        views = [executor] * 64
    begun = time.perf_counter()
    if how == "submit_many":
        futures = [one for i in range(0, count, 1000) for one in executor.submit_many(int, [0] * 1000)]
    else:
        futures = [views[i % 64].submit(int) for i in range(count)]
    for future in futures:
        future.result()
    return {"": count / (time.perf_counter() - begun)}


@cache
def job(skew: str, symbols: int, work: int, count: int) -> Any:
    from strand.bench.route import RouteOptions, make_job
    from strand.bench.ways import expected_rows

    exponent: Any = skew if skew == "calibrated" else float(skew)
    made = make_job(RouteOptions(ticks=count, symbols=symbols, skew=exponent, work=work, workers=1))
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


PARTS = {
    "books": books, "bars": bars, "table": table, "in_python": in_python, "tasks": tasks, "route": route,
    "latency": latency, "caller": caller, "sweep": sweep,
}  # fmt: skip


def main() -> None:
    for line in sys.stdin:
        part, arguments = json.loads(line)
        print(json.dumps(PARTS[part](*arguments)), flush=True)


if __name__ == "__main__":
    main()
