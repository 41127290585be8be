"""Tasks that are coroutines: a worker starts them, and one asyncio thread runs them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

from strand.tasks.future import TaskFuture
from strand.tasks.waits import IN_LOOP
from strand.threads import join

__all__ = ["Coroutines"]


class Coroutines:
    """The asyncio thread of a scheduler. It starts with the first coroutine, and ends with ``end``."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(
        self,
        task: TaskFuture,
        coroutine: Coroutine[Any, Any, Any],
        ended: Callable[[TaskFuture, Any, BaseException | None], None],
    ) -> None:
        """Runs a coroutine in the thread, in a copy of the caller's context, and calls ``ended`` there with its value
        or with what it raised. Raises RuntimeError where no thread can be started."""
        context = copy_context()

        def begin() -> None:
            running = loop.create_task(_guarded(coroutine), context=context)
            running.add_done_callback(end)
            task._interrupt = lambda: loop.call_soon_threadsafe(running.cancel)
            if task.cancel_requested:
                running.cancel()

        def end(running: asyncio.Task[Any]) -> None:
            task._interrupt = None
            if running.cancelled():  # before its first step: later ones hand CancelledError over as a value
                coroutine.close()
                ended(task, None, asyncio.CancelledError())
            else:
                ended(task, *running.result())

        with self._lock:
            try:
                loop = self._loop = self._loop or self._started()
            except BaseException:
                coroutine.close()
                raise
        loop.call_soon_threadsafe(begin)

    def _started(self) -> asyncio.AbstractEventLoop:
        """A loop in a thread of its own. Raises RuntimeError where the system has no thread left."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_run_loop, args=(loop,), name="strand task coroutines", daemon=True)
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._thread = thread
        return loop

    def end(self) -> None:
        """Tells the thread to end. No coroutine runs any more."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def join(self) -> None:
        """Waits for the thread's end, unless this is the thread."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            join(thread)


async def _guarded(coroutine: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """What came out of it, as a value: SystemExit and KeyboardInterrupt would end the loop's thread."""
    try:
        return await coroutine, None
    except BaseException as error:
        return None, error


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    IN_LOOP.here = True
    try:
        loop.run_forever()
    finally:
        loop.close()
