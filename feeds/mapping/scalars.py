"""Conversion of single values to fields of a tick, exactly or rounded on request: JSON's values, and those that
profiles name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np

from strand.binding.columns import HEX, ID, Numbers
from strand.feeds.mapping.clocks import TextTimes
from strand.feeds.mapping.values import IDS, Target, nearest
from strand.ticks import (
    FIELDS,
    KIND_NONE,
    KIND_ORDER,
    KIND_QUOTE,
    KIND_STATUS,
    KIND_TRADE,
    UNDEF_PRICE,
    Ticks,
    zeros,
)
from strand.validate import is_whole

__all__ = [
    "KINDS", "LETTERS", "PLACES", "PRICES", "SIZES", "SMALL", "TIMES", "UNDEFINED", "BadRecord", "Rounding",
    "action_of", "blank_tick", "converter", "id_of", "kind_of", "put", "shown",
]  # fmt: skip

#: Names of the kinds of ticks in a profile, and the letters that it may name.
KINDS: Final = {
    "none": KIND_NONE, "order": KIND_ORDER, "trade": KIND_TRADE, "quote": KIND_QUOTE, "status": KIND_STATUS,
}  # fmt: skip
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
    place = ticks[PLACES.get(field, field)]
    (place.view(np.int64) if field == "ask_price" else place)[:] = values


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


def _number_of(target: Target, rounding: Rounding) -> Callable[[Any], int]:
    power, lowest, highest = target.power, target.lowest, target.most(target.power)

    def number_of(value: Any) -> int:
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


def converter(target: Target, rounding: Rounding, *, texts: TextTimes | None = None) -> Callable[[Any], Any]:
    """A function that turns a value into a field of a tick (bytes for letters, else int). It raises BadRecord for a
    value that the field cannot hold.

    ``texts``: for times that are texts.
    """
    field = target.field
    if texts is not None:
        return lambda value: _text_time(value, texts)
    if field in TIMES or field in PRICES or field in SIZES:
        return _number_of(target, rounding)
    if field in LETTERS:
        return lambda value: _letter(value, LETTERS[field])
    if field == "kind":
        return _kind
    return lambda value: _whole(value, target)


_HEX: Final = Numbers(HEX)
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
        why = "not a hexadecimal number of 64 bits" if text == "hex" else error
        raise BadRecord(f"{shown(value)} is {why}") from None
    return number & 0xFFFF_FFFF_FFFF_FFFF


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


def _whole(value: Any, target: Target) -> int:
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


def _letter(value: Any, letters: str) -> bytes:
    if not isinstance(value, str) or len(value) != 1 or value not in letters:
        raise BadRecord(f"{shown(value)} is not one of {', '.join(letters)}")
    return value.encode("ascii")


def _kind(value: Any) -> int:
    """A word, or the number that it stands for."""
    if is_whole(value) and value in KINDS.values():
        return int(value)
    if not isinstance(value, str) or value not in KINDS:
        raise BadRecord(f"{shown(value)} is not one of {', '.join(KINDS)}")
    return KINDS[value]
