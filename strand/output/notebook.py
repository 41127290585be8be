"""HTML of tables in notebooks: a few lines, bounded, escaped, and without style of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.brief import one_line

#: Rows and columns of a table, and tables side by side.
MAX_ROWS: Final = 10
MAX_COLUMNS: Final = 12
MAX_TABLES: Final = 4
#: Characters of a text in a table, and of a fact; elements of an array in a cell.
_CELL: Final = 60
_FACT: Final = 400
_ELEMENTS: Final = 4
_LEFT: Final = ' style="text-align:left"'


def table_html(
    columns: Mapping[str, npt.NDArray[Any]], units: Mapping[str, str], *, note: str, maximum: int = MAX_ROWS
) -> str:
    """A table of columns by name, shape (n, ...) each: the first ``maximum`` rows and ``MAX_COLUMNS`` columns.

    A value that is masked, NaN or NaT is an empty cell. ``units``: by column, words below its name. ``note``: text
    before the table.
    """
    shown = list(columns)[:MAX_COLUMNS]
    if len(shown) < len(columns):
        note += f"; {len(shown)} of {len(columns)} columns"
    kept = [columns[name][:maximum] for name in shown]
    rows = max(map(len, kept), default=0)
    body = "".join(_row("td", [column[at] for column in kept]) for at in range(rows))
    second = _row("th", [units.get(name, "") for name in shown]) if units else ""
    return (
        f"<table><caption{_LEFT}>{_escaped(one_line(note, _FACT))}</caption>"
        f"<thead>{_row('th', shown)}{second}</thead><tbody>{body}</tbody></table>"
    )


def facts_html(facts: Mapping[str, str]) -> str:
    """A table with a line for each fact, its name first. Those without a text are left out."""
    rows = "".join(
        f"<tr><th{_LEFT}>{_escaped(name)}</th><td{_LEFT}>{_escaped(one_line(text, _FACT))}</td></tr>"
        for name, text in facts.items()
        if text
    )
    return f"<table>{rows}</table>"


def _row(tag: str, values: list[Any]) -> str:
    cells = (f"<{tag}{_LEFT if isinstance(one, str) else ''}>{_escaped(_cell(one))}</{tag}>" for one in values)
    return f"<tr>{''.join(cells)}</tr>"


def _escaped(text: str) -> str:
    from html import escape  # its table of entities takes a while to import

    return escape(text)


def _cell(value: Any) -> str:
    if value is np.ma.masked:
        return ""
    if isinstance(value, np.ndarray):
        parts = [_cell(one) for one in value.ravel()[:_ELEMENTS]]
        return ", ".join([*parts, "..."] if value.size > _ELEMENTS else parts)
    if isinstance(value, np.datetime64):
        return "" if np.isnat(value) else str(value)[:23].replace("T", " ")
    if isinstance(value, np.floating):
        return "" if np.isnan(value) else f"{value:,.9g}"
    if isinstance(value, np.integer):
        return f"{value:,}"
    return one_line(str(value), _CELL)
