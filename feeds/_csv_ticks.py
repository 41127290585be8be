"""Columns of text as ticks, by the rules of a profile."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from strand.binding.text import (
    CLOCK,
    DATE,
    DECIMAL,
    EPOCH,
    FAULT_PRECISION,
    FAULT_RANGE,
    HEX,
    ID,
    LETTER_TARGETS,
    MAX_LETTERS,
    STAMP,
    ZONE_ALWAYS,
    ZONE_NEVER,
    Faults,
    Letters,
    Numbers,
    TextColumn,
    blank_ticks,
)
from strand.errors import ConfigurationError
from strand.feeds._csv_lines import Block
from strand.feeds._csv_match import Match
from strand.feeds._csv_profile import Profile
from strand.feeds._csv_symbols import SymbolReader
from strand.feeds.base import TickBatch
from strand.feeds.mapping.rules import FieldRule, Plus
from strand.feeds.mapping.scalars import IDS, PLACES, PRICES, SIZES
from strand.feeds.mapping.units import PRICE_POWER, nearest, nearest_units
from strand.feeds.selection import Selection
from strand.ticks import MOST_SEQUENCE, UNDEF_PRICE, limits, zeros

__all__ = ["Made", "TickMaker"]

_DAY_NS: Final = 86_400_000_000_000
_HOUR_NS: Final = 3_600_000_000_000
_EPOCH_SCALE: Final = {"s": 9, "ms": 6, "us": 3, "ns": 0}

Chosen = npt.NDArray[np.uint32]


@dataclass(slots=True)
class Made:
    """Ticks of a block: of its rows, or of ``rows`` where a selection left some out; ``faults`` one a tick.

    ``times``: their ts_recv once more, in one run of memory. ``inexact``: how many rows have a number that was rounded
    on request, ``count``: how many rows the ticks are of, where a row may have several (None: one each).
    """

    ticks: TickBatch
    times: npt.NDArray[np.int64]
    faults: Faults
    rows: Chosen | None
    inexact: int = 0
    count: int | None = None


@dataclass(frozen=True, slots=True)
class _Time:
    field: str
    column: int
    numbers: Numbers
    local: bool
    of_day: bool
    undefined: bytes | None
    plus: Plus | None


class TickMaker:
    """Makes ticks of one file's blocks, one after the other. ``names``: the table of symbols, None for one symbol."""

    def __init__(
        self,
        found: Match,
        sample: dict[int, str],
        *,
        date: dt.date | None,
        size_power: int,
        max_symbols: int,
        rounds: bool = False,
    ) -> None:
        self.found = found
        profile = found.profile
        self._profile = profile
        self._date = date
        self._rounds_numbers = rounds
        self._inexact: list[npt.NDArray[np.int64]] = []  # of the block at hand: the rows that were rounded
        self._zone = ZoneInfo(profile.zone)
        self._offsets: dict[int, int] = {}
        self._size_power = size_power
        self.columns: dict[int, str] = {}  # by position: what it is called in errors
        self._rules = [self._settled(rule, sample) for rule in profile.fields if self._present(rule)]
        self._times = [self._time(rule, sample) for rule in self._rules if rule.unit]
        self._day_column = self._place(profile.date_columns) if profile.date_columns else None
        self.needs_date = self._day_column is None and any(time.of_day for time in self._times)
        self._symbols = SymbolReader(profile.symbol, self._place, found.encoding, max_symbols)
        #: Names by index, if a column holds them. A text that is no name is "" here, and its rows have a fault.
        self.names: list[str] | None = self._symbols.names if profile.symbol.columns else None
        self._template = self._blank(profile)
        if profile.end is not None:
            self.columns.setdefault(0, found.columns[0])
        plain = [rule for rule in self._rules if not rule.unit and rule.constant is None]
        # The last of a quote's fields settles its side.
        fields = {rule.field for rule in plain}
        self._last = "ask_size" if "ask_size" in fields else "ask_price"
        self._readers = sorted(plain, key=lambda rule: rule.field == self._last)
        self._numbers = {rule.field: self._number_rule(rule) for rule in self._readers if not (rule.map or rule.pair)}
        self._steps = [(rules, self._tables(rules)) for rules in self._together()]

    def _present(self, rule: FieldRule) -> bool:
        return not rule.columns or not rule.optional or self.found.column(rule.columns) is not None

    def _settled(self, rule: FieldRule, sample: dict[int, str]) -> FieldRule:
        """The rule with the unit of whole numbers where the first number in its column is one."""
        if rule.whole_power is None:
            return rule
        text = sample.get(self._place(rule.columns), "").strip()
        whole = text.removeprefix("-").isdecimal()
        return replace(rule, power=rule.whole_power) if whole else rule

    @property
    def price_power(self) -> int | None:
        """The power of ten that 1 in the file's prices is worth; None where it has no prices."""
        return next((rule.power for rule in self._rules if "price" in rule.field and rule.columns), None)

    def _place(self, names: tuple[str, ...]) -> int:
        at = self.found.read_column(names)
        self.columns[at] = self.found.columns[at] or f"number {at + 1}"
        return at

    def _blank(self, profile: Profile) -> TickBatch:
        blank = zeros(1)
        blank["price"] = UNDEF_PRICE
        blank["action"] = blank["side"] = b"N"
        for rule in profile.fields:
            if rule.constant is not None:
                value = rule.constant
                if rule.field in SIZES and self._size_power != profile.size_power:
                    value, inexact = nearest(Decimal(int(value)), profile.size_power - self._size_power)
                    if inexact or value > limits("size")[1]:
                        raise ConfigurationError(f"size_unit: {rule.field} of the profile is no whole number of it")
                blank[PLACES.get(rule.field, rule.field)] = value
        return blank

    def _time(self, rule: FieldRule, sample: dict[int, str]) -> _Time:
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
            # What stands for an empty one is below every time of day, and told apart by that.
            numbers = Numbers(form, scale, 0, highest, empty=None if empty is None else -1)
            if unit == "stamp" and self._profile.zone != "UTC":
                zoned = replace(numbers, zone=ZONE_ALWAYS)
                says_zone = at in sample and _reads(zoned, sample[at])
                numbers = zoned if says_zone else replace(numbers, zone=ZONE_NEVER)
            local = of_day or numbers.zone == ZONE_NEVER
            undefined = None if rule.undefined is None else rule.undefined.encode()
            plus = rule.plus if rule.plus is not None and self.found.column(rule.plus.columns) is not None else None
            if plus is not None:
                self._place(plus.columns)
            found = _Time(rule.field, at, numbers, local, of_day, undefined, plus)
            if unit == rule.unit[-1] or _reads(numbers, sample.get(at, "")):
                return found
        raise AssertionError(rule)

    def _together(self) -> list[list[FieldRule]]:
        """What is read in one go: a rule, or several next to each other that give one column's letters."""
        steps: list[list[FieldRule]] = []
        for rule in self._readers:
            joined = [*steps[-1], rule] if steps else []
            texts = {text for each in joined for text, _ in each.map}
            same = all(
                each.map and self.found.column(each.columns) == self.found.column(rule.columns) for each in joined
            )
            if same and 1 < len(joined) <= LETTER_TARGETS and len(texts) <= MAX_LETTERS:
                steps[-1].append(rule)
            else:
                steps.append([rule])
        return steps

    def _tables(self, rules: list[FieldRule]) -> Letters | None:
        if not rules[0].map:
            return None
        encoding = self.found.encoding
        return Letters(
            *(
                ({text.encode(encoding): _code(value) for text, value in rule.map}, _code(rule.otherwise))
                for rule in rules
            )
        )

    def make(self, block: Block, first: int, select: Selection | None, keeps: Any) -> Made:
        """Ticks of a block that ``first`` lines of data come before, empty ones not counted.

        ``keeps``: a function from a number of names to whether each is wanted, by index.
        """
        if block.rows == 0:
            return Made(zeros(0), np.zeros(0, np.int64), np.zeros(0, np.uint16), None)
        chosen: Chosen | None = None
        self._inexact.clear()
        ids, id_faults = self._symbols.read(block)
        if select is not None and select.symbols and ids is not None:
            kept = keeps()[ids]
            if not kept.all():
                chosen = np.flatnonzero(kept | (id_faults != 0)).astype(np.uint32)
        count = block.rows if chosen is None else len(chosen)
        faults = id_faults if chosen is None else id_faults[chosen]
        times = {time.field: self._read_time(time, block, faults, chosen) for time in self._times}
        if select is not None and (select.start_ns is not None or select.end_ns is not None):
            recv = times.get("ts_recv", times.get("ts_event"))
            assert recv is not None
            kept = faults != 0
            wanted = np.ones(count, np.bool_)
            if select.start_ns is not None:
                wanted &= recv >= select.start_ns
            if select.end_ns is not None:
                wanted &= recv < select.end_ns
            kept |= wanted
            if not kept.all():
                places = np.flatnonzero(kept)
                chosen = places.astype(np.uint32) if chosen is None else chosen[places]
                faults, count = faults[places], len(places)
                times = {name: values[places] for name, values in times.items()}
        event, recv = times.get("ts_event"), times.get("ts_recv")
        event, recv = recv if event is None else event, event if recv is None else recv
        assert event is not None
        assert recv is not None
        if ids is not None and chosen is not None:
            ids = ids[chosen]
        recv = np.where(recv == 0, event, recv) if (recv == 0).any() else recv
        ticks = blank_ticks(self._template, first + 1, event, recv, ids)
        if chosen is not None or block.at is not None:
            places = block.places()
            ticks["sequence"] = (places if chosen is None else places[chosen]) + (first + 1)
        made = Made(ticks, recv, faults, chosen)
        self._fill_all(block, made)
        if self._inexact:
            inexact = self.rounded_rows()
            made.inexact = len(inexact) if chosen is None else int(np.isin(inexact, chosen).sum())
        return made

    def again(self, block: Block, base: Made) -> Made:
        """Other ticks of the rows of ``base``: what no rule here gives is as there."""
        ticks = base.ticks.copy()
        for rule in self._rules:
            if rule.constant is not None:
                field = PLACES.get(rule.field, rule.field)
                ticks[field] = self._template[field]
        made = Made(ticks, base.times, np.zeros(len(ticks), np.uint16), base.rows)
        self._inexact.clear()
        self._fill_all(block, made)
        return made

    def rounded_rows(self) -> npt.NDArray[np.int64]:
        """The rows of the block at hand with a number that was rounded, some that are not selected among them."""
        return np.unique(np.concatenate(self._inexact)) if self._inexact else np.zeros(0, np.int64)

    def _fill_all(self, block: Block, made: Made) -> None:
        for rules, tables in self._steps:
            if tables is None:
                self._fill(rules[0], block, made)
            else:
                self._fill_letters(rules, tables, block, made)

    def _read_time(self, time: _Time, block: Block, faults: Faults, chosen: Chosen | None) -> npt.NDArray[np.int64]:
        values = np.zeros(len(faults), np.int64)
        self._read(time.numbers, time.column, block.columns[time.column], values, (faults, chosen))
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
        encoding = self.found.encoding
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
        if self._profile.zone == "UTC" or not len(wall) or (self._date is None and self.needs_date):
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

    def _fill(self, rule: FieldRule, block: Block, made: Made) -> None:
        ticks = made.ticks
        if rule.pair:
            self._fill_pair(rule, block, made)
        elif rule.field == "sequence":
            self._fill_sequence(rule, block, made)
        else:
            self._number(rule, block, made, ticks[PLACES.get(rule.field, rule.field)])
        if rule.field == self._last and self._profile.one_sided:
            _settle_sides(ticks)

    def _fill_letters(self, rules: list[FieldRule], tables: Letters, block: Block, made: Made) -> None:
        outs = [made.ticks[rule.field] for rule in rules]
        outs = [out.view(np.uint8) if out.dtype.kind == "S" else out for out in outs]
        at = self._place(rules[0].columns)
        tables.read(block.columns[at], at, outs, made.faults, made.rows)

    def _number_rule(self, rule: FieldRule) -> Numbers:
        if rule.field in PRICES:
            none = UNDEF_PRICE  # itself readable only where the file has prices in units of 1e-9
            return Numbers(
                DECIMAL, PRICE_POWER + rule.power, 1 - (1 << 63), UNDEF_PRICE - (rule.power != -PRICE_POWER),
                empty=none if rule.empty else None, zero=none if rule.zero else 0,
            )  # fmt: skip
        empty = 0 if rule.empty else None
        if rule.field in IDS:
            return Numbers(HEX if rule.text == "hex" else ID, empty=empty, hash=rule.text == "hash")
        if rule.field in SIZES:
            return Numbers(DECIMAL, rule.power - self._size_power, 0, limits("size")[1], empty=empty)
        return Numbers(DECIMAL, 0, *limits(rule.field), empty=empty)

    def _number(self, rule: FieldRule, block: Block, made: Made, out: npt.NDArray[Any]) -> None:
        at = self._place(rule.columns)
        self._read(self._numbers[rule.field], at, block.columns[at], out, (made.faults, made.rows))

    def is_size(self, column: int) -> bool:
        """Whether a column holds sizes."""
        sizes = (rule for rule in self._readers if rule.field in SIZES and not (rule.map or rule.pair))
        return any(self.found.column(rule.columns) == column for rule in sizes)

    def is_mapped(self, column: int) -> bool:
        """Whether a column holds texts that a map lists."""
        return any(rule.map and self.found.column(rule.columns) == column for rule in self._readers)

    def can_round(self, column: int) -> bool:
        """Whether a column holds decimals, which may be rounded on request; times of other forms may not."""
        return any(time.column == column and time.numbers.form == DECIMAL for time in self._times) or any(
            rule.field in self._numbers
            and self._numbers[rule.field].form == DECIMAL
            and self.found.column(rule.columns) == column
            for rule in self._readers
        )

    def _read(
        self, numbers: Numbers, at: int, column: TextColumn, out: npt.NDArray[Any], of: tuple[Faults, Chosen | None]
    ) -> None:
        """A column of numbers. Those with too many decimals are rounded, where that was asked for.

        ``of``: the faults, one a number, and the rows that are read (None: all).
        """
        faults, chosen = of
        bad = numbers.read(column, at, out, faults, chosen)
        if not bad or not self._rounds_numbers or numbers.form != DECIMAL:
            return
        places = np.flatnonzero(faults == (at << 8 | FAULT_PRECISION))
        rows = places if chosen is None else chosen[places].astype(np.int64)
        for place, row in zip(places.tolist(), rows.tolist(), strict=True):
            units = nearest_units(column.text(row).strip(), numbers.scale)
            if units is None or not numbers.lowest <= units <= numbers.highest:
                faults[place] = at << 8 | FAULT_RANGE
                continue
            if units == 0 and numbers.lowest == 0:
                continue  # a size of 0 says something else
            out[place] = units or numbers.zero
            faults[place] = 0
        self._inexact.append(rows)

    def _fill_sequence(self, rule: FieldRule, block: Block, made: Made) -> None:
        numbers = np.zeros(len(made.ticks), np.uint64)
        self._number(rule, block, made, numbers)
        beyond = numbers > MOST_SEQUENCE
        made.faults[beyond & (made.faults == 0)] = self._place(rule.columns) << 8 | FAULT_RANGE
        numbers[beyond] = 0
        made.ticks["sequence"] = numbers

    def _fill_pair(self, rule: FieldRule, block: Block, made: Made) -> None:
        values = []
        for names in rule.pair:
            at = self._place(names)
            out = np.zeros(len(made.ticks), np.uint64)
            Numbers(ID, empty=0).read(block.columns[at], at, out, made.faults, made.rows)
            values.append(out)
        buyer, seller = values
        if rule.field == "side":
            made.ticks["side"].view(np.uint8)[:] = np.where(
                buyer > seller, ord("B"), np.where(seller > buyer, ord("A"), ord("N"))
            )
        else:
            made.ticks[rule.field] = np.minimum(buyer, seller) if rule.earlier else np.maximum(buyer, seller)

    def wanted(self) -> list[int]:
        """Positions of the columns that are read."""
        for rule in self._readers:
            for names in rule.pair or (rule.columns,):
                self._place(names)
        return sorted(self.columns)


def _settle_sides(ticks: TickBatch) -> None:
    """A quote with one side's price speaks of that side alone."""
    ask = ticks["order_id"].view(np.int64)
    no_bid, no_ask = ticks["price"] == UNDEF_PRICE, ask == UNDEF_PRICE
    only_ask, only_bid = no_bid & ~no_ask, no_ask & ~no_bid
    if only_bid.any():
        ticks["side"][only_bid] = b"B"
        ticks["order_id"][only_bid] = 0
        ticks["ref_id"][only_bid] = 0
    if only_ask.any():
        places = np.flatnonzero(only_ask)
        ticks["side"][places] = b"A"
        ticks["price"][places] = ask[places]
        ticks["size"][places] = ticks["ref_id"][places]
        ticks["order_id"][places] = 0
        ticks["ref_id"][places] = 0


def _code(value: Any) -> Any:
    """What a text stands for as a number, if it does: a letter by its code."""
    return value[0] if isinstance(value, bytes) else value


def _reads(numbers: Numbers, text: str) -> bool:
    try:
        numbers.one(text.strip().encode())
    except ValueError:
        return False
    return True
