"""Keys of a profile for each field of a tick, the same for CSV and JSON, and single values as fields: values of JSON,
and those that profiles name. Numbers are exact, or rounded on request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from strand.binding.columns import CLOCK, HEX, ID, Numbers
from strand.errors import ConfigurationError
from strand.feeds.base import Flags, TicksAre, usual_flags
from strand.feeds.io.sources import STANDARD_INPUT
from strand.feeds.mapping.clocks import Ambiguous, Pattern, TextTimes, pattern_of
from strand.feeds.mapping.values import IDS, PRICE_POWER, PRICE_UNIT, TIME_POWERS, WORDS, Target, nearest
from strand.fixed import dataclass
from strand.spans import span_ns
from strand.symbols import check_name
from strand.ticks import (
    FIELDS,
    KIND_NONE,
    KIND_ORDER,
    KIND_QUOTE,
    KIND_STATUS,
    KIND_TRADE,
    UNDEF_PRICE,
    Ticks,
    limits,
    zeros,
)
from strand.validate import unit_power
from strand.zones import checked_zone

#: Names of the kinds of ticks in a profile, and the letters that it may name.
KINDS: Final = {
    "none": KIND_NONE, "order": KIND_ORDER, "trade": KIND_TRADE, "quote": KIND_QUOTE, "status": KIND_STATUS,
}  # fmt: skip
#: Kinds by the texts that a column may have: a word, or the number.
KINDS_OF_TEXT: Final = {**KINDS, **{str(kind): kind for kind in KINDS.values()}}
NO_KIND: Final = f"is not one of {', '.join(KINDS)} (0 to {max(KINDS.values())})"
LETTERS: Final = {"side": "ABN", "action": "ACMRTFN"}
TIMES: Final = ("ts_event", "ts_recv")
PRICES: Final = ("price", "bid_price", "ask_price")
SIZES: Final = ("size", "bid_size", "ask_size")
SMALL: Final = ("publisher_id", "flags", "depth")
#: Fields for both sides of a quote.
PLACES: Final = {"bid_price": "price", "bid_size": "size", "ask_price": "order_id", "ask_size": "ref_id"}
#: What fields without a value hold, where that is not 0.
UNDEFINED: Final = {"price": UNDEF_PRICE, "ask_price": UNDEF_PRICE, "action": b"N", "side": b"N"}
#: Letters of a value in an error.
_SHOWN: Final = 80


class BadRecord(Exception):  # noqa: N818 - raised and caught inside strand.feeds
    """Reason for which a value can be no field of a tick, or a record no tick."""


def blank_tick() -> Ticks:
    """An array of one tick without a value in any field."""
    blank = zeros(1)
    for field in FIELDS.keys() & UNDEFINED:
        blank[field] = UNDEFINED[field]
    return blank


def put(ticks: Ticks, field: str, values: Any) -> None:
    """Writes values into the place of a field, or of a side of a quote: an ask's price may be below 0."""
    ticks[PLACES.get(field, field)] = np.int64(values).view(np.uint64) if field == "ask_price" else values


def kind_of(action: bytes) -> int:
    """The kind of tick that an action is of, where nothing else says it."""
    return KIND_TRADE if action == b"T" else KIND_ORDER if action in (b"A", b"C", b"M", b"R", b"F") else KIND_NONE


def action_of(kind: int) -> bytes:
    """The action of a tick of a kind, where nothing else says it."""
    return {KIND_TRADE: b"T", KIND_ORDER: b"A"}.get(kind, b"N")


def shown(value: Any) -> str:
    """A value as a profile or JSON has it, cut where it is long."""
    if value is None or isinstance(value, bool):
        text = "null" if value is None else str(value).lower()
    else:
        text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclass(slots=True)
class Rounding:
    """``rounds``: whether numbers that are no whole units are rounded. ``rounded``: whether one was; the user sets it
    back."""

    rounds: bool = False
    rounded: bool = False


#: Texts of numbers that a converter keeps, before it forgets them. Prices and sizes come again and again.
_KNOWN: Final = 1 << 16
#: A text of more digits is read with care.
_SHORT: Final = 36


def _number_of(target: Target, rounding: Rounding, known: dict[str, int] | None) -> Callable[[Any], int]:
    power, lowest, highest = target.power, target.lowest, target.most(target.power)
    factors: list[int] = [10**at for at in range(max(power, 0) + 1)]

    def number_of(value: Any) -> int:
        units: int
        kind = type(value)
        if kind is int:
            if power >= 0 and lowest <= (units := value * factors[power]) <= highest:
                return units
        elif kind is str or kind is Decimal:
            text = value if kind is str else str(value)
            if kind is Decimal and known is not None and (found := known.get(text)) is not None:
                return found
            before, _, behind = text.partition(".")
            digits, more = before + behind, power - len(behind)
            if digits.isdigit() and len(digits) <= _SHORT and digits.isascii():
                units, rest = (int(digits) * factors[more], 0) if more >= 0 else divmod(int(digits), int(10**-more))
                if not rest and units <= highest:
                    if known is not None:
                        if len(known) >= _KNOWN:
                            known.clear()
                        known[text] = units
                    return units
        number = _decimal(value)
        units, inexact = nearest(number, power)
        if number < 0 <= lowest or not lowest <= units <= highest:
            raise BadRecord(target.beyond(shown(value), number, power))
        if inexact:
            if not rounding.rounds or target.loses(units):
                raise BadRecord(target.too_precise(shown(value), number, power, rounds=rounding.rounds))
            rounding.rounded = True
        return units

    return number_of


def converter(
    target: Target, rounding: Rounding, *, texts: TextTimes | None = None, known: dict[str, int] | None = None
) -> Callable[[Any], Any]:
    """A function that turns a value into a field of a tick (bytes for letters, else int). It raises BadRecord for a
    value that the field cannot hold.

    ``texts``: for times that are texts. ``known``: keeps what texts of prices and sizes were read as; whoever calls the
    function may look there first.
    """
    field = target.field
    if texts is not None:
        return lambda value: _text_time(value, texts)
    if field in TIMES or field in PRICES or field in SIZES:
        return _number_of(target, rounding, known)
    if field in LETTERS:
        return lambda value: _letter(value, field)
    if field == "kind":
        return _kind
    return lambda value: _whole(value, target)


_HEX: Final = Numbers(HEX)
_DIGITS: Final = re.compile(r"[-+0-9.eE]*|[-+]?(nan|inf|infinity)", re.IGNORECASE)
_HASH: Final = Numbers(ID, hash=True)


def id_of(text: str, value: Any) -> int:
    """An id of 64 bits. Raises BadRecord.

    ``text``: ``"hex"`` of hexadecimal ids; ``"hash"``: an id that is no whole number is hashed as in CSV (FNV-1a, with
    the top bit set).
    """
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise BadRecord(f"{shown(value)} is no id")
    said = str(value).strip()
    try:
        number = _HEX.one(said.removeprefix("0x").encode()) if text == "hex" else _HASH.one(said.encode())
    except ValueError as error:
        why = "not a hexadecimal number of 64 bits: give text = 'hash' for such ids" if text == "hex" else error
        raise BadRecord(f"{shown(value)} is {why}") from None
    return number & 0xFFFF_FFFF_FFFF_FFFF


def decimal_of(value: int | str | Decimal) -> Decimal:
    """A number, or the text of one in digits of ASCII. Raises InvalidOperation; Python's own takes ``1_000``, too."""
    if isinstance(value, str) and not _DIGITS.fullmatch(value.strip()):
        raise InvalidOperation
    return Decimal(value)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise BadRecord(f"{shown(value)} is not a number")
    try:
        number = decimal_of(value)
    except InvalidOperation:
        raise BadRecord(f"{shown(value)} is not a number") from None
    if not number.is_finite() or (number and abs(number.adjusted()) > 30):
        raise BadRecord(f"{shown(value)} is not a number that a tick can hold")
    return number


def _whole(value: Any, target: Target) -> int:
    if type(value) is int and target.lowest <= value <= target.highest:
        return value
    number = _decimal(value)
    if target.field in IDS:
        number = max(number, Decimal(0))  # below 0 it means none, as in all readers
    if number != number.to_integral_value() or not target.lowest <= number <= target.highest:
        raise BadRecord(f"{shown(value)} is not a whole number from {target.lowest} to {target.highest}")
    return int(number)


def _text_time(value: Any, texts: TextTimes) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise BadRecord(f"{shown(value)} is not a time")
    try:
        return texts.ns(str(value))
    except ValueError as error:
        raise BadRecord(f"{shown(value)} {error}") from None


def _letter(value: Any, field: str) -> bytes:
    """The letter of a side or an action, by itself or as a word."""
    found = WORDS[field].get(value.strip().lower()) if isinstance(value, str) else None
    if found is None:
        raise BadRecord(f"{shown(value)} is not one of {', '.join(LETTERS[field])}")
    return found


def _kind(value: Any) -> int:
    """A word, or the number that it stands for."""
    found = None if isinstance(value, bool) else KINDS_OF_TEXT.get(text_of(value))
    if found is None:
        raise BadRecord(f"{shown(value)} {NO_KIND}")
    return found


T = TypeVar("T")
#: A size is the difference of a running total, or what its level has.
Running = bool | Literal["level"]
Unit = Literal["s", "ms", "us", "ns", "auto", "clock", "stamp"]
Names = str | list[str]
_WORDS: Final[Mapping[type, str]] = {
    str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table",
}  # fmt: skip


class Keys(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys that every field has."""

    column: Names = []
    constant: Any = None
    optional: bool = False
    empty: Literal["none"] | None = None
    undefined: Names = []


class _PlusKeys(msgspec.Struct, frozen=True):
    column: Names
    unit: Literal["s", "ms", "us", "ns"] = "ns"
    seconds: dict[str, int] = {}


class _TimeKeys(Keys, frozen=True):
    unit: Unit | list[Unit] = []
    since: Literal["epoch", "midnight"] = "epoch"
    digits: int = 0
    format: str | None = None
    plus: dict[str, Any] | None = None


class _IdKeys(Keys, frozen=True):
    text: Literal["hash", "hex"] | None = None
    later_of: list[Names] = []
    earlier_of: list[Names] = []


class _PriceKeys(Keys, frozen=True):
    unit: Any = 1
    zero: Literal["none"] | None = None


class _SizeKeys(Keys, frozen=True):
    unit: Any = 1
    signed: bool = False
    running: Running = False
    both_sides: bool = False


class _MapKeys(Keys, frozen=True):
    map: dict[str, Any] = {}
    otherwise: Any = None


class _SideKeys(_MapKeys, frozen=True):
    later_of: list[Names] = []


class SymbolKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Source of the symbol. ``join``: the columns of its parts. ``file_name``: a pattern of the file's name, whose
    groups are the symbol. ``instrument``: the column that numbers the instrument, which may change under one symbol."""

    column: Names = []
    join: Names = []
    instrument: Names = []
    file_name: str | None = None
    constant: str | None = None


class SymbolRule(NamedTuple):
    """Source of the symbol, by ``SymbolKeys``. Of ``joined`` columns the first is in ``columns`` too. With
    ``columns``, ``file_name`` is used for the files that lack them."""

    columns: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    instrument: tuple[str, ...] = ()
    file_name: re.Pattern[str] | None = None
    constant: str | None = None


class _NightKeys(msgspec.Struct, frozen=True):
    begins: str
    ends: str
    unless: str | None = None


class TimeKeys(msgspec.Struct, frozen=True):
    """Options of a profile for all times: the zone of those that name none, and the column of the clocks' dates, which
    are those of trading days where the sessions at night are given."""

    zone: str | None = None
    ambiguous: Ambiguous = "infer"
    date_column: Names = []
    date_format: str | None = None
    night: dict[str, Any] | None = None

    def checked_night(self, where: str) -> Night | None:
        """The sessions at night. Raises ConfigurationError."""
        if self.night is None:
            return None
        keys = checked(_NightKeys, self.night, f"{where}.night")
        if not self.date_column:
            raise ConfigurationError(f"{where}.night", "is for clocks with the dates of trading days, in date_column")
        begins, ends = (_of_day(getattr(keys, name), f"{where}.night.{name}") for name in ("begins", "ends"))
        if ends >= begins:
            raise ConfigurationError(f"{where}.night.ends", f"{keys.ends} is not in the morning after {keys.begins}")
        return Night(begins, ends, None if keys.unless is None else regular(keys.unless, f"{where}.night.unless"))

    def checked_zone(self, where: str) -> str | None:
        """The zone. Raises ConfigurationError where nobody knows it."""
        return None if self.zone is None else checked_zone(f"{where}.zone", self.zone)

    def date_pattern(self, where: str) -> Pattern | None:
        """The form of dates. Raises ConfigurationError where it is one of clocks, or there are no dates."""
        if self.date_format is None:
            return None
        found = pattern_of(self.date_format, f"{where}.date_format")
        if not self.date_column or not found.has_date or b"H" in found.text or b"I" in found.text:
            raise ConfigurationError(f"{where}.date_format", "is the form of a date alone, in date_column")
        return found


@dataclass(frozen=True, slots=True)
class Night:
    """Night sessions of trading days that begin on the evening of the weekday before.

    Attributes:
        begins: The time of day at which a trading day begins, in ns.
        ends: The time of day at which the night session has ended.
        unless: Matches symbols whose rows have calendar dates at night too. None: no symbol has.
    """

    begins: int
    ends: int
    unless: re.Pattern[str] | None


def _of_day(text: str, where: str) -> int:
    """A time of day in ns. Raises ConfigurationError."""
    try:
        return Numbers(CLOCK).one(text.encode())
    except ValueError:
        raise ConfigurationError(where, f"{text!r} is not a time of day, as 18:00") from None


_KEYS: Final[Mapping[str, type[Keys]]] = {
    **dict.fromkeys(TIMES, _TimeKeys), **dict.fromkeys(IDS, _IdKeys), **dict.fromkeys(PRICES, _PriceKeys),
    **dict.fromkeys(SIZES, _SizeKeys), **dict.fromkeys((*SMALL, "action", "kind"), _MapKeys), "side": _SideKeys,
}  # fmt: skip


def _in_any_case(words: Iterable[str]) -> list[str]:
    usual = [word.upper() if len(word) == 1 else word for word in words if word]
    return list(
        dict.fromkeys([*usual, *(each for word in usual for each in (word.lower(), word.upper(), word.title()))])
    )


#: Without a map, texts stand for themselves.
_THEMSELVES: Final[Mapping[str, Collection[str]]] = {
    **{field: _in_any_case(words) for field, words in WORDS.items()}, "kind": KINDS_OF_TEXT,
}  # fmt: skip
#: The most texts that an error lists.
_LISTED: Final = 20


def listed(texts: Collection[str]) -> str:
    """The first of the texts that a value may be, for an error."""
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return f"{', '.join(list(texts)[:_LISTED])}{more}"


@dataclass(frozen=True, slots=True)
class Plus:
    """Addition to a time: ``ns`` by the text of a column, or the nanoseconds that the column itself holds. Without a
    column, the one number of ``ns``, or the rest of so many calendar ``months``. ``power``: of ten, of ns in 1 of the
    column."""

    columns: tuple[str, ...]
    ns: tuple[tuple[str, int], ...] = ()
    months: int = 0
    power: int = 0


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Source of a field of the tick. ``columns``: possible names of its column; empty for a constant.

    ``constant``, and the values in ``map`` and ``otherwise``, are values of the tick's field, letters as bytes. 1 in
    the file is worth ten to the ``power`` of currency or shares; ``whole_power``, if there is one, replaces ``power``
    where the file's first line has a whole number. ``unit``: the unit of a time, or the units that it may have.
    ``format``: the pattern of a time that has one. ``undefined``: texts that stand for no value. ``signed``: a size
    below 0 is a sell. ``running``: the size is what is more than in the row before; if ``"level"``, what its level has
    after it. ``both_sides``: it is half of the number, which counts the buyer and the seller. ``pair``: the columns of
    two order numbers, the buyer's first.
    """

    field: str
    columns: tuple[str, ...] = ()
    constant: int | bytes | None = None
    optional: bool = False
    empty: bool = False
    zero: bool = False
    power: int = 0
    unit: tuple[str, ...] = ()
    since: str = "epoch"
    digits: int = 0
    text: str | None = None
    map: tuple[tuple[str, Any], ...] = ()
    otherwise: int | bytes | None = None
    pair: tuple[tuple[str, ...], ...] = ()
    earlier: bool = False
    whole_power: int | None = None
    undefined: tuple[str, ...] = ()
    plus: Plus | None = None
    format: Pattern | None = None
    signed: bool = False
    running: Running = False
    both_sides: bool = False

    @property
    def place(self) -> str:
        """The field of a tick that has it: those of both sides of a quote share a tick's."""
        return PLACES.get(self.field, self.field)

    def target(self, size_power: int, price_unit: str = PRICE_UNIT, *, signs: bool = False) -> Target:
        """The field as what numbers become. ``size_power``: what 1 in a tick's size is worth, as a power of ten."""
        whole_power = self.power if self.whole_power is None else self.whole_power
        if self.field in PRICES:
            powers = PRICE_POWER + self.power, PRICE_POWER + whole_power
            return Target("price", *powers, -UNDEF_PRICE, UNDEF_PRICE, price_unit, signs)
        if self.field in SIZES:
            highest = limits("size")[1]
            powers = self.power - size_power, whole_power - size_power
            return Target("size", *powers, -highest if self.signed else 0, highest, price_unit, signs)
        power = next((TIME_POWERS[unit] for unit in self.unit if unit in TIME_POWERS), 0)
        return Target(self.field, power, power, *((0, 255) if self.field in LETTERS else limits(self.field)))


@dataclass(frozen=True, slots=True)
class BarsRule:
    """The length of bars: ``length`` as text, or what a pattern's group finds in the file's path (``unit`` stands
    behind a bare number), or where both are None, what ``plus`` adds to the time of the first row."""

    length: str | None = None
    path: re.Pattern[str] | None = None
    unit: str = ""

    def span(self, given: str | None, place: str) -> tuple[int, int]:
        """The length of all bars of a file as ``bar_span`` has it. ``given``: the option ``bars``; ``place``: the path
        of the file. Raises ConfigurationError where nothing says it."""
        if given is not None:
            return bar_span("bars", given)
        if self.length is not None:
            return bar_span("bars", self.length)
        if self.path is not None and (found := self.path.search(place)):
            return bar_span("bars, from the file's path", found[1] + self.unit)
        raise ConfigurationError("bars", f"the path of {place} does not say their length: give it, as in bars='1m'")


_DAY: Final = 86400 * 10**9
#: The longest month.
_MONTH: Final = 31 * _DAY
#: Lengths of bars in words of folders' and files' names.
_NAMED_SPANS: Final = {"second": "1s", "minute": "1m", "hour": "1h", "daily": "1d"}
_WEEKS: Final = re.compile(r"(\d+)w")
_MONTHS: Final = re.compile(r"(\d+)[mM]o")


def bar_span(where: str, text: str) -> tuple[int, int]:
    """Length of bars as (ns, calendar months). One of the two is 0. Raises ConfigurationError."""
    given = _NAMED_SPANS.get(text, text)
    if months := _MONTHS.fullmatch(given):
        if not 1 <= int(months[1]) <= 12:
            raise ConfigurationError(where, f"give 1mo to 12mo, not {text}")
        return 0, int(months[1])
    if weeks := _WEEKS.fullmatch(given):
        given = f"{7 * int(weeks[1])}d"
    return span_ns(where, given), 0


def bar_ns(ns: int, months: int) -> int:
    """The length of a bar in a FeedInfo, in ns: of calendar months, that of the longest."""
    return ns or months * _MONTH


def bars_of(ns: int, months: int, zone: str) -> dict[str, str]:
    """The zone whose days or months bars are, as a detail of a FeedInfo; nothing for shorter ones and days of UTC."""
    if not months and (ns % _DAY or zone == "UTC"):
        return {}
    return {"bars_of": f"{'months' if months else 'days'} of {zone}"}


def place_of(names: Sequence[str]) -> str:
    """The absolute path of a file, and of the one member of an archive: of its names as ``names_of`` gives them. That
    of standard input is its name alone: the folder of the process says nothing of it."""
    path = names[0] if names[0] == STANDARD_INPUT else Path(names[0]).absolute().as_posix()
    return f"{path}/{names[1]}" if len(names) == 2 else path


def bars_rule(given: bool | str | dict[str, str], where: str) -> BarsRule | None:
    """The rule of the key ``bars``. Raises ConfigurationError."""
    if isinstance(given, bool):
        return BarsRule() if given else None
    if isinstance(given, str):
        bar_span(where, given)
        return BarsRule(given)
    if "path" not in given or set(given) - {"path", "unit"}:
        raise ConfigurationError(where, "give path, a pattern whose group is the length, and unit where it has none")
    pattern = regular(given["path"], f"{where}.path")
    if pattern.groups < 1:
        raise ConfigurationError(f"{where}.path", f"{given['path']!r} has no group (...) that is the length")
    return BarsRule(None, pattern, given.get("unit", ""))


def regular(text: str, where: str) -> re.Pattern[str]:
    """A regular expression. Raises ConfigurationError."""
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigurationError(where, f"{text!r} is not a regular expression: {error}") from None


def symbol_rule(given: Any, where: str, *, but: Collection[str] = (), may_lack_column: bool = False) -> SymbolRule:
    """The source of symbols that a table of a profile gives, which may not have the keys ``but``. ``may_lack_column``:
    it may give a column, and ``file_name`` for files that lack it. Raises ConfigurationError."""
    keys = checked(SymbolKeys, given, where, but=but)
    columns, joined = names_of(keys.column), names_of(keys.join)
    sources = (bool(columns), bool(joined), keys.file_name is not None, keys.constant is not None)
    if sources.count(True) != 1 and not (may_lack_column and sources == (True, False, True, False)):
        more = ", or column and, for files that lack it, file_name" * may_lack_column
        raise ConfigurationError(
            where, f"give exactly one of column, join, file_name (a pattern with a group) and constant{more}"
        )
    pattern = None if keys.file_name is None else regular(keys.file_name, f"{where}.file_name")
    if pattern is not None and pattern.groups < 1:
        raise ConfigurationError(f"{where}.file_name", f"{keys.file_name!r} has no group (...) that is the symbol")
    constant = None if keys.constant is None else check_name(f"{where}.constant", keys.constant)
    return SymbolRule(columns or joined[:1], joined, names_of(keys.instrument), pattern, constant)


def symbol_in(pattern: re.Pattern[str], names: Sequence[str], path: str | Path) -> str:
    """The symbol in the first of a file's names that has one. Raises ConfigurationError where there is none."""
    for name in names:
        if found := pattern.search(Path(name).name):
            return check_name("symbol, from the file's name", "_".join(filter(None, found.groups())).upper())
    raise ConfigurationError(
        "symbol", f"the name of {path} does not hold it, as in {pattern.pattern}: give symbol= (--feed symbol=)"
    )


def names_of(value: Any) -> tuple[str, ...]:
    """One name or a list of them."""
    return (value,) if isinstance(value, str) else tuple(value)


def text_of(value: Any) -> str:
    """A value as text, for comparison with the texts of a profile: true and false as JSON writes them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def checked(kind: type[T], given: Any, where: str, *, but: Collection[str] = ()) -> T:
    """A table of a profile as the struct of its keys, without the keys ``but``.

    Raises ConfigurationError, which names the key.
    """
    known = [key for key in kind.__struct_fields__ if key not in but]  # type: ignore[attr-defined]
    if not isinstance(given, Mapping):
        raise ConfigurationError(where, f"give a table, not {given!r}")
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{where}.{key}", f"is not a key here; there are {', '.join(known)}")
    with suppress(msgspec.ValidationError):  # it takes long to say what is wrong
        return msgspec.convert(dict(given), kind)
    hints = get_type_hints(kind)
    for key, value in given.items():
        _check(hints[key], value, f"{where}.{key}" if where else key)
    struct: Any = kind
    if lacking := [each.name for each in msgspec.structs.fields(struct) if each.required and each.name not in given]:
        raise ConfigurationError(f"{where}.{lacking[0]}" if where else lacking[0], "is needed")
    return msgspec.convert(dict(given), kind)


def _check(hint: Any, value: Any, place: str) -> None:
    """Raises ConfigurationError, which names the part that is at fault, for a value that is not of a type."""
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError:
        for kind in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
            if get_origin(kind) is dict and isinstance(value, Mapping):
                for key, each in value.items():
                    if not isinstance(key, str):
                        raise ConfigurationError(place, f"give names that are text, not {key!r}") from None
                    _check(get_args(kind)[1], each, f"{place}.{key}")
            if get_origin(kind) is list and isinstance(value, list | tuple):
                for at, each in enumerate(value, 1):
                    _check(get_args(kind)[0], each, f"{place}[{at}]")
        raise ConfigurationError(place, f"give {' or '.join(_words(hint))}, not {value!r}") from None


def _words(hint: Any) -> list[str]:
    """The values of a type, in words."""
    if isinstance(hint, str):
        return [repr(hint)]
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType, Literal) or (kind is list and get_origin(parts[0]) is Literal):
        return list(dict.fromkeys(word for part in parts for word in _words(part)))
    return [_WORDS[kind]] if kind in _WORDS else []


def field_rules(given: Any, where: str, *, size_power: int = 0, but: Collection[str] = ()) -> tuple[FieldRule, ...]:
    """The rules of a table of fields, of which each is a table of its keys or the name of its column.

    ``size_power``: what 1 in a tick's size is worth, as a power of ten. ``but``: keys that the reader has not.
    Raises ConfigurationError, which names the key.
    """
    if not isinstance(given, Mapping):
        raise ConfigurationError(where, f"give a table, not {given!r}")
    for name in given:
        if name not in _KEYS:
            raise ConfigurationError(f"{where}.{name}", f"is not a field of a tick; there are {', '.join(_KEYS)}")
    rules = tuple(field_rule(name, keys, f"{where}.{name}", size_power, but) for name, keys in given.items())
    quote = given.keys() & PLACES.keys()
    whole = quote in ({"bid_price", "ask_price"}, PLACES.keys())
    if quote and (not whole or given.keys() & {"price", "size", "side", "order_id", "ref_id"}):
        raise ConfigurationError(
            where, "a quote has bid_price and ask_price, both sizes or neither, and no price, size, side or ids"
        )
    for rule in rules:
        if rule.signed and (rule.field != "size" or "side" in given):
            raise ConfigurationError(f"{where}.{rule.field}.signed", "is for size, and only where no side is given")
    return rules


def flags_of(
    rules: Iterable[FieldRule], ticks: TicksAre | None, given: Mapping[str, int] | None = None, where: str = ""
) -> Flags:
    """The flags of ticks that ``rules`` make. ``given``: the masks that their meanings have, where it is said; without,
    values that a profile or an option gives are Strand's own flags, and those of a column have no meaning."""
    if given:
        try:
            return Flags.of(given)
        except ConfigurationError as error:
            raise error.at(f"{where}.{error.field}") from None
    ours = [rule for rule in rules if rule.field == "flags"]
    raw = any(rule.columns and not rule.map for rule in ours)
    return usual_flags(ticks, "raw" if raw else "made" if ours else "never")


def field_rule(name: str, given: Any, where: str, size_power: int, but: Collection[str]) -> FieldRule:
    """The rule of one field: see ``field_rules``."""
    if isinstance(given, str):
        given = {"column": given}
    if isinstance(given, Mapping) and isinstance(given.get("map"), Mapping):
        given = {**given, "map": {text_of(text): value for text, value in given["map"].items()}}
    keys = checked(_KEYS[name], given, where, but=but)
    told = {key: getattr(keys, key, None) for key in ("later_of", "earlier_of", "text", "zero", "map", "unit")}
    columns, pair = names_of(keys.column), told["later_of"] or told["earlier_of"] or []
    sources = ["column", "constant", *(key for key in ("later_of", "earlier_of") if key in keys.__struct_fields__)]
    sources = [key for key in sources if key not in but]
    if (bool(columns), keys.constant is not None, bool(told["later_of"]), bool(told["earlier_of"])).count(True) != 1:
        raise ConfigurationError(where, f"give exactly one of {', '.join(sources)}")
    if pair and (len(pair) != 2 or not all(pair)):
        raise ConfigurationError(f"{where}.later_of", f"give two columns, not {pair!r}")
    units: tuple[str, ...] = ()
    power = whole_power = since = digits = pattern = None
    if isinstance(keys, _TimeKeys):
        units, since, digits = names_of(keys.unit), keys.since, keys.digits
        if keys.format is not None:
            if keys.digits:
                raise ConfigurationError(f"{where}.digits", "leave it out: format says all of the form")
            pattern = pattern_of(keys.format, f"{where}.format")
            form = "stamp" if pattern.has_date else "clock"
            if units not in ((), (form,)):
                raise ConfigurationError(f"{where}.unit", f"give {form!r} or leave it out: format says a {form}")
            units = (form,)
        if columns and not units:
            raise ConfigurationError(f"{where}.unit", f"is needed: one of {', '.join(get_args(Unit))}")
        if not 0 <= digits <= 9:
            raise ConfigurationError(f"{where}.digits", f"give 0 to 9, not {digits}")
    elif told["unit"] is not None:
        power, whole_power = _powers(told["unit"], f"{where}.unit")
    map_ = told["map"] or {}
    if columns and not map_ and name in _THEMSELVES:
        map_ = {text: text for text in _THEMSELVES[name]}
    rule = FieldRule(
        name,
        columns,
        optional=keys.optional,
        empty=keys.empty is not None,
        zero=told["zero"] is not None,
        power=power or 0,
        unit=units,
        since=since or "epoch",
        digits=digits or 0,
        text=told["text"],
        pair=tuple(map(names_of, pair)),
        earlier=bool(told["earlier_of"]),
        whole_power=whole_power,
        undefined=names_of(keys.undefined),
        plus=_plus(getattr(keys, "plus", None), f"{where}.plus"),
        format=pattern,
        signed=getattr(keys, "signed", False),
        running=getattr(keys, "running", False),
        both_sides=getattr(keys, "both_sides", False),
    )
    stamps = next((unit for unit in units if unit in (*TIME_POWERS, "stamp")), None) == "stamp"
    texts = TextTimes("stamp", pattern, None) if stamps else None
    convert = converter(rule.target(size_power, 'unit = "{}" of the field', signs=True), Rounding(), texts=texts)

    def value(given: Any, key: str) -> Any:
        if isinstance(given, float):
            given = Decimal(repr(given))
        try:
            return None if given is None else convert(given)
        except BadRecord as error:
            raise ConfigurationError(f"{where}.{key}", f"{error}") from None

    return replace(
        rule,
        constant=value(keys.constant, "constant"),
        unit=units if columns else (),
        map=tuple((text, value(stands, f"map.{text}")) for text, stands in map_.items()),
        otherwise=value(getattr(keys, "otherwise", None), "otherwise"),
    )


def _powers(given: Any, where: str) -> tuple[int, int | None]:
    """Powers of ten of a unit: of every number, or of those with a decimal point and of whole ones."""
    if not isinstance(given, list):
        return unit_power(where, given), None
    if len(given) != 2:
        raise ConfigurationError(where, f"give one unit, or two (of decimals, of whole numbers), not {given!r}")
    return unit_power(where, given[0]), unit_power(where, given[1])


def _plus(given: Any, where: str) -> Plus | None:
    if given is None:
        return None
    if "column" not in given:
        raise ConfigurationError(f"{where}.column", "is needed: what is added to the time")
    keys = checked(_PlusKeys, given, where)
    for text, seconds in keys.seconds.items():
        if not 0 <= seconds <= 86_400:
            raise ConfigurationError(f"{where}.seconds.{text}", f"give 0 to 86400, not {seconds}")
    if keys.seconds and keys.unit != "ns":
        raise ConfigurationError(f"{where}.unit", "leave it out: the texts stand for seconds")
    spans = tuple((text, seconds * 10**9) for text, seconds in keys.seconds.items())
    return Plus(names_of(keys.column), spans, power=TIME_POWERS[keys.unit])
