"""``--top``, ``--sort`` and ``-v``: what a replay shows of its result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from strand.errors import ConfigurationError
from strand.feeds import Feed
from strand.handlers import Handler
from strand.replaying.result import ReplayResult
from strand.report.closing import closing_lines
from strand.report.feed_time import feed_clock
from strand.report.printing import printable
from strand.report.result_rows import TOP, check_sort, result_rows, sort_fields

__all__ = ["Shows", "showing"]


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
        from strand.command.terminal import TerminalConsole
        from strand.report.tables import print_replay

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
        from strand.command.terminal import standard_output
        from strand.report.tables import print_rows

        console = standard_output()
        print_rows(console, rows, console.width if console.is_terminal else None)


def _line(stressed: str, text: str) -> None:
    click.echo(click.style(printable(stressed), fg="yellow") + printable(text) if stressed else printable(text))


def showing(command: Callable[..., None]) -> Callable[..., None]:
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
