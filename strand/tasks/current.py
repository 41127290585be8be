"""Task that runs in this thread, and the waiter in it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from strand.tasks.places import Seat, seat_here
from strand.tasks.waits import Waiter, begin_wait, end_wait

if TYPE_CHECKING:
    import asyncio

__all__ = ["CURRENT_TASK", "ENDING_TASK", "RunningTask", "on_behalf_of", "wait_as", "waiter_here"]


class RunningTask(Waiter, Protocol):
    """A ``TaskFuture``, for what lies below it."""

    id: int
    cancel_requested: bool
    _runner: asyncio.Task[Any] | None
    _charge: Callable[[int], object] | None


#: The task that runs here.
CURRENT_TASK: Final[ContextVar[RunningTask | None]] = ContextVar("strand_task", default=None)
#: The task whose callbacks run here, as it ends.
ENDING_TASK: Final[ContextVar[RunningTask | None]] = ContextVar("strand_ending_task", default=None)


def on_behalf_of(task: RunningTask, call: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of ``call``, which runs as a part of the task: a wait in it is a wait of the task."""
    outer = CURRENT_TASK.get()
    try:
        CURRENT_TASK.set(task)
        return call(*arguments)
    finally:
        CURRENT_TASK.set(outer)


def waiter_here() -> tuple[Seat | None, Waiter | None]:
    """The thread's seat, and the task or call that runs in it; None for what there is not."""
    task, seat = CURRENT_TASK.get(), seat_here()
    return seat, seat.call if task is None and seat is not None else task


def wait_as(seat: Seat | None, me: Waiter | None, target: Waiter, wait: Callable[[], Any]) -> Any:
    """Returns the result of ``wait``, which waits for the target. ``seat`` and ``me`` are those of ``waiter_here``: a
    thread with a seat gives its place away meanwhile. Raises WouldDeadlockError where the target waits for ``me``, and
    as ``Seat.enter_block``."""
    if me is None:
        return wait()
    if seat is not None:
        return seat.wait(me, target, wait)
    begin_wait(me, target)
    try:
        return wait()
    finally:
        end_wait(me)
