"""``--report`` and ``--report-symbols``: the page a run leaves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

if TYPE_CHECKING:
    from strand.handlers import Handler
    from strand.replaying.result import ReplayResult


__all__ = ["ReportOptions", "reporting"]

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
            from strand.report.page import check_page_path

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
            from strand.report.page import write_page

            write_page(self.path, result, symbols=self.symbols, handler=self.handler, error=error)
            click.echo(f"report written to {self.path}", err=True)


def reporting(command: Callable[..., None]) -> Callable[..., None]:
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
