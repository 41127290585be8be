"""Pools for tests of tasks: one that a test steps, whose picks a seed decides, and one of plain threads."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from strand.errors import StoppedError
from strand.policies.policy import Levels
from strand.tasks import Ranks, RetryPolicy, TaskGroup, Tasks
from strand.tasks.core import Core
from strand.tasks.pool import Bounds
from strand.testing import Clock

BOUNDS = {"queue": "queue", "by_level": "queue_by_level", "held": "held"}


def tasks_over(
    pool: Any, ranks: Ranks, *, retry: RetryPolicy | None = None, strand_of: Any = None, **options: Any
) -> Tasks:
    """Tasks that a pool runs; ``options``: those of ``Core``, and its bounds by the names of a Scheduler's options."""
    bounds = {name: options.pop(f"max_{option}") for name, option in BOUNDS.items() if f"max_{option}" in options}
    return Tasks(Core(pool, ranks, bounds=Bounds(**bounds), **options), retry=retry, strand_of=strand_of)


class RisesNot:
    """A pool in which no task rises by its wait."""

    n_workers = 1

    def rose(self, entry: int) -> int | None:
        return None

    def risen(self) -> list[int]:
        return [0] * 5


class NoTurn:
    """In a pool whose tasks hold nothing but their keys."""

    charge = None

    def over(self) -> None:
        """Nobody waits for it."""


class SteppedPool(RisesNot):
    """Runs a task when the test says so: of the highest level that waits, one that the seed picks; of all that wait
    where there are no levels, and whatever a policy might do is right."""

    def __init__(self, seed: int = 0, levels: bool = True) -> None:
        self.tasks: Tasks | None = None
        self._levels = levels
        self.listed: dict[int, tuple[int, int]] = {}  # by entry: the tag and the priority
        self.on_strands: list[tuple[int, int]] = []
        self.marks: dict[int, int] = {}
        self.stopped = False
        self.goes_on = False  # whether visits do: the seed says how long
        self._entries = 0
        self._generator = random.Random(seed)

    def submit(self, tag: int, priority: int) -> int:
        if self.stopped:
            raise StoppedError("the pool has stopped")
        self._entries += 1
        self.listed[self._entries] = (tag, priority)
        return self._entries

    def submit_many(self, tags: Sequence[int], priority: int) -> Sequence[int]:
        return [self.submit(tag, priority) for tag in tags]

    def submit_on(self, strand: int, tag: int) -> int:
        self.on_strands.append((strand, tag))
        return 0

    def submit_as(self, tag: int, priority: int, own: int, marks: int) -> int:
        if marks:
            self.marks[tag] = marks
        return self.submit(tag, priority)

    def may_go_on(self, elapsed_ns: int) -> bool:
        assert elapsed_ns >= 0
        return self.goes_on and self._generator.random() < 0.8

    def hold(self) -> NoTurn:
        return NoTurn()

    def prioritise(self, entry: int, priority: int, own: int) -> None:
        if entry in self.listed:
            self.listed[entry] = (self.listed[entry][0], priority)

    def give_up(self, entry: int) -> None:
        self.listed.pop(entry, None)

    def priority_of(self, tag: int) -> int | None:
        """With which priority a task is listed; None: it is not."""
        return next((priority for listed, priority in self.listed.values() if listed == tag), None)

    def step(self) -> bool:
        """Runs one task. False: there is none."""
        if not self.listed:
            return False
        highest = min(priority for _, priority in self.listed.values())
        first = [entry for entry, (_, own) in self.listed.items() if own == highest or not self._levels]
        entry = self._generator.choice(first)
        tag, _ = self.listed.pop(entry)
        assert self.tasks is not None
        self.tasks.run(tag)
        return True

    def run_all(self) -> int:
        """Runs what is listed, and what that lists. Returns how many calls of ``run``."""
        steps = 0
        while self.step():
            steps += 1
        return steps


class KnownGroups:
    """Groups of a policy that shares time, all of which are known from the start."""

    take_waits: Callable[[int], Counter[int]]

    def __init__(self, *names: str) -> None:
        self._names = list(names)

    def number_of(self, group: TaskGroup | None, /) -> int:
        return self._names.index("(tasks)" if group is None or group.name is None else group.name)

    def waits(self, by_number: dict[int, Counter[int]], /) -> dict[str, Counter[int]]:
        return {name: by_number.get(number, Counter()) for number, name in enumerate(self._names)}


class Stepped:
    """Tasks over a stepped pool and a clock that stands still."""

    def __init__(
        self,
        *,
        seed: int = 0,
        hold: dict[str, Any] | None = None,
        policy: Any = None,
        groups: Any = None,
        **options: Any,
    ) -> None:
        policy = policy or Levels(hold=hold or {})
        self.pool = SteppedPool(seed, isinstance(policy, Levels))
        self.clock = Clock()
        self.tasks = tasks_over(self.pool, Ranks(policy, groups), clock=self.clock, seed=seed, **options)
        self.pool.tasks = self.tasks

    def advance(self, seconds: float) -> None:
        """Moves the clock on, stopping at everything that is due, and runs what is listed."""
        until = self.clock.now_ns() + round(seconds * 1e9)
        while True:
            due = self.tasks.fire()
            self.pool.run_all()
            if due is None or due > until:
                due = self.tasks.fire()
                if due is None or due > until:
                    break
            self.clock.wait_until(due)
        self.clock.wait_until(until)


class ThreadPool(RisesNot):
    """Plain threads that run tasks, the highest level first. ``close`` ends them."""

    def __init__(self, threads: int = 2) -> None:
        self.tasks: Tasks | None = None
        self._condition = threading.Condition()
        self._lists: list[list[int]] = [[] for _ in range(5)]
        self._closed = False
        self.raised: list[BaseException] = []
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def submit(self, tag: int, priority: int) -> int:
        with self._condition:
            if self._closed:
                raise StoppedError("the pool has stopped")
            self._lists[priority].append(tag)
            self._condition.notify()
        return tag

    def submit_many(self, tags: Sequence[int], priority: int) -> Sequence[int]:
        return [self.submit(tag, priority) for tag in tags]

    def submit_on(self, strand: int, tag: int) -> int:
        raise NotImplementedError

    def submit_as(self, tag: int, priority: int, own: int, marks: int) -> int:
        return self.submit(tag, priority)

    def may_go_on(self, elapsed_ns: int) -> bool:
        return elapsed_ns < 1_000_000

    def hold(self) -> NoTurn:
        return NoTurn()

    def give_up(self, entry: int) -> None:
        with self._condition:
            for tags in self._lists:
                if entry in tags:
                    tags.remove(entry)

    def prioritise(self, entry: int, priority: int, own: int) -> None:
        with self._condition:
            for tags in self._lists:
                if entry in tags:
                    tags.remove(entry)
                    self._lists[priority].append(entry)
                    return

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        for thread in self.threads:
            thread.join(60)

    def _work(self) -> None:
        while True:
            with self._condition:
                while not any(self._lists):
                    if self._closed:
                        return
                    self._condition.wait()
                tag = next(tags for tags in self._lists if tags).pop(0)
            assert self.tasks is not None
            try:
                self.tasks.run(tag)
            except BaseException as error:
                self.raised.append(error)


class Threaded:
    """``with Threaded() as tasks:``: tasks over plain threads and the system's clock."""

    def __init__(self, threads: int = 2, **options: Any) -> None:
        self.pool = ThreadPool(threads)
        self.tasks = tasks_over(self.pool, Ranks(Levels()), **options)
        self.pool.tasks = self.tasks

    def __enter__(self) -> Tasks:
        return self.tasks

    def __exit__(self, *_: object) -> None:
        self.tasks.shutdown(timeout=120)
        self.pool.close()
        assert not any(thread.is_alive() for thread in self.pool.threads)
        assert self.pool.raised == []


def raises(error: BaseException) -> Callable[..., None]:
    """A function that raises, whatever it is called with."""

    def raising(*_: object) -> None:
        raise error

    return raising
