"""Cost of tasks on this machine: python bench/tasks.py [PART ...] [--turns 9]

    futures     empty Python tasks, submit to done, beside ThreadPoolExecutor(4), in turn: medians of the ratios
    coroutines  empty coroutines in bursts of 1,000, by a thread that waits for each and by asyncio.gather, beside
                asyncio's own: run_coroutine_threadsafe, and gather of create_task
    idle        submit to result of one empty task after a pause of 1 ms, beside ThreadPoolExecutor(2)
    native      tasks in C, submitted by running tasks in batches of 64, on two workers

The sides take turns. Run it while the machine is quiet; the processor time is that of the process.
"""

from __future__ import annotations

import asyncio
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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from turns import Taken, in_turns, ratios, run_parts, spread, taken

import strand

N_TASKS, BURST = 50_000, 1000


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
    found = in_turns(sides, turns, warm=0)
    base = found["ThreadPoolExecutor(4)"]
    for name, rates in found.items():
        ratio = statistics.median(ratios(rates, base))
        print(f"{name:40} {statistics.median(rates):7.0f} k/s   {ratio:5.2f} of ThreadPoolExecutor(4)")
    four, one = found["Scheduler(4), plain"], found["Scheduler(1), plain"]
    print(f"4 workers against 1: {statistics.median(ratios(four, one)):.2f}")


async def soon() -> None:
    pass


def beside(turns: int, sides: dict[str, Callable[[], int]], rivals: dict[str, str]) -> None:
    """Shows what a call of each side takes by the clock and of processor time, in us for each of the calls that it
    says it made, and the ratios to its rival's in the same turn."""

    def each(side: Callable[[], int]) -> Taken:
        n, its = taken(side)
        return Taken(its.cpu / n * 1e6, its.wall / n * 1e6)

    found = in_turns({name: partial(each, side) for name, side in sides.items()}, turns, warm=turns // 4 + 1)
    of = {which: {name: [getattr(one, which) for one in found[name]] for name in sides} for which in ("wall", "cpu")}
    for name in sides:
        line = f"{name:42} us by the clock {spread(of['wall'][name])}, processor {spread(of['cpu'][name])}"
        if rival := rivals.get(name):
            line += "".join(f"; {spread(ratios(times[name], times[rival]))}" for times in of.values()) + f" of {rival}"
        print(line)


def coroutines(turns: int) -> None:
    loop, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    thread = threading.Thread(target=other.run_forever)
    thread.start()

    def waits(begin: Callable[[], Any]) -> Callable[[], int]:
        def side() -> int:
            for future in [begin() for _ in range(BURST)]:
                future.result()
            return BURST

        return side

    def gathers(begin: Callable[[], Any]) -> Callable[[], int]:
        async def gather() -> int:
            await asyncio.gather(*[begin() for _ in range(BURST)])
            return BURST

        return lambda: loop.run_until_complete(gather())

    with strand.Scheduler(2) as scheduler:
        sides = {
            "run_coroutine_threadsafe": waits(lambda: asyncio.run_coroutine_threadsafe(soon(), other)),
            "Scheduler(2), a thread waits": waits(lambda: scheduler.submit(soon)),
            "gather of create_task": gathers(lambda: loop.create_task(soon())),
            "Scheduler(2), gather": gathers(lambda: scheduler.submit(soon)),
        }
        names = list(sides)
        beside(turns * 5, sides, {names[1]: names[0], names[3]: names[2]})
    other.call_soon_threadsafe(other.stop)
    thread.join()
    for each in (loop, other):
        each.close()


def idle(turns: int) -> None:
    def times(executor: concurrent.futures.Executor, kept: list[float]) -> Callable[[], int]:
        def side() -> int:
            for _ in range(50):
                time.sleep(0.001)
                begun = time.perf_counter()
                executor.submit(nothing).result()
                kept.append((time.perf_counter() - begun) * 1e6)
            return 50

        return side

    with strand.Scheduler(2) as scheduler, concurrent.futures.ThreadPoolExecutor(2) as pool:
        kept: dict[str, list[float]] = {"ThreadPoolExecutor(2)": [], "Scheduler(2)": []}
        sides = {name: times(e, kept[name]) for name, e in zip(kept, (pool, scheduler), strict=True)}
        beside(turns * 5, sides, {"Scheduler(2)": "ThreadPoolExecutor(2)"})
    theirs, ours = kept.values()
    for name, of in kept.items():
        print(f"{name:42} submit to result {spread(of)} us, mean {statistics.mean(of):.1f}")
    at = (statistics.median, lambda of: statistics.quantiles(of, n=4)[0], statistics.mean)
    print("ratios of the median, the lower quartile, the mean: " + ", ".join(f"{q(ours) / q(theirs):.2f}" for q in at))


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


if __name__ == "__main__":
    run_parts(__doc__, {part.__name__: part for part in (futures, coroutines, idle, native)}, 9)
