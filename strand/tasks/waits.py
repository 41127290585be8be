"""Waits of tasks and calls: a thread that waits gives its place away, and no wait closes a circle."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

from strand.brief import brief
from strand.errors import WouldDeadlockError
from strand.logs import CONTEXT
from strand.tasks.places import Seat, seat_here

if TYPE_CHECKING:
    import asyncio

#: Held while one looks for a circle of waits, and enters a wait.
_WAITS: Final = threading.RLock()
_NUMBERS: Final = itertools.count(1)


#: Event loops that run all coroutines of a scheduler. Each wait asks whether there is one, which a WeakSet answers by a
#: call of Python.
LOOPS: Final[set[weakref.ref[asyncio.AbstractEventLoop]]] = set()


def note_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Adds one of ``LOOPS``, for as long as it lives."""
    LOOPS.add(weakref.ref(loop, LOOPS.discard))


def in_loop() -> bool:
    """Tells whether the calling thread is in one of ``LOOPS``."""
    if not LOOPS:
        return False
    from asyncio import _get_running_loop  # only now: a replay without tasks does not need it

    # asyncio exports it. ``get_running_loop`` would make an error in each thread without a loop.
    loop = _get_running_loop()
    return loop is not None and weakref.ref(loop) in LOOPS


def numbered(kind: str) -> str:
    """A name for a scheduler or dispatcher that no other one of this process has, like ``"scheduler 2"``."""
    return f"{kind} {next(_NUMBERS)}"


class Waiter(Protocol):
    """A ``TaskFuture``, for the code below it. ``waits_for``: the task or call whose result it waits for now."""

    id: int
    cancel_requested: bool
    waits_for: Waiter | None
    _runner: asyncio.Task[Any] | None
    _charge: Callable[[int], object] | None

    def in_words(self) -> str: ...

    def home(self) -> str:
        """The name of the scheduler or dispatcher that it is of: each of these has a task 1."""

    def done(self) -> bool: ...

    def ahead(self) -> Waiter | None:
        """Task or call that has to end before this one begins, as far as it is known. It is the head of its key's
        order, or the one that waits while it holds the strand."""

    def holds(self) -> tuple[dict[int, Waiter], int] | None:
        """Table of waits while a strand is held, and the strand that this one holds; None: it holds none."""


def check_not_in_loop(target: str) -> None:
    """``target``: what is to be waited for, in words. Raises WouldDeadlockError in a thread that runs all coroutines of
    a scheduler."""
    if in_loop():
        raise WouldDeadlockError(
            f"{target}: a coroutine that waits stops all others: await the task or submit_call, and leave the block of "
            "a TaskGroup by async with"
        )


def begin_wait(me: Waiter, target: Waiter) -> None:
    """Notes that one task or call waits for another. Raises WouldDeadlockError where the other one already waits for
    it.

    Each waits for one other at a time: for the one whose result it asks, or for the one ahead of it. So the search
    follows a chain. It meets every circle, since the last wait of a circle finds all others.
    """
    with _WAITS:
        if (held := me.holds()) is not None:
            waiters, strand = held
            waiters[strand] = me
        if _leads_to(me, target):
            end_wait(me)
            mine, other = me.in_words(), target.in_words()
            if me.home() != target.home():
                mine, other = f"{mine} of {me.home()}", f"{other} of {target.home()}"
            raise WouldDeadlockError(
                f"{mine} would wait for {other}, which waits for {mine}: use add_done_callback, or submit without a "
                "key or symbol that the two share"
            )
        me.waits_for = target


def _leads_to(me: Waiter, target: Waiter) -> bool:
    """Tells whether the target waits for ``me``, directly or through others."""
    seen: set[Waiter] = set()
    node: Waiter | None = target
    while node is not None and node not in seen:
        if node is me:
            return True
        seen.add(node)
        # One that is done waits in its callbacks only, and its key and strand wait for these.
        node = node.waits_for or (None if node.done() else node.ahead())
    return False


def end_wait(me: Waiter) -> None:
    """The wait is over."""
    me.waits_for = None
    if (held := me.holds()) is not None:
        waiters, strand = held
        waiters.pop(strand, None)


#: The task that runs here.
CURRENT_TASK: Final[ContextVar[Waiter | None]] = ContextVar("strand_task", default=None)
CONTEXT["task"] = lambda: None if (task := CURRENT_TASK.get()) is None else task.id
CONTEXT["run"] = lambda: None if (task := CURRENT_TASK.get()) is None else task.home()
#: The task whose callbacks run here, as it ends.
ENDING_TASK: Final[ContextVar[Waiter | None]] = ContextVar("strand_ending_task", default=None)


def on_behalf_of(task: Waiter, call: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of ``call``, which runs as a part of the task: a wait in it is a wait of the task."""
    outer = CURRENT_TASK.get()
    try:
        CURRENT_TASK.set(task)
        return call(*arguments)
    finally:
        CURRENT_TASK.set(outer)


def waiter_here() -> tuple[Seat | None, Waiter | None]:
    """The thread's seat, and the task or call that runs in it; None for what there is not."""
    return seat_here(), CURRENT_TASK.get()


def wait_as(seat: Seat | None, me: Waiter | None, target: Waiter, wait: Callable[[], Any]) -> Any:
    """Returns the result of ``wait``, which waits for the target. ``seat`` and ``me`` are those of ``waiter_here``: a
    thread with a seat gives its place away meanwhile. Raises WouldDeadlockError where the target waits for ``me``, and
    as ``Seat.enter_block``."""
    if me is None:
        return wait()
    outer = 0 if seat is None else seat.depth
    try:
        begin_wait(me, target)
        if seat is not None:
            seat.enter_block()
        return wait()
    finally:
        try:
            if seat is not None:
                seat.leave_block(outer)
        finally:
            end_wait(me)


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
    if seat is None or task is None:
        return
    seat.checkpoint()
    if task.cancel_requested:
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
