"""Rows that become several ticks each: the levels of a book, a quote and a trade, the corners of a bar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from strand.binding.columns import holds
from strand.feeds.base import TickBatch
from strand.feeds.formats.csv.lines import Block
from strand.feeds.formats.csv.profile import Match, Part, Profile, SymbolRule
from strand.feeds.formats.csv.ticks import Made, TickMaker
from strand.feeds.mapping.events import end_views
from strand.feeds.mapping.scalars import blank_tick
from strand.feeds.mapping.values import Target
from strand.feeds.selection import Selection
from strand.ticks import KIND_QUOTE, KIND_STATUS, UNDEF_PRICE, empty

__all__ = ["PartsMaker", "tick_maker"]


def tick_maker(found: Match, sample: dict[int, str], levels: int | None, **options: Any) -> TickMaker | PartsMaker:
    """Returns the maker of ticks for one file's blocks. ``levels``: the most levels of a book, None for all that the
    file has."""
    parts = present_parts(found, levels)
    return PartsMaker(found, sample, parts, options) if parts else TickMaker(found, sample, **options)


def present_parts(found: Match, levels: int | None) -> list[Part]:
    """The profile's parts as the file has them: levels up to the first one whose columns are missing."""
    parts: list[Part] = []
    ended = False
    for part in found.profile.parts:
        if part.level is not None:
            ended = part.level > 0 and (ended or any(found.column(names) is None for names in part.columns()))
            if ended or (levels is not None and part.level >= levels):
                continue
        parts.append(part)
    return parts


class PartsMaker:
    """Makes ticks of blocks as TickMaker does: for each row its parts, one after the other.

    Times, symbol and sequence are read once. A row with a fault gives one tick, which carries the fault.
    """

    def __init__(self, found: Match, sample: dict[int, str], parts: list[Part], options: dict[str, Any]) -> None:
        profile = found.profile
        first = replace(profile, fields=(*profile.fields, *parts[0].fields), parts=())
        others = [_only_fields(profile, part) for part in parts[1:]]
        self._parts = parts
        self._last = profile.flags.last if profile.event == ("row",) else 0
        self._sets = profile.sets_last
        self._makers = [TickMaker(replace(found, profile=each), sample, **options) for each in (first, *others)]
        self._head = self._makers[0]
        self._found = found
        self.names = self._head.names
        self.instrument = self._head.instrument
        self.needs_date = self._head.needs_date

    @property
    def columns(self) -> dict[int, str]:
        return {at: name for maker in self._makers for at, name in maker.columns.items()}

    @property
    def price_power(self) -> int | None:
        return next((maker.price_power for maker in self._makers if maker.price_power is not None), None)

    def target(self, column: int) -> Target | None:
        return next((found for maker in self._makers if (found := maker.target(column)) is not None), None)

    def is_mapped(self, column: int) -> bool:
        return any(maker.is_mapped(column) for maker in self._makers)

    def can_round(self, column: int) -> bool:
        return any(maker.can_round(column) for maker in self._makers)

    def cure(self, column: int, fault: int) -> str:
        return self._head.cure(column, fault)

    def unresolved(self) -> int | None:
        return self._head.unresolved()

    def wanted(self) -> list[int]:
        tests = {self._found.read_column(part.where) for part in self._parts if part.where}
        return sorted({at for maker in self._makers for at in maker.wanted()} | tests)

    def make(self, block: Block, first: int, select: Selection | None, keeps: Any) -> Made:
        head = self._head.make(block, first, select, keeps)
        count, width = len(head.ticks), len(self._parts)
        if count == 0:
            return head
        rows = np.arange(block.rows, dtype=np.uint32) if head.rows is None else head.rows
        kept = np.ones((count, width), np.bool_)
        ticks = empty(count * width).reshape(count, width)
        faults = head.faults.copy()
        rounded = [self._head.rounded_rows()]
        row = replace(head, ticks=_without(head.ticks, self._parts[0]))
        for place, (maker, part) in enumerate(zip(self._makers, self._parts, strict=True)):
            made = head if place == 0 else maker.again(block, row)
            if part.where:
                kept[:, place] &= self._holds(block, part, rows)
            if part.filled:
                kept[:, place] &= _is_filled(made)
            if place:
                of_part = np.where(kept[:, place], made.faults, 0)
                faults = np.where(faults == 0, of_part, faults).astype(np.uint16)
                rounded.append(np.intersect1d(maker.rounded_rows(), rows[kept[:, place]]))
            ticks[:, place] = made.ticks
        kept[faults != 0] = np.arange(width) == 0
        out = ticks[kept]
        if self._last:
            _end_rows(out, kept, self._last, sets=bool(self._sets))
        # The row of each tick. A row with a fault has only its first tick.
        of_tick = np.repeat(np.arange(count), kept.sum(axis=1))
        inexact = np.intersect1d(np.unique(np.concatenate(rounded)), rows)
        ids = None if head.instruments is None else head.instruments[of_tick]
        return Made(out, out["ts_recv"], faults[of_tick], rows[of_tick], len(inexact), count, head.left_out, ids)

    def _holds(self, block: Block, part: Part, rows: Any) -> Any:
        return holds(block.columns[self._found.read_column(part.where)], part.text.encode(self._found.encoding), rows)


def _only_fields(profile: Profile, part: Part) -> Profile:
    """A profile of a part's own fields. Its ticks take all other fields from the first part's."""
    return replace(profile, fields=part.fields, parts=(), symbol=SymbolRule(constant=""), date_columns=(), end=None)


def _without(ticks: TickBatch, part: Part) -> TickBatch:
    """The ticks, with the part's own fields set to no value."""
    rest, blank = ticks.copy(), blank_tick()
    for rule in part.fields:
        rest[rule.place] = blank[rule.place]
    return rest


def _end_rows(ticks: TickBatch, kept: Any, last: int, *, sets: bool) -> None:
    """Makes each row an event, whose last tick gets the flag ``last``. Where the file has the flag, not ``sets``, its
    rows are views of books."""
    row = np.repeat(np.arange(len(kept)), kept.sum(axis=1))
    if not sets:
        end_views(ticks, row, last)
        return
    ends = np.append(row[1:] != row[:-1], True) & (ticks["kind"] != KIND_STATUS)
    ticks["flags"][ends] |= np.uint8(last)


def _is_filled(made: Made) -> Any:
    """Mask of the ticks that hold a value: a price, of either side for a quote, or a size."""
    ticks = made.ticks
    quote = (ticks["kind"] == KIND_QUOTE) & (ticks["order_id"] != UNDEF_PRICE)
    return (ticks["price"] != UNDEF_PRICE) | quote | ((ticks["kind"] != KIND_QUOTE) & (ticks["size"] != 0))
