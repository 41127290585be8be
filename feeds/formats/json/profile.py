"""Profile that turns JSON messages into ticks, and the numbers by which a venue shows that some are missing.

The rules are those that venues document for order books kept from their streams:

- one number per message that rises by one (Bybit ``u``, Kraken Futures ``seq``);
- the first and the last number of a message's changes, the next message beginning one above (Binance spot ``U`` and
  ``u``, KuCoin ``sequenceStart`` and ``sequenceEnd``);
- the number of the message before (Binance futures ``pu``, OKX ``prevSeqId``, Deribit ``prev_change_id``), which holds
  across a venue's reset of its numbers.

A snapshot has one number. Changes up to it are in it, and the first change beyond it has to reach back to it.

name = "example"
    ticks = "plain"                 # what the ticks mean, as FeedInfo.ticks has it; of single orders "orders"
    size_unit = "0.001"             # what one of a tick's `size` is worth, a power of ten; by default 1
    received = "us"                 # unit of the time before each message: s, ms, us, ns, stamp
    document = true                 # the file is one JSON value, a list of messages or one; or the path of that list
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

import os
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from strand.errors import ConfigurationError
from strand.feeds.base import FeedInfo, Flags, TicksAre
from strand.feeds.io.files import small_text
from strand.feeds.mapping.clocks import TextTimes
from strand.feeds.mapping.events import free_bit, with_last
from strand.feeds.mapping.options import check_options
from strand.feeds.mapping.rules import (
    KINDS,
    PRICES,
    SIZES,
    BadRecord,
    FieldRule,
    Rounding,
    SymbolKeys,
    TimeKeys,
    action_of,
    checked,
    converter,
    decimal_of,
    field_rules,
    flags_of,
    id_of,
    kind_of,
    listed,
    names_of,
    shown,
    text_of,
)
from strand.feeds.mapping.values import TIME_POWERS
from strand.symbols import check_name, name_problem
from strand.ticks import KIND_NONE, KIND_QUOTE, UNDEF_PRICE
from strand.validate import unit_power, whole
from strand.zones import checked_zone

__all__ = [
    "BadRecord", "Chain", "JsonProfile", "MessageRule", "Numbering", "Numbers", "Record", "SnapshotOf", "Step",
    "at_path", "is_message_profile", "read_profile", "whole_number",
]  # fmt: skip

#: Source of a snapshot: the stream itself, or an answer to a request, which may be older than the stream.
SnapshotOf = Literal["stream", "rest"]
#: Bytes of text of the messages that wait for the answer to a request, of one symbol.
_KEPT_BYTES: Final = 1 << 18


class Numbers(NamedTuple):
    """The numbers of a message. ``first`` and ``previous`` are None where the venue has none."""

    last: int
    first: int | None = None
    previous: int | None = None

    def follows(self, last: int) -> bool:
        """True if this message is the next one after ``last``."""
        if self.previous is not None:
            return self.previous == last
        return (self.last if self.first is None else self.first) == last + 1

    def reaches(self, last: int) -> bool:
        """True if no change lies between ``last`` and this message."""
        if self.previous is not None:
            return self.previous <= last
        return (self.last if self.first is None else self.first) <= last + 1


@dataclass(frozen=True, slots=True)
class Numbering:
    """Paths of the numbers in a rule's messages.

    Attributes:
        name: Rules of one name share each symbol's sequence.
        last: The path of the last number; None: the records' own ``sequence``, each a message of its own.
        first: The path of the first number; None: there is none.
        previous: The path of the number before; None: there is none.
    """

    name: str
    last: tuple[str, ...] | None = None
    first: tuple[str, ...] | None = None
    previous: tuple[str, ...] | None = None


def whole_number(value: Any) -> int:
    """A number of any length, as an integer or text. Raises BadRecord."""
    try:
        number = decimal_of(value) if isinstance(value, int | str | Decimal) and not isinstance(value, bool) else None
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite() or number.adjusted() > 30 or number != number.to_integral_value():
        raise BadRecord(f"{shown(value)} is not a whole number")
    return int(number)


def _sequence(value: Any) -> int:
    """A sequence, 0 for one below 0. Of a number that no tick holds, the messages' order can still be told."""
    return max(whole_number(value), 0)


class Step(NamedTuple):
    """The result of a message.

    Attributes:
        taken: Whether its records count.
        missing: How many numbers are missing before it; where the venue says only that some are, 1.
        between: The numbers between which they are missing.
        back: Whether it repeats numbers, or runs back.
        older: Whether a snapshot has all of it.
        again: Earlier messages that a snapshot lacks: they come again behind it.
    """

    taken: bool = True
    missing: int = 0
    between: tuple[int, int] = (0, 0)
    back: bool = False
    older: bool = False
    again: tuple[Any, ...] = ()


@dataclass(slots=True)
class Chain:
    """Numbers of one symbol. ``drops``: whether messages that run back are left out.

    Attributes:
        last: The latest number; None: there was none.
        base: The latest snapshot's number, until a message lies beyond it.
        whole: Whether a snapshot has come, and nothing is missing since.
        kept: Messages since the start or the latest gap, for a snapshot that is older than they are.
    """

    drops: bool
    keeps: bool = False
    last: int | None = None
    base: int | None = None
    whole: bool = False
    kept: deque[tuple[Numbers, Any, int]] = field(default_factory=deque)
    _kept_bytes: int = 0
    _back: int | None = None

    def snapshot(self, last: int, source: SnapshotOf) -> Step:
        """Takes a snapshot's number."""
        if source == "stream" or self.last is None or last >= self.last:
            self.last = self.base = last
            self._forget()
            self.whole = True
            return Step()
        if self.whole:
            return Step(taken=False, older=True)
        later = [(numbers, message) for numbers, message, _ in self.kept if numbers.last > last]
        self._forget()
        begins = later[0][0] if later else Numbers(self.last + 1)
        self.whole = begins.reaches(last)
        again = tuple(message for _, message in later)
        return Step(again=again) if self.whole else self._gap(begins, last)._replace(again=again)

    def change(self, numbers: Numbers, message: Any, size: int) -> Step:
        """Takes the numbers of a message of changes, which ``again`` may have, and the bytes of its text."""
        step = self._step(numbers)
        if step.missing:
            self.whole = False
            self._forget()
        if step.taken and self.keeps and not self.whole:
            self.kept.append((numbers, message, size))
            self._kept_bytes += size
            while self._kept_bytes > _KEPT_BYTES:
                self._kept_bytes -= self.kept.popleft()[2]
        return step

    def _step(self, numbers: Numbers) -> Step:
        last, base = self.last, self.base
        if last is None or numbers.follows(last):
            return self._on(numbers)
        if base is not None and numbers.last <= base:
            return Step(taken=False, older=True)
        if not numbers.reaches(last):
            step = self._gap(numbers, last)
            self._on(numbers)
            return step
        if numbers.last > last:
            # The part of it in a snapshot is no repetition.
            return self._on(numbers)._replace(back=base is None)
        if self._back is not None and numbers.follows(self._back):
            self.whole = False
            return self._on(numbers)  # the venue began anew
        self._back = numbers.last
        return Step(taken=not self.drops, back=True)

    def _on(self, numbers: Numbers) -> Step:
        self.last, self.base, self._back = numbers.last, None, None
        return Step()

    def _gap(self, numbers: Numbers, last: int) -> Step:
        if numbers.previous is not None:
            return Step(missing=1, between=(last, numbers.last))
        first = numbers.last if numbers.first is None else numbers.first
        return Step(missing=first - last - 1, between=(last, first))

    def _forget(self) -> None:
        self.kept.clear()
        self._kept_bytes = 0
        self._back = None


#: Keys of fields that only tables of text have, and units of times.
_NOT_HERE: Final = ("since", "digits", "plus", "later_of", "earlier_of", "running")
#: The bit of flags by which the reader marks a snapshot, where it is free.
_SNAPSHOT: Final = 32
_UNITS: Final = (*TIME_POWERS, "auto", "clock", "stamp")

Path_ = tuple[str, ...]
#: Before a path: it is of the message, though the record has a field of that name.
_OUTER: Final = "^"


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


def at_path(value: Any, path: Path_) -> Any:
    """Value at a path; None where there is nothing."""
    for name in path:
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _holds(value: Any, path: Path_) -> bool:
    """True if there is a value at a path, null included."""
    parent, name = at_path(value, path[:-1]), path[-1]
    if isinstance(parent, list):
        return name.isdecimal() and int(name) < len(parent)
    return isinstance(parent, Mapping) and name in parent


def _places(path: Path_, record: Any, message: Any) -> list[tuple[Any, Path_]]:
    """Places of a record's field, in order: the record, then the message. A path that begins with ^ has only the
    message."""
    if path[0].startswith(_OUTER):
        return [(message, (path[0].removeprefix(_OUTER), *path[1:]))]
    return [(record, path), (message, path)]


def _first(paths: Iterable[Path_], record: Any, message: Any) -> Any:
    """The first value that is there: in the record by any of the paths, then in the message."""
    found = [_places(path, record, message) for path in paths]
    ranked = chain((places[0] for places in found), (places[1] for places in found if len(places) > 1))
    return next((value for place, own in ranked if (value := at_path(place, own)) is not None), None)


@dataclass(frozen=True, slots=True)
class _Field:
    rule: FieldRule
    paths: tuple[Path_, ...]
    map: Mapping[str, Any]
    convert: Callable[[Any], Any]
    clock: TextTimes | None = None
    dates: tuple[Path_, ...] = ()

    def of(self, record: Any, message: Any) -> Any:
        """The field's value; None for an optional field without one. Raises BadRecord where a value is missing."""
        rule = self.rule
        if not self.paths:
            return rule.constant
        value = _first(self.paths, record, message)
        none = (value == "" and rule.empty) or (
            bool(rule.undefined) and value is not None and text_of(value).strip() in rule.undefined
        )
        if (value is None and rule.optional) or none:
            return UNDEF_PRICE if rule.field in PRICES else None
        if value is None:
            raise BadRecord(f"{rule.field}: {self._none_in(record, message)}")
        if self.map:
            found = self.map.get(text_of(value), rule.otherwise)
            if found is None:
                raise BadRecord(f"{rule.field}: {shown(value)} is not one of {listed(self.map)}")
            return found
        try:
            found = self._clock(value, record, message) if self.clock is not None else self.convert(value)
        except BadRecord as error:
            raise BadRecord(f"{rule.field}: {error}") from None
        return UNDEF_PRICE if rule.zero and found == 0 else found

    def _clock(self, value: Any, record: Any, message: Any) -> int:
        """A time of day, on the date that the message has."""
        date = _first(self.dates, record, message)
        assert self.clock is not None
        try:
            return self.clock.ns(str(value), None if date is None else str(date))
        except ValueError as error:
            raise BadRecord(f"{shown(value)} of {shown(date)} {error}") from None

    def _none_in(self, record: Any, message: Any) -> str:
        for path in self.paths:
            if any(_holds(place, own) for place, own in _places(path, record, message)):
                return f"{'.'.join(path)} is null: if that means no value, give optional = true"
        return f"there is no field {' or '.join(map('.'.join, self.paths))}"


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one tick that the profile fills, by name, and the tick's symbol.

    Attributes:
        values: The fields. Empty: the record makes no tick, and has the numbers of a whole message.
        rule: The rule that made it.
        numbers: The message's numbers; None: they are not followed.
    """

    symbol: str
    values: dict[str, Any]
    rule: MessageRule
    numbers: Numbers | None


@dataclass(frozen=True, slots=True)
class MessageRule:
    """Condition on messages, and the rules that turn their records into ticks."""

    where: tuple[tuple[Path_, str], ...]
    each: Path_ | None
    symbol: tuple[Path_, ...]
    constant: str | None
    kind: int
    numbering: Numbering | None
    snapshot: SnapshotOf | None
    optional: bool
    more: bool
    fields: tuple[_Field, ...]

    def matches(self, message: Any) -> bool:
        if not all(text_of(at_path(message, path)) == wanted for path, wanted in self.where):
            return False
        # An acknowledgement or a heartbeat may name the same channel, and has no data.
        if not self.optional:
            return True
        if self.each is None:
            needed = (field.paths for field in self.fields if field.paths and not field.rule.optional)
            return all(_first(paths, message, message) is not None for paths in needed)
        items = at_path(message, self.each)
        return isinstance(items, list) and all(isinstance(item, list | Mapping) for item in items[:1])

    def records(self, message: Any) -> Iterator[Record | BadRecord]:
        """Each record, or in its place the BadRecord that says why it is none."""
        items = [message] if self.each is None else at_path(message, self.each)
        if not isinstance(items, list):
            place = ".".join(self.each or ())
            yield BadRecord(f"there is no list at {place}: if such messages have no data, give optional = true")
            return
        if self.each is not None and (whole := self._whole(message)) is not None:
            yield whole
        for item in items:
            try:
                yield self._record(item, message)
            except BadRecord as error:
                yield error

    def _whole(self, message: Any) -> Record | None:
        """The message itself, where it names its symbol and has its numbers beside its records."""
        if self.snapshot is None and (self.numbering is None or self.numbering.last is None):
            return None
        try:
            return Record(self._symbol(message, message), {}, self, self._numbers(message, message, {}))
        except BadRecord:
            return None  # each record has its own

    def _numbers(self, item: Any, message: Any, values: Mapping[str, Any]) -> Numbers | None:
        """The numbers of a record's message; None where they are not followed. Raises BadRecord."""
        numbering = self.numbering
        if numbering is None:
            return None
        if numbering.last is None:
            return Numbers(values["sequence"]) if values else None

        def at(path: Path_ | None, name: str) -> int | None:
            if path is None:
                return None
            found = _first((path,), item, message)
            if found is None:
                raise BadRecord(f"gapless.{name}: there is no field {'.'.join(path)}")
            try:
                return whole_number(found)
            except BadRecord as error:
                raise BadRecord(f"gapless.{name}: {error}") from None

        last = at(numbering.last, "last")
        assert last is not None
        if self.snapshot is not None:
            return Numbers(last)
        return Numbers(last, at(numbering.first, "first"), at(numbering.previous, "previous"))

    def _symbol(self, item: Any, message: Any) -> str:
        if self.constant is not None:
            return self.constant
        # In a list of records the name is often said once, beside the list. Parts behind the first may be missing.
        parts = [_first((path,), item, message) for path in self.symbol]
        said = [part.strip(" ") if isinstance(part, str) else text_of(part) for part in parts if part is not None]
        symbol = " ".join(filter(None, said))
        if not isinstance(parts[0], str) or not said[0]:
            raise BadRecord(f"symbol: {shown(parts[0])} is not a name")
        if problem := name_problem(symbol):
            raise BadRecord(f"symbol: {symbol[:80]!r} {problem}")
        return symbol

    def _record(self, item: Any, message: Any) -> Record:
        symbol = self._symbol(item, message)
        values: dict[str, Any] = {"kind": self.kind}
        for each in self.fields:
            if (value := each.of(item, message)) is not None:
                values[each.rule.place] = value
            if each.rule.signed and value is not None:
                values["side"] = b"A" if value < 0 else b"B" if value else b"N"
                values["size"] = abs(value)
        values["kind"] = values["kind"] or kind_of(values.get("action", b"N"))
        values.setdefault("action", action_of(values["kind"]))
        return Record(symbol, values, self, self._numbers(item, message, values))


@dataclass(frozen=True, slots=True)
class JsonProfile:
    """A profile that has been checked: ``read_profile`` makes one.

    ``size_unit``: what 1 in a tick's ``size`` is worth. ``rounding``: told of each record's rounded numbers.
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

    def connection_number(self, message: Any) -> int | None:
        """The number of a message among all of its connection; None where it has none. Raises BadRecord."""
        found = None if self.connection is None else at_path(message, self.connection)
        return None if found is None else whole_number(found)

    def asks_for(self, name: str) -> bool:
        """True if snapshots of a sequence are answers to requests."""
        return any(rule.snapshot == "rest" and rule.numbering and rule.numbering.name == name for rule in self.rules)

    def info(self, name: str, path: str, details: dict[str, Any]) -> FeedInfo:
        return FeedInfo(
            name,
            path,
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
        return all(any(field.rule.field in SIZES for field in rule.fields) for rule in trades)

    def records(self, message: Any) -> Iterator[Record | BadRecord] | None:
        """The records of a message, BadRecord in place of bad ones; None where no rule matches it."""
        found: list[Iterator[Record | BadRecord]] = []
        for rule in self.rules:
            if rule.matches(message):
                found.append(rule.records(message))
                if not rule.more:
                    break
        return chain.from_iterable(found) if found else None


def is_message_profile(source: Any) -> bool:
    """True if a profile, a dict or the path of a TOML file, is a profile of messages and not of CSV files."""
    if not isinstance(source, Mapping):
        try:
            source = tomllib.loads(Path(source).read_text("utf-8"))
        except (OSError, ValueError, RecursionError, TypeError):
            return False
    return "message" in source


def read_profile(
    source: str | Path | Mapping[str, Any],
    *,
    size_unit: object = None,
    inexact: str | None = None,
    time_zone: str | None = None,
) -> JsonProfile:
    """A profile from a dict, or from a TOML file; ``size_unit``, ``inexact`` and ``time_zone`` stand in place of its
    own.

    Raises ConfigurationError naming the key that cannot work.
    """
    where = "profile"
    if not isinstance(source, Mapping | str | os.PathLike):
        raise ConfigurationError("profile", f"give a table, or the path of a .toml file, not {source!r}")
    if not isinstance(source, Mapping):
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
    messages = [checked(_MessageKeys, message, place) for message, place in places]
    time = checked(TimeKeys, keys.time, f"{said}.time")
    zone = time.checked_zone(f"{said}.time") if time_zone is None else checked_zone("zone", time_zone)
    dates = time.date_pattern(f"{said}.time")

    def texts(rule: FieldRule) -> TextTimes:
        return TextTimes(rule.unit[0], rule.format, zone, time.ambiguous, dates)

    dated = tuple(_path(name, f"{said}.time.date_column") for name in names_of(time.date_column))
    rules = tuple(
        _rule(message, power, rounding, place, (texts, dated))
        for message, (_, place) in zip(messages, places, strict=True)
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
    )


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


def _rule(keys: _MessageKeys, size_power: int, rounding: Rounding, where: str, times: _Times) -> MessageRule:
    given = {"column": keys.symbol} if isinstance(keys.symbol, str) else keys.symbol or {}
    symbol = checked(SymbolKeys, given, f"{where}.symbol", but=("file_name", "instrument"))
    columns, joined = names_of(symbol.column), names_of(symbol.join)
    if (len(columns), bool(joined), symbol.constant is not None) not in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        raise ConfigurationError(
            f"{where}.symbol",
            "give the column of the name, { join = [...] } of its parts, or { constant = NAME }",
        )
    rules = field_rules(keys.fields, f"{where}.fields", size_power=size_power, but=_NOT_HERE)
    for rule in rules:
        if rule.whole_power is not None:
            raise ConfigurationError(f"{where}.fields.{rule.field}.unit", "give one unit")
    fields = tuple(_field(rule, size_power, rounding, f"{where}.fields.{rule.field}", times) for rule in rules)
    return MessageRule(
        where=tuple((_path(name, f"{where}.where"), text_of(value)) for name, value in keys.where.items()),
        each=None if keys.each is None else _path(keys.each, f"{where}.each"),
        symbol=tuple(_path(name, f"{where}.symbol") for name in (*columns, *joined)),
        constant=None if symbol.constant is None else check_name(f"{where}.symbol.constant", symbol.constant),
        kind=KINDS[keys.kind],
        numbering=_numbering(keys, rules, where),
        snapshot="stream" if keys.snapshot is True else keys.snapshot or None,
        optional=keys.optional,
        more=keys.more,
        fields=fields,
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


def _field(rule: FieldRule, size_power: int, rounding: Rounding, where: str, times: _Times) -> _Field:
    if rule.field == "ts_recv":
        raise ConfigurationError(where, "leave it out: it is when the message was received")
    if len(rule.unit) > 1 or not set(rule.unit) <= set(_UNITS):
        raise ConfigurationError(f"{where}.unit", f"give one of {', '.join(_UNITS)}, not {', '.join(rule.unit)}")
    unit = rule.unit[0] if rule.unit else "ns"
    texts = None if unit in TIME_POWERS else times[0](rule)
    if unit == "clock" and rule.columns and not times[1]:
        raise ConfigurationError(f"{where}.unit", "for a clock give date_column under [time], with its date")
    convert = converter(rule.target(size_power, 'unit = "{}" of the field', signs=True), rounding, texts=texts)
    if rule.field == "sequence" and rule.text is None:
        convert = _sequence
    if rule.text is not None:
        if rule.field == "sequence":
            raise ConfigurationError(f"{where}.text", "a sequence is a number: give its column as it is")
        convert = partial(id_of, rule.text)
    return _Field(
        rule,
        tuple(_path(name, f"{where}.column") for name in rule.columns),
        dict(rule.map),
        convert,
        texts if unit == "clock" else None,
        times[1],
    )


def _path(text: str, where: str) -> Path_:
    if not all(text.removeprefix(_OUTER).split(".")):
        raise ConfigurationError(where, f"{text!r} is not a path of names with dots between them")
    return tuple(text.split("."))
