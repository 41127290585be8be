"""``--out``: files that a run writes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from strand.command.completing import complete_files
from strand.feeds import Feed
from strand.handlers import Handler
from strand.report.rows_file import check_rows_path
from strand.tables.columns import Table

__all__ = ["Writes", "writing"]


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


def writing(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the option, as one argument ``writes``."""

    @click.option(
        "--out",
        "outs",
        multiple=True,
        metavar="FILE|NAME=FILE",
        shell_complete=complete_files,
        help="Write the final row of each symbol to FILE: .parquet, .arrow, .npy, .csv or .csv.gz. NAME=FILE writes "
        "what the handler emits to the output NAME: .parquet, .arrow, .npy or .csv. Repeatable.",
    )
    @click.option(
        "--escape-formulas",
        is_flag=True,
        help="In CSV files, put an apostrophe before text that a spreadsheet would run as a formula: text that "
        "starts with = + - @, a tab or a return.",
    )
    @functools.wraps(command)
    def with_files(*, outs: tuple[str, ...], escape_formulas: bool, **others: Any) -> None:
        command(writes=_writes(outs, escape_formulas=escape_formulas), **others)

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
