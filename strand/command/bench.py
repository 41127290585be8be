"""``strand bench``: the commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import IO, Any, Final, ParamSpec

import click
from click.core import ParameterSource
from rich.console import Console

from strand.bench.latency import LatencyOptions, measure_latency
from strand.bench.letters import LettersOptions, run_letters
from strand.bench.policies import PoliciesOptions, run_policies
from strand.bench.route import RouteOptions
from strand.bench.route import route as run_route
from strand.bench.scenarios import ScenarioOptions, run_scenarios
from strand.command.parameters import SectionedCommand, declared, progress
from strand.command.run_options import of_other_policies, policy_keywords, policy_named, policy_options, values_of
from strand.errors import ConfigurationError, MissingExtraError, StrandError
from strand.options import options_in
from strand.policies.every_policy import POLICIES

__all__ = ["bench"]

P = ParamSpec("P")


class _FailedRun(click.ClickException):
    """A run that failed, said as every command says what is wrong; its exit status is 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"strand: {self.message}", file=file, err=file is None)


class _Refused(_FailedRun):
    """Request that cannot be fulfilled as given."""

    exit_code = 2


def _refusing(command: Callable[P, None]) -> Callable[P, None]:
    @wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        try:
            command(*args, **options)
        except (ConfigurationError, MissingExtraError) as error:
            raise _Refused(str(error)) from error
        except StrandError as error:
            raise _FailedRun(str(error)) from error

    return run


def _print_json(result: Any) -> None:
    click.echo(json.dumps(result))


def _of(kind: type[Any], **more: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the options that a class declares, as one argument ``sizes``: those that were given, by name. ``more``: of
    an option, other arguments for ``click.option``."""
    options = [option for option in options_in(kind).values() if option.flag]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_sizes(**given: Any) -> None:
            values = {option.name: given.pop(option.name) for option in options}
            command(sizes=values_of(options, values), **given)

        found: Callable[..., None] = with_sizes
        for option in reversed(options):
            found = declared(option, **more.get(option.name, {}))(found)
        return found

    return decorate


def _of_policies(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of policies, but for those of symbols and runs, as one argument ``given``."""
    left_out = ("priorities", "groups", "guards", "marks")

    @wraps(command)
    def with_given(**options: Any) -> None:
        given = {name: options.pop(name) for name in policy_keywords(*left_out)}
        command(given=given, **options)

    return policy_options(with_given, *left_out)


@click.group()
def bench() -> None:
    """Compare strand on this machine with one core and with static routing."""


@bench.command()
@_of(RouteOptions)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_refusing
def route(as_json: bool, sizes: dict[str, Any]) -> None:
    """Compare the throughput of each kind of routing."""
    from strand.bench.report import print_route

    options = RouteOptions(**sizes)
    with progress("routing", None, as_json, steps="runs") as advance:
        result = run_route(options, advance)
    if as_json:
        _print_json(result)
    else:
        print_route(Console(), result)


@bench.command()
@_of(ScenarioOptions, only={"multiple": True, "help": "Run only this scenario. Repeatable."})
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the result to a PNG, SVG or PDF file."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_refusing
def scenarios(as_json: bool, plot: Path | None, sizes: dict[str, Any]) -> None:
    """Run scenarios and name the fastest routing of each."""
    from strand.bench.plot import check_plot_path, plot_scenarios
    from strand.bench.report import print_scenarios
    from strand.machine import describe

    options = ScenarioOptions(**sizes)
    if plot is not None:
        check_plot_path(plot)
    machine = describe()
    with progress("", None, as_json, steps="scenarios") as advance:
        results = run_scenarios(options, advance)
    if plot is not None:
        plot_scenarios(results, machine, plot)
    if as_json:
        chosen = {"ticks": options.ticks, "workers": options.workers, "rounds": options.rounds, "work": options.work}
        _print_json(chosen | {"scenarios": [r.as_dict() for r in results], "machine": machine})
    else:
        print_scenarios(Console(), results, machine)


@bench.command()
@_of(LatencyOptions)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_refusing
def latency(as_json: bool, sizes: dict[str, Any]) -> None:
    """Measure the time from the publisher to a handler on another core."""
    from strand.bench.report import print_latency
    from strand.machine import describe

    machine = describe()
    results = measure_latency(LatencyOptions(**sizes))
    if as_json:
        _print_json({"latency": [r.as_dict() for r in results], "machine": machine})
    else:
        print_latency(Console(), results, machine)


#: Options of ``--scenario letters``.
_OF_LETTERS: Final = {option.name: option for option in options_in(LettersOptions).values() if option.flag}


def _or_letters(command: Callable[..., None]) -> Callable[..., None]:
    """Runs the scenario letters in place of the command, where that is asked for."""

    @wraps(command)
    def run(*, scenario: str, **options: Any) -> None:
        if scenario == "letters":
            _letters(click.get_current_context(), options["as_json"])
        else:
            command(**options)

    return run


@bench.command(
    cls=SectionedCommand,
    sections={
        "Comparison": ("--scenario", "--policy", "--rounds", "--plot", "--json"),
        "Load": ("--load", "--seconds", "--symbols", "--share", "--work", "--bound-ms", "--seed"),
        "Running": ("--workers", "--idle"),
    },
)
@click.argument("path", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--scenario",
    type=click.Choice(["ticks", "letters"]),
    default="ticks",
    show_default=True,
    help="What to run. letters: tasks that mostly resolve themselves, under fifo and under the preset napoleon. It "
    f"takes only {', '.join(f'{option.flag} ({option.default:g})' for option in _OF_LETTERS.values())}.",
)
@click.option(
    "--policy",
    "names",
    type=click.Choice(list(POLICIES)),
    multiple=True,
    default=("fifo", "levels"),
    show_default=True,
    help="Policy to compare. Repeatable.",
)
@_of(PoliciesOptions)
@_of_policies
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the result to a PNG, SVG or PDF file."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_refusing
@_or_letters
def policies(
    as_json: bool, plot: Path | None, path: str | None, names: tuple[str, ...], given: dict[str, Any],
    sizes: dict[str, Any],
) -> None:  # fmt: skip
    """Compare policies by waits and drops per level, at a set rate of ticks, whether or not the workers keep up.

    PATH is a recorded file, whose times are scaled to the rate. Without PATH, ticks arrive at random times. The groups
    of the policy fair are the levels.
    """
    from strand.bench.plot import check_plot_path, plot_policies
    from strand.bench.report import print_policies
    from strand.machine import describe

    of_other_policies(names, given)
    options = PoliciesOptions(policies={name: policy_named(name, given) for name in names}, source=path, **sizes)
    if plot is not None:
        check_plot_path(plot)
    machine = describe()
    with progress("", None, as_json, steps="runs") as advance:
        about, outcomes = run_policies(options, advance)
    if plot is not None:
        plot_policies(about, outcomes, machine, plot)
    if as_json:
        _print_json(about | {"policies": [asdict(outcome) for outcome in outcomes], "machine": machine})
    else:
        print_policies(Console(), about, outcomes, machine)


def _letters(context: click.Context, as_json: bool) -> None:
    """Runs the scenario with the options of the command line; the defaults are those of the scenario."""
    from strand.bench.report import print_letters
    from strand.machine import describe

    given = [
        option
        for option in context.command.params
        if option.name is not None and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    for option in given:
        if option.name not in ("scenario", "as_json", *_OF_LETTERS):
            raise click.UsageError(f"{option.opts[0]}: the scenario letters does not have this option")
    own = {option.name: context.params[option.name] for option in given if option.name is not None}
    options = LettersOptions(**values_of(_OF_LETTERS.values(), own))
    machine = describe()
    with progress("", None, as_json, steps="runs") as advance:
        about, outcomes = run_letters(options, advance)
    if as_json:
        _print_json(about | {"policies": [asdict(outcome) for outcome in outcomes], "machine": machine})
    else:
        print_letters(Console(), about, outcomes, machine)
