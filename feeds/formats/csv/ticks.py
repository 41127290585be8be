"""Columns of text as ticks, by the rules of a profile: a tick for each row, or several (the levels of a book, a quote
and a trade, the corners of a bar)."""

from __future__ import annotations

import csv
import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.columns import (
    DECIMAL,
    FAULT_FALLS,
    FAULT_PRECISION,
    FAULT_RANGE,
    FAULT_TWICE,
    FAULT_WORDS,
    HEX,
    ID,
    LETTER_TARGETS,
    MAX_LETTERS,
    Faults,
    Letters,
    Numbers,
    holds,
    whole,
)
from strand.errors import ConfigurationError, FeedError, FormatError
from strand.feeds.base import Selection, Skipped, TickBatch
from strand.feeds.formats.csv.columns import JOINED, Block, Cells, Chosen, Scratch, TimeReader, blocks
from strand.feeds.formats.csv.profile import Match, Part, present_parts
from strand.feeds.io.prefetch import Chunks
from strand.feeds.mapping.columns import Assembly, both_times, held, is_filled, sides_of, woven
from strand.feeds.mapping.events import CONSOLIDATED, Levels, Rolls, end_views
from strand.feeds.mapping.options import MEND
from strand.feeds.mapping.rules import PRICES, SIZES, FieldRule, listed
from strand.feeds.mapping.symbols import SymbolIndex
from strand.feeds.mapping.values import IDS, PRICE_POWER, Target, coarser_price, finer_unit, nearest
from strand.symbols import NAME_BYTES
from strand.ticks import FIELDS, KIND_STATUS, UNDEF_PRICE, limits, picked, zeros

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
Array = npt.NDArray[Any]
#: Reads fields of rows, by name, into a dict.
Reader = Callable[[Cells, dict[str, Array]], None]


@dataclass(slots=True)
class Made:
    """Ticks of a block: of its rows, or of ``rows`` where some are left out; ``faults`` one a tick.

    ``times``: their ts_recv once more, in one run of memory. ``not_selected``: how many rows a selection left out.
    ``inexact``: how many rows have a number that was rounded on request.
    ``left_out``: how many rows have a sequence that no tick holds. ``instruments``: the number of each tick's
    instrument, where the profile names the column and the file has it.
    """

    ticks: TickBatch
    times: npt.NDArray[np.int64]
    faults: Faults
    rows: Chosen | None
    not_selected: int = 0
    inexact: int = 0
    left_out: int = 0
    instruments: npt.NDArray[np.uint64] | None = None


class _File:
    """A file's columns, as far as rules name them. ``columns``: those that are read, by position, with their names in
    errors."""

    def __init__(self, found: Match, sample: dict[int, str], size_power: int) -> None:
        self.found, self.size_power = found, size_power
        self.columns: dict[int, str] = {}
        self._sample = sample

    def place(self, names: tuple[str, ...]) -> int:
        """The place of a column that is read."""
        at = self.found.read_column(names)
        self.columns[at] = self.found.columns[at] or f"number {at + 1}"
        return at

    def rules(self, given: Sequence[FieldRule]) -> list[FieldRule]:
        """The rules whose columns the file has, with the unit of whole numbers where a column's first number is one,
        and constants in units of the feed."""
        return [
            self._settled(rule)
            for rule in given
            if not rule.columns or not rule.optional or self.found.column(rule.columns) is not None
        ]

    def _settled(self, rule: FieldRule) -> FieldRule:
        profile = self.found.profile
        if rule.constant is not None and rule.field in SIZES and self.size_power != profile.size_power:
            value, inexact = nearest(Decimal(int(rule.constant)), profile.size_power - self.size_power)
            if inexact or value > limits("size")[1]:
                raise ConfigurationError("size_unit", f"the profile's {rule.field} is not a whole number of this unit")
            return replace(rule, constant=value)
        if rule.whole_power is None:
            return rule
        text = self._sample.get(self.place(rule.columns), "").strip()
        if group := profile.marks[1].decode():
            text = text.replace(group, "")
        whole_power = _WHOLE.fullmatch(text) is not None
        return replace(rule, power=rule.whole_power if whole_power else rule.power, whole_power=None)


class _Fields:
    """Fields that columns other than those of times and symbols give, of rows or of one of their parts."""

    def __init__(self, file: _File, rules: list[FieldRule]) -> None:
        self.rules = [rule for rule in rules if rule.constant is None and not rule.unit]
        self._file = file
        #: The reader of sizes that are differences of a running total, and their column.
        running = next((rule for rule in self.rules if rule.running is True), None)
        self.running = None if running is None else (self._reader(running), file.place(running.columns))
        self._steps: list[Reader] = []
        for step in self._together([rule for rule in self.rules if rule.running is not True]):
            self._steps.append(self._letters(step) if step[0].map else self._reader(step[0]))

    @property
    def names(self) -> set[str]:
        """The fields."""
        signed = {"side"} if any(rule.signed for rule in self.rules) else set()
        return {rule.field for rule in self.rules} | signed

    def read(self, cells: Cells) -> dict[str, Array]:
        """The fields of rows."""
        found: dict[str, Array] = {}
        for step in self._steps:
            step(cells, found)
        return found

    def _reader(self, rule: FieldRule) -> Reader:
        """A function that reads a rule's column, or its two columns."""
        if rule.pair:
            return self._pair(rule, [self._file.place(names) for names in rule.pair])
        file, at, profile = self._file, self._file.place(rule.columns), self._file.found.profile
        none = UNDEF_PRICE if rule.field in PRICES else 0
        empty_is = none if rule.empty else None
        target, (point, group) = rule.target(file.size_power), profile.marks
        numbers = Numbers(
            DECIMAL, target.power, target.lowest, target.most(target.power), empty_is, none if rule.zero else 0,
            point=point, group=group,
        )  # fmt: skip
        if rule.field in IDS:
            numbers = Numbers(HEX if rule.text == "hex" else ID, empty=empty_is, hash=rule.text == "hash")
        undefined = frozenset(text.encode(file.found.encoding) for text in rule.undefined)
        dtype = np.dtype("i8") if rule.field in PRICES or rule.field in SIZES else FIELDS[rule.field]

        def read(cells: Cells, found: dict[str, Array]) -> None:
            values = cells.numbers(numbers, at, undefined=undefined, none=none, dtype=dtype)
            if rule.signed:
                found["side"] = sides_of(values)
                np.abs(values, out=values)
            if rule.both_sides:
                cells.faults[((values & 1) == 1) & (cells.faults == 0)] = at << 8 | FAULT_PRECISION
                values >>= 1
            found[rule.field] = values

        return read

    def _pair(self, rule: FieldRule, places: list[int]) -> Reader:
        def read(cells: Cells, found: dict[str, Array]) -> None:
            buyer, seller = (cells.numbers(Numbers(ID, empty=0), at, dtype=np.uint64) for at in places)
            if rule.field == "side":
                found["side"] = np.where(buyer > seller, b"B", np.where(seller > buyer, b"A", b"N"))
            else:
                found[rule.field] = np.minimum(buyer, seller) if rule.earlier else np.maximum(buyer, seller)

        return read

    def _letters(self, rules: list[FieldRule]) -> Reader:
        encoding, at = self._file.found.encoding, self._file.place(rules[0].columns)
        tables = Letters(
            *(
                ({text.encode(encoding): _code(value) for text, value in rule.map}, _code(rule.otherwise))
                for rule in rules
            )
        )

        dtypes = [np.dtype("u1") if FIELDS[rule.field].kind == "S" else FIELDS[rule.field] for rule in rules]

        def read(cells: Cells, found: dict[str, Array]) -> None:
            outs = cells.letters(tables, at, dtypes)
            found.update(zip((rule.field for rule in rules), outs, strict=True))

        return read

    def _together(self, rules: list[FieldRule]) -> list[list[FieldRule]]:
        """The rules in groups that are read in one pass: one rule, or several in a row that make letters of the same
        column."""
        steps: list[list[FieldRule]] = []
        column = self._file.found.column
        for rule in rules:
            joined = [*steps[-1], rule] if steps else []
            texts = {text for each in joined for text, _ in each.map}
            same = all(each.map and column(each.columns) == column(rule.columns) for each in joined)
            if same and 1 < len(joined) <= LETTER_TARGETS and len(texts) <= MAX_LETTERS:
                steps[-1].append(rule)
            else:
                steps.append([rule])
        return steps


class _OfPart:
    """The ticks of one part of rows: what the part says beside ``row``, the fields of all parts."""

    def __init__(self, file: _File, row: list[FieldRule], part: Part) -> None:
        self.part = part
        own = file.rules(part.fields)
        self.fields = _Fields(file, own)
        self._text = part.text.encode(file.found.encoding)
        self._test = file.place(part.where) if part.where else None
        rules = [*row, *own]
        names = {rule.field for rule in rules if rule.constant is None} | self.fields.names
        self._assembly = Assembly({rule.field: rule.constant for rule in rules if rule.constant is not None}, names)
        self._one_sided = file.found.profile.one_sided and "ask_price" in names

    def ticks(self, numbers: Any, keys: npt.NDArray[np.uint32] | None, fields: dict[str, Array]) -> TickBatch:
        """A tick of each row."""
        ticks, _ = self._assembly.ticks(numbers, keys, {name: whole(values) for name, values in fields.items()})
        if self._one_sided:
            _settle_sides(ticks)
        return ticks

    def kept(self, cells: Cells, ticks: TickBatch) -> npt.NDArray[np.bool_]:
        """Mask of the rows that have the part."""
        kept = np.ones(len(cells), np.bool_) if self._test is None else cells.holds(self._test, self._text)
        if self.part.filled == "price":
            kept &= ticks["price"] != UNDEF_PRICE
        elif self.part.filled == "size":
            kept &= ticks["size"] != 0
        elif self.part.filled:
            kept &= is_filled(ticks)
        return kept


class TickMaker:
    """Makes ticks of one file's blocks, one after the other. ``levels``: the most levels of a book, None for all that
    the file has. ``select``: the ticks that are wanted. ``scratch``: memory that makers of one thread may share."""

    def __init__(
        self,
        found: Match,
        sample: dict[int, str],
        *,
        date: dt.date | None,
        size_power: int,
        max_symbols: int,
        levels: int | None = None,
        rounds: bool = False,
        select: Selection | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        self.found, self._rounds, self._scratch, self._select = found, rounds, scratch or Scratch(), select
        profile = found.profile
        self._file = _File(found, sample, size_power)
        place = self._file.place
        row = self._file.rules(profile.fields)
        self.times = TimeReader(found, [rule for rule in row if rule.unit], sample, date=date, place=place)
        self.needs_date = self.times.needs_date
        named, keeps = profile.symbol, None if select is None or not select.symbols else select.keeps
        #: The columns of symbols, if there are any, and the keys by which ticks name them.
        self._named = [place((name,)) for name in named.joined] or [place(named.columns)] if named.columns else []
        self._symbols = SymbolIndex(max_symbols, keeps, found.encoding)
        #: Names by index, if a column holds them. A text that is no name is "" here, and its rows have a fault.
        self.names: list[str] | None = self._symbols.names if named.columns else None
        instrument = profile.symbol.instrument
        #: The column of instruments' numbers, if there is one.
        self.instrument = place(instrument) if instrument and found.column(instrument) is not None else None
        self._fields = _Fields(self._file, row)
        self._totals = _RunningTotals()
        level = next((rule for rule in self._fields.rules if rule.running == "level"), None)
        #: What levels have, and the column that changes it; None: sizes are as in the file.
        self._levels = None if level is None else (Levels(profile.flags.snapshot), place(level.columns))
        parts = present_parts(found, levels)
        self._parts = [_OfPart(self._file, row, part) for part in parts or [Part(())]]
        #: The rules of all columns that are read, but for those of times and symbols.
        self.rules = [
            rule for fields in (self._fields, *(part.fields for part in self._parts)) for rule in fields.rules
        ]
        #: The part whose size is the difference of a running total; None: it is the row's own.
        self._running = next((part for part in self._parts if part.fields.running is not None), None)
        self._more: dict[str, Array] = {}
        self._event_end = profile.flags.last if parts and profile.event == ("row",) else 0
        if profile.end is not None:
            self._file.columns.setdefault(0, found.columns[0])

    @property
    def columns(self) -> dict[int, str]:
        """The columns that are read, by position: their names in errors."""
        return self._file.columns

    @property
    def price_power(self) -> int | None:
        """The power of ten that 1 in the file's prices is worth; None where it has no prices."""
        return next((rule.power for rule in self.rules if "price" in rule.field), None)

    def make(self, block: Block, first: int, rows: Chosen | None) -> Made:
        """Ticks of a block. ``first``: how many lines of data come before it, without empty ones. ``rows``: those that
        are read; None: all."""
        count = block.rows if rows is None else len(rows)
        if not count:
            return Made(zeros(0), np.zeros(0, np.int64), np.zeros(0, np.uint16), None)
        self._scratch.begin()
        keys, faults, select = None, np.zeros(count, np.uint16), self._select
        if self._named:
            texts = block.columns[JOINED if self.joined else self._named[0]]
            keys, faults = self._symbols.of_texts(texts, self._named[0], rows)
        cells = Cells(block, faults, rows, scratch=self._scratch, rounds=self._rounds)
        if keys is not None and (wanted := self._symbols.wanted(keys)) is not None and not wanted.all():
            wanted |= faults != 0
            cells.keep(wanted)
            keys = keys[wanted]
        fields = self.times.read(cells, self._own_dates(keys))
        running = self._fields.running if self._running is None else self._running.fields.running
        self._more = {} if running is None else self._since_last(*running, cells, keys, fields)
        if self._running is None:
            fields |= self._more
        fields["ts_event"], recv = both_times(fields.get("ts_event"), fields.get("ts_recv"))
        fields["ts_recv"] = recv
        if self._levels is not None:
            fields |= self._fields.read(cells)
            book, at = self._levels
            book.settle(fields, np.zeros(len(cells), np.uint32) if keys is None else keys, cells.faults, at)
        within = None if select is None else select.within(recv)
        if within is not None and not (kept := within | (cells.faults != 0)).all():
            cells.keep(kept)
            fields, self._more = (
                {name: values[kept] for name, values in each.items()} for each in (fields, self._more)
            )
            keys = None if keys is None else keys[kept]
        numbers: range | npt.NDArray[np.uint64] = range(first + 1, first + 1 + len(cells))
        if cells.rows is not None or block.at is not None:
            numbers = (block.places()[cells.places] + (first + 1)).astype(np.uint64)
        instruments = None
        if self.instrument is not None:
            instruments = cells.numbers(Numbers(ID, empty=0), self.instrument, dtype=np.uint64)
        if self._levels is None:
            fields |= self._fields.read(cells)
        left_out = None
        if "sequence" in fields:
            sequence, left_out = held(whole(fields["sequence"]), numbers)
            fields["sequence"] = sequence.values
        head = self._parts[0]
        own = cells.anew() if head.part.fields else cells
        ticks = head.ticks(numbers, keys, fields | self._of(head, own))
        made = Made(ticks, fields["ts_recv"], cells.faults, cells.rows, count - len(cells), instruments=instruments)
        if left_out is not None:
            made.left_out = int(np.count_nonzero(left_out & (cells.faults == 0)))
        if head.part.fields and len(cells):
            self._add_parts(made, (cells, own), numbers, keys, fields)
        elif cells.rounded is not None:
            made.inexact = int(np.count_nonzero(cells.rounded))
        return made

    def _of(self, part: _OfPart, cells: Cells) -> dict[str, Array]:
        """The fields of a part alone."""
        return part.fields.read(cells) | (self._more if part is self._running else {})

    def _own_dates(
        self, keys: npt.NDArray[np.uint32] | None
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint32]] | None:
        """Mask of the rows of symbols whose dates at night are their own, and the keys of all rows; None: there are
        none."""
        night = self.found.profile.night
        if night is None or night.unless is None or keys is None or self.names is None:
            return None
        known = [night.unless.search(name) is not None for name in self.names] or [False]
        keys = np.minimum(keys, np.uint32(len(known) - 1))  # a name that is none has no key
        return np.array(known, np.bool_)[keys], keys

    def _add_parts(
        self,
        made: Made,
        read: tuple[Cells, Cells],
        numbers: Any,
        keys: npt.NDArray[np.uint32] | None,
        fields: dict[str, Array],
    ) -> None:
        """Adds the ticks of the rows' other parts. A row with a fault, of its own or in a part that it has, gives one
        tick, which carries the fault. ``read``: the cells of the rows, and of their first part."""
        cells, of_part = read
        count, width = len(cells), len(self._parts)
        parts, kept = [made.ticks], np.ones((count, width), np.bool_)
        faults = cells.faults.copy()
        rounded = np.zeros(count, np.bool_) if cells.rounded is None else cells.rounded.copy()
        for place, part in enumerate(self._parts):
            if place:
                of_part = cells.anew()
                parts.append(part.ticks(numbers, keys, fields | self._of(part, of_part)))
            kept[:, place] = part.kept(of_part, parts[place])
            faults = np.where((faults == 0) & kept[:, place], of_part.faults, faults)
            if of_part.rounded is not None:
                rounded |= of_part.rounded & kept[:, place]
        # A row with a fault has only its first tick.
        kept[faults != 0] = np.arange(width) == 0
        made.ticks, row = woven(parts, kept)
        made.faults, made.rows = faults[row], cells.places[row]
        made.times, made.inexact = made.ticks["ts_recv"], int(np.count_nonzero(rounded))
        made.instruments = None if made.instruments is None else made.instruments[row]
        if self._event_end:
            _end_rows(made.ticks, row, self._event_end, sets=bool(self.found.profile.sets_last))

    def _since_last(
        self, read: Reader, at: int, cells: Cells, keys: npt.NDArray[np.uint32] | None, times: dict[str, Array]
    ) -> dict[str, Array]:
        """The fields of rows whose size is the difference of a running total from the symbol's row before."""
        found: dict[str, Array] = {}
        read(cells, found)
        totals = found["size"]
        sound = np.flatnonzero(cells.faults == 0)
        days = self.times.local_days(times["ts_event" if "ts_event" in times else "ts_recv"][sound])
        more, falls = self._totals.differences(totals[sound], None if keys is None else keys[sound], days)
        totals[sound] = more
        cells.faults[sound[falls]] = at << 8 | FAULT_FALLS
        return found

    def target(self, column: int) -> Target | None:
        """The prices or sizes that a column holds; None: it holds others."""
        rules = (rule for rule in self._rules_of(column) if rule.field in PRICES or rule.field in SIZES)
        return next((rule.target(self._file.size_power) for rule in rules), None)

    def mapped(self, column: int) -> list[str]:
        """The texts of a column that a map lists."""
        return [text for rule in self._rules_of(column) for text, _ in rule.map]

    def can_round(self, column: int) -> bool:
        """True if a column holds decimals, which may be rounded on request; times of other forms may not."""
        return self.times.is_decimal(column) or any(
            rule.field not in IDS and not rule.map for rule in self._rules_of(column)
        )

    def counts_both_sides(self, column: int) -> bool:
        """True if a column's numbers count the buyer and the seller."""
        return any(rule.both_sides for rule in self._rules_of(column))

    def _rules_of(self, column: int) -> list[FieldRule]:
        return [rule for rule in self.rules if self.found.column(rule.columns) == column]

    @property
    def joined(self) -> list[int]:
        """Positions of the columns that make the symbols together; none where one column does."""
        return self._named if len(self._named) > 1 else []

    def wanted(self) -> list[int]:
        """Positions of the columns that are read."""
        return sorted(self.columns)


class _RunningTotals:
    """The latest total of each symbol, and its day."""

    def __init__(self) -> None:
        self._totals = np.zeros(1, np.int64)
        self._days = np.full(1, -1, np.int64)

    def differences(
        self, totals: npt.NDArray[np.int64], keys: npt.NDArray[np.uint32] | None, days: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Difference of each row's total from the symbol's total before, and a mask of the totals that fall within a
        day.

        The first total counts from 0, and so does a total that has fallen on a later day. A total that falls within a
        day is no total.
        """
        keys = np.zeros(len(totals), np.uint32) if keys is None else keys
        if len(keys) and (most := int(keys.max())) >= len(self._totals):
            more = 2 * most + 1 - len(self._totals)
            self._totals = np.concatenate([self._totals, np.zeros(more, np.int64)])
            self._days = np.concatenate([self._days, np.full(more, -1, np.int64)])
        order = np.argsort(keys, kind="stable")
        key, total, day = keys[order], totals[order], days[order]
        first = np.ones(len(key), np.bool_)
        first[1:] = key[1:] != key[:-1]
        before = np.where(first, self._totals[key], np.roll(total, 1))
        day_before = np.where(first, self._days[key], np.roll(day, 1))
        fallen = total < before
        falls = fallen & (day <= day_before)
        if falls.any():
            slowly, wrong_rows = self._one_by_one(keys.tolist(), totals.tolist(), days.tolist())
            return np.array(slowly, np.int64), np.array(wrong_rows, np.bool_)
        last = np.ones(len(key), np.bool_)
        last[:-1] = first[1:]
        self._totals[key[last]], self._days[key[last]] = total[last], day[last]
        found = np.empty_like(totals)
        found[order] = np.where(fallen, total, total - before)
        return found, np.zeros(len(totals), np.bool_)

    def _one_by_one(self, keys: list[int], totals: list[int], days: list[int]) -> tuple[list[int], list[bool]]:
        """Differences of rows of which one falls: the next row is compared with the last one that is a total."""
        found, falls = [], []
        for key, total, day in zip(keys, totals, days, strict=True):
            before, fallen = int(self._totals[key]), total < int(self._totals[key])
            falls.append(fallen and day <= int(self._days[key]))
            found.append(total if fallen else total - before)
            if not falls[-1]:
                self._totals[key], self._days[key] = total, day
        return found, falls


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
    """A value as the number that a tick holds: a letter's code, any other value as it is."""
    return value[0] if isinstance(value, bytes) else value


def _end_rows(ticks: TickBatch, row: Any, last: int, *, sets: bool) -> None:
    """Makes each row an event, whose last tick gets the flag ``last``. Where the file has the flag, not ``sets``, its
    rows are views of books. ``row``: of each tick."""
    if not sets:
        end_views(ticks, row, last)
        return
    ends = np.append(row[1:] != row[:-1], True) & (ticks["kind"] != KIND_STATUS)
    ticks["flags"][ends] |= np.uint8(last)


_COUNTS = (
    "records", "ticks", "empty_lines", "end_lines", "not_selected", "rows_rounded", "sequences_left_out",
    "time_reversals", "unended_lines", "repeated_ids", "rolled_instruments", "mixed_quotes", "bytes_in",
    "bytes_out",
)  # fmt: skip


Kept = npt.NDArray[np.bool_]
#: Texts that programs write where there is no value.
_NO_VALUES: Final = frozenset(("nan", "null", "none", "na", "n/a", "nil", "-", "--", "\\n", "#n/a"))
_CUT: Final = "get the whole file, whose last line may be cut off; on_bad_record='skip' leaves that line out"


class _Bytes(Protocol):
    """A stream that tells how many bytes it has read."""

    @property
    def bytes_in(self) -> int: ...


class CsvRows:
    """Reads a file of a match once. ``counts`` and ``skipped`` are of as much as has been read.

    ``skipped``: where lines that are no rows go; None: they are an error. ``rounds``: whether numbers are rounded;
    None: the reader has options neither for that nor for units. ``whole``: the file lies in an archive that says where
    it ends. So a last line without a line end is not taken for a cut one.
    """

    def __init__(
        self,
        path: str | Path,
        found: Match,
        maker: TickMaker,
        *,
        skipped: Skipped | None,
        rounds: bool | None = False,
        max_symbols: int = 1,
        whole: bool = False,
    ) -> None:
        last = len(found.columns) - 1
        # If the file is cut within the last column, the rest of the text may still read as a number or a name.
        self._doubts_end = not whole and last in maker.wanted() and not maker.mapped(last)
        self._path, self._match, self._maker = path, found, maker
        self._skipped, self._rounds, self._max_symbols = skipped, rounds, max_symbols
        self._stopped = False
        self._highest_id: dict[int, int] = {}  # by symbol; only where the profile says that ids rise
        self.counts = self.no_counts()
        told = any(rule.field == "publisher_id" for rule in found.profile.fields)
        self.rolls = Rolls(quotes=told and CONSOLIDATED not in found.columns)

    @staticmethod
    def no_counts() -> dict[str, int]:
        """The counts of a file before it is read."""
        return dict.fromkeys(_COUNTS, 0)

    def ticks(self, chunks: Chunks, stream: _Bytes, threads: int) -> Iterator[TickBatch]:
        """The ticks of one block of lines after the other, some without any. Closes ``chunks``, which are the stream's.

        Raises FormatError with the line for one that is no row, once those before it have been given.
        """
        position, line, last_ns = 0, self._match.lines + 1, 0
        parsed = blocks(chunks, self._match, self._maker.wanted(), threads, self._maker.joined)
        try:
            for block in parsed:
                made = self._maker.make(block, position, self._data_rows(block))
                fault, ticks, kept = self._settled(block, made, line)
                self._count(block, made, ticks, last_ns, stream.bytes_in)
                ids = made.instruments if made.instruments is None or kept is None else made.instruments[kept]
                rolled, counts = self.rolls.follow(ticks, ids)
                for name, more in (("ticks", len(rolled) - len(ticks)), *counts.items()):
                    self.counts[name] += more
                ticks = rolled
                yield ticks
                if len(ticks):
                    last_ns = int(ticks["ts_recv"][-1])
                if fault is not None:
                    raise fault
                position += block.lines - len(block.empty)
                line += block.lines
                if self._stopped:
                    break
            if (column := self._maker.times.unresolved()) is not None:
                problem = f"column {self._maker.columns[column]}: the file ends at {FAULT_WORDS[FAULT_TWICE]}"
                raise FormatError(
                    f"{problem}{self._maker.times.cure(column, FAULT_TWICE)}", path=self._path, line=line - 1
                )
        except FeedError as error:
            if error.path is None:
                raise type(error)(str(error), path=self._path) from error.__cause__
            raise
        finally:
            chunks.close()  # first: a pipe's reader may wait in it for ever
            parsed.close()  # type: ignore[attr-defined]

    def _data_rows(self, block: Block) -> Chosen | None:
        """The rows of a block that are data: those that do not close the file, and with ``end_stops`` none behind one
        that does; None: all. Takes the others from its lines. The symbols of other rows would stand among names."""
        profile = self._match.profile
        if profile.end is None:
            return None
        rows = np.arange(block.rows, dtype=np.uint32)
        closes = holds(block.columns[0], profile.end.encode(), rows) if len(rows) else rows > 0
        at = rows if block.at is None else block.at
        delimiter = self._match.delimiter
        closing = {bad.at for bad in block.bad if _closes(bad.text, profile.end, delimiter)}.union(at[closes].tolist())
        if not closing:
            return None
        stop = block.lines
        if profile.end_stops:
            self._stopped, stop = True, min(closing)
            closing = {stop}
            block.lines, block.empty = stop + 1, [empty for empty in block.empty if empty < stop]
        self.counts["end_lines"] += len(closing)
        block.bad = [bad for bad in block.bad if bad.at < stop and bad.at not in closing]
        return rows[~closes & (at < stop)]

    def _settled(self, block: Block, made: Made, line: int) -> tuple[FormatError | None, TickBatch, Kept | None]:
        """The ticks of good rows: all of them where lines are skipped, else those before the first fault.

        Which ticks these are comes last; None: all."""
        ticks = made.ticks
        if not block.bad and not made.faults.any():
            return None, ticks, None
        rows = np.arange(block.rows) if made.rows is None else made.rows
        at = rows if block.at is None else block.at[rows]  # by tick: its line in the block
        good = made.faults == 0
        faults = [(bad.at, bad.why, bad.problem, bad.text) for bad in block.bad]
        for index in np.flatnonzero(~good).tolist():
            why, problem, text = self._explained(block, int(rows[index]), int(made.faults[index]))
            faults.append((int(at[index]), why, problem, text))
        faults.sort()
        if faults and self._skipped is None:
            place, _, problem, text = faults[0]
            cut = block.is_cut and place == block.lines - 1
            error = FormatError(
                f"{problem}: {text!r} ({self._match.profile.name}): {_CUT if cut else MEND}",
                path=self._path,
                line=line + place,
            )
            good &= at < place
            return error, picked(ticks, good), good
        for place, why, _, text in faults:
            assert self._skipped is not None
            self._skipped.add(why, line=line + place, text=text)
        return None, picked(ticks, good), good

    def _explained(self, block: Block, row: int, fault: int) -> tuple[str, str, str]:
        number, kind = fault >> 8, fault & 0xFF
        text = block.columns[number].text(row)[:80].decode(self._match.encoding, "backslashreplace")
        word = FAULT_WORDS[kind]
        cure = first = ""
        timed = self._maker.times.cure(number, kind)
        if self._rounds is not None and self._maker.can_round(number):
            cure = " (it rounds to 0)" if self._rounds else " (inexact='round' rounds them to the nearest)"
        more = {
            "one name too many": f", max_symbols is {self._max_symbols}",
            "no symbol's name": f", which is text of at most {NAME_BYTES} bytes as UTF-8 without control characters",
            "too precise": f", more decimals than fit{cure}",
            "unknown value": self._known(number),
            "more than is left at its price": "; the file has to begin with a snapshot, and to have all rows after it",
            "below the running total before it": ", on the same day; split the file where the total starts anew",
        }
        if self._maker.counts_both_sides(number):
            more["too precise"] = ", it is odd where it counts the buyer and the seller"
        target = None if self._rounds is None else self._maker.target(number)
        if target is not None and kind in (FAULT_RANGE, FAULT_PRECISION):
            mark, group = (sign.decode() for sign in self._match.profile.marks)
            value = Decimal(text.strip().replace(group, "").replace(mark, ".") if mark else text.strip())
            if kind == FAULT_RANGE and target.field == "price":
                more[word] = f": {coarser_price(value, target.power - PRICE_POWER)}"
            elif kind == FAULT_RANGE and value < 0:
                more[word] = "; give signed = true if a size below 0 is a sell"
            elif target.field == "size":
                first = "give a larger size_unit: " if kind == FAULT_RANGE else finer_unit(value)
        profile = self._match.profile
        if number not in map(self._match.column, (profile.symbol.columns, profile.date_columns)):
            more["empty"] = '; give empty = "none" if an empty field stands for no value'
        if word == "not of its form" and not timed:
            more[word] = self._form_of(text)
        problem = f"{first}column {self._maker.columns[number]}: {word}{timed or more.get(word, '')}"
        return word, problem, text

    def _known(self, column: int) -> str:
        """The texts of a column that a map lists, to follow the fault of another one."""
        return f"; it may be {listed([repr(text) for text in self._maker.mapped(column)])}"

    def _form_of(self, text: str) -> str:
        """Advice for a number that the profile does not read: the key to set."""
        if text.strip().lower() in _NO_VALUES:
            return f'; give undefined = "{text.strip()}" if it stands for no value'
        mark, group = (sign.decode() for sign in self._match.profile.marks)
        if group and group in text:
            return f"; a {group!r} stands between groups of three digits"
        if mark == "," and "." in text:
            return '; give thousands = "." if its points stand between groups of digits'
        if mark != "," and "," in text and any(letter.isdigit() for letter in text):
            return '; give decimal = "," if a comma stands before its fraction, or thousands = "," between groups'
        return ""

    def _count(self, block: Block, made: Made, ticks: TickBatch, last_ns: int, bytes_in: int) -> None:
        counts = self.counts
        counts["records"] += block.lines - len(block.empty)
        counts["ticks"] += len(ticks)
        counts["empty_lines"] += len(block.empty)
        counts["not_selected"] += made.not_selected
        counts["rows_rounded"] += made.inexact
        counts["sequences_left_out"] += made.left_out
        counts["unended_lines"] += self._doubts_end and block.is_cut and _has_last_line(block, made)
        counts["bytes_in"] = bytes_in
        counts["bytes_out"] += block.bytes
        if len(ticks):
            times = made.times if ticks is made.ticks else ticks["ts_recv"]
            counts["time_reversals"] += int(times[0] < last_ns) + int(np.count_nonzero(times[1:] < times[:-1]))
            if self._match.profile.ids_rise:
                counts["repeated_ids"] += self._repeated(ticks)

    def _repeated(self, ticks: TickBatch) -> int:
        """Number of ticks whose ``ref_id`` is not above all earlier ones of their symbol."""
        order = np.argsort(ticks["instrument_id"], kind="stable")
        keys, ids = ticks["instrument_id"][order], ticks["ref_id"][order].astype(np.int64)
        starts = np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1))
        repeated = 0
        for key, own in zip(keys[starts].tolist(), np.split(ids, starts[1:]), strict=True):
            highest = np.maximum.accumulate(np.concatenate(([self._highest_id.get(key, -1)], own)))
            repeated += int(np.count_nonzero(own <= highest[:-1]))
            self._highest_id[key] = int(highest[-1])
        return repeated


def _closes(line: str, end: str, delimiter: str) -> bool:
    """True if a line's first field is the text that closes a file, or it is a single field that begins so."""
    fields = next(csv.reader([line], delimiter=delimiter), [])
    return fields[:1] == [end] or (len(fields) == 1 and fields[0].startswith(end))


def _has_last_line(block: Block, made: Made) -> bool:
    """True if the last line of a block became a tick, and nothing shows where its last value ends."""
    if not len(made.faults) or made.faults[-1] or block.ends_value:
        return False
    row = block.rows - 1 if made.rows is None else int(made.rows[-1])
    return (row if block.at is None else int(block.at[row])) == block.lines - 1
