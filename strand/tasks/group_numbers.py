"""The groups of tasks of an engine, under a policy that shares time among groups."""

from __future__ import annotations

import threading

from strand.binding.engine import Engine
from strand.policies.fair import Groups

__all__ = ["NumberedGroups"]


class NumberedGroups:
    """See GroupNumbers. A group of symbols that has a task's group's name is the same group; others get numbers as they
    come, as many as the engine has."""

    def __init__(self, engine: Engine, groups: Groups) -> None:
        self._most = engine.max_groups
        self._groups = groups
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()

    def number_of(self, name: str, /) -> int:
        found = self._numbers.get(name)
        if found is None:
            with self._lock:
                found = self._numbers[name] = self._groups.number_of_tasks(name, self._most)
        return found

    def names(self) -> list[str]:
        with self._lock:
            return self._groups.names()
