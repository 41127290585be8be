"""``strand policy``: how many workers a load takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape

from strand import feeds
from strand.command.parameters import Reads, SectionedCommand, complete_files, reading, show
from strand.command.run_options import handling
from strand.errors import ConfigurationError
from strand.handlers import Handler
from strand.planning.plan import Choice, Load, Plan, Target, measure_arrivals, measure_service, plan
from strand.report.quantities import duration
from strand.report.tables import numbers_table
from strand.spans import span_ns

__all__ = ["policy"]

_WAIT: Final = re.compile(r"(mean|p(\d{1,2}(?:\.\d{1,6})?)) ?= ?(.+)")
#: Options that are not about a file.
_ALWAYS: Final = ("files", "rates", "service", "wait", "workers", "as_json")


@click.group("policy")
def policy() -> None:
    """Plan how to schedule a load."""


@policy.command(
    "plan",
    cls=SectionedCommand,
    sections={"Load": ("--from", "--rate", "--service"), "Target": ("--wait", "--workers")},
)
@click.option(
    "--rate",
    "rates",
    multiple=True,
    metavar="N|SYMBOL=N",
    help="Ticks per second, in total or per symbol. Repeatable with SYMBOL=N.",
)
@click.option("--service", metavar="SPAN", help="Average time to handle a tick, such as 800ns. [default: measured]")
@click.option(
    "--from",
    "files",
    multiple=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="Measure the load of a recorded file. Repeatable.",
)
@click.option(
    "--wait", required=True, metavar="pNN=SPAN|mean=SPAN", help="Longest acceptable wait, such as p99=5ms or mean=1ms."
)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Show the waits with N workers too.")
@handling
@reading
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def plan_(
    rates: tuple[str, ...], service: str | None, files: tuple[str, ...], wait: str, workers: int | None,
    handler: Handler, reads: Reads, as_json: bool,
) -> None:  # fmt: skip
    """Plan workers and the queue for a wait by Erlang C, and show the rule of thumb rate x time x 2.5 beside it.

    Give --rate and --service, or --from. With --from, Strand measures when the ticks of a file arrive, and replays them
    through --handler to measure how long one takes.
    """
    target = _target(wait)
    service_ns = None if service is None else span_ns("--service", service)
    load = _measured(files, rates, service_ns, handler, reads) if files else _given(rates, service_ns)
    found = plan(load, target, workers=workers)
    show(as_json, found.as_dict(), lambda console: _print(console, found))


def _target(text: str) -> Target:
    found = _WAIT.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError("--wait", f"{text!r} is neither like p99=5ms nor like mean=1ms")
    quantile = None if found[2] is None else float(found[2]) / 100
    return Target(span_ns("--wait", found[3]), quantile)


def _given(rates: tuple[str, ...], service_ns: int | None) -> Load:
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if name not in _ALWAYS and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[0]} is for --from")
    if not rates or service_ns is None:
        raise click.UsageError("give --rate and --service, or --from")
    by_symbol: dict[str, float] = {}
    for text in rates:
        symbol, equals, number = text.rpartition("=")
        if symbol in by_symbol:
            raise click.UsageError(f"--rate: {symbol or 'the total rate'} is given twice")
        if equals and not symbol:
            raise click.UsageError(f"--rate: {text!r} is neither N nor SYMBOL=N")
        try:
            by_symbol[symbol] = float(number)
        except ValueError:
            raise ConfigurationError("--rate", f"{number!r} is not a number of ticks per second") from None
    if "" in by_symbol:
        if len(by_symbol) > 1:
            raise click.UsageError("--rate: give the total rate, or the rate of each symbol")
        return Load(by_symbol[""], service_ns)
    return Load(sum(by_symbol.values()), service_ns, by_symbol)


def _measured(
    files: tuple[str, ...], rates: tuple[str, ...], service_ns: float | None, handler: Handler, reads: Reads
) -> Load:
    if rates:
        raise click.UsageError("--rate: --from measures the rate; leave out one of the two")
    if "-" in files and service_ns is None:
        raise click.UsageError("--from -: standard input cannot be read twice; give a file, or --service")
    symbols, start, end, limit = reads.symbols, reads.start, reads.end, reads.limit
    chosen = list(files) if len(files) > 1 else files[0]
    feed = feeds.open(chosen, symbols=symbols or (), start=start, end=end, **reads.options)
    arrivals = measure_arrivals(feed, limit=limit)
    if service_ns is None:
        service_ns = measure_service(
            chosen, handler, symbols=symbols, start=start, end=end, limit=limit, feed_options=reads.options
        )
    return Load(arrivals.rate_per_s, service_ns, arrivals.by_symbol, arrivals.burstiness, not handler.is_native)


def _print(console: Console, found: Plan) -> None:
    load, target = found.load, found.target
    wanted = "a mean wait of" if target.quantile is None else f"{100 * target.quantile:g}% of the ticks wait"
    console.print(
        f"[bold]{load.rate_per_s:,.6g}[/] ticks per second of [bold]{duration(load.service_ns)}[/] each keep "
        f"{load.rate_per_s * load.service_ns / 1e9:,.4g} workers busy without a pause; target: {wanted} at most "
        f"{duration(target.wait_ns)}"
    )
    # A row a quantity: as a column each, they would not fit a terminal's width.
    table = numbers_table("", *(choice.name for choice in found.choices))
    rows: dict[str, Callable[[Choice], str]] = {
        "ticks per second": lambda choice: f"{choice.rate_per_s:,.6g}",
        "workers": lambda choice: f"{choice.workers:,}",
        "busy": lambda choice: f"{choice.utilisation:.1%}",
        "ticks that wait": lambda choice: f"{choice.wait_probability:.2%}",
        "mean wait": lambda choice: duration(choice.mean_wait_ns),
        f"p{100 * found.quantile:g} wait": lambda choice: duration(choice.quantile_ns),
        "queue capacity": lambda choice: f"{choice.queue_capacity:,}",
    }
    for name, told in rows.items():
        table.add_row(name, *map(told, found.choices))
    console.print(table)
    for symbol, rate in found.undrainable.items():
        console.print(
            f"[red]never drained:[/] {escape(symbol)} has {rate:,.6g} ticks per second, but one worker at a time "
            f"handles only {1e9 / load.service_ns:,.6g}",
            highlight=False,
        )
    for doubt in found.doubts:
        console.print(f"[yellow]caution:[/] {escape(doubt)}", highlight=False)
    for assumption in found.assumptions:
        console.print(f"assumed: {escape(assumption)}", highlight=False)
