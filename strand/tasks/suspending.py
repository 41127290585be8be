"""Calls for the middle of a task: to let others go first, and to wait without keeping a worker."""

from __future__ import annotations

from concurrent.futures import CancelledError
from types import TracebackType

from strand.brief import brief
from strand.tasks.current import CURRENT_TASK
from strand.tasks.places import seat_here

__all__ = ["blocking", "checkpoint"]


def checkpoint() -> None:
    """Lets other tasks go that the policy would take first now, and then goes on.

    Under ``Levels`` these are tasks of a higher level. Under ``Aging`` they are those with a higher priority, as if
    this one still waited. Under ``Fair`` it is another group once this one has used up its slice, and no task while the
    cap holds the scheduler. ``Fifo`` takes none first. This task waits meanwhile, is charged for what it used, and is
    taken again in the policy's order. Its key, and its symbol's ticks, wait with it.

    It costs less than a microsecond if there is nothing to do, so a loop may call it each time. It gives up the GIL
    about once per millisecond. It is for tasks of a ``Scheduler`` and of ``dispatcher.tasks``, where it lets ticks go
    first, too, and for calls of a dispatcher. Elsewhere, as in a handler, it does nothing; a coroutine awaits instead.
    If ``max_threads`` threads wait already it goes on, which is counted (``thread_counts()``).

    Raises:
        concurrent.futures.CancelledError: If ``cancel(running=True)`` asked the task to end.
        StoppedError: If the workers have stopped.
    """
    task, seat = CURRENT_TASK.get(), seat_here()
    if task is not None and task.cancel_requested:
        raise CancelledError
    if seat is None or (task is None and seat.call is None):
        return
    seat.checkpoint()
    if task is not None and task.cancel_requested:
        raise CancelledError


class blocking:  # noqa: N801 - users see a function
    """A block in which a task or call waits for something else than the processor: a lock, a reply, a file.

    For example::

        with strand.blocking():
            reply = socket.recv(4096)

    Another thread takes the place of this one meanwhile, so as many tasks run as before, and ticks are handled. After
    the block the task waits for a worker in the policy's order. Outside of tasks and calls it does nothing.
    ``future.result()`` of a task enters such a block by itself. A task with ``symbol=``, or a call, keeps its symbol's
    turn: ticks of the symbol wait until it ends. In the block a task of a dispatcher cannot publish to it.

    Raises:
        WouldDeadlockError: At its start, if ``max_threads`` threads wait already. Also in a handler that Python runs
            for a dispatcher: the ticks that it handles may lie in its worker's memory.
        StoppedError: If the workers have stopped.
    """

    __slots__ = ("_seat",)

    def __repr__(self) -> str:
        return brief(self)

    def __enter__(self) -> None:
        self._seat = seat_here()
        if self._seat is not None:
            self._seat.enter_block()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._seat is not None:
            self._seat.leave_block(self._seat.depth - 1)
