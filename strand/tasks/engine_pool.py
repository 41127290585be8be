"""The engine as the pool of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.tasks import USUAL_PRIORITY
from strand.errors import QueueFull, StoppedError
from strand.policies.fair import Fair
from strand.policies.policy import Fifo, Policy
from strand.tasks.native import NativeTask
from strand.tasks.places import seat_here
from strand.tasks.turns import Turn

__all__ = ["EnginePool"]

#: How long a visit goes on to the next task of a key, as that of a strand does to its next ticks.
_VISIT_NS: Final = 1_000_000


class EnginePool:
    """Lists tasks in an engine, whose workers call ``Tasks.run``. See ``Pool`` for the methods."""

    def __init__(self, engine: Engine, policy: Policy) -> None:
        self._engine = engine
        self.n_workers = engine.n_workers
        self._tasks = engine.tasks
        self._submit = engine.tasks.submit_one
        #: Under a policy without priorities all are the usual one.
        self._only = USUAL_PRIORITY if isinstance(policy, Fifo) else None
        self._charges = isinstance(policy, Fair)
        #: Tasks in C that workers may call, by their addresses, for as long as there is an engine.
        self._native: dict[int, NativeTask] = {}

    def submit(self, tag: int, priority: int) -> int:
        return self._submit(tag, priority if self._only is None else self._only, 0) or self._refuse(1)

    def submit_marked(self, tag: int, priority: int, marks: int) -> int:
        return self._submit(tag, priority if self._only is None else self._only, marks) or self._refuse(1)

    def submit_many(self, tags: Sequence[int], priority: int) -> Sequence[int]:
        handles = self._tasks.submit_all(tags, priority if self._only is None else self._only)
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
        number = priority if self._only is None else self._only
        done = self._tasks.submit_native(
            task.address, items, key=key, priority=number, marks=marks, within_ns=within_ns
        )
        return done if done == len(items) else self._refuse(len(items), done)

    def prioritise(self, entry: int, priority: int) -> None:
        if self._only is None:
            self._tasks.prioritise(entry, priority)

    def _refuse(self, n: int, done: int = 0) -> int:
        """``done``: how many of n were taken all the same, the first ones."""
        if self._engine.stopping:
            raise StoppedError("the workers have stopped: no task can be submitted")
        left = np.arange(done, n)
        tasks = "task" if len(left) == 1 else "tasks"
        raise QueueFull(f"there is no room for {len(left):,} more {tasks} beside those that wait", left)
