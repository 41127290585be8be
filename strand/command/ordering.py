"""The options of scheduling policies, and what they make of ``strand.replay``'s arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from strand.command.handling import given_options
from strand.command.parameters import declared
from strand.options import ByName, Whole, options_in
from strand.policies.every_policy import POLICIES
from strand.policies.policy import Policy

__all__ = [
    "OPTIONS",
    "check_pair",
    "given_by_symbol",
    "of_other_policies",
    "order_of",
    "policy_arguments",
    "policy_keywords",
    "policy_named",
    "policy_options",
]

#: Options that are the dispatcher's beside a policy, and no arguments of it: the policies that have them, the name, and
#: what click takes.
_BESIDE: Final[Mapping[str, tuple[tuple[str, ...], str, dict[str, Any]]]] = {
    "priorities": (
        ("levels", "aging"),
        "--priority",
        {
            "metavar": "SYMBOL=VALUE",
            "multiple": True,
            "help": "Priority of a symbol; * stands for all others. Repeatable. For levels: a level. [default: normal] "
            "For aging: a whole number, a class, or both, such as urgent:10. [default: 0]",
        },
    ),
    "guards": (
        ("levels",),
        "--guard",
        {"is_flag": True, "default": None, "help": "Hold low levels back while CPU, memory or I/O is short."},
    ),
    "marks": (
        ("levels",),
        "--mark",
        {
            "metavar": "SYMBOL=MARK",
            "multiple": True,
            "help": "With --guard: mark a symbol as io or frees_memory; * stands for all others. Repeatable.",
        },
    ),
    "groups": (
        ("fair",),
        "--fair-group",
        {
            "metavar": "SYMBOL=GROUP",
            "multiple": True,
            "help": "Group of a symbol; * stands for all others. Repeatable. [default: one group per symbol]",
        },
    ),
}
_DECLARED: Final = {
    option.name: (name, option)
    for name, kind in POLICIES.items()
    for option in options_in(kind).values()
    if option.flag
}
#: The options of policies by keyword: the policies that have it, and its name.
OPTIONS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    **{keyword: (owners, flag) for keyword, (owners, flag, _) in _BESIDE.items()},
    **{keyword: ((name,), option.flag) for keyword, (name, option) in _DECLARED.items()},
}


def policy_keywords(*left_out: str) -> tuple[str, ...]:
    """The keywords of the options of all policies, but for those ``left_out``."""
    return tuple(keyword for keyword in OPTIONS if keyword not in left_out)


def policy_options(command: Callable[..., None], *left_out: str) -> Callable[..., None]:
    """Adds the options of all policies, but for those ``left_out``, as arguments by keyword."""
    for keyword in reversed([keyword for keyword in OPTIONS if keyword not in left_out]):
        if keyword in _BESIDE:
            _, flag, more = _BESIDE[keyword]
            command = click.option(flag, keyword, **more)(command)
        else:
            command = declared(_DECLARED[keyword][1])(command)
    return command


def of_other_policies(policies: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Raises UsageError for an option that none of these policies has."""
    for keyword, value in given.items():
        owners, option = OPTIONS[keyword]
        if value not in ((), None) and not set(owners) & set(policies):
            raise click.UsageError(f"{option}: give --policy {' or '.join(owners)} too")


def policy_named(name: str, given: Mapping[str, Any]) -> Policy:
    """A policy with what was given of its options; those of others are passed over. Raises ConfigurationError and
    UsageError."""
    if name == "fair":
        check_pair(given, "burst_ms", "--cpu-share", is_there=given["cpu_share"] is not None)
    return POLICIES[name](**policy_arguments(name, given))


def policy_arguments(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options given for a policy, as its class takes them; those of other policies are left out. Raises UsageError."""
    found = {}
    for keyword, (owner, option) in _DECLARED.items():
        value = given.get(keyword)
        if owner != name or value in ((), None):
            continue
        if isinstance(option.kind, ByName):
            texts = given_options(option.flag, value)
            found[keyword] = {key: option.kind.each.parse(text) for key, text in texts.items()}
        else:
            found[keyword] = option.kind.parse(value) if isinstance(value, str) else value
    return found


def check_pair(given: Mapping[str, Any], keyword: str, other: str, *, is_there: bool) -> None:
    """Raises UsageError for an option that needs another one, which is not there."""
    if given[keyword] not in ((), None) and not is_there:
        raise click.UsageError(f"{OPTIONS[keyword][1]}: give {other} too")


def given_by_symbol(name: str, keyword: str, given: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """The values of ``priorities``, ``groups`` or ``marks`` by symbol, each with its text. Raises UsageError."""
    texts = given_options(OPTIONS[keyword][1], given[keyword])
    is_aged = keyword == "priorities" and name == "aging"
    return {symbol: (_aged(text) if is_aged else text, text) for symbol, text in texts.items()}


def order_of(policy: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of order as ``strand.replay``'s arguments; empty for fifo. Raises ConfigurationError and UsageError."""
    of_other_policies((policy,), given)
    if policy == "fifo":
        return {}
    from strand.dispatch.guard import Guard

    is_guarded = bool(given["guards"])
    check_pair(given, "marks", "--guard", is_there=is_guarded)
    order: dict[str, Any] = {"policy": policy_named(policy, given)} | ({"guard": Guard()} if is_guarded else {})
    for keyword in ("groups" if policy == "fair" else "priorities", *(("marks",) if is_guarded else ())):
        found = given_by_symbol(policy, keyword, given)
        order[keyword] = {symbol: value for symbol, (value, _) in found.items()}
    return order


def _aged(text: str) -> Any:
    """A base, a class, or both, of a text like ``urgent:10``."""
    name, colon, base = text.partition(":")
    return (name, Whole().parse(base)) if colon else Whole().parse(text)
