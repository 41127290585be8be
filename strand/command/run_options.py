"""Options of the commands that run a handler, and of a file of options with ``--config``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import click

from strand.command.parameters import (
    NAME,
    CoreList,
    StrandCount,
    complete_handlers,
    complete_settings,
    declared,
    given_options,
    ranged,
    values_of,
)
from strand.config.file import TABLES
from strand.dispatch.configuration import Limits, Pool, RunOptions, grouped
from strand.handlers import BUILTIN
from strand.handlers.loading import load_handler
from strand.options import Flag, Option, Whole, options_in
from strand.policies.policy import POLICIES, Policy
from strand.replaying.options import Asked
from strand.report.quantities import printable


def handling(command: Callable[..., None], usual: str = "count") -> Callable[..., None]:
    """Adds the options, as one argument ``handler``. ``usual``: the name of the usual one, or words for it; without
    ``--handler`` the argument is None in the second case."""

    @click.option(
        "--handler",
        "names",
        multiple=True,
        metavar=NAME,
        shell_complete=complete_handlers,
        help="The handler to run on each symbol's ticks. `strand handlers` lists the built-in ones. "
        f"[default: {usual}]",
    )
    @click.option(
        "--set",
        "options",
        multiple=True,
        metavar="OPTION=VALUE",
        shell_complete=complete_settings,
        help="Set an option of the handler. Repeatable. `strand handlers NAME` lists the options.",
    )
    @functools.wraps(command)
    def with_handler(*, names: tuple[str, ...], options: tuple[str, ...], **others: Any) -> None:
        if len(names) > 1:
            raise click.UsageError(
                f"--handler: it is given {len(names)} times, and a run has one handler: name a function of a module "
                f"that returns strand.chain({', '.join(map(repr, names))}), as --handler MODULE:FUNCTION"
            )
        if not names and usual not in BUILTIN:
            if options:
                raise click.UsageError("--set sets options of --handler: give that too")
            command(handler=None, **others)
            return
        name = names[0] if names else usual
        command(handler=load_handler(name, given_options("--set", options)), **others)

    return with_handler


_RUN: Final = options_in(RunOptions)
#: Options that are the dispatcher's beside a policy, and no arguments of it: the policies that have them, and the
#: option.
_BESIDE: Final[Mapping[str, tuple[tuple[str, ...], Option]]] = {
    "priorities": (
        tuple(name for name, kind in POLICIES.items() if kind.usual_priority is not None),
        replace(_RUN["priorities"], text=f"{_RUN['priorities'].text} Both are like urgent:10.", flag="--priority"),
    ),
    "guards": (("levels",), replace(_RUN["guard"], name="guards", kind=Flag(), flag="--guard")),
    "marks": (("levels",), replace(_RUN["marks"], flag="--mark")),
    "groups": (("fair",), replace(_RUN["groups"], flag="--fair-group")),
}
_OF_ORDER: Final[Mapping[str, tuple[tuple[str, ...], Option]]] = {
    **_BESIDE,
    **{
        option.name: ((name,), option)
        for name, kind in POLICIES.items()
        for option in options_in(kind).values()
        if option.flag
    },
}
#: The options of policies by keyword: the policies that have it, and its name.
OPTIONS: Final = {keyword: (owners, option.flag) for keyword, (owners, option) in _OF_ORDER.items()}
#: The tables of a file by symbol, by the keyword of the option that gives their values.
_TABLES: Final = {"priorities": ("priorities", "symbols"), "groups": ("groups",), "marks": ("marks",)}


def policy_keywords(*left_out: str) -> tuple[str, ...]:
    """The keywords of the options of all policies, but for those ``left_out``."""
    return tuple(keyword for keyword in OPTIONS if keyword not in left_out)


def policy_options(command: Callable[..., None], *left_out: str) -> Callable[..., None]:
    """Adds the options of all policies, but for those ``left_out``, as arguments by keyword."""
    for keyword in reversed(policy_keywords(*left_out)):
        option = _OF_ORDER[keyword][1]
        if keyword in _TABLES:
            command = declared(replace(option, text=f"{option.text} Repeatable."), multiple=True)(command)
        else:
            command = declared(option)(command)
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
    return values_of([option for option in options_in(POLICIES[name]).values() if option.flag], given)


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


#: The keys of ``worker_pool``, by the keyword of the option that gives their values.
_POOL: Final = {key.name: name for name, key in TABLES["worker_pool"][1].items()}
_BOUNDS: Final = [option for kind in (Pool, Limits) for name, option in options_in(kind).items()
                  if name in _POOL and option.flag and name != "workers"]  # fmt: skip


def keys_of_options() -> Iterator[tuple[str, str]]:
    """Returns the options that are given beside ``--config``, with their values, and the key of the file of each."""
    yield "--workers N", f"worker_pool.{_POOL['workers']}"
    for option in _BOUNDS:
        yield f"{option.flag} {option.kind.metavar}", f"worker_pool.{_POOL[option.name]}"
    others = {"guards": "resource_limits", "timeouts": "priorities.LEVEL_timeout"}
    others |= {keyword: f"{'.'.join(table)}.SYMBOL" for keyword, table in _TABLES.items()}
    for keyword, (_, option) in _OF_ORDER.items():
        metavar = "" if isinstance(option.kind, Flag) else option.kind.metavar
        yield f"{option.flag} {metavar}".strip(), others.get(keyword, f"policy.{keyword}")


_CORES: Final = options_in(Pool)["cores"]
_STRICT: Final = options_in(Asked)["strict"]
_OUTSIDE: Final = "See `strand stat`, top, metrics and alerts."


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


def workers(least: int = 0) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the option. ``least``: the number from which on it can be given; 0 is a plain loop."""
    option = options_in(Pool)["workers"]
    text = option.text if least else f"{option.text} 0 runs a plain loop without queues."
    return ranged(replace(option, text=text), least, 1024)


def paced(usual: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the option ``--speed`` of that default."""
    option = replace(options_in(Asked)["speed"], default=None)
    return declared(option, type=click.FloatRange(0), default=usual, show_default=True)


def running(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, as one argument ``run``: those of ``strand.replay``, by name. A command's own ``--workers`` is
    among them, as a file may say how many there are."""

    @declared(
        replace(_CORES, text=f"{_CORES.text} Such as 1,2-5.", default=None, unset="the last cores"),
        type=CoreList(),
        metavar=None,
    )
    @declared(_RUN["strands"], type=StrandCount(), metavar=None, default="auto")
    @ordering
    @declared(options_in(Pool)["idle"])
    @declared(_RUN["ingest"])
    @declared(_RUN["on_error"], default="stop")
    @declared(replace(_STRICT, text=f"{_STRICT.text} The exit status is then 2."), default=False)
    @declared(replace(_RUN["attachable"], text=f"{_RUN['attachable'].text} {_OUTSIDE}"), default=False)
    @functools.wraps(command)
    def with_run(
        *, cores: list[int] | None, strands: str | int, order: dict[str, Any], idle: str | None,
        ingest: str | None, on_error: str, strict: bool, attachable: bool, **others: Any,
    ) -> None:  # fmt: skip
        run: dict[str, Any] = {
            "cores": "auto" if cores is None else cores,
            "strands": strands,
            "idle": idle or Pool().idle,
        } | ({"ingest": ingest} if ingest else {})
        run = grouped(**run, on_error=on_error, **order) | {"strict": strict}
        # A plain loop has no option ``attachable``.
        command(run=run | ({"attachable": True} if attachable else {}), **others)

    return with_run
