"""Rules of a profile: which messages a rule takes, and the records that it makes of them.

A rule is compiled once, into two functions of Python: ``matches`` and ``take``. Their code has the rule's paths and
constants in it, and of each key of a field only what the profile gives: a message costs what its rule looks at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol

from strand.feeds.formats.json.numbering import Numbering, Numbers, SnapshotOf, whole_number
from strand.feeds.mapping.clocks import TextTimes
from strand.feeds.mapping.rules import (
    PRICES,
    UNDEFINED,
    BadRecord,
    FieldRule,
    Rounding,
    action_of,
    kind_of,
    listed,
    shown,
    text_of,
)
from strand.fixed import dataclass
from strand.symbols import name_problem
from strand.ticks import UNDEF_PRICE

Path_ = tuple[str, ...]
#: Before a path: it is of the message, though the record has a field of that name.
OUTER: Final = "^"
#: Fields of a tick that a record fills, in the order of ``Values``.
PLACES: Final = (
    "ts_event", "order_id", "price", "size", "ref_id", "sequence", "publisher_id", "action", "side", "flags", "depth",
    "kind",
)  # fmt: skip
#: Fields that hold None where a record has no value of them.
_MAY_LACK: Final = ("ts_event", "order_id", "sequence", "action")
#: Values of the fields ``PLACES``.
Values = tuple[int | None, int | None, int, int, int, int | None, int, bytes, bytes, int, int, int]
#: Names that a rule knows, before it forgets them.
_NAMES: Final = 1 << 16
#: Place of a message whose value was not looked for.
_UNSET: Final = object()


class Records(Protocol):
    """A taker of the records of a message."""

    def add(self, rule: MessageRule, symbol: str, values: Values, /) -> None:
        """Takes a tick."""

    def whole(self, rule: MessageRule, symbol: str, numbers: Numbers | None) -> None:
        """Takes the symbol and the numbers of the message itself, before its records."""

    def follow(self, rule: MessageRule, symbol: str, numbers: Numbers, time: int | None) -> bool:
        """Tells whether a record counts, by its message's numbers. ``time``: of its event."""

    def rounded(self) -> None:
        """Takes note of a record with a number that was rounded."""

    def refuse(self, why: str) -> None:
        """Takes the fault of a record that is none."""


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


def holds(value: Any, path: Path_) -> bool:
    """True if there is a value at a path, null included."""
    parent, name = at_path(value, path[:-1]), path[-1]
    if isinstance(parent, list):
        return name.isdecimal() and int(name) < len(parent)
    return isinstance(parent, Mapping) and name in parent


def _of_message(path: Path_) -> Path_ | None:
    """The path behind the sign that it begins at the message; None: it has no such sign."""
    return (path[0].removeprefix(OUTER), *path[1:]) if path[0].startswith(OUTER) else None


@dataclass(frozen=True, slots=True)
class Field:
    """Source of a tick's field in a record.

    Attributes:
        rule: The keys of the profile.
        paths: The places where the value may be; empty for a constant.
        map: The values that texts stand for.
        convert: Makes the field of a value. Raises BadRecord.
        known: Values of texts that ``convert`` has read; None: it keeps none.
        is_pure: Whether ``convert`` makes the same of a value each time, and does no more.
        clock: The reader of times of day; None: the value is none.
        dates: The places of their date.
    """

    rule: FieldRule
    paths: tuple[Path_, ...]
    map: Mapping[str, Any]
    convert: Callable[[Any], Any]
    known: Mapping[str, int] | None = None
    is_pure: bool = False
    clock: TextTimes | None = None
    dates: tuple[Path_, ...] = ()

    def clock_of(self, value: Any, record: Any, message: Any) -> int:
        """A time of day, on the date that the record or the message has. Raises BadRecord."""
        places = [(record, path) if (outer := _of_message(path)) is None else (message, outer) for path in self.dates]
        places += [(message, path) for path in self.dates]
        date = next((found for place, path in places if (found := at_path(place, path)) is not None), None)
        assert self.clock is not None
        try:
            return self.clock.ns(str(value), None if date is None else str(date))
        except ValueError as error:
            raise BadRecord(f"{shown(value)} of {shown(date)} {error}") from None

    def missing(self, record: Any, message: Any) -> BadRecord:
        """The fault of a record without a value."""
        for path in self.paths:
            outer = _of_message(path)
            if holds(message, outer or path) or (outer is None and holds(record, path)):
                return BadRecord(f"{'.'.join(path)} is null: if that means no value, give optional = true")
        return BadRecord(f"there is no field {' or '.join(map('.'.join, self.paths))}")

    def unknown(self, value: Any) -> BadRecord:
        """The fault of a value that the map does not have."""
        return BadRecord(f"{shown(value)} is not one of {listed(self.map)}")

    def is_undefined(self, value: Any) -> bool:
        """True for a value whose text the profile says to mean none."""
        return text_of(value).strip() in self.rule.undefined


@dataclass(frozen=True, slots=True)
class MessageRule:
    """Condition on messages, and the rules that turn their records into ticks.

    Attributes:
        matches: Tells whether the rule takes a message.
        take: Gives the records of a message to a ``Records``.
    """

    where: tuple[tuple[Path_, str], ...]
    each: Path_ | None
    symbol: tuple[Path_, ...]
    constant: str | None
    kind: int
    numbering: Numbering | None
    snapshot: SnapshotOf | None
    optional: bool
    more: bool
    fields: tuple[Field, ...]
    rounding: Rounding
    matches: Callable[[Any], bool] = field(init=False, compare=False, repr=False)
    take: Callable[[Any, Records], None] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for made in (_Condition(self), _Extraction(self)):
            object.__setattr__(self, made.name, made.function())


def _step(base: str, name: str) -> str:
    """Expression of what a value has at a name; None where it has nothing."""
    inside = f"{base}.get({name!r}) if type({base}) is dict else None"
    if not name.isdecimal():
        return inside
    at = int(name)
    return f"({base}[{at}] if len({base}) > {at} else None) if type({base}) is list else {inside}"


class _Code:
    """Text of a function that is being written, and the objects that it names."""

    name: str
    arguments: str

    def __init__(self, rule: MessageRule) -> None:
        self._rule = rule
        self._names: dict[str, Any] = {"BadRecord": BadRecord, "at_path": at_path, "text_of": text_of, "UNSET": _UNSET}
        self._lines: list[str] = []
        self._depth = 1
        self._parents: dict[tuple[str, Path_], str] = {}
        self._numbers = itertools.count()

    def function(self) -> Any:
        """The function."""
        self.write()
        code = "\n".join([f"def {self.name}({self.arguments}):", *self._lines])
        exec(compile(code, f"<{self.name} of a rule>", "exec"), self._names)
        return self._names[self.name]

    def write(self) -> None:
        raise NotImplementedError

    def _line(self, *texts: str) -> None:
        self._lines += [f"{'    ' * self._depth}{text}" for text in texts]

    def _object(self, value: Any) -> str:
        name = f"o{len(self._names)}"
        self._names[name] = value
        return name

    def _look(self, to: str, base: str, path: Path_) -> None:
        """Writes lines that put the value at a path into a variable. What leads there is looked up once."""
        at = base
        for end in range(1, len(path)):
            parent = self._parents.get((base, path[:end]))
            if parent is None:
                parent = self._parents[base, path[:end]] = f"at{next(self._numbers)}"
                self._line(f"{parent} = {_step(at, path[end - 1])}")
            at = parent
        self._line(f"{to} = {_step(at, path[-1])}")


class _Condition(_Code):
    """The condition of a rule."""

    name, arguments = "matches", "message"

    def write(self) -> None:
        rule = self._rule
        for path, wanted in rule.where:
            self._look("value", "message", path)
            self._line(f"if (value if type(value) is str else text_of(value)) != {wanted!r}:", "    return False")
        # An acknowledgement or a heartbeat may name the same channel, and has no data.
        if rule.optional and rule.each is not None:
            self._look("items", "message", rule.each)
            self._line("if type(items) is not list or (items and type(items[0]) not in (dict, list)):")
            self._line("    return False")
        elif rule.optional:
            for paths in (field.paths for field in rule.fields if field.paths and not field.rule.optional):
                found = [f"at_path(message, {_of_message(path) or path!r}) is None" for path in paths]
                self._line(f"if {' and '.join(found)}:", "    return False")
        self._line("return True")


class _Extraction(_Code):
    """The records of a rule's messages."""

    name, arguments = "take", "message, into"

    def __init__(self, rule: MessageRule) -> None:
        super().__init__(rule)
        #: Variables that are ``UNSET`` at first: the message's own values by path, and values that were converted last.
        self._outer: dict[Path_, str] = {}
        self._latest: list[str] = []
        #: Places of a tick that have a variable.
        self._varying = {each.rule.place for each in rule.fields if each.paths} | {"ts_event", "sequence"}
        self._varying |= {"side"} if any(each.rule.signed for each in rule.fields) else set()
        self._varying |= {"kind", "action"} if self._varying & {"kind", "action"} else set()
        self._names |= {"name_of": _names(), "Numbers": Numbers, "new": tuple.__new__}
        self._names |= {"kind_of": kind_of, "action_of": action_of}

    def write(self) -> None:
        rule = self._rule
        self._names["rule"] = rule
        self._line("add = into.add", "at = ''")
        head = len(self._lines)
        if rule.each is None:
            self._write_record("message")
        else:
            self._look("items", "message", rule.each)
            text = f"there is no list at {'.'.join(rule.each)}: if such messages have no data, give optional = true"
            self._line("if type(items) is not list:", f"    into.refuse({text!r})", "    return")
            if rule.snapshot is not None or (rule.numbering is not None and rule.numbering.last is not None):
                self._write_whole()
            self._line("for item in items:")
            self._depth += 1
            self._write_record("item")
            self._depth -= 1
        unset = [f"{name} = UNSET" for name in (*self._outer.values(), *self._latest)]
        given = [f"{name} = {value!r}" for name, value in self._constants().items() if name in self._varying]
        self._lines[head:head] = [f"    {text}" for text in (*unset, *given)]

    def _constants(self) -> dict[str, Any]:
        """Values of fields that are the same for all records."""
        found: dict[str, Any] = {place: None if place in _MAY_LACK else UNDEFINED.get(place, 0) for place in PLACES}
        found["kind"] = self._rule.kind
        for each in self._rule.fields:
            if not each.paths:
                found[each.rule.place] = each.rule.constant
        if not any(each.paths and each.rule.place in ("kind", "action") for each in self._rule.fields):
            found["kind"] = found["kind"] or kind_of(found["action"] or b"N")
            found["action"] = found["action"] or action_of(found["kind"])
        if any(each.rule.signed and not each.paths for each in self._rule.fields):
            found |= {"side": b"A" if found["size"] < 0 else b"B", "size": abs(found["size"])}
        return found

    def _write_whole(self) -> None:
        """The message itself, where it names its symbol and has its numbers beside its records."""
        self._line("try:")
        self._depth += 1
        self._write_symbol("message")
        self._write_numbers("message", is_whole=True)
        self._depth -= 1
        # Without them, each record has its own.
        self._line("except BadRecord:", "    pass", "else:", "    into.whole(rule, symbol, numbers)")

    def _write_record(self, base: str) -> None:
        rounds, given = self._rule.rounding.rounds, self._constants()
        self._names["rounding"] = self._rule.rounding
        self._line("fault = None", "try:")
        self._depth += 1
        self._write_symbol(base)
        for each in self._rule.fields:
            if each.paths:
                self._write_field(each, base)
        self._write_kind()
        self._write_numbers(base)
        self._depth -= 1
        self._line("except BadRecord as error:", "    fault = at + str(error)")
        if rounds:
            self._line("rounded, rounding.rounded = rounding.rounded, False")
        self._line("if fault is not None:", "    into.refuse(fault)")
        self._line("else:")
        self._depth += 1
        if rounds:
            self._line("if rounded:", "    into.rounded()")
        if self._rule.numbering is not None:
            self._line("if numbers is None or into.follow(rule, symbol, numbers, ts_event):")
            self._depth += 1
        values = ", ".join(place if place in self._varying else repr(given[place]) for place in PLACES)
        self._line(f"add(rule, symbol, ({values}))")
        self._depth -= 1 + (self._rule.numbering is not None)

    def _write_value(self, to: str, paths: Sequence[Path_], base: str) -> None:
        """The first value that is there: in the record by any of the paths, then in the message."""
        for number, path in enumerate(paths):
            if number:
                self._line(f"if {to} is None:")
                self._depth += 1
            if base == "message":
                path = _of_message(path) or path
            if (outer := _of_message(path)) is not None:
                self._write_outer(to, outer)
            elif number:
                self._line(f"{to} = at_path({base}, {path!r})")
            else:
                self._look(to, base, path)
            self._depth -= bool(number)
        for path in paths if base == "item" else ():
            if _of_message(path) is None:
                self._line(f"if {to} is None:")
                self._depth += 1
                self._write_outer(to, path)
                self._depth -= 1

    def _write_outer(self, to: str, path: Path_) -> None:
        """A value of the message itself, which is looked for once."""
        name = self._outer.setdefault(path, f"outer{len(self._outer)}")
        self._line(f"if {name} is UNSET:")
        known, self._parents = self._parents, {}  # what is looked up here is there in this branch alone
        self._depth += 1
        self._look(name, "message", path)
        self._depth -= 1
        self._parents = known
        self._line(f"{to} = {name}")

    def _later(self, name: str) -> str:
        """A variable that is ``UNSET`` at first."""
        if name not in self._latest:
            self._latest.append(name)
        return name

    def _write_symbol(self, base: str) -> None:
        rule = self._rule
        if rule.constant is not None:
            self._line(f"symbol = {rule.constant!r}")
            return
        self._line("at = 'symbol: '")
        parts = [f"part{number}" for number in range(len(rule.symbol))]
        for part, path in zip(parts, rule.symbol, strict=True):
            self._write_value(part, [path], base)
        latest = [self._later(f"latest_{part}") for part in parts]
        changed = " or ".join(f"{part} is not {last}" for part, last in zip(parts, latest, strict=True))
        self._line(f"if {changed}:", f"    symbol = name_of({', '.join(parts)})")
        self._line(*(f"    {last} = {part}" for part, last in zip(parts, latest, strict=True)))

    def _write_field(self, field: Field, base: str) -> None:
        rule, to = field.rule, field.rule.place
        own = self._object(field)
        none = UNDEF_PRICE if rule.field in PRICES else self._constants()[to]
        self._line(f"at = '{rule.field}: '")
        self._write_value("value", field.paths, base)
        lacks = [f"    {to} = {none!r}", *["    side = b'N'"] * rule.signed]
        self._line("if value is None:")
        self._line(*(lacks if rule.optional else [f"    raise {own}.missing({base}, message)"]))
        if rule.empty:
            self._line("elif value == '':", *lacks)
        if rule.undefined:
            self._line(f"elif {own}.is_undefined(value):", *lacks)
        self._line("else:")
        self._depth += 1
        if field.map:
            table, otherwise = self._object(field.map), self._object(rule.otherwise)
            text = "value if type(value) is str else text_of(value)"
            self._line(f"{to} = {table}.get({text}, {otherwise})")
            self._line(f"if {to} is None:", f"    raise {own}.unknown(value)")
        elif field.clock is not None:
            self._line(f"{to} = {own}.clock_of(value, {base}, message)")
        elif field.known is not None:
            known, convert = self._object(field.known.get), self._object(field.convert)
            self._line(f"{to} = {known}(value) if type(value) is str else None")
            self._line(f"if {to} is None:", f"    {to} = {convert}(value)")
        else:
            self._write_conversion(field, base)
        if rule.zero:
            self._line(f"if {to} == 0:", f"    {to} = {UNDEF_PRICE}")
        if rule.signed:
            self._line("side = b'A' if size < 0 else b'B' if size else b'N'", "size = abs(size)")
        self._depth -= 1

    def _write_conversion(self, field: Field, base: str) -> None:
        """Lines that convert a value; one that all records of a message have in common is converted once."""
        to, convert = field.rule.place, self._object(field.convert)
        if base == "message" or not field.is_pure:
            self._line(f"{to} = {convert}(value)")
            return
        raw, made = self._later(f"raw_{to}"), f"made_{to}"
        self._line(f"if value is not {raw}:", f"    {made} = {convert}(value)", f"    {raw} = value", f"{to} = {made}")

    def _write_kind(self) -> None:
        """Lines for a kind or an action that varies: an action says the kind, or a kind the action."""
        varying = {each.rule.place for each in self._rule.fields if each.paths} & {"kind", "action"}
        action = self._constants()["action"]
        if "kind" in varying:
            self._line("if not kind:", f"    kind = kind_of({'action or ' * ('action' in varying)}{action or b'N'!r})")
        elif varying and not self._constants()["kind"]:
            self._line("kind = kind_of(action or b'N')")
        if "action" in varying:
            self._line("if action is None:", "    action = action_of(kind)")
        elif varying and action is None:
            self._line("action = action_of(kind)")

    def _write_numbers(self, base: str, *, is_whole: bool = False) -> None:
        numbering = self._rule.numbering
        if numbering is None or (numbering.last is None and is_whole):
            self._line(*["numbers = None"] * is_whole)
        elif numbering.last is None:
            self._line("numbers = None if sequence is None else new(Numbers, (sequence, None, None))")
        else:
            self._line("at = ''")
            paths = {"last": numbering.last, "first": numbering.first, "previous": numbering.previous}
            said = {name: path for name, path in paths.items() if path is not None}
            if self._rule.snapshot is not None:
                said = {"last": numbering.last}
            for name, path in said.items():
                self._write_value(name, [path], base)
            self._names["numbers_of"] = _numbers_of(said)
            changed = " or ".join(f"{name} is not {self._later(f'raw_{name}')}" for name in said)
            self._line(f"if {changed}:", f"    numbers = numbers_of({', '.join(said)})")
            self._line(*(f"    raw_{name} = {name}" for name in said))


def _names() -> Callable[..., str]:
    """A function that makes the name of a symbol of its parts, of which those behind the first may be missing."""
    known: dict[str, str] = {}

    def name_of(*parts: Any) -> str:
        first = parts[0]
        if len(parts) == 1 and type(first) is str and (name := known.get(first)) is not None:
            return name
        said = [part.strip(" ") if isinstance(part, str) else text_of(part) for part in parts if part is not None]
        symbol = " ".join(filter(None, said))
        if not isinstance(first, str) or not said[0]:
            raise BadRecord(f"{shown(first)} is not a name")
        if problem := name_problem(symbol):
            raise BadRecord(f"{symbol[:80]!r} {problem}")
        if len(parts) == 1 and len(known) < _NAMES:
            known[first] = symbol
        return symbol

    return name_of


def _numbers_of(paths: Mapping[str, Path_]) -> Callable[..., Numbers]:
    """A function that makes the numbers of a message of the values at the paths, by name."""

    def numbers_of(*values: Any) -> Numbers:
        found: dict[str, int] = {}
        for (name, path), value in zip(paths.items(), values, strict=True):
            if value is None:
                raise BadRecord(f"gapless.{name}: there is no field {'.'.join(path)}")
            try:
                found[name] = whole_number(value)
            except BadRecord as error:
                raise BadRecord(f"gapless.{name}: {error}") from None
        return Numbers(**found)

    return numbers_of
