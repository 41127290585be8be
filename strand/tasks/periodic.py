"""Functions that are called again and again, at fixed times."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from strand.errors import StrandError
from strand.tasks.future import TaskFuture
from strand.tasks.timers import Timer, Timers
from strand.threads import mended

__all__ = ["Periodic"]

_log = logging.getLogger(__package__)


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
