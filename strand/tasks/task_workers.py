"""The threads that run a scheduler's tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from strand.binding.engine import Engine
from strand.binding.py_batches import TASK
from strand.threads import join
from strand.ticks import TICK

__all__ = ["Guarding", "TaskWorkers"]


class Guarding(Protocol):
    """A thread that holds tasks back at times, until it ends."""

    def start(self) -> None: ...
    def tell_to_end(self) -> None: ...
    def end(self) -> None: ...


class TaskWorkers:
    """``run``: what a thread calls with the tag of each task. The threads hold it, and with it what it belongs to.
    ``guarding``: what holds tasks back; None: nothing does."""

    def __init__(self, engine: Engine, run: Callable[[int], None], guarding: Guarding | None = None) -> None:
        self._engine = engine
        self._guarding = guarding
        self.threads = [
            threading.Thread(target=_work, args=(engine, i, run), name=f"strand-task-worker-{i}", daemon=True)
            for i in range(engine.n_workers)
        ]

    def start(self) -> None:
        if self._guarding is not None:
            self._guarding.start()
        for thread in self.threads:
            thread.start()

    def let_go(self) -> None:
        """Nothing is held back any more."""
        if self._guarding is not None:
            self._guarding.tell_to_end()

    def end(self) -> None:
        """Tells the threads to end after the task in hand."""
        self._engine.stop()

    def join(self) -> None:
        """Waits for the threads to end, but for the caller's own."""
        for thread in self.threads:
            if thread is not threading.current_thread():
                join(thread)
        if self._guarding is not None:
            self._guarding.end()


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
