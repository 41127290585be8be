"""Fate of a task that raised: it fails, waits for a retry, expires, or is dead."""

from __future__ import annotations

import logging
import random
import threading
from typing import Any, Protocol

from strand.tasks.counts import Counts
from strand.tasks.future import TaskFuture
from strand.tasks.ranks import Ranks
from strand.tasks.retry import BUSINESS, SYSTEM, RetryPolicy

__all__ = ["Retrying"]

_log = logging.getLogger(__package__)


class Waiting(Protocol):
    """Queue for tasks that are tried again."""

    ranks: Ranks
    counts: Counts

    def now(self) -> int: ...
    def wait_again(self, task: TaskFuture, place: str, number: int, priority: Any, due_ns: int) -> None: ...


class Retrying:
    """``seed``: of the random part of backoffs; None: another one each time."""

    def __init__(self, core: Waiting, seed: int | None) -> None:
        self._core = core
        self._generator = random.Random(seed)
        self._lock = threading.Lock()  # around a call of C that runs no code of a user

    def decide(self, task: TaskFuture, error: BaseException) -> str | None:
        """End of the task; None: it waits for its retry. Raises the errors of ``classify``."""
        policy = task._options.retry
        if policy is None:
            return "failed"
        kind = policy.kind_of(error)
        if kind == SYSTEM:
            _alert(policy, task, error)
        if kind == BUSINESS and isinstance(error, Exception) and task.attempts <= policy.max_retries:
            _log.warning("task %d is not tried again, because it met a business error: %r", task.id, error)
        if kind == BUSINESS or task.cancel_requested:
            return "failed"
        if task.attempts > policy.max_retries:
            return "dead"
        with self._lock:
            delay_ns = policy.delay_ns(task.attempts, self._generator)
        due_ns = self._core.now() + delay_ns
        if task._deadline_ns is not None and due_ns >= task._deadline_ns:
            return "expired"
        ranks = self._core.ranks
        number = ranks.raised(task._number) if kind == SYSTEM else ranks.for_retry(task._number)
        next(self._core.counts.retries.numbers)
        task._failure = error
        self._core.wait_again(task, "retrying", number, task._priority, due_ns)
        return None


def _alert(policy: RetryPolicy, task: TaskFuture, error: BaseException) -> None:
    if policy.on_alert is None:
        _log.error("task %d met an error of the system at attempt %d: %r", task.id, task.attempts, error)
        return
    try:
        policy.on_alert(task, error)
    except BaseException:  # it must end neither the worker nor the task
        _log.exception("on_alert failed for task %d", task.id)
