"""``strand sweep``: many sets of parameters over many files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from strand.brief import several
from strand.command.completing import complete_files
from strand.command.handling import given_options, handling
from strand.command.parameters import show
from strand.command.reading import Reads, reading
from strand.command.sections import SECTIONS, SectionedCommand
from strand.errors import ConfigurationError
from strand.handlers import Handler
from strand.handlers.options import Option
from strand.handlers.sets import part_with_sets
from strand.sweeping.result import SweepResult
from strand.sweeping.sets import text_of
from strand.sweeping.sweep import sweep as run_sweep

__all__ = ["sweep"]

#: Sets that the table shows.
SHOWN = 20


@click.command(
    "sweep",
    cls=SectionedCommand,
    sections={
        "Handler": ("--handler", "--set", "--each"),
        "Output": ("--out", "--json"),
        "Running": ("--workers", "--backend"),
        "Input": ("--days", *SECTIONS["Input"]),
    },
)
@click.argument("files", nargs=-1, required=True, shell_complete=complete_files)
@handling
@click.option(
    "--each",
    multiple=True,
    metavar="PARAMETER=A,B,C",
    help="Values of a parameter. Repeatable: every combination of values is a set of parameters.",
)
@click.option("--days", metavar="DATES", help="Dates to put in place of {date} in FILES, separated by commas.")
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Number of files to run at the same time, on one core each. [default: all cores]",
)
@click.option(
    "--out", required=True, type=click.Path(file_okay=False), help="Folder of the data set. The results in it are kept."
)
@click.option(
    "--backend",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    help="Run the files in local processes, or on a Ray cluster.",
)
@reading
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def sweep(
    files: tuple[str, ...], handler: Handler, each: tuple[str, ...], days: str | None, workers: int | None,
    out: str, backend: Any, reads: Reads, as_json: bool,
) -> None:  # fmt: skip
    """Run a handler with many sets of parameters: each file is decoded once.

    FILES are files, folders or globs; each file is a run of its own. Results that are already in the folder of --out
    are not computed again, so the same command continues after an interrupt.
    """
    sets = _combinations(handler, given_options("--each", each))
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("sweeping"), BarColumn(), MofNCompleteColumn(), TextColumn("files"), TimeElapsedColumn(),
        TimeRemainingColumn(), console=console, transient=True, disable=as_json or not console.is_terminal,
    )  # fmt: skip
    done = "no file"

    def advance(n: int, total: int) -> None:
        nonlocal done
        done = f"{n:,} of {total:,} files"
        bar.update(task, completed=n, total=total)

    with bar, _saying_what_is_kept(lambda: f"{done} done, kept in {out}; the same command continues from there"):
        task = bar.add_task("sweeping", total=None)
        result = run_sweep(
            files if len(files) > 1 else files[0],
            handler,
            sets,
            days=None if days is None else [day.strip() for day in days.split(",")],
            workers=workers,
            out=out,
            symbols=reads.symbols,
            start=reads.start,
            end=reads.end,
            limit=reads.limit,
            allow_empty=reads.allow_empty,
            feed_options=reads.options,
            backend=backend,
            progress=advance,
        )
    show(as_json, _plain(result), lambda console: _print(console, result))


@contextmanager
def _saying_what_is_kept(words: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo(words(), err=True)
        raise


def _combinations(handler: Handler, each: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every combination of the values, the last parameter's changing first. Raises ConfigurationError."""
    if not each:
        raise click.UsageError("--each: give a parameter and its values, such as --each threshold=1,2,3")
    _, part = part_with_sets(handler)
    options = part.options
    values = [[(name, _value(options, name, text)) for text in texts.split(",")] for name, texts in each.items()]
    return [dict(combined) for combined in itertools.product(*values)]


def _value(options: Mapping[str, Option], name: str, text: str) -> Any:
    if name not in options:
        raise ConfigurationError(f"--each: the handler has no parameter {name!r}; it has {', '.join(options)}")
    try:
        return options[name].kind.read(text.strip())
    except ValueError as error:
        raise ConfigurationError(f"--each: {name} takes {options[name].kind.words}, not {text!r}") from error


def _plain(result: SweepResult) -> dict[str, Any]:
    return {
        "folder": str(result.folder),
        "code": result.code,
        "files": list(result.labels),
        "ran": list(result.ran),
        "sets": {str(number): values for number, values in result.sets.items()},
        "runs": [
            {"file": run.label, "set": run.number, "ticks": run.ticks, "fingerprint": run.fingerprint}
            for run in result.runs
        ],
        "warnings": sorted({f"{run.label}: {warning}" for run in result.runs for warning in run.warnings}),
    }


def _print(console: Console, result: SweepResult) -> None:
    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    ticks = {run.label: run.ticks for run in result.runs}
    kept = len(result.labels) - len(result.ran)
    say(
        f"{several(len(result.numbers), 'set')} over {several(len(result.labels), 'file')} of "
        f"{several(sum(ticks.values()), 'tick')}: {several(len(result.ran), 'file')} run, {kept:,} already there"
    )
    for number, values in list(result.sets.items())[:SHOWN]:
        say(f"  set {number}: {text_of(values)}")
    if len(result.sets) > SHOWN:
        say(f"  and {len(result.sets) - SHOWN:,} more: strand runs show {result.folder}")
    for warning in sorted({f"{run.label}: {warning}" for run in result.runs for warning in run.warnings}):
        say(f"warning: {warning}")
    say(f"tables: {', '.join(['rows', *result.outputs])} in {result.folder}")
