"""Functions that a pool of workers runs: by priority, in the order of a key, with deadlines, retries and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strand.lazy import loading

if TYPE_CHECKING:
    from strand.tasks.core import task as task
    from strand.tasks.ends import DeadLetter as DeadLetter
    from strand.tasks.ends import DeadLetters as DeadLetters
    from strand.tasks.future import TaskFuture as TaskFuture
    from strand.tasks.future import current_task as current_task
    from strand.tasks.groups import TaskGroup as TaskGroup
    from strand.tasks.options import Ranks as Ranks
    from strand.tasks.pool import Pool as Pool
    from strand.tasks.retry import RetryPolicy as RetryPolicy
    from strand.tasks.tasks import TaskExecutor as TaskExecutor
    from strand.tasks.tasks import Tasks as Tasks
    from strand.tasks.tasks import register_joblib as register_joblib
    from strand.tasks.timers import Periodic as Periodic

if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __all__, __getattr__, __dir__ = loading(
        __name__,
        {
            "core": "task",
            "ends": "DeadLetter DeadLetters",
            "future": "TaskFuture current_task",
            "groups": "TaskGroup",
            "options": "Ranks",
            "pool": "Pool",
            "retry": "RetryPolicy",
            "tasks": "TaskExecutor Tasks register_joblib",
            "timers": "Periodic",
        },
    )
