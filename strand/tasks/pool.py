"""Pool of threads, as tasks need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from strand.tasks.places import Turn

__all__ = ["Pool"]


class Pool(Protocol):
    """Lists tasks by priority, and calls ``Tasks.run(tag)`` once for each of them in one of its threads.

    A tag is a whole number above 0 that names a task. A priority is a number of the policy (``Ranks.number_of``). No
    method calls ``run`` itself. Each may be called from any thread, also from within ``run``, and raises StoppedError
    once the pool has stopped. Tasks hold a lock while they call the pool, so it holds none of its own while it calls
    them. A pool that gives a listed task up calls ``Tasks.drop(tag, reason)`` in place of ``run``.
    """

    def submit(self, tag: int, priority: int) -> int:
        """Lists a task. Returns its entry, by which it is known until ``run`` is called. No other task that is listed
        later has the same entry, so an old one names nothing."""
        ...

    def submit_many(self, tags: Sequence[int], priority: int) -> Sequence[int]:
        """Lists tasks in their order, all or none. Returns their entries."""
        ...

    def submit_on(self, strand: int, tag: int) -> None:
        """Queues a task on a symbol's strand, behind the ticks that are there."""
        ...

    def submit_as(self, tag: int, priority: int, own: int, marks: int) -> int:
        """``submit`` for a task whose own priority may be another one, as the head of an order has the highest of its
        order; and that the guard may hold back by its marks, a set of bits."""
        ...

    def may_go_on(self, elapsed_ns: int) -> bool:
        """Tells ``Tasks.run``, in its thread, whether it may run another task with the same priority before it returns,
        ``elapsed_ns`` after it began."""
        ...

    def hold(self) -> Turn:
        """Lets the task go on elsewhere; called by ``Tasks.run``, in its thread. The task's turn lasts until ``over``
        is called. The thread may run other tasks when ``run`` has returned."""
        ...

    def prioritise(self, entry: int, priority: int, own: int) -> None:
        """Gives a task that waits another priority. Does nothing where it has begun, or the entry is old."""
        ...

    def give_up(self, entry: int) -> None:
        """Lets go of a listed task that has ended: ``run`` need not be called for it."""
        ...

    def rose(self, entry: int) -> int | None:
        """The level to which a listed task has risen by its wait; None: it has not, or is not listed any more."""
        ...

    def risen(self) -> Sequence[int]:
        """Number of listed tasks, by level, that have risen to it, less its own tasks that have risen from it."""
        ...
