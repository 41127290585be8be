"""Tasks that belong together: waited for, cancelled and charged as one."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from strand.binding.engine import Engine, GroupCounts
from strand.brief import one_line
from strand.errors import ConfigurationError, QueueFull, StoppedError
from strand.options import named_options
from strand.policies.policy import Groups
from strand.tasks.waits import CURRENT_TASK, Waiter, begin_wait, end_wait
from strand.threads import Bell, LoopCalls, interrupts_later, mended


class InLoop:
    """A callback that asyncio adds as to a future of its own: it has to be called in the event loop's thread."""

    __slots__ = ("_calls", "_fn")

    def __init__(self, fn: Callable[[Any], object]) -> None:
        self._fn = fn
        self._calls = LoopCalls.of(asyncio.get_running_loop())

    def __call__(self, future: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self._calls.add(partial(self._fn, future))

    def __eq__(self, other: object) -> bool:
        return other is self or other == self._fn

    __hash__ = None  # type: ignore[assignment]


def waiter_in_loop() -> Waiter | None:
    """The coroutine of a scheduler that runs here. None in an asyncio task that such a coroutine has started: the
    coroutine may not need that to end."""
    me = CURRENT_TASK.get()
    return None if me is None or me._runner is None or me._runner is not asyncio.current_task() else me


@contextmanager
def noted_wait(target: Waiter) -> Iterator[None]:
    """Notes, in the block, that a coroutine of a scheduler waits for another task or call, so that circles of waits are
    found. Raises WouldDeadlockError where this wait would close one."""
    me = waiter_in_loop()
    if me is None:
        yield
        return
    begin_wait(me, target)
    try:
        yield
    finally:
        end_wait(me)


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

    @named_options("TaskGroup()")
    def __init__(self, name: str | None = None) -> None:
        if name is not None and (not isinstance(name, str) or not name):
            raise ConfigurationError("name", f"{name!r} is not the name of a group: give text")
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
        self._end(error)

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
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        """Closes the accounts, and raises the exceptions of the block and its tasks as one group. ``error``: the
        block's."""
        for accounts in list(self.accounts or ()):
            accounts.close(self)
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


#: Tasks that are in no group; groups without a name; and groups that have ended, whose names are no longer kept.
IN_NO_GROUP: Final = "(tasks)"
UNNAMED: Final = "(unnamed)"
ENDED: Final = "(ended)"
#: Names that are kept of groups that have ended.
_MOST_NAMES: Final = 1000
#: From so many accounts on, one of a group that has ended is used again before its debt is past.
_MANY: Final = 4096
_AT_ONCE: Final = 64


class _Row:
    """Counts of the groups of one name that have ended, and the number of the other groups of that name."""

    __slots__ = ("counts", "live", "waits")

    def __init__(self) -> None:
        self.live = 0
        self.counts = (0, 0, 0, 0)
        self.waits: Counter[int] = Counter()

    def add(self, counts: tuple[int, int, int, int], waits: Counter[int]) -> None:
        self.counts = _sum(self.counts, counts)
        self.waits.update(waits)


def _sum(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """On-CPU time, ends of slices, long stretches, and the longest of these."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], max(a[3], b[3])


class GroupAccounts:
    """An account for each ``TaskGroup`` that has tasks here, by a number that is the priority of its tasks.

    A group that the policy or the symbols name before the start (``weights``, ``groups``) is one account, for all
    ``TaskGroup`` of its name; ``groups`` has these. Any other ``TaskGroup`` has an account of its own, until its block
    was left, or nobody refers to it any more. Its number is used again when its tasks are over and its debt is past:
    from then on a new group starts where it would.
    """

    def __init__(self, engine: Engine, groups: Groups) -> None:
        self._engine = engine
        self._numbers = {name: number for number, name in enumerate(groups.names())}
        self._next = len(self._numbers)
        self._rows: dict[str, _Row] = {}
        #: Rows without a group that lives, by when the last one ended.
        self._past: OrderedDict[str, _Row] = OrderedDict()
        self._names: dict[int, str] = {}
        self._refs: dict[int, weakref.ref[TaskGroup]] = {}
        #: Groups that have ended. The garbage collector adds to it, perhaps while the lock is held.
        self._ending: deque[tuple[int, weakref.ref[TaskGroup]]] = deque()
        self._free: list[int] = []
        self._lock = threading.RLock()
        #: The waits of a number's tasks so far, by bucket, which are then forgotten; ``Counts`` sets it.
        self.take_waits: Callable[[int], Counter[int]] = lambda _: Counter()
        if IN_NO_GROUP not in self._numbers:
            self._numbers[IN_NO_GROUP] = self._unused()

    def number_of(self, group: TaskGroup | None) -> int:
        """The account of a group, or of tasks in none. Raises QueueFull where too many groups live."""
        if group is None:
            return self._numbers[IN_NO_GROUP]
        found = None if group.accounts is None else group.accounts.get(self)
        return self._open(group) if found is None else found

    def number_named(self, name: str) -> int:
        """The account of a group that was named before the start. Raises ConfigurationError where there is none."""
        found = self._numbers.get(name)
        if found is None:
            reason = f"{name!r} was not named when the program began: give it a weight then, as {{{name!r}: 1}}"
            raise ConfigurationError(f"weights.{name}", reason)
        return found

    def _open(self, group: TaskGroup) -> int:
        with self._lock:
            if group.accounts is None:
                group.accounts = weakref.WeakKeyDictionary()
            found = group.accounts.get(self)
            if found is not None:
                return found
            number = None if group.name is None else self._numbers.get(group.name)
            if number is None:
                number = self._unused()
                name = group.name or UNNAMED
                self._past.pop(name, None)
                self._rows.setdefault(name, _Row()).live += 1
                self._names[number] = name
                self._refs[number] = weakref.ref(group, partial(self._ended, number))
            group.accounts[self] = number
            return number

    def _ended(self, number: int, ref: weakref.ref[TaskGroup]) -> None:
        self._ending.append((number, ref))

    def close(self, group: TaskGroup) -> None:
        """A group takes no more tasks, and none of its tasks is left."""
        number = None if group.accounts is None else group.accounts.get(self)
        ref = None if number is None else self._refs.get(number)
        if number is not None and ref is not None:
            self._ended(number, ref)

    def _unused(self) -> int:
        if not self._free:
            self._collect(everything=self._next >= _MANY)
        if self._free:
            return self._free.pop()
        if self._next >= self._engine.schedule.max_groups:
            raise QueueFull(f"group: {self._next:,} groups have tasks, and there is no room for another one")
        self._next += 1
        return self._next - 1

    def _collect(self, *, everything: bool) -> None:
        """Takes accounts back. ``everything``: those too that have a debt. The lock is held."""
        with interrupts_later():  # the engine tells of each once
            self._take_back(everything=everything)

    def _take_back(self, *, everything: bool) -> None:
        while self._ending:
            number, ref = self._ending.popleft()
            if self._refs.get(number) is ref:
                del self._refs[number]
                self._engine.schedule.close_group(number)
        while True:
            returned = self._engine.schedule.returned_groups(_AT_ONCE, everything=everything)
            for number, counts in returned:
                name = self._names.pop(number)
                row = self._rows[name]
                row.add(counts, self.take_waits(number))
                row.live -= 1
                if not row.live and name != UNNAMED:
                    self._past[name] = row
                self._free.append(number)
            while len(self._past) > _MOST_NAMES:
                name, row = self._past.popitem(last=False)
                del self._rows[name]
                self._rows.setdefault(ENDED, _Row()).add(row.counts, row.waits)
            if len(returned) < _AT_ONCE:
                return

    def counted(self) -> tuple[GroupCounts | None, dict[str, tuple[int, int, int, int]]]:
        """Counters of the policy, and their sums over all groups of each name."""
        with self._lock:
            self._collect(everything=False)
            counts = self._engine.schedule.group_counts(self._next)
            found = dict.fromkeys(self._numbers, (0, 0, 0, 0)) | {name: row.counts for name, row in self._rows.items()}
            if counts is not None:
                for name, number in self._numbers.items():
                    found[name] = counts.groups[number]
                for number, name in self._names.items():
                    found[name] = _sum(found[name], counts.groups[number])
            return counts, found

    def waits(self, by_number: dict[int, Counter[int]]) -> dict[str, Counter[int]]:
        """Waits by the name of the group, from those by number."""
        with self._lock:
            found: dict[str, Counter[int]] = {name: Counter() for name in self._numbers}
            found |= {name: Counter(row.waits) for name, row in self._rows.items()}
            names: dict[int, str] = self._names | {number: name for name, number in self._numbers.items()}
            for number, waits in by_number.items():
                if number in names:
                    found[names[number]].update(waits)
            return found
