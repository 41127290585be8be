"""What is due later: delayed and held tasks, retries, periodic turns. One heap, and one thread or a clock of a test."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from strand.clock import Clock
from strand.threads import join

__all__ = ["Timer", "Timers"]

_log = logging.getLogger(__package__)

#: Cancelled entries of the heap are cleared out when they are more than half of it, and more than so many.
_FEW: Final = 64
#: The longest wait at one go, s: longer ones overflow in some systems.
_LONGEST_S: Final = 3600.0


class Timer:
    """Something that is due. ``due_ns``: by the scheduler's clock."""

    __slots__ = ("action", "due_ns", "turn")

    def __init__(self, due_ns: int, turn: int, action: Callable[[], None]) -> None:
        self.due_ns = due_ns
        self.turn = turn  # those of one time are due in the order in which they were added
        self.action: Callable[[], None] | None = action

    def __lt__(self, other: Timer) -> bool:
        return (self.due_ns, self.turn) < (other.due_ns, other.turn)


class Timers:
    """Calls actions when they are due.

    ``clock``: None: the system's, and a thread calls the actions. Another clock has no thread: ``fire`` calls them.
    The thread starts with the first action. It holds this object, until ``end``.
    """

    def __init__(self, clock: Clock | None) -> None:
        self.now: Callable[[], int] = time.monotonic_ns if clock is None else clock.now_ns
        self._has_thread = clock is None
        self._heap: list[Timer] = []
        self._cancelled = 0
        self._turns = itertools.count()
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._closed = False

    def __len__(self) -> int:
        """The number of actions that are due later."""
        return len(self._heap) - self._cancelled

    def add(self, due_ns: int, action: Callable[[], None]) -> Timer:
        """Calls an action at a time, ns of the clock; never after ``end``. What it raises is logged."""
        with self._changed:
            if self._has_thread and self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run, name="strand task timers", daemon=True)
                thread.start()
                self._thread = thread
            timer = Timer(due_ns, next(self._turns), action)
            if not self._closed:
                heapq.heappush(self._heap, timer)
                if self._heap[0] is timer:
                    self._changed.notify()
        return timer

    def cancel(self, timer: Timer) -> None:
        """The action will not be called, unless it is under way."""
        with self._changed:
            if timer.action is None:
                return
            timer.action = None
            self._cancelled += 1
            if self._cancelled > max(_FEW, len(self._heap) // 2):
                self._heap = [timer for timer in self._heap if timer.action is not None]
                heapq.heapify(self._heap)
                self._cancelled = 0

    def next_due_ns(self) -> int | None:
        """When the next action is due, ns of the clock; None: there is none."""
        with self._changed:
            while self._heap and self._heap[0].action is None:
                heapq.heappop(self._heap)
                self._cancelled -= 1
            return self._heap[0].due_ns if self._heap else None

    def fire(self) -> int:
        """Calls the actions that are due, in their order. Returns how many."""
        called = 0
        while True:
            with self._changed:
                due = self.next_due_ns()
                if due is None or due > self.now():
                    return called
                timer = heapq.heappop(self._heap)
                action, timer.action = timer.action, None
            if action is not None:
                try:
                    action()
                except BaseException:  # of any kind: the others are due, too
                    _log.exception("a timer of tasks failed")
                called += 1

    def end(self) -> None:
        """Tells the thread to end. No action is called any more, but for one that is under way."""
        with self._changed:
            self._closed = True
            self._heap.clear()
            self._cancelled = 0
            self._changed.notify()

    def join(self) -> None:
        """Waits for the thread's end, unless this is the thread."""
        if self._thread is not None and self._thread is not threading.current_thread():
            join(self._thread)

    def _run(self) -> None:
        while True:
            self.fire()
            with self._changed:
                if self._closed:
                    return
                due = self.next_due_ns()
                wait_s = _LONGEST_S if due is None else min(_LONGEST_S, (due - self.now()) / 1e9)
                if wait_s > 0:
                    self._changed.wait(wait_s)
