"""Groups of symbols, among which ``Fair`` shares time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from strand.binding.engine_words import UNIT_WEIGHT
from strand.errors import ConfigurationError
from strand.policies.policy import Fair, Policy, give_policy, group_name
from strand.symbols import SymbolTable
from strand.validate import nearest, path

__all__ = ["Groups", "groups_of"]


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
