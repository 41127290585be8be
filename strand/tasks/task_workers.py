"""The threads that run a scheduler's tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from strand.binding.engine import Engine
from strand.binding.py_batches import TASK
from strand.threads import join
from strand.ticks import TICK

__all__ = ["TaskWorkers"]


class TaskWorkers:
    """``run``: what a thread calls with the tag of each task. The threads hold it, and with it what it belongs to."""

    def __init__(self, engine: Engine, run: Callable[[int], None]) -> None:
        self._engine = engine
        self.threads = [
            threading.Thread(target=_work, args=(engine, i, run), name=f"strand-task-worker-{i}", daemon=True)
            for i in range(engine.n_workers)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def end(self) -> None:
        """Tells the threads to end after the task in hand."""
        self._engine.stop()

    def join(self) -> None:
        """Waits for the threads to end, but for the caller's own."""
        for thread in self.threads:
            if thread is not threading.current_thread():
                join(thread)


def _work(engine: Engine, participant: int, run: Callable[[int], None]) -> None:
    """The GIL is given up only where there is nothing to run: each time it is, other threads that run tasks wake up for
    it, and this one waits for it again."""
    batches = engine.batches(participant, TICK)
    take, wait = engine.tasks.next_of(batches.hand), batches.more
    while True:
        tag = take()
        if tag:
            run(tag)
            continue
        wait()
        if batches.what != TASK:
            return
        run(batches.task)
