"""The options of scheduling policies, and what they make of ``strand.replay``'s arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from strand.command.handling import given_options
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

#: Options that are the dispatcher's beside a policy, and no arguments of it.
_NO_ARGUMENTS: Final = ("priorities", "groups", "guards", "marks")
#: The options of policies by keyword: the policies that have it, its name, and what click takes.
OPTIONS: Final[Mapping[str, tuple[tuple[str, ...], str, dict[str, Any]]]] = {
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
    "timeouts": (
        ("levels",),
        "--timeout",
        {
            "metavar": "LEVEL=SPAN",
            "multiple": True,
            "help": "Let a strand rise from LEVEL after it has waited for SPAN, such as low=5ms. Repeatable.",
        },
    ),
    "since": (
        ("levels",),
        "--since",
        {
            "type": click.Choice(["entered", "created"]),
            "help": "Count a wait since the strand entered its level, or since it became ready. [default: entered]",
        },
    ),
    "guards": (
        ("levels",),
        "--guard",
        {
            "is_flag": True,
            "default": None,
            "help": "Hold low levels back while CPU, memory or I/O is short.",
        },
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
    "coefficient": (
        ("aging",),
        "--coefficient",
        {"type": float, "help": "Points that a strand gains per second of waiting. [default: 1]"},
    ),
    "classes": (
        ("aging",),
        "--class",
        {
            "metavar": "CLASS=COEFFICIENT",
            "multiple": True,
            "help": "Coefficient of a class. Give one each for urgent, high and normal.",
        },
    ),
    "low_every": (
        ("aging",),
        "--low-every",
        {
            "metavar": "N|load",
            "help": "Take one strand of class normal after N of higher classes, or as the load requires.",
        },
    ),
    "max_wait": (
        ("aging",),
        "--max-wait",
        {"metavar": "SPAN", "help": "Take a strand before all others when it has waited longer than SPAN."},
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
    "weights": (
        ("fair",),
        "--weight",
        {
            "metavar": "GROUP=NUMBER",
            "multiple": True,
            "help": "Multiply the slice of a group by NUMBER. Repeatable.",
        },
    ),
    "slice_ms": (
        ("fair",),
        "--slice-ms",
        {"type": float, "metavar": "MS", "help": "Slice of a group, in ms on the CPU. [default: 20]"},
    ),
    "cpu_share": (
        ("fair",),
        "--cpu-share",
        {
            "type": float,
            "metavar": "SHARE",
            "help": "Share of the workers' CPU time that handlers may use, such as 0.5 for half.",
        },
    ),
    "burst_ms": (
        ("fair",),
        "--burst-ms",
        {
            "type": float,
            "metavar": "MS",
            "help": "With --cpu-share: CPU time in ms that may be used at once. [default: 100]",
        },
    ),
}


def policy_keywords(*left_out: str) -> tuple[str, ...]:
    """The keywords of the options of all policies, but for those ``left_out``."""
    return tuple(keyword for keyword in OPTIONS if keyword not in left_out)


def policy_options(command: Callable[..., None], *left_out: str) -> Callable[..., None]:
    """Adds the options of all policies, but for those ``left_out``, as arguments by keyword."""
    for keyword, (_, option, more) in reversed(list(OPTIONS.items())):
        if keyword not in left_out:
            command = click.option(option, keyword, **more)(command)
    return command


def of_other_policies(policies: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Raises UsageError for an option that none of these policies has."""
    for keyword, value in given.items():
        owners, option, _ = OPTIONS[keyword]
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
    for keyword, value in given.items():
        owners, option, _ = OPTIONS[keyword]
        if name not in owners or keyword in _NO_ARGUMENTS or value in ((), None):
            continue
        if isinstance(value, tuple):
            texts = given_options(option, value)
            is_number = keyword in ("classes", "weights")
            found[keyword] = {key: _number(text, float) for key, text in texts.items()} if is_number else texts
        else:
            found[keyword] = _number(value, int) if keyword == "low_every" else value
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
    return (name, _number(base, int)) if colon else _number(text, int)


def _number(text: str, kind: Callable[[str], Any]) -> Any:
    """The number of a text; the text itself where it is none, which the policy then refuses or knows."""
    try:
        return kind(text)
    except ValueError:
        return text
