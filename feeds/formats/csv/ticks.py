"""Columns of text as ticks, by the rules of a profile: a tick for each row, or several (the levels of a book, a quote
and a trade, the corners of a bar)."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.columns import (
    DECIMAL,
    FAULT_FALLS,
    HEX,
    ID,
    LETTER_TARGETS,
    MAX_LETTERS,
    Faults,
    Letters,
    Numbers,
    blank_ticks,
    holds,
)
from strand.errors import ConfigurationError
from strand.feeds.base import Selection, TickBatch
from strand.feeds.formats.csv.columns import Block, Chosen, NumberReader, SymbolReader, TimeReader
from strand.feeds.formats.csv.profile import Match, Part, Profile, SymbolRule
from strand.feeds.mapping.events import end_views
from strand.feeds.mapping.rules import PRICES, SIZES, FieldRule, blank_tick, put
from strand.feeds.mapping.values import IDS, Target, nearest
from strand.ticks import KIND_QUOTE, KIND_STATUS, MAX_SEQUENCE, UNDEF_PRICE, empty, limits, zeros

__all__ = ["Made", "TickMaker", "tick_maker"]

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


@dataclass(slots=True)
class Made:
    """Ticks of a block: of its rows, or of ``rows`` where a selection left some out; ``faults`` one a tick.

    ``times``: their ts_recv once more, in one run of memory. ``inexact``: how many rows have a number that was rounded
    on request, ``count``: how many rows the ticks are of, where a row may have several (None: one each).
    ``left_out``: how many rows have a sequence that no tick holds. ``instruments``: the number of each tick's
    instrument, where the profile names the column and the file has it.
    """

    ticks: TickBatch
    times: npt.NDArray[np.int64]
    faults: Faults
    rows: Chosen | None
    inexact: int = 0
    count: int | None = None
    left_out: int = 0
    instruments: npt.NDArray[np.uint64] | None = None


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
        columns: dict[int, str] | None = None,
    ) -> None:
        self.found = found
        profile = found.profile
        self._profile = profile
        self._number_reader = NumberReader(rounds=rounds)
        self._totals = _RunningTotals()
        self._size_power = size_power
        self.columns: dict[int, str] = {} if columns is None else columns  # by position: what it is called in errors
        self._rules = [self._settled(rule, sample) for rule in profile.fields if self._present(rule)]
        timed = [rule for rule in self._rules if rule.unit]
        self._times = TimeReader(found, timed, sample, date=date, place=self._place, numbers=self._number_reader)
        self.needs_date = self._times.needs_date
        self._symbols = SymbolReader(profile.symbol, self._place, found.encoding, max_symbols)
        #: Names by index, if a column holds them. A text that is no name is "" here, and its rows have a fault.
        self.names: list[str] | None = self._symbols.names if profile.symbol.columns else None
        instrument = profile.symbol.instrument
        #: The column of instruments' numbers, if there is one.
        self.instrument = self._place(instrument) if instrument and found.column(instrument) is not None else None
        self._template = self._blank(profile)
        if profile.end is not None:
            self.columns.setdefault(0, found.columns[0])
        plain = [rule for rule in self._rules if not rule.unit and rule.constant is None]
        # The last of a quote's fields settles its side.
        fields = {rule.field for rule in plain}
        self._last = "ask_size" if "ask_size" in fields else "ask_price"
        self._readers = sorted(plain, key=lambda rule: rule.field == self._last)
        #: The rule of sizes that are differences of a running total, which are read apart.
        self._running = next((rule for rule in self._readers if rule.running), None)
        #: The rules of all columns that are read, but for those of times and symbols.
        self.rules = list(self._readers)
        self._readers = [rule for rule in self._readers if not rule.running]
        self._numbers = {rule.field: self._number_rule(rule) for rule in self.rules if not (rule.map or rule.pair)}
        self._steps = [(rules, self._tables(rules)) for rules in self._together()]

    def _present(self, rule: FieldRule) -> bool:
        return not rule.columns or not rule.optional or self.found.column(rule.columns) is not None

    def _settled(self, rule: FieldRule, sample: dict[int, str]) -> FieldRule:
        """The rule with the unit of whole numbers where the first number in its column is one."""
        if rule.whole_power is None:
            return rule
        text = sample.get(self._place(rule.columns), "").strip()
        if group := self._profile.marks[1].decode():
            text = text.replace(group, "")
        whole = _WHOLE.fullmatch(text) is not None
        return replace(rule, power=rule.whole_power if whole else rule.power, whole_power=None)

    @property
    def price_power(self) -> int | None:
        """The power of ten that 1 in the file's prices is worth; None where it has no prices."""
        return next((rule.power for rule in self.rules if "price" in rule.field), None)

    def _place(self, names: tuple[str, ...]) -> int:
        at = self.found.read_column(names)
        self.columns[at] = self.found.columns[at] or f"number {at + 1}"
        return at

    def _blank(self, profile: Profile) -> TickBatch:
        blank = blank_tick()
        for rule in profile.fields:
            if rule.constant is not None:
                value = rule.constant
                if rule.field in SIZES and self._size_power != profile.size_power:
                    value, inexact = nearest(Decimal(int(value)), profile.size_power - self._size_power)
                    if inexact or value > limits("size")[1]:
                        raise ConfigurationError(
                            "size_unit", f"the profile's {rule.field} is not a whole number of this unit"
                        )
                put(blank, rule.field, value)
        return blank

    def _together(self) -> list[list[FieldRule]]:
        """The rules in groups that are read in one pass: one rule, or several in a row that make letters of the same
        column."""
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
        """Ticks of a block. ``first``: how many lines of data come before it, without empty ones.

        ``keeps``: a function from a number of names to whether each is wanted, by index.
        """
        if block.rows == 0:
            return Made(zeros(0), np.zeros(0, np.int64), np.zeros(0, np.uint16), None)
        chosen: Chosen | None = None
        totals: npt.NDArray[np.int64] | None = None
        self._number_reader.begin()
        ids, id_faults = self._symbols.read(block)
        if select is not None and select.symbols and ids is not None:
            kept = keeps()[ids]
            if not kept.all():
                chosen = np.flatnonzero(kept | (id_faults != 0)).astype(np.uint32)
        count = block.rows if chosen is None else len(chosen)
        faults = id_faults if chosen is None else id_faults[chosen]
        times = self._times.read(block, faults, chosen)
        if self._running is not None:
            keys = ids if ids is None or chosen is None else ids[chosen]
            of_day = times.get("ts_event", times.get("ts_recv"))
            assert of_day is not None
            totals = self._since_last(self._running, block, (faults, chosen), keys, of_day)
        event, recv = times.get("ts_event"), times.get("ts_recv")
        event, recv = recv if event is None else event, event if recv is None else recv
        assert event is not None
        assert recv is not None
        recv = np.where(recv == 0, event, recv) if (recv == 0).any() else recv
        within = None if select is None else select.within(recv)
        if within is not None and not (kept := within | (faults != 0)).all():
            places = np.flatnonzero(kept)
            chosen = places.astype(np.uint32) if chosen is None else chosen[places]
            faults, count = faults[places], len(places)
            totals = None if totals is None else totals[places]
            event, recv = event[places], recv[places]
        if ids is not None and chosen is not None:
            ids = ids[chosen]
        ticks = blank_ticks(self._template, first + 1, event, recv, ids)
        if chosen is not None or block.at is not None:
            places = block.places()
            ticks["sequence"] = (places if chosen is None else places[chosen]) + (first + 1)
        if any(rule.field == "sequence" and rule.constant is not None for rule in self._rules):
            ticks["sequence"] = self._template["sequence"]
        made = Made(ticks, recv, faults, chosen)
        if totals is not None:
            ticks["size"] = totals
        if self.instrument is not None:
            made.instruments = np.zeros(count, np.uint64)
            column = block.columns[self.instrument]
            Numbers(ID, empty=0).read(column, self.instrument, made.instruments, faults, chosen)
        self._fill_all(block, made)
        if self._number_reader.has_rounded:
            inexact = self.rounded_rows()
            made.inexact = len(inexact) if chosen is None else int(np.isin(inexact, chosen).sum())
        return made

    def again(self, block: Block, base: Made) -> Made:
        """A second tick for each row of ``base``. Fields for which this maker has no rule are copied from ``base``."""
        ticks = base.ticks.copy()
        for rule in self._rules:
            if rule.constant is not None:
                ticks[rule.place] = self._template[rule.place]
        made = Made(ticks, base.times, np.zeros(len(ticks), np.uint16), base.rows)
        self._number_reader.begin()
        self._fill_all(block, made)
        return made

    def rounded_rows(self) -> npt.NDArray[np.int64]:
        """The rows of the current block in which a number was rounded; some of them may not be selected."""
        return self._number_reader.rounded_rows()

    def _fill_all(self, block: Block, made: Made) -> None:
        for rules, tables in self._steps:
            if tables is None:
                self._fill(rules[0], block, made)
            else:
                self._fill_letters(rules, tables, block, made)

    def _fill(self, rule: FieldRule, block: Block, made: Made) -> None:
        ticks = made.ticks
        if rule.pair:
            self._fill_pair(rule, block, made)
        elif rule.field == "sequence":
            self._fill_sequence(rule, block, made)
        else:
            self._number(rule, block, made, ticks[rule.place])
        if rule.field == self._last and self._profile.one_sided:
            _settle_sides(ticks)

    def _fill_letters(self, rules: list[FieldRule], tables: Letters, block: Block, made: Made) -> None:
        outs = [made.ticks[rule.field] for rule in rules]
        outs = [out.view(np.uint8) if out.dtype.kind == "S" else out for out in outs]
        at = self._place(rules[0].columns)
        tables.read(block.columns[at], at, outs, made.faults, made.rows)

    def _number_rule(self, rule: FieldRule) -> Numbers:
        none = UNDEF_PRICE if rule.field in PRICES else 0
        empty = none if rule.empty else None
        if rule.field in IDS:
            return Numbers(HEX if rule.text == "hex" else ID, empty=empty, hash=rule.text == "hash")
        target, (point, group) = rule.target(self._size_power), self._profile.marks
        return Numbers(
            DECIMAL, target.power, target.lowest, target.most(target.power), empty, none if rule.zero else 0,
            point=point, group=group,
        )  # fmt: skip

    def _since_last(
        self, rule: FieldRule, block: Block, of: tuple[Faults, Chosen | None], keys: Any, times: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Difference of each row's running total from the symbol's row before."""
        faults = of[0]
        at = self._place(rule.columns)
        totals = np.zeros(len(faults), np.int64)
        self._number_reader.read(self._numbers[rule.field], at, block.columns[at], totals, of)
        self._clear_undefined(rule, block, of, totals)
        sound = np.flatnonzero(faults == 0)
        days = self._times.local_days(times[sound])
        found, falls = self._totals.differences(totals[sound], None if keys is None else keys[sound], days)
        totals[sound] = found
        faults[sound[falls]] = at << 8 | FAULT_FALLS
        return totals

    def _clear_undefined(
        self, rule: FieldRule, block: Block, of: tuple[Faults, Chosen | None], out: npt.NDArray[Any]
    ) -> None:
        """Gives the texts that stand for no value that of an empty field."""
        at = self._place(rule.columns)
        if rule.undefined:
            texts = frozenset(text.encode(self.found.encoding) for text in rule.undefined)
            out[self._number_reader.undefined(texts, at, block.columns[at], of)] = (
                UNDEF_PRICE if rule.field in PRICES else 0
            )

    def _number(self, rule: FieldRule, block: Block, made: Made, out: npt.NDArray[Any]) -> None:
        at = self._place(rule.columns)
        of = (made.faults, made.rows)
        self._number_reader.read(self._numbers[rule.field], at, block.columns[at], out, of)
        self._clear_undefined(rule, block, of, out)
        if rule.signed:
            letters = np.where(out < 0, ord("A"), np.where(out > 0, ord("B"), ord("N")))
            made.ticks["side"].view(np.uint8)[:] = letters
            np.abs(out, out=out)

    def target(self, column: int) -> Target | None:
        """The prices or sizes that a column holds; None: it holds others."""
        rules = (rule for rule in self._rules_of(column) if rule.field in PRICES or rule.field in SIZES)
        return next((rule.target(self._size_power) for rule in rules), None)

    def is_mapped(self, column: int) -> bool:
        """True if a column holds texts that a map lists."""
        return any(rule.map for rule in self._rules_of(column))

    def can_round(self, column: int) -> bool:
        """True if a column holds decimals, which may be rounded on request; times of other forms may not."""
        return self._times.is_decimal(column) or any(
            rule.field not in IDS and not rule.map for rule in self._rules_of(column)
        )

    def _rules_of(self, column: int) -> list[FieldRule]:
        return [rule for rule in self.rules if self.found.column(rule.columns) == column]

    def cure(self, column: int, fault: int) -> str:
        """Advice for a fault in a column of times; empty for any other column."""
        return self._times.cure(column, fault)

    def unresolved(self) -> int | None:
        """See ``TimeReader``."""
        return self._times.unresolved()

    def _fill_sequence(self, rule: FieldRule, block: Block, made: Made) -> None:
        numbers = np.zeros(len(made.ticks), np.uint64)
        self._number(rule, block, made, numbers)
        beyond = numbers > MAX_SEQUENCE
        if beyond.any():
            # No tick holds them: it keeps its position.
            made.left_out = int(np.count_nonzero(beyond & (made.faults == 0)))
            numbers[beyond] = made.ticks["sequence"][beyond]
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
        for rule in self.rules:
            for names in rule.pair or (rule.columns,):
                self._place(names)
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


def tick_maker(found: Match, sample: dict[int, str], levels: int | None, **options: Any) -> TickMaker:
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


class PartsMaker(TickMaker):
    """Makes ticks of blocks as TickMaker does: for each row its parts, one after the other.

    Times, symbol and sequence are read once. A row with a fault gives one tick, which carries the fault.
    """

    def __init__(self, found: Match, sample: dict[int, str], parts: list[Part], options: dict[str, Any]) -> None:
        profile = found.profile
        first = replace(profile, fields=(*profile.fields, *parts[0].fields), parts=())
        super().__init__(replace(found, profile=first), sample, **options)
        self._parts = parts
        self._tests = [found.read_column(part.where) if part.where else None for part in parts]
        self._event_end = profile.flags.last if profile.event == ("row",) else 0
        self._others = [
            TickMaker(replace(found, profile=_only_fields(profile, part)), sample, **options, columns=self.columns)
            for part in parts[1:]
        ]
        self.rules += [rule for maker in self._others for rule in maker.rules]

    def wanted(self) -> list[int]:
        return sorted({*super().wanted(), *(at for at in self._tests if at is not None)})

    def make(self, block: Block, first: int, select: Selection | None, keeps: Any) -> Made:
        head = super().make(block, first, select, keeps)
        count, width = len(head.ticks), len(self._parts)
        if count == 0:
            return head
        rows = np.arange(block.rows, dtype=np.uint32) if head.rows is None else head.rows
        kept = np.ones((count, width), np.bool_)
        ticks = empty(count * width).reshape(count, width)
        faults = head.faults.copy()
        rounded = [self.rounded_rows()]
        row = replace(head, ticks=_without(head.ticks, self._parts[0]))
        for place, (maker, part, test) in enumerate(zip((self, *self._others), self._parts, self._tests, strict=True)):
            made = maker.again(block, row) if place else head
            if test is not None:
                kept[:, place] &= holds(block.columns[test], part.text.encode(self.found.encoding), rows)
            if part.filled:
                kept[:, place] &= _is_filled(made)
            if place:
                of_part = np.where(kept[:, place], made.faults, 0)
                faults = np.where(faults == 0, of_part, faults).astype(np.uint16)
                rounded.append(np.intersect1d(maker.rounded_rows(), rows[kept[:, place]]))
            ticks[:, place] = made.ticks
        kept[faults != 0] = np.arange(width) == 0
        out = ticks[kept]
        # The row of each tick. A row with a fault has only its first tick.
        of_tick = np.repeat(np.arange(count), kept.sum(axis=1))
        if self._event_end:
            _end_rows(out, of_tick, self._event_end, sets=bool(self._profile.sets_last))
        inexact = np.intersect1d(np.unique(np.concatenate(rounded)), rows)
        ids = None if head.instruments is None else head.instruments[of_tick]
        return Made(out, out["ts_recv"], faults[of_tick], rows[of_tick], len(inexact), count, head.left_out, ids)


def _only_fields(profile: Profile, part: Part) -> Profile:
    """A profile of a part's own fields. Its ticks take all other fields from the first part's."""
    return replace(profile, fields=part.fields, parts=(), symbol=SymbolRule(constant=""), date_columns=(), end=None)


def _without(ticks: TickBatch, part: Part) -> TickBatch:
    """The ticks, with the part's own fields set to no value."""
    rest, blank = ticks.copy(), blank_tick()
    for rule in part.fields:
        rest[rule.place] = blank[rule.place]
    return rest


def _end_rows(ticks: TickBatch, row: Any, last: int, *, sets: bool) -> None:
    """Makes each row an event, whose last tick gets the flag ``last``. Where the file has the flag, not ``sets``, its
    rows are views of books. ``row``: of each tick."""
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
