"""Columns of numbers, times and letters as fields of ticks: exactly, or marked as bad or rounded, row by row.

A unit is a power of ten, given as text (``"0.001"``, ``"1e-8"``, ``"100"``). A float stands for the shortest decimal
that rounds to it, so a number means the same in a text, a float and a decimal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding.columns import DECIMAL, HEX, ID, NO_ENTRY, Field, Numbers, entries_of
from strand.feeds.mapping.clocks import LocalTimes, Pattern, TextTimes
from strand.fixed import dataclass
from strand.ticks import FIELDS, limits
from strand.validate import MIN_UNIT

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

IDS: Final = ("order_id", "ref_id", "sequence")
#: Ten to this power units of a tick's price are 1 of currency.
PRICE_POWER: Final = 9
#: How the units of times and prices are given.
TIME_UNIT: Final = "time_unit='UNIT' (--feed time_unit=UNIT)"
PRICE_UNIT: Final = "price_unit={0!r} (--feed price_unit={0})"
#: Below this a product with a scale is known to its last unit.
_EXACT: Final = float(1 << 52)
_MAX_I64: Final = (1 << 63) - 1
#: Every price below it fits into a tick. The bound as an error shows it.
_MOST_OF_PRICE: Final = _MAX_I64 // 10**PRICE_POWER
_PRICE_BOUND: Final = "9,223,372,036.85"
#: Of a number for which no unit is proposed.
_MOST_DIGITS: Final = 40
#: Powers of ten that a double holds exactly.
_EXACT_POWERS: Final = 22
#: An exponent of more digits would make a number that fills the memory.
_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
#: Every digit of the longest line fits, so that rounding happens once.
_WIDE: Final = Context(prec=1 << 17, Emax=999_999, Emin=-999_999)


def finer_unit(number: Decimal) -> str:
    """The option whose unit makes a size a whole number, before the fault. Empty: no unit is fine enough."""
    exponent = number.normalize(_WIDE).as_tuple().exponent
    if not isinstance(exponent, int) or not MIN_UNIT <= exponent < 0:
        return ""
    unit = f"{Decimal(1).scaleb(exponent):f}"
    return f"give size_unit='{unit}' (--feed size_unit={unit}): "


class Target(NamedTuple):
    """A field of a tick that numbers become, the same for texts, columns and single values.

    Attributes:
        field: The tick's field; of either side of a quote, price and size.
        power: A number times ten to the power is the field's value.
        whole_power: The power of whole numbers, where the file tells them from decimals.
        lowest: The least value of the field.
        highest: The greatest value, ``UNDEF_PRICE`` of prices.
        price_unit: The way to give the unit of prices, for errors.
        signs: Whether a key ``signed`` allows sizes below 0, for errors.
    """

    field: str
    power: int
    whole_power: int
    lowest: int
    highest: int
    price_unit: str = PRICE_UNIT
    signs: bool = False

    def most(self, power: int) -> int:
        """The greatest value that numbers times ten to the ``power`` may have: only prices that are in units of a
        tick's, as ticks themselves have them, can say that there is none."""
        return self.highest - (self.field == "price" and power != 0)

    def loses(self, units: Any) -> Any:
        """True for units that a number other than 0 may not be rounded to: 0 has a meaning of its own."""
        return (units == 0) & (self.field in ("price", "size"))

    def too_precise(self, shown: str, number: Decimal | None, power: int, *, rounds: bool = False) -> str:
        """The fault of a number that is no whole unit, or with ``rounds`` of one that rounds to 0, and its cure."""
        if rounds:
            cure = "give a finer size_unit" if self.field == "size" else "no price of 9 decimals holds it"
            return f"{shown} rounds to 0: {cure}"
        finer = finer_unit(number) if self.field == "size" and number is not None else ""
        return f"{finer}{shown} is not a whole number of {_units_of(power)}: inexact='round' rounds it to the nearest"

    def beyond(self, shown: str, number: Decimal | None, power: int) -> str:
        """The fault of a number that the field cannot hold, and its cure."""
        if number is not None and self.field == "price":
            return f"{shown} is out of range: {coarser_price(number, power - PRICE_POWER, self.price_unit)}"
        if number is not None and self.field == "size":
            if number < 0 <= self.lowest:
                return f"{shown} is below 0{': give signed = true if such a size is a sell' * self.signs}"
            return f"give a larger size_unit: {shown} is more than 2^63 - 1 {_units_of(power)}"
        if self.field in ("ts_event", "ts_recv"):
            return f"{shown} is {NO_TIME}"
        return f"{shown} is outside {self.lowest} to {self.highest} {_units_of(power)}"


def _units_of(power: int) -> str:
    return f"units of {f'1e{-power}' if power else '1'}"


class Units(NamedTuple):
    """``values``: int64. ``bad``: rows whose number int64 cannot hold, ``inexact``: rows that were rounded to the
    nearest unit, ties to even; None: there are none."""

    values: Array
    bad: Mask | None
    inexact: Mask | None


def coarser_price(number: Decimal, power: int, option: str = PRICE_UNIT) -> str:
    """Advice for a price that no tick holds, to follow the fault: the coarser unit that holds it.

    Args:
        number: The price as its source has it, of any size.
        power: The power of ten that 1 in it is worth now.
        option: How a unit is given.
    """
    bounds = f"a price is between -{_PRICE_BOUND} and {_PRICE_BOUND}"
    if number.adjusted() > _MOST_DIGITS:
        return bounds
    steps = 1
    while steps < 6 and abs(number.scaleb(power - 3 * steps, _WIDE)) >= _MOST_OF_PRICE:
        steps += 1
    if abs(number.scaleb(power - 3 * steps, _WIDE)) >= _MOST_OF_PRICE or power - 3 * steps < MIN_UNIT:
        return bounds
    unit = f"{Decimal(1).scaleb(power - 3 * steps):f}"
    return f"{bounds}: {option.format(unit)} counts all money in units of {1000**steps:,}"


def nearest_units(text: bytes, power: int) -> int | None:
    """The whole number nearest to a decimal's text times ten to the ``power``, ties to even; None: no such text."""
    if not _NUMBER.fullmatch(text):
        return None
    return nearest(Decimal(text.decode("ascii")), power)[0]


def _plain_number(shown: str) -> Decimal | None:
    """The number that a column's value is shown as; None: it is infinite."""
    try:
        number = Decimal(shown.removeprefix("Decimal(").removesuffix(")").removeprefix("b").strip("' "))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def nearest(number: Decimal, power: int) -> tuple[int, bool]:
    """The whole number nearest to a finite number times ten to the ``power``, and whether it is another."""
    units = number.scaleb(power, _WIDE)
    whole = units.to_integral_value(ROUND_HALF_EVEN, _WIDE)
    return int(whole), whole != units


def integer_units(values: Array, power: int) -> Units:
    """Integers times ten to the ``power``."""
    if power >= 0:
        factor = 10**power
        maximum = _MAX_I64 // factor
        bad = None
        if len(values) and (int(values.max()) > maximum or int(values.min()) < -maximum):
            bad = (values > maximum) | (values < -maximum) if values.dtype.kind == "i" else values > maximum
        whole = values.astype(np.int64, copy=False)
        with np.errstate(over="ignore"):
            return Units(whole if factor == 1 or factor > _MAX_I64 else whole * np.int64(factor), bad, None)
    step = 10**-power
    if step > _MAX_I64 or values.dtype.itemsize < 8:
        return decimal_units(values, power)
    below, rest = np.divmod(values, values.dtype.type(step))
    half = values.dtype.type(step // 2)
    up = (rest > half) | ((rest == half) & (below % 2 != 0))
    inexact = rest != 0
    return Units((below + up).astype(np.int64), None, inexact if inexact.any() else None)


def float_units(floats: Array, power: int) -> Units:
    """Floats times ten to the ``power``. A value that is no number counts as 0."""
    numbers = np.where(np.isnan(floats), 0, floats)
    if floats.dtype != np.float64 or not 0 <= power <= _EXACT_POWERS:
        # The check below finds the shortest decimal of doubles alone: a shorter float goes through its text.
        return decimal_units(numbers, power)
    scale = float(10**power)
    with np.errstate(over="ignore", invalid="ignore"):
        product = numbers * scale
        rounded = np.rint(product)
        # A quotient is rounded correctly: this is the double nearest to that many units, and below 2^52 units no other
        # number of units has the same one.
        sure = (np.abs(product) < _EXACT) & (rounded / scale == numbers)
    values = np.where(sure, rounded, 0).astype(np.int64)
    if sure.all():
        return Units(values, None, None)
    rest = np.flatnonzero(~sure)
    values[rest], *masks = decimal_units(numbers[rest], power)
    found: list[Mask | None] = [None, None]
    for at, mask in enumerate(masks):
        if mask is not None:
            whole = np.zeros(len(floats), np.bool_)
            whole[rest] = mask
            found[at] = whole
    return Units(values, *found)


def doubles_of(floats: Array) -> Array:
    """Floats of 32 bits as the doubles that stand for the same shortest decimals; all others as they are."""
    if floats.dtype != np.float32:
        return floats
    made = floats.astype(np.float64)
    rest = np.flatnonzero(np.isfinite(made) & ~((made == np.rint(made)) & (np.abs(made) < 1 << 24)))
    for digits in (2, 4, 6):
        scale = float(10**digits)
        units = np.rint(made[rest] * scale)
        near = units / scale
        # So few units lie further apart than these floats, so that no other decimal of so many digits is this float.
        sure = (np.abs(units) < 1 << 22) & (near.astype(np.float32) == floats[rest])
        made[rest[sure]] = near[sure]
        rest = rest[~sure]
    if len(rest):
        distinct, places = np.unique(floats[rest], return_inverse=True)
        made[rest] = np.array([float(str(each)) for each in distinct])[places]
    return made


def decimal_units(numbers: Array, power: int) -> Units:
    """Integers, floats or texts of decimals times ten to the ``power``: slow, but each value is computed once."""
    distinct, places = np.unique(numbers, return_inverse=True)
    return _units_of_texts([str(number) for number in distinct], places, power)


def _units_of_texts(texts: Sequence[str | None], places: Array, power: int) -> Units:
    """The units of rows, by the places of their texts; a text of anything but a decimal is bad. None: no row has it."""
    made = np.zeros(len(texts), np.int64)
    bad, inexact = np.zeros(len(texts), np.bool_), np.zeros(len(texts), np.bool_)
    for i, text in enumerate(texts):
        if text is None or not _NUMBER.fullmatch(text.encode()):
            bad[i] = text is not None
            continue
        units, inexact[i] = nearest(Decimal(text), power)
        bad[i] = abs(units) > _MAX_I64
        made[i] = 0 if bad[i] else units
    return Units(made[places], bad[places] if bad.any() else None, inexact[places] if inexact.any() else None)


_MAX_UNITS: Final = 1 << 51
_MAX_POWER: Final = 18  # a power of ten
NS_IN: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
#: The powers of ten of ns in a unit of times.
TIME_POWERS: Final = {"s": 9, "ms": 6, "us": 3, "ns": 0}
#: From here up a whole number can be a time in ns alone: in any longer unit it lies beyond 2262, where ticks end.
ONLY_NS: Final = -(-(1 << 63) // 1000)
#: Fault of a number that no tick has as its time.
NO_TIME: Final = "not a time from 1970 to 2262-04-09"
#: Years in which the times of recorded markets lie: in them a number has one unit at most.
_OUR_NS: Final = (631_152_000 * 10**9, 4_102_444_800 * 10**9)
#: Names of sides and actions, in any case.
_SIDES: Final = {"b": b"B", "buy": b"B", "bid": b"B", "a": b"A", "s": b"A", "sell": b"A", "ask": b"A", "offer": b"A",
                "n": b"N", "none": b"N", "": b"N"}  # fmt: skip
_ACTIONS: Final = {"a": b"A", "add": b"A", "c": b"C", "cancel": b"C", "d": b"C", "delete": b"C", "m": b"M",
                  "modify": b"M", "r": b"R", "clear": b"R", "t": b"T", "trade": b"T", "f": b"F", "fill": b"F",
                  "n": b"N", "none": b"N", "": b"N"}  # fmt: skip
WORDS: Final[Mapping[str, Mapping[str, bytes]]] = {"side": _SIDES, "action": _ACTIONS}


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """The unit of times that are plain numbers: ``name`` is a key of ``NS_IN``, None where nothing gives it.

    ``is_said``: an option, a profile or the format says it. Else only the column's name does: it is believed as long as
    the times lie in our years. ``latest``: the last time in ns that is taken.
    """

    name: str | None = None
    is_said: bool = False
    latest: int = limits("ts_recv")[1]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, wherever it lies.

    ``values``: integers or floats (of ``kind`` bool: 0 and 1; of times: counts of ``ns``), with 0, or NaN of floats, at
    ``nulls``; those of text and decimals come by ``words``, indices into a list of texts, and by ``units``, the units
    of ten to a power. ``type``: what the file calls it, ``show``: a row as text, ``problem``: why it cannot be read at
    all. ``local``: times are of a zone that they do not say.
    """

    kind: Literal["integer", "bool", "float", "time", "decimal", "text", "other"]
    type: str
    nulls: Mask | None
    show: Callable[[int], str]
    values: Array
    ns: int = 1
    words: Callable[[], tuple[Array, list[Any]]] | None = None
    units: Callable[[int], Units] | None = None
    problem: str | None = None
    local: bool = False

    def says(self, why: str) -> Callable[[int], str]:
        return lambda row: f"{self.show(row)} {why}"


@dataclass(frozen=True, slots=True)
class Values:
    """A field's values, and which of them are none.

    ``bad``: rows without a usable value, None where there are none. ``explain(row)`` says what is wrong with a bad one.
    ``nulls``: rows that hold nothing at all, which are not in ``bad``. ``inexact``: rows whose value was rounded, on
    request.
    """

    values: Array
    nulls: Mask | None
    bad: Mask | None
    explain: Callable[[int], str]
    inexact: Mask | None = None


def unusable(field: str, name: str, kind: str, why: str) -> str:
    """The error text for a column whose type no value of the field can have, with what to do."""
    cure = f"convert it, or name another column by columns={{{field!r}: NAME}} (--feed columns.{field}=NAME)"
    return f"{cure}: column {name!r} ({kind}) for {field} {why}"


def defined(column: Column, undefined: Sequence[str]) -> Column:
    """A column in which whole numbers that stand for no value are nulls. ``undefined``: these numbers as texts."""
    if column.kind != "integer" or not undefined:
        return column
    bounds = np.iinfo(column.values.dtype)
    numbers = [number for number in map(int, filter(_is_whole, undefined)) if bounds.min <= number <= bounds.max]
    none = np.isin(column.values, np.array(numbers, column.values.dtype))
    if not none.any():
        return column
    return replace(column, nulls=either(column.nulls, none), values=np.where(none, 0, column.values))


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def either(a: Mask | None, b: Mask | None) -> Mask | None:
    """Mask of the rows in either; None: no row is."""
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _some(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def _beyond(values: Array, lowest: int, highest: int) -> Mask | None:
    if not len(values) or (int(values.min()) >= lowest and int(values.max()) <= highest):
        return None
    return (values < lowest) | (values > highest)


# ---- columns that C reads without conversion: numbers without nulls. The functions further below explain bad values


def plain_numbers(column: Column, target: Target) -> Field | None:
    """A column as ``scaled`` and ``integers`` read it; None where C cannot."""
    whole = column.kind == "integer"
    power = target.whole_power if whole else target.power
    if column.nulls is not None or not 0 <= power <= _MAX_POWER:
        return None
    lowest, highest = target.lowest, target.most(power)
    if whole:
        factor = 10**power
        return Field(column.values, *_within(column, -(-lowest // factor), highest // factor), factor)
    if column.kind == "float" and column.values.dtype == np.float64:
        return Field(column.values, max(lowest, -_MAX_UNITS), min(highest, _MAX_UNITS), scale=float(10**power))
    return None


def plain_times(column: Column, unit: TimeUnit) -> Field | None:
    """A column as ``times`` reads it; None where C cannot."""
    if column.nulls is not None or column.kind not in ("time", "integer"):
        return None
    factor, lowest, highest = _time_span(column, unit)
    lowest, highest = _within(column, lowest, highest)
    return Field(column.values, lowest, highest, factor) if lowest <= highest else None


def plain_letters(column: Column, words: Mapping[str, bytes] | None) -> Field | None:
    """A column as ``letters`` reads it; None where C cannot."""
    return _plain_texts(column, lambda texts: _letters_of(texts, words))


def plain_map(column: Column, table: Mapping[str, Any], otherwise: Any) -> Field | None:
    """A column as ``mapped`` reads it; None where C cannot."""
    return _plain_texts(column, lambda texts: _mapped_of(texts, table, otherwise))


def _plain_texts(column: Column, found_by: Callable[[list[Any]], list[Any] | None]) -> Field | None:
    if column.nulls is not None or column.words is None:
        return None
    places, texts = column.words()
    if not (found := found_by(texts)):
        return None
    known = [int.from_bytes(value) if isinstance(value, bytes) else value for value in found]
    if not all(value is None or 0 <= value < NO_ENTRY for value in known):
        return None
    return entries_of(places, np.array([NO_ENTRY if value is None else value for value in known], np.uint32))


def _within(column: Column, lowest: int, highest: int) -> tuple[int, int]:
    """The bounds, narrowed to what the column's type can hold."""
    own = np.iinfo(column.values.dtype)
    return max(lowest, int(own.min)), min(highest, int(own.max))


# ---- all columns, row by row


def _numbers(column: Column, power: int, whole_power: int) -> tuple[Units, Mask | None] | str:
    """Numbers times ten to a power, and which of them are none; else what is wrong with their type."""
    if column.kind == "decimal":
        assert column.units is not None
        return column.units(power), column.nulls
    if column.kind == "integer":
        return integer_units(column.values, whole_power), column.nulls
    if column.kind == "float":
        return float_units(column.values, power), _some(np.isnan(column.values))
    if column.words is None:
        return "is not a number"
    places, texts = _used(column)
    return _units_of_texts(texts, places, power), column.nulls


def _used(column: Column) -> tuple[Array, list[str | None]]:
    """The places of a column's texts, and the texts, without the blanks around them; None for one that no row has."""
    assert column.words is not None
    places, entries = column.words()
    texts: list[str | None] = [None] * max(1, len(entries))
    for at in np.unique(places if column.nulls is None else places[~column.nulls]).tolist():
        text = entries[at]
        texts[at] = (text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)).strip()
    return places, texts


def integers(column: Column, target: Target) -> Values | str:
    """A column of integers, or of numbers that happen to be whole, as a field; else what is wrong with its type.

    An id below 0 is 0, which means none.
    """
    values, nulls, bad = column.values, column.nulls, None
    if column.kind not in ("integer", "bool"):
        made = _numbers(column, 0, 0)
        if isinstance(made, str):
            return made
        (values, beyond, inexact), nulls = made
        bad = either(beyond, inexact)
    if target.field in IDS and values.dtype.kind == "i":
        values = np.maximum(values, 0)
    bad = either(bad, _beyond(values, target.lowest, target.highest))
    why = column.says(f"is not a whole number from {target.lowest} to {target.highest}")
    return Values(values.astype(FIELDS[target.field], copy=False), nulls, bad, why)


def times(
    column: Column, unit: TimeUnit, *, pattern: Pattern | None = None, zone: str | None = None, rounds: bool = False
) -> Values | str:
    """Times in ns since the epoch: times of any unit, numbers that count in ``unit``, and texts.

    Integers whose unit is not said are bad, unless they can be times in ns alone. ``pattern``: the form of texts, None:
    a stamp. ``zone``: of times and texts that do not say theirs, None: UTC. ``rounds``: see ``scaled``.
    """
    if column.kind == "text":
        numbers = None
        if unit.is_said and pattern is None:
            numbers = Numbers(DECIMAL, TIME_POWERS[unit.name or "ns"], 0, unit.latest)
        return _text_times(column, TextTimes("stamp", pattern, zone or "UTC", "raise", cure=_IN_UTC), numbers)
    if pattern is not None:
        return "is not text, and its form is given by format"
    no_time = column.says(f"is {NO_TIME}")
    if column.kind in ("float", "decimal") and unit.is_said:
        power = TIME_POWERS[unit.name or "ns"]
        found = scaled(column, Target("ts_event", power, power, 0, unit.latest), rounds=rounds)
        assert not isinstance(found, str)
        return found
    if column.kind not in ("time", "integer"):
        why = "is neither a timestamp nor text nor a whole number"
        if column.kind not in ("float", "decimal"):
            return why
        if column.kind == "float" and not len(column.values):  # the first number says more
            return Values(np.zeros(0, np.int64), None, None, no_time)
        some = column.values[np.isfinite(column.values)][:1].tolist() if column.kind == "float" else []
        cure = "".join(f"; {said_unit(int(number), TIME_UNIT)}" for number in some)
        return f"{why} whose unit is said{cure}"
    factor, lowest, highest = _time_span(column, unit)
    bad = _beyond(column.values, lowest, highest)
    values = column.values.astype(np.int64, copy=False)
    with np.errstate(over="ignore"):
        values = values if factor == 1 else values * np.int64(factor)
    if not column.local or zone is None:
        return Values(values, column.nulls, bad, no_time)
    clocks = LocalTimes(zone, "raise")
    none = either(bad, column.nulls)
    values, faults = clocks.to_utc(values, None if none is None else none.astype(np.uint16))
    early = _beyond(values, 0, unit.latest)
    wrong = either(either(bad, early), None if faults is None else faults != 0)
    told = np.zeros(len(values), np.int64) if faults is None else faults

    def explain(row: int) -> str:
        return f"{column.show(row)} {clocks.why(int(told[row]))}; {_IN_UTC}" if told[row] else no_time(row)

    return Values(values, column.nulls, wrong, explain)


_IN_UTC: Final = "give times in UTC, or with their zone"


def _text_times(column: Column, form: TextTimes, numbers: Numbers | None) -> Values | str:
    """``numbers``: how texts of numbers are read, where their unit is said. Digits may be a stamp, too: the reading
    counts that is a time of our years."""
    places, texts = _used(column)
    found = np.zeros(len(texts), np.int64)
    wrong: dict[int, str] = {}
    for at, text in enumerate(texts):
        if text is None:
            continue
        number = _number_time(text, numbers)
        try:
            is_ours = number is not None and _OUR_NS[0] <= number <= _OUR_NS[1]
            found[at] = number if number is not None and is_ours else form.ns(text)
        except ValueError as error:
            if number is not None:
                found[at] = number
                continue
            is_bare = numbers is None and text.isdecimal() and text.isascii() and len(text) < _MOST_DIGITS
            if is_bare and (cure := said_unit(int(text), TIME_UNIT)).startswith("give"):
                return f"holds numbers as text; {cure}"
            wrong[at] = str(error)
    is_wrong = np.zeros(len(found), np.bool_)
    is_wrong[list(wrong)] = True
    bad = _some(is_wrong[places])
    return Values(found[places], column.nulls, bad, lambda row: f"{column.show(row)} {wrong[int(places[row])]}")


def _number_time(text: str, numbers: Numbers | None) -> int | None:
    """The time that the text of a number stands for; None: it is no such text, or no time."""
    try:
        return None if numbers is None else numbers.one(text.encode())
    except ValueError:
        return None


def _time_span(column: Column, unit: TimeUnit) -> tuple[int, int, int]:
    """ns in a unit of a column's numbers, and the least and the greatest number that is taken for a time."""
    if column.kind == "time" or unit.is_said:
        factor = column.ns if column.kind == "time" else NS_IN[unit.name or "ns"]
        return factor, 0, unit.latest // factor
    if unit.name is None:
        return 1, ONLY_NS, unit.latest
    factor = NS_IN[unit.name]
    return factor, -(-_OUR_NS[0] // factor), _OUR_NS[1] // factor


def said_unit(number: int, option: str) -> str:
    """The cure for a time without a unit: how ``option`` says the one that makes sense, in place of UNIT.

    That is the unit by which the number is a time from 1990 to 2100: there is one at most.
    """
    for name, factor in NS_IN.items():
        if _OUR_NS[0] <= number * factor <= _OUR_NS[1]:
            date = np.datetime64(number * factor // NS_IN["s"], "s")
            cure = option.replace("UNIT", name)
            return f"give {cure}: nothing says the unit of {number}, which in {name} is {date}"
    cure = option.replace("UNIT", "s")
    return f"say one of the units {', '.join(NS_IN)}, as in {cure}: {number} is a date of our years in none of them"


def scaled(column: Column, target: Target, *, rounds: bool = False) -> Values | str:
    """Numbers as units of a field, as int64. A value that the field cannot hold is bad, and so is one that is no whole
    unit, unless ``rounds`` rounds it to the nearest. A float that is no number counts as null.
    """
    made = _numbers(column, target.power, target.whole_power)
    if isinstance(made, str):
        return made
    found, nulls = made
    power = target.whole_power if column.kind == "integer" else target.power
    lost = inexact = found.inexact
    rounded: Mask | None = None
    if inexact is not None and rounds:
        loses = target.loses(found.values)
        lost, rounded = _some(inexact & loses), _some(inexact & ~loses)
    beyond = either(found.bad, _beyond(found.values, target.lowest, target.most(power)))

    def explain(row: int) -> str:
        shown = column.show(row)
        if column.words is not None and _plain_number(shown) is None:
            return f"{shown} is not a number"
        if lost is not None and lost[row] and (beyond is None or not beyond[row]):
            return target.too_precise(shown, _plain_number(shown), power, rounds=rounds)
        return target.beyond(shown, _plain_number(shown), power)

    return Values(found.values, nulls, either(beyond, lost), explain, rounded)


def mapped(
    column: Column, table: Mapping[str, Any], otherwise: Any, field: str, why: str = "is not one of the map's texts"
) -> Values | str:
    """Values of the tick field of that name for the texts in a table; whole numbers are the text of their digits, and
    true and false those words. ``otherwise``: the value of all other texts; None: they are bad."""
    if column.words is not None:
        places, texts = column.words()
    elif column.kind in ("integer", "bool"):
        distinct, places = np.unique(column.values, return_inverse=True)
        texts = [str(bool(value)).lower() if column.kind == "bool" else str(value) for value in distinct.tolist()]
    else:
        return "is neither text nor a whole number, which a map needs"
    return _by_text(column, places, _mapped_of(texts, table, otherwise), FIELDS[field], why)


def _mapped_of(texts: Sequence[Any], table: Mapping[str, Any], otherwise: Any) -> list[Any]:
    known = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in texts]
    return [otherwise if text is None else table.get(text, otherwise) for text in known]


def _by_text(column: Column, places: Array, found: Sequence[Any], dtype: Any, why: str) -> Values:
    """Values by the places of their texts; None: a text without one."""
    none: Any = b"" if np.dtype(dtype).kind == "S" else 0
    made = np.array([none if value is None else value for value in found] or [none], dtype)[places]
    unknown = np.array([value is None for value in found] or [False], np.bool_)[places]
    if column.nulls is not None:
        unknown &= ~column.nulls
    return Values(made, column.nulls, _some(unknown), column.says(why))


def ids(column: Column, field: str, text: str | None, *, empty: bool) -> Values:
    """Ids of a column of text, as those of CSV: whole numbers; ``text``: hexadecimal ones, or hashes of all others.
    ``empty``: an empty text is none."""
    assert column.words is not None
    places, entries = column.words()
    numbers = Numbers(HEX if text == "hex" else ID, empty=0 if empty else None, hash=text == "hash")

    def one(entry: bytes | str | None) -> int | None:
        try:
            # The bits of a u64, which come as a signed number.
            return None if entry is None else numbers.one(entry.encode() if isinstance(entry, str) else entry) % 2**64
        except ValueError:
            return None

    cure = f"give 'text': 'hash' beside its column, or None as the column of {field}"
    why = f"is no {'hexadecimal' if text == 'hex' else 'whole'} number: {cure}"
    return _by_text(column, places, [one(entry) for entry in entries], FIELDS[field], why)


def letters(column: Column, words: Mapping[str, bytes] | None) -> Values | str:
    """Letters: texts that ``words`` knows in any case, or integers that are ASCII codes; single characters as they are
    where ``words`` is None."""
    if column.kind == "integer":
        codes = integers(column, Target("flags", 0, 0, 0, 255))
        assert not isinstance(codes, str)
        if words is None:
            return Values(codes.values.view("S1"), codes.nulls, codes.bad, codes.explain)
        known = np.frombuffer(bytes(words.get(chr(i).lower(), b"\0")[0] for i in range(256)), np.uint8)
        found = known[codes.values]
        return Values(found.view("S1"), codes.nulls, either(codes.bad, _some(found == 0)), column.says(_unknown(words)))
    if column.words is None:
        return "is neither text nor a letter's code"
    indices, texts = column.words()
    found_by = _letters_of(texts, words)
    if found_by is None:
        return "is neither text nor a letter's code"
    return _by_text(column, indices, found_by, "S1", _unknown(words))


def _letters_of(texts: Sequence[Any], words: Mapping[str, bytes] | None) -> list[bytes | None] | None:
    """The letters of texts, None for those that have none; None where they are no texts."""
    table = [value.decode("latin-1") if isinstance(value, bytes) else value for value in texts]
    if not all(value is None or isinstance(value, str) for value in table):
        return None
    if words is not None:
        return [None if value is None else words.get(value.strip().lower()) for value in table]
    return [value.encode() if value is not None and len(value) < 2 and value.isascii() else None for value in table]


def _unknown(words: Mapping[str, bytes] | None) -> str:
    field = next((field for field, known in WORDS.items() if known is words), None)
    if words is None or field is None:
        return "is unknown"
    listed = ", ".join(filter(None, words))
    return (
        f"is none of {listed}: give its values by columns={{'{field}': {{'column': NAME, 'map': {{VALUE: LETTER}}}}}}"
    )
