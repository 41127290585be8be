"""A program counts its own tasks, and strand counts them from outside: both have the same figures by level.

Depths, counts and rates are the same numbers. A percentile of strand's is the upper edge of a bucket, which is a
sixteenth of an octave wide.
Then a level is too deep for two samples, which alerts nobody, and for three, which alerts once and recovers once.

python examples/counted_from_outside.py
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import strand
from strand.alerts import Alert, Alerts, Rule, Samples
from strand.metrics import Readings

LEVELS = ("immediate", "high", "retry", "normal", "low")
EARLY, LATE = {"immediate": 40, "high": 60, "normal": 80, "low": 50}, {"low": 50}
POLICY = strand.Levels({"low": "1.2s"})  # and of the levels above


class Program:
    """A program with two workers, which counts its own tasks."""

    def __init__(self, scheduler: strand.Scheduler) -> None:
        self.scheduler = scheduler
        self.attached = strand.attach(fd=scheduler.memory_fd)
        self.tasks: list[tuple[str, float, list[float], Any]] = []
        self.may_end = threading.Event()

    def submit(self, level: str, function: Callable[[], object]) -> None:
        """Submits a task, which notes when it begins."""
        began: list[float] = []

        def noted() -> None:
            began.append(time.perf_counter())
            function()

        at = time.perf_counter()
        self.tasks.append((level, at, began, self.scheduler.options(priority=level).submit(noted)))

    def hold(self) -> None:
        """Keeps all workers busy until ``may_end`` is set."""
        self.may_end.clear()
        begun = [threading.Event() for _ in range(self.scheduler.workers)]
        for one in begun:
            self.submit("immediate", lambda one=one: (one.set(), self.may_end.wait()))
        for one in begun:
            one.wait()

    def load(self, levels: dict[str, int]) -> None:
        """Submits so many tasks by level. Each takes 2 ms, and one in ten fails."""
        for level, n in levels.items():
            for number in range(n):
                self.submit(level, fails if number % 10 == 0 else works)

    def told(self, is_so: Callable[[Any], bool]) -> Any:
        """Returns strand's figures of the tasks when something is so: the run puts them once a second."""
        while not ((found := self.attached.snapshot().tasks) and is_so(found)):
            time.sleep(0.02)
        return found


def works() -> None:
    time.sleep(0.002)


def fails() -> None:
    time.sleep(0.002)
    raise ValueError("one in ten")


def compare_figures(program: Program) -> None:
    """Prints each figure as the program has it, and as strand has it."""
    began = time.monotonic()
    program.hold()
    program.load(EARLY)
    found = program.told(lambda tasks: sum(tasks.waiting.values()) == sum(EARLY.values()))
    for level, n in EARLY.items():
        print(f"{level} depth: {n} {found.waiting[level]}")
    time.sleep(max(0.0, began + 1.6 - time.monotonic()))  # the early ones rise
    program.load(LATE)
    program.may_end.set()
    waits: dict[str, list[float]] = {level: [] for level in LEVELS}
    ended: dict[str, Counter[bool]] = {level: Counter() for level in LEVELS}
    promoted: Counter[str] = Counter()
    for given, at, began_at, task in program.tasks:
        is_done = task.exception() is None
        waits[task.priority].append(began_at[0] - at)  # the level to which it had risen
        ended[task.priority][is_done] += 1
        promoted.update(LEVELS[LEVELS.index(task.priority) + 1 : LEVELS.index(given) + 1])
    levels = program.told(lambda tasks: tasks.pending == 0).since_start.levels
    for level in LEVELS:
        figures, own = levels[level], waits[level]
        print(f"{level} started: {len(own)} {figures.started}")
        if own:
            for p in (95, 99):
                exact = np.percentile(own, p, method="inverted_cdf") * 1e3
                print(f"{level} P{p}: {exact:.1f} {figures.wait.percentile(p) / 1e6:.1f} ms")
            print(f"{level} success: {ended[level][True] / len(own):.4f} {figures.success_rate:.4f}")
            print(f"{level} promotions: {promoted[level] / len(own):.4f} {figures.promotion_rate:.4f}")


def alert_on_depth(program: Program) -> None:
    """Prints the alerts of two and of three samples above a limit, on the real clock."""

    def deep() -> None:
        program.hold()
        for _ in range(60):
            program.submit("low", works)
        program.told(lambda tasks: tasks.waiting["low"] == 60)

    def shallow() -> None:
        program.may_end.set()
        program.told(lambda tasks: tasks.pending == 0)

    def as_before() -> None:
        pass

    # What happens before each sample.
    twice = [deep, as_before, shallow, as_before, as_before]
    plan = iter([*twice, deep, as_before, as_before, shallow, *[as_before] * 8])
    readings, n, over = Readings(program.attached), 0, threading.Event()

    def read() -> Samples:
        nonlocal n
        if (step := next(plan, None)) is None:
            over.set()
        else:
            step()
        n += 1
        return readings()

    def tell(alert: Alert) -> None:
        print(f"sample {n}: {alert.state}, {alert.text}")

    rule = Rule("queue_depth", "warning", 50, "low", interval_ns=200_000_000, samples=3)
    with Alerts(read, [rule], on_alert=tell):
        over.wait()


def main() -> None:
    """Both parts, with one scheduler each."""
    with strand.Scheduler(2, policy=POLICY, attachable=True) as scheduler:
        compare_figures(Program(scheduler))
    with strand.Scheduler(2, attachable=True) as scheduler:
        alert_on_depth(Program(scheduler))


if __name__ == "__main__":
    main()
