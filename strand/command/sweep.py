"""``strand sweep`` and ``strand runs``: many sets of parameters over many files, and their data sets."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strand.bench.plot import check_plot_path
from strand.brief import several
from strand.command.parameters import (
    SECTIONS,
    Reads,
    SectionedCommand,
    complete_files,
    declared,
    given_options,
    json_option,
    progress,
    ranged,
    reading,
    source_of,
)
from strand.command.parameters import show as show_either
from strand.command.run_options import handling
from strand.errors import ConfigurationError
from strand.handlers import Handler
from strand.handlers.options import Option
from strand.handlers.sets import part_with_sets
from strand.options import options_in
from strand.sweeping.manifest import Manifest, SweepRun
from strand.sweeping.plots import plot as draw
from strand.sweeping.plots import scores_of
from strand.sweeping.result import Place, SweepResult
from strand.sweeping.run import sweep as run_sweep
from strand.sweeping.sets import text_of

#: Sets that the table shows.
SHOWN = 20
_OPTIONS: Final = options_in(run_sweep)
_DAYS: Final = replace(_OPTIONS["days"], text=f"{_OPTIONS['days'].text} Commas separate them.")


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
@declared(_DAYS, metavar="DATES")
@ranged(_OPTIONS["workers"], 1, 1024)
@declared(_OPTIONS["out"], required=True, type=click.Path(file_okay=False), metavar=None)
@declared(_OPTIONS["backend"], default="processes")
@reading
@json_option("a table")
def sweep(
    files: tuple[str, ...], handler: Handler, each: tuple[str, ...], days: str | None, reads: Reads, as_json: bool,
    **run: Any,
) -> None:  # fmt: skip
    """Run a handler with many sets of parameters: each file is decoded once.

    FILES are files, folders or globs; each file is a run of its own. Results that are already in the folder of --out
    are not computed again, so the same command continues after an interrupt.
    """
    sets = _combinations(handler, given_options("--each", each))
    done = "no file"

    def advance(n: int, total: int) -> None:
        nonlocal done
        done = f"{n:,} of {total:,} files"
        bar(n, total)

    try:
        with progress("sweeping", None, as_json, steps="files") as bar:
            result = run_sweep(
                source_of(files),
                handler,
                sets,
                days=None if days is None else [day.strip() for day in days.split(",")],
                progress=advance,
                **reads._asdict(),
                **run,
            )
    except KeyboardInterrupt as interrupt:
        partial: SweepResult | None = getattr(interrupt, "partial", None)
        if partial is not None:
            plain = _plain(partial) | {"error": "interrupted"}
            show_either(as_json, plain, lambda console: _print(console, partial))
        click.echo(f"{done} done, kept in {run['out']}; the same command continues from there", err=True)
        raise
    show_either(as_json, _plain(result), lambda console: _print(console, result))


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
        raise ConfigurationError("--each", f"the handler has no parameter {name!r}; it has {', '.join(options)}")
    try:
        return options[name].kind.read(text.strip())
    except ValueError as error:
        raise ConfigurationError("--each", f"{name} takes {options[name].kind.words}, not {text!r}") from error


def _plain(result: SweepResult) -> dict[str, Any]:
    return {
        "folder": str(result.folder),
        "code": result.code,
        "files": list(result.labels),
        "ran": list(result.ran),
        "missing": list(result.missing),
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
    if result.missing:
        say(f"no result of {several(len(result.missing), 'file')}: {', '.join(result.missing)}")
    for number, values in list(result.sets.items())[:SHOWN]:
        say(f"  set {number}: {text_of(values)}")
    if len(result.sets) > SHOWN:
        say(f"  and {len(result.sets) - SHOWN:,} more: strand runs show {result.folder}")
    for warning in sorted({f"{run.label}: {warning}" for run in result.runs for warning in run.warnings}):
        say(f"warning: {warning}")
    say(f"tables: {', '.join(['rows', *result.outputs])} in {result.folder}")


DIFFERENT: Final = 1
#: Characters of a digest that are shown, and enough of them to name it.
SHORT: Final = 12

_FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@click.group("runs")
def runs() -> None:
    """Show and compare the results in the folder of `strand sweep`."""


@runs.command("list")
@_FOLDER
@json_option("tables")
def list_(folder: Path, as_json: bool) -> None:
    """List the versions of the code that the folder has results of, with handler, files and sets.

    The version of the last sweep comes last.
    """
    with closing(Manifest(folder, must_exist=True)) as manifest:
        codes, every = manifest.codes(), manifest.runs()
    plain = [
        _summary(code, handler, made, [run for run in every if run.code == code])
        for code, (handler, made) in codes.items()
    ]

    def human(console: Console) -> None:
        table = Table("code", "handler", "first run", *(_number(name) for name in ("files", "sets", "runs", "ticks")))
        for each in plain:
            counts = (f"{each[name]:,}" for name in ("files", "sets", "runs", "ticks"))
            table.add_row(each["code"][:SHORT], escape(each["handler"]), each["made"], *counts)
        console.print(table)

    show_either(as_json, {"folder": str(folder), "codes": plain}, human)


@runs.command("show")
@_FOLDER
@click.argument("code", required=False)
@json_option("tables")
def show(folder: Path, code: str | None, as_json: bool) -> None:
    """Show the runs of one version of the code: file, set of parameters, ticks and fingerprint.

    CODE is the beginning of the digest that `strand runs list` shows. The default is that of the last sweep.
    """
    with closing(Manifest(folder, must_exist=True)) as manifest:
        whole = _code(manifest, code)
        sets, found = manifest.sets(), manifest.runs(whole)

    def human(console: Console) -> None:
        table = Table("file", _number("set"), "parameters", _number("ticks"), "fingerprint", "ended")
        for run in found:
            table.add_row(
                escape(run.label), str(run.number), escape(text_of(sets[run.number])), f"{run.ticks:,}",
                run.fingerprint[:SHORT], run.ended,
            )  # fmt: skip
        console.print(table)
        for warning in sorted({f"{run.label}: {warning}" for run in found for warning in run.warnings}):
            console.print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)

    show_either(as_json, {"code": whole, "runs": [_run_as_json(run, sets[run.number]) for run in found]}, human)


@runs.command("diff")
@_FOLDER
@click.argument("a")
@click.argument("b")
@json_option("tables")
def diff(folder: Path, a: str, b: str, as_json: bool) -> None:
    """Show where the input, the rows or the outputs of two versions of the code differ.

    A and B are the beginnings of their digests. The exit status is 0 if all is the same, 1 if something differs, and 2
    at an error.
    """
    with closing(Manifest(folder, must_exist=True)) as manifest:
        first, second = ({(r.label, r.number): r for r in manifest.runs(_code(manifest, one))} for one in (a, b))
        sets = manifest.sets()
    parted: list[dict[str, Any]] = [
        {"file": key[0], "set": key[1], "parameters": sets[key[1]], "why": why}
        for key in sorted(first.keys() | second.keys())
        if (why := _parted(first.get(key), second.get(key)))
    ]

    def human(console: Console) -> None:
        if not parted:
            console.print(f"the same input, rows and outputs: {len(first):,} runs", highlight=False)
            return
        table = Table("file", _number("set"), "parameters", "what differs")
        for each in parted:
            table.add_row(escape(each["file"]), str(each["set"]), escape(text_of(each["parameters"])), each["why"])
        console.print(table)

    show_either(as_json, {"same": not parted, "runs": len(first.keys() | second.keys()), "different": parted}, human)
    if parted:
        sys.exit(DIFFERENT)


@runs.command("plot")
@_FOLDER
@click.argument("picture", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--by", required=True, metavar="FIELD", help="Field of the rows. Its sum is the score of a set.")
@click.option(
    "--code",
    metavar="DIGEST",
    help="Beginning of the digest that `strand runs list` shows. [default: that of the last sweep]",
)
@click.option("--best", type=click.IntRange(1), default=5, metavar="N", help="Number of sets to draw separately.")
@click.option("--smallest", is_flag=True, help="Take the sets with the smallest scores as the best.")
@json_option("tables")
def plot(folder: Path, picture: Path, by: str, code: str | None, best: int, smallest: bool, as_json: bool) -> None:
    """Draw the score of each set over its parameters, and the best sets file by file.

    PICTURE is a .png, .svg or .pdf file. Files are in the order of their names.
    """
    check_plot_path(picture)
    with closing(Manifest(folder, must_exist=True)) as manifest:
        whole = _code(manifest, code)
        found = manifest.runs(whole)
    labels, numbers = sorted({run.label for run in found}), sorted({run.number for run in found})
    if len(found) != len(labels) * len(numbers):
        raise ConfigurationError("runs", f"not all of {len(numbers)} sets have run over all of {len(labels)} files")
    place = Place(folder)
    result = SweepResult(code=whole, labels=tuple(labels), numbers=tuple(numbers), ran=(), _place=place)
    scores = scores_of(result, by)
    draw(result, scores, best=best, smallest=smallest).savefig(picture, dpi=150)
    drawn: list[dict[str, Any]] = [
        {"set": numbers[at], "parameters": result.sets[numbers[at]], "score": float(scores.total[at])}
        for at in scores.best(best, smallest=smallest)
    ]

    def human(console: Console) -> None:
        table = Table(_number("set"), "parameters", _number(f"{by} ({scores.unit})" if scores.unit else by))
        for each in drawn:
            table.add_row(str(each["set"]), escape(text_of(each["parameters"])), f"{each['score']:,.15g}")
        console.print(table)

    show_either(as_json, {"picture": str(picture), "by": by, "unit": scores.unit or None, "best": drawn}, human)


def _number(name: str) -> Any:
    from rich.table import Column

    return Column(name, justify="right")


def _code(manifest: Manifest, begins: str | None) -> str:
    """The digest of a version of the code, by how it begins; None: that of the last sweep."""
    codes = list(manifest.codes())
    found = codes[-1:] if begins is None else [code for code in codes if code.startswith(begins)]
    if len(found) != 1:
        there = ", ".join(code[:SHORT] for code in codes) or "none"
        how_many = f"{len(found)} codes begin" if found else "no code begins"
        raise ConfigurationError("runs", f"{how_many} with {begins or ''!r}; there are {there}")
    return found[0]


def _summary(code: str, handler: str, made: str, found: list[SweepRun]) -> dict[str, Any]:
    by_file = {run.label: run.ticks for run in found}
    return {
        "code": code, "handler": handler, "made": made, "files": len(by_file),
        "sets": len({run.number for run in found}), "runs": len(found), "ticks": sum(by_file.values()),
    }  # fmt: skip


def _run_as_json(run: SweepRun, params: Any) -> dict[str, Any]:
    return {
        "file": run.label, "set": run.number, "parameters": params, "input": run.input, "ticks": run.ticks,
        "fingerprint": run.fingerprint, "rows": run.rows, "ended": run.ended, "files": dict(run.files),
        "outputs": {name: asdict(emitted) for name, emitted in run.outputs.items()}, "warnings": list(run.warnings),
    }  # fmt: skip


def _parted(a: SweepRun | None, b: SweepRun | None) -> str | None:
    if a is None or b is None:
        return f"only {'B' if a is None else 'A'} has it"
    if a.input != b.input:
        return "input"
    parted = ["rows"] if a.rows != b.rows else []
    names = sorted(a.outputs.keys() | b.outputs.keys())
    parted += [f"output {name}" for name in names if a.outputs.get(name) != b.outputs.get(name)]
    if not parted and a.fingerprint != b.fingerprint:
        parted = ["the handlers before"]
    return ", ".join(parted) or None
