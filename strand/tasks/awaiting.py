"""Awaiting tasks and calls in asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from strand.tasks.current import CURRENT_TASK
from strand.tasks.waits import Waiter, begin_wait, end_wait

__all__ = ["InLoop", "awaited", "noted_wait"]


class InLoop:
    """A callback that asyncio adds as to a future of its own: it has to be called in the event loop's thread."""

    def __init__(self, fn: Callable[[Any], object]) -> None:
        self._fn = fn
        self._loop = asyncio.get_running_loop()

    def __call__(self, future: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._fn, future)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self._fn

    __hash__ = None  # type: ignore[assignment]


def awaited(future: Future[Any]) -> Generator[Any, None, Any]:
    """Awaits the future of a task or call, as ``asyncio.wrap_future`` does. Raises WouldDeadlockError where the future
    waits for the coroutine that awaits."""
    if future.done():
        return (yield from asyncio.wrap_future(future))
    with noted_wait(future):  # type: ignore[arg-type]  # it is a Waiter too
        return (yield from asyncio.wrap_future(future))


@contextmanager
def noted_wait(target: Waiter) -> Iterator[None]:
    """Notes, in the block, that a coroutine of a scheduler waits for another task or call, so that circles of waits are
    found. Raises WouldDeadlockError where this wait would close one. An asyncio task that such a coroutine has started
    is not looked at: the coroutine may not need it to end."""
    me = CURRENT_TASK.get()
    if me is None or me._runner is None or me._runner is not asyncio.current_task():
        yield
        return
    begin_wait(me, target)
    try:
        yield
    finally:
        end_wait(me)
