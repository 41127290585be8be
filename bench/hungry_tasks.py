"""One hungry group beside small tasks, in C and in Python: the part `hungry` of bench/tasks.py.

The hungry group has eight tasks of 200 ms on-CPU time with a checkpoint after each 1 ms; where one ends, the next one
follows. Beside it tasks of 1 ms come at random times (a Poisson process), submitted by a thread of Python, and fill a
fifth of two workers. Latency is from when a small task was due to its end.

What was left for the hungry group is the wall time of the workers less the on-CPU time of the small tasks. In C it is
less, too, what the workers waited for a core (`/proc/self/task/*/schedstat`), which others on this machine took. In
Python one thread runs at a time, so it is the time of one worker; who waits for the GIL waits for a core too, and so
what others took cannot be told apart. What the group got is by the clocks of the threads in its tasks. None of this is
the engine's own count.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import strand
from strand.binding import ffi

__all__ = ["in_c", "in_python"]

ROUND_S, WARM_S = 4.0, 0.5
SMALL_NS, TURNS, TURN_NS = 1_000_000, 200, 1_000_000
WORKERS, LOAD, BACKLOG = 2, 0.2, 8


@dataclass
class Round:
    """Figures of one round; times in ns. ``late``: from due to submitted. ``waited``: from then to its start.
    ``stolen``: the part of its run that was no on-CPU time: waits for the GIL, or a core."""

    latency: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)
    stolen: list[int] = field(default_factory=list)
    share: float = 0.0
    delayed: float = 0.0


def threads() -> set[str]:
    return {task.name for task in Path("/proc/self/task").iterdir()}


def waited_for_core_ns(before: set[str]) -> int:
    """Time for which the threads that were not there before have waited for a core."""
    found = 0
    for thread in threads() - before:
        found += int((Path("/proc/self/task") / thread / "schedstat").read_text().split()[1])
    return found


def paced(seed: int, submit: Callable[[int], None]) -> None:
    """Calls ``submit`` with the time at which each small task is due, ns of the monotonic clock."""
    draw, rate = random.Random(seed), WORKERS * LOAD / SMALL_NS
    due = float(time.monotonic_ns())
    end = due + ROUND_S * 1e9
    while (due := due + draw.expovariate(rate)) < end:
        now = time.monotonic_ns()
        if due > now:
            time.sleep((due - now) / 1e9)
        submit(int(due))


@contextmanager
def measured(
    found: Round, before: set[str], cores: int, hungry: Callable[[], int], small: Callable[[], int]
) -> Iterator[None]:
    """``cores``: how many may run tasks at a time; ``hungry`` and ``small``: on-CPU time so far, ns."""
    time.sleep(WARM_S)
    begun, got, less, delay = time.monotonic_ns(), hungry(), small(), waited_for_core_ns(before)
    yield
    wall = cores * (time.monotonic_ns() - begun)
    delayed = waited_for_core_ns(before) - delay
    left = wall - (small() - less) - (delayed if cores > 1 else 0)
    found.share, found.delayed = (hungry() - got) / left, delayed / wall


def in_c(library: Any, policy: strand.Fair | strand.Fifo, seed: int) -> Round:
    """By the functions of bench/task_functions.c."""
    found, before = Round(), threads()
    number = {name: ctypes.c_long.in_dll(library, f"sd_bench_{name}") for name in ("stop", "small_done")}
    spent = {name: ctypes.c_long.in_dll(library, f"sd_bench_{name}_ns") for name in ("hungry", "small")}
    room = 1 << 16
    latencies = (ctypes.c_long * room)()
    ctypes.c_void_p.in_dll(library, "sd_bench_latencies").value = ctypes.addressof(latencies)
    for word in (*number.values(), *spent.values()):
        word.value = 0
    function = {
        name: ffi.cast("sd_task_fn", ctypes.cast(getattr(library, f"sd_bench_{name}"), ctypes.c_void_p).value)
        for name in ("hungry", "small")
    }
    with strand.Dispatcher(1, "count", workers=WORKERS, cores=None, policy=policy) as dispatcher:
        tasks, groups = dispatcher._engine.tasks, dispatcher.tasks._ranks.groups

        def spec_of(name: str, argument: Any) -> Any:
            specs = tasks.specs(1)
            specs[0].fn, specs[0].argument, specs[0].argument_bytes = function[name], argument, 8
            if groups is not None:
                specs[0].priority = groups.number_of(name)
            return specs

        turns = ffi.new("int64_t *", TURNS)
        for _ in range(BACKLOG):
            tasks.submit(spec_of("hungry", turns), 1)
        argument = ffi.new("int64_t *")
        small = spec_of("small", argument)

        def submit(due: int) -> None:
            argument[0] = due
            found.late.append(time.monotonic_ns() - due)
            tasks.submit(small, 1)

        with measured(found, before, WORKERS, lambda: spent["hungry"].value, lambda: spent["small"].value):
            paced(seed, submit)
        number["stop"].value = 1
        dispatcher.drain()
    found.latency = latencies[: number["small_done"].value]
    assert len(found.latency) == len(found.late)
    return found


def burn(ns: int) -> int:
    begun = time.thread_time_ns()
    while (used := time.thread_time_ns() - begun) < ns:
        pass
    return used


def in_python(policy: strand.Fair | strand.Fifo, seed: int, workers: int = WORKERS) -> Round:
    found, before = Round(), threads()
    spent: dict[str, list[int]] = {"hungry": [], "small": []}
    futures: list[Future[None]] = []
    stop = threading.Event()

    def hungry() -> None:
        for _ in range(TURNS):
            spent["hungry"].append(burn(TURN_NS))
            strand.checkpoint()
            if stop.is_set():
                return
        scheduler.submit(hungry)  # it is of the same group

    def small(due: int, submitted: int) -> None:
        begun = time.monotonic_ns()
        used = burn(SMALL_NS)
        end = time.monotonic_ns()
        spent["small"].append(used)
        found.waited.append(begun - submitted)
        found.stolen.append(end - begun - used)
        found.latency.append(end - due)

    with strand.Scheduler(workers, policy=policy) as scheduler:
        hungry_ones = scheduler.options(group=strand.TaskGroup("hungry"))
        small_ones = scheduler.options(group=strand.TaskGroup("small"))
        for _ in range(BACKLOG):
            hungry_ones.submit(hungry)

        def submit(due: int) -> None:
            now = time.monotonic_ns()
            found.late.append(now - due)
            futures.append(small_ones.submit(small, due, now))

        with measured(found, before, 1, lambda: sum(spent["hungry"]), lambda: sum(spent["small"])):
            paced(seed, submit)
        stop.set()
        for future in futures:
            future.result()
    return found


def said(ns: list[int], percentile: float) -> str:
    return f"{np.percentile(ns, percentile) / 1e6:.1f}" if ns else "-"


def compare(name: str, run: dict[str, Callable[[int], Round]], turns: int, target: float) -> None:
    """Runs each side in turn, and prints medians of the rounds. The first one is what others are compared with."""
    rounds: dict[str, list[Round]] = {side: [] for side in run}
    for turn in range(turns):
        for side, once in run.items():
            rounds[side].append(once(turn))
    first = statistics.median(np.percentile(found.latency, 99) for found in rounds[next(iter(run))])
    for side, of_side in rounds.items():
        p50, p99 = (statistics.median(np.percentile(f.latency, p) for f in of_side) / 1e6 for p in (50, 99))
        share, delayed = (statistics.median(getattr(f, what) for f in of_side) for what in ("share", "delayed"))
        print(
            f"{name}, {side}: small tasks p50 {p50:.1f} ms, p99 {p99:.1f} ms ({p99 * 1e6 / first:.3f} of the first, "
            f"target {target:.2f}); hungry {share:.2f} of what was left; workers waited for a core {delayed:.0%}"
        )
        parts = {what: [ns for f in of_side for ns in getattr(f, what)] for what in ("late", "waited", "stolen")}
        if parts["stolen"]:
            print(
                "    p50 and p99 in ms of due to submit "
                + ", submit to start ".join(
                    f"{said(parts[what], 50)} {said(parts[what], 99)}" for what in ("late", "waited")
                )
                + f", of the run not on CPU {said(parts['stolen'], 50)} {said(parts['stolen'], 99)}"
            )
