"""What a policy makes of the priorities of tasks: numbers for the pool, the level of a retry, holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from typing import Any, Final, Protocol

import numpy as np

from strand.errors import ConfigurationError
from strand.policies.aging import CLASS_SHIFT, CLASSES, Aging
from strand.policies.policy import LEVELS, Levels, Policy
from strand.tasks.groups import TaskGroup

__all__ = ["IN_NO_GROUP", "GroupNumbers", "Ranks"]

#: Under a policy that shares time among groups, that of tasks that are in none, or in one without a name.
IN_NO_GROUP: Final = "(tasks)"


class GroupNumbers(Protocol):
    """Groups as a pool knows them, under a policy that shares time among groups."""

    def number_of(self, name: str, /) -> int:
        """The number of a group, which is the priority of its tasks. Raises ConfigurationError for one too many."""
        ...

    def names(self) -> list[str]:
        """The names of all, in the order of their numbers."""
        ...


class Ranks:
    """The priorities of tasks under one policy.

    ``groups``: under a policy that shares time among groups; None: groups make no difference to the pool. Raises
    ConfigurationError for what is no policy.
    """

    def __init__(self, policy: Policy, groups: GroupNumbers | None = None) -> None:
        if not isinstance(policy, Policy):
            raise ConfigurationError(f"policy: {policy!r} is not a policy; give one of strand, like strand.Levels()")
        self.policy = policy
        self.groups = groups
        #: Tasks whose numbers differ only in so many of the lowest bits are counted together.
        self.class_shift = CLASS_SHIFT if isinstance(policy, Aging) else 0
        self._levels = isinstance(policy, Levels)
        self._holds_ns = policy.holds_ns if isinstance(policy, Levels) else ()
        #: The number of a task to which no priority was given.
        self.usual: int = policy.usual_priority or 0

    def number_of(self, name: str, priority: Any) -> int:
        """A priority that the option ``name`` was given, as the pool has it. Raises ConfigurationError."""
        return self.policy.priority_of(name, priority)

    def name_of(self, number: int, given: Any) -> Any:
        """What people call a number: the level, or what was given."""
        return LEVELS[number] if self._levels else given

    def hold_ns(self, number: int) -> int:
        """How long a task of this priority is held, ns; 0: not at all."""
        return self._holds_ns[number] if self._holds_ns else 0

    def highest(self, own: int, numbers: Collection[int]) -> int:
        """The highest of some priorities, with that of the task that is to run; under a policy without priorities its
        own number."""
        if len(numbers) == 1 or self.policy.usual_priority is None:
            return own
        return self.policy.of_strand(np.fromiter(numbers, np.uint32, len(numbers)))

    def number_in(self, group: TaskGroup | None, number: int) -> int:
        """The number of a task in a group: the group's, where the policy has groups; else its own."""
        if self.groups is None:
            return number
        return self.groups.number_of(IN_NO_GROUP if group is None or group.name is None else group.name)

    def counted_by(self) -> dict[int, str]:
        """What tasks are counted by, by their numbers without the lowest bits: levels and classes, the highest first,
        or groups; nothing under a policy that knows none of these."""
        if self._levels:
            return dict(enumerate(LEVELS))
        if isinstance(self.policy, Aging):
            classes = CLASSES[-1:] if self.policy.classes is None else [c for c in CLASSES if c in self.policy.classes]
            return {len(CLASSES) - 1 - CLASSES.index(name): name for name in classes}
        return {} if self.groups is None else dict(enumerate(self.groups.names()))

    def for_retry(self, number: int) -> int:
        """The priority of a task that failed for a transient reason: level ``retry``; without levels its own."""
        return LEVELS.index("retry") if self._levels else number

    def raised(self, number: int) -> int:
        """The priority of a task that the system failed: one level up; without levels its own."""
        return max(number - 1, 0) if self._levels else number

    def count(self, priorities: Iterable[Hashable]) -> dict[Any, int]:
        """How many there are of each; under Levels of every level, the highest first."""
        found = Counter(priorities)
        return {level: found[level] for level in LEVELS} if self._levels else dict(found)
