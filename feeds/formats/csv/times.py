"""Columns of times: stamps, clock times and numbers since an epoch, in the zone that the profile says, as ns in UTC."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from strand.binding.text import (
    CLOCK,
    DATE,
    DECIMAL,
    EPOCH,
    FAULT_RANGE,
    STAMP,
    ZONE_ALWAYS,
    ZONE_NEVER,
    Faults,
    Letters,
    Numbers,
)
from strand.feeds.formats.csv.lines import Block
from strand.feeds.formats.csv.match import Match
from strand.feeds.formats.csv.numbers import Chosen, NumberReader
from strand.feeds.mapping.rules import FieldRule, Plus

__all__ = ["TimeReader"]

_DAY_NS: Final = 86_400_000_000_000
_HOUR_NS: Final = 3_600_000_000_000
_EPOCH_SCALE: Final = {"s": 9, "ms": 6, "us": 3, "ns": 0}


@dataclass(frozen=True, slots=True)
class _TimeColumn:
    field: str
    column: int
    numbers: Numbers
    local: bool
    of_day: bool
    undefined: bytes | None
    plus: Plus | None


class TimeReader:
    """Reads the columns of times of one file. ``sample``: the first text of each column, which tells how it is written.
    ``place``: where a column is that is read, by its names. ``date``: of times of day, where no column has it."""

    def __init__(
        self,
        found: Match,
        rules: Sequence[FieldRule],
        sample: Mapping[int, str],
        *,
        date: dt.date | None,
        place: Callable[[tuple[str, ...]], int],
        numbers: NumberReader,
    ) -> None:
        self._found = found
        self._date = date
        self._place = place
        self._numbers = numbers
        self._zone = ZoneInfo(found.profile.zone)
        self._offsets: dict[int, int] = {}
        self._columns = [self._column(rule, sample) for rule in rules]
        days = found.profile.date_columns
        self._day_column = place(days) if days else None
        #: Whether times are of a day that only ``date`` could say.
        self.needs_date = self._day_column is None and any(time.of_day for time in self._columns)

    def read(self, block: Block, faults: Faults, chosen: Chosen | None) -> dict[str, npt.NDArray[np.int64]]:
        """The times of a block's rows, by field."""
        return {time.field: self._read(time, block, faults, chosen) for time in self._columns}

    def is_decimal(self, column: int) -> bool:
        """Whether a column holds times that are decimals."""
        return any(time.column == column and time.numbers.form == DECIMAL for time in self._columns)

    def _column(self, rule: FieldRule, sample: Mapping[int, str]) -> _TimeColumn:
        """How a time is written: the first of the profile's ways that the column's first time agrees with."""
        at = self._place(rule.columns)
        empty = 0 if rule.empty else None
        for unit in rule.unit:
            of_day = unit == "clock" or rule.since == "midnight"
            highest = _DAY_NS - 1 if of_day else (1 << 63) - 1 - 2 * _DAY_NS
            if unit == "auto":
                form, scale = EPOCH, 0
            elif unit in _EPOCH_SCALE:
                form, scale = DECIMAL, _EPOCH_SCALE[unit]
            else:
                form, scale = (CLOCK if unit == "clock" else STAMP), rule.digits
            # An empty time becomes -1, which no time of day is.
            numbers = Numbers(form, scale, 0, highest, empty=None if empty is None else -1)
            if unit == "stamp" and self._found.profile.zone != "UTC":
                zoned = replace(numbers, zone=ZONE_ALWAYS)
                says_zone = at in sample and _reads(zoned, sample[at])
                numbers = zoned if says_zone else replace(numbers, zone=ZONE_NEVER)
            local = of_day or numbers.zone == ZONE_NEVER
            undefined = None if rule.undefined is None else rule.undefined.encode()
            plus = rule.plus if rule.plus is not None and self._found.column(rule.plus.columns) is not None else None
            if plus is not None:
                self._place(plus.columns)
            found = _TimeColumn(rule.field, at, numbers, local, of_day, undefined, plus)
            if unit == rule.unit[-1] or _reads(numbers, sample.get(at, "")):
                return found
        raise AssertionError(rule)

    def _read(self, time: _TimeColumn, block: Block, faults: Faults, chosen: Chosen | None) -> npt.NDArray[np.int64]:
        values = np.zeros(len(faults), np.int64)
        self._numbers.read(time.numbers, time.column, block.columns[time.column], values, (faults, chosen))
        if time.undefined is not None:
            for place in np.flatnonzero(faults == (time.column << 8 | FAULT_RANGE)).tolist():
                row = place if chosen is None else int(chosen[place])
                if block.columns[time.column].text(row).strip() == time.undefined:
                    values[place], faults[place] = -1, 0
        missing = None if time.numbers.empty is None else values < 0
        if time.plus is not None:
            values += self._added(time.plus, block, faults, chosen)
        if time.local:
            if time.of_day:
                values += self._days(block, faults, chosen)
            values = self._to_utc(values)
        if missing is not None:
            values[missing] = 0
        if len(values) and values.min() < 0:  # in the first hours of 1970 somewhere east of Greenwich
            early = values < 0
            values[early] = 0
            faults[early & (faults == 0)] = time.column << 8 | FAULT_RANGE
        return values

    def _added(self, plus: Plus, block: Block, faults: Faults, chosen: Chosen | None) -> npt.NDArray[np.int64]:
        at = self._place(plus.columns)
        if not plus.ns:
            below = np.zeros(len(faults), np.int64)
            Numbers(DECIMAL, 0, 0, 999_999_999, empty=0).read(block.columns[at], at, below, faults, chosen)
            return below
        codes = np.zeros(len(faults), np.uint8)
        encoding = self._found.encoding
        letters = Letters(({text.encode(encoding): code for code, (text, _) in enumerate(plus.ns)}, None))
        letters.read(block.columns[at], at, [codes], faults, chosen)
        spans = np.array([ns for _, ns in plus.ns], np.int64)
        return spans[np.minimum(codes, len(spans) - 1)]

    def _days(self, block: Block, faults: Faults, chosen: Chosen | None) -> Any:
        if self._day_column is not None:
            days = np.zeros(len(faults), np.int64)
            Numbers(DATE).read(block.columns[self._day_column], self._day_column, days, faults, chosen)
            return days
        return 0 if self._date is None else (self._date - dt.date(1970, 1, 1)).days * _DAY_NS

    def _to_utc(self, wall: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Clock times of the profile's zone, as ns since 1970 as if they were UTC, to UTC."""
        if self._found.profile.zone == "UTC" or not len(wall) or (self._date is None and self.needs_date):
            return wall
        low, high = int(wall.min()) // _HOUR_NS, int(wall.max()) // _HOUR_NS
        if high - low < 4096:
            # Zones change on whole hours, or at least within one: a table by the hour.
            table = np.array([self._offset(hour) for hour in range(low, high + 1)], np.int64)
            if (table == table[0]).all():
                wall -= table[0]
                return wall
            shifted: npt.NDArray[np.int64] = wall - table[wall // _HOUR_NS - low]
            return shifted
        hours = wall // _HOUR_NS
        distinct, places = np.unique(hours, return_inverse=True)
        return wall - np.array([self._offset(hour) for hour in distinct.tolist()], np.int64)[places]

    def _offset(self, hour: int) -> int:
        """What the zone is ahead of UTC, in ns, at an hour of its own clock."""
        if hour not in self._offsets:
            if len(self._offsets) > 1 << 16:
                self._offsets.clear()
            moment = dt.datetime(1970, 1, 1) + dt.timedelta(hours=max(hour, 0))
            ahead = moment.replace(tzinfo=self._zone).utcoffset() or dt.timedelta(0)
            self._offsets[hour] = (ahead.days * 86_400 + ahead.seconds) * 1_000_000_000
        return self._offsets[hour]


def _reads(numbers: Numbers, text: str) -> bool:
    try:
        numbers.one(text.strip().encode())
    except ValueError:
        return False
    return True
