"""Final rows as a table of text: which fields, and how each is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.report.quantities import moment

if TYPE_CHECKING:
    from strand.replaying.run_result import RunResult

__all__ = ["PREFERRED", "FinalRows", "final_rows"]

COLUMNS: Final = 9
PREFERRED: Final = (
    "bid_price", "bid_size", "ask_price", "ask_size", "last_price", "volume", "trades", "orders", "vwap",
    "last_open", "last_high", "last_low", "last_close", "last_volume", "last_vwap", "bars",
)  # fmt: skip


class FinalRows(NamedTuple):
    """A table's text, and what is to be said of it."""

    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def final_rows(result: RunResult, busiest: Sequence[int]) -> FinalRows | None:
    """Rows of the busiest symbols, by index, that have the same handler as the first; None: nothing is to be shown.

    Raises ConfigurationError for sizes whose unit nobody knows.
    """
    if not busiest:
        return None
    rows = result.rows.alike(np.array(busiest))
    columns = {name: column for name, column in rows.table().items() if column.ndim == 1 and "." not in name}
    symbols = columns.pop("symbol").tolist()
    if not columns:
        return None
    known = [name for name in columns if name in PREFERRED] if len(columns) > COLUMNS else []
    fields = (known + [name for name in columns if name not in known])[:COLUMNS]
    left = len(columns) - len(fields)
    note = "As the handler left them, in natural units; times are UTC, an empty cell is undefined."
    note += f" {left} more fields are in result.rows." if left else ""
    fields = [name for name in fields if name != "ticks"]
    ticks = dict(zip(result.symbols, result.ticks_by_symbol.tolist(), strict=False))
    whole = {name: rows.array.dtype[name].kind in "iu" for name in fields}
    cells = [[f"{ticks[name]:,}" for name in symbols]]
    cells += [[_cell(value, exact=whole[name]) for value in _values(columns[name])] for name in fields]
    heads = ("symbol", "ticks", *(name.replace("_", " ") for name in fields))
    return FinalRows(note, heads, list(zip(symbols, *cells, strict=True)))


def _values(column: npt.NDArray[Any]) -> Sequence[Any]:
    """Values of a column, None where one is undefined; times as text, as Python has none in ns."""
    found: list[Any] = column.tolist()
    return found if column.dtype.kind != "M" else [None if ns is None else moment(ns) for ns in found]


def _cell(value: Any, *, exact: bool) -> str:
    """A value as text, with every digit where it is ``exact``: a whole number of a smaller unit."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.15g}" if exact else f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
