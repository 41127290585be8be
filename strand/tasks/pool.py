"""Tasks that wait: the table of a scheduler's tasks, the engine's lists of those that may run, the orders of keys."""

from __future__ import annotations

import os
import time
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.gate import NOT_STARTED
from strand.binding.tasks import OWN_LEVEL, USUAL_PRIORITY
from strand.brief import one_line, several
from strand.errors import QueueFull, StoppedError
from strand.fixed import dataclass
from strand.handlers.native_handlers import NativeFunctions
from strand.policies.policy import LEVELS, Fair, Levels, Policy
from strand.tasks.future import TaskFuture
from strand.tasks.options import Ranks, TaskOptions
from strand.tasks.places import Turn, seat_here
from strand.threads import Bell, Inside

#: Parts of ``queued`` other than that of tasks that wait for a time.
_PARTS = {"waiting": 0, "retrying": 2}
_FORKED = "this process is a fork of the one that runs the scheduler: make a scheduler of its own here"
#: All of this process, which a fork's child has to stop.
_all: weakref.WeakSet[Table] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on the number of waiting tasks; 0: any number. ``queue``: tasks that could start now or wait for a turn.
    ``by_level``: those of them at each level. ``held``: tasks that are delayed or held."""

    queue: int = 0
    by_level: Mapping[str, int] = field(default_factory=dict)
    held: int = 0

    def __bool__(self) -> bool:
        return bool(self.queue or self.by_level or self.held)


class Table:
    """``lock`` guards the orders of keys, and changes of tasks that wait: priority, timer, group. It is reentrant, as
    the garbage collector may run a ``__del__`` that submits or cancels while it is held."""

    def __init__(self, ranks: Ranks, bounds: Bounds) -> None:
        self._ranks = ranks
        self._bounds = bounds
        self._n = ranks.n_places
        self.alive: dict[int, TaskFuture] = {}
        #: The tags of tasks that wait, by place: what their priority is counted by. First come places of those that
        #: could start now or wait for a turn, then of those that are delayed or held, then of those that wait for a
        #: retry. One is taken out by a single step, twice if need be.
        self.queued: list[set[int]] = [set() for _ in range(3 * self._n)]
        #: Threads that submit tasks in C, which are not in ``alive``. The end waits for them, so that what they submit
        #: is run. They enter before they look at ``refusal``.
        self.submitting = Inside()
        #: Why nothing can be submitted; None: it can.
        self.refusal: str | None = None
        self.is_fork = False
        #: True if tasks that do not run are to be cancelled.
        self.cancels_all = False
        self.lock = Bell()
        self._when_over: Callable[[], None] | None = None
        _all.add(self)

    def take_lock(self) -> None:
        """Takes ``lock``, for what each task with a key goes through. A thread that sleeps in the lock would have it
        before it has the GIL; whoever has the GIL would soon sleep in the lock in turn, and so on: two switches of
        threads for each task. So it never sleeps there, but lets the one that has the lock have the GIL.

        The loop ends by the iterator in C that has taken the lock, so no interrupt comes between that and the return.
        """
        for _ in iter(partial(self.lock.acquire, False), True):
            time.sleep(0)

    @property
    def stage(self) -> str:
        """Stage of the scheduler, in a word or two, and the number of Python tasks that have not ended."""
        words = {None: "running", NOT_STARTED: "not started"}.get(self.refusal, "stopped")
        return f"{words}, {several(len(self.alive), 'task')} pending"

    def take_room(self, tasks: Collection[TaskFuture], options: TaskOptions) -> None:
        """Queues tasks that will wait, all or none. Raises QueueFull."""
        place, n = options.counted_at, len(tasks)
        queued = self.queued[place]
        with self.lock:
            if self._bounds and place >= self._n:
                timed = self.queued[self._n : 2 * self._n]
                self._check_room("max_held", self._bounds.held, timed, n, "are delayed or held")
            elif self._bounds:
                self._check_room("max_queue", self._bounds.queue, self.queued[: self._n], n, "wait")
                level = self._ranks.names[place] if self._bounds.by_level else ""
                bound = self._bounds.by_level.get(level, 0)
                self._check_room("max_queue_by_level", bound, [queued], n, f"of level {level!r} wait")
            queued.update([task.id for task in tasks])
        for task in tasks:
            if task._is_claimed:  # meanwhile, by a shutdown
                queued.discard(task.id)

    @staticmethod
    def _check_room(name: str, bound: int, queued: Collection[set[int]], n: int, what: str) -> None:
        there = sum(map(len, queued))
        if bound and there + n > bound:
            raise QueueFull(
                f"{name}: {there:,} of {bound:,} tasks {what}, and {n:,} more were submitted: submit later, or fewer "
                "at once",
                np.arange(n),
            )

    def unqueue(self, task: TaskFuture) -> None:
        """Takes a claimed task off the queue. Repeated calls do no harm."""
        self.queued[task._queued_at].discard(task.id)

    def requeue(self, task: TaskFuture) -> None:
        """A task waits elsewhere now, or once more, which no bound refuses. ``lock`` is held. It can be repeated."""
        after = self._ranks.place_of(task._number) + _PARTS.get(task._place, 1) * self._n
        self.queued[after].add(task.id)
        task._queued_at = after
        # All others: an interrupt may have left the task at one that nothing else knows of.
        for place, queued in enumerate(self.queued):
            if place != after or task._is_claimed:  # claimed meanwhile, by one that looked at the place before
                queued.discard(task.id)

    def waiting(self) -> list[int]:
        """Number of tasks that wait, by the index of their priority."""
        return [sum(map(len, self.queued[at :: self._n])) for at in range(self._n)]

    def submit_is_over(self) -> None:
        """Notes that a thread among ``submitting`` is done."""
        if self.refusal is not None:
            self.look()

    def is_idle(self) -> bool:
        """True if no task is left, as far as this table knows."""
        return not self.alive and not self.submitting.threads

    def remove(self, task: TaskFuture) -> None:
        """A task has ended: this is the last step of its end."""
        self.alive.pop(task.id, None)
        if self.refusal is not None:
            self.look()

    def refuse(self, reason: str, when_over: Callable[[], None]) -> None:
        """Refuses further tasks. ``when_over``: called when no task is left, here or where the last one ends, and
        perhaps more than once."""
        self.refusal = self.refusal or reason
        self._when_over = when_over
        self.look()

    def look(self) -> None:
        """Tells those that wait for the end, where no task is left; called after each end once ``refusal`` is set."""
        self.lock.ring()
        when_over = self._when_over
        if when_over is not None and self.is_idle():
            when_over()

    def wait_until_idle(self, wait_s: float | None) -> bool:
        """Waits so many seconds at most, None: without a limit; whether no task is left."""
        return self.lock.wait_for(self.is_idle, wait_s)


def _stop_in_child() -> None:
    for table in list(_all):
        table.is_fork = True
        table.refusal = _FORKED


os.register_at_fork(after_in_child=_stop_in_child)


class NativeTask:
    """A C function ``void f(sd_task_context *ctx, void *argument, int why)`` of ``sd_task.h``, for ``submit_native``.

    Args:
        source: The path of a shared object, or the function itself. The function is given as its address, or as a
            pointer to it of ctypes, cffi or numba's ``cfunc``. The scheduler that it is given to keeps it alive.
        symbol: The function's name in the shared object.

    Raises:
        ConfigurationError: If the object or the function cannot be found, or was built for another layout.
    """

    def __init__(self, source: str | Path | int | Any, symbol: str | None = None) -> None:
        self._functions = NativeFunctions(source)
        self.address = self._functions.main(symbol)
        self.name = symbol or hex(self.address)

    def __repr__(self) -> str:
        return one_line(f"<NativeTask {self.name}>")


#: Time for which a visit goes on to a key's next task, as a strand's visit does to its next ticks.
_VISIT_NS: Final = 1_000_000


class Pool:
    """Lists tasks by priority in an engine, whose workers call ``Tasks.run(tag)`` once for each of them.

    A tag is a whole number above 0 that names a task. A priority is a number of the policy (``Ranks.number_of``). No
    method calls ``run`` itself. Each may be called from any thread, also from within ``run``, and raises StoppedError
    once the engine has stopped. Tasks hold a lock while they call the pool, which holds none of its own.
    """

    def __init__(self, engine: Engine, policy: Policy) -> None:
        self._engine = engine
        self.n_workers = engine.n_workers
        self._tasks = engine.tasks
        self._submit = engine.tasks.submit_one
        #: Lets go of a listed task that has ended: ``run`` need not be called for it.
        self.give_up = engine.tasks.give_up
        #: Returns the numbers of listed tasks, by level, that have risen to it, less its own that have risen from it.
        self.risen = engine.tasks.risen
        #: For other timeouts of levels, and weights of groups.
        self.schedule = engine.schedule
        #: The priorities of the engine, by those of tasks that stand in their own; None: they are the same. Under a
        #: policy without priorities all are the usual one.
        self._codes: tuple[int, ...] | defaultdict[int, int] | None = None
        self._has_priorities = policy.usual_priority is not None or isinstance(policy, Fair)
        self._has_levels = isinstance(policy, Levels)
        if self._has_levels:
            self._codes = tuple(self._code(level, level) for level in range(len(LEVELS)))
        elif not self._has_priorities:
            self._codes = defaultdict(lambda: USUAL_PRIORITY)
        self._charges = isinstance(policy, Fair)
        #: Tasks in C that workers may call, by their addresses, for as long as there is an engine.
        self._native: dict[int, NativeTask] = {}

    def _code(self, priority: int, own: int) -> int:
        if self._has_levels:
            return priority | own + 1 << OWN_LEVEL
        return priority if self._codes is None else self._codes[priority]

    def submit(self, tag: int, priority: int) -> int:
        """Lists a task. Returns its entry, by which it is known until ``run`` is called. No other task that is listed
        later has the same entry, so an old one names nothing."""
        codes = self._codes
        return self._submit(tag, priority if codes is None else codes[priority], 0) or self._refuse(1)

    def submit_as(self, tag: int, priority: int, own: int, marks: int) -> int:
        """``submit`` for a task whose own priority may be another one, as the head of an order has the highest of its
        order; and that the guard may hold back by its marks, a set of bits."""
        return self._submit(tag, self._code(priority, own), marks) or self._refuse(1)

    def submit_many(self, tags: Sequence[int], priority: int) -> Sequence[int]:
        """Lists tasks in their order, all or none. Returns their entries."""
        handles = self._tasks.submit_all(tags, self._code(priority, priority))
        if len(handles) == len(tags):
            return handles
        for handle in handles:
            self._tasks.give_up(handle)
        self._refuse(len(tags))
        return handles

    def submit_on(self, strand: int, tag: int) -> int:
        """Queues a task on a symbol's strand, behind the ticks that are there. Returns its entry, for ``give_up``."""
        entry = self._tasks.enqueue(strand, tag)
        return self._refuse(1) if entry is None else entry

    def may_go_on(self, elapsed_ns: int) -> bool:
        """Tells ``Tasks.run``, in its thread, whether it may run another task with the same priority before it returns,
        ``elapsed_ns`` after it began."""
        seat = seat_here()
        return seat is not None and elapsed_ns < _VISIT_NS and seat.may_go_on()

    def hold(self) -> Turn:
        """Lets the task go on elsewhere; called by ``Tasks.run``, in its thread. The task's turn lasts until ``over``
        is called. The thread may run other tasks when ``run`` has returned."""
        seat = seat_here()
        assert seat is not None
        turn = seat.hold()
        if self._charges:
            turn.charge = partial(self._tasks.charge, turn.entry)
        return turn

    def submit_native(
        self, task: NativeTask, items: npt.NDArray[Any], *, key: int, priority: int, marks: int, within_ns: int
    ) -> int:
        """See ``Tasks.submit_native``: lists a task for each item."""
        self._native[task.address] = task
        number = priority if self._has_priorities else USUAL_PRIORITY
        done = self._tasks.submit_native(
            task.address, items, key=key, priority=number, marks=marks, within_ns=within_ns
        )
        return done if done == len(items) else self._refuse(len(items), done)

    def prioritise(self, entry: int, priority: int, own: int) -> None:
        """Gives a task that waits another priority. Does nothing where it has begun, or the entry is old."""
        if self._has_priorities:
            self._tasks.prioritise(entry, self._code(priority, own))

    def rose(self, entry: int) -> int | None:
        """The level to which a listed task has risen by its wait; None: it has not, or is not listed any more."""
        level = self._tasks.rose(entry) if self._has_levels else 0
        return level - 1 if level else None

    def _refuse(self, n: int, done: int = 0) -> int:
        """``done``: how many of n were taken all the same, the first ones."""
        if self._engine.stopping:
            raise StoppedError("the workers have stopped: no task can be submitted")
        left = np.arange(done, n)
        tasks = "task" if len(left) == 1 else "tasks"
        raise QueueFull(f"there is no room for {len(left):,} more {tasks} beside those that wait", left)


class _Order:
    """The tasks of one key. ``head``: the task that may run, which keeps its place while it waits for a retry; None:
    the order is over."""

    __slots__ = ("head", "numbers", "rest")

    def __init__(self, head: TaskFuture) -> None:
        self.head: TaskFuture | None = head
        self.rest: OrderedDict[int, TaskFuture] = OrderedDict()
        #: Number of tasks of each priority, with the head.
        self.numbers = {head._number: 1}


class Keys:
    """All orders. A key is here while it has a task.

    Only the head of an order is in the pool, and with the highest priority of its order: else a low task at the head
    would hold up a high one behind it. ``give`` puts a task into the pool with a priority, ``raise_`` changes that of
    the one that is there. One lock is held around every method, and so around both.

    An interrupt may end any method. So each changes its order in one go, by lines that call nothing, and asks for all
    that they need before. A task holds its order, and the hash of a key is asked for only to find the order and to
    take it out: a key whose hash changes holds nothing up.
    """

    def __init__(
        self,
        give: Callable[[TaskFuture, int], None],
        raise_: Callable[[TaskFuture, int], None],
        highest: Callable[[int, Collection[int]], int],
    ) -> None:
        self._give = give
        self._raise = raise_
        self._highest = highest
        self._orders: dict[Hashable, _Order] = {}

    def __len__(self) -> int:
        """The number of keys that have a task."""
        return len(self._orders)

    def join(self, task: TaskFuture) -> None:
        """A task comes last in its key's order, and into the pool where it is alone. Raises what the key's hash and
        comparison raise."""
        key = task._options.key
        order: _Order | None = self._orders.get(key)
        number = task._number
        if order is None or order.head is None:
            task._order = order = _Order(task)
            self._orders[key] = order
            self._give(task, number)
            return
        known = order.numbers.get(number, 0)
        before = 0 if known else self._highest(order.head._number, order.numbers)
        # -- in one go
        order.rest[task.id] = task
        order.numbers[number] = known + 1
        task._order = order
        # --
        if not known:
            self._raise_head(order, before)

    def leave(self, task: TaskFuture) -> TaskFuture | None:
        """Ends a task's place in its order. Returns the new head, if there is another one. The caller gives that
        head to the pool, and then clears ``_following`` of the task. Until then ``leave`` returns the same head each
        time."""
        order: _Order | None = task._order
        if order is None:
            return task._following
        head, numbers, number = order.head, order.numbers, task._number
        left = numbers[number] - 1
        if head is task and not order.rest:
            try:
                if self._orders.get(task._options.key) is order:
                    del self._orders[task._options.key]
            except Exception:  # of the key's hash: the order stays, and ``join`` takes no notice of it
                pass
            # -- in one go
            order.head = None
            task._order = None
            return None
        following = next(iter(order.rest.values()))
        before = 0 if head is None or head is task else self._highest(head._number, numbers)
        # -- in one go
        if left:
            numbers[number] = left
        else:
            del numbers[number]
        if head is task:
            del order.rest[following.id]
            order.head = task._following = following
        else:
            del order.rest[task.id]
        task._order = None
        # --
        if head is not task:
            self._raise_head(order, before)
        return task._following

    def next_alike(self, task: TaskFuture) -> TaskFuture | None:
        """Task behind the head of an order, if all tasks of the order have one priority and the guard treats them
        alike."""
        order: _Order | None = task._order
        if order is None or order.head is not task or not order.rest or len(order.numbers) > 1:
            return None
        following = next(iter(order.rest.values()))
        return None if following._options.marks else following

    def give(self, task: TaskFuture) -> None:
        """Puts the head of an order into the pool, with the priority of the whole order."""
        self._give(task, self._highest(task._number, task._order.numbers))

    def change(self, task: TaskFuture, number: int) -> None:
        """Gives a task of an order another priority, and so perhaps its head."""
        order: _Order = task._order
        assert order.head is not None
        before = self._highest(order.head._number, order.numbers)
        old, numbers = task._number, order.numbers
        left = numbers[old] - 1
        known = numbers.get(number, 0)
        # -- in one go
        if number != old:
            if left:
                numbers[old] = left
            else:
                del numbers[old]
            numbers[number] = known + 1
            task._number = number
        # --
        if order.head is task:  # the pool counts it by its own priority
            self._raise(task, self._highest(number, numbers))
        else:
            self._raise_head(order, before)

    def raise_head_of(self, task: TaskFuture) -> None:
        """Tells the pool which priority the head of a task's order has."""
        order: _Order | None = task._order
        if order is not None and order.head is not None:
            self._raise(order.head, self._highest(order.head._number, order.numbers))

    def head_of(self, task: TaskFuture) -> TaskFuture | None:
        """The task of a task's key that may run."""
        order: _Order | None = task._order
        if order is None:
            order = self._orders.get(task._options.key)
        return None if order is None else order.head

    def _raise_head(self, order: _Order, before: int) -> None:
        head = order.head
        assert head is not None
        now = self._highest(head._number, order.numbers)
        if now != before:
            self._raise(head, now)
