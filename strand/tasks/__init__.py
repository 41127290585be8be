"""Functions that a pool of workers runs: by priority, in the order of a key, with deadlines, retries and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strand.lazy import loading

if TYPE_CHECKING:
    from strand.tasks.core import task
    from strand.tasks.ends import DeadLetter, DeadLetters
    from strand.tasks.future import TaskFuture, current_task
    from strand.tasks.groups import TaskGroup
    from strand.tasks.options import Ranks
    from strand.tasks.pool import Pool
    from strand.tasks.retry import RetryPolicy
    from strand.tasks.tasks import TaskExecutor, Tasks, register_joblib
    from strand.tasks.timers import Periodic

__all__ = [
    "DeadLetter",
    "DeadLetters",
    "Periodic",
    "Pool",
    "Ranks",
    "RetryPolicy",
    "TaskExecutor",
    "TaskFuture",
    "TaskGroup",
    "Tasks",
    "current_task",
    "register_joblib",
    "task",
]

_MODULES: Final = {
    "DeadLetter": "ends",
    "DeadLetters": "ends",
    "Periodic": "timers",
    "Pool": "pool",
    "Ranks": "options",
    "RetryPolicy": "retry",
    "TaskExecutor": "tasks",
    "TaskFuture": "future",
    "TaskGroup": "groups",
    "Tasks": "tasks",
    "current_task": "future",
    "register_joblib": "tasks",
    "task": "core",
}


if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __getattr__ = loading(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
