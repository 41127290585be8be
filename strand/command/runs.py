"""``strand runs``: what a data set of sweeps holds."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strand.bench.plot import check_plot_path
from strand.command.parameters import show as show_either
from strand.errors import ConfigurationError
from strand.sweeping.manifest import Manifest, SweepRun
from strand.sweeping.plots import plot as draw
from strand.sweeping.plots import scores_of
from strand.sweeping.result import Place, SweepResult
from strand.sweeping.sets import text_of

__all__ = ["runs"]

DIFFERENT: Final = 1
#: Characters of a digest that are shown, and enough of them to name it.
SHORT: Final = 12

_FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")


@click.group("runs")
def runs() -> None:
    """Show what the data set of a sweep holds."""


@runs.command("list")
@_FOLDER
@_JSON
def list_(folder: Path, as_json: bool) -> None:
    """Each version of the code that a folder has results of: handler, files, sets.

    That of the last sweep comes last.
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
@_JSON
def show(folder: Path, code: str | None, as_json: bool) -> None:
    """Each run of one version of the code: its file, set of parameters, ticks and fingerprint.

    CODE: the beginning of its digest, as strand runs list shows it; by default that of the last sweep.
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

    show_either(as_json, {"code": whole, "runs": [_plain(run, sets[run.number]) for run in found]}, human)


@runs.command("diff")
@_FOLDER
@click.argument("a")
@click.argument("b")
@_JSON
def diff(folder: Path, a: str, b: str, as_json: bool) -> None:
    """Where two versions of the code left other rows or outputs, or saw other input.

    A, B: the beginnings of their digests. Exit status: 0 the same, 1 different, 2 an error.
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
@click.option("--by", required=True, metavar="FIELD", help="The field of the rows whose sum is the score of a set.")
@click.option(
    "--code", help="The beginning of its digest, as strand runs list shows it. [default: that of the last sweep]"
)
@click.option("--best", type=click.IntRange(1), default=5, help="How many sets to draw apart.")
@click.option("--smallest", is_flag=True, help="The best sets are those with the smallest score.")
@_JSON
def plot(folder: Path, picture: Path, by: str, code: str | None, best: int, smallest: bool, as_json: bool) -> None:
    """Draw what each set scored over its parameters, and the best sets file by file.

    PICTURE: a .png, .svg or .pdf. Files are in the order of their names.
    """
    check_plot_path(picture)
    with closing(Manifest(folder, must_exist=True)) as manifest:
        whole = _code(manifest, code)
        found = manifest.runs(whole)
    labels, numbers = sorted({run.label for run in found}), sorted({run.number for run in found})
    if len(found) != len(labels) * len(numbers):
        raise ConfigurationError(f"runs: not all of {len(numbers)} sets have run over all of {len(labels)} files")
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
        raise ConfigurationError(f"runs: {how_many} with {begins or ''!r}; there are {there}")
    return found[0]


def _summary(code: str, handler: str, made: str, found: list[SweepRun]) -> dict[str, Any]:
    by_file = {run.label: run.ticks for run in found}
    return {
        "code": code, "handler": handler, "made": made, "files": len(by_file),
        "sets": len({run.number for run in found}), "runs": len(found), "ticks": sum(by_file.values()),
    }  # fmt: skip


def _plain(run: SweepRun, params: Any) -> dict[str, Any]:
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
