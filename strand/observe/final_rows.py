"""Final rows as a table of text: which fields, and how each is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from strand.tables import NO_PRICE, is_price
from strand.ticks import PRICE_SCALE

if TYPE_CHECKING:
    from strand.replay import ReplayResult

__all__ = ["FinalRows", "final_rows"]

COLUMNS: Final = 9
#: Halves and parts of sums, where a handler stands in its sessions, and what is under way in an interval.
_INNER: Final = re.compile(r"^(?!last_).*_(low|high|sum|squares)$|^(stretch_|interval_)|^(inside|empty_left)$")
_PREFERRED: Final = (
    "bid_price", "bid_size", "ask_price", "ask_size", "last_price", "volume", "trades", "orders", "vwap",
    "last_open", "last_high", "last_low", "last_close", "last_volume", "last_vwap", "bars",
)  # fmt: skip
_TIMES: Final = frozenset(("start", "end", "recv", "event", "time"))


class FinalRows(NamedTuple):
    """A table's text, and what is to be said of it."""

    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def final_rows(result: ReplayResult, busiest: Sequence[int]) -> FinalRows | None:
    """Rows of the busiest symbols, by index, that have the same handler as the first; None: nothing is to be shown."""
    if not busiest:
        return None
    dtype = result.rows.at(busiest[0]).dtype
    plain = [name for name in dtype.names if dtype[name].shape == () and dtype[name].names is None]
    plain = [name for name in plain if not _INNER.search(name)]
    if not plain:
        return None
    known = [name for name in plain if name in _PREFERRED] if len(plain) > COLUMNS else []
    fields = (known + [name for name in plain if name not in known])[:COLUMNS]
    rows = [
        (
            result.symbols[i],
            f"{result.ticks_by_symbol[i]:,}",
            *(_cell(name, result.rows.at(i)[name]) for name in fields),
        )
        for i in busiest
        if result.rows.at(i).dtype == dtype
    ]
    left = len(plain) - len(fields)
    note = "As the handler left them. Prices are in units of the currency, times are UTC."
    note += f" {left} more fields are in result.rows." if left else ""
    heads = ("symbol", "ticks", *(name.replace("_", " ") for name in fields if name != "ticks"))
    if "ticks" in fields:
        at = 2 + fields.index("ticks")
        rows = [(*row[:at], *row[at + 1 :]) for row in rows]
    return FinalRows(note, heads, rows)


def _cell(name: str, value: Any) -> str:
    if isinstance(value, np.int64) and is_price(name, value.dtype):
        return "" if int(value) in (0, *NO_PRICE) else f"{int(value) / PRICE_SCALE:,.4f}"
    if isinstance(value, np.int64) and name.rpartition("_")[2] in _TIMES:
        return str(np.datetime64(int(value), "ns"))[:23].replace("T", " ") if value else ""
    if isinstance(value, np.bytes_):
        return value.decode(errors="replace")
    if isinstance(value, np.integer):
        return f"{int(value):,}"
    return f"{float(value):,.6g}" if isinstance(value, np.floating) else str(value)
