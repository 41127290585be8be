"""How the JSON messages of a live feed become ticks: a small table, given as a dict or a TOML file.

    name = "example"
    size_unit = "0.001"             # what one of a tick's `size` is worth, a power of ten; by default 1
    inexact = "round"               # numbers that are no whole units: "raise" (by default), or to the nearest

    [[message]]                     # one for each kind of message that makes ticks
    where = { type = "trade" }      # fields that have to be these; others of a name are passed over
    each = "data"                   # where a message holds a list of records; left out: it is one itself
    kind = "trade"                  # none, order, trade, quote, status
    symbol = "s"
    gapless = true                  # each symbol's sequence rises by one: what is missing is noted
    more = true                     # the rules behind this one are tried on the message too

    [message.fields]
    ts_event = { path = "T", unit = "ms" }      # s, ms, us, ns, iso
    price = "p"                                 # or { path = "p", unit = "0.01" }: what 1 of it is worth
    size = "q"
    sequence = "t"
    side = { path = "m", map = { true = "A", false = "B" } }

A path names a field, or one in another by a dot (``"order.price"``, ``"0.price"`` in a list); paths in ``where`` begin
at the message, the others at the record, and what is not there is looked for in the message. ``constant`` stands in
place of ``path`` where a field is always the same. Fields: ``ts_event``, ``price`` and ``size``, or ``bid_price``,
``bid_size``, ``ask_price`` and ``ask_size``; ``order_id``, ``ref_id``, ``sequence``, ``side``, ``action``, ``flags``,
``depth``, ``publisher_id``.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import chain
from pathlib import Path
from typing import Any, Final

from strand.errors import ConfigurationError
from strand.feeds._files import small_text
from strand.feeds.mapping.options import check_options
from strand.feeds.mapping.units import PRICE_POWER, nearest, unit_power
from strand.symbols import name_problem
from strand.ticks import KIND_NONE, KIND_ORDER, KIND_QUOTE, KIND_STATUS, KIND_TRADE, UNDEF_PRICE, limits

__all__ = ["BadRecord", "JsonProfile", "MessageRule", "Record", "is_message_profile", "read_profile"]

_KINDS: Final = {
    "none": KIND_NONE, "order": KIND_ORDER, "trade": KIND_TRADE, "quote": KIND_QUOTE, "status": KIND_STATUS,
}  # fmt: skip
_UNITS: Final = {"s": 9, "ms": 6, "us": 3, "ns": 0, "iso": 0}
_PRICES: Final = ("price", "bid_price", "ask_price")
_SIZES: Final = ("size", "bid_size", "ask_size")
#: Where both sides of a quote are kept.
_PLACES: Final = {"bid_price": "price", "bid_size": "size", "ask_price": "order_id", "ask_size": "ref_id"}
_UNSIGNED: Final = {"order_id": 64, "ref_id": 64, "sequence": 40, "flags": 8, "depth": 8, "publisher_id": 16}
_LETTERS: Final = {"side": "ABN", "action": "ACMRTFN"}
_FIELDS: Final = ("ts_event", *_PRICES, *_SIZES, *_UNSIGNED, *_LETTERS)
_ACTION: Final = {KIND_TRADE: b"T", KIND_ORDER: b"A"}
_ISO: Final = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class BadRecord(Exception):  # noqa: N818 - raised and caught inside strand.feeds
    """Why a record is none that the profile can make a tick of."""


Path_ = tuple[str, ...]


def _at(value: Any, path: Path_) -> Any:
    """What is at a path; None where there is nothing."""
    for name in path:
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise BadRecord(f"{value!r} is not a number")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise BadRecord(f"{value!r} is not a number") from None
    if not number.is_finite() or (number and abs(number.adjusted()) > 30):
        raise BadRecord(f"{value!r} is not a number that a tick can hold")
    return number


@dataclass(slots=True)
class Rounding:
    """Whether numbers that are no whole units are rounded, and whether one of the record at hand was."""

    rounds: bool = False
    rounded: bool = False

    def units(self, value: Any, power: int) -> int:
        """A number times ten to the ``power``, as a whole one. Raises BadRecord."""
        units, inexact = nearest(_decimal(value), power)
        if inexact and not self.rounds:
            raise BadRecord(f"{value!r} is no whole number of units of 1e{-power}: inexact='round' rounds it")
        self.rounded |= inexact
        return units


def _whole(value: Any, least: int, most: int) -> int:
    number = _decimal(value)
    if number != number.to_integral_value() or not least <= number <= most:
        raise BadRecord(f"{value!r} is not a whole number from {least} to {most}")
    return int(number)


def _price(power: int, rounding: Rounding) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        units = rounding.units(value, PRICE_POWER + power)
        if not -UNDEF_PRICE <= units < UNDEF_PRICE:
            raise BadRecord(f"{value!r} is not a price that a tick can hold")
        return units

    return convert


def _time(unit: str, rounding: Rounding) -> Callable[[Any], int]:
    def of_number(value: Any) -> int:
        ns = rounding.units(value, _UNITS[unit])
        return ns if 0 <= ns < 1 << 63 else _no_time(value)

    def of_text(value: Any) -> int:
        found = _ISO.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return _no_time(value)
        try:
            moment = dt.datetime.fromisoformat(found[1] + found[3])
        except ValueError:
            return _no_time(value)
        seconds = (moment - _EPOCH) // dt.timedelta(seconds=1)
        return seconds * 10**9 + int((found[2] or "").ljust(9, "0")) if seconds >= 0 else _no_time(value)

    return of_text if unit == "iso" else of_number


def _no_time(value: Any) -> int:
    raise BadRecord(f"{value!r} is not a time")


def _size(power: int, rounding: Rounding) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        units = rounding.units(value, power)
        if not 0 <= units <= limits("size")[1]:
            raise BadRecord(f"{value!r} is not 0 to 2^63 units of 1e{-power}; give another size_unit")
        if units == 0 and _decimal(value):
            raise BadRecord(f"{value!r} rounds to 0: give a finer size_unit")
        return units

    return convert


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    path: Path_
    constant: Any
    map: dict[str, Any] | None
    convert: Callable[[Any], Any]

    def of(self, record: Any, message: Any) -> Any:
        value = self.constant if not self.path else _at(record, self.path)
        if value is None and self.path:
            value = _at(message, self.path)
        if value is None:
            raise BadRecord(f"{self.name}: there is no field {'.'.join(self.path)}")
        if self.map is not None:
            if _text(value) not in self.map:
                raise BadRecord(f"{self.name}: {value!r} is none of {', '.join(self.map)}")
            value = self.map[_text(value)]
        try:
            return self.convert(value)
        except BadRecord as error:
            raise BadRecord(f"{self.name}: {error}") from None


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one tick that the profile speaks of, by name, and whose it is."""

    symbol: str
    values: dict[str, Any]
    gapless: bool


@dataclass(frozen=True, slots=True)
class MessageRule:
    """Which messages are meant, and how their records become ticks."""

    where: tuple[tuple[Path_, str], ...]
    each: Path_ | None
    symbol: Path_ | str
    kind: int
    gapless: bool
    more: bool
    fields: tuple[_Field, ...]

    def matches(self, message: Any) -> bool:
        return all(_text(_at(message, path)) == wanted for path, wanted in self.where)

    def records(self, message: Any) -> Iterator[Record | BadRecord]:
        """What each record is, or why it is none."""
        items = [message] if self.each is None else _at(message, self.each)
        if not isinstance(items, list):
            yield BadRecord(f"there is no list at {'.'.join(self.each or ())}")
            return
        for item in items:
            try:
                yield self._record(item, message)
            except BadRecord as error:
                yield error

    def _record(self, item: Any, message: Any) -> Record:
        symbol: Any = self.symbol
        if not isinstance(symbol, str):
            # In a list of records the name is often said once, beside the list.
            found = _at(item, symbol)
            symbol = found if found is not None else _at(message, symbol)
        if not isinstance(symbol, str) or not symbol:
            raise BadRecord(f"symbol: {symbol!r} is not a name")
        if problem := name_problem(symbol):
            raise BadRecord(f"symbol: {symbol[:80]!r} {problem}")
        values = {"kind": self.kind, "action": _ACTION.get(self.kind, b"N")}
        values.update((_PLACES.get(field.name, field.name), field.of(item, message)) for field in self.fields)
        return Record(symbol, values, self.gapless)


@dataclass(frozen=True, slots=True)
class JsonProfile:
    """A profile that has been checked: ``read_profile`` makes one.

    ``size_unit``: what 1 in a tick's ``size`` is worth. ``rounding``: told of each record's rounded numbers.
    ``source``: what it was made of, as plain values that JSON has: ``read_profile`` makes the same of it again.
    """

    name: str
    rules: tuple[MessageRule, ...]
    size_unit: Decimal
    source: dict[str, Any]
    rounding: Rounding

    def records(self, message: Any) -> Iterator[Record | BadRecord] | None:
        """The records of a message, or why they are none; None where no rule is for it."""
        found: list[Iterator[Record | BadRecord]] = []
        for rule in self.rules:
            if rule.matches(message):
                found.append(rule.records(message))
                if not rule.more:
                    break
        return chain.from_iterable(found) if found else None


def is_message_profile(source: Any) -> bool:
    """Whether a profile, a dict or the path of a TOML file, is one of messages and not one of CSV files."""
    if not isinstance(source, Mapping):
        try:
            source = tomllib.loads(Path(source).read_text("utf-8"))
        except (OSError, ValueError, RecursionError, TypeError):
            return False
    return "message" in source


def read_profile(
    source: str | Path | Mapping[str, Any], *, size_unit: object = None, inexact: str | None = None
) -> JsonProfile:
    """A profile from a dict, or from a TOML file; ``size_unit`` and ``inexact`` stand in place of its own.

    Raises ConfigurationError naming the key that cannot work.
    """
    where = "profile"
    if not isinstance(source, Mapping):
        where = str(source)
        try:
            source = tomllib.loads(small_text(source, "profile"))
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"{where}: cannot be read as a profile: {error}") from error
    _only(source, ("name", "size_unit", "inexact", "message"), where)
    messages = source.get("message")
    if not isinstance(messages, list) or not messages:
        raise ConfigurationError(f"{where}: message: at least one [[message]] is needed")
    if size_unit is not None:
        source = {**source, "size_unit": str(size_unit)}
    power = unit_power(f"{where}: size_unit", source.get("size_unit", 1))
    rounding = Rounding(check_options(inexact=source.get("inexact") if inexact is None else inexact).rounds)
    rules = tuple(_rule(message, power, rounding, f"{where}: message {at}") for at, message in enumerate(messages, 1))
    plain = {**source, "message": [_as_understood(message) for message in messages]}
    unit = Decimal(1).scaleb(power)
    return JsonProfile(str(source.get("name", "json")), rules, unit, _plain(plain), rounding)


def _as_understood(message: Mapping[str, Any]) -> dict[str, Any]:
    """A checked rule, with what is taken for its text, or for true or false, as that."""
    made: dict[str, Callable[[Any], Any]] = {
        "where": lambda conditions: {name: _text(value) for name, value in conditions.items()},
        "symbol_constant": str, "gapless": bool, "more": bool,
    }  # fmt: skip
    return {key: made[key](value) if key in made else value for key, value in message.items()}


def _plain(value: Any) -> Any:
    """What JSON has for it; a number that is not whole counts by its text."""
    if isinstance(value, Mapping):
        return {_text(name): _plain(inside) for name, inside in value.items()}
    if isinstance(value, list):
        return [_plain(inside) for inside in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _rule(table: Any, size_power: int, rounding: Rounding, where: str) -> MessageRule:
    _only(table, ("where", "each", "symbol", "symbol_constant", "kind", "gapless", "more", "fields"), where)
    kind = table.get("kind", "none")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigurationError(f"{where}: kind: {kind!r} is none of {', '.join(_KINDS)}")
    if ("symbol" in table) == ("symbol_constant" in table):
        raise ConfigurationError(f"{where}: symbol: give the path of the name, or symbol_constant")
    fields = table.get("fields", {})
    _only(fields, _FIELDS, f"{where}: fields")
    quote = [name for name in fields if name in _PLACES]
    if quote and (len(quote) < len(_PLACES) or fields.keys() & {"price", "size", "side", "order_id", "ref_id"}):
        raise ConfigurationError(
            f"{where}: fields: a quote has {', '.join(_PLACES)}, and no price, size, side, order_id or ref_id"
        )
    if table.get("gapless", False) and "sequence" not in fields:
        raise ConfigurationError(f"{where}: gapless: there is no sequence to tell by")
    conditions = table.get("where", {})
    if not isinstance(conditions, Mapping):
        raise ConfigurationError(f"{where}: where: {conditions!r} is not a table")
    return MessageRule(
        where=tuple((_path(name, where), _text(value)) for name, value in conditions.items()),
        each=_path(table["each"], f"{where}: each") if "each" in table else None,
        symbol=_path(table["symbol"], f"{where}: symbol") if "symbol" in table else str(table["symbol_constant"]),
        kind=_KINDS[kind],
        gapless=bool(table.get("gapless", False)),
        more=bool(table.get("more", False)),
        fields=tuple(_field(name, given, size_power, rounding, f"{where}: {name}") for name, given in fields.items()),
    )


def _field(name: str, given: Any, size_power: int, rounding: Rounding, where: str) -> _Field:
    if isinstance(given, str):
        given = {"path": given}
    own = ("unit",) if name in ("ts_event", *_PRICES, *_SIZES) else ()
    _only(given, ("path", "constant", "map", *own), where)
    if ("path" in given) == ("constant" in given):
        raise ConfigurationError(f"{where}: give a path, or a constant")
    mapping = given.get("map")
    if mapping is not None and not isinstance(mapping, Mapping):
        raise ConfigurationError(f"{where}: map: {mapping!r} is not a table")
    unit_of_time = given.get("unit")
    if name == "ts_event" and (not isinstance(unit_of_time, str) or unit_of_time not in _UNITS):
        raise ConfigurationError(f"{where}: unit: {unit_of_time!r} is none of {', '.join(_UNITS)}")
    field = _Field(
        name=name,
        path=_path(given["path"], where) if "path" in given else (),
        constant=given.get("constant"),
        map=None if mapping is None else {_text(key): value for key, value in mapping.items()},
        convert=_converter(name, given, size_power, rounding, where),
    )
    for value in [field.constant] if "constant" in given else (mapping or {}).values():
        try:
            field.convert(value)
        except BadRecord as error:
            raise ConfigurationError(f"{where}: {error}") from None
    return field


def _converter(
    name: str, given: Mapping[str, Any], size_power: int, rounding: Rounding, where: str
) -> Callable[[Any], Any]:
    if name == "ts_event":
        return _time(given["unit"], rounding)
    if name in (*_PRICES, *_SIZES):
        power = unit_power(f"{where}: unit", given.get("unit", 1))
        return _price(power, rounding) if name in _PRICES else _size(power - size_power, rounding)
    if name in _UNSIGNED:
        most = (1 << _UNSIGNED[name]) - 1
        return lambda value: _whole(value, 0, most)
    letters = _LETTERS[name]

    def letter(value: Any) -> bytes:
        if not isinstance(value, str) or len(value) != 1 or value not in letters:
            raise BadRecord(f"{value!r} is none of {', '.join(letters)}")
        return value.encode("ascii")

    return letter


def _path(text: Any, where: str) -> Path_:
    if not isinstance(text, str) or not all(text.split(".")):
        raise ConfigurationError(f"{where}: {text!r} is not a path of names with dots between them")
    return tuple(text.split("."))


def _only(table: Any, known: tuple[str, ...], where: str) -> None:
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{where}: {table!r} is not a table")
    if unknown := [key for key in table if key not in known]:
        raise ConfigurationError(f"{where}: {', '.join(map(str, unknown))}: not a key; there are {', '.join(known)}")
