"""The tables by symbol of a configuration file, by the checks of the dispatcher, whose errors are told by a path.

These are ``priorities.symbols``, ``groups`` and ``marks``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from strand.config.checking import SYMBOLS
from strand.config.reading import Key, key_text
from strand.dispatch.guard import Guard, marks_of
from strand.dispatch.priorities import priorities_of
from strand.errors import ConfigurationError
from strand.policies.every_policy import POLICIES
from strand.policies.fair import groups_of
from strand.policies.policy import Policy
from strand.symbols import SymbolTable, check_name

__all__ = ["check_groups", "check_marks", "check_priorities", "in_a_file"]

_NAMES: Final = {kind.__name__: name for name, kind in POLICIES.items()}
_MADE: Final = re.compile(rf"\b({'|'.join(_NAMES)})\(\)")
#: Arguments named in the dispatcher's errors, and their names in a file.
_IN_A_FILE: Final = {
    "policy=": "policy.name = ",
    "groups=, or regroup() a symbol": "the table groups",
    "guard=strand.Guard()": "resource_limits",
    "a set of both": "a list of both",
}


def check_priorities(policy: Policy, given: Mapping[Key, Any], problems: list[str]) -> dict[str, Any]:
    """The priorities of symbols, as the policy takes them. Its refusals are added to ``problems``."""
    at = ("priorities", SYMBOLS)
    return _check(at, given, lambda table, named: priorities_of(policy, table, named), problems)


def check_groups(policy: Policy, given: Mapping[Key, Any], problems: list[str]) -> dict[str, Any]:
    """The groups of symbols. The policy's refusals are added to ``problems``."""
    return _check(("groups",), given, lambda table, named: groups_of(policy, table, named), problems)


def check_marks(policy: Policy, given: Mapping[Key, Any], problems: list[str]) -> dict[str, Any]:
    """The marks of symbols. Marks that are refused are added to ``problems``: they are for a guard, which there is
    where limits are given, and a guard is for levels."""
    guard = Guard() if any(key[0] == "resource_limits" for key in given) else None
    try:
        marks_of(guard, policy, SymbolTable(1), None)
    except ConfigurationError as error:
        problems.append(in_a_file(str(error)).replace("guard:", "resource_limits:", 1))
        return {}
    return _check(("marks",), given, lambda table, named: marks_of(guard, policy, table, named), problems)


def _check(
    at: Key, given: Mapping[Key, Any], check: Callable[[SymbolTable, Mapping[str, Any]], object], problems: list[str]
) -> dict[str, Any]:
    """The values of a table by symbol, but for those that are refused. Each is checked alone, so that all that is wrong
    is told."""
    found = {}
    wrong: list[str] = []
    for key, value in given.items():
        if key[:-1] != at:
            continue
        symbol = key[-1]
        as_given = tuple(value) if isinstance(value, list) else value  # a file has no tuples
        try:
            if not check_name(key_text(at), symbol):
                raise ConfigurationError(f"{key_text(at)}: a name is empty")
            check(SymbolTable([symbol]), {symbol: as_given})
            found[symbol] = as_given
        except ConfigurationError as error:
            text = in_a_file(str(error))
            for name, path in ((f"{at[0]}: {symbol}: ", f"{key_text(key)}: "), (f"{at[0]}: ", f"{key_text(at)}: ")):
                if text.startswith(name):
                    text = path + text.removeprefix(name)
                    break
            wrong.append(text)
    problems += dict.fromkeys(wrong)
    return found


def in_a_file(error: str) -> str:
    """An error of the dispatcher, with what to give in a file."""
    error = _MADE.sub(lambda made: f'"{_NAMES[made[1]]}"', error)
    for words, others in _IN_A_FILE.items():
        error = error.replace(words, others)
    return error
