"""The tables ``policy`` and ``priorities`` of a configuration file, by the classes of the policies.

A policy's name is that which it has in the core, and its options are its class's fields: a new policy in
``strand.policies`` needs nothing here. Its field ``timeouts`` stands in ``priorities``, with a key for each level.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args, get_type_hints

from strand.config.checking import SYMBOLS, check_span, shown, unknown
from strand.config.reading import Key, key_text
from strand.errors import ConfigurationError
from strand.policies.every_policy import POLICIES
from strand.policies.policy import LEVELS, Policy

__all__ = [
    "TIMEOUTS",
    "check_policy",
    "options",
    "takes_spans",
    "timeouts_of",
    "usual_policy",
    "usual_timeouts",
]


#: The level of each key of ``priorities`` that is a timeout.
TIMEOUTS: Final = {f"{level}_timeout": level for level in LEVELS}
_KEYS: Final = (*list(TIMEOUTS)[1:], SYMBOLS)  # there is no level above the first
_NO_TIMEOUT: Final = next(iter(TIMEOUTS))


def options(kind: type[Policy]) -> list[dataclasses.Field[Any]]:
    """The options of a policy that stand in the table ``policy``."""
    return [field for field in dataclasses.fields(kind) if field.name != "timeouts"]


def _has_timeouts(kind: type[Policy]) -> bool:
    """True if levels of the policy have timeouts."""
    return any(field.name == "timeouts" for field in dataclasses.fields(kind))


def usual_timeouts(kind: type[Policy]) -> Mapping[str, int]:
    """The timeouts, in ns by level, where none are given; empty where the policy has none."""
    return timeouts_of(kind()) if _has_timeouts(kind) else {}


def timeouts_of(policy: Policy) -> Mapping[str, int]:
    """The timeouts in force, in ns by level; empty where the policy has none."""
    found: Mapping[str, int] = getattr(policy, "timeouts", {})
    return found


def takes_spans(kind: type[Policy], option: str) -> bool:
    """True if an option takes spans of time, or tables or lists of them."""
    return _mentions(get_type_hints(kind)[option], dt.timedelta)


def _mentions(hint: Any, kind: type) -> bool:
    return hint is kind or any(_mentions(part, kind) for part in get_args(hint))


def usual_policy(given: Mapping[Key, Any]) -> str:
    """The policy of a file that names none: ``levels`` if it has timeouts of levels, or limits for a guard."""
    for key in given:
        if key[0] == "resource_limits" or (key[0] == "priorities" and key[1] in TIMEOUTS):
            return "levels"
    return "fifo"


def check_policy(given: Mapping[Key, Any], problems: list[str]) -> Policy | None:
    """The policy with its options and timeouts. Impossible values are added to ``problems``, and left out of the
    policy, so that more can be checked against it. None where too little of it is left for that."""
    name = given.get(("policy", "name"), usual_policy(given))
    if not isinstance(name, str) or name not in POLICIES:
        problems.append(f"policy.name: {shown(name)}: {unknown(name, 'policy', POLICIES)}")
        return None
    kind = POLICIES[name]
    wrong: list[str] = []
    arguments = _options(kind, name, given, wrong)
    timeouts = _timeouts(kind, name, given, wrong)
    needed = {field.name for field in options(kind) if _is_needed(field)}
    wrong += [
        f"policy.{option}: is missing: the policy {name} needs it" for option in sorted(needed - arguments.keys())
    ]
    found = None
    if needed <= arguments.keys():
        found, faulty = _make(kind, arguments | ({"timeouts": timeouts} if timeouts else {}), wrong)
        # The priorities depend on the classes.
        if found is None and not faulty & (needed | {"classes"}):
            right = {option: value for option, value in arguments.items() if option not in faulty}
            found, _ = _make(kind, right, [])
    problems += dict.fromkeys(wrong)
    return found


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _options(kind: type[Policy], name: str, given: Mapping[Key, Any], problems: list[str]) -> dict[str, Any]:
    """A policy's options, but for those that are added to ``problems``."""
    known = [field.name for field in options(kind)]
    found = {}
    for key, value in given.items():
        if key[0] != "policy" or key[1] == "name":
            continue
        if key[1] == "timeouts" and _has_timeouts(kind):
            problems.append("policy.timeouts: give priorities.low_timeout and the like")
        elif key[1] not in known:
            owners = [other for other, policy in POLICIES.items() if key[1] in (f.name for f in options(policy))]
            what = f"option of the policy {name}"
            of_others = f"it is not an {what}, but of {' and '.join(owners)}"
            problems.append(f"{key_text(key)}: {of_others if owners else unknown(key[1], what, ['name', *known])}")
        elif takes_spans(kind, key[1]) and (bare := next(_numbers(value), None)) is not None:
            problems.append(f"{key_text(key)}: {bare!r} is not text with a unit, such as '30s' or '250us'")
        else:
            found[key[1]] = value
    return found


def _numbers(value: Any) -> Iterator[int | float]:
    """The numbers in a value, in its lists and tables too."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (list, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _numbers(part)


def _timeouts(kind: type[Policy], name: str, given: Mapping[Key, Any], problems: list[str]) -> dict[str, str]:
    """Timeouts by level; wrong ones are added to ``problems`` instead."""
    found = {}
    for key, value in given.items():
        if key[0] != "priorities" or len(key) > 2:
            continue
        if key[1] == _NO_TIMEOUT and _has_timeouts(kind):
            if value != "0s":
                problems.append(
                    f'{key_text(key)}: has no timeout, because no level is higher: give "0s", or leave the key out'
                )
            continue
        if key[1] not in TIMEOUTS:
            problems.append(f"{key_text(key)}: {unknown(key[1], 'key of priorities', _KEYS)}")
            continue
        try:
            span = check_span(value)
        except ConfigurationError as error:
            problems.append(f"{key_text(key)}: {error}")
            continue
        if _has_timeouts(kind):
            found[TIMEOUTS[key[1]]] = span
        else:
            others = " or ".join(f'"{other}"' for other, policy in POLICIES.items() if _has_timeouts(policy))
            problems.append(f"{key_text(key)}: the policy {name} has no timeouts: give policy.name = {others}")
    return found


def _make(
    kind: type[Policy], arguments: Mapping[str, Any], problems: list[str]
) -> tuple[Policy | None, frozenset[str]]:
    """The policy, or None and the options that are wrong; what is wrong with them is added to ``problems``."""
    try:
        return kind(**arguments), frozenset()
    except ConfigurationError as error:
        every = (error, *error.others)
        for each in every:
            text = str(each)
            if len(each.field) == 2 and each.field[0] == "timeouts" and each.field[1] in LEVELS:
                level = each.field[1]
                problems.append(f"priorities.{level}_timeout: {text.removeprefix(f'timeouts: {level}: ')}")
            else:
                problems.append(f"policy.{text}")
        return None, frozenset(each.field[0] for each in every if each.field)
