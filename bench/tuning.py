"""Trials of the claims of docs/tuning.md on this machine: python bench/tuning.py [PART ...] [--turns 5]

    workers   tasks per second by the number of workers: tasks that compute, in C and in Python, and tasks that wait
    capacity  what a bound on the queue refuses, and how long tasks wait, at 80 % load: at random, and in bursts of 40
    depth     the wait of the last of N tasks that wait, beside N / rate

Medians of turns that alternate. Run it while the machine is quiet.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from turns import in_turns, run_parts

import strand

CORES = len(os.sched_getaffinity(0))
#: Of the parts ``capacity`` and ``depth``.
WORKERS, SERVICE_S, LOAD, WAIT_S = 4, 0.01, 0.8, 0.1


def compute() -> None:
    """About 2 ms in C, more or less by machine, without the GIL."""
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 11_000)


def compute_in_python() -> None:
    """About 2 ms, with the GIL."""
    sum(i * i for i in range(90_000))


def wait() -> None:
    """5 ms for a reply."""
    time.sleep(0.005)


def wait_and_compute() -> None:
    """5 ms for a reply, and then about 2 ms in C."""
    time.sleep(0.005)
    compute()


def rate(function: Callable[[], None], workers: int, seconds: float = 0.7) -> float:
    """Tasks per second, while some always wait."""
    with strand.Scheduler(workers) as scheduler:
        begun, done = time.perf_counter(), 0
        waiting = [scheduler.submit(function) for _ in range(3 * workers)]
        while time.perf_counter() - begun < seconds:
            waiting.pop(0).result()
            done += 1
            waiting.append(scheduler.submit(function))
        return done / (time.perf_counter() - begun)


def workers(turns: int) -> None:
    """Prints tasks per second by the number of workers."""
    counts = [1, CORES, 2 * CORES, 3 * CORES, 4 * CORES, 8 * CORES]
    kinds = (compute, compute_in_python, wait, wait_and_compute)
    found = in_turns({f"{kind.__name__} {n}": partial(rate, kind, n) for kind in kinds for n in counts}, turns, warm=0)
    print(f"| tasks per second, {CORES} cores | {' | '.join(f'{n} workers' for n in counts)} |")
    for kind in kinds:
        cells = (f"{statistics.median(found[f'{kind.__name__} {n}']):,.0f}" for n in counts)
        print(f"| {kind.__name__.replace('_', ' ')} | {' | '.join(cells)} |")


def open_loop(max_queue: int | None, burst: int, seconds: float, seed: int) -> tuple[float, float, float]:
    """Share of tasks that were refused, and P95 and P99 of the waits of the others in s."""
    chance = np.random.default_rng(seed)
    per_s = WORKERS / SERVICE_S * LOAD
    due = np.cumsum(chance.exponential(burst / per_s, int(seconds * per_s / burst)))
    times = iter(chance.exponential(SERVICE_S, len(due) * burst))
    refused, tasks = 0, []
    with strand.Scheduler(WORKERS, max_queue=max_queue) as scheduler:
        begun = time.perf_counter()
        for at in due:
            time.sleep(max(0.0, begun + at - time.perf_counter()))
            for _ in range(burst):
                try:
                    tasks.append(scheduler.submit(time.sleep, next(times)))
                except strand.errors.QueueFull:
                    refused += 1
    waits = [task.waited_ns / 1e9 for task in tasks]
    return refused / (refused + len(tasks)), *np.percentile(waits, (95, 99))


def capacity(turns: int) -> None:
    """Prints the share that is refused, and the waits, by the bound."""
    per_s = WORKERS / SERVICE_S * LOAD
    bounds = {"none": None} | {f"rate x wait x {k:g}": round(per_s * WAIT_S * k) for k in (2.5, 1, 0.5)}
    print(f"{WORKERS} workers, tasks of {SERVICE_S * 1e3:g} ms, {per_s:g} per second; good waits: {WAIT_S * 1e3:g} ms")
    print("| bound | tasks | refused at random | wait P99 | refused in bursts | wait P99 |")
    for name, bound in bounds.items():
        cells = []
        for burst in (1, 40):
            found = [open_loop(bound, burst, 6, seed) for seed in range(turns)]
            refused, _, p99 = (statistics.median(each) for each in zip(*found, strict=True))
            cells.append(f"{refused:.2%} | {p99 * 1e3:.0f} ms")
        print(f"| {name} | {bound or '-'} | {' | '.join(cells)} |")


def depth(turns: int) -> None:
    """Prints the wait of the last task of a queue, beside its depth divided by the rate."""
    print("| depth | depth / rate | wait of the last task |")
    for n in (100, 400, 1000):
        waits = []
        for _ in range(turns):
            with strand.Scheduler(WORKERS) as scheduler:
                tasks = [scheduler.submit(time.sleep, SERVICE_S) for _ in range(n)]
            waits.append(tasks[-1].waited_ns / 1e9)
        print(f"| {n:,} | {n / WORKERS * SERVICE_S:.2f} s | {statistics.median(waits):.2f} s |")


if __name__ == "__main__":
    run_parts(__doc__, {"workers": workers, "capacity": capacity, "depth": depth}, 5)
