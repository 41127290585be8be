"""Fair: on-CPU time is shared among groups of symbols, and capped over all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.engine_config import UNIT_WEIGHT
from strand.errors import ConfigurationError
from strand.options import named_fields
from strand.policies.policy import Policy
from strand.symbols import SymbolTable, check_name
from strand.validate import Faults, is_between, nearest

__all__ = ["Fair", "Groups", "groups_of"]

_LOWEST, _HIGHEST = 0.001, 1000.0
_LONGEST_MS: Final = 60_000.0


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Fair(Policy):
    """Shares the on-CPU time of handlers among groups of symbols, in slices, whatever their numbers of ticks.

    ``groups=`` of the dispatcher says which symbols make a group. A symbol that it does not name is a group of its own.
    A group that has used up its slice waits its turn. Of the groups that are ready, the one whose slice started
    earliest comes first. docs/policies.md has the formulas and what they promise.

    Publishers never handle ticks themselves, as they do under Fifo. Where they help to drain, that is charged too.

    Args:
        slice_ms: On-CPU time in ms, by all of a group's symbols together, after which a group of weight 1 waits its
            turn; 0.001 to 60,000.
        cpu_share: The share of on-CPU time that all groups may take together, of as many cores as there are workers;
            0.001 to 1. None sets no cap. While more was taken, no strand is drained, and workers sleep. With a cap they
            also sleep when nothing is ready, whatever ``idle`` says.
        burst_ms: After less work, so many ms of wall time of the cap may be taken at once; 0.001 to 60,000.
        weights: By group, what its slice is multiplied by: 0.001 to 1,000, in steps of 0.001. Other groups have 1.

    Raises:
        ConfigurationError: If a value is outside these ranges.
    """

    core_name = "fair"

    slice_ms: float = 20.0
    cpu_share: float | None = None
    burst_ms: float = 100.0
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        faults = Faults()
        for name in ("slice_ms", "burst_ms"):
            with faults.of(name):
                object.__setattr__(self, name, _in_range(name, getattr(self, name), 0.001, _LONGEST_MS, " (ms)"))
        with faults.of("cpu_share"):
            if self.cpu_share is not None:
                share = _in_range("cpu_share", self.cpu_share, 0.001, 1.0, ", or None for no cap")
                object.__setattr__(self, "cpu_share", share)
        weights = {}
        with faults.of("weights"):
            if not isinstance(self.weights, Mapping):
                raise ConfigurationError(f"weights: {type(self.weights).__name__} is not a dict of numbers by group")
            for group, weight in self.weights.items():
                with faults.of("weights", str(group)):
                    weight = _in_range(f"weights: {group}", weight, _LOWEST, _HIGHEST, "")
                    weights[_group_name("weights", group)] = weight
        faults.end()
        object.__setattr__(self, "weights", MappingProxyType(weights))

    def __hash__(self) -> int:  # a mapping has none
        return hash((self.slice_ms, self.cpu_share, self.burst_ms, frozenset(self.weights.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.slice_ms, self.cpu_share, self.burst_ms, dict(self.weights))

    def core_options(self) -> dict[str, Any]:
        return {
            "slice_ns": round(self.slice_ms * 1e6),
            "burst_ns": round(self.burst_ms * 1e6),
            "cpu_share": self.cpu_share or 0.0,
        }

    def priority_of(self, name: str, priority: Any) -> int:
        del priority
        raise ConfigurationError(f"{name}: Fair has groups, and no priorities: give groups=, or regroup() a symbol")

    def of_strand(self, priorities: npt.NDArray[np.uint32]) -> int:
        return int(np.bincount(priorities).argmax())  # the group of most of its symbols


def _in_range(name: str, value: Any, lowest: float, highest: float, more: str) -> float:
    if not is_between(value, lowest, highest):
        raise ConfigurationError(f"{name}: {value!r} is not a number from {lowest:g} to {highest:,g}{more}")
    return float(value)


def _group_name(option: str, name: Any) -> str:
    if check_name(option, name) == "*":
        raise ConfigurationError(f'{option}: no group is named "*"; groups={{"*": name}} is for the other symbols')
    return str(name)


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
        named = {symbol: _group_name(f"groups: {symbol}", group) for symbol, group in given.items()}
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
        raise ConfigurationError(
            f"group: {group!r} is not a group: name it in groups= or weights= when the dispatcher is made"
        )


def groups_of(policy: Policy, table: SymbolTable, given: Mapping[str, str] | None) -> Groups | None:
    """The groups of the symbols under Fair; None under another policy. Raises ConfigurationError where the policy has
    none, and for what is no name, and UnknownSymbolError."""
    if isinstance(policy, Fair):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigurationError(f"groups: {type(given).__name__} is not a dict of groups by symbol")
        return Groups(policy, table, given or {})
    if given is None or given == {}:
        return None
    raise ConfigurationError(f"groups: {type(policy).__name__} has no groups; give policy=Fair()")
