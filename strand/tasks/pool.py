"""Pool of threads, as tasks need it, and the orders of keys: only the first task of a key is in the pool."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Protocol

from strand.tasks.future import TaskFuture
from strand.tasks.places import Turn

__all__ = ["Keys", "Pool"]


class Pool(Protocol):
    """Lists tasks by priority, and calls ``Tasks.run(tag)`` once for each of them in one of its threads.

    A tag is a whole number above 0 that names a task. A priority is a number of the policy (``Ranks.number_of``). No
    method calls ``run`` itself. Each may be called from any thread, also from within ``run``, and raises StoppedError
    once the pool has stopped. Tasks hold a lock while they call the pool, so it holds none of its own while it calls
    them. A pool that gives a listed task up calls ``Tasks.drop(tag, reason)`` in place of ``run``.
    """

    def submit(self, tag: int, priority: int) -> int:
        """Lists a task. Returns its entry, by which it is known until ``run`` is called. No other task that is listed
        later has the same entry, so an old one names nothing."""
        ...

    def submit_many(self, tags: Sequence[int], priority: int) -> Sequence[int]:
        """Lists tasks in their order, all or none. Returns their entries."""
        ...

    def submit_on(self, strand: int, tag: int) -> int:
        """Queues a task on a symbol's strand, behind the ticks that are there. Returns its entry, for ``give_up``."""
        ...

    def submit_as(self, tag: int, priority: int, own: int, marks: int) -> int:
        """``submit`` for a task whose own priority may be another one, as the head of an order has the highest of its
        order; and that the guard may hold back by its marks, a set of bits."""
        ...

    def may_go_on(self, elapsed_ns: int) -> bool:
        """Tells ``Tasks.run``, in its thread, whether it may run another task with the same priority before it returns,
        ``elapsed_ns`` after it began."""
        ...

    def hold(self) -> Turn:
        """Lets the task go on elsewhere; called by ``Tasks.run``, in its thread. The task's turn lasts until ``over``
        is called. The thread may run other tasks when ``run`` has returned."""
        ...

    def prioritise(self, entry: int, priority: int, own: int) -> None:
        """Gives a task that waits another priority. Does nothing where it has begun, or the entry is old."""
        ...

    def give_up(self, entry: int) -> None:
        """Lets go of a listed task that has ended: ``run`` need not be called for it."""
        ...

    def rose(self, entry: int) -> int | None:
        """The level to which a listed task has risen by its wait; None: it has not, or is not listed any more."""
        ...

    def risen(self) -> Sequence[int]:
        """Number of listed tasks, by level, that have risen to it, less its own tasks that have risen from it."""
        ...


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
