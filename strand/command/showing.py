"""Results of a run, as the commands show and write them: ``--top``, ``--sort``, ``-v``, ``--out`` and ``--report``."""

from __future__ import annotations

import functools
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import numpy as np

from strand.command.parameters import complete_files, declared, json_option
from strand.dispatch.configuration import RunOptions
from strand.errors import ConfigurationError, FeedError, HandlerError, StrictError, UnknownSymbolError
from strand.feeds import Feed
from strand.feeds.write.destinations import output_paths
from strand.handlers import Handler
from strand.options import options_in
from strand.replaying.options import Asked
from strand.replaying.result import ReplayResult
from strand.report.quantities import feed_clock, printable, text_width
from strand.report.result_rows import TOP, ResultRows, check_rows_path, check_sort, result_rows, sort_fields, write_rows
from strand.report.summary import as_dict, closing_lines
from strand.tables.columns import Table


class Shows(NamedTuple):
    """Options of the shown rows: their number, their order, and whether to show all details of the run. ``asked``: any
    of them was given."""

    top: int | None
    sort: str | None
    verbose: bool

    @property
    def asked(self) -> bool:
        return self.top is not None or self.sort is not None or self.verbose

    def check(self, handler: Handler, feed: Feed) -> None:
        """Raises ConfigurationError, before a run, where its rows cannot be sorted so."""
        if self.sort is not None and "." not in self.sort:  # a field of a chain's part is looked for at the end
            check_sort(self.sort, sort_fields(handler.known(feed.info).state))

    def print(
        self, result: ReplayResult, *, rows_file: Path | None = None, symbols: Sequence[str] | None = None
    ) -> None:
        """Prints the warnings, the rows, and the figures of the run: all of them where ``verbose``. Of a run whose
        results went to files the rows are shown where that was asked for. ``symbols``: as ``--symbols`` names them."""
        if not self.verbose:
            for warning in result.warnings:
                _line("warning:", f" {warning}")
        if self.asked or (rows_file is None and not result.written):
            self._print_rows(result, symbols)
        if not self.verbose:
            for stressed, text in closing_lines(result, rows_file):
                _line(stressed, text)
            return
        from strand.report.tables import TerminalConsole, print_replay

        print_replay(TerminalConsole(), result, rows_file)

    def _print_rows(self, result: ReplayResult, symbols: Sequence[str] | None) -> None:
        top = self.top or (TOP if symbols is None else max(TOP, len(symbols)))
        try:
            rows = result_rows(result, top=top, sort=self.sort, clock=feed_clock(result.info))
        except ConfigurationError as error:
            _line("rows:", f" {error}")
            return
        if rows is None:
            return
        width = None
        if sys.stdout.isatty():
            import shutil

            width = shutil.get_terminal_size().columns
        print_rows(rows, width)


def _line(stressed: str, text: str) -> None:
    click.echo(_styled(stressed, fg="yellow") + _styled(text))


def _styled(text: str, **style: Any) -> str:
    """The text, as codes that a terminal shows in a style, if there are both a style and such a terminal."""
    plain = not text or not style or os.environ.get("TERM") in ("dumb", "unknown")
    return printable(text) if plain else click.style(printable(text), **style)


#: Letters between two columns.
_GAP: Final = "  "


def print_rows(rows: ResultRows, width: int | None) -> None:
    """Prints the rows as a table of the columns that fit, and what it does not show of them. ``width``: letters in a
    line, None: there is no end, as where a program reads them.

    The table is written here: to import rich takes as long as to import numpy.
    """
    fields, left = rows.fitting(width, gap=len(_GAP))

    def line(texts: Iterable[str], **style: Any) -> None:
        cells = []
        for field, text in zip(fields, texts, strict=True):
            space = " " * (field.width - text_width(text))
            styled = _styled(text, **style)
            cells.append(space + styled if field.flush_right else styled + space)
        click.echo(_GAP.join(cells))

    line((field.name for field in fields), bold=True)
    if any(field.unit for field in fields):
        line((field.unit for field in fields), dim=True)
    rule = "─" if "utf" in (sys.stdout.encoding or "").lower() else "-"
    click.echo(rule * (sum(field.width for field in fields) + len(_GAP) * (len(fields) - 1)))
    for cells in zip(*(field.cells for field in fields), strict=True):
        line(cells)
    notes = [rows.note] if rows.note else []
    if rows.rest:
        shown = len(rows.symbols.cells)
        notes.append(f"{shown:,} of {shown + rows.rest:,} symbols, by {rows.by} (--top, --sort)")
    if rows.others:
        notes.append(f"{rows.others:,} symbols have another handler")
    if left:
        notes.append(f"more fields (--out rows.csv has all): {', '.join(left)}")
    for note in notes:
        click.echo(_styled(note if width is None else textwrap.fill(note, width, break_on_hyphens=False)))


def _showing(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, as one argument ``shows``."""

    @click.option("--top", type=click.IntRange(1), metavar="N", help=f"Show the rows of N symbols. [default: {TOP}]")
    @click.option(
        "--sort",
        metavar="FIELD",
        help="Sort the rows by FIELD, greatest first, or by symbol. [default: ticks, the busiest symbols first]",
    )
    @click.option(
        "-v", "--verbose", is_flag=True, help="Report the run in full: workers, latencies, drops and the fingerprint."
    )
    @functools.wraps(command)
    def with_shows(*, top: int | None, sort: str | None, verbose: bool, as_json: bool, **others: Any) -> None:
        shows = Shows(top, sort, verbose)
        if as_json and shows.asked:
            raise click.UsageError("--json has all of the run: leave out --top, --sort and -v")
        command(shows=shows, as_json=as_json, **others)

    return with_shows


#: The busiest symbols that are watched where none are named.
BUSIEST: Final = 4


class ReportOptions(NamedTuple):
    """The page to write, if any: where, about which symbols, and what the handler is called."""

    path: Path | None
    symbols: list[str] | None
    handler: str

    @classmethod
    def of(cls, path: Path | None, symbols: str | None, handler: Handler) -> ReportOptions:
        """Reads the options. Raises the errors of a page that cannot be written, before anything has run."""
        names = None if symbols is None else [name for name in symbols.split(",") if name]
        if path is None and symbols is not None:
            raise click.UsageError("--report-symbols needs --report")
        if names == []:
            raise click.UsageError("--report-symbols: name a symbol")
        if path is not None:
            from strand.report.html import check_page_path

            check_page_path(path)
        return cls(path, names, handler.described)

    @property
    def watch(self) -> int | list[str] | None:
        """Symbols that the replay is to watch, or the number of the busiest ones."""
        if self.path is None:
            return None
        return BUSIEST if self.symbols is None else self.symbols

    def write(self, result: ReplayResult, error: str = "") -> None:
        """Writes the page; ``error``: what ended the run early."""
        if self.path is not None:
            from strand.report.html import write_page

            write_page(self.path, result, symbols=self.symbols, handler=self.handler, error=error)
            click.echo(f"report written to {self.path}", err=True)


def _reporting(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, as one argument ``report``; the command has an argument ``handler``."""

    @click.option(
        "--report",
        "page",
        type=click.Path(path_type=Path),
        help="Write a report of the run as one self-contained .html file.",
    )
    @click.option(
        "--report-symbols",
        metavar="NAMES",
        help="Symbols whose prices the report shows, separated by commas. [default: the 4 busiest]",
    )
    @functools.wraps(command)
    def with_page(*, page: Path | None, report_symbols: str | None, handler: Handler, **others: Any) -> None:
        command(report=ReportOptions.of(page, report_symbols, handler), handler=handler, **others)

    return with_page


class Writes(NamedTuple):
    """Destinations of the symbols' final rows, None for nowhere, and of outputs by name."""

    rows: Path | None
    outputs: Mapping[str, str]
    escape_formulas: bool = False

    def check(self, handler: Handler, feed: Feed) -> None:
        """Raises ConfigurationError, before a run, where the rows would be a table of sizes whose unit nobody knows."""
        if self.rows is not None and not self.rows.name.endswith(".npy"):
            shown = Table(handler.known(feed.info).state, feed.info.size_unit)
            shown.columns(np.zeros(0, shown.plain))


_OUT: Final = replace(
    options_in(Asked)["out"],
    text="Write the final row of each symbol to FILE: .parquet, .arrow, .npy, .csv or .csv.gz. NAME=FILE writes what "
    "the handler emits to the output NAME: .parquet, .arrow, .npy or .csv. Repeatable.",
)


def writing(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the option, as one argument ``writes``."""

    @declared(_OUT, multiple=True, shell_complete=complete_files)
    @declared(options_in(RunOptions)["escape_formulas"], default=False)
    @functools.wraps(command)
    def with_files(*, out: tuple[str, ...], escape_formulas: bool, **others: Any) -> None:
        command(writes=_writes(out, escape_formulas=escape_formulas), **others)

    return with_files


def _writes(given: tuple[str, ...], *, escape_formulas: bool) -> Writes:
    rows: list[str] = []
    written: dict[str, str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not name.isidentifier():
            rows.append(text)
        elif name in written:
            raise click.UsageError(f"--out: {name!r} is given twice")
        else:
            written[name] = path
    if len(rows) > 1:
        raise click.UsageError(f"--out: rows can go to one file, not to {' and '.join(rows)}")
    out = Path(rows[0]) if rows else None
    if out is not None:
        check_rows_path(out)
    return Writes(out, written, escape_formulas)


class Results(NamedTuple):
    """Options of a run's results: where they are written, the page, and how they are shown."""

    writes: Writes
    report: ReportOptions
    shows: Shows
    as_json: bool

    def check(self, handler: Handler, feed: Feed) -> None:
        """Raises ConfigurationError, before a run, for rows that cannot be written or sorted so."""
        self.writes.check(handler, feed)
        self.shows.check(handler, feed)

    @property
    def files(self) -> list[tuple[str, Any]]:
        """The files to write, for ``check_outputs``."""
        return output_paths(self.writes.outputs, rows=self.writes.rows, page=self.report.path)

    @property
    def options(self) -> dict[str, Any]:
        """Options of ``strand.replay``, by name."""
        return {
            "out": self.writes.outputs,
            "escape_formulas": self.writes.escape_formulas,
            "watch": self.report.watch,
            "timeline": self.report.path is not None or self.shows.verbose or self.as_json,
        }

    def of(
        self,
        run: Callable[[], ReplayResult],
        symbols: Sequence[str] | None,
        *,
        more: Callable[[], Mapping[str, Any]] = dict,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """Writes and shows the result of ``run``, a replay. Of one that an error ends, it shows the ticks that were
        handled before; ``main`` reports the error after them. ``more``: what JSON has beside, ``after``: shows the
        same to people."""
        rows = self.writes.rows
        try:
            result = run()
        except (FeedError, HandlerError, KeyboardInterrupt, StrictError, UnknownSymbolError) as raised:
            if (partial := getattr(raised, "partial", None)) is not None:
                if rows is not None:
                    click.echo(f"no rows written to {rows}: the run ended early", err=True)
                why = "interrupted" if isinstance(raised, KeyboardInterrupt) else str(raised)
                self.report.write(partial, "" if isinstance(raised, StrictError) else why)
                if isinstance(raised, HandlerError) and not self.as_json:  # which main tells, with more
                    told = str(raised.args[0])
                    left = tuple(failure for failure in partial.failures if not failure.startswith(told))
                    partial = replace(partial, failures=left)
                self._show(partial, None, symbols, {**more(), "error": why} if self.as_json else {}, after)
            raise
        if rows is not None:
            write_rows(rows, result, escape_formulas=self.writes.escape_formulas)
        self.report.write(result)
        self._show(result, rows, symbols, more() if self.as_json else {}, after)

    def _show(
        self,
        result: ReplayResult,
        rows: Path | None,
        symbols: Sequence[str] | None,
        more: Mapping[str, Any],
        after: Callable[[], None],
    ) -> None:
        if self.as_json:
            click.echo(json.dumps({**as_dict(result), **more}))
            return
        self.shows.print(result, rows_file=rows, symbols=symbols)
        after()


def resulting(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of results, as one argument ``results``; the command has an argument ``handler``."""

    @json_option("tables")
    @functools.wraps(command)
    def with_results(*, writes: Writes, report: ReportOptions, shows: Shows, as_json: bool, **others: Any) -> None:
        command(results=Results(writes, report, shows, as_json), **others)

    return writing(_reporting(_showing(with_results)))
