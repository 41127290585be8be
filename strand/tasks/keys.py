"""The order of tasks of one key: one at a time, the next when the one before has ended."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable

from strand.tasks.future import TaskFuture

__all__ = ["Keys"]


class _Order:
    """The tasks of one key. ``head``: the one that may run, which keeps its place while it waits for a retry."""

    __slots__ = ("head", "numbers", "rest")

    def __init__(self, head: TaskFuture) -> None:
        self.head = head
        self.rest: OrderedDict[int, TaskFuture] = OrderedDict()
        #: How many tasks have each priority, with the head.
        self.numbers: Counter[int] = Counter()


class Keys:
    """All orders. A key is here while it has a task.

    Only the head of an order is in the pool, and with the highest priority of its order: else a low task at the head
    would hold up a high one behind it. ``give`` puts a task into the pool with a priority, ``raise_`` changes that of
    the one that is there. One lock is held around every method, and so around both.
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
        """A task comes last in its key's order, and into the pool where it is alone."""
        key = task._options.key
        order = self._orders.get(key)
        task._in_order = True
        number = task._number
        if order is None:
            order = self._orders[key] = _Order(task)
            order.numbers[number] = 1
            self._give(task, number)
            return
        order.rest[task.id] = task
        known = order.numbers.get(number)
        if known:
            order.numbers[number] = known + 1
            return
        before = self._highest(order.head._number, order.numbers)
        order.numbers[number] = 1
        self._raise_head(order, before)

    def leave(self, task: TaskFuture) -> TaskFuture | None:
        """A task has ended. Returns the one that is the head now, if that is another one; the caller gives it."""
        order = self._orders.get(task._options.key)
        if order is None or not task._in_order:
            return None
        task._in_order = False
        if order.head is not task:
            before = self._highest(order.head._number, order.numbers)
            self._count_out(order, task._number)
            del order.rest[task.id]
            self._raise_head(order, before)
            return None
        self._count_out(order, task._number)
        if not order.rest:
            del self._orders[task._options.key]
            return None
        order.head = order.rest.popitem(last=False)[1]
        return order.head

    def next_alike(self, task: TaskFuture) -> TaskFuture | None:
        """The one that is behind the head of an order, if all of the order have one priority and the guard does not
        tell them apart."""
        order = self._orders.get(task._options.key)
        if order is None or order.head is not task or not order.rest or len(order.numbers) > 1:
            return None
        following = next(iter(order.rest.values()))
        return None if following._options.marks else following

    def give(self, task: TaskFuture) -> None:
        """Puts the head of an order into the pool, with the priority of the whole order."""
        self._give(task, self._highest(task._number, self._orders[task._options.key].numbers))

    def change(self, task: TaskFuture, number: int) -> None:
        """Gives a task of an order another priority, and so perhaps its head."""
        order = self._orders[task._options.key]
        before = self._highest(order.head._number, order.numbers)
        self._count_out(order, task._number)
        task._number = number
        order.numbers[number] += 1
        self._raise_head(order, before)

    def head_of(self, key: Hashable) -> TaskFuture | None:
        """The task of a key that may run."""
        order = self._orders.get(key)
        return None if order is None else order.head

    def _raise_head(self, order: _Order, before: int) -> None:
        now = self._highest(order.head._number, order.numbers)
        if now != before:
            self._raise(order.head, now)

    @staticmethod
    def _count_out(order: _Order, number: int) -> None:
        order.numbers[number] -= 1
        if not order.numbers[number]:
            del order.numbers[number]
