"""``strand handlers``, ``convert``, ``gen`` and ``diff``: handlers, other formats, made-up days, and two recorded runs
or outputs compared."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from strand import feeds
from strand.brief import several
from strand.command.parameters import (
    NAME,
    Reads,
    SectionedCommand,
    complete_files,
    complete_handlers,
    declared,
    given_options,
    json_option,
    progress,
    reading,
    show,
    source_of,
    values_of,
)
from strand.errors import ConfigurationError, FeedError
from strand.feeds import synthetic
from strand.feeds.write.conversion import ConvertOptions
from strand.feeds.write.conversion import convert as run_convert
from strand.feeds.write.targets import NAMES
from strand.handlers import BUILTIN, CompiledHandler
from strand.handlers.builtin.definition import Builtin
from strand.handlers.loading import Makes, configured, find, needs, options_of
from strand.options import options_in
from strand.output.records import AT_END, AT_TIMER
from strand.report.summary import UNDATED, skipped_as_dict
from strand.report.tables import numbers_table, print_skipped

if TYPE_CHECKING:
    from strand.diff.records import RecordDifference
    from strand.diff.rerun import Exact, Narrowed
    from strand.diff.runs import Parting, SymbolParting


#: Text for options that are not given, if it is not empty.
UNSAID: Final = {"book": "by the feed", "fills": "by the feed"}


@click.command("handlers")
@click.argument("name", required=False, metavar=f"[{NAME}]", shell_complete=complete_handlers)
@click.option(
    "--set", "given", multiple=True, metavar="OPTION=VALUE", help="Show the handler with this option set. Repeatable."
)
@json_option()
def handlers(name: str | None, given: tuple[str, ...], as_json: bool) -> None:
    """List the built-in handlers, or show the options, the row and the outputs of one.

    `strand replay` and `strand listen` take the options as --set OPTION=VALUE.
    """
    options = given_options("--set", given)
    if name is None:
        if given:
            raise click.UsageError("--set: give the name of the handler too")
        found = {name: _about(BUILTIN[name]) for name in sorted(BUILTIN)}
        show(as_json, found, lambda console: _print_all(console, found))
    else:
        plain = _describe(name, find(name), options)
        show(as_json, plain, lambda console: _print_one(console, plain))


def _text_of(like: Makes) -> str:
    """The documentation of what makes a handler, or of what the user wrote."""
    if isinstance(like, Builtin):
        return inspect.getdoc(like.make) or ""
    if inspect.isfunction(like):
        return inspect.getdoc(like) or ""
    return (inspect.getdoc(like.on_tick) or "") if isinstance(like, CompiledHandler) else ""


def _about(like: Makes) -> str:
    """Summary of a handler: the first paragraph of its text, on one line."""
    return " ".join(_text_of(like).partition("\n\n")[0].split()).replace("``", "")


def _describe(name: str, like: Makes, given: dict[str, str]) -> dict[str, Any]:
    options, lacking = options_of(like), needs(like)
    # Its state may depend on options that have to be given.
    waits = not given and lacking and options.keys() >= set(lacking)
    made = None if waits else configured(like, given, name)
    return {
        "handler": name,
        "about": _about(like),
        "options": {
            option.name: {"takes": option.kind.words, "default": option.default, "about": option.about}
            for option in options.values()
        },
        "row": None if made is None else _fields(made.state),
        "outputs": None if made is None else {output: _fields(dtype) for output, dtype in made.emitted},
    }


def _fields(dtype: np.dtype[Any]) -> list[str]:
    return list(dtype.names or ())


def _print_all(console: Console, found: dict[str, str]) -> None:
    table = Table(show_header=False, box=None)
    for name, about in found.items():
        table.add_row(f"[bold]{escape(name)}[/]", escape(about))
    console.print(table)
    console.print(
        "`strand handlers NAME` lists the options of a handler; set them with --set OPTION=VALUE", style="dim"
    )


def _print_one(console: Console, found: dict[str, Any]) -> None:
    console.print(f"[bold]{escape(found['handler'])}[/]  {escape(found['about'])}", highlight=False)
    if found["options"]:
        table = Table("option", "takes", "default", "", box=SIMPLE_HEAD)
        for name, option in found["options"].items():
            default = option["default"] or UNSAID.get(name, "")
            table.add_row(*map(escape, (name, option["takes"], default, option["about"])))
        console.print(table)
    else:
        console.print("It has no options.")
    for what, fields in (("row", found["row"]), *((f"output {n}", f) for n, f in (found["outputs"] or {}).items())):
        if fields:
            console.print(f"{escape(what)}: {escape(', '.join(fields))}", highlight=False)


_CONVERT: Final = options_in(ConvertOptions)


@click.command("convert", cls=SectionedCommand, sections={"Output": ("--to", "--on-unwritable", "--json")})
@click.argument("files", nargs=-1, shell_complete=complete_files)
@click.argument("out", type=click.Path(path_type=Path))
@declared(_CONVERT["to"])
@declared(_CONVERT["on_unwritable"], default="raise")
@reading
@json_option()
def convert(files: tuple[str, ...], out: Path, to: str | None, on_unwritable: Any, reads: Reads, as_json: bool) -> None:
    """Write the ticks of FILES to OUT as Parquet, Arrow, numpy, ITCH 5.0 or DBN.

    A tick that the format cannot hold is an error, and no file is left; see --on-unwritable.
    Several files are merged by time.
    """
    if not files:
        raise click.UsageError(f"give the file to read, and then the file to write: only {out} is given")
    with progress("converting", reads.limit, as_json) as advance:
        chosen = reads._asdict() | {"symbols": reads.symbols or ()}
        written = run_convert(source_of(files), out, to=to, on_unwritable=on_unwritable, progress=advance, **chosen)
    plain: dict[str, Any] = {
        "path": written.path,
        "format": written.format,
        "ticks": written.ticks,
        "symbols": written.symbols,
        "file_bytes": written.bytes,
        "undated": written.undated,
        "skipped": skipped_as_dict(written.skipped),
        "left_out": dict(written.left_out),
    }
    count = f"{several(written.ticks, 'tick')} of {several(written.symbols, 'symbol')}"
    words = f"{written.path}: {count}, {written.bytes / 1e6:,.1f} MB"

    def human(console: Console) -> None:
        console.print(words, soft_wrap=True, highlight=False, markup=False)
        if written.undated and written.format != "itch":
            console.print(f"[yellow]{UNDATED}[/]")
        print_skipped(console, plain["skipped"])
        if left_out := plain["left_out"]:
            by_field = ", ".join(f"{count:,} by {name}" for name, count in left_out.items())
            total = sum(left_out.values())
            name = NAMES.get(written.format, written.format)
            console.print(f"[yellow]left out:[/] {total:,} ticks that {name} cannot hold: {by_field}")

    show(as_json, plain, human)


#: Writes a day to a path, telling how far it is.
Writer = Callable[[synthetic.SyntheticFeed, Path, Callable[[int, int], None]], tuple[synthetic.WrittenFile, ...]]


@click.group("gen")
def gen() -> None:
    """Generate files of synthetic markets that behave like real ones."""


#: Options of a day, in the order of the help.
_DAY: Final = [
    options_in(synthetic.SyntheticFeed)[name]
    for name in ("symbols", "messages", "seed", "skew", "burst", "halts", "date")
]


_LOBSTER: Final = options_in(synthetic.LobsterOptions)


def _describing_a_day(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of a day, as one argument ``day``: those that were given, by name."""

    @wraps(command)
    def with_day(**others: Any) -> None:
        given = {option.name: others.pop(option.name) for option in _DAY}
        command(day=values_of(_DAY, given), **others)

    found: Callable[..., None] = json_option()(with_day)
    for option in reversed(_DAY):
        found = declared(option)(found)
    return found


def _out(
    words: str = "File to write. The endings .gz and .zst compress it.",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option("--out", type=click.Path(path_type=Path), required=True, help=words)


@gen.command("itch")
@_describing_a_day
@_out()
def gen_itch(out: Path, as_json: bool, day: dict[str, Any]) -> None:
    """Write a synthetic trading day as an ITCH 5.0 file."""
    _write(out, as_json, day, lambda feed, path, advance: (feed.write_itch(path, progress=advance),))


@gen.command("pitch")
@_describing_a_day
@_out()
def gen_pitch(out: Path, as_json: bool, day: dict[str, Any]) -> None:
    """Write a synthetic trading day as Cboe PITCH text."""
    _write(out, as_json, day, lambda feed, path, advance: (synthetic.write_pitch(feed, path, progress=advance),))


@gen.command("lobster")
@_describing_a_day
@declared(_LOBSTER["symbol"])
@declared(_LOBSTER["levels"])
@_out(
    "An existing folder, or the file of messages with 'message' in its name. The endings .gz and .zst compress "
    "both files."
)
def gen_lobster(out: Path, as_json: bool, day: dict[str, Any], **given: Any) -> None:
    """Write one symbol of a synthetic trading day as a LOBSTER pair of CSV files: messages and order book."""
    chosen: Any = values_of(_LOBSTER.values(), given)
    _write(
        out, as_json, day, lambda feed, path, advance: synthetic.write_lobster(feed, path, progress=advance, **chosen)
    )


@gen.command("npy")
@_describing_a_day
@click.option(
    "--records",
    type=click.Choice(["mbo", "tick"]),
    default="mbo",
    help="Records to write: like market-by-order records of DBN, or strand.TICK.",
)
@_out()
def gen_npy(out: Path, as_json: bool, records: str, day: dict[str, Any]) -> None:
    """Write a synthetic trading day as a numpy array of records."""
    write = synthetic.write_mbo if records == "mbo" else synthetic.write_ticks
    _write(out, as_json, day, lambda feed, path, advance: (write(feed, path, progress=advance),))


@gen.command("check")
@click.argument("files", nargs=-1, required=True, shell_complete=complete_files)
@declared(options_in(feeds.open)["date"])
@json_option("a table")
def gen_check(files: tuple[str, ...], date: str | None, as_json: bool) -> None:
    """Measure how close files are to the calibrated day: skew, bursts, and gaps between ticks."""
    options: dict[str, Any] = {} if date is None else {"date": date}
    feed = feeds.open(files if len(files) > 1 else files[0], **options)
    try:
        measures = synthetic.check_calibration(feed)
    finally:
        feed.close()
    plain = {m.name: {"target": m.target, "found": m.found, "ratio": m.ratio, "close": m.close} for m in measures}

    def table(console: Console) -> None:
        heads = ("measure", "calibrated", "found", "ratio", "tolerance", "close")
        table = numbers_table(*heads, box=None, pad_edge=False)
        for m in measures:
            close = "yes" if m.close else "no"
            table.add_row(
                m.name, f"{m.target:.4g}", f"{m.found:.4g}", f"{m.ratio:.2f}", f"{m.low:g} to {m.high:g}", close
            )
        console.print(table)

    show(as_json, plain, table)


def _write(out: Path, as_json: bool, day: dict[str, Any], write: Writer) -> None:
    feed = synthetic.SyntheticFeed(**day)
    with progress("writing", feed.messages, as_json) as advance:
        written = write(feed, out, advance)
    sizes = [Path(file.path).stat().st_size for file in written]
    files = [asdict(file) | {"file_bytes": size} for file, size in zip(written, sizes, strict=True)]
    plain = files[0] | ({"files": files} if len(files) > 1 else {})
    text = "\n".join(
        f"{file.path}: {file.messages:,} messages, {file.ticks:,} ticks, {size / 1e6:,.1f} MB"
        for file, size in zip(written, sizes, strict=True)
    )
    show(as_json, plain, lambda console: console.print(text, soft_wrap=True, markup=False))


DIFFERENT: Final = 1
#: Symbols that are shown by name.
SHOWN: Final = 10
#: Records that no tick emitted.
_NO_TICKS: Final = {str(AT_TIMER): ", of a timer", str(AT_END): ", of the run's end"}


def _of_sides(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of both runs, as one argument ``sides``: those of ``narrow`` by name, None for what is not
    given."""
    files: dict[str, Any] = {"multiple": True, "metavar": "FILE", "shell_complete": complete_files}
    settings: dict[str, Any] = {"multiple": True, "metavar": "OPTION=VALUE"}
    instead = "instead of the one that its file names."

    @click.option("--source", help="File that both runs read, if it has moved. Repeatable.", **files)
    @click.option("--source-a", help="File that A read, if it has moved. Repeatable.", **files)
    @click.option("--source-b", help="File that B read, if it has moved. Repeatable.", **files)
    @click.option("--handler-a", metavar="HANDLER", help=f"Handler to run for A, {instead}")
    @click.option("--handler-b", metavar="HANDLER", help=f"Handler to run for B, {instead}")
    @click.option("--set-a", help="Set an option of --handler-a. Repeatable.", **settings)
    @click.option("--set-b", help="Set an option of --handler-b. Repeatable.", **settings)
    @wraps(command)
    def with_sides(*, source: tuple[str, ...], **others: Any) -> None:
        of = {name: [others.pop(f"{name}_{letter}") for letter in "ab"] for name in ("source", "handler", "set")}
        options = [given_options(f"--set-{letter}", given) for letter, given in zip("ab", of["set"], strict=True)]
        for letter, name, given in zip("ab", of["handler"], options, strict=True):
            if given and name is None:
                raise click.UsageError(f"--set-{letter} needs --handler-{letter}")
        sources = [list(own or source) or None for own in of["source"]]
        command(sides={"sources": sources, "handlers": of["handler"], "options": options}, **others)

    return with_sides


@click.command("diff")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@_of_sides
@click.option("--no-narrow", is_flag=True, help="Compare only the files: do not replay to find the exact tick.")
@json_option()
def diff(a: Path, b: Path, sides: dict[str, Any], no_narrow: bool, as_json: bool) -> None:
    """Find the first symbol and sequence at which two runs differ.

    A and B are two files of `strand replay --fingerprints`, or two files of an output (npy, Parquet, Arrow IPC, CSV).
    The exit status is 0 if they are the same, 1 if they differ, and 2 at an error.
    """
    from strand.diff.records import diff_records
    from strand.diff.rerun import Narrowed, narrow
    from strand.diff.runs import diff_runs

    kinds = [_is_run(path) for path in (a, b)]
    if kinds[0] != kinds[1]:
        raise ConfigurationError(f"{a if kinds[0] else b} is a fingerprint file, but {b if kinds[0] else a} is not")
    if kinds[0]:
        parting = diff_runs(a, b)
        found = Narrowed(None) if no_narrow else narrow(parting, **sides)
        show(as_json, _run_as_dict(parting, found), lambda console: _print_run(console, parting, found))
        same = parting.same
    else:
        if any(sides["sources"] + sides["handlers"]):
            raise ConfigurationError("sources and handlers are for fingerprint files; these are outputs")
        difference, records = diff_records(a, b)
        plain = {"same": difference is None, "kind": "records", "paths": [str(a), str(b)], "records": records}
        plain["difference"] = None if difference is None else asdict(difference)
        show(as_json, plain, lambda console: _print_records(console, difference, records))
        same = difference is None
    if not same:
        sys.exit(DIFFERENT)


def _is_run(path: Path) -> bool:
    from strand.replaying.fingerprint_file import is_fingerprint_file

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
