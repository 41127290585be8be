"""Profile that turns JSON messages into ticks, and the numbers by which a venue shows that some are missing.

name = "example"
    ticks = "plain"                 # what the ticks mean, as FeedInfo.ticks has it; of single orders "orders"
    size_unit = "0.001"             # what one of a tick's `size` is worth, a power of ten; by default 1
    received = "us"                 # unit of the time before each message: s, ms, us, ns, stamp
    document = true                 # the file is one JSON value, a list of messages or one; or the path of that list
    bars = "1m"                     # each message is a ready-made bar of this length; or the pattern of the file's path
    inexact = "round"               # numbers that are no whole units: "raise" (by default), or to the nearest

    [[message]]                     # one for each kind of message that makes ticks
    where = { type = "trade" }      # fields that have to be these; others of a name are passed over
    each = "data"                   # where a message holds a list of records; left out: it is one itself
    kind = "trade"                  # none, order, trade, quote, status
    symbol = "s"
    gapless = true                  # each symbol's sequence rises by one: what is missing is noted
    more = true                     # the rules behind this one are tried on the message too

    [message.fields]
    ts_event = { column = "T", unit = "ms" }    # s, ms, us, ns, auto, stamp, clock
    price = "p"                                 # or { column = "p", unit = "0.01" }: what 1 of it is worth
    size = "q"
    sequence = "t"
    side = { column = "m", map = { true = "A", false = "B" } }

The keys of a field are those of CSV profiles (docs/feeds/csv.md), and a text alone is its column. A column names a
field, or one in another by a dot (``"order.price"``, ``"0.price"`` in a list); those in ``where`` begin at the message,
the others at the record, and what is not there is looked for in the message. ``"^id"`` begins at the message.
"""

from __future__ import annotations

import functools
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from strand.errors import ConfigurationError
from strand.feeds.base import FeedInfo, Flags, TicksAre
from strand.feeds.formats.json.numbering import Numbering, SnapshotOf, whole_number
from strand.feeds.formats.json.rule import OUTER, Field, MessageRule, Path_, at_path, holds
from strand.feeds.io.files import small_text
from strand.feeds.mapping.clocks import TextTimes
from strand.feeds.mapping.events import free_bit, with_last
from strand.feeds.mapping.options import check_options
from strand.feeds.mapping.rules import (
    KINDS,
    PRICES,
    SIZES,
    BarsRule,
    FieldRule,
    Rounding,
    TimeKeys,
    bars_rule,
    checked,
    converter,
    field_rules,
    flags_of,
    id_of,
    names_of,
    symbol_in,
    symbol_rule,
    text_of,
)
from strand.feeds.mapping.values import TIME_POWERS
from strand.fixed import dataclass
from strand.symbols import check_name
from strand.ticks import KIND_NONE, KIND_QUOTE
from strand.validate import check_depth, unit_power, whole
from strand.zones import checked_zone

#: Keys of fields that only tables of text have, and units of times.
_NOT_HERE: Final = ("since", "digits", "plus", "later_of", "earlier_of", "running", "both_sides")
#: The bit of flags by which the reader marks a snapshot, where it is free.
_SNAPSHOT: Final = 32
_UNITS: Final = (*TIME_POWERS, "auto", "clock", "stamp")


class _MessageKeys(msgspec.Struct, frozen=True, kw_only=True):
    where: dict[str, Any] = {}
    each: str | None = None
    symbol: Any = None
    kind: Literal["none", "order", "trade", "quote", "status"] = "none"
    gapless: bool | dict[str, Any] = False
    snapshot: bool | SnapshotOf = False
    optional: bool = False
    more: bool = False
    fields: dict[str, Any] = {}


class _GaplessKeys(msgspec.Struct, frozen=True, kw_only=True):
    last: str
    first: str | None = None
    previous: str | None = None
    name: str | None = None


class _ConnectionKeys(msgspec.Struct, frozen=True, kw_only=True):
    last: str


class _ProfileKeys(msgspec.Struct, frozen=True, kw_only=True):
    name: str = "json"
    about: str = ""
    described: str = ""
    venue: str | None = None
    like: dict[str, str] = {}
    bars: str | dict[str, str] | None = None
    size_unit: Any = 1
    inexact: Literal["raise", "round"] = "raise"
    ticks: TicksAre | None = None
    event: Literal["message", "tick"] = "message"
    gapless: dict[str, Any] | None = None
    flags: dict[str, Any] = {}
    received: Literal["s", "ms", "us", "ns", "stamp"] | None = None
    document: bool | str = False
    book_levels: int | None = None
    time: dict[str, Any] = {}
    message: list[Any] = []


@dataclass(frozen=True, slots=True)
class JsonProfile:
    """A profile that has been checked: ``read_profile`` makes one.

    ``size_unit``: what 1 in a tick's ``size`` is worth. ``bars``: the length of the bars that the messages are; None:
    they are none. ``rounding``: told of each record's rounded numbers.
    ``ticks``: what the ticks mean, ``received``: the unit of the time before a message; None: it does not say.
    ``zone``: of texts that do not say theirs. ``document``: where a file that is one JSON value has the list of its
    messages, None: each line is a message. ``book_levels``: of a side, which the venue tells of; None: of all.
    ``source``: what it was made of, as plain values that JSON has: ``read_profile`` makes the same of it again.
    """

    name: str
    rules: tuple[MessageRule, ...]
    size_unit: Decimal
    source: dict[str, Any]
    rounding: Rounding
    ticks: TicksAre | None
    flags: Flags
    sets_last: int
    connection: Path_ | None
    received: Literal["s", "ms", "us", "ns", "stamp"] | None = None
    zone: str | None = None
    document: Path_ | None = None
    book_levels: int | None = None
    bars: BarsRule | None = None
    venue: str | None = None

    def connection_number(self, message: Any) -> int | None:
        """The number of a message among all of its connection; None where it has none. Raises BadRecord."""
        found = None if self.connection is None else at_path(message, self.connection)
        return None if found is None else whole_number(found)

    def asks_for(self, name: str) -> bool:
        """True if snapshots of a sequence are answers to requests."""
        return any(rule.snapshot == "rest" and rule.numbering and rule.numbering.name == name for rule in self.rules)

    def info(self, name: str, path: str, details: dict[str, Any], bars: int | None = None) -> FeedInfo:
        return FeedInfo(
            name,
            path,
            venue=self.venue,
            bars=bars,
            details={"profile": self.name, **details},
            size_unit=float(self.size_unit),
            ticks=self.ticks or "plain",
            ticks_assumed=self.ticks is None,
            flags=self.flags,
            zone=None if self.zone == "UTC" else self.zone,
            has_sizes=self._has_sizes,
        )

    @property
    def _has_sizes(self) -> bool:
        trades = [rule for rule in self.rules if rule.kind == KINDS["trade"]]
        sized = [any(field.rule.field in SIZES for field in rule.fields) for rule in trades]
        return all(sized) if self.bars is None else any(sized)

    def rules_of(self, message: Any) -> list[MessageRule]:
        """The rules that take a message."""
        found = []
        for rule in self.rules:
            if rule.matches(message):
                found.append(rule)
                if not rule.more:
                    break
        return found


class Place(NamedTuple):
    """A file that a profile is read for: its path, its names as ``streams.names_of`` gives them, and its symbol, if
    that was given."""

    path: str | Path
    names: Sequence[str]
    symbol: str | None = None


@functools.cache
def built_in() -> Mapping[str, Mapping[str, Any]]:
    """The profiles that come with strand, as tables by name."""
    folder = resources.files(__package__).joinpath("profiles")
    tables = [tomllib.loads(file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".toml")]
    return {table["name"]: table for table in sorted(tables, key=lambda table: str(table["name"]))}


def recognised(head: bytes) -> str | None:
    """The name of the built-in profile for a document that begins with ``head``; None: there is none.

    The first message tells it: a list of the messages is not taken for one message.
    """
    return next((name for name, wrong in misfits(head).items() if not wrong), None)


def misfits(head: bytes) -> dict[str, list[str]]:
    """By built-in profile, the places in a document's first message at which the profile has other values. ``head``:
    how the document begins. Empty where that shows no whole message in a list."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith(b"["):
        return {}
    message = None
    with suppress(ValueError, RecursionError):
        check_depth(text)
        message, _ = json.JSONDecoder(parse_float=str).raw_decode(text[1:].decode("utf-8", "replace").lstrip())
    if not isinstance(message, list | dict):
        return {}
    return {
        name: [path for path, like in table["like"].items() if not re.fullmatch(like, _text_at(message, path))]
        for name, table in built_in().items()
    }


def _text_at(message: Any, path: str) -> str:
    """The text of a message's value at a path, "null" for null; empty where there is none."""
    at = tuple(path.split("."))
    found = at_path(message, at)
    return text_of(found) if found is not None else "null" if holds(message, at) else ""


def is_message_profile(source: Any) -> bool:
    """True if a profile, a dict, the path of a TOML file or a name, is a profile of messages and not of CSV files."""
    if isinstance(source, str) and source in built_in():
        return True
    if not isinstance(source, Mapping):
        try:
            source = tomllib.loads(Path(source).read_text("utf-8"))
        except (OSError, ValueError, RecursionError, TypeError):
            return False
    return "message" in source


def read_profile(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    size_unit: object = None,
    price_unit: object = None,
    inexact: str | None = None,
    time_zone: str | None = None,
    place: Place | None = None,
) -> JsonProfile:
    """A profile from a dict, from a TOML file or of a built-in one's name; ``size_unit``, ``price_unit``, ``inexact``
    and ``time_zone`` stand in place of its own. ``place``: the file that it is for; None: messages come from no file.

    Raises ConfigurationError naming the key that cannot work.
    """
    where = "profile"
    if not isinstance(source, Mapping | str | os.PathLike):
        raise ConfigurationError("profile", f"give a table, or the path of a .toml file, not {source!r}")
    if isinstance(source, str) and source in built_in():
        where, source = source, built_in()[source]
    elif not isinstance(source, Mapping):
        where = str(source)
        try:
            source = tomllib.loads(small_text(source, "profile"))
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(where, f"cannot be read as a profile: {error}") from error
    said = "profile" if where == "profile" else f"profile {where}"
    keys = checked(_ProfileKeys, source, said)
    if not keys.message:
        raise ConfigurationError(f"{said}.message", "give at least one [[message]]")
    given = keys.size_unit if size_unit is None else str(size_unit)
    power = unit_power(f"{said}.size_unit", given)
    rounding = Rounding(check_options(inexact=keys.inexact if inexact is None else inexact).rounds)
    places = [(message, f"{said}.message[{at}]") for at, message in enumerate(keys.message, 1)]
    if price_unit is not None:
        places = [(_priced(message, str(unit_power("price_unit", price_unit))), at) for message, at in places]
        if all(new is old for (new, _), old in zip(places, keys.message, strict=True)):
            raise ConfigurationError("price_unit", f"leave it out: {keys.name or said} reads no prices")
    messages = [checked(_MessageKeys, message, at) for message, at in places]
    time = checked(TimeKeys, keys.time, f"{said}.time", but=("night",))
    zone = time.checked_zone(f"{said}.time") if time_zone is None else checked_zone("zone", time_zone)
    dates = time.date_pattern(f"{said}.time")

    def texts(rule: FieldRule) -> TextTimes:
        return TextTimes(rule.unit[0], rule.format, zone, time.ambiguous, dates)

    dated = tuple(_path(name, f"{said}.time.date_column") for name in names_of(time.date_column))
    rules = tuple(
        _rule(message, power, rounding, at, (texts, dated), place=place)
        for message, (_, at) in zip(messages, places, strict=True)
    )
    # Values that are compared as text are written as text.
    told = [
        {**source, **({"where": {name: text_of(value) for name, value in keys.where.items()}} if keys.where else {})}
        for keys, (source, _) in zip(messages, places, strict=True)
    ]
    plain: Any = _plain({**source, "size_unit": given, "message": told})
    flags = flags_of([field.rule for rule in rules for field in rule.fields], keys.ticks, keys.flags, said)
    within = keys.document if isinstance(keys.document, str) else None
    document = None if keys.document is False else () if within is None else _path(within, f"{said}.document")
    flags, sets_last = _with_events(flags, rules, keys)
    connection = None
    if keys.gapless is not None:
        given_path = checked(_ConnectionKeys, keys.gapless, f"{said}.gapless").last
        connection = _path(given_path, f"{said}.gapless.last")
    return JsonProfile(
        keys.name,
        rules,
        Decimal(1).scaleb(power),
        plain,
        rounding,
        keys.ticks,
        flags,
        sets_last,
        connection,
        keys.received,
        zone,
        document,
        None if keys.book_levels is None else whole(f"{said}.book_levels", keys.book_levels, 1),
        None if keys.bars is None else bars_rule(keys.bars, f"{said}.bars"),
        keys.venue,
    )


def _priced(message: Any, power: str) -> Any:
    """A message's table whose prices are in units of a power of ten."""
    fields = message.get("fields") if isinstance(message, Mapping) else None
    if not isinstance(fields, Mapping):
        return message
    changed = {
        name: {**({"column": field} if isinstance(field, str) else field), "unit": f"1e{power}"}
        for name, field in fields.items()
        if name in PRICES and (isinstance(field, str) or (isinstance(field, Mapping) and "constant" not in field))
    }
    return {**message, "fields": {**fields, **changed}} if changed else message


def _with_events(flags: Flags, rules: tuple[MessageRule, ...], keys: _ProfileKeys) -> tuple[Flags, int]:
    """The flags with those that the reader sets itself, and the mask that ends an event; 0: the reader sets none."""
    if not flags.snapshot and any(rule.snapshot for rule in rules):
        flags = replace(flags, snapshot=free_bit(_SNAPSHOT, flags))
    levels = any(rule.kind in (KIND_NONE, KIND_QUOTE) for rule in rules)  # a field may say the kind
    if flags.last or keys.event == "tick" or not levels or keys.ticks in ("orders", "dbn", "dbn-orders"):
        return flags, 0
    flags = with_last(flags, None)
    return flags, flags.last


def _plain(value: Any) -> Any:
    """JSON value of an object; a number that is not whole becomes its text."""
    if isinstance(value, Mapping):
        return {text_of(name): _plain(inside) for name, inside in value.items()}
    if isinstance(value, list):
        return [_plain(inside) for inside in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


#: Makers of readers for texts of times, and the places of the clocks' dates.
_Times = tuple[Callable[[FieldRule], TextTimes], tuple[Path_, ...]]


def _symbol(keys: _MessageKeys, where: str, place: Place | None) -> tuple[tuple[Path_, ...], str | None]:
    """The places of the name's parts, or the name itself."""
    given = {"column": keys.symbol} if isinstance(keys.symbol, str) else keys.symbol or {}
    rule = symbol_rule(given, where, but=("instrument",))
    if len(rule.columns) > 1:
        raise ConfigurationError(where, "give one column, or { join = [...] } of the name's parts")
    if rule.file_name is not None:
        if place is None:
            raise ConfigurationError(f"{where}.file_name", "is for files; messages of a line have no file's name")
        if place.symbol is not None:
            return (), check_name("symbol", place.symbol)
        return (), symbol_in(rule.file_name, place.names, place.path)
    if place is not None and place.symbol is not None:
        raise ConfigurationError("symbol", "the profile says where the messages have it: leave symbol out")
    return tuple(_path(name, where) for name in rule.joined or rule.columns), rule.constant


def _rule(
    keys: _MessageKeys, size_power: int, rounding: Rounding, where: str, times: _Times, *, place: Place | None
) -> MessageRule:
    symbol, constant = _symbol(keys, f"{where}.symbol", place)
    rules = field_rules(keys.fields, f"{where}.fields", size_power=size_power, but=_NOT_HERE)
    for rule in rules:
        if rule.whole_power is not None:
            raise ConfigurationError(f"{where}.fields.{rule.field}.unit", "give one unit")
    fields = tuple(_field(rule, size_power, rounding, f"{where}.fields.{rule.field}", times) for rule in rules)
    return MessageRule(
        where=tuple((_path(name, f"{where}.where"), text_of(value)) for name, value in keys.where.items()),
        each=None if keys.each is None else _path(keys.each, f"{where}.each"),
        symbol=symbol,
        constant=constant,
        kind=KINDS[keys.kind],
        numbering=_numbering(keys, rules, where),
        snapshot="stream" if keys.snapshot is True else keys.snapshot or None,
        optional=keys.optional,
        more=keys.more,
        fields=fields,
        rounding=rounding,
    )


def _numbering(keys: _MessageKeys, rules: tuple[FieldRule, ...], where: str) -> Numbering | None:
    if keys.gapless is False:
        return None
    if keys.gapless is True:
        if not any(rule.field == "sequence" and not (rule.optional or rule.empty) for rule in rules):
            raise ConfigurationError(
                f"{where}.gapless",
                "give the column of each record's sequence, or the fields of the message's numbers, "
                '{ last = "u" }, or leave gapless out',
            )
        return Numbering(keys.kind)
    given = checked(_GaplessKeys, keys.gapless, f"{where}.gapless")
    last, first, previous = (
        None if path is None else _path(path, f"{where}.gapless.{name}")
        for name, path in (("last", given.last), ("first", given.first), ("previous", given.previous))
    )
    return Numbering(given.name or keys.kind, last, first, previous)


def _field(rule: FieldRule, size_power: int, rounding: Rounding, where: str, times: _Times) -> Field:
    if rule.field == "ts_recv":
        raise ConfigurationError(where, "leave it out: it is when the message was received")
    if len(rule.unit) > 1 or not set(rule.unit) <= set(_UNITS):
        raise ConfigurationError(f"{where}.unit", f"give one of {', '.join(_UNITS)}, not {', '.join(rule.unit)}")
    unit = rule.unit[0] if rule.unit else "ns"
    texts = None if unit in TIME_POWERS else times[0](rule)
    if unit == "clock" and rule.columns and not times[1]:
        raise ConfigurationError(f"{where}.unit", "for a clock give date_column under [time], with its date")
    target = rule.target(size_power, 'unit = "{}" of the field', signs=True)
    known: dict[str, int] | None = {} if rule.field in PRICES or rule.field in SIZES else None
    convert = converter(target, rounding, texts=texts, known=known)
    if rule.field == "sequence" and rule.text is None:
        convert = _sequence
    if rule.text is not None:
        if rule.field == "sequence":
            raise ConfigurationError(f"{where}.text", "a sequence is a number: give its column as it is")
        convert = partial(id_of, rule.text)
    return Field(
        rule,
        tuple(_path(name, f"{where}.column") for name in rule.columns),
        dict(rule.map),
        convert,
        known,
        not rounding.rounds if texts is None else texts.is_pure,
        texts if unit == "clock" else None,
        times[1],
    )


def _sequence(value: Any) -> int:
    """A sequence, 0 for one below 0. Of a number that no tick holds, the messages' order can still be told."""
    return max(whole_number(value), 0)


def _path(text: str, where: str) -> Path_:
    if not all(text.removeprefix(OUTER).split(".")):
        raise ConfigurationError(where, f"{text!r} is not a path of names with dots between them")
    return tuple(text.split("."))
