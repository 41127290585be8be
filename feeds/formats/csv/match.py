"""Choice of the profile for a CSV file, and the positions of its columns, from the file's first bytes."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strand.errors import FormatError, UnknownFormatError
from strand.feeds.formats.csv.profile import Profile, built_in, normal
from strand.feeds.formats.guess import wrapping

__all__ = ["BOM", "Match", "choose", "match", "matches"]

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
    found = list(matches(head))
    if len(found) > 1:
        named = [each for each in found if _fits_name(each.profile, names)]
        found = named if len(named) == 1 else found
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.profile.name for each in found)
    if found:
        raise UnknownFormatError(f"could be {names}: say which with profile={found[0].profile.name!r}", path=path)
    first = _decoded(_first_lines(head, 1)[0], ("utf-8", "gb18030", "latin-1"))[0] if _first_lines(head, 1) else ""
    known = ", ".join(profile.name for profile in built_in())
    if "rtype" in first.split(",") and "publisher_id" in first.split(","):
        raise UnknownFormatError(
            "looks like Databento's CSV of a schema without a profile: read its DBN file, or have symbols written into "
            "it (map_symbols) if it is of mbo, trades, mbp, tbbo, bbo or ohlcv",
            path=path,
        )
    raise UnknownFormatError(
        f"no profile fits its first line, {first[:200]!r}: give one of {known}, or a .toml file of your own, by "
        "profile=",
        path=path,
    )


def _fits_name(profile: Profile, names: Sequence[str]) -> bool:
    pattern = profile.symbol.file_name
    return pattern is not None and any(pattern.search(Path(name).name) for name in names)


def match(profile: Profile, head: bytes, path: str | Path | None = None) -> Match | FormatError:
    """The file through this profile, or why not."""
    if (wrapped := wrapping(head)) is not None:
        return FormatError(wrapped, path=path)
    return _match(profile, _Head(head), path)


def _match(profile: Profile, head: _Head, path: str | Path | None = None) -> Match | FormatError:
    head = head.below(profile.skip_lines)
    if not head.lines:
        return FormatError("there is no line in it" + " below skip_lines" * bool(profile.skip_lines), path=path)
    problem = ""
    (text, *_), encoding = head.texts(profile.encodings)
    if not encoding:
        return FormatError(f"its first line is not {' or '.join(profile.encodings)}", path=path, line=1)
    for delimiter in profile.delimiters:
        rows = head.rows(profile.encodings, delimiter)
        for layout in profile.layouts:
            shaped = all(
                len(row) == len(layout.columns)
                and all(shape.fullmatch(field.strip()) for shape, field in zip(layout.shape, row, strict=False))
                for row in rows[: -1 if len(rows) > 1 else None]
            )
            if shaped and (layout.shape or not profile.header):
                return Match(profile, layout.columns, delimiter, encoding, head.skip, head.above)
        if profile.header:
            columns = tuple(rows[0])
            # Lines that end with a delimiter under a header that does not.
            if len(rows) > 1 and len(rows[1]) == len(columns) + 1 and rows[1][-1].strip() == "":
                columns += ("",)
            found = Match(profile, columns, delimiter, encoding, head.second, head.above + 1)
            here = _missing(found) or (_unlike(found, rows[1]) if len(rows) > 2 else "")
            if not here:
                return found
            problem = problem or here + _header_below(profile, rows)
        else:
            counts = " or ".join(str(len(layout.columns)) for layout in profile.layouts)
            problem = problem or f"its first line, {text[:200]!r}, does not have the {counts} columns of {profile.name}"
    return FormatError(problem, path=path, line=1)


def _header_below(profile: Profile, rows: list[list[str]]) -> str:
    """The cure where a line further down has all columns that the profile needs."""
    for above, row in enumerate(rows[1:], 1):
        places = _places(tuple(row)).keys()
        if profile.needed and all(not compared.isdisjoint(places) for _, compared in profile.needed):
            return f"; line {profile.skip_lines + above + 1} has them: give skip_lines = {profile.skip_lines + above}"
    return ""


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
