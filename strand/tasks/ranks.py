"""Ranks of tasks by a policy's priorities: numbers for the pool, the level of a retry, holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import numpy as np

from strand.errors import ConfigurationError
from strand.policies.aging import CLASS_SHIFT, CLASSES, Aging
from strand.policies.policy import LEVELS, Levels, Policy
from strand.tasks.groups import TaskGroup

__all__ = ["GroupNumbers", "Ranks"]


class GroupNumbers(Protocol):
    """Groups as a pool knows them, under a policy that shares time among groups."""

    #: The waits of a number's tasks so far, by bucket, which are then forgotten; ``Counts`` sets it.
    take_waits: Callable[[int], Counter[int]]

    def number_of(self, group: TaskGroup | None, /) -> int:
        """The number of a group, which is the priority of its tasks. Raises QueueFull for one too many."""
        ...

    def waits(self, by_number: dict[int, Counter[int]], /) -> dict[str, Counter[int]]:
        """Waits by the name of the group, from those by number."""
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
        #: True if priorities are levels, so that a task may rise from its level to a higher one.
        self.has_levels = isinstance(policy, Levels)
        #: Names by which tasks are counted, the highest first; empty under a policy without levels and classes.
        self.names: tuple[str, ...] = ()
        if self.has_levels:
            self.names = LEVELS
        elif isinstance(policy, Aging):
            self.names = CLASSES[-1:] if policy.classes is None else tuple(c for c in CLASSES if c in policy.classes)
        self._holds_ns = policy.holds_ns if isinstance(policy, Levels) else ()
        #: The number of a task to which no priority was given.
        self.usual: int = policy.usual_priority or 0

    @property
    def n_places(self) -> int:
        """Number of places by which tasks are counted."""
        return max(1, len(self.names))

    def number_of(self, name: str, priority: Any) -> int:
        """A priority that the option ``name`` was given, as the pool has it. Raises ConfigurationError."""
        return self.policy.priority_of(name, priority)

    def name_of(self, number: int, given: Any) -> Any:
        """Name of a priority's number: the level, or the value that was given."""
        return LEVELS[number] if self.has_levels else given

    def hold_ns(self, number: int) -> int:
        """Time for which a task of this priority is held, ns; 0: not at all."""
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
        return self.groups.number_of(group)

    def place_of(self, number: int) -> int:
        """The place in ``names`` of what a task of this priority is counted by; 0 where there are none."""
        if self.has_levels:
            return number
        return len(self.names) - 1 - (number >> self.class_shift) if self.names else 0

    def for_retry(self, number: int) -> int:
        """The priority of a task that failed for a transient reason: level ``retry``; without levels its own."""
        return LEVELS.index("retry") if self.has_levels else number

    def raised(self, number: int) -> int:
        """The priority of a task that the system failed: one level up; without levels its own."""
        return max(number - 1, 0) if self.has_levels else number

    def by_name(self, counts: Sequence[int]) -> dict[str, int]:
        """Counts by place as counts by name."""
        return dict(zip(self.names, counts, strict=False))
