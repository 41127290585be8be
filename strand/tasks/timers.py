"""Timers of later work: delayed and held tasks, retries, periodic turns."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from strand.binding.gate import Thread
from strand.errors import StrandError
from strand.tasks.future import TaskFuture
from strand.threads import Bell, Clock, mended

__all__ = ["Deadlines", "Periodic", "Timer", "Timers"]

_log = logging.getLogger(__package__)

#: Cancelled entries of the heap are cleared out when they are more than half of it, and more than so many.
_FEW: Final = 64
#: Deadlines that are kept before those of tasks that have begun are cleared out.
_MANY: Final = 1024
#: The longest wait at one go, s: longer ones overflow in some systems.
_LONGEST_S: Final = 3600.0


class Timer:
    """Something that is due. ``due_ns``: by the scheduler's clock."""

    __slots__ = ("action", "due_ns")

    def __init__(self, due_ns: int, action: Callable[[], None]) -> None:
        self.due_ns = due_ns
        self.action: Callable[[], None] | None = action


class Timers:
    """Calls actions when they are due.

    ``clock``: None: the system's, and a thread calls the actions. Another clock has no thread: ``fire`` calls them.
    The thread starts with the first action. It holds this object, until ``end``.
    """

    def __init__(self, clock: Clock | None) -> None:
        self.now: Callable[[], int] = time.monotonic_ns if clock is None else clock.now_ns
        self._has_thread = clock is None
        #: Those of one time are due in the order in which they were added. No comparison runs Python code, so that an
        #: interrupt finds the heap in order.
        self._heap: list[tuple[int, int, Timer]] = []
        self._cancelled = 0  # about: where an interrupt came between, one more or less
        self._turns = itertools.count()
        self._bell = Bell()
        #: More than one where an interrupt came between the start of the first one and the note of it.
        self._threads: list[Thread] = []
        self._is_started = False
        self._closed = False

    def __len__(self) -> int:
        """The number of actions that are due later."""
        with self._bell:
            return sum(timer.action is not None for _, _, timer in self._heap)

    def add(self, timer: Timer) -> None:
        """Calls its action at its time; never after ``end``, and not if it is cancelled. Its exceptions are logged."""
        with self._bell:
            if self._has_thread and not self._is_started and not self._closed:
                thread = Thread(self._run, "strand task timers")
                self._threads.append(thread)
                thread.start()
                self._is_started = True
            if not self._closed:
                heapq.heappush(self._heap, (timer.due_ns, next(self._turns), timer))
                # Also beside one of that time: an interrupt may have come between that one and its ring.
                if self._heap[0][0] == timer.due_ns:
                    self._bell.ring()

    def cancel(self, timer: Timer) -> None:
        """The action will not be called, unless it is under way."""
        with self._bell:
            if timer.action is None:
                return
            timer.action = None
            self._cancelled += 1
            if self._cancelled > max(_FEW, len(self._heap) // 2):
                heap = [entry for entry in self._heap if entry[2].action is not None]
                heapq.heapify(heap)
                self._heap = heap
                self._cancelled = 0

    def wake(self) -> None:
        """Makes the thread look again for due actions."""
        self._bell.ring()

    def next_due_ns(self) -> int | None:
        """Due time of the next action, ns of the clock; None: there is none."""
        with self._bell:
            while self._heap and self._heap[0][2].action is None:
                heapq.heappop(self._heap)
                self._cancelled -= 1
            return self._heap[0][0] if self._heap else None

    def fire(self) -> int:
        """Calls the actions that are due, in their order. Returns how many."""
        called = 0
        while True:
            with self._bell:
                due = self.next_due_ns()
                if due is None or due > self.now():
                    return called
                timer = heapq.heappop(self._heap)[2]
                action, timer.action = timer.action, None
            if action is not None:
                try:
                    action()
                except BaseException:  # of any kind: the others are due, too
                    _log.exception("a timer of tasks failed")
                called += 1

    def end(self) -> None:
        """Tells the thread to end. No action is called any more, but for one that is under way."""
        with self._bell:
            self._closed = True
            self._heap.clear()
            self._cancelled = 0
        self._bell.ring()

    def join(self) -> None:
        """Waits for the thread's end, unless this is the thread."""
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._closed:
            self.fire()
            due = self.next_due_ns()
            wait_s = _LONGEST_S if due is None else min(_LONGEST_S, (due - self.now()) / 1e9)
            self._bell.wait_for(lambda due=due: self._closed or self.next_due_ns() != due, max(wait_s, 0))  # type: ignore[misc]


class Deadlines:
    """Lets tasks expire that wait when their deadlines are over.

    A task with a deadline costs an entry of a heap, and no timer: there is one, for the first entry. Actions that began
    or ended before stay in the heap until it is twice as large as the waiting tasks may need.
    """

    def __init__(self, timers: Timers, alive: Mapping[int, TaskFuture], expire: Callable[[int, int], None]) -> None:
        self._timers = timers
        self._alive = alive
        self._expire = expire
        self._heap: list[tuple[int, int]] = []
        self._most = _MANY
        self._timer: Timer | None = None
        self._lock = Bell()

    def add(self, task: TaskFuture, due_ns: int) -> None:
        """Gives a task its deadline, ns of the clock."""
        task._deadline_ns = due_ns
        entry = due_ns, task.id
        try:  # as ``mended`` does, without its calls: this is part of each submit
            with self._lock:
                heapq.heappush(self._heap, entry)
                if len(self._heap) > self._most:
                    self._clear_out()
                timer = self._timer
                if timer is None or due_ns < timer.due_ns:
                    self._set_timer()
        except BaseException:
            start_new_thread(self._add_again, (entry,))
            raise

    def _add_again(self, entry: tuple[int, int]) -> None:
        """Adds an entry again after an exception came between the heap and its timer: two copies of an entry do no
        harm."""
        with self._lock:
            heapq.heappush(self._heap, entry)
            self._set_timer()

    def _clear_out(self) -> None:
        alive = self._alive
        left = []
        for entry in self._heap:
            task = alive.get(entry[1])
            if task is not None and not task._is_claimed:
                left.append(entry)
        heapq.heapify(left)
        self._heap = left
        self._most = max(_MANY, 2 * len(left))

    def _set_timer(self) -> None:
        """For the first entry. The lock is held. One that an interrupt cuts short can be repeated."""
        if self._timer is not None:
            self._timers.cancel(self._timer)
        self._timer = Timer(self._heap[0][0], self._fire) if self._heap else None
        if self._timer is not None:
            self._timers.add(self._timer)

    def _fire(self) -> None:
        now = self._timers.now()
        due = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now:
                due.append(heapq.heappop(self._heap))
            self._set_timer()
        for due_ns, tag in due:
            self._expire(tag, due_ns)


class Periodic:
    """A function that is due at ``first + n * period``, whatever the earlier turns took: it does not drift.

    Each turn is a task. A turn is skipped if the previous turn still runs when it is due, or if the scheduler refuses
    it. After a time in which the machine slept, only the latest missed turn runs. So turns never pile up. An
    error of a turn is logged (``strand.tasks``), and the next turn comes as usual.

    Attributes:
        turns: How many turns were submitted.
        skipped: How many turns were not submitted.
        failed: How many turns ended otherwise than by a value.
        last: The future of the latest turn, or None.
        next_due_ns: When the next turn is due, in ns of the scheduler's clock (``time.monotonic_ns``); None: it was
            cancelled.
    """

    def __init__(self, timers: Timers, submit: Callable[[], TaskFuture], first_ns: int, period_ns: int) -> None:
        self.period_ns = period_ns
        self.turns = 0
        self.skipped = 0
        self.failed = 0
        self.last: TaskFuture | None = None
        self.next_due_ns: int | None = first_ns
        self._timers = timers
        self._submit = submit
        self._lock = threading.RLock()
        self._timer: Timer | None = None

    def __repr__(self) -> str:
        return f"<Periodic, {self.turns} turns, {self.skipped} skipped{', cancelled' if self.cancelled() else ''}>"

    def begin(self) -> None:
        """Waits for the first turn from now on."""
        with self._lock:
            if self.next_due_ns is not None:
                self._wait_until(self.next_due_ns)

    def _wait_until(self, due_ns: int) -> None:
        self._timer = Timer(due_ns, self._turn)
        self._timers.add(self._timer)

    def cancel(self, running: bool = False) -> bool:
        """Ends the turns, and cancels a turn that waits to begin.

        Args:
            running: Whether to ask a turn that runs to end.

        Returns:
            Whether there would have been another turn.
        """
        return bool(mended(self._cancel, self._cancel, running))

    def _cancel(self, running: bool) -> bool:
        with self._lock:
            self.next_due_ns = None
            found, last = self._timer, self.last
            if found is not None:
                self._timers.cancel(found)
            self._timer = None
        if last is not None:
            last.cancel(running=running)
        return found is not None

    def cancelled(self) -> bool:
        """True if there are no more turns."""
        return self._timer is None

    def _turn(self) -> None:
        with self._lock:
            due = self.next_due_ns
            if due is None:
                return
            missed = (self._timers.now() - due) // self.period_ns
            self.skipped += missed
            self.next_due_ns = due + (missed + 1) * self.period_ns
            self._wait_until(self.next_due_ns)
            if self.last is not None and not self.last.done():
                self.skipped += 1
                return
            try:
                future = self.last = self._submit()
            except StrandError as error:
                self.skipped += 1
                _log.warning("a periodic turn was refused: %s", error)
                return
            self.turns += 1
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[Any]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            with self._lock:
                self.failed += 1
            _log.error("a periodic turn failed: %r", error, exc_info=error)
