"""Tasks that are coroutines: a worker starts them, and one asyncio thread runs them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Final

from strand.binding.thread import Thread
from strand.tasks.current import CURRENT_TASK, RunningTask
from strand.tasks.future import TaskFuture
from strand.tasks.turns import Turn
from strand.tasks.waits import IN_LOOP

__all__ = ["Coroutines"]

#: Time for which the end waits for asyncio tasks that coroutines have started, and that have not ended.
_LEFT_S: Final = 1.0


class Coroutines:
    """The asyncio thread of a scheduler. It starts with the first coroutine, and ends with ``end``."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        #: Those that have not ended, and were not told that all end.
        self._tasks: set[TaskFuture] = set()
        self._running = 0
        #: Turns that are over.
        self._over: list[Turn] = []

    def run(
        self,
        task: TaskFuture,
        coroutine: Coroutine[Any, Any, Any],
        context: Context,
        hold: Callable[[], Turn],
        ended: Callable[[TaskFuture, Any, BaseException | None], None],
    ) -> None:
        """Runs a coroutine in the thread, in a context, and calls ``ended`` there with its value or with what it
        raised. ``hold``: called here, for the turn that is over after that. Raises RuntimeError where no thread can be
        started, and what ``hold`` raises."""

        def begin() -> None:
            if turn.charge is not None and loop.get_task_factory() is None:
                loop.set_task_factory(_charged_task)
            running = loop.create_task(_guarded(coroutine), context=context)
            running.add_done_callback(end)
            task._runner = running
            if task.cancel_requested:
                running.cancel()

        def end(running: asyncio.Task[Any]) -> None:
            with self._lock:
                self._tasks.discard(task)
                self._running -= 1
            task._runner = task._charge = None
            try:
                if running.cancelled():  # before its first step: later ones hand CancelledError over as a value
                    coroutine.close()
                    ended(task, None, asyncio.CancelledError())
                else:
                    ended(task, *running.result())
            finally:
                if not self._over:
                    loop.call_soon(self._let_go)
                self._over.append(turn)

        with self._lock:
            loop = self._loop = self._loop or self._started()
            turn = hold()
            task._charge = turn.charge
            self._tasks.add(task)
            self._running += 1
            loop.call_soon_threadsafe(begin)

    def _let_go(self) -> None:
        """Gives back the turns that are over, in the loop's thread. Each worker that this wakes wants the GIL, so they
        go together."""
        over, self._over = self._over, []
        for turn in over:
            turn.over()

    def cancel(self) -> None:
        """Raises CancelledError in all coroutines that have not ended, once in each."""
        with self._lock:
            tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel(running=True)

    def _started(self) -> asyncio.AbstractEventLoop:
        """A loop in a thread of its own. Raises RuntimeError where the system has no thread left."""
        loop = asyncio.new_event_loop()
        thread = Thread(_Loop(loop).run, "strand task coroutines")
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._thread = thread
        return loop

    def end(self) -> None:
        """Tells the thread to end. Does nothing where a coroutine was begun meanwhile, which calls this at its end."""
        with self._lock:
            if self._running:
                return
            loop, self._loop = self._loop, None
        if loop is not None:  # in a thread that no signal interrupts
            loop.call_soon_threadsafe(loop.stop)

    def join(self) -> None:
        """Waits for the thread's end, unless this is the thread."""
        if self._thread is not None:
            self._thread.join()


async def _guarded(coroutine: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Result and exception of a coroutine, as values: SystemExit and KeyboardInterrupt would end the loop's thread."""
    try:
        return await coroutine, None
    except BaseException as error:
        return None, error


class _Charged(Coroutine[Any, Any, Any]):
    """A coroutine whose steps the group of a task pays for, as long as the task has not ended."""

    __slots__ = ("_coroutine", "_task")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], task: RunningTask) -> None:
        self._coroutine = coroutine
        self._task = task

    def send(self, value: Any) -> Any:
        return self._step(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._coroutine.throw, *error)

    def close(self) -> None:
        self._step(self._coroutine.close)

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self._coroutine.__await__())

    def _step(self, go_on: Callable[..., Any], *arguments: Any) -> Any:
        begun = time.thread_time_ns()
        try:
            return go_on(*arguments)
        finally:
            charge = self._task._charge
            if charge is not None:
                charge(time.thread_time_ns() - begun)


def _charged_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Makes an asyncio task. One that belongs to a strand task, as its context says, is charged."""
    context = options.get("context")
    task = CURRENT_TASK.get() if context is None else context.get(CURRENT_TASK)
    steps = coroutine if task is None or task._charge is None else _Charged(coroutine, task)
    return asyncio.Task(steps, loop=loop, **options)


class _Loop:
    """The life of the asyncio thread. An exception of another thread may end ``run`` anywhere, and then it is called
    again."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_stopped = False

    def run(self) -> None:
        IN_LOOP.here = True
        loop = self._loop
        if loop.is_closed():
            return
        if not self._is_stopped:
            loop.run_forever()
            self._is_stopped = True
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_LEFT_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
