"""The options of scheduling policies, and what they make of ``strand.replay``'s arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from strand.command.handling import given_options
from strand.dispatch.aging import Aging
from strand.dispatch.fair import Fair
from strand.dispatch.guard import Guard
from strand.dispatch.policies import Fifo, Levels, Policy

__all__ = ["POLICIES", "of_other_policies", "ordering", "policy_keywords", "policy_named", "policy_options"]

#: The policies, by their names.
POLICIES: Final = ("fifo", "levels", "aging", "fair")
#: The options of policies by keyword: the policies that have it, its name, and what click takes.
_OPTIONS: Final[Mapping[str, tuple[tuple[str, ...], str, dict[str, Any]]]] = {
    "priorities": (
        ("levels", "aging"),
        "--priority",
        {
            "metavar": "SYMBOL=VALUE",
            "multiple": True,
            "help": "The priority of a symbol, * for the others. With --policy levels: a level. [default: normal] "
            "With --policy aging: a whole number, a class, or both, like urgent:10. [default: 0]",
        },
    ),
    "timeouts": (
        ("levels",),
        "--timeout",
        {
            "metavar": "LEVEL=SPAN",
            "multiple": True,
            "help": "With --policy levels: the wait after which a strand rises from a level, like low=5ms.",
        },
    ),
    "since": (
        ("levels",),
        "--since",
        {
            "type": click.Choice(["entered", "created"]),
            "help": "With --policy levels: from when a wait counts. [default: entered]",
        },
    ),
    "guards": (
        ("levels",),
        "--guard",
        {
            "is_flag": True,
            "default": None,
            "help": "With --policy levels: hold low levels back while CPU, memory or I/O is short.",
        },
    ),
    "marks": (
        ("levels",),
        "--mark",
        {
            "metavar": "SYMBOL=MARK",
            "multiple": True,
            "help": "With --guard: io or frees_memory, * for the other symbols.",
        },
    ),
    "coefficient": (
        ("aging",),
        "--coefficient",
        {"type": float, "help": "With --policy aging: points per second of a wait. [default: 1]"},
    ),
    "classes": (
        ("aging",),
        "--class",
        {
            "metavar": "CLASS=COEFFICIENT",
            "multiple": True,
            "help": "With --policy aging: the coefficient of a class; one each for urgent, high and normal.",
        },
    ),
    "low_every": (
        ("aging",),
        "--low-every",
        {
            "metavar": "N|load",
            "help": "With --policy aging: one strand of class normal after so many of higher classes, or as the load "
            "says.",
        },
    ),
    "max_wait": (
        ("aging",),
        "--max-wait",
        {"metavar": "SPAN", "help": "With --policy aging: a strand that waits longer comes first."},
    ),
    "groups": (
        ("fair",),
        "--fair-group",
        {
            "metavar": "SYMBOL=GROUP",
            "multiple": True,
            "help": "With --policy fair: the group of a symbol, * for the others. [default: a group of its own]",
        },
    ),
    "weights": (
        ("fair",),
        "--weight",
        {
            "metavar": "GROUP=NUMBER",
            "multiple": True,
            "help": "With --policy fair: what the slice of a group is multiplied by.",
        },
    ),
    "slice_ms": (
        ("fair",),
        "--slice-ms",
        {"type": float, "help": "With --policy fair: the slice of a group, on-CPU. [default: 20]"},
    ),
    "cpu_share": (
        ("fair",),
        "--cpu-share",
        {"type": float, "help": "With --policy fair: how much workers may run, 0.5 for half."},
    ),
    "burst_ms": (
        ("fair",),
        "--burst-ms",
        {"type": float, "help": "With --cpu-share: what may be taken at once. [default: 100]"},
    ),
}


def policy_keywords(*left_out: str) -> tuple[str, ...]:
    """The keywords of the options of all policies, but for those ``left_out``."""
    return tuple(keyword for keyword in _OPTIONS if keyword not in left_out)


def policy_options(command: Callable[..., None], *left_out: str) -> Callable[..., None]:
    """Adds the options of all policies, but for those ``left_out``, as arguments by keyword."""
    for keyword, (_, option, more) in reversed(list(_OPTIONS.items())):
        if keyword not in left_out:
            command = click.option(option, keyword, **more)(command)
    return command


def of_other_policies(policies: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Raises UsageError for an option that none of these policies has."""
    for keyword, value in given.items():
        owners, option, _ = _OPTIONS[keyword]
        if value not in ((), None) and not set(owners) & set(policies):
            raise click.UsageError(f"{option}: give --policy {' or '.join(owners)} too")


def policy_named(name: str, given: Mapping[str, Any]) -> Policy:
    """A policy with what was given of its options; those of others are passed over. Raises ConfigurationError and
    UsageError."""
    if name == "levels":
        since = {} if given["since"] is None else {"since": given["since"]}
        return Levels(given_options("--timeout", given["timeouts"]), **since)
    if name == "aging":
        classes = {name: _number(text, float) for name, text in given_options("--class", given["classes"]).items()}
        low_every = None if given["low_every"] is None else _number(given["low_every"], int)
        return Aging(given["coefficient"], low_every, classes or None, given["max_wait"])
    return _fair(given) if name == "fair" else Fifo()


def _fair(given: Mapping[str, Any]) -> Fair:
    if given["burst_ms"] is not None and given["cpu_share"] is None:
        raise click.UsageError("--burst-ms: give --cpu-share too")
    weights = {}
    for group, text in given_options("--weight", given["weights"]).items():
        try:
            weights[group] = float(text)
        except ValueError:
            raise click.UsageError(f"--weight: {group}: {text!r} is not a number") from None
    numbers = {name: given[name] for name in ("slice_ms", "cpu_share", "burst_ms") if given[name] is not None}
    return Fair(weights=weights, **numbers)


def ordering(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of the policy, as one argument ``order``: those of ``strand.replay``, by name."""

    @functools.wraps(command)
    def with_order(*, policy: str, **others: Any) -> None:
        given = {keyword: others.pop(keyword) for keyword in _OPTIONS}
        of_other_policies((policy,), given)
        command(order={} if policy == "fifo" else _order(policy, given), **others)

    chosen = click.option("--policy", type=click.Choice(POLICIES), default="fifo", help="Which ready strand is next.")
    return chosen(policy_options(with_order))


def _order(policy: str, given: Mapping[str, Any]) -> dict[str, Any]:
    order: dict[str, Any] = {"policy": policy_named(policy, given)}
    if policy == "fair":
        return order | {"groups": given_options("--fair-group", given["groups"])}
    priorities = given_options("--priority", given["priorities"])
    order["priorities"] = (
        {symbol: _aged(text) for symbol, text in priorities.items()} if policy == "aging" else priorities
    )
    if given["guards"]:
        order |= {"guard": Guard(), "marks": given_options("--mark", given["marks"])}
    elif given["marks"]:
        raise click.UsageError("--mark: give --guard too")
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
