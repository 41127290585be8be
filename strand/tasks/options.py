"""Options of a task, beside its function and arguments, and its rank by a policy's priorities."""

# Not with annotations as text: the declarations of options stand in types.

import datetime as dt
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Annotated, Any, TypedDict

import numpy as np

from strand.brief import brief
from strand.errors import ConfigurationError
from strand.options import Made, Object
from strand.policies.policy import CLASS_SHIFT, LEVELS, Aging, Levels, Policy, mark_bits
from strand.spans import SpanLike, span_ns, span_text
from strand.tasks.groups import GroupAccounts, TaskGroup
from strand.tasks.retry import RetryPolicy
from strand.validate import callable_of


class Ranks:
    """The priorities of tasks under one policy.

    ``groups``: under a policy that shares time among groups; None: groups make no difference to the pool. Raises
    ConfigurationError for what is no policy.
    """

    def __init__(self, policy: Policy, groups: GroupAccounts | None = None) -> None:
        if not isinstance(policy, Policy):
            raise ConfigurationError("policy", f"{policy!r} is not a policy; give one of strand, like strand.Levels()")
        self.policy = policy
        self.groups = groups
        #: Tasks whose numbers differ only in so many of the lowest bits are counted together.
        self.class_shift = CLASS_SHIFT if isinstance(policy, Aging) else 0
        #: True if priorities are levels, so that a task may rise from its level to a higher one.
        self.has_levels = isinstance(policy, Levels)
        #: Names by which tasks are counted, the highest first; empty under a policy without levels and classes.
        self.names = policy.level_names
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
    """Options that were checked. Spans are in ns, ``None`` or 0 where there are none. The last ones follow from the
    others and from ``ranks``."""

    ranks: InitVar[Ranks]
    number: int  # the priority, as the pool has it
    priority: Any = None
    key: Hashable | None = None
    strand: int | None = None
    deadline_ns: int | None = None
    #: A deadline that is a moment, in ns since 1970.
    deadline_at: int | None = None
    delay_ns: int = 0
    retry: RetryPolicy | None = None
    group: TaskGroup | None = None
    expire_if: Callable[[], Any] | None = None
    marks: int = 0
    #: True for a call of a dispatcher, which belongs to no group, and which a stop does not cancel.
    is_call: bool = False
    #: The hold of its level, the longer one of this and its delay, and the place where it is meanwhile.
    hold_ns: int = field(init=False)
    waits_ns: int = field(init=False)
    place: str = field(init=False)
    #: The place of ``Table.queued`` where such a task is counted.
    counted_at: int = field(init=False)
    #: True if such a task goes to the pool, its strand or its key's order at once, with nothing else to see to.
    goes_at_once: bool = field(init=False)
    #: True if a check is needed before the function is called.
    is_checked: bool = field(init=False)

    def __post_init__(self, ranks: Ranks) -> None:
        put, delay_ns = partial(object.__setattr__, self), self.delay_ns
        hold_ns = 0 if self.strand is not None else ranks.hold_ns(self.number)
        waits_ns = max(delay_ns, hold_ns)
        put("hold_ns", hold_ns)
        put("waits_ns", waits_ns)
        put("place", "waiting" if not waits_ns else "delayed" if delay_ns >= hold_ns else "held")
        put("counted_at", ranks.place_of(self.number) + (ranks.n_places if waits_ns else 0))
        put("goes_at_once", not waits_ns and self.group is None and not self.marks and self.deadline_at is None)
        put("is_checked", self.deadline_ns is not None or self.expire_if is not None)

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


def call_options(ranks: Ranks, strand: int) -> TaskOptions:
    """The options of a call on a strand."""
    return TaskOptions(ranks, ranks.usual, ranks.name_of(ranks.usual, None), strand=strand, is_call=True)


def deadline_of(name: str, deadline: SpanLike | dt.datetime) -> tuple[int | None, int | None]:
    """A deadline as a span in ns, or as a moment in ns since 1970. Raises ConfigurationError."""
    if not isinstance(deadline, dt.datetime):
        return span_ns(name, deadline, least=None), None
    if deadline.tzinfo is None:
        raise ConfigurationError(
            name, f"{deadline} has no time zone: give one, as in datetime.now(UTC) + timedelta(seconds=30)"
        )
    since = deadline - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return None, (since // dt.timedelta(microseconds=1)) * 1000


def _delay_ns(name: str, delay: SpanLike) -> int:
    return max(0, span_ns(name, delay, least=None))


def _key(name: str, key: Any) -> Hashable:
    try:
        hash(key)
    except TypeError:
        raise ConfigurationError(name, f"{key!r} cannot be hashed; give text, a number, or a tuple of them") from None
    found: Hashable = key
    return found


class NativeKeywords(TypedDict, total=False):
    """Options of tasks in C too, as ``submit_native`` takes them. What depends on the scheduler is checked there."""

    priority: Annotated[Any, None, "A priority of the policy. None: the usual one."]
    symbol: Annotated[
        str | int | None,
        None,
        "The task runs in order with that symbol's ticks.\nA retry comes behind the ticks that wait then.",
    ]
    deadline: Annotated[
        SpanLike | dt.datetime | None,
        None,
        Made(deadline_of),
        "A task that has not begun so long after its submit expires then, and is neither started nor tried again. "
        "None: no deadline.\nA datetime with a time zone is a moment instead. A deadline of 0 or less, or in the past, "
        "is over: the task expires at once.",
    ]
    marks: Annotated[
        str | Iterable[str] | None, None, Made(mark_bits), '``"io"``, ``"frees_memory"`` or both, for the guard.'
    ]


class TaskKeywords(NativeKeywords, total=False):
    """Options of tasks, as ``options`` takes them."""

    key: Annotated[
        Hashable | None,
        None,
        Made(_key),
        "Tasks of one key run in the order in which they join it, one at a time.\nA task joins when its delay or hold "
        "is over, and keeps its place while it waits for a retry. The next task has the highest priority of all that "
        "wait behind it.",
    ]
    delay: Annotated[SpanLike | None, None, Made(_delay_ns), "The task waits at least so long.\n0 or less: not at all."]
    retry: Annotated[
        RetryPolicy | None, None, Object(RetryPolicy), "When the task is tried again. None: as the scheduler says."
    ]
    group: Annotated[
        TaskGroup | None,
        None,
        Object(TaskGroup),
        "The group that the task belongs to. None: that of the block or task that submits it.",
    ]
    expire_if: Annotated[
        Callable[[], Any] | None,
        None,
        Made(callable_of),
        "Called without arguments in the worker before each start.\nTrue: the task expires. A priority: it waits anew "
        "with that one, if it is another one. False or None: it starts. If it raises, the task fails.",
    ]


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
