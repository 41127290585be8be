"""Work of threads with their places: here, to run tasks alone. Places of a dispatcher drain ticks, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from strand.binding.engine import Engine
from strand.binding.py_batches import TASK

__all__ = ["Place", "Sitting", "TasksAlone", "ThreadCounts", "Work"]


class Place:
    """A worker of the engine. It is used by the thread that has it. ``core``: the one to which it pins that thread;
    None: it does not pin it."""

    __slots__ = ("batches", "core", "participant", "should_yield", "take")

    def __init__(self, engine: Engine, participant: int, dtype: np.dtype[Any]) -> None:
        self.participant = participant
        self.core: int | None = None
        self.batches = engine.batches(participant, dtype)
        self.take: Callable[[], int] = engine.tasks.next_of(self.batches.hand)
        self.should_yield: Callable[[], int] = engine.tasks.question_of(self.batches.hand)


class ThreadCounts(NamedTuple):
    """Counts of the threads. ``threads``: their number. ``places``: the number of tasks that may run at a time.
    ``suspended``: tasks that wait for a place. ``blocked``: tasks in a block. ``suspensions``: times that a task was
    suspended or blocked. ``refused``: times that it could not be, because of ``max_threads``."""

    threads: int
    places: int
    suspended: int
    blocked: int
    suspensions: int
    refused: int


class Sitting(Protocol):
    """A thread of ``Places``, which has a place or has none."""

    place: Place | None
    #: Whether an exception has cut short what the thread did with its place.
    is_cut: bool

    def live(self) -> None:
        """The thread's body."""


class Work(Protocol):
    """Work that the threads of ``Places`` do."""

    @property
    def name(self) -> str:
        """Prefix of the threads' names."""

    def live(self, seat: Sitting) -> None:
        """A thread's life: calls ``seat.live()``."""

    def moved(self, place: Place | None) -> None:
        """Notes that the calling thread goes on with another place, or without one, perhaps in the middle of a task."""

    def serve(self, seat: Sitting, place: Place) -> int:
        """Ends the task that is in hand, and runs what comes. Returns what stops that, as ``PyBatches.what``: RESUME, a
        stop, or TASK where the thread came out of a task with another place, or without one. Where an exception comes
        out of it that is none of a task, it is called again, with ``is_cut``."""

    def over(self) -> None:
        """Notes the end; called by the last thread that gives its place up, because the workers have stopped."""


class TasksAlone:
    """The work of an engine without ticks. ``run``: what is called with the tag of each task."""

    name: Final = "strand-task-worker"

    def __init__(self, run: Callable[[int], None]) -> None:
        self._run = run

    def live(self, seat: Sitting) -> None:
        seat.live()

    def moved(self, place: Place | None) -> None:
        """Nothing that it does depends on which place it is."""

    def serve(self, seat: Sitting, place: Place) -> int:
        """Gives the GIL up only if there is nothing to run. Each time it is given up, other threads that run tasks wake
        for it, and this thread waits for it again."""
        run, take, batches = self._run, place.take, place.batches
        if seat.is_cut:
            seat.is_cut = False
            if batches.task:
                run(batches.task)  # if it has run, this does nothing
        while seat.place is place:
            tag = take()
            if tag:
                run(tag)
            else:
                batches.more()
                if batches.what != TASK:
                    return batches.what
                run(batches.tag)
        return TASK

    def over(self) -> None:
        """The thread that ended the threads takes care of the rest."""
