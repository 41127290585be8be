"""The order of a run by options, and by a file with ``--config``, where those of the command line win."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import click

from strand.binding.engine_config import ON_FULL
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
from strand.policies.every_policy import POLICIES
from strand.report.printing import printable

__all__ = ["ordering"]

#: The tables by symbol, by the keyword of the option that gives their values.
_TABLES: Final = {"priorities": ("priorities", "symbols"), "groups": ("groups",), "marks": ("marks",)}
#: The keys of ``worker_pool``, by the keyword of the option that gives their values.
_POOL: Final = {
    "workers": "max_workers",
    "min_workers": "min_workers",
    "capacity_ticks": "queue_capacity",
    "total_capacity_ticks": "total_capacity_ticks",
    "level_capacity_ticks": "level_capacity_ticks",
    "on_full": "on_full",
}


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

    @click.option(
        "--min-workers",
        type=int,
        metavar="N",
        help="Keep at least N workers active, and activate more as the load requires. [default: all]",
    )
    @click.option(
        "--capacity-ticks", type=int, metavar="N", help="Bound on the pending ticks of each strand. [default: 65536]"
    )
    @click.option(
        "--total-capacity-ticks",
        type=int,
        metavar="N",
        help="Bound on the pending ticks of all strands together. [default: none]",
    )
    @click.option(
        "--level-capacity-ticks",
        metavar="LEVEL=TICKS",
        multiple=True,
        help="Bound on the pending ticks of all strands of a level, such as low=10000. Repeatable. [default: none]",
    )
    @click.option(
        "--on-full", type=click.Choice(list(ON_FULL)), help="What to do when a bound is reached. [default: block]"
    )
    @functools.wraps(command)
    def with_bounds(*, level_capacity_ticks: tuple[str, ...], workers: int | None = None, **others: Any) -> None:
        levels = given_options("--level-capacity-ticks", level_capacity_ticks)
        pool = {name: others.pop(name) for name in _POOL if name in others} | {"workers": workers}
        pool["level_capacity_ticks"] = {level: _number(ticks) for level, ticks in levels.items()} or None
        command(pool={name: value for name, value in pool.items() if value is not None}, **others)

    return with_bounds


def _number(text: str) -> int | str:
    """Converts a number. Other text passes: the option that uses it refuses it."""
    return int(text) if text.isdecimal() else text


def _configured(path: str, policy: str | None, given: Mapping[str, Any], pool: Mapping[str, Any]) -> dict[str, Any]:
    """The options of ``strand.replay`` from a file, and from what the command line gives beside it. The
    command names the replaced options on standard error.

    ``policy``: in place of all that the file says of an order; None: the file's. ``given``: options of policies by
    keyword; ``pool``: those of ``_POOL``. Raises ConfigurationError, MissingExtraError, UsageError.
    """
    from strand.config.configuration import Config
    from strand.config.limits import usual_limits

    file = Config.load(path)
    name = policy or file.policy_name
    of_other_policies((name,), given)
    is_guarded = bool(file.guard_options())
    share_of_file = None if policy is not None else getattr(file.policy, "cpu_share", None)
    check_pair(given, "burst_ms", "--cpu-share", is_there=(given["cpu_share"], share_of_file) != (None, None))
    check_pair(given, "marks", "--guard", is_there=is_guarded or bool(given["guards"]))
    values = dict(_values(name, given, pool))
    if policy is not None:
        values["policy", "name"] = (policy, f"--policy {policy}")
    if given["guards"] and not is_guarded:
        values |= {("resource_limits", key): (value, "--guard") for key, value in usual_limits()}
    config, replaced = file.overridden(values)
    for line in replaced:
        click.echo(printable(f"config: {line}"), err=True)
    if config.retry_policy != Config().retry_policy:
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
