"""``strand bench`` and ``strand demo``: ticks by dynamic routing beside static routing, and the sample day."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from statistics import median
from typing import IO, Any, Final, ParamSpec

import click
import numpy as np
import numpy.typing as npt
from click.core import ParameterSource
from rich.console import Console

from strand import feeds
from strand.bench.latency import LatencyOptions, measure_latency
from strand.bench.letters import LettersOptions, run_letters
from strand.bench.policies import PoliciesOptions, run_policies
from strand.bench.route import RouteOptions
from strand.bench.route import route as run_route
from strand.bench.scenarios import ScenarioOptions, run_scenarios
from strand.bench.streams import numbered
from strand.bench.ways import Job, WayName, rounds
from strand.brief import several
from strand.command.parameters import SectionedCommand, declared, json_option, progress, values_of
from strand.command.run_options import of_other_policies, policy_keywords, policy_named, policy_options
from strand.errors import ConfigurationError, EngineError, MissingExtraError, StrandError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.fixed import dataclass
from strand.handlers import batch_handler, spin
from strand.machine import choose_cores
from strand.options import options_in
from strand.policies.policy import POLICIES
from strand.replaying.replay import replay
from strand.replaying.result import ReplayResult
from strand.report.quantities import duration
from strand.report.tables import numbers_table

P = ParamSpec("P")


class _FailedRun(click.ClickException):
    """A run that failed, said as every command says what is wrong; its exit status is 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"strand: {self.message}", file=file, err=file is None)


class _Refused(_FailedRun):
    """Request that cannot be fulfilled as given."""

    exit_code = 2


_plotting: Final = click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the result to a PNG, SVG or PDF file."
)


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
@json_option()
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
@_plotting
@json_option()
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
@json_option()
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
@_plotting
@json_option()
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


#: The comparison's handler costs, in the spin handler's steps a tick, and how often the sample is repeated for it.
WORKS: Final = (0, 20, 100, 300)
REPEATS: Final = 5
ROUNDS: Final = 3
WAYS: Final[tuple[WayName, ...]] = ("serial", "static", "static_lpt", "strand")
#: Built-in handlers that the demo measures, so that a reader finds a row of the comparison like their own.
BUILT_IN: Final = ("count", "book", "vwap", "bars", "bbo")


@batch_handler(state=[("ticks", "u8"), ("adds", "u8"), ("highest_bid", "i8")])
def highest_bid(_symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
    """A handler in Python: counts, and the highest price a buyer ever asked for, in units of 1e-9."""
    bids = ticks[(ticks["action"] == b"A") & (ticks["side"] == b"B")]
    row["ticks"] += len(ticks)
    row["adds"] += np.count_nonzero(ticks["action"] == b"A")
    if len(bids):
        row["highest_bid"] = max(int(row["highest_bid"]), int(bids["price"].max()))


@dataclass(frozen=True)
class Comparison:
    """Million ticks per second by way for one handler cost, medians."""

    work: int
    handler_ns: float
    rates: dict[str, float]


@click.command("demo")
@json_option()
def demo(as_json: bool) -> None:
    """Replay the sample file that ships with strand, and compare with static routing."""
    cores = len(os.sched_getaffinity(0))
    workers = max(1, cores - 1)
    console = Console(quiet=as_json)
    path = sample_path()
    console.rule("[bold]1[/] a synthetic day's file through per-symbol handlers")
    results = [replay(path, "vwap", workers=n, date=SAMPLE_DATE) for n in sorted({1, 2, workers})]
    _same_rows(results)
    _show_vwap(console, results[-1])
    console.rule("[bold]2[/] two symbols with a handler of their own, in Python")
    own = _own_handlers(results[-1], workers)
    _show_own(console, own)
    console.rule("[bold]3[/] the same ticks by dynamic and by static routing")
    comparisons, built_in = _compare(workers), _built_in_costs()
    _show_comparison(console, comparisons, built_in, cores)
    if as_json:
        click.echo(json.dumps(_plain(results[-1], own, comparisons, cores) | {"built_in_ns": built_in}))


def _same_rows(results: list[ReplayResult]) -> None:
    first = results[0].rows.array
    for result in results[1:]:
        if not np.array_equal(result.rows.array, first):
            raise EngineError(f"rows differ between {results[0].workers} and {result.workers} workers")


def _busiest(result: ReplayResult, n: int) -> list[int]:
    return [int(i) for i in np.argsort(-result.ticks_by_symbol, kind="stable")[:n]]


def _show_vwap(console: Console, result: ReplayResult) -> None:
    table = numbers_table("symbol", "ticks", "trades", "volume", "vwap", title="busiest symbols")
    for i in _busiest(result, 5):
        row = result.rows[i]
        table.add_row(
            result.symbols[i],
            f"{result.ticks_by_symbol[i]:,}",
            f"{row['trades']:,}",
            f"{row['volume']:,}",
            f"{row['vwap']:.4f}",
        )
    console.print(table)
    s = result.statistics
    console.print(
        f"{result.ticks:,} ticks of {np.count_nonzero(result.ticks_by_symbol)} symbols (ITCH 5.0, gzip) in "
        f"{result.wall_s:.2f} s on {result.workers} pinned workers and the publisher; order kept within each "
        f"symbol, nothing dropped ({s.accepted:,} accepted = {s.handled:,} handled), rows the same for "
        f"{'1 and 2' if result.workers <= 2 else f'1, 2 and {result.workers}'} workers"
    )


def _own_handlers(result: ReplayResult, workers: int) -> ReplayResult:
    first, second = (result.symbols[i] for i in _busiest(result, 2))
    return replay(
        sample_path(),
        handlers={first: highest_bid, second: highest_bid, "*": "count"},
        workers=workers,
        date=SAMPLE_DATE,
    )


def _show_own(console: Console, result: ReplayResult) -> None:
    for i in _busiest(result, 2):
        row = result.rows[i]
        console.print(
            f"{result.symbols[i]}: {row['ticks']:,} ticks, {row['adds']:,} orders added, highest bid "
            f"{row['highest_bid'] / 1e9:.2f} (Python); the other symbols' [i]count[/] ran beside it in C"
        )


def _stream() -> tuple[npt.NDArray[Any], int]:
    """The sample's ticks a few times over, numbered from 1 within each symbol: what the spin handler checks."""
    feed = feeds.open(sample_path(), date=SAMPLE_DATE)
    try:
        day = np.concatenate([batch.copy() for batch in feed.batches()])
        symbols = len(feed.symbols)
    finally:
        feed.close()
    ticks = numbered(np.tile(day, REPEATS))
    ticks["price"] = np.arange(len(ticks))
    return ticks, symbols


def _compare(workers: int) -> list[Comparison]:
    ticks, symbols = _stream()
    counts = np.bincount(ticks["instrument_id"], minlength=symbols)
    found = []
    for work in WORKS:
        job = Job(ticks, symbols, counts, spin(work), choose_cores(workers), idle="backoff")
        outcomes = rounds(job, WAYS, ROUNDS)
        medians: dict[str, float] = {
            way: len(ticks) / median(outcome.seconds for outcome in each) / 1e6 for way, each in outcomes.items()
        }
        found.append(Comparison(work, 1e3 / medians["serial"], medians))
    return found


def _built_in_costs() -> dict[str, float]:
    """ns that one core is busy with a tick of the sample in some built-in handlers, medians. Reading is left out."""
    costs = {}
    for name in BUILT_IN:
        runs = [replay(sample_path(), name, workers=0, date=SAMPLE_DATE).statistics.workers[0] for _ in range(ROUNDS)]
        costs[name] = median(run.busy_ns / run.handled for run in runs)
    return costs


def _show_comparison(console: Console, comparisons: list[Comparison], built_in: dict[str, float], cores: int) -> None:
    title = f"million ticks per second, {several(cores, 'core')}, median of {ROUNDS}"
    table = numbers_table("handler", *WAYS, "strand / static", title=title)
    for c in comparisons:
        best = max(c.rates.values())
        cells = [f"[bold]{rate:.1f}[/]" if rate == best else f"{rate:.1f}" for rate in c.rates.values()]
        table.add_row(f"{duration(c.handler_ns)} per tick", *cells, f"{c.rates['strand'] / c.rates['static']:.2f}")
    console.print(table)
    costs = ", ".join(f"{name} {duration(cost)}" for name, cost in built_in.items())
    console.print(f"built-in handlers per tick of this file, on one core, its first use of memory included: {costs}")
    console.print(
        "serial: a plain loop on one core. static: symbol modulo workers, one ring each. static_lpt: largest first, by "
        "counts known in advance. Longer runs and other streams: strand bench route, strand bench scenarios."
    )


def _plain(result: ReplayResult, own: ReplayResult, comparisons: list[Comparison], cores: int) -> dict[str, Any]:
    return {
        "cores": cores,
        "ticks": result.ticks,
        "wall_s": result.wall_s,
        "statistics": result.statistics.as_dict(),
        "own_handlers": {own.symbols[i]: int(own.rows[i]["highest_bid"]) for i in _busiest(own, 2)},
        "comparison": [{"work": c.work, "handler_ns": c.handler_ns, "mticks_s": c.rates} for c in comparisons],
    }
