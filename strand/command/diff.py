"""``strand diff``: where two runs part."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape

from strand.command.parameters import complete_files, given_options, show
from strand.diff import Exact, Narrowed, Parting, RecordDifference, SymbolParting, diff_records, diff_runs, narrow
from strand.errors import ConfigurationError, FeedError
from strand.output.records import AT_END, AT_TIMER
from strand.replaying.fingerprint_file import is_fingerprint_file

__all__ = ["diff"]

DIFFERENT: Final = 1
#: Symbols that are shown by name.
SHOWN: Final = 10
#: Records that no tick emitted.
_NO_TICKS: Final = {str(AT_TIMER): ", of a timer", str(AT_END): ", of the run's end"}


@click.command("diff")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "--source",
    multiple=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="File that both runs read, if it has moved. Repeatable.",
)
@click.option(
    "--source-a",
    multiple=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="File that A read, if it has moved. Repeatable.",
)
@click.option(
    "--source-b",
    multiple=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="File that B read, if it has moved. Repeatable.",
)
@click.option("--handler-a", metavar="HANDLER", help="Handler to run for A, instead of the one that its file names.")
@click.option("--handler-b", metavar="HANDLER", help="Handler to run for B, instead of the one that its file names.")
@click.option("--set-a", multiple=True, metavar="OPTION=VALUE", help="Set an option of --handler-a. Repeatable.")
@click.option("--set-b", multiple=True, metavar="OPTION=VALUE", help="Set an option of --handler-b. Repeatable.")
@click.option("--no-narrow", is_flag=True, help="Compare only the files: do not replay to find the exact tick.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def diff(
    a: Path, b: Path, source: tuple[str, ...], source_a: tuple[str, ...],
    source_b: tuple[str, ...], handler_a: str | None, handler_b: str | None, set_a: tuple[str, ...],
    set_b: tuple[str, ...], no_narrow: bool, as_json: bool,
) -> None:  # fmt: skip
    """Find the first symbol and sequence at which two runs differ.

    A and B are two files of `strand replay --fingerprints`, or two files of an output (npy, Parquet, Arrow IPC, CSV).
    The exit status is 0 if they are the same, 1 if they differ, and 2 at an error.
    """
    options = (given_options("--set-a", set_a), given_options("--set-b", set_b))
    for letter, name, given in zip("ab", (handler_a, handler_b), options, strict=True):
        if given and name is None:
            raise click.UsageError(f"--set-{letter} needs --handler-{letter}")
    kinds = [_is_run(path) for path in (a, b)]
    if kinds[0] != kinds[1]:
        raise ConfigurationError(f"{a if kinds[0] else b} is a fingerprint file, but {b if kinds[0] else a} is not")
    if kinds[0]:
        parting = diff_runs(a, b)
        sources = (list(source_a or source) or None, list(source_b or source) or None)
        named = (handler_a, handler_b)
        found = Narrowed(None) if no_narrow else narrow(parting, sources=sources, handlers=named, options=options)
        show(as_json, _run_as_dict(parting, found), lambda console: _print_run(console, parting, found))
        same = parting.same
    else:
        if source or source_a or source_b or handler_a or handler_b:
            raise ConfigurationError("sources and handlers are for fingerprint files; these are outputs")
        difference, records = diff_records(a, b)
        plain = {"same": difference is None, "kind": "records", "paths": [str(a), str(b)], "records": records}
        plain["difference"] = None if difference is None else asdict(difference)
        show(as_json, plain, lambda console: _print_records(console, difference, records))
        same = difference is None
    if not same:
        sys.exit(DIFFERENT)


def _is_run(path: Path) -> bool:
    try:
        return is_fingerprint_file(path)
    except OSError as error:
        raise FeedError(f"cannot be read: {error.strerror or error}", path=path) from error


# ---- runs


def _run_as_dict(parting: Parting, found: Narrowed) -> dict[str, Any]:
    return {
        "same": parting.same,
        "kind": "runs",
        "paths": list(parting.paths),
        "ticks": [None if end is None else end.ticks for end in parting.ends],
        "after": parting.after,
        "by": parting.by,
        "symbols": [
            {
                "symbol": s.symbol,
                "input_differs": s.input_differs,
                "rows_differ": s.rows_differ,
                "a": None if s.a is None else s.a._asdict(),
                "b": None if s.b is None else s.b._asdict(),
            }
            for s in parting.symbols
        ],
        "outputs": [asdict(output) for output in parting.outputs],
        "notes": [*parting.notes, *found.notes],
        "settings": list(parting.settings),
        "exact": None if found.exact is None else asdict(found.exact),
        "records": [asdict(record) for record in found.records],
    }


def _print_run(console: Console, parting: Parting, found: Narrowed) -> None:
    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    say(f"A: {escape(_summary(parting, 0))}")
    say(f"B: {escape(_summary(parting, 1))}")
    for note in parting.notes:
        say(f"[yellow]not the same[/] {escape(note)}")
    if parting.same:
        say(f"[green]the same[/] at every fingerprint, and after all {parting.after:,} ticks")
        return
    for note in parting.settings:
        say(f"must not matter: {escape(note)}")
    if parting.by is None:
        say(f"[red]one run is shorter[/]: both are the same up to {parting.after:,} ticks")
        return
    say(f"[red]they differ[/]: the same after {parting.after:,} ticks, not after {parting.by:,}")
    inputs = [s for s in parting.symbols if s.input_differs]
    rows = [s for s in parting.symbols if not s.input_differs]
    if inputs:
        say(f"  different ticks: {_names(inputs)}")
    if rows:
        say(f"  the same ticks, but different rows: {_names(rows)}")
    for s in parting.symbols[:1]:
        say(f"  {escape(s.symbol)}: {_last(s, 'A')}; {_last(s, 'B')}")
    if found.exact is not None:
        _print_exact(say, found.exact)
    narrowed = {record.output: record.difference for record in found.records}
    for output in parting.outputs:
        counts = " against ".join("no output" if s is None else f"{s[0]:,} records" for s in (output.a, output.b))
        say(f"  different records of {escape(output.name)}: {counts}; the first {output.before:,} are the same")
        if output.name in narrowed:
            say(f"[bold]the first different record of {escape(output.name)}[/]:")
            _print_difference(say, narrowed[output.name])
    for note in found.notes:
        say(f"[yellow]note[/] {escape(note)}")


def _summary(parting: Parting, side: int) -> str:
    header: Mapping[str, Any] = parting.headers[side]
    end = parting.ends[side]
    handlers = ", ".join(dict.fromkeys(map(_handler, header.get("handlers", {}).values())))
    inputs = ", ".join(Path(str(s.get("path"))).name for s in header.get("source", []))
    words = f"{parting.paths[side]}: {handlers} over {inputs}"
    if end is not None:
        words += f", {end.ticks:,} ticks" + (f", {end.dropped:,} of them dropped" if end.dropped else "")
        words += f", fingerprint {end.fingerprint}" + (f", ended by: {end.error}" if end.error else "")
    return words


def _handler(described: Mapping[str, Any]) -> str:
    options = ", ".join(f"{name}={text}" for name, text in described.get("options", {}).items())
    return f"{described.get('name')} ({options})" if options else str(described.get("name"))


def _names(symbols: list[SymbolParting]) -> str:
    shown = ", ".join(escape(s.symbol) for s in symbols[:SHOWN])
    return shown + (f" and {len(symbols) - SHOWN:,} more" if len(symbols) > SHOWN else "")


def _last(s: SymbolParting, letter: str) -> str:
    state = s.a if letter == "A" else s.b
    if state is None:
        return f"{letter} has no ticks of it"
    return f"{letter} has {state.ticks:,} ticks of it, the last with sequence {state.sequence}"


def _print_exact(say: Any, exact: Exact) -> None:
    what = "the first different tick" if exact.what == "input" else "the first tick that leaves a different row"
    say(
        f"[bold]{what}[/]: {escape(exact.symbol)}, sequence {exact.sequence}, tick {exact.position:,} of the run "
        f"(from 0), ts_recv {exact.ts_recv}"
    )
    if not (exact.a_has and exact.b_has):
        say(f"  only {'A' if exact.a_has else 'B'} has it")
        return
    _print_fields(say, exact.fields)


def _print_fields(say: Any, fields: Mapping[str, tuple[Any, Any]]) -> None:
    width = max((len(name) for name in fields), default=0)
    for name, (a, b) in fields.items():
        say(f"  {escape(name):{width}}  A {escape(_value(a))}  B {escape(_value(b))}")


def _value(value: Any) -> str:
    return "-" if value is None else str(value)


# ---- records


def _print_records(console: Console, difference: RecordDifference | None, records: int) -> None:
    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    if difference is None:
        say(f"[green]the same[/]: {records:,} records")
        return
    _print_difference(say, difference)


def _print_difference(say: Any, difference: RecordDifference) -> None:
    if difference.record is None:
        say("[red]the columns differ[/]")
        for words in difference.columns:
            say(f"  {escape(words)}")
        return
    where = f"record {difference.record:,} (from 0)"
    if difference.symbol is not None:
        where += f", {escape(difference.symbol)}"
    if difference.number is not None:
        where += _NO_TICKS.get(str(difference.number), f", number {difference.number}")
    if difference.sequence is not None:
        where += f", sequence {difference.sequence}"
    if difference.feed is not None:
        where += f", feed {difference.feed}"
    if difference.only_in is not None:
        say(f"[red]only {difference.only_in.upper()} has[/] {where}")
        own = {name: a if difference.only_in == "a" else b for name, (a, b) in difference.fields.items()}
        own = {name: value for name, value in own.items() if name not in ("symbol", "number", "sequence")}
        say("  " + escape(", ".join(f"{name} {_value(value)}" for name, value in own.items())))
        return
    say(f"[red]they differ[/] at {where}")
    _print_fields(say, difference.fields)
