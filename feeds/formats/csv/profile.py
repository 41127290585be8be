"""Content of a CSV profile, checked key by key, and the choice of one for a file: docs/feeds/csv.md has the keys."""

from __future__ import annotations

import csv
import functools
import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from strand.binding.columns import LETTER_BYTES
from strand.errors import ConfigurationError, FormatError, UnknownFormatError, called
from strand.feeds.base import Flags, TicksAre
from strand.feeds.formats.guess import OTHER_DATABENTO, wrapping
from strand.feeds.io.files import small_text
from strand.feeds.mapping.clocks import Ambiguous, Pattern
from strand.feeds.mapping.events import event_fields, with_last
from strand.feeds.mapping.rules import (
    SIZES,
    TIMES,
    BarsRule,
    FieldRule,
    Night,
    SymbolRule,
    TimeKeys,
    bars_rule,
    checked,
    field_rules,
    flags_of,
    names_of,
    place_of,
    regular,
    symbol_rule,
)
from strand.fixed import dataclass
from strand.validate import few_of, unit_power
from strand.zones import checked_zone

__all__ = [
    "BOM", "FieldRule", "Layout", "Match", "Part", "Profile", "SymbolRule", "built_in", "choose", "match",
    "matches", "named_profile", "normal", "present_parts", "read_profile", "table_match",
]  # fmt: skip

Names = str | list[str]
#: What a part has in the rows that have it.
Filled = Literal["price", "size"]
Encoding = Literal["utf-8", "gb18030", "big5", "latin-1"]
#: Of a book in one row.
_MAX_LEVELS: Final = 64
_MAX_SKIPPED: Final = 100
_QUOTE: Final = ("bid_price", "ask_price")


class _LayoutKeys(msgspec.Struct, frozen=True):
    columns: list[str]
    shape: list[str] = []
    widths: list[int] = []


class _PartKeys(msgspec.Struct, frozen=True):
    levels: int | None = None
    first_level: int = 0
    filled: bool | Filled = False
    where: dict[str, Any] | None = None
    fields: dict[str, Any] = {}


class _ProfileKeys(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    about: str = ""
    described: str = ""
    delimiter: Names = ","
    encoding: Encoding | list[Encoding] = "utf-8"
    header: bool = True
    skip_lines: int = 0
    decimal: Literal[".", ","] = "."
    thousands: Literal[".", ",", "'", "_", " ", ""] = ""
    layouts: list[Any] = []
    requires: Names = []
    without: Names = []
    end: str | None = None
    end_stops: bool = False
    venue: str | None = None
    path: str | None = None
    zones: dict[str, str] = {}
    one_sided: bool = False
    ids_rise: bool = False
    size_unit: Any = 1
    ticks: TicksAre | None = None
    flags: dict[str, Any] = {}
    bars: bool | str | dict[str, str] = False
    event: Names | None = None
    parts: list[Any] = []
    like: dict[str, str] = {}
    symbol: dict[str, Any] = {}
    time: dict[str, Any] = {}
    fields: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a file without a header, and what a field of each looks like, to recognise it by. ``widths``: bytes of
    each, where no delimiter stands between them."""

    columns: tuple[str, ...]
    shape: tuple[re.Pattern[str], ...]
    widths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Tick of the several that a row becomes.

    ``fields`` come beside those of the profile. ``where``, ``text``: only rows whose column ``where`` holds ``text``
    have the part. ``filled``: only rows have it in which the part has a price or a size, or the one of the two.
    ``level``: the part is that
    level of a book.
    """

    fields: tuple[FieldRule, ...]
    where: tuple[str, ...] = ()
    text: str = ""
    filled: bool | Filled = False
    level: int | None = None

    def columns(self) -> list[tuple[str, ...]]:
        """Names of each column that it needs."""
        found = [rule.columns for rule in self.fields if rule.columns and not rule.optional]
        return [*found, self.where] if self.where else found


@dataclass(frozen=True)
class Profile:
    """Rules that turn the lines of a CSV file into ticks."""

    name: str
    about: str
    described: str
    """The public description of the format."""
    source: str
    symbol: SymbolRule
    fields: tuple[FieldRule, ...]
    delimiters: tuple[str, ...]
    encodings: tuple[str, ...]
    header: bool
    layouts: tuple[Layout, ...]
    requires: tuple[str, ...]
    without: tuple[str, ...]
    like: tuple[tuple[str, re.Pattern[str]], ...]
    end: str | None
    end_stops: bool
    """Lines behind a closing line are no data."""
    venue: str | None
    ids_rise: bool
    """``ref_id`` rises from row to row of a symbol: a row whose id does not is counted."""
    one_sided: bool
    """A quote without one side's price leaves that side as it was; else the side is empty."""
    zone: str
    path: re.Pattern[str] | None
    """Only files whose path it is found in are recognised as the profile's."""
    zones: tuple[tuple[re.Pattern[str], str], ...]
    """The zone of files whose path a pattern is found in, in place of ``zone``; empty: it has to be given."""
    ambiguous: Ambiguous
    date_columns: tuple[str, ...]
    date_format: Pattern | None
    night: Night | None
    skip_lines: int
    """Lines above the header, or above the first line of data where there is none."""
    marks: tuple[bytes, bytes]
    """What stands before a number's fraction, and between groups of three digits; both empty: a point, and nothing."""
    size_power: int
    parts: tuple[Part, ...]
    ticks: TicksAre | None
    """None: it does not say."""
    flags: Flags
    bars: BarsRule | None
    """Rows are bars."""
    event: tuple[str, ...]
    """What the ticks of an event have in common: fields, or ``("row",)``. Empty: each tick is one."""
    sets_last: int
    """The flag that the reader sets at the end of an event; 0: none, or the file has it."""

    @property
    def every_rule(self) -> list[FieldRule]:
        """The rules of all rows, and those of their parts."""
        return [*self.fields, *(rule for part in self.parts for rule in part.fields)]

    @functools.cached_property
    def needed(self) -> list[tuple[str, frozenset[str]]]:
        """Names of each column that has to be there: in words, and as they are compared."""
        wanted = [rule.columns for rule in self.fields if rule.columns and not rule.optional]
        wanted += [names for rule in self.fields for names in rule.pair]
        wanted += [self.symbol.columns] if self.symbol.columns and self.symbol.file_name is None else []
        wanted += [self.date_columns] if self.date_columns else []
        wanted += [(name,) for name in self.symbol.joined]
        wanted += [names for part in self.parts if not part.level for names in part.columns()]
        wanted += [(name,) for name in self.requires]
        return [(" or ".join(map(repr, names)), frozenset(map(normal, names))) for names in dict.fromkeys(wanted)]


@functools.lru_cache(maxsize=4096)
def normal(name: str) -> str:
    """A column's name as it is compared: case, underscores and outer spaces do not count."""
    return name.strip().replace("_", " ").casefold()


def read_profile(text: str, source: str) -> Profile:
    """A profile from TOML. Raises ConfigurationError naming the key that is wrong."""
    where = f"profile {source}"
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(where, f"is not TOML: {error}") from None
    keys = checked(_ProfileKeys, given, where)
    time = checked(TimeKeys, keys.time, f"{where}.time")
    if len((keys.end or "").encode()) > LETTER_BYTES:
        raise ConfigurationError(f"{where}.end", f"is longer than {LETTER_BYTES} bytes")
    if keys.end == "":
        raise ConfigurationError(f"{where}.end", "is empty: each row whose first field is empty would close the file")
    size_power = unit_power(f"{where}.size_unit", keys.size_unit)
    fields = field_rules(keys.fields, f"{where}.fields", size_power=size_power)
    parts = tuple(
        part
        for at, given_part in enumerate(keys.parts, 1)
        for part in _parts(given_part, f"{where}.parts[{at}]", size_power)
    )
    all_rules = [*fields, *(rule for part in parts for rule in part.fields)]
    profile = Profile(
        name=keys.name or Path(source).stem,
        about=keys.about,
        described=keys.described,
        source=source,
        symbol=symbol_rule(keys.symbol, f"{where}.symbol", may_lack_column=True),
        fields=fields,
        delimiters=names_of(keys.delimiter),
        encodings=names_of(keys.encoding),
        header=keys.header,
        layouts=tuple(_layout(layout, f"{where}.layouts[{at}]") for at, layout in enumerate(keys.layouts, 1)),
        requires=names_of(keys.requires),
        without=names_of(keys.without),
        like=tuple((name, regular(shape, f"{where}.like.{name}")) for name, shape in keys.like.items()),
        end=keys.end,
        end_stops=keys.end_stops,
        venue=keys.venue,
        one_sided=keys.one_sided,
        ids_rise=keys.ids_rise,
        zone=time.checked_zone(f"{where}.time") or "UTC",
        path=None if keys.path is None else regular(keys.path, f"{where}.path"),
        zones=tuple(
            (regular(path, f"{where}.zones"), checked_zone(f"{where}.zones.{path!r}", zone) if zone else "")
            for path, zone in keys.zones.items()
        ),
        ambiguous=time.ambiguous,
        date_columns=names_of(time.date_column),
        date_format=time.date_pattern(f"{where}.time"),
        night=time.checked_night(f"{where}.time"),
        skip_lines=keys.skip_lines,
        marks=(b"", b"") if keys.decimal == "." and not keys.thousands else _marks(keys, where),
        size_power=size_power,
        parts=parts,
        ticks=keys.ticks,
        bars=bars_rule(keys.bars, f"{where}.bars"),
        flags=flags_of(all_rules, keys.ticks, keys.flags, where),
        event=_event(keys, parts, f"{where}.event"),
        sets_last=0,
    )
    if profile.event and not profile.flags.last:
        flags = with_last(profile.flags, None if keys.event is None else f"{where}.event")
        profile = replace(profile, flags=flags, sets_last=flags.last)
    _check(profile, where)
    return profile


def _marks(keys: _ProfileKeys, where: str) -> tuple[bytes, bytes]:
    if keys.decimal == keys.thousands:
        raise ConfigurationError(f"{where}.thousands", f"{keys.thousands!r} stands before a fraction already (decimal)")
    return keys.decimal.encode(), keys.thousands.encode()


def _event(keys: _ProfileKeys, parts: tuple[Part, ...], where: str) -> tuple[str, ...]:
    if keys.event is None:
        return ("row",) if any(part.level is not None for part in parts) else ()
    names = names_of(keys.event)
    if names == ("tick",):
        return ()
    if names == ("row",):
        return names
    return event_fields(names, where)


def _parts(given: Any, where: str, size_power: int) -> list[Part]:
    """Returns one part, or one for each level of ``levels``."""
    keys = checked(_PartKeys, given, where)
    names: tuple[str, ...] = ()
    text = ""
    if keys.where is not None:
        names, text = _where(keys.where, f"{where}.where")
    fields = field_rules(keys.fields, f"{where}.fields", size_power=size_power)
    if not fields or {rule.field for rule in fields} & {*TIMES, "sequence"}:
        raise ConfigurationError(
            f"{where}.fields", "give fields of the part alone; times and sequence belong to the whole row"
        )
    _check_map(fields, where)
    if keys.levels is not None and any(rule.running for rule in fields):
        raise ConfigurationError(
            f"{where}.fields.size.running", "is for one size of a row, not for those of its levels"
        )
    if not 0 <= keys.first_level <= 1:
        raise ConfigurationError(f"{where}.first_level", f"give 0 or 1, not {keys.first_level}")
    if keys.levels is None:
        return [Part(fields, names, text, keys.filled)]
    if not 1 <= keys.levels <= _MAX_LEVELS:
        raise ConfigurationError(f"{where}.levels", f"give 1 to {_MAX_LEVELS}, not {keys.levels}")
    return [
        Part(
            (
                *(replace(rule, columns=_at_level(rule.columns, level + keys.first_level)) for rule in fields),
                FieldRule("depth", constant=level),
            ),
            names,
            text,
            keys.filled or level > 0,
            level,
        )
        for level in range(keys.levels)
    ]


def _where(given: Any, where: str) -> tuple[tuple[str, ...], str]:
    if set(given) != {"column", "is"} or not all(isinstance(each, str) for each in given.values()):
        raise ConfigurationError(where, "give column and is: a column's name and the text that it must hold")
    if len(given["is"].encode("utf-8")) > LETTER_BYTES:
        raise ConfigurationError(f"{where}.is", f"is longer than {LETTER_BYTES} bytes")
    return names_of(given["column"]), given["is"]


def _at_level(names: tuple[str, ...], level: int) -> tuple[str, ...]:
    return tuple(name.replace("{level}", str(level)).replace("{level:02}", f"{level:02}") for name in names)


def _check_map(rules: tuple[FieldRule, ...], where: str) -> None:
    for rule in rules:
        texts = [*rule.map, *(rule.plus.ns if rule.plus is not None else ())]
        for text, _ in texts:
            if len(text.encode("utf-8")) > LETTER_BYTES:
                raise ConfigurationError(
                    f"{where}.fields.{rule.field}.map.{text}", f"is longer than {LETTER_BYTES} bytes"
                )


def _check(profile: Profile, where: str) -> None:
    if not any(rule.field in TIMES and rule.columns for rule in profile.fields):
        raise ConfigurationError(f"{where}.fields", "has neither ts_event nor ts_recv: a tick needs a time")
    if not 0 <= profile.skip_lines <= _MAX_SKIPPED:
        raise ConfigurationError(f"{where}.skip_lines", f"give 0 to {_MAX_SKIPPED}, not {profile.skip_lines}")
    if profile.marks[0] and profile.marks[0].decode() in profile.delimiters:
        raise ConfigurationError(f"{where}.decimal", f"{profile.marks[0].decode()!r} is the delimiter, too")
    for delimiter in profile.delimiters:
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter.isalnum() or delimiter in '"\r\n.+- ':
            raise ConfigurationError(f"{where}.delimiter", f"{delimiter!r} is not one character like , or |")
        for encoding in ("gb18030", "big5"):
            if encoding in profile.encodings and delimiter >= "@":
                raise ConfigurationError(
                    f"{where}.delimiter", f"{delimiter!r} may be part of a character in {encoding}: use utf-8"
                )
    if not profile.header and not profile.layouts:
        raise ConfigurationError(f"{where}.layouts", "is needed where header is false: what the columns are called")
    _check_map(profile.fields, where)
    adds = any(rule.field == "ts_recv" and rule.plus and rule.plus.ns for rule in profile.fields)
    if profile.bars == BarsRule() and not adds:
        raise ConfigurationError(
            f"{where}.bars",
            'give fields.ts_recv.plus.seconds too, or the length of all bars in place of true, as in bars = "1m"',
        )
    if profile.bars not in (None, BarsRule()) and {rule.field for rule in profile.fields} & {"ts_recv"}:
        raise ConfigurationError(f"{where}.fields.ts_recv", "leave it out: it is the bar's end, by bars")
    if profile.one_sided and not any(rule.field in _QUOTE for rule in profile.every_rule):
        raise ConfigurationError(f"{where}.one_sided", "is for quotes, which have bid_price and ask_price")
    running = [rule.running for rule in profile.every_rule if rule.running]
    if len(running) > 1:
        raise ConfigurationError(f"{where}.fields.size.running", "give it once")
    if running == ["level"]:
        told = {rule.field for rule in profile.fields if rule.columns}
        lacking = [name for name in ("side", "price", "size", "action") if name not in told]
        if lacking or profile.parts or profile.event != ("ts_recv",):
            raise ConfigurationError(
                f"{where}.fields.size.running",
                '"level" is for rows that become one tick each, with columns for side, price, size and action, and '
                'event = "ts_recv"',
            )
    if profile.ids_rise and (profile.parts or not any(rule.field == "ref_id" for rule in profile.fields)):
        raise ConfigurationError(f"{where}.ids_rise", "is for rows that become one tick each, with a ref_id")


def _layout(given: Any, where: str) -> Layout:
    keys = checked(_LayoutKeys, given, where)
    if not keys.columns or (keys.shape and len(keys.shape) != len(keys.columns)):
        raise ConfigurationError(f"{where}.shape", f"has {len(keys.shape)} patterns for {len(keys.columns)} columns")
    widths = tuple(keys.widths)
    if widths and (len(widths) != len(keys.columns) or min(widths) < 1):
        raise ConfigurationError(f"{where}.widths", "give the bytes of each column, at least 1")
    return Layout(tuple(keys.columns), tuple(regular(text, f"{where}.shape") for text in keys.shape), widths)


@functools.cache
def built_in() -> tuple[Profile, ...]:
    """The profiles that come with strand, by name."""
    folder = resources.files(__package__).joinpath("profiles")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return tuple(read_profile(file.read_text("utf-8"), file.name) for file in files)


def named_profile(name: str | Path) -> Profile:
    """A built-in profile by its name, or one of the user's by its path. Raises ConfigurationError."""
    for profile in built_in():
        if profile.name == str(name):
            return profile
    path = Path(name)
    if path.suffix != ".toml":
        known = [profile.name for profile in built_in()]
        raise ConfigurationError(
            "profile",
            f"{called(str(name))!r} is neither a .toml file nor one of the {len(known)} built-in profiles; "
            f"{few_of(str(name), known)}; docs/feeds/csv.md lists all of them",
        )
    return read_profile(small_text(path, "profile"), str(name))


BOM: Final = b"\xef\xbb\xbf"
_SHAPE_LINES: Final = 5
#: Column names shown in an error.
_SHOWN: Final = 40
_LAST_COLUMN: Final = 255  # a fault's word has a byte for the column


@dataclass(frozen=True, slots=True)
class Match:
    """A file seen through a profile: ``columns`` are the file's names by position, ``skip`` the bytes to pass over
    before the first line of data, ``lines`` how many lines that is."""

    profile: Profile
    columns: tuple[str, ...]
    delimiter: str
    encoding: str
    skip: int
    lines: int
    widths: tuple[int, ...] = ()

    def fields(self, line: str) -> list[str]:
        """The fields of a line."""
        return _parted(line, self.widths) if self.widths else _fields(line, self.delimiter)

    @property
    def symbol(self) -> SymbolRule:
        """The rule of the symbol in this file."""
        rule = self.profile.symbol
        if not rule.columns or rule.file_name is None:
            return rule
        there = self.column(rule.columns) is not None
        return rule._replace(file_name=None) if there else rule._replace(columns=())

    @property
    def bar_column(self) -> tuple[str, ...]:
        """The names of the column whose text says how long each row's bar is; empty: none does."""
        if self.profile.bars != BarsRule():
            return ()
        return next(rule.plus.columns for rule in self.profile.fields if rule.field == "ts_recv" and rule.plus)

    @property
    def has_sizes(self) -> bool:
        """True if a column or a constant gives a size."""
        sizes = [rule for rule in self.profile.every_rule if rule.field in SIZES]
        return any(not rule.columns or self.column(rule.columns) is not None for rule in sizes)

    def column(self, names: Sequence[str]) -> int | None:
        """The position of the first column with one of these names."""
        places = _places(self.columns)
        return min((places[name][0] for name in map(normal, names) if name in places), default=None)

    def read_column(self, names: Sequence[str]) -> int:
        """Position of a column that exists and is read.

        Raises FormatError where other columns have its name, so that the name is ambiguous. Raises it too for a column
        further to the right than columns are read.
        """
        at = self.column(names)
        assert at is not None, names  # the match has checked that it is there
        alike = [self.columns[place] for place in _places(self.columns)[normal(self.columns[at])]]
        if len(alike) > 1:
            twice = " and ".join(map(repr, alike[:2]))
            raise FormatError(
                f"rename or remove one of the {len(alike)} columns {twice}: their names are the same to the reader (it "
                "ignores case, underscores and outer spaces)"
            )
        if at > _LAST_COLUMN:
            raise FormatError(
                f"column {self.columns[at]!r} is number {at + 1}: only the first {_LAST_COLUMN + 1} can be read"
            )
        return at


@functools.lru_cache(maxsize=64)
def _places(columns: tuple[str, ...]) -> dict[str, list[int]]:
    """Positions of each column name, in its compared form. Cached, since every profile asks for those of the same
    header."""
    places: dict[str, list[int]] = {}
    for at, name in enumerate(columns):
        places.setdefault(normal(name), []).append(at)
    return places


class _Head:
    """The first lines of a file, decoded and split once for all profiles that want them alike."""

    def __init__(self, head: bytes, above: int = 0) -> None:
        self._head = head
        #: Bytes before the first line, and before the second. ``above``: lines that are passed over.
        self.skip = len(BOM) if head.startswith(BOM) else 0
        for _ in range(above):
            self.skip += _line_bytes(head[self.skip :])
        self.above = above
        self.lines = _first_lines(head[self.skip :], _SHAPE_LINES)
        self.second = self.skip + _line_bytes(head[self.skip :])
        self._texts: dict[tuple[str, ...], tuple[list[str], str]] = {}
        self._rows: dict[tuple[tuple[str, ...], str], list[list[str]]] = {}

    def below(self, lines: int) -> _Head:
        """Head without so many lines at its start."""
        return _Head(self._head, lines) if lines else self

    def texts(self, encodings: tuple[str, ...]) -> tuple[list[str], str]:
        """The lines, each by the first encoding that it is in, and that of the first line; empty: it is in none."""
        if encodings not in self._texts:
            decoded = [_decoded(line, encodings) for line in self.lines]
            self._texts[encodings] = [text for text, _ in decoded], decoded[0][1]
        return self._texts[encodings]

    def rows(self, encodings: tuple[str, ...], delimiter: str) -> list[list[str]]:
        """The lines' fields."""
        key = encodings, delimiter
        if key not in self._rows:
            self._rows[key] = [_fields(text, delimiter) for text in self.texts(encodings)[0]]
        return self._rows[key]


def matches(head: bytes) -> Iterator[Match]:
    """The file through each built-in profile that it may be for, where it starts with ``head``."""
    split = _Head(head)
    return (found for found in (_match(profile, split) for profile in built_in()) if isinstance(found, Match))


def choose(head: bytes, path: str | Path, names: Sequence[str] = ()) -> Match:
    """Chooses the built-in profile for a file that begins with ``head``.

    Of several profiles, it takes the one whose pattern of a file's name fits one of ``names``, of the file and of its
    archive. Raises UnknownFormatError where there is no such profile, or more than one.
    """
    place = place_of(names or [str(path)])
    found = [each for each in matches(head) if each.profile.path is None or each.profile.path.search(place)]
    if len(found) > 1:
        named = [each for each in found if _fits_name(each.profile, names)]
        found = named if len(named) == 1 else found
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.profile.name for each in found)
    if found:
        by_path = any(each.profile.path is not None for each in found)
        more = ", or leave it in the folders of its source" * by_path
        raise UnknownFormatError(f"could be {names}: say which with profile={found[0].profile.name!r}{more}", path=path)
    first = _decoded(_first_lines(head, 1)[0], ("utf-8", "gb18030", "latin-1"))[0] if _first_lines(head, 1) else ""
    known = ", ".join(profile.name for profile in built_in())
    if "rtype" in first.split(",") and "publisher_id" in first.split(","):
        raise UnknownFormatError(OTHER_DATABENTO, path=path)
    raise UnknownFormatError(
        f"no profile fits its first line, {first[:200]!r}: give one of {known}, or a .toml file of your own, by "
        "profile=",
        path=path,
    )


def present_parts(found: Match, levels: int | None = None) -> list[Part]:
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


def table_match(names: Sequence[str], profiles: Iterable[Profile]) -> Match | None:
    """A table with columns of these names, seen through the first of the profiles that it fits."""
    found = (Match(profile, tuple(names), ",", "utf-8", 0, 0) for profile in profiles)
    return next(filter(_has_all, found), None)


def _fits_name(profile: Profile, names: Sequence[str]) -> bool:
    pattern = profile.symbol.file_name
    return pattern is not None and any(pattern.search(Path(name).name) for name in names)


def match(profile: Profile, head: bytes, path: str | Path | None = None) -> Match | FormatError:
    """The file through this profile, or why not."""
    if (wrapped := wrapping(head)) is not None:
        return FormatError(wrapped, path=path)
    found = _match(profile, _Head(head))
    return found if isinstance(found, Match) else found(path=path)


def _match(profile: Profile, head: _Head) -> Match | Callable[..., FormatError]:
    """The file through this profile, or a function that makes the error, given ``path``: the words of a mismatch take
    longer than finding it, and a file is compared with each profile."""
    head = head.below(profile.skip_lines)
    if not head.lines:
        return functools.partial(FormatError, "there is no line in it" + " below skip_lines" * bool(profile.skip_lines))
    problem: Callable[..., FormatError] | None = None
    width = -1
    (text, *_), encoding = head.texts(profile.encodings)
    if not encoding:
        return functools.partial(FormatError, f"its first line is not {' or '.join(profile.encodings)}", line=1)
    for delimiter in profile.delimiters:
        rows = head.rows(profile.encodings, delimiter)
        texts = head.texts(profile.encodings)[0]
        for layout in profile.layouts:
            split = [_parted(text, layout.widths) for text in texts] if layout.widths else rows
            whole = split[: -1 if len(split) > 1 else None]
            # Each line may end with a delimiter: behind it is an empty field, which has no name.
            ended = ("",) if all(len(row) == len(layout.columns) + 1 and not row[-1].strip() for row in whole) else ()
            shaped = all(
                len(row) == len(layout.columns + ended)
                and all(shape.fullmatch(field.strip()) for shape, field in zip(layout.shape, row, strict=False))
                for row in whole
            )
            if shaped and (layout.shape or not profile.header):
                return Match(profile, layout.columns + ended, delimiter, encoding, head.skip, head.above, layout.widths)
        if profile.header:
            columns = tuple(rows[0])
            # Lines that end with a delimiter under a header that does not.
            if len(rows) > 1 and len(rows[1]) == len(columns) + 1 and rows[1][-1].strip() == "":
                columns += ("",)
            found = Match(profile, columns, delimiter, encoding, head.second, head.above + 1)
            if _has_all(found) and not (len(rows) > 2 and _unlike(found, rows[1])):
                return found
            if len(columns) > width:  # the delimiter that parts the header is the file's
                problem, width = functools.partial(_mismatch, found, rows), len(columns)
        elif problem is None:
            counts = " or ".join(str(len(layout.columns)) for layout in profile.layouts)
            problem = functools.partial(
                FormatError,
                f"its first line, {text[:200]!r}, does not have the {counts} columns of {profile.name}",
                line=1,
            )
    assert problem is not None  # a profile has a delimiter
    return problem


def _mismatch(found: Match, rows: list[list[str]], path: str | Path | None) -> FormatError:
    """The error of a file whose header is another one's."""
    here = _missing(found) or _unlike(found, rows[1])
    return FormatError(here + _header_below(found.profile, rows), path=path, line=1)


def _header_below(profile: Profile, rows: list[list[str]]) -> str:
    """The cure where a line further down has all columns that the profile needs."""
    for above, row in enumerate(rows[1:], 1):
        places = _places(tuple(row)).keys()
        if profile.needed and all(not compared.isdisjoint(places) for _, compared in profile.needed):
            return f"; line {profile.skip_lines + above + 1} has them: give skip_lines = {profile.skip_lines + above}"
    return ""


def _has_all(found: Match) -> bool:
    """Tells whether the header has each column that the profile needs, and not the one that it is to be without."""
    places = _places(found.columns).keys()
    lacking = any(compared.isdisjoint(places) for _, compared in found.profile.needed)
    return not lacking and found.column(found.profile.without) is None


def _missing(found: Match) -> str:
    profile, places = found.profile, _places(found.columns).keys()
    lacking = [names for names, compared in profile.needed if compared.isdisjoint(places)]
    if lacking:
        there = ", ".join(found.columns[:_SHOWN]) + (", ..." if len(found.columns) > _SHOWN else "")
        return f"its header lacks {', '.join(lacking)}, which {profile.name} needs; it has {there}"
    if (unwanted := found.column(profile.without)) is not None:
        return f"its header has {found.columns[unwanted]!r}, which {profile.name} does not have"
    return ""


def _unlike(found: Match, row: list[str]) -> str:
    """Difference between the first line of data and the profile's files, in words."""
    for name, shape in found.profile.like:
        at = found.column((name,))
        if at is not None and at < len(row) and not shape.fullmatch(row[at].strip()):
            return (
                f"{name} is {row[at]!r} in its first line of data, which is not {shape.pattern} ({found.profile.name})"
            )
    return ""


def _parted(line: str, widths: Sequence[int]) -> list[str]:
    """Fields of a line of fixed width; the line alone, if it is of another."""
    ends = list(itertools.accumulate(widths))
    return (
        [line[end - width : end] for end, width in zip(ends, widths, strict=True)] if len(line) == ends[-1] else [line]
    )


def _fields(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _decoded(line: bytes, encodings: Sequence[str]) -> tuple[str, str]:
    for encoding in encodings:
        try:
            return line.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return line.decode("latin-1"), ""


def _line_bytes(data: bytes) -> int:
    """Bytes of the first line, its end included."""
    end = re.search(rb"\r\n|\n|\r", data)
    return end.end() if end else len(data)


def _first_lines(head: bytes, count: int) -> list[bytes]:
    """Whole lines from the start, without their ends; the last one may be cut where ``head`` is."""
    lines = re.split(rb"\r\n|\n|\r", head.removeprefix(BOM), maxsplit=count)[:count]
    return lines if any(lines) else []
