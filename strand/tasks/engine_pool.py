"""The engine as the pool of tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.tasks import OWN_LEVEL, USUAL_PRIORITY
from strand.errors import QueueFull, StoppedError
from strand.policies.fair import Fair
from strand.policies.policy import LEVELS, Fifo, Levels, Policy
from strand.tasks.native import NativeTask
from strand.tasks.places import seat_here
from strand.tasks.turns import Turn

__all__ = ["EnginePool"]

#: Time for which a visit goes on to a key's next task, as a strand's visit does to its next ticks.
_VISIT_NS: Final = 1_000_000


class EnginePool:
    """Lists tasks in an engine, whose workers call ``Tasks.run``. See ``Pool`` for the methods."""

    def __init__(self, engine: Engine, policy: Policy) -> None:
        self._engine = engine
        self.n_workers = engine.n_workers
        self._tasks = engine.tasks
        self._submit = engine.tasks.submit_one
        #: The priorities of the engine, by those of tasks that stand in their own; None: they are the same. Under a
        #: policy without priorities all are the usual one.
        self._codes: tuple[int, ...] | defaultdict[int, int] | None = None
        self._is_fifo = isinstance(policy, Fifo)
        self._has_levels = isinstance(policy, Levels)
        if self._has_levels:
            self._codes = tuple(self._code(level, level) for level in range(len(LEVELS)))
        elif self._is_fifo:
            self._codes = defaultdict(lambda: USUAL_PRIORITY)
        self._charges = isinstance(policy, Fair)
        #: Tasks in C that workers may call, by their addresses, for as long as there is an engine.
        self._native: dict[int, NativeTask] = {}

    def _code(self, priority: int, own: int) -> int:
        if self._has_levels:
            return priority | own + 1 << OWN_LEVEL
        return priority if self._codes is None else self._codes[priority]

    def submit(self, tag: int, priority: int) -> int:
        codes = self._codes
        return self._submit(tag, priority if codes is None else codes[priority], 0) or self._refuse(1)

    def submit_as(self, tag: int, priority: int, own: int, marks: int) -> int:
        return self._submit(tag, self._code(priority, own), marks) or self._refuse(1)

    def submit_many(self, tags: Sequence[int], priority: int) -> Sequence[int]:
        handles = self._tasks.submit_all(tags, self._code(priority, priority))
        if len(handles) == len(tags):
            return handles
        for handle in handles:
            self._tasks.give_up(handle)
        self._refuse(len(tags))
        return handles

    def submit_on(self, strand: int, tag: int) -> None:
        if self._tasks.enqueue(strand, tag) is None:
            self._refuse(1)

    def may_go_on(self, elapsed_ns: int) -> bool:
        seat = seat_here()
        return seat is not None and elapsed_ns < _VISIT_NS and seat.may_go_on()

    def hold(self) -> Turn:
        seat = seat_here()
        assert seat is not None
        turn = seat.hold()
        if self._charges:
            turn.charge = partial(self._tasks.charge, turn.entry)
        return turn

    def submit_native(
        self, task: NativeTask, items: npt.NDArray[Any], *, key: int, priority: int, marks: int, within_ns: int
    ) -> int:
        """See ``EngineTasks.submit_native``: lists a task for each item."""
        self._native[task.address] = task
        number = USUAL_PRIORITY if self._is_fifo else priority
        done = self._tasks.submit_native(
            task.address, items, key=key, priority=number, marks=marks, within_ns=within_ns
        )
        return done if done == len(items) else self._refuse(len(items), done)

    def prioritise(self, entry: int, priority: int, own: int) -> None:
        if not self._is_fifo:
            self._tasks.prioritise(entry, self._code(priority, own))

    def give_up(self, entry: int) -> None:
        self._tasks.give_up(entry)

    def rose(self, entry: int) -> int | None:
        level = self._tasks.rose(entry) if self._has_levels else 0
        return level - 1 if level else None

    def risen(self) -> list[int]:
        return self._tasks.risen()

    def _refuse(self, n: int, done: int = 0) -> int:
        """``done``: how many of n were taken all the same, the first ones."""
        if self._engine.stopping:
            raise StoppedError("the workers have stopped: no task can be submitted")
        left = np.arange(done, n)
        tasks = "task" if len(left) == 1 else "tasks"
        raise QueueFull(f"there is no room for {len(left):,} more {tasks} beside those that wait", left)
