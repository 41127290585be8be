"""Conversion of single values to fields of a tick, exactly or rounded on request: JSON's values, and those that
profiles name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from strand.feeds.mapping.clocks import TextTimes
from strand.feeds.mapping.values import PRICE_POWER, coarser_price, nearest
from strand.ticks import KIND_NONE, KIND_ORDER, KIND_QUOTE, KIND_STATUS, KIND_TRADE, UNDEF_PRICE, limits

__all__ = [
    "IDS", "KINDS", "LETTERS", "PLACES", "PRICES", "SIZES", "SMALL", "TIMES", "BadRecord", "Rounding", "action_of",
    "converter", "id_of", "kind_of", "shown",
]  # fmt: skip

#: Names of the kinds of ticks in a profile, and the letters that it may name.
KINDS: Final = {
    "none": KIND_NONE, "order": KIND_ORDER, "trade": KIND_TRADE, "quote": KIND_QUOTE, "status": KIND_STATUS,
}  # fmt: skip
LETTERS: Final = {"side": "ABN", "action": "ACMRTFN"}
TIMES: Final = ("ts_event", "ts_recv")
IDS: Final = ("order_id", "ref_id", "sequence")
PRICES: Final = ("price", "bid_price", "ask_price")
SIZES: Final = ("size", "bid_size", "ask_size")
SMALL: Final = ("publisher_id", "flags", "depth")
#: Fields for both sides of a quote.
PLACES: Final = {"bid_price": "price", "bid_size": "size", "ask_price": "order_id", "ask_size": "ref_id"}
_POWERS: Final = {"s": 9, "ms": 6, "us": 3, "ns": 0}
#: Letters of a value in an error.
_SHOWN: Final = 80


class BadRecord(Exception):  # noqa: N818 - raised and caught inside strand.feeds
    """Reason for which a value can be no field of a tick, or a record no tick."""


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


def _unit(power: int) -> str:
    """The unit of which ten to the ``power`` make 1."""
    return f"1e{-power}" if power else "1"


@dataclass(slots=True)
class Rounding:
    """``rounds``: whether numbers that are no whole units are rounded. ``rounded``: whether one was; the user sets it
    back."""

    rounds: bool = False
    rounded: bool = False

    def units(self, value: Any, power: int) -> int:
        """A number times ten to the ``power``, as a whole one. Raises BadRecord."""
        units, inexact = nearest(_decimal(value), power)
        if inexact and not self.rounds:
            raise BadRecord(
                f"{shown(value)} is not a whole number of units of {_unit(power)}: inexact='round' rounds it"
            )
        self.rounded |= inexact
        return units


def converter(
    field: str,
    rounding: Rounding,
    *,
    power: int = 0,
    unit: str = "ns",
    texts: TextTimes | None = None,
    signed: bool = False,
) -> Callable[[Any], Any]:
    """A function that turns a value into the field of a tick (bytes for letters, else int). It raises BadRecord for a
    value that the field cannot hold.

    ``power``: 1 in a price is worth ten to that power of currency, 1 in a size that many units of a tick's size.
    ``unit``: of a time: s, ms, us, ns, or stamp (ISO 8601 with a zone); ``texts`` read times of other
    forms. ``signed``: a size may be below 0.
    """
    if unit == "stamp" and texts is None:
        texts = TextTimes("stamp", None, None)
    if field in TIMES and texts is not None:
        return lambda value: _text_time(value, texts)
    if field in TIMES:
        return lambda value: _time(value, _POWERS[unit], rounding)
    if field in PRICES:
        return lambda value: _price(value, PRICE_POWER + power, rounding)
    if field in SIZES:
        return lambda value: _size(value, power, rounding, signed)
    if field in LETTERS:
        return lambda value: _letter(value, LETTERS[field])
    if field == "kind":
        return _kind
    return lambda value: _whole(value, *limits(field))


def id_of(text: str, value: Any) -> int:
    """An id of 64 bits. Raises BadRecord.

    ``text``: ``"hex"`` of hexadecimal ids; ``"hash"``: an id that is no whole number is hashed as in CSV (FNV-1a, with
    the top bit set).
    """
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise BadRecord(f"{shown(value)} is no id")
    said = str(value).strip()
    if text == "hex":
        try:
            number = int(said, 16)
        except ValueError:
            number = -1
        if not 0 <= number < 1 << 64:
            raise BadRecord(f"{shown(value)} is not a hexadecimal number of 64 bits")
        return number
    if said.isascii() and said.isdecimal() and int(said) < 1 << 64:
        return int(said)
    number = 0xCBF29CE484222325
    for byte in said.encode():
        number = ((number ^ byte) * 0x100000001B3) & 0xFFFF_FFFF_FFFF_FFFF
    return number | 1 << 63


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise BadRecord(f"{shown(value)} is not a number")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise BadRecord(f"{shown(value)} is not a number") from None
    if not number.is_finite() or (number and abs(number.adjusted()) > 30):
        raise BadRecord(f"{shown(value)} is not a number that a tick can hold")
    return number


def _whole(value: Any, minimum: int, maximum: int) -> int:
    number = _decimal(value)
    if number != number.to_integral_value() or not minimum <= number <= maximum:
        raise BadRecord(f"{shown(value)} is not a whole number from {minimum} to {maximum}")
    return int(number)


def _price(value: Any, power: int, rounding: Rounding) -> int:
    units = rounding.units(value, power)
    if not -UNDEF_PRICE <= units < UNDEF_PRICE:
        cure = coarser_price(_decimal(value), power - PRICE_POWER, 'unit = "{}" of the field')
        raise BadRecord(f"{shown(value)} is out of range: {cure}")
    if units == 0 and _decimal(value):
        raise BadRecord(f"{shown(value)} rounds to 0: no price of 9 decimals holds it")
    return units


def _size(value: Any, power: int, rounding: Rounding, signed: bool) -> int:
    number = _decimal(value)
    if number < 0 and not signed:
        raise BadRecord(f"{shown(value)} is below 0: give signed = true if such a size is a sell")
    try:
        units = rounding.units(value, power)
    except BadRecord as error:
        exponent = number.normalize().as_tuple().exponent
        if not isinstance(exponent, int) or not -18 <= exponent < 0:
            raise
        raise BadRecord(f"give size_unit='{Decimal(1).scaleb(exponent):f}': {error}") from None
    if abs(units) > limits("size")[1]:
        raise BadRecord(f"give a larger size_unit: {shown(value)} is more than 2^63 - 1 units of {_unit(power)}")
    if units == 0 and _decimal(value):
        raise BadRecord(f"{shown(value)} rounds to 0: give a finer size_unit")
    return units


def _time(value: Any, power: int, rounding: Rounding) -> int:
    ns = rounding.units(value, power)
    if not 0 <= ns < 1 << 63:
        raise BadRecord(f"{shown(value)} is not a time")
    return ns


def _text_time(value: Any, texts: TextTimes) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise BadRecord(f"{shown(value)} is not a time")
    try:
        return texts.ns(str(value))
    except ValueError as error:
        raise BadRecord(f"{shown(value)} {error}") from None


def _letter(value: Any, letters: str) -> bytes:
    if not isinstance(value, str) or len(value) != 1 or value not in letters:
        raise BadRecord(f"{shown(value)} is not one of {', '.join(letters)}")
    return value.encode("ascii")


def _kind(value: Any) -> int:
    """A word, or the number that it stands for."""
    if isinstance(value, int) and value in KINDS.values():
        return value
    if not isinstance(value, str) or value not in KINDS:
        raise BadRecord(f"{shown(value)} is not one of {', '.join(KINDS)}")
    return KINDS[value]
