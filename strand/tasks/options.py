"""Options of a task, beside its function and arguments, and its rank by a policy's priorities."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from strand.brief import brief
from strand.errors import ConfigurationError
from strand.policies.policy import CLASS_SHIFT, CLASSES, LEVELS, Aging, Levels, Policy, mark_bits
from strand.spans import SpanLike, span_ns, span_text
from strand.tasks.groups import TaskGroup
from strand.tasks.retry import RetryPolicy

__all__ = [
    "GroupNumbers",
    "Ranks",
    "TaskOptions",
    "call_options",
    "check_retry",
    "check_wait",
    "deadline_of",
    "options_of",
]


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
            raise ConfigurationError("policy", f"{policy!r} is not a policy; give one of strand, like strand.Levels()")
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


@dataclass(frozen=True, slots=True, repr=False)
class TaskOptions:
    """Options that were checked. Spans are in ns, ``None`` or 0 where there are none."""

    number: int  # the priority, as the pool has it
    priority: Any = None
    key: Hashable | None = None
    strand: int | None = None
    deadline_ns: int | None = None
    #: A deadline that is a moment, in ns since 1970.
    deadline_at: int | None = None
    delay_ns: int = 0
    hold_ns: int = 0
    #: The longer one of its delay and the hold of its level, and the place where it is meanwhile.
    waits_ns: int = 0
    place: str = "waiting"
    retry: RetryPolicy | None = None
    group: TaskGroup | None = None
    expire_if: Callable[[], Any] | None = None
    marks: int = 0
    #: The place of ``Table.queued`` where such a task is counted.
    counted_at: int = 0
    #: True if such a task goes to the pool, its strand or its key's order at once, with nothing else to see to.
    goes_at_once: bool = True
    #: True for a call of a dispatcher, which belongs to no group, and which a stop does not cancel.
    is_call: bool = False
    #: True if a check is needed before the function is called.
    is_checked: bool = False

    @property
    def figures(self) -> tuple[str, ...]:
        """Options that were given, one text each, without the key, which may be somebody's data."""
        return (
            "" if self.priority is None else f"priority {self.priority}",
            "" if self.key is None else "with a key",
            "" if self.strand is None else f"strand {self.strand}",
            "" if self.deadline_ns is None else f"deadline {span_text(self.deadline_ns)}",
            "" if self.deadline_at is None else f"deadline {np.datetime64(self.deadline_at, 'ns')} UTC",
            f"delay {span_text(self.delay_ns)}" if self.delay_ns else "",
            "" if self.retry is None else repr(self.retry),
            "" if self.group is None else repr(self.group),
        )

    def __repr__(self) -> str:
        return brief(self, *self.figures)


def options_of(
    ranks: Ranks,
    strand_of: Callable[[Any], int] | None,
    *,
    priority: Any = None,
    key: Hashable | None = None,
    symbol: Any = None,
    deadline: SpanLike | dt.datetime | None = None,
    delay: SpanLike | None = None,
    retry: RetryPolicy | None = None,
    group: TaskGroup | None = None,
    expire_if: Callable[[], Any] | None = None,
    marks: Any = None,
) -> TaskOptions:
    """The options of ``Tasks.options``, which says what they are. Raises ConfigurationError, and for an unknown symbol
    what ``strand_of`` raises."""
    number = ranks.usual if priority is None else ranks.number_of("priority", priority)
    deadline_ns, deadline_at = deadline_of(deadline)
    delay_ns = 0 if delay is None else max(0, span_ns("delay", delay, least=None))
    _check_kinds(retry, group, expire_if)
    try:
        hash(key)
    except TypeError:
        raise ConfigurationError("key", f"{key!r} cannot be hashed; give text, a number, or a tuple of them") from None
    strand = None
    if symbol is not None:
        if key is not None:
            raise ConfigurationError(
                "symbol", "give either symbol or key: a task is in order with a symbol's ticks or with a key's tasks"
            )
        if priority is not None:
            raise ConfigurationError("priority", "a symbol's strand has one priority; change that of the symbol")
        if strand_of is None:
            raise ConfigurationError("symbol", "this scheduler has no ticks; give key= for an order among tasks")
        strand = strand_of(symbol)
    hold_ns = 0 if strand is not None else ranks.hold_ns(number)
    waits_ns = max(delay_ns, hold_ns)
    check_wait(delay_ns, hold_ns, deadline_ns)
    bits = 0 if marks is None else mark_bits("marks", marks)
    return TaskOptions(
        number=number,
        priority=ranks.name_of(number, priority),
        key=key,
        strand=strand,
        deadline_ns=deadline_ns,
        deadline_at=deadline_at,
        delay_ns=delay_ns,
        hold_ns=hold_ns,
        waits_ns=waits_ns,
        place="waiting" if not waits_ns else "delayed" if delay_ns >= hold_ns else "held",
        counted_at=ranks.place_of(number) + (ranks.n_places if waits_ns else 0),
        retry=retry,
        group=group,
        expire_if=expire_if,
        marks=bits,
        goes_at_once=not waits_ns and group is None and not bits and deadline_at is None,
        is_checked=deadline_ns is not None or expire_if is not None,
    )


def call_options(ranks: Ranks, strand: int) -> TaskOptions:
    """The options of a call on a strand."""
    number = ranks.usual
    return TaskOptions(
        number=number,
        priority=ranks.name_of(number, None),
        strand=strand,
        counted_at=ranks.place_of(number),
        is_call=True,
    )


def deadline_of(deadline: SpanLike | dt.datetime | None) -> tuple[int | None, int | None]:
    """A deadline as a span in ns, or as a moment in ns since 1970. Raises ConfigurationError."""
    if deadline is None:
        return None, None
    if not isinstance(deadline, dt.datetime):
        return span_ns("deadline", deadline, least=None), None
    if deadline.tzinfo is None:
        raise ConfigurationError(
            "deadline", f"{deadline} has no time zone: give one, as in datetime.now(UTC) + timedelta(seconds=30)"
        )
    since = deadline - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return None, (since // dt.timedelta(microseconds=1)) * 1000


def check_wait(delay_ns: int, hold_ns: int, deadline_ns: int | None) -> None:
    """Raises ConfigurationError where a delay or hold ends after the deadline. One that is over already is none of
    the caller's mistakes: the task expires."""
    waits_ns = max(delay_ns, hold_ns)
    if deadline_ns is not None and 0 < deadline_ns <= waits_ns:
        what = "delay" if delay_ns >= hold_ns else "hold"
        raise ConfigurationError(what, f"after {span_text(waits_ns)} the deadline of {span_text(deadline_ns)} is over")


def check_retry(retry: Any) -> None:
    """Raises ConfigurationError for what is neither a RetryPolicy nor None."""
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise ConfigurationError("retry", f"{retry!r} is not a strand.RetryPolicy")


def _check_kinds(retry: Any, group: Any, expire_if: Any) -> None:
    check_retry(retry)
    if group is not None and not isinstance(group, TaskGroup):
        raise ConfigurationError("group", f"{group!r} is not a strand.TaskGroup")
    if expire_if is not None and not callable(expire_if):
        raise ConfigurationError("expire_if", f"{expire_if!r} cannot be called")
