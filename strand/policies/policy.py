"""Scheduling policies: which of the ready strands a worker takes next. Marks of symbols and tasks, for the guard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import MARKS
from strand.brief import written
from strand.dicts import FrozenDict
from strand.errors import ConfigurationError
from strand.options import ByName, Choice, Span, named_fields, option, read_options
from strand.spans import Nanoseconds, SpanLike, span_ns, span_text
from strand.validate import did_you_mean, shown

__all__ = ["LEVELS", "Fifo", "Levels", "Policy", "give_policy", "level_name", "level_of", "mark_bits"]


def mark_bits(name: str, given: Any) -> int:
    """Set of bits for the mark, or marks, that the argument ``name`` was given. Raises ConfigurationError for an
    unknown one."""
    bits = 0
    for mark in [given] if isinstance(given, str) or not isinstance(given, Iterable) else given:
        if not isinstance(mark, str) or mark not in MARKS:
            cure = did_you_mean(mark, MARKS, after=" ")
            reason = f"{shown(mark)} is not a mark: {cure}give {' or '.join(MARKS)}, or several of them"
            raise ConfigurationError(name, reason)
        bits |= MARKS[mark]
    return bits


#: Levels, the highest first.
LEVELS: Final = ("immediate", "high", "retry", "normal", "low")
_TIMEOUTS: Final = {level: s * 10**9 for level, s in (("high", 30), ("retry", 60), ("normal", 300), ("low", 1800))}


def give_policy(*names: str) -> str:
    """The cure where another policy is needed, by their names in a file: in Python, in a file and for a command."""
    classes = " or ".join(f"{name.capitalize()}()" for name in names)
    return f"give policy={classes}, in a file policy.name = {' or '.join(map(repr, names))}"


def level_name(name: str, level: Any) -> str:
    """The name of a level that the argument ``name`` was given. Raises ConfigurationError."""
    return LEVELS[level_of(name, level)]


@dataclass(frozen=True, slots=True, repr=False)
class Policy:
    """Base of all policies; use one of its kinds."""

    #: The policy's name in the core; none for the base.
    core_name: ClassVar[str | None] = None
    #: The priority, as the core has it, of a symbol that ``priorities=`` does not name. None: the policy has none.
    usual_priority: ClassVar[int | None] = None

    def __repr__(self) -> str:
        return written(self, span_text)

    def core_options(self) -> dict[str, Any]:
        """Returns the options, by their names in the core's struct of this policy."""
        return {}

    def priority_of(self, name: str, priority: Any) -> int:
        """Returns a priority as the core has it.

        Args:
            name: The argument that it was given as.
            priority: The priority.

        Raises:
            ConfigurationError: If the policy does not have that priority.
        """
        del priority
        raise ConfigurationError(name, f"{type(self).__name__} has no priorities; {give_policy('levels', 'aging')}")

    def of_strand(self, priorities: npt.NDArray[np.uint32]) -> int:
        """Returns the priority of a strand whose symbols have these."""
        raise NotImplementedError


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Fifo(Policy):
    """Drains strands in the order in which they became ready.

    The worker that drained a strand last drains it again, unless an idle one comes first.
    """

    core_name = "fifo"


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Levels(Policy):
    """Drains a strand of the highest level that is ready first; within a level, the one that entered it first.

    Levels are ``immediate``, ``high``, ``retry``, ``normal`` and ``low``. A symbol is ``normal`` unless ``priorities=``
    of the dispatcher says otherwise. A strand has the highest level of its symbols.

    No worker begins a visit to a strand while one of a higher level is ready anywhere. Within a level, the order holds
    for each worker's list. docs/policies.md has the bound of a wait.

    A strand rises by one level at a look, and waits are looked at whenever a worker takes a strand. A visit ends the
    wait: a strand that still has something pending waits anew, in its own level.

    Publishers never handle ticks themselves, as they do under Fifo where that is cheaper.

    Raises:
        ConfigurationError: If a level is unknown, or a span is not above 0; or a timeout is of ``immediate``, or below
            that of a higher level.
    """

    core_name = "levels"
    usual_priority = LEVELS.index("normal")

    timeouts: Mapping[str, SpanLike] = option(
        FrozenDict(),
        ByName(Span(), level_name, "LEVEL=SPAN"),
        "By level, the wait after which a strand rises to the next higher level.",
        more="It is at least that of the level above; ``immediate`` has none. A level that is left out has its usual "
        "timeout, or the nearest one that those given allow. Usual are: ``high`` 30 s, ``retry`` 60 s, ``normal`` 5 "
        "min, ``low`` 30 min.",
        flag="--timeout",
    )
    since: Literal["entered", "created"] = option(
        "entered",
        Choice(("entered", "created")),
        "Whether a wait counts since the strand entered its level, or since it became ready.",
        flag=None,
    )
    hold: Mapping[str, SpanLike] = option(
        FrozenDict(),
        ByName(Span(), level_name, "LEVEL=SPAN"),
        "By level, how long a task waits before it may start, even on an idle worker.",
        more="Meanwhile it may resolve itself (``expire_if``). Other levels hold nothing, and ticks are never held.",
    )

    def __post_init__(self) -> None:
        faults = read_options(self)
        given: Mapping[str, Any] = {} if faults.has("timeouts") else self.timeouts
        if LEVELS[0] in given:
            reason = "has no timeout, because no level is higher: leave it out"
            faults.append(ConfigurationError(f"timeouts.{LEVELS[0]}", reason))
        for higher, lower in pairwise(level for level in LEVELS[1:] if level in given):
            if given[lower] < given[higher]:
                reason = f"{given[lower]:,} ns is less than the {given[higher]:,} ns of the higher level {higher!r}"
                faults.append(ConfigurationError(f"timeouts.{lower}", reason))
        faults.end()
        filled = {}
        for at, level in enumerate(LEVELS[1:], 1):
            minimum = max((given[name] for name in LEVELS[1:at] if name in given), default=0)
            maximum = min((given[name] for name in LEVELS[at + 1 :] if name in given), default=2**63 - 1)
            filled[level] = Nanoseconds(given.get(level, min(max(_TIMEOUTS[level], minimum), maximum)))
        object.__setattr__(self, "timeouts", FrozenDict(filled))

    def core_options(self) -> dict[str, Any]:
        return {"timeout_ns": self.timeouts_ns, "since_listed": self.since == "created"}

    def priority_of(self, name: str, priority: Any) -> int:
        return level_of(name, priority)

    def of_strand(self, priorities: npt.NDArray[np.uint32]) -> int:
        return int(priorities.min())  # the highest level

    @property
    def timeouts_ns(self) -> tuple[int, ...]:
        """The timeouts in ns, the highest level first; 0 for ``immediate``."""
        return (0, *(span_ns(level, self.timeouts[level]) for level in LEVELS[1:]))

    @property
    def holds_ns(self) -> tuple[int, ...]:
        """Time for which tasks of each level are held, in ns, the highest level first; 0: not at all."""
        return tuple(span_ns(level, self.hold[level]) if level in self.hold else 0 for level in LEVELS)


def level_of(name: str, level: Any) -> int:
    """The number of a level that the argument ``name`` was given; 0 is the highest. Raises ConfigurationError."""
    if isinstance(level, str):
        if level in LEVELS:
            return LEVELS.index(level)
        cure = did_you_mean(level, LEVELS, after=" ")
        raise ConfigurationError(name, f"{shown(level)} is not a level: {cure}give one of {', '.join(LEVELS)}")
    raise ConfigurationError(
        name,
        f"{shown(level)} is not a level: give a name, one of {', '.join(LEVELS)}; a number would be the highest in one "
        "tradition and the lowest in another",
    )
