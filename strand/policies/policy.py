"""Scheduling policies: which of the ready strands a worker takes next. Groups of symbols, among which ``Fair`` shares
time, and marks of symbols and tasks, for the guard.

A policy is a class here, by its name in the core, and its line in ``POLICIES``. Its options are its fields: files, the
command line and their documentation are made of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import AGING_BY_LOAD, AGING_MAXIMUM, AGING_USUAL, MARKS, UNIT_WEIGHT, PolicyConfig
from strand.brief import written
from strand.dicts import FrozenDict
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.options import ByName, Choice, Number, Span, Whole, named_fields, option, read_options
from strand.spans import Nanoseconds, SpanLike, span_ns, span_text
from strand.symbols import SymbolTable, check_name
from strand.validate import did_you_mean, is_whole, nearest, path, shown


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
    #: The option that may change while a program runs; None: none.
    live_option: ClassVar[str | None] = None

    def __repr__(self) -> str:
        return written(self, span_text)

    def core_options(self) -> dict[str, Any]:
        """Returns the options, by their names in the core's struct of this policy."""
        return {}

    def check_change(self, policy: Policy) -> None:
        """Checks that a running program may go over to another policy.

        Args:
            policy: The other policy.

        Raises:
            ConfigurationError: If it is of another kind, or another option than ``live_option`` differs.
        """
        if type(policy) is not type(self):
            mine = type(self).__name__
            raise ConfigurationError("policy", f"{policy!r} is of another kind: while a program runs, {mine} stays")
        for field in fields(self):
            if field.name != self.live_option and getattr(policy, field.name) != getattr(self, field.name):
                reason = f"it cannot change while a program runs; of this policy {self.live_option or 'nothing'} can"
                raise ConfigurationError(field.name, reason)

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of the levels or classes by which strands and tasks are counted, the highest first; empty without."""
        return ()

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
    live_option = "timeouts"
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

    @property
    def level_names(self) -> tuple[str, ...]:
        """The five levels."""
        return LEVELS

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


#: Classes, the highest first.
CLASSES: Final = ("urgent", "high", "normal")
#: Rules other than priority by which a strand may be taken, in the core's order.
RULES: Final = ("low_every", "max_wait")
#: Bounds of a coefficient, in points per second. The core's resolution is 2e-7 of the least one at 5 GHz.
_LEAST, _MOST = 0.001, 1_000_000.0
#: The core has the class in the upper bits.
CLASS_SHIFT: Final = 30


_COEFFICIENT: Final = Number(_LEAST, _MOST, "points per second")


def _class(name: str, given: Any) -> str:
    if given not in CLASSES:
        raise ConfigurationError(name, f"{shown(given)} is not a class: give urgent, high and normal")
    return str(given)


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Aging(Policy):
    """Drains the strand with the highest priority first, which grows with the wait.

    A priority is a base plus a coefficient for each second of waiting, in points. A wait counts since the strand was
    last listed as ready. A base is a whole number from -500,000,000 to 500,000,000; the bigger one comes first. It is 0
    unless ``priorities=`` of the dispatcher says otherwise.

    docs/policies.md says what holds across workers, and has the bound of a wait.

    Publishers never handle ticks themselves, as they do under Fifo where that is cheaper.

    Raises:
        ConfigurationError: If a value is out of these bounds, both ``coefficient`` and ``classes`` are given, or
            ``low_every`` without ``classes``. Also if ``classes`` are not these three.
    """

    core_name = "aging"
    usual_priority = AGING_USUAL

    coefficient: float | None = option(
        None,
        _COEFFICIENT,
        "Points that a strand gains per second of waiting.",
        unset="1",
        more="It is not given beside classes.",
        flag=None,
    )
    low_every: int | Literal["load"] | None = option(
        None,
        Whole(1, 1_000_000, "load", "N|load"),
        "After so many strands of higher classes, a worker takes the strand of class normal that has waited longest.",
        unset="never",
        more='``"load"`` makes that number 8 x ready strands of higher classes / ready strands of ``normal``, at least '
        "2 and at most 64.",
        flag=None,
    )
    classes: Mapping[str, float] | None = option(
        None,
        ByName(_COEFFICIENT, _class, "CLASS=COEFFICIENT"),
        "In place of coefficient, one for each of the classes urgent, high and normal.",
        unset="one coefficient for all",
        more="None is below that of a lower class. A priority is then a base (of class ``normal``), a class (with base "
        '0), or both: ``("urgent", 10)``.',
        flag="--class",
    )
    max_wait: SpanLike | None = option(
        None,
        Span(),
        "A strand that has waited longer comes before all that have not.",
        unset="no such bound",
        more="Of several, the one that has waited longest comes first.",
        flag=None,
    )  # kept in ns

    def __post_init__(self) -> None:
        faults = read_options(self)
        if self.classes is None:
            if self.coefficient is None:
                object.__setattr__(self, "coefficient", 1.0)
            if self.low_every is not None and not faults.has("low_every"):
                reason = "without classes there is no lowest class; give classes too"
                faults.append(ConfigurationError("low_every", reason))
        elif self.coefficient is not None and not faults.has("coefficient"):
            reason = "classes has one for each class; give either coefficient or classes"
            faults.append(ConfigurationError("coefficient", reason))
        if self.classes is not None and not faults.has("classes"):
            with faults.kept():
                object.__setattr__(self, "classes", _ordered(self.classes))
        faults.end()

    @property
    def level_names(self) -> tuple[str, ...]:
        """The classes that this policy has."""
        return CLASSES[-1:] if self.classes is None else tuple(name for name in CLASSES if name in self.classes)

    def core_options(self) -> dict[str, Any]:
        classes = {CLASSES[-1]: self.coefficient} if self.classes is None else self.classes
        coefficients = [classes[name] for name in reversed(CLASSES) if name in classes]
        return {
            "coefficient": (*coefficients, *[0.0] * (len(CLASSES) - len(coefficients))),
            "n_classes": len(coefficients),
            "low_every": AGING_BY_LOAD if self.low_every == "load" else self.low_every or 0,
            "max_wait_ns": self.max_wait or 0,
        }

    def priority_of(self, name: str, priority: Any) -> int:
        if is_whole(priority):
            return self._number(name, CLASSES[-1], priority)
        if self.classes is not None:
            cls, base = priority if isinstance(priority, tuple) and len(priority) == 2 else (priority, 0)
            if isinstance(cls, str) and is_whole(base):
                return self._number(name, cls, base)
        raise ConfigurationError(name, f"{shown(priority)} is not a priority: {self._cure(priority)}")

    def _number(self, name: str, cls: str, base: int) -> int:
        if cls not in CLASSES:
            what = "a level of Levels" if cls in LEVELS else "not a class"
            cure = did_you_mean(cls, CLASSES, after=" ")
            raise ConfigurationError(name, f"{shown(cls)} is {what}: {cure}{self._cure(cls)}")
        if not -AGING_MAXIMUM <= base <= AGING_MAXIMUM:
            reason = f"{base:,} is out of range: a base is from -500,000,000 to 500,000,000"
            raise ConfigurationError(name, reason)
        return ((len(CLASSES) - 1 - CLASSES.index(cls)) << CLASS_SHIFT) + self.usual_priority + int(base)

    def _cure(self, priority: Any) -> str:
        """Advice for a value that is no priority: the values to give instead."""
        if isinstance(priority, (float, np.floating)) and float(priority).is_integer():
            return f"give {int(priority)}, without a point"
        if self.classes is None:
            classes = ", or classes to Aging for priorities by name" if isinstance(priority, (str, tuple)) else ""
            return f"give a whole number, the bigger one comes first{classes}"
        return f"give a whole number, one of {', '.join(CLASSES)}, or both, like ('urgent', 10)"

    def of_strand(self, priorities: npt.NDArray[np.uint32]) -> int:
        return int(priorities.max())  # the highest class, and in it the biggest base


def _ordered(given: Mapping[str, float]) -> FrozenDict[str, float]:
    """The coefficients, the highest class first. Raises ConfigurationError."""
    if missing := [name for name in CLASSES if name not in given]:
        raise ConfigurationError("classes", f"{missing[0]!r} is missing: give urgent, high and normal")
    for higher, lower in pairwise(CLASSES):
        if given[higher] < given[lower]:
            reason = f"{higher!r} has {given[higher]:g}, less than {given[lower]:g} of the lower class {lower!r}"
            raise ConfigurationError("classes", reason)
    return FrozenDict({name: given[name] for name in CLASSES})


def group_name(option: str, name: Any) -> str:
    """The name of a group that the argument ``option`` was given. Raises ConfigurationError."""
    if check_name(option, name) == "*":
        raise ConfigurationError(option, 'no group is named "*"; groups={"*": name} is for the other symbols')
    return str(name)


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Fair(Policy):
    """Shares the on-CPU time of handlers among groups of symbols, in slices, whatever their numbers of ticks.

    ``groups=`` of the dispatcher says which symbols make a group. A symbol that it does not name is a group of its own.
    A group that has used up its slice waits its turn. Of the groups that are ready, the one whose slice started
    earliest comes first. docs/policies.md has the formulas and what they promise.

    Publishers never handle ticks themselves, as they do under Fifo. Where they help to drain, that is charged too.

    Raises:
        ConfigurationError: If a value is outside these ranges.
    """

    core_name = "fair"
    live_option = "weights"

    slice_ms: float = option(
        20.0,
        Number(0.001, 60_000, "ms", metavar="MS"),
        "On-CPU time, by all of a group's symbols together, after which a group of weight 1 waits its turn.",
        flag=None,
    )
    cpu_share: float | None = option(
        None,
        Number(0.001, 1, metavar="SHARE"),
        "Share of on-CPU time that all groups may take together, of as many cores as there are workers.",
        unset="no cap",
        more="While more was taken, no strand is drained, and workers sleep. With a cap they also sleep when nothing "
        "is ready, whatever ``idle`` says.",
        flag=None,
    )
    burst_ms: float = option(
        100.0,
        Number(0.001, 60_000, "ms", metavar="MS"),
        "With cpu_share: after less work, so much wall time of the cap may be taken at once.",
        flag=None,
    )
    weights: Mapping[str, float] = option(
        FrozenDict(),
        ByName(Number(0.001, 1000), group_name, "GROUP=NUMBER"),
        "By group, what its slice is multiplied by.",
        more="In steps of 0.001. Other groups have 1.",
        flag="--weight",
    )

    def __post_init__(self) -> None:
        read_options(self).end()

    def core_options(self) -> dict[str, Any]:
        return {
            "slice_ns": round(self.slice_ms * 1e6),
            "burst_ns": round(self.burst_ms * 1e6),
            "cpu_share": self.cpu_share or 0.0,
        }

    def priority_of(self, name: str, priority: Any) -> int:
        del priority
        raise ConfigurationError(name, "Fair has groups, and no priorities: give groups, or regroup() a symbol")

    def of_strand(self, priorities: npt.NDArray[np.uint32]) -> int:
        return int(np.bincount(priorities).argmax())  # the group of most of its symbols


#: Every policy by its name in the core, in a configuration file and on the command line, in the order of policy.h.
POLICIES: Final[Mapping[str, type[Policy]]] = MappingProxyType(
    {str(kind.core_name): kind for kind in (Fifo, Levels, Aging, Fair)}
)


def policy_config(policy: Policy) -> PolicyConfig:
    """A policy as the engine takes it. Raises ConfigurationError."""
    if not isinstance(policy, Policy) or policy.core_name is None:
        *others, last = (f"{kind.__name__}()" for kind in POLICIES.values())
        raise ConfigurationError("policy", f"{policy!r} is not a policy: give {', '.join(others)} or {last}")
    return PolicyConfig(policy.core_name, policy.core_options())


def _misspelt(weights: Mapping[str, float], number: Mapping[str, int], used: Collection[int]) -> dict[str, str]:
    """Groups with a weight and no symbol, each with the group of a like name that has symbols and no weight."""
    lacking = [name for name in number if name not in weights and number[name] in used]
    empty = [name for name in weights if number[name] not in used]
    near = ((name, nearest(name, lacking)) for name in empty)
    return {name: found for name, found in near if found is not None}


class Groups:
    """The groups of a dispatcher's symbols. ``of_symbol``: the group of each, as the core numbers them, shape
    (n_symbols,). ``given``: names of groups by symbol, with ``"*"`` for the others. ``misspelt``: names in ``weights``
    that seem to mean another group, by which."""

    def __init__(self, policy: Fair, table: SymbolTable, given: Mapping[str, str]) -> None:
        named = {symbol: group_name(path("groups", symbol), group) for symbol, group in given.items()}
        others = named.pop("*", None)
        self._table = table
        #: Those of tasks' groups, once there are tasks.
        self.accounts: Any = None
        names = dict.fromkeys((*named.values(), *(() if others is None else (others,)), *policy.weights))
        self._number = {name: number for number, name in enumerate(names)}
        self.of_symbol = np.full(len(table), 0 if others is None else self._number[others], np.uint32)
        alone = np.full(len(table), others is None)
        for symbol, group in named.items():
            index = table.index(symbol)
            self.of_symbol[index], alone[index] = self._number[group], False
        # A symbol that is not named is in the group that has its name.
        for name, number in self._number.items():
            if others is None and name in table and alone[index := table.index(name)]:
                self.of_symbol[index], alone[index] = number, False
        self._own = np.flatnonzero(alone)
        self.of_symbol[self._own] = len(self._number) + np.arange(len(self._own), dtype=np.uint32)
        self.misspelt = _misspelt(policy.weights, self._number, set(self.of_symbol.tolist()))
        self.weights = {self._number[name]: round(weight * UNIT_WEIGHT) for name, weight in policy.weights.items()}

    def __len__(self) -> int:
        return len(self._number) + len(self._own)

    def names(self) -> list[str]:
        """The names of all, in the order of their numbers."""
        return [*self._number, *(self._table[int(index)] for index in self._own)]

    def number(self, group: str) -> int:
        """The number of a group. Raises ConfigurationError where there is none of that name."""
        if isinstance(group, str):
            if group in self._number:
                return self._number[group]
            if group in self._table:
                at = int(np.searchsorted(self._own, index := self._table.index(group)))
                if at < len(self._own) and self._own[at] == index:
                    return len(self._number) + at
        reason = f"{group!r} is not a group: name it in groups= or weights= when the dispatcher is made"
        raise ConfigurationError("group", reason)


def groups_of(policy: Policy, table: SymbolTable, given: Mapping[str, str] | None) -> Groups | None:
    """The groups of the symbols under Fair; None under another policy. Raises ConfigurationError where the policy has
    none, and for what is no name, and UnknownSymbolError."""
    if isinstance(policy, Fair):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigurationError("groups", f"{type(given).__name__} is not a dict of groups by symbol")
        return Groups(policy, table, given or {})
    if given is None or given == {}:
        return None
    raise ConfigurationError("groups", f"{type(policy).__name__} has no groups; {give_policy('fair')}")
