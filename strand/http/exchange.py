"""Requests that become tasks: their way into the scheduler, and the way of the replies back into the event loop.

Requests that the loop reads in one round become tasks at its end, and replies go to the loop together. So the threads
wake each other once for many requests: each wake-up costs as much as a request without a scheduler.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from strand.errors import QueueFull, StoppedError, WouldDeadlockError
from strand.http.requests import Request
from strand.tasks.future import TaskFuture, current_task
from strand.tasks.tasks import TaskExecutor
from strand.tasks.waits import blocking
from strand.threads import LoopCalls

#: Entry of a scope: the outlet of a reply that a thread may send in parts.
OUTLET: Final = "strand.outlet"
#: Most clients take a part of a reply within that time, and the place of a task is not given away for it.
_TAKEN_WITHIN_S: Final = 0.005
#: A request that waits for so long, or twice that, is watched: its client may go away. Most have their reply before.
_WATCHED_AFTER_S: Final = 0.01


class Gone(Exception):  # noqa: N818  # no error: nobody is left to be told
    """The client went away."""


class Late(Exception):  # noqa: N818  # likewise
    """The deadline is over."""


class Watch:
    """Calls ``when_gone`` when the client of a request goes away, once ``Watches`` has begun it."""

    __slots__ = ("_look", "_receive", "_when_gone", "is_gone")

    def __init__(self, receive: Receive, when_gone: Callable[[], object]) -> None:
        self.is_gone = False
        self._receive = receive
        self._when_gone: Callable[[], object] | None = when_gone
        self._look: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """True if the request is answered."""
        return self._when_gone is None

    def begin(self) -> None:
        """Begins to look, in the loop."""
        self._look = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._when_gone is not None:
            self.is_gone = True
            self._when_gone()

    def end(self) -> None:
        """The request is answered."""
        self._when_gone = None
        if self._look is not None:
            self._look.cancel()


class Watches:
    """Begins watches of a loop that are not over after a while. A timer for each would cost as much as a request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._new: list[Watch] = []
        self._old: list[Watch] = []

    def add(self, receive: Receive, when_gone: Callable[[], object]) -> Watch:
        """Makes a watch."""
        watch = Watch(receive, when_gone)
        if not self._new and not self._old:
            self._loop.call_later(_WATCHED_AFTER_S, self._begin_old)
        self._new.append(watch)
        return watch

    def _begin_old(self) -> None:
        for watch in self._old:
            if not watch.is_over:
                watch.begin()
        self._old, self._new = [watch for watch in self._new if not watch.is_over], []
        if self._old:
            self._loop.call_later(_WATCHED_AFTER_S, self._begin_old)


class Outlet(Response):
    """A reply that a thread sends in parts. Each part waits until the client takes it. ``receive``: where a client that
    goes away is noticed; None: somebody else looks there."""

    def __init__(self, send: Send, receive: Receive | None, watches: Watches) -> None:
        self.has_begun = self.is_whole = self._is_closed = False
        self._send = send
        self._receive = receive
        self._watches = watches
        self._watch: Watch | None = None
        self._loop = asyncio.get_running_loop()
        self._sent: Future[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """All of it has been sent."""

    async def send(self, message: Message) -> None:
        """Sends a part of another reply: no thread begins one any more. In the loop, as ``close``."""
        self._is_closed = True
        await self._send(message)

    def close(self) -> None:
        """Nobody takes further parts: the thread's task is cancelled. Does nothing to a reply that is whole."""
        if self.is_whole:
            return
        self._is_closed = True
        if self._watch is not None:
            self._watch.end()
        if self._sent is not None:
            self._sent.cancel()

    def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Sends status and headers, in the thread that makes the reply."""
        self._wait({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, part: bytes, *, is_last: bool = False) -> None:
        """Sends a part. A task gives its place to others while the client does not take it."""
        self.is_whole = is_last
        self._wait({"type": "http.response.body", "body": part, "more_body": not is_last})

    def _wait(self, message: Message) -> None:
        passing = self._pass_on(message)
        try:
            try:
                sent = self._sent = asyncio.run_coroutine_threadsafe(passing, self._loop)
            except RuntimeError:  # the loop is closed
                passing.close()
                raise Gone from None
            with suppress(TimeoutError):
                return sent.result(_TAKEN_WITHIN_S)
            with suppress(WouldDeadlockError, StoppedError), blocking():  # else the place waits, too
                return sent.result()
            return sent.result()
        except (CancelledError, Gone):
            task = current_task()
            if task is None:
                raise Gone from None
            task.cancel(running=True)
            raise CancelledError from None

    async def _pass_on(self, message: Message) -> None:
        if self._is_closed:
            raise Gone
        if not self.has_begun and self._receive is not None:
            self._watch = self._watches.add(self._receive, self.close)
        self.has_begun = True
        if self.is_whole and self._watch is not None:
            self._watch.end()
        await self._send(message)


class Exchange:
    """A request that becomes a task, which calls ``run`` with this object. ``reply``: the task when it has ended, or
    begun to wait where the route ``accepts``. It raises Late or Gone before, and what a submit raises."""

    __slots__ = (
        "_accepts",
        "_calls",
        "_note_dropped",
        "_timer",
        "_watch",
        "context",
        "reply",
        "request",
        "run",
        "task",
    )

    def __init__(
        self,
        run: Callable[[Exchange], Any],
        request: Request,
        receive: Receive,
        *,
        within_s: float | None,
        accepts: bool,
        note_dropped: Callable[[], object],
        batch: Batch,
    ) -> None:
        loop = batch.calls.loop
        self.run = run
        self.request = request
        self._accepts = accepts
        self._note_dropped = note_dropped
        self._calls = batch.calls
        self.context = copy_context()
        self.reply: asyncio.Future[TaskFuture] = loop.create_future()
        self.task: TaskFuture | None = None
        self._watch: Watch | None = None
        self._timer: asyncio.TimerHandle | None = None
        if not accepts:
            self._watch = batch.watches.add(receive, self._note_gone)
            if within_s is not None:
                self._timer = loop.call_later(within_s, self._give_up, Late())

    def _note_gone(self) -> None:
        self._give_up(Gone())

    def _give_up(self, reason: Gone | Late) -> None:
        outlet: Outlet | None = self.request.scope.get(OUTLET)
        if outlet is None or not (outlet.is_whole or (outlet.has_begun and isinstance(reason, Late))):
            self.fail(reason)

    def submitted(self, task: TaskFuture) -> None:
        """The request is a task now."""
        self.task = task
        if self._accepts:
            self._end()
        else:
            task.add_done_callback(self)

    def __call__(self, _: Any) -> None:
        """The task has ended; in a worker, most of the time."""
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            self._calls.add(self._end)

    def _end(self) -> None:
        task = self.task
        assert task is not None
        if self._timer is not None and self._timer.when() <= self._calls.loop.time():
            self._give_up(Late())  # a loop that was busy takes the reply before the timer
        if not self.reply.done():
            self.reply.set_result(task)
        elif task.attempts:
            self._note_dropped()

    def fail(self, reason: Exception) -> None:
        """Nobody waits for the task any more, or there is none."""
        if not self.reply.done():
            self.reply.set_exception(reason)

    def end(self) -> None:
        """The request is answered, or nobody waits for it any more: then its task need not go on."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.end()
        if self.task is None or self.task.done() or self._accepts:
            return
        if self.reply.cancelled() or not isinstance(self.reply.exception(), Late):
            self.task.cancel(running=True)  # one that is late expires by itself, or goes on


class Batch:
    """Requests that the event loop has read in one round, which become tasks at one go."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.calls = LoopCalls.of(loop)
        self.watches = Watches(loop)
        self._waiting: list[tuple[TaskExecutor, Exchange]] = []

    def add(self, executor: TaskExecutor, exchange: Exchange) -> None:
        """Makes a request a task at the end of this round."""
        if not self._waiting:
            self.calls.loop.call_soon(self._submit)
        self._waiting.append((executor, exchange))

    def _submit(self) -> None:
        waiting, self._waiting = self._waiting, []
        for executor, several in itertools.groupby(waiting, lambda each: each[0]):
            exchanges = [exchange for _, exchange in several if not exchange.reply.done()]
            if not self._submit_all(executor, exchanges):
                for exchange in exchanges:
                    self._submit_all(executor, [exchange])

    def _submit_all(self, executor: TaskExecutor, exchanges: list[Exchange]) -> bool:
        """False: there is no room for all of them."""
        try:
            tasks = executor.submit_many(_run, exchanges)
        except QueueFull as error:
            if len(exchanges) > 1:
                return False
            exchanges[0].fail(error)
        except Exception as error:
            for exchange in exchanges:
                exchange.fail(error)
        else:
            for exchange, task in zip(exchanges, tasks, strict=True):
                exchange.submitted(task)
        return True


def _run(exchange: Exchange) -> Any:
    return exchange.run(exchange)
