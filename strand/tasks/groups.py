"""Tasks that belong together: waited for, cancelled and charged as one."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Self

from strand.brief import one_line
from strand.errors import ConfigurationError, StoppedError
from strand.tasks.awaiting import noted_wait
from strand.threads import Bell, mended

__all__ = ["CURRENT_GROUP", "TaskGroup"]

#: The group that what runs here is in.
CURRENT_GROUP: Final[ContextVar[TaskGroup | None]] = ContextVar("strand_group", default=None)


#: Exceptions that a block raises unwrapped, after its tasks have ended: they end more than the block.
_COMES_OUT: Final = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)


class TaskGroup:
    """Tasks that belong together: ``with TaskGroup() as group:`` waits for all of them on leaving.

    ``async with`` does so in asyncio, and in coroutines of a scheduler, where ``with`` would stop all others. A group
    can be used for one block.

    A task belongs to the group if it is submitted within the block, by a task of the group, or with ``group=``. Tasks
    that are spawned while the block waits belong to it too. A block within another one is a group of its own.

    If a task fails, is dropped, or becomes a dead letter, the tasks of the group that have not begun are cancelled.
    Those that run are asked to end (``cancel(running=True)``). Leaving the block then raises an ExceptionGroup of the
    errors. If the block itself raises, all is cancelled likewise, and its error is one of the group. But
    KeyboardInterrupt, SystemExit, GeneratorExit and asyncio's CancelledError of the block come out as they are. Tasks
    that were cancelled or have expired raise nothing there: their futures say so. Leaving raises WouldDeadlockError if
    a task of the group waits for the task that leaves.

    Args:
        name: The name that a policy that shares time by groups knows the group by; None: no name.

    Raises:
        ConfigurationError: If the name is empty or no text.
    """

    def __init__(self, name: str | None = None) -> None:
        if name is not None and (not isinstance(name, str) or not name):
            raise ConfigurationError(f"name: {name!r} is not the name of a group: give text")
        self.name = name
        #: By the schedulers' accounts, the number of the group's own one; None: it has none yet.
        self.accounts: weakref.WeakKeyDictionary[Any, int] | None = None
        # Reentrant: the garbage collector may run a __del__ that submits while the lock is held.
        self._lock = Bell()
        self._members: dict[int, Future[Any]] = {}
        self._errors: list[BaseException] = []
        self._token: Token[TaskGroup | None] | None = None
        self._refusal: str | None = None
        self._entered = False
        #: A task that the block waits for in asyncio, and what is called when it has left the group.
        self._left: tuple[Future[Any], Callable[[], object]] | None = None

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return one_line(f"<TaskGroup{name}, {len(self._members):,} tasks>")

    def __len__(self) -> int:
        """The number of its tasks that have not ended."""
        return len(self._members)

    def add(self, future: Future[Any]) -> None:
        """Adds a task.

        Args:
            future: The task.

        Raises:
            StoppedError: If the group was cancelled or its block was left.
        """
        with self._lock:
            if self._refusal is not None:
                raise StoppedError(f"the task group {self._refusal}: it takes no more tasks")
            self._members[id(future)] = future

    def remove(self, future: Future[Any], error: BaseException | None) -> None:
        """Removes a task that has ended, or is in another group now.

        Args:
            future: The task.
            error: The error that makes the whole group fail; None: no error.
        """
        with self._lock:
            if error is not None and id(future) in self._members and not any(error is known for known in self._errors):
                self._errors.append(error)
            self._members.pop(id(future), None)
            left = self._left if self._left is not None and self._left[0] is future else None
        self._lock.ring()
        if left is not None:
            left[1]()
        if error is not None and any(error is known for known in self._errors):
            self.cancel()

    def cancel(self) -> None:
        """Cancels the tasks that have not begun, asks those that run to end, and takes no more.

        Leaving the block raises nothing for that.
        """
        mended(self._cancel, self._cancel)

    def _cancel(self) -> None:
        with self._lock:
            self._refusal = self._refusal or "was cancelled"
            members = list(self._members.values())
        for member in members:
            member.cancel(running=True)  # type: ignore[call-arg]  # a TaskFuture

    def __enter__(self) -> Self:
        with self._lock:
            if self._entered:
                raise StoppedError("the task group was already used in a with block: make another one")
            self._entered = True
        outer = CURRENT_GROUP.get()
        try:
            self._token = CURRENT_GROUP.set(self)
            return self
        except BaseException:
            CURRENT_GROUP.set(outer)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:  # here, and in no function that an interrupt could keep from it
            CURRENT_GROUP.reset(self._token)
            self._token = None
        try:
            if error is not None:
                self.cancel()
            self._wait()
        except BaseException:
            self.cancel()
            raise
        self._close_accounts()
        self._raise(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            CURRENT_GROUP.reset(self._token)
            self._token = None
        try:
            if error is not None:
                self.cancel()
            await self._wait_in_loop()
        except BaseException:
            self.cancel()
            raise
        self._close_accounts()
        self._raise(error)

    def _close_accounts(self) -> None:
        for accounts in list(self.accounts or ()):
            accounts.close(self)

    def _raise(self, error: BaseException | None) -> None:
        """Raises the exceptions of the block and its tasks as one group. ``error``: the block's."""
        if isinstance(error, _COMES_OUT):
            return
        errors = self._errors if error is None else [error, *self._errors]
        if errors:
            self._errors = []
            try:
                raise BaseExceptionGroup("tasks of a group failed", errors)
            finally:
                del errors, error  # which hold this frame

    def _member(self) -> Future[Any] | None:
        """A member that has not ended. None: all have, and the group takes no more. The caller holds the lock."""
        member = next(iter(self._members.values()), None)
        if member is None:
            self._refusal = self._refusal or "has ended"
        return member

    def _wait(self) -> None:
        while True:
            with self._lock:
                member = self._member()
            if member is None:
                return
            member.wait_for_end()  # type: ignore[attr-defined]  # a TaskFuture
            # The thread that ended it takes it out next.
            self._lock.wait_for(lambda member=member: id(member) not in self._members)  # type: ignore[misc]

    async def _wait_in_loop(self) -> None:
        loop, left = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(left.set)

        while True:
            left.clear()
            with self._lock:
                member = self._member()
                if member is None:
                    return
                self._left = member, tell
            try:
                with noted_wait(member):  # type: ignore[arg-type]  # a TaskFuture
                    await left.wait()
            finally:
                self._left = None
