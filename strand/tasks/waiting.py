"""Tasks that wait, for a key among others, the changes to them meanwhile, and their ends."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import CancelledError
from concurrent.futures._base import PENDING, RUNNING
from datetime import datetime
from typing import Any, Final, TypeAlias

from strand.errors import ConfigurationError, StrandError, TaskDropped, TaskExpired
from strand.spans import SpanLike
from strand.tasks.ends import Counts
from strand.tasks.future import TaskFuture
from strand.tasks.groups import TaskGroup
from strand.tasks.options import Ranks, deadline_of
from strand.tasks.pool import Pool
from strand.tasks.table import Table
from strand.tasks.timers import Deadlines, Timer, Timers
from strand.tasks.waits import Waiter, numbered
from strand.threads import mended

__all__ = ["WITHDRAWN", "Claim", "Keys", "Waiting", "dropped", "expired"]


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


#: The end of a task that its submit gives up: it counts as never submitted.
WITHDRAWN: Final = "withdrawn"
#: End that a task is to have: its name, the value, and the error.
Claim: TypeAlias = tuple[str, Any, BaseException | None]


class Waiting:
    """Waiting tasks of one scheduler, and the services that their futures call."""

    def __init__(self, table: Table, pool: Pool, ranks: Ranks, timers: Timers, counts: Counts) -> None:
        self.counts = counts
        self.ranks = ranks
        self.timers = timers
        self.now = timers.now
        self.lock = table.lock
        self.keys = Keys(self._give, self._raise, ranks.highest)
        #: Tasks and calls that wait while they hold a strand, by the strand.
        self.waits_on: dict[int, Waiter] = {}
        #: Of the scheduler or dispatcher.
        self.name = numbered("scheduler")
        self._table = table
        self.pool = pool
        self.deadlines = Deadlines(timers, table.alive, self.expire)
        self._ended = {end: count.numbers for end, count in counts.ended.items()}
        self._ended[WITHDRAWN] = counts.refused.numbers

    @property
    def is_fork(self) -> bool:
        """True if this process is a fork of the one that runs the tasks."""
        return self._table.is_fork

    # -- into the pool

    def begin_wait(self, task: TaskFuture) -> None:
        options = task._options
        with self.lock:
            if "_claim" in task.__dict__:
                return  # its group was cancelled
            if options.waits_ns:
                self._set_timer(task, options.place, task._submitted_ns + options.waits_ns)
            else:
                self.enter(task)

    def _set_timer(self, task: TaskFuture, place: str, due_ns: int) -> None:
        """The task waits until a time. ``lock`` is held."""
        before = task._timer
        timer = Timer(due_ns, lambda: self._come_due(task, timer))
        task._place = place
        task._timer = timer
        if before is not None:
            self.timers.cancel(before)
        self.timers.add(timer)

    def _come_due(self, task: TaskFuture, timer: Timer) -> None:
        """Lists a task whose delay, hold or backoff is over; called by a timer."""
        with self.lock:
            if task._timer is not timer:
                return  # another timer took the place of this one while it was about to come
            task._timer = None
        self._list(task)

    def _list(self, task: TaskFuture) -> None:
        """Lists a task that nobody has claimed, or drops it where the pool does not take it."""
        with self.lock:
            if "_claim" in task.__dict__:
                return  # it was cancelled
            try:
                self.enter(task)
                return
            except Exception as error:
                failure = error
        self.end_unbegun(task, "dropped", dropped(task, f"it could not be listed: {failure}", failure))

    def list_again(self, task: TaskFuture, claim: object) -> None:
        """Gives up the claim of a task that has not begun, and lists it, perhaps a second time: it runs once."""
        with self.lock:
            if task._order is not None and task.__dict__.get("_claim") is claim:
                self.keys.give(task)
                del task.__dict__["_claim"]

    def enter(self, task: TaskFuture) -> None:
        """Lists a task in its key's order, its strand, or the pool. ``lock`` is held."""
        if task._place != "waiting":
            task._place = "waiting"
            self._table.requeue(task)
        if task._order is not None:
            self.keys.give(task)
        elif task._options.key is not None:
            self.keys.join(task)
        else:
            self._give(task, task._number)

    def _give(self, task: TaskFuture, number: int) -> None:
        options = task._options
        if options.strand is not None:
            self.pool.submit_on(options.strand, task.id)
        elif options.marks or number != task._number:
            task._entry = self.pool.submit_as(task.id, number, task._number, options.marks)
        else:
            task._entry = self.pool.submit(task.id, number)

    def _raise(self, task: TaskFuture, number: int) -> None:
        """The priority of a task that is in the pool, or will be given with it. ``lock`` is held."""
        if task._entry is not None and task._place == "waiting" and "_claim" not in task.__dict__:
            self.pool.prioritise(task._entry, number, task._number)

    def wait_again(self, task: TaskFuture, place: str, number: int, priority: Any, due_ns: int) -> None:
        """Lets a task wait again, with another priority, so that anybody may cancel it; called by the worker that has
        the claim. ``due_ns``: the time when it goes to the pool; 0: now."""
        with self.lock:
            task._priority = self.ranks.name_of(number, priority)
            task._rose = None
            if task._order is not None:
                task._entry = None
                self.keys.change(task, number)
            task._number = number
            if due_ns:
                self._set_timer(task, place, due_ns)
            task._state = PENDING
            del task.__dict__["_claim"]
            self._table.requeue(task)
        if not due_ns:
            self._list(task)
        if self._table.cancels_all or task.cancel_requested:
            self.cancel(task)

    # -- ending

    def end_unbegun(self, task: TaskFuture, end: str, error: BaseException) -> bool:
        """Ends a task that nobody has begun or ended. Returns whether that was so."""
        claim = end, None, error
        return bool(mended(self._end_unbegun, self._end_claimed, task, claim))

    def _end_unbegun(self, task: TaskFuture, claim: Claim) -> bool:
        if task.__dict__.setdefault("_claim", claim) is not claim:
            return False
        self._end_and_unlist(task, claim)
        return True

    def _end_claimed(self, task: TaskFuture, claim: Claim) -> None:
        """Ends a task if the claim is the one that it has."""
        if task.__dict__.get("_claim") is claim:
            self._end_and_unlist(task, claim)

    def _end_and_unlist(self, task: TaskFuture, claim: Claim) -> None:
        """Ends a task before its turn, and lets the pool have its entry back."""
        self.end(task, *claim)
        if task._entry is not None:
            self.pool.give_up(task._entry)

    def end(self, task: TaskFuture, end: str, value: Any, error: BaseException | None) -> None:
        """Ends a task, and passes the next one of its key to the pool; called by the thread that has the claim. If an
        exception cuts it short, it is called again, here or in another thread, and does the rest."""
        self._conclude(task, end, value, error)
        if task._options.key is not None:
            self._advance(task)
        self._table.remove(task)

    def end_and_follow(self, task: TaskFuture, value: Any, elapsed_ns: int, visit: list[int]) -> TaskFuture | None:
        """``end`` for a task that is done, in the thread that ran it. Returns the next one of its key, claimed, where
        the thread may run it at once: with the same priority, as part of the visit that began ``elapsed_ns`` ago."""
        self._conclude(task, "done", value, None)
        if task._options.key is not None:
            if self.pool.may_go_on(elapsed_ns):
                self._table.take_lock()
                try:
                    following = self.keys.next_alike(task)
                    if following is not None:
                        visit.append(following.id)
                        if following.__dict__.setdefault("_claim", visit) is visit:
                            self._table.unqueue(following)
                            self.keys.leave(task)
                            task._following = None
                            self._table.remove(task)
                            return following
                finally:
                    self.lock.release()
            self._advance(task)
        self._table.remove(task)
        return None

    def _advance(self, task: TaskFuture) -> None:
        """Lists the next task of a key. Where the pool has stopped, all tasks behind are dropped, however many."""
        given_up: list[TaskFuture] = []
        while (following := self._list_next(task)) is not None:
            given_up.append(following)
            task = following
        for task in given_up:
            self._table.remove(task)

    def _list_next(self, task: TaskFuture) -> TaskFuture | None:
        """Lists the next task of a key. Returns it if the pool does not take it: then it has been dropped."""
        following: TaskFuture | None = None
        self._table.take_lock()
        try:
            following = self.keys.leave(task)
            if following is None:
                return None
            if following._end == "dropped":
                return following  # before an exception cut this short
            self.keys.give(following)
            task._following = None
            return None
        except StrandError as raised:
            failure = raised
        finally:
            self.lock.release()
        assert following is not None
        claim = "dropped", None, dropped(following, f"it could not be listed: {failure}", failure)
        is_mine = mended(self._conclude_unbegun, self._conclude_claimed, following, claim)
        return following if is_mine else None  # else it ends elsewhere

    def _conclude_unbegun(self, task: TaskFuture, claim: Claim) -> bool:
        if task.__dict__.setdefault("_claim", claim) is not claim:
            return False
        self._conclude(task, *claim)
        return True

    def _conclude_claimed(self, task: TaskFuture, claim: Claim) -> None:
        if task.__dict__.get("_claim") is claim:
            self._conclude(task, *claim)

    def _conclude(self, task: TaskFuture, end: str, value: Any, error: BaseException | None) -> None:
        """All of an end but the next one of the key, and leaving the table, which is the last step."""
        task._call = None
        if task._failure is not None:
            task._failure = None
        if task._begun_ns is None:
            task._ended_ns = self.now()
        if task._timer is not None:
            with self.lock:
                if task._timer is not None:
                    self.timers.cancel(task._timer)
                    task._timer = None
        if task._state != RUNNING:  # a worker took it off the queue before it began
            self._table.unqueue(task)
        if task._end is None:
            task._result = value
            if error is not None:
                task._exception = error
            for _ in self._ended[end]:
                task._end = "cancelled" if end == WITHDRAWN else end
                break
        task.finish()
        group = task._group
        if group is not None:
            group.remove(task, error if end in ("failed", "dropped", "dead") else None)

    def drop(self, task: TaskFuture, reason: str) -> bool:
        """Ends a task that the pool gives up. False: it has begun or ended."""
        return self.end_unbegun(task, "dropped", dropped(task, reason))

    # -- what futures ask for

    def expire(self, tag: int, due_ns: int) -> None:
        """Expires a task whose deadline is over, if it waits and has no other deadline by now; called by a timer."""
        task = self._table.alive.get(tag)
        if task is not None and task._deadline_ns == due_ns:
            self.end_unbegun(task, "expired", expired(task, f"the deadline of task {task.id} is over", "deadline"))

    def priority_of(self, task: TaskFuture) -> Any:
        """The level to which a task has risen, or else the priority that it was given."""
        rose = task._rose
        entry = task._entry
        if entry is not None and task._state == PENDING and task._place == "waiting" and not self.is_fork:
            rose = self.pool.rose(entry)
        return task._priority if rose is None else self.ranks.name_of(rose, None)

    def cancel(self, task: TaskFuture) -> bool:
        return not self.is_fork and self.end_unbegun(task, "cancelled", CancelledError())

    def reprioritise(self, task: TaskFuture, priority: Any) -> bool:
        number = self.ranks.number_of("priority", priority)
        if task._options.strand is not None:
            raise ConfigurationError("priority", "a symbol's strand has one priority; change that of the symbol")
        if self.is_fork:
            return False
        return bool(mended(self._reprioritise, self._reprioritise_again, task, number, priority))

    def _reprioritise(self, task: TaskFuture, number: int, priority: Any) -> bool:
        with self.lock:
            if "_claim" in task.__dict__:
                return False
            if task._place in ("delayed", "held"):
                self._hold_by(task, number)
            task._priority = self.ranks.name_of(number, priority)
            self._renumber(task, number)
            self._table.requeue(task)
        return True

    def _reprioritise_again(self, task: TaskFuture, number: int, priority: Any) -> None:
        """Completes a new priority after an exception came between the task's number and the pool's."""
        self._reprioritise(task, number, priority)
        with self.lock:
            self._table.requeue(task)  # also one that has begun meanwhile: it may be counted at two levels
            self.keys.raise_head_of(task)
        self.timers.wake()

    def _renumber(self, task: TaskFuture, number: int) -> None:
        """Gives a task that waits another number, and tells the pool. ``lock`` is held."""
        if task._order is not None:
            self.keys.change(task, number)
        else:
            task._number = number
            self._raise(task, number)

    def _hold_by(self, task: TaskFuture, number: int) -> None:
        """A task that waits for its time waits as long as its new level says."""
        delay_ns, hold_ns = task._options.delay_ns, self.ranks.hold_ns(number)
        due_ns = task._submitted_ns + max(delay_ns, hold_ns)
        if task._deadline_ns is not None and due_ns >= task._deadline_ns:
            raise ConfigurationError("priority", f"the hold of its level ends after the deadline of task {task.id}")
        self._set_timer(task, "delayed" if delay_ns >= hold_ns else "held", due_ns)

    def set_deadline(self, task: TaskFuture, deadline: SpanLike | datetime | None) -> bool:
        span, moment = deadline_of(deadline)
        if moment is not None:
            span = moment - time.time_ns()
        until = None if span is None else self.now() + span
        if self.is_fork:
            return False
        with self.lock:
            if "_claim" in task.__dict__:
                return False
            over = span is not None and span <= 0
            if until is not None and not over and task._timer is not None and task._timer.due_ns >= until:
                raise ConfigurationError(
                    "deadline", f"task {task.id} is {task._place} until after it: give a longer one"
                )
            task._deadline_ns = until
            if until is not None:
                self.deadlines.add(task, until)
        return True

    def set_group(self, task: TaskFuture, group: TaskGroup | None) -> bool:
        if group is not None and not isinstance(group, TaskGroup):
            raise ConfigurationError("group", f"{group!r} is not a strand.TaskGroup")
        if self.is_fork:
            return False
        moved: bool | None = None
        while moved is None:
            moved = mended(self._set_group, self._leave_other_group, task, group, task._group)
        return moved

    def _set_group(self, task: TaskFuture, group: TaskGroup | None, before: TaskGroup | None) -> bool | None:
        """None: another thread has moved the task meanwhile, so that it is not in ``before`` any more."""
        with self.lock:
            if "_claim" in task.__dict__:
                return False
            if task._group is not before:
                return None
            if group is before:
                return True
            number = self.ranks.number_in(group, task._number)
            if group is not None:
                group.add(task)
            task._group = group
            self._renumber(task, number)
        if before is not None:
            before.remove(task, None)
        if task.done() and group is not None:
            group.remove(task, None)  # it ended meanwhile, when it was in no group or in the one before
        return True

    def _leave_other_group(self, task: TaskFuture, group: TaskGroup | None, before: TaskGroup | None) -> None:
        """Completes ``_set_group`` after an exception cut it short: the task is in one of the two groups, and not in
        the other."""
        with self.lock:
            now = task._group
            if now is not None and "_claim" not in task.__dict__:
                self._renumber(task, self.ranks.number_in(now, task._number))
                self.keys.raise_head_of(task)
        for other in (group, before):
            if other is not None and (other is not now or task.done()):
                other.remove(task, None)

    def ahead_of(self, task: TaskFuture) -> Waiter | None:
        """The task of its key that has to end first, or the task or call that holds its strand while it waits."""
        options = task._options
        head: Waiter | None = None
        if options.strand is not None:
            head = self.waits_on.get(options.strand)
        elif options.key is not None:
            with self.lock:
                head = self.keys.head_of(task)
        return None if head is task else head


def dropped(task: TaskFuture, reason: str, cause: BaseException | None = None) -> TaskDropped:
    """Returns the exception that ends a task that was given up."""
    error = TaskDropped(f"task {task.id} was dropped: {reason}")
    error.__cause__ = task._failure if cause is None else cause
    return error


def expired(task: TaskFuture, words: str, reason: str) -> TaskExpired:
    """Makes the error of a task that has expired. If it waited for another attempt, the last failure is the cause."""
    error = TaskExpired(words, reason)
    error.__cause__ = task._failure
    return error
