"""``strand bench``: the commands."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import IO, Any, Final, ParamSpec

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from strand.command.parameters import SectionedCommand
from strand.command.run_options import given_options, of_other_policies, policy_keywords, policy_named, policy_options
from strand.errors import ConfigurationError, MissingExtraError, StrandError
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


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error, where somebody looks at it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("")

        def update(title: str, done: int, total: int) -> None:
            bar.update(task, description=title, completed=done, total=total)

        yield update


def _print_json(result: Any) -> None:
    click.echo(json.dumps(result))


def _default_workers() -> int:
    """Number of workers that have a core each beside the publisher's, up to three."""
    return max(1, min(3, len(os.sched_getaffinity(0)) - 1))


_workers = click.option(
    "--workers",
    type=int,
    default=_default_workers,
    show_default="one per core except the publisher's, up to 3",
    help="Number of worker threads. One more thread publishes.",
)


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
@click.option("--ticks", default=10_000_000, help="Number of ticks in the stream.")
@click.option("--symbols", default=8_172, help="Number of symbols in the stream.")
@click.option("--skew", default="calibrated", help="'calibrated', or a Zipf exponent.")
@click.option("--work", default=100, help="Steps of the handler per tick.")
@_workers
@click.option("--batch", default=8192, help="Number of ticks that the publisher groups at a time.")
@click.option("--strands", default="auto", help="Number of strands, 'auto' or 'per-symbol'.")
@click.option("--rounds", default=5, help="Number of runs per routing; medians are shown.")
@click.option(
    "--idle",
    type=click.Choice(["spin", "backoff", "park"]),
    default="spin",
    help="What a worker does when it has no work.",
)
@click.option("--cores", default=None, help="Core of the publisher, then those of the workers, such as 0,1,2,3.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_refusing
def route(as_json: bool, skew: str, strands: str, cores: str | None, **sizes: Any) -> None:
    """Compare the throughput of each kind of routing."""
    from strand.bench.report import print_route
    from strand.bench.route import RouteOptions, parse_skew, parse_strands
    from strand.bench.route import route as measure

    options = RouteOptions(skew=parse_skew(skew), strands=parse_strands(strands), cores=_core_list(cores), **sizes)
    with _progress(as_json) as update:
        result = measure(options, lambda done, total: update("routing", done, total))
    if as_json:
        _print_json(result)
    else:
        print_route(Console(), result)


def _core_list(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigurationError("cores", f"{text!r} is not a list of core numbers such as 0,1,2,3")
    return tuple(int(part) for part in parts)


@bench.command()
@click.option("--ticks", default=2_000_000, help="Number of ticks per run.")
@_workers
@click.option("--rounds", default=5, help="Number of runs per routing.")
@click.option("--work", default=100, help="Steps of the handler per tick.")
@click.option("--strands", default="auto", help="Number of strands, 'auto' or 'per-symbol'.")
@click.option("--only", multiple=True, help="Run only this scenario. Repeatable.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the result to a PNG, SVG or PDF file."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_refusing
def scenarios(as_json: bool, plot: Path | None, strands: str, **sizes: Any) -> None:
    """Run scenarios and name the fastest routing of each."""
    from strand.bench.plot import check_plot_path, plot_scenarios
    from strand.bench.report import print_scenarios
    from strand.bench.route import parse_strands
    from strand.bench.scenarios import ScenarioOptions, run_scenarios
    from strand.machine import describe

    options = ScenarioOptions(strands=parse_strands(strands), **sizes)
    if plot is not None:
        check_plot_path(plot)
    machine = describe()
    with _progress(as_json) as update:
        results = run_scenarios(options, update)
    if plot is not None:
        plot_scenarios(results, machine, plot)
    if as_json:
        chosen = {"ticks": options.ticks, "workers": options.workers, "rounds": options.rounds, "work": options.work}
        _print_json(chosen | {"scenarios": [r.as_dict() for r in results], "machine": machine})
    else:
        print_scenarios(Console(), results, machine)


@bench.command()
@click.option("--spinning", default=100_000, help="Number of ticks to a spinning worker.")
@click.option("--parked", default=1_000, help="Number of ticks to a parked worker, sent 2 ms apart.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_refusing
def latency(as_json: bool, spinning: int, parked: int) -> None:
    """Measure the time from the publisher to a handler on another core."""
    from strand.bench.latency import measure_latency
    from strand.bench.report import print_latency
    from strand.machine import describe

    machine = describe()
    results = measure_latency(spinning, parked)
    if as_json:
        _print_json({"latency": [r.as_dict() for r in results], "machine": machine})
    else:
        print_latency(Console(), results, machine)


#: Options of ``--scenario letters``.
_OF_LETTERS: Final = ("seconds", "load", "workers", "seed")


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
    "takes only --seconds (10), --load (0.8), --workers (2) and --seed.",
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
@click.option(
    "--share",
    "shares",
    metavar="LEVEL=SHARE",
    multiple=True,
    default=("immediate=0.1",),
    show_default=True,
    help="Share of the symbols that have LEVEL; the others are low. Repeatable.",
)
@click.option(
    "--load", default=2.0, show_default=True, help="Arrival rate, as a multiple of what the workers can handle."
)
@click.option("--seconds", default=5.0, show_default=True, help="How long ticks arrive, in seconds.")
@click.option(
    "--bound-ms",
    default=100.0,
    show_default=True,
    help="Bound on all pending ticks, as ms of work of all workers. 0 is no bound.",
)
@click.option("--symbols", default=1_000, show_default=True, help="Number of symbols when there is no PATH.")
@click.option("--work", default=5_000, show_default=True, help="Steps of the handler per tick.")
@_workers
@click.option(
    "--rounds", default=1, show_default=True, help="Number of runs per policy, in turn; the median run is shown."
)
@click.option(
    "--idle",
    type=click.Choice(["spin", "backoff", "park"]),
    default="backoff",
    show_default=True,
    help="What a worker does when it has no work.",
)
@click.option("--seed", default=1, show_default=True, help="Seed of the arrival times and of the levels.")
@_of_policies
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the result to a PNG, SVG or PDF file."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_refusing
@_or_letters
def policies(
    as_json: bool, plot: Path | None, path: str | None, names: tuple[str, ...], shares: tuple[str, ...],
    bound_ms: float, given: dict[str, Any], **sizes: Any,
) -> None:  # fmt: skip
    """Compare policies by waits and drops per level, at a set rate of ticks, whether or not the workers keep up.

    PATH is a recorded file, whose times are scaled to the rate. Without PATH, ticks arrive at random times. The groups
    of the policy fair are the levels.
    """
    from strand.bench.plot import check_plot_path, plot_policies
    from strand.bench.policies import PoliciesOptions, run_policies
    from strand.bench.report import print_policies
    from strand.machine import describe

    of_other_policies(names, given)
    options = PoliciesOptions(
        policies={name: policy_named(name, given) for name in names},
        shares={level: _share(level, text) for level, text in given_options("--share", shares).items()},
        bound_ms=bound_ms or None,
        source=path,
        **sizes,
    )
    if plot is not None:
        check_plot_path(plot)
    machine = describe()
    with _progress(as_json) as update:
        about, outcomes = run_policies(options, update)
    if plot is not None:
        plot_policies(about, outcomes, machine, plot)
    if as_json:
        _print_json(about | {"policies": [asdict(outcome) for outcome in outcomes], "machine": machine})
    else:
        print_policies(Console(), about, outcomes, machine)


def _letters(context: click.Context, as_json: bool) -> None:
    """Runs the scenario with the options of the command line; the defaults are those of the scenario."""
    from strand.bench.letters import LettersOptions, run_letters
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
    options = LettersOptions(**{n: context.params[n] for n in _OF_LETTERS if n in {option.name for option in given}})
    machine = describe()
    with _progress(as_json) as update:
        about, outcomes = run_letters(options, update)
    if as_json:
        _print_json(about | {"policies": [asdict(outcome) for outcome in outcomes], "machine": machine})
    else:
        print_letters(Console(), about, outcomes, machine)


def _share(level: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError("share", f"{level}: {text!r} is not a number") from None
