"""What a run did to its data, or found wrong in it: the list ``ReplayResult.warnings``.

Handlers and feeds count what does not fit where they meet it. Here these counts become one list: each with an example
and a cure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from strand.replay_result import ReplayResult

__all__ = ["RunWarning", "warnings_of"]


@dataclass(frozen=True, slots=True)
class RunWarning:
    """One kind of thing that happened to the data.

    ``kind``: a short name (``"unknown orders"``). ``count``: how often it happened. ``example``: one place where, as
    exactly as is known. ``cure``: what to do about it.
    """

    kind: str
    count: int
    example: str
    cure: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.kind}: {self.count:,} ({self.example}); {self.cure}"


class _Counter(NamedTuple):
    """A field of a row, or of a feed's statistics, that counts what does not fit."""

    field: str
    kind: str
    cure: str


_WHOLE: Final = "replay from the start of the day, all its files, no record skipped"
_CORRECT: Final = "correct the source"
_NAMES: Final = "begin where the source names its symbols, or open a numpy file with NpyFeed(path, symbols=names)"
_UNPRICED: Final = (
    "replay from the start of the day, and give book=True for a feed of single orders: no volume has these trades"
)

#: Counters of a feed's statistics.
_OF_FEEDS: Final = (
    _Counter("rows_rounded", "rounded rows", "leave out inexact='round' to have the first one refused"),
    _Counter("disorder_kept", "ticks out of order", "give a wider reorder_ns: disorder_furthest_ns says how wide"),
)

#: Counters of built-in handlers' rows. A row is known by the fields of the key: a user's own may have some of them.
_OF_ROWS: Final[Mapping[frozenset[str], tuple[_Counter, ...]]] = {
    frozenset({"unknown", "duplicates", "clipped", "unusable", "crossed"}): (
        _Counter("unknown", "unknown orders", f"{_WHOLE}: books lack what changes of these orders did"),
        _Counter("duplicates", "duplicate orders", f"{_WHOLE}: books have the first order of each id"),
        _Counter("clipped", "clipped orders", f"{_WHOLE}: more was taken off these orders than was left"),
        _Counter("unusable", "unusable orders", f"{_CORRECT}: they lack a price, a side or a size, and are left out"),
        _Counter("crossed", "crossed books", f"{_WHOLE}: after so many ticks the bid was at the ask or above it"),
    ),
    frozenset({"absent", "beyond", "unusable", "crossed", "passed_over"}): (
        _Counter("absent", "unknown levels", "begin with a whole snapshot: levels that were to go were not there"),
        _Counter("beyond", "clipped levels", "give depth a larger max_levels: a side was full, and its worst went"),
        _Counter("unusable", "unusable levels", f"{_CORRECT}: they lack a price, a side or a size, and are left out"),
        _Counter("crossed", "crossed books", "begin with a whole snapshot: the bid was at the ask or above it"),
    ),
    frozenset({"quotes", "locked", "one_sided", "quoted"}): (
        _Counter("locked", "crossed quotes", f"{_CORRECT}: their bid is at the ask or above, no spread has them"),
    ),
    frozenset({"trades", "notional", "vwap", "unpriced"}): (_Counter("unpriced", "unpriced trades", _UNPRICED),),
    frozenset({"signed_volume", "interarrival_ns", "unpriced"}): (_Counter("unpriced", "unpriced trades", _UNPRICED),),
    frozenset({"bars", "outside", "late", "unpriced"}): (
        _Counter("unpriced", "unpriced trades", _UNPRICED),
        _Counter("late", "late trades", "give the feed a wider reorder_ns: they are in a later bar than their time"),
    ),
    frozenset({"rv", "bv", "left_out"}): (
        _Counter("left_out", "unusable prices", f"{_CORRECT}: at or below 0 they have no logarithm, and are left out"),
    ),
}


def warnings_of(result: ReplayResult) -> tuple[RunWarning, ...]:
    """The warnings of a run: of its handlers' rows, over all its days, of its feed, its symbols and its pace."""
    return (*_of_rows(result), *_of_feed(result), *_of_symbols(result), *_of_pace(result))


def _of_rows(result: ReplayResult) -> Iterator[RunWarning]:
    counts: dict[_Counter, int] = {}
    most: dict[_Counter, tuple[int, str]] = {}
    # A run per day has its last day among the others.
    for rows in [day.rows for day in result.days] or [result.rows]:
        for symbols, table in rows.by_handler():
            for counter, values in _counted(table):
                if total := int(values.sum(dtype=np.int64)):
                    worst = int(values.argmax())
                    counts[counter] = counts.get(counter, 0) + total
                    here = int(values[worst]), rows.symbols[int(symbols[worst])]
                    most[counter] = max(most.get(counter, here), here, key=lambda one: one[0])
    for counter, count in counts.items():
        number, symbol = most[counter]
        yield RunWarning(counter.kind, count, f"{number:,} of {symbol}", counter.cure)


def _counted(table: npt.NDArray[Any]) -> Iterator[tuple[_Counter, npt.NDArray[Any]]]:
    """The counters of a handler's rows, and what they say by symbol; of a chain those of its parts."""
    names = table.dtype.names or ()
    for fields, counters in _OF_ROWS.items():
        if fields <= set(names):
            yield from ((counter, table[counter.field]) for counter in counters)
    for name in names:
        yield from _counted(table[name])


def _of_feed(result: ReplayResult) -> Iterator[RunWarning]:
    for counter in _OF_FEEDS:
        if count := result.feed_statistics.get(counter.field, 0):
            yield RunWarning(counter.kind, count, f"in {result.info.path}", counter.cure)


def _of_symbols(result: ReplayResult) -> Iterator[RunWarning]:
    unnamed = [i for i in np.flatnonzero(result.ticks_by_symbol).tolist() if not result.symbols.has_name(i)]
    if unnamed:
        most = max(unnamed, key=lambda i: int(result.ticks_by_symbol[i]))
        example = f"{result.symbols[most]} with {int(result.ticks_by_symbol[most]):,} ticks"
        yield RunWarning("unnamed symbols", len(unnamed), example, _NAMES)


def _of_pace(result: ReplayResult) -> Iterator[RunWarning]:
    pacing = result.pacing
    if pacing is not None and pacing.late:
        example = f"one that was {pacing.lateness.maximum_ns / 1e6:,.3f} ms late"
        yield RunWarning("late ticks", pacing.late, example, "replay at a lower speed, or with more workers")
