"""Tasks: what a scheduler is made of, over whatever pool of threads runs it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime
from typing import Any

from strand.brief import brief
from strand.clock import Clock
from strand.errors import ConfigurationError
from strand.policies.policy import LEVELS, level_of
from strand.spans import SpanLike
from strand.stats import TaskStatistics
from strand.tasks.core import Core
from strand.tasks.dead_letters import DeadLetters
from strand.tasks.executor import TaskExecutor
from strand.tasks.groups import TaskGroup
from strand.tasks.options import options_of
from strand.tasks.pool import Pool
from strand.tasks.ranks import Ranks
from strand.tasks.retry import RetryPolicy
from strand.tasks.table import Bounds
from strand.validate import whole

__all__ = ["Tasks"]


class Tasks(TaskExecutor):
    """The tasks of one scheduler, and an executor of tasks without options.

    Tasks and dead letters live in memory only: this is no durable queue. Every task ends in exactly one way: done,
    failed, cancelled, expired, dropped or dead (``TaskFuture.state``).

    Args:
        pool: Lists tasks and calls ``run`` in its threads.
        ranks: What the pool's policy makes of priorities.
        clock: The clock of delays, deadlines and times. None: the system's, with a thread for what is due later. With
            another clock, ``fire`` does what is due.
        max_queue: How many tasks may wait that could start now or wait for a turn; 0: any number. No retry is refused.
        max_queue_by_level: By level, how many of these may wait, under ``Levels``.
        max_held: How many tasks may be delayed or held; 0: any number.
        max_dead_letters: How many dead letters are kept.
        seed: The seed of the random part of backoffs; None: another one each time.
        retry: The retry policy of tasks that are given none; None: they fail at once.
        strand_of: The strand of a symbol, for ``symbol=``; None: there are no symbols.

    Raises:
        ConfigurationError: If a number is not one or is below 0.
    """

    def __init__(
        self,
        pool: Pool,
        ranks: Ranks,
        *,
        clock: Clock | None = None,
        max_queue: int = 0,
        max_queue_by_level: Mapping[str, int] | None = None,
        max_held: int = 0,
        max_dead_letters: int = 1000,
        seed: int | None = None,
        retry: RetryPolicy | None = None,
        strand_of: Callable[[Any], int] | None = None,
    ) -> None:
        core = Core(
            pool,
            ranks,
            clock=clock,
            bounds=_bounds(ranks, max_queue, max_queue_by_level, max_held),
            max_dead_letters=whole("max_dead_letters", max_dead_letters, 0),
            seed=None if seed is None else whole("seed", seed, 0),
        )
        self._ranks = ranks
        self._retry = retry
        self._strand_of = strand_of
        super().__init__(core, options_of(ranks, strand_of, retry=retry), weakref.WeakSet())

    def options(
        self,
        *,
        priority: Any = None,
        key: Hashable | None = None,
        symbol: str | int | None = None,
        deadline: SpanLike | datetime | None = None,
        delay: SpanLike | None = None,
        retry: RetryPolicy | None = None,
        group: TaskGroup | None = None,
        expire_if: Callable[[], Any] | None = None,
        marks: str | Iterable[str] | None = None,
    ) -> TaskExecutor:
        """An executor of this scheduler whose tasks have these options; it does not change.

        Spans are texts with a unit like ``"30s"``, timedeltas, or float seconds.

        Args:
            priority: A priority of the policy; None: the usual one.
            key: Tasks of one key run in the order in which they join it, one at a time. A task joins when its delay or
                hold is over, and keeps its place while it waits for a retry. The next task has the highest priority of
                all that wait behind it.
            symbol: The task runs in order with that symbol's ticks; a retry comes behind the ticks that wait then.
            deadline: A task that has not begun so long after its submit expires then, and is neither started nor tried
                again. A datetime with a time zone is a moment instead. A deadline of 0 or less, or in the past, is
                over: the task expires at once. None: no deadline.
            delay: The task waits at least so long; 0 or less: not at all.
            retry: When the task is tried again; None: as the scheduler says.
            group: The group that the task belongs to; None: that of the block or task that submits it.
            expire_if: Called without arguments in the worker before each start. True: the task expires. A priority: it
                waits anew with that one, if it is another one. False or None: it starts. If it raises, the task fails.
            marks: ``"io"``, ``"frees_memory"`` or both, for the guard.

        Raises:
            ConfigurationError: If a value cannot work: a priority that the policy does not have, a delay or hold that
                ends after the deadline, a symbol beside a key or priority.
            UnknownSymbolError: If there is no such symbol.
        """
        found = options_of(
            self._ranks,
            self._strand_of,
            priority=priority,
            key=key,
            symbol=symbol,
            deadline=deadline,
            delay=delay,
            retry=self._retry if retry is None else retry,
            group=group,
            expire_if=expire_if,
            marks=marks,
        )
        return TaskExecutor(self._core, found, self._periodics)

    def __repr__(self) -> str:
        dead = len(self.dead_letters)
        letters = f"{dead:,} dead letters" if dead else ""
        return brief(self, self._core.waiting.name, self._core.table.stage, letters, repr(self._ranks.policy))

    @property
    def dead_letters(self) -> DeadLetters:
        """Tasks that failed after their last retry."""
        return self._core.dead_letters

    def pending_count(self) -> dict[str, int]:
        """Number of tasks that wait, by level under ``Levels``, by class under ``Aging``; empty under other
        policies.

        It counts those that have not begun, delayed and held ones too, and those that wait for a retry. A task that has
        risen by its wait counts in the level to which it has risen. It takes about a microsecond, however many wait.
        """
        waiting = self._core.table.waiting()
        if self._ranks.has_levels:
            waiting = [a + b for a, b in zip(waiting, self._core.waiting.pool.risen(), strict=True)]
        return self._ranks.by_name(waiting)

    def pending_total(self) -> int:
        """Number of tasks that wait, under any policy: the sum that ``pending_count`` has by level."""
        return sum(self._core.table.waiting())

    def statistics(self) -> TaskStatistics:
        """Totals since the start, of tasks alone; see TaskStatistics. It stops nothing, and takes microseconds."""
        return self._core.counts.read()

    # -- for the pool

    def run(self, tag: int) -> None:
        """Runs the task of a tag, unless it has ended; a thread of the pool calls it. It raises nothing: whatever a
        task raises ends the task.
        """
        self._core.running.run(tag)

    def drop(self, tag: int, reason: str) -> bool:
        """Gives a task up, in place of ``run``; the pool calls it. The task's future raises TaskDropped.

        Args:
            tag: The task.
            reason: Why it is dropped, in words.

        Returns:
            False if the task has ended, or its function or coroutine runs.
        """
        task = self._core.table.alive.get(tag)
        return task is not None and self._core.waiting.drop(task, reason)

    def fire(self) -> int | None:
        """Runs all that is due, with a clock that is not the system's.

        Returns:
            When something is due next, in ns of the clock; None if nothing is.
        """
        self._core.timers.fire()
        return self._core.timers.next_due_ns()


def _bounds(ranks: Ranks, queue: int, by_level: Mapping[str, int] | None, held: int) -> Bounds:
    """Raises ConfigurationError."""
    if by_level is not None and not isinstance(by_level, Mapping):
        raise ConfigurationError(f"max_queue_by_level: {type(by_level).__name__} is not a dict of numbers by level")
    if by_level and not ranks.has_levels:
        raise ConfigurationError(
            f"max_queue_by_level: {type(ranks.policy).__name__} has no levels; give policy=Levels()"
        )
    found = {
        LEVELS[level_of("max_queue_by_level", level)]: whole(f"max_queue_by_level: {level}", n, 1)
        for level, n in (by_level or {}).items()
    }
    return Bounds(whole("max_queue", queue, 0), found, whole("max_held", held, 0))
