"""Cost of tasks on this machine: python bench/tasks.py [PART ...] [--turns 9]

    futures   empty Python tasks, submit to done, beside ThreadPoolExecutor(4), in turn: medians of the ratios
    native    tasks in C, submitted by running tasks in batches of 64, on two workers
    cap       on-CPU time of a pool of Python tasks under Fair(cpu_share=0.25), of two cores, by /proc/self/task
    replay    ticks a second of a dispatcher with 1,000 tasks a second of its symbols beside it, against none, in turn

Run it while the machine is quiet.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import ctypes
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import strand
from strand.feeds.synthetic import SyntheticFeed

N_TASKS = 50_000


def nothing(*_: Any) -> None:
    pass


def rate(submit: Callable[[int], list[Any]]) -> float:
    """Thousands of tasks a second, from the first submit to the last result."""
    begun = time.perf_counter()
    for future in submit(N_TASKS):
        future.result()
    return N_TASKS / (time.perf_counter() - begun) / 1e3


def one_by_one(executor: concurrent.futures.Executor) -> Callable[[int], list[Any]]:
    return lambda n: [executor.submit(nothing) for _ in range(n)]


def with_options(scheduler: strand.Scheduler) -> Callable[[int], list[Any]]:
    views = [scheduler.options(key=key, priority="high", deadline="1h") for key in range(64)]
    return lambda n: [views[i % 64].submit(nothing) for i in range(n)]


def in_batches(scheduler: strand.Scheduler) -> Callable[[int], list[Any]]:
    def submit(n: int) -> list[Any]:
        return [future for i in range(0, n, 1000) for future in scheduler.submit_many(nothing, range(i, i + 1000))]

    return submit


def futures(turns: int) -> None:
    sides: dict[str, Callable[[], float]] = {}

    @contextmanager
    def pool() -> Iterator[Any]:
        with concurrent.futures.ThreadPoolExecutor(4) as executor:
            yield executor

    def timed(make: Callable[[], Any], how: Callable[[Any], Callable[[int], list[Any]]]) -> float:
        with make() as executor:
            return rate(how(executor))

    sides["ThreadPoolExecutor(4)"] = lambda: timed(pool, one_by_one)
    sides["Scheduler(4), plain"] = lambda: timed(lambda: strand.Scheduler(4), one_by_one)
    sides["Scheduler(1), plain"] = lambda: timed(lambda: strand.Scheduler(1), one_by_one)
    sides["Scheduler(4), key, priority, deadline"] = lambda: timed(lambda: strand.Scheduler(4), with_options)
    sides["Scheduler(4), submit_many"] = lambda: timed(lambda: strand.Scheduler(4), in_batches)
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, run in sides.items():
            found[name].append(run())
    base = found["ThreadPoolExecutor(4)"]
    for name, rates in found.items():
        ratio = statistics.median(a / b for a, b in zip(rates, base, strict=True))
        print(f"{name:40} {statistics.median(rates):7.0f} k/s   {ratio:5.2f} of ThreadPoolExecutor(4)")
    four, one = found["Scheduler(4), plain"], found["Scheduler(1), plain"]
    ratio = statistics.median(a / b for a, b in zip(four, one, strict=True))
    print(f"4 workers against 1: {ratio:.2f}")


@contextmanager
def task_functions() -> Iterator[ctypes.CDLL]:
    """bench/task_functions.c, built."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "task_functions.so"
        source = Path(__file__).with_name("task_functions.c")
        command = [
            os.environ.get("CC", "cc"),
            "-O2",
            "-shared",
            "-fPIC",
            f"-I{strand.get_include()}",
            "-o",
            built,
            source,
        ]
        subprocess.run(command, check=True)
        yield ctypes.CDLL(str(built))


def native(turns: int) -> None:
    batches = 40_000
    with task_functions() as library:
        batch = strand.NativeTask(library.sd_bench_batches)
        for policy in (strand.Fifo(), strand.Levels(), strand.Aging(coefficient=1.0), strand.Fair()):
            rates = []
            for _ in range(turns):
                ctypes.c_long.in_dll(library, "sd_bench_left").value = batches
                with strand.Dispatcher(1, "count", workers=2, cores=None, policy=policy) as dispatcher:
                    begun = time.perf_counter()
                    dispatcher.tasks.submit_native(batch, np.empty(2, "V0"))
                    dispatcher.drain()
                    rates.append(64 * batches / (time.perf_counter() - begun) / 1e6)
            print(
                f"{type(policy).__name__:8} {statistics.median(rates):5.1f} M tasks/s in C "
                f"({min(rates):.1f} to {max(rates):.1f})"
            )


def on_cpu_s() -> float:
    """On-CPU time of all threads of this process so far."""
    tasks = Path("/proc/self/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def cap(turns: int) -> None:
    del turns
    until = time.monotonic() + 12

    def burn() -> None:
        begun = time.thread_time()
        while time.thread_time() - begun < 0.002:
            pass
        if time.monotonic() < until:
            scheduler.submit(burn)

    with strand.Scheduler(2, policy=strand.Fair(cpu_share=0.25)) as scheduler:
        scheduler.submit_many(lambda _: burn(), range(8))
        time.sleep(1)
        begun, used = time.monotonic(), on_cpu_s()
        time.sleep(10)
        share = (on_cpu_s() - used) / (time.monotonic() - begun) / 2
    print(f"cap of 25 %: {100 * share:.1f} % of two cores over 10 s")


def replay(turns: int) -> None:
    feed = SyntheticFeed(500, 4_000_000)
    ticks = np.concatenate([batch.copy() for batch in feed.batches()])
    n_symbols = int(ticks["instrument_id"].max()) + 1
    rates: dict[bool, list[float]] = {False: [], True: []}
    counted = [0]

    def run(beside: bool) -> float:
        with strand.Dispatcher(n_symbols, "vwap", workers=1, feed="orders") as dispatcher:
            stop = threading.Event()

            def submit() -> None:
                due = time.monotonic()
                while not stop.is_set():
                    dispatcher.tasks.options(symbol=counted[0] % n_symbols).submit(nothing)
                    counted[0] += 1
                    due += 0.001
                    time.sleep(max(0, due - time.monotonic()))

            thread = threading.Thread(target=submit)
            if beside:
                thread.start()
            begun = time.perf_counter()
            for _ in range(5):
                for at in range(0, len(ticks), 65_536):
                    dispatcher.publish(ticks[at : at + 65_536])
            dispatcher.drain()
            took = time.perf_counter() - begun
            stop.set()
            if beside:
                thread.join()
        return 5 * len(ticks) / took / 1e6

    for _ in range(turns):
        for beside in (False, True):
            rates[beside].append(run(beside))
    ratio = statistics.median(b / a for a, b in zip(rates[False], rates[True], strict=True))
    without, with_tasks = (statistics.median(rates[beside]) for beside in (False, True))
    print(f"replay: {without:.1f} M ticks/s, with 1,000 tasks a second beside it {with_tasks:.1f}, ratio {ratio:.3f}")


PARTS = {"futures": futures, "native": native, "cap": cap, "replay": replay}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--turns", type=int, default=9)
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: name some of {', '.join(PARTS)}")
    for part in given.parts or PARTS:
        PARTS[part](given.turns)


if __name__ == "__main__":
    main()
