"""The order of a run by options, and by a file with ``--config``, where those of the command line win."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import click

from strand.command.handling import given_options
from strand.command.ordering import (
    OPTIONS,
    check_pair,
    given_by_symbol,
    of_other_policies,
    order_of,
    policy_arguments,
    policy_options,
)
from strand.command.parameters import declared
from strand.config.checking import TABLES
from strand.dispatch.pool import Limits, Pool
from strand.options import Whole, options_in
from strand.policies.every_policy import POLICIES
from strand.report.printing import printable

__all__ = ["ordering"]

#: The tables by symbol, by the keyword of the option that gives their values.
_TABLES: Final = {"priorities": ("priorities", "symbols"), "groups": ("groups",), "marks": ("marks",)}
#: The keys of ``worker_pool``, by the keyword of the option that gives their values.
_POOL: Final = {key.name: name for name, key in TABLES["worker_pool"][1].items()}
_BOUNDS: Final = [option for kind in (Pool, Limits) for name, option in options_in(kind).items()
                  if name in _POOL and option.flag]  # fmt: skip


def ordering(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of the policy, the bounds, ``--min-workers`` and ``--config``, as one argument ``order``: those
    of ``strand.replay``, by name. A command's own ``--workers`` is among them, as a file may say how many there are."""

    @click.option(
        "--config",
        type=click.Path(dir_okay=False),
        help="Read options from FILE, TOML or YAML. The command line overrides them. `strand config init` "
        "writes such a file.",
    )
    @click.option(
        "--policy", type=click.Choice(list(POLICIES)), help="How the next ready strand is chosen. [default: fifo]"
    )
    @policy_options
    @_bounding
    @functools.wraps(command)
    def with_order(*, config: str | None, policy: str | None, pool: dict[str, Any], **others: Any) -> None:
        given = {keyword: others.pop(keyword) for keyword in OPTIONS}
        if config is None:
            order = pool | order_of(policy or "fifo", given)
        else:
            order = _configured(config, policy, given, pool)
        command(order=order, **others)

    return with_order


def _bounding(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the bounds and ``--min-workers``. Together with the number of workers they become the argument ``pool``."""

    @functools.wraps(command)
    def with_bounds(*, level_capacity_ticks: tuple[str, ...], workers: int | None = None, **others: Any) -> None:
        levels = given_options("--level-capacity-ticks", level_capacity_ticks)
        pool = {name: others.pop(name) for name in _POOL if name in others} | {"workers": workers}
        pool["level_capacity_ticks"] = {level: Whole().parse(ticks) for level, ticks in levels.items()} or None
        command(pool={name: value for name, value in pool.items() if value is not None}, **others)

    found: Callable[..., None] = with_bounds
    for option in reversed(_BOUNDS):
        found = declared(option)(found)
    return found


def _configured(path: str, policy: str | None, given: Mapping[str, Any], pool: Mapping[str, Any]) -> dict[str, Any]:
    """The options of ``strand.replay`` from a file, and from what the command line gives beside it. The
    command names the replaced options on standard error.

    ``policy``: in place of all that the file says of an order; None: the file's. ``given``: options of policies by
    keyword; ``pool``: those of ``_POOL``. Raises ConfigurationError, MissingExtraError, UsageError.
    """
    from strand.config.configuration import Config

    file = Config.load(path)
    name = policy or file.policy_name
    of_other_policies((name,), given)
    is_guarded = file.guard is not None
    share_of_file = None if policy is not None else getattr(file.policy, "cpu_share", None)
    check_pair(given, "burst_ms", "--cpu-share", is_there=(given["cpu_share"], share_of_file) != (None, None))
    check_pair(given, "marks", "--guard", is_there=is_guarded or bool(given["guards"]))
    values = dict(_values(name, given, pool))
    if policy is not None:
        values["policy", "name"] = (policy, f"--policy {policy}")
    if given["guards"] and not is_guarded:
        limits = TABLES["resource_limits"][1].items()
        values |= {("resource_limits", name): (key.option.default, "--guard") for name, key in limits}
    config, replaced = file.overridden(values)
    for line in replaced:
        click.echo(printable(f"config: {line}"), err=True)
    if config.retry != Config().retry:
        click.echo("config: retry_policy is for tasks: this command retries nothing", err=True)
    found = config.dispatcher_options()
    found.pop("retry", None)
    return found


def _values(
    name: str, given: Mapping[str, Any], pool: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], tuple[Any, str]]]:
    """Options given beside the policy ``name``, by the keys of a file, each with its option in words."""
    for keyword, value in policy_arguments(name, given).items():
        option = OPTIONS[keyword][1]
        if keyword == "timeouts":
            for level, span in value.items():
                yield ("priorities", f"{level}_timeout"), (span, f"{option} {level}={span}")
        else:
            texts = given[keyword] if isinstance(given[keyword], tuple) else (value,)
            yield ("policy", keyword), (value, " ".join(f"{option} {text}" for text in texts))
    for keyword, table in _TABLES.items():
        for symbol, (value, text) in given_by_symbol(name, keyword, given).items():
            in_file = list(value) if isinstance(value, tuple) else value
            yield (*table, symbol), (in_file, f"{OPTIONS[keyword][1]} {symbol}={text}")
    for keyword, value in pool.items():
        option = f"--{keyword.replace('_', '-')}"
        texts = [f"{level}={ticks}" for level, ticks in value.items()] if isinstance(value, Mapping) else [value]
        yield ("worker_pool", _POOL[keyword]), (value, " ".join(f"{option} {text}" for text in texts))
