"""What a CSV profile says, read from TOML and checked key by key: docs/feeds/csv.md describes the keys."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from strand._bindings.text import LETTER_BYTES
from strand.errors import ConfigurationError
from strand.feeds._csv_rules import FieldRule, Layout, Profile, SymbolRule
from strand.feeds._files import small_text
from strand.feeds.mapping.renamed import RENAMED
from strand.feeds.mapping.units import unit_power
from strand.ticks import KIND_NONE, KIND_ORDER, KIND_QUOTE, KIND_STATUS, KIND_TRADE

__all__ = ["built_in", "named_profile", "read_profile"]

_KINDS: Final = {
    "none": KIND_NONE,
    "order": KIND_ORDER,
    "trade": KIND_TRADE,
    "quote": KIND_QUOTE,
    "status": KIND_STATUS,
}
_TIMES: Final = ("ts_event", "ts_recv")
_IDS: Final = ("order_id", "ref_id", "sequence")
_PRICES: Final = ("price", "bid_price", "ask_price")
_SIZES: Final = ("size", "bid_size", "ask_size")
_SMALL: Final = {"publisher_id": 0xFFFF, "flags": 0xFF, "depth": 0xFF}
_LETTERS: Final = ("action", "side")
_FIELDS: Final = (*_TIMES, *_IDS, *_PRICES, *_SIZES, *_SMALL, *_LETTERS, "kind")
_ACTIONS: Final = "ACMRTFN"
_SIDES: Final = "ABN"
_UNITS: Final = ("s", "ms", "us", "ns", "auto", "clock", "stamp")

# By the fields they may stand in, beside `column`, `constant`, `optional` and `empty`.
_KEYS: Final = {
    **{name: {"unit", "since", "digits"} for name in _TIMES},
    **{name: {"text", "later_of", "earlier_of"} for name in _IDS},
    **{name: {"unit", "zero"} for name in _PRICES},
    **{name: {"unit"} for name in _SIZES},
    **{name: {"map", "otherwise"} for name in (*_SMALL, *_LETTERS, "kind")},
    "side": {"map", "otherwise", "later_of"},
}


class _Table:
    """A TOML table whose keys are taken one by one; what is left over has no meaning."""

    def __init__(self, values: Any, source: str, at: str = "") -> None:
        self._source, self._at = source, at
        if not isinstance(values, Mapping):
            raise self.error("", f"is {values!r}, not a table")
        self._values = dict(values)

    def error(self, key: str, problem: str) -> ConfigurationError:
        name = ".".join(part for part in (self._at, key) if part)
        return ConfigurationError(f"profile {self._source}: {name or 'the file'}: {problem}")

    def take(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        value = self._values.pop(key, default)
        if value is not default and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            words = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}
            raise self.error(key, f"{value!r} is not {' or '.join(words[each] for each in kinds)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """One text or a list of them."""
        value = self.take(key, (str, list), ())
        found = (value,) if isinstance(value, str) else tuple(value)
        if not all(isinstance(text, str) for text in found):
            raise self.error(key, f"{value!r} holds something other than text")
        return found

    def table(self, key: str) -> _Table:
        return _Table(self._values.pop(key, {}), self._source, f"{self._at}.{key}".strip("."))

    def keys(self) -> list[str]:
        return list(self._values)

    def power(self, key: str) -> int:
        """The power of ten that a unit is: -4 for ``"0.0001"``."""
        return unit_power(str(self.error(key, "unit")).removesuffix(": unit"), self.take(key, (str, int), "1"))

    def pattern(self, key: str, text: str) -> re.Pattern[str]:
        try:
            return re.compile(text)
        except re.error as error:
            raise self.error(key, f"{text!r} is no pattern: {error}") from None

    def done(self, known: str) -> None:
        if self._values:
            raise self.error(next(iter(self._values)), f"is no key here; there are {known}")


def read_profile(text: str, source: str) -> Profile:
    """A profile from TOML. Raises ConfigurationError naming the key that is wrong."""
    try:
        table = _Table(tomllib.loads(text), source)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"profile {source}: is not TOML: {error}") from None
    symbol, time, given = table.table("symbol"), table.table("time"), table.table("fields")
    fields = tuple(_field(name, given.table(name), given) for name in given.keys())  # noqa: SIM118 - not a mapping
    zone = time.take("zone", str, "UTC")
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise time.error("zone", f"{zone!r} is no time zone this system knows, like America/New_York") from None
    profile = Profile(
        name=table.take("name", str, Path(source).stem),
        about=table.take("about", str, ""),
        source=source,
        symbol=_symbol(symbol),
        fields=fields,
        delimiters=table.texts("delimiter") or (",",),
        encodings=table.texts("encoding") or ("utf-8",),
        header=table.take("header", bool, True),
        layouts=_layouts(table),
        requires=table.texts("requires"),
        without=table.texts("without"),
        like=_like(table),
        end=table.take("end", str),
        venue=table.take("venue", str),
        one_sided=table.take("one_sided", bool, False),
        zone=zone,
        date_columns=time.texts("date_column"),
        size_power=table.power("size_unit"),
    )
    time.done("zone and date_column")
    table.done(
        "name, about, delimiter, encoding, header, layouts, requires, without, end, venue, one_sided, size_unit, "
        "[like], [symbol], [time] and [fields]"
    )
    _check(profile, table)
    return profile


def _check(profile: Profile, table: _Table) -> None:
    fields = {rule.field for rule in profile.fields}
    if not fields & set(_TIMES):
        raise table.error("fields", "has neither ts_event nor ts_recv: a tick needs a time")
    for delimiter in profile.delimiters:
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter.isalnum() or delimiter in '"\r\n.+- ':
            raise table.error("delimiter", f"{delimiter!r} is not one character like , or |")
        if "gb18030" in profile.encodings and delimiter >= "@":
            raise table.error("delimiter", f"{delimiter!r} may be part of a character in gb18030: use utf-8")
    for encoding in profile.encodings:
        if encoding not in ("utf-8", "gb18030", "latin-1"):
            raise table.error("encoding", f"{encoding!r} is none of utf-8, gb18030, latin-1")
    if not profile.header and not profile.layouts:
        raise table.error("layouts", "is needed where header is false: what the columns are called")
    quote = {"bid_price", "bid_size", "ask_price", "ask_size"} & fields
    whole = quote in ({"bid_price", "ask_price"}, {"bid_price", "bid_size", "ask_price", "ask_size"})
    if quote and (not whole or fields & {"price", "size", "side", "order_id", "ref_id"}):
        raise table.error(
            "fields",
            "a quote has bid_price and ask_price, both sizes or neither, and no price, size, side or ids",
        )
    if profile.one_sided and not quote:
        raise table.error("one_sided", "is for quotes, which have bid_price and ask_price")


def _layouts(table: _Table) -> tuple[Layout, ...]:
    found = []
    for number, values in enumerate(table.take("layouts", list, []), 1):
        layout = _Table(values, table._source, f"layouts[{number}]")
        columns, shapes = layout.texts("columns"), layout.texts("shape")
        if not columns or (shapes and len(shapes) != len(columns)):
            raise layout.error("shape", f"has {len(shapes)} patterns for {len(columns)} columns")
        found.append(Layout(columns, tuple(layout.pattern("shape", text) for text in shapes)))
        layout.done("columns and shape")
    return tuple(found)


def _like(table: _Table) -> tuple[tuple[str, re.Pattern[str]], ...]:
    shapes = table.table("like")
    return tuple((name, shapes.pattern(name, shapes.take(name, str))) for name in shapes.keys())  # noqa: SIM118


def _symbol(table: _Table) -> SymbolRule:
    columns, pattern, constant = table.texts("column"), table.take("file_name", str), table.take("constant", str)
    if (bool(columns), pattern is not None, constant is not None).count(True) != 1:
        raise table.error("", "takes one of column, file_name (a pattern with a group) and constant")
    compiled = None if pattern is None else table.pattern("file_name", pattern)
    if compiled is not None and compiled.groups < 1:
        raise table.error("file_name", f"{pattern!r} has no group (...) that is the symbol")
    table.done("column, file_name and constant")
    return SymbolRule(columns, compiled, constant)


def _field(name: str, table: _Table, given: _Table) -> FieldRule:
    if name not in _FIELDS:
        raise given.error(name, f"is no field of a tick; there are {', '.join(_FIELDS)}")
    keys = _KEYS[name]
    allowed = sorted(keys | {"column", "constant", "optional", "empty"})
    for key in table.keys():  # noqa: SIM118
        if key in RENAMED:
            raise table.error(key, f"is called {RENAMED[key]} now")
        if key not in allowed:
            raise table.error(key, f"is no key of this field; there are {', '.join(allowed)}")
    columns = table.texts("column")
    later, earlier = table.take("later_of", list), table.take("earlier_of", list)
    pair = later or earlier or []
    constant = table.take("constant", (str, int))
    if (bool(columns), bool(pair), constant is not None).count(True) != 1:
        raise table.error("", f"takes one of column, constant{' and later_of' if 'later_of' in keys else ''}")
    if pair and (len(pair) != 2 or not all(isinstance(each, str | list) and each for each in pair)):
        raise table.error("later_of", f"{pair!r} is not two columns")
    zero, empty = table.take("zero", str), table.take("empty", str)
    for key, value in (("zero", zero), ("empty", empty)):
        if value not in (None, "none"):
            raise table.error(key, f'{value!r}: can only be "none"')
    power = table.power("unit") if name in (*_PRICES, *_SIZES) else 0
    units = table.texts("unit")
    if bad := [unit for unit in units if unit not in _UNITS]:
        raise table.error("unit", f"{bad[0]!r} is none of {', '.join(_UNITS)}")
    if name in _TIMES and columns and not units:
        raise table.error("unit", f"is needed: one of {', '.join(_UNITS)}")
    since, digits = table.take("since", str, "epoch"), table.take("digits", int, 0)
    if since not in ("epoch", "midnight"):
        raise table.error("since", f"{since!r} is neither epoch nor midnight")
    if not 0 <= digits <= 9:
        raise table.error("digits", f"{digits} is not 0 to 9")
    mapped = table.table("map")
    map_ = tuple((text, _small(name, mapped.take(text, (str, int)), mapped, text)) for text in mapped.keys())  # noqa: SIM118
    for text, _ in map_:
        if len(text.encode("utf-8")) > LETTER_BYTES:
            raise mapped.error(text, f"is longer than {LETTER_BYTES} bytes")
    otherwise = table.take("otherwise", (str, int))
    if name in (*_LETTERS, "kind") and columns and not map_:
        raise table.error("map", "is needed: what the texts of the column stand for")
    return FieldRule(
        name,
        columns,
        None if constant is None else _small(name, constant, table, "constant"),
        table.take("optional", bool, False),
        empty == "none",
        zero == "none",
        power,
        units,
        since,
        digits,
        table.take("text", str) == "hash",
        map_,
        None if otherwise is None else _small(name, otherwise, table, "otherwise"),
        tuple((each,) if isinstance(each, str) else tuple(each) for each in pair),
        earlier is not None,
    )


def _small(name: str, value: Any, table: _Table, key: str) -> int:
    """A letter's code, a kind's number, or a whole number the field can hold."""
    letters = {"action": _ACTIONS, "side": _SIDES}.get(name)
    if letters is not None:
        if not isinstance(value, str) or len(value) != 1 or value not in letters:
            raise table.error(key, f"{value!r} is none of {', '.join(letters)}")
        return ord(value)
    if name == "kind":
        if value not in _KINDS:
            raise table.error(key, f"{value!r} is none of {', '.join(_KINDS)}")
        return _KINDS[value]
    highest = _SMALL.get(name, (1 << 32) - 1)
    if not isinstance(value, int) or not 0 <= value <= highest:
        raise table.error(key, f"{value!r} is not a whole number from 0 to {highest}")
    return value


@functools.cache
def built_in() -> tuple[Profile, ...]:
    """The profiles that come with strand, by name."""
    folder = resources.files("strand.feeds").joinpath("csv_profiles")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return tuple(read_profile(file.read_text("utf-8"), file.name) for file in files)


def named_profile(name: str | Path) -> Profile:
    """A built-in profile by its name, or one of the user's by its path. Raises ConfigurationError."""
    for profile in built_in():
        if profile.name == str(name):
            return profile
    path = Path(name)
    if path.suffix != ".toml":
        known = ", ".join(profile.name for profile in built_in())
        raise ConfigurationError(f"profile: {str(name)!r} is neither a .toml file nor one of {known}")
    return read_profile(small_text(path, "profile"), str(name))
