"""Which profile a CSV file is for, and where its columns are, from the file's first bytes."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strand.errors import FormatError, UnknownFormatError
from strand.feeds.formats.csv.profile import Profile, built_in, normal

__all__ = ["BOM", "Match", "choose", "match"]

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
        """The same of a column that is there, and that is read.

        Raises FormatError where others have its name, so that nobody knows which one is meant, and where it lies
        further to the right than columns are read.
        """
        at = self.column(names)
        assert at is not None, names  # the match has checked that it is there
        alike = [self.columns[place] for place in _places(self.columns)[normal(self.columns[at])]]
        if len(alike) > 1:
            twice = " and ".join(map(repr, alike[:2]))
            raise FormatError(
                f"rename or remove one of the {len(alike)} columns {twice}: nobody knows which one is meant (case, "
                "underscores and outer spaces do not count)"
            )
        if at > _LAST_COLUMN:
            raise FormatError(
                f"column {self.columns[at]!r} is number {at + 1}: the first {_LAST_COLUMN + 1} can be read"
            )
        return at


@functools.lru_cache(maxsize=64)
def _places(columns: tuple[str, ...]) -> dict[str, list[int]]:
    """Where each name, as it is compared, stands. Kept, since every profile asks it of the same header."""
    places: dict[str, list[int]] = {}
    for at, name in enumerate(columns):
        places.setdefault(normal(name), []).append(at)
    return places


def choose(head: bytes, path: str | Path) -> Match:
    """The one built-in profile that a file which starts with ``head`` is for.

    Raises UnknownFormatError where there is none, or more than one.
    """
    found = [each for each in (match(profile, head) for profile in built_in()) if isinstance(each, Match)]
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
        f"no profile knows its first line, {first[:200]!r}: name one of {known}, or a .toml file of your own, with "
        "profile=",
        path=path,
    )


def match(profile: Profile, head: bytes, path: str | Path | None = None) -> Match | FormatError:
    """The file through this profile, or why not."""
    lines = _first_lines(head, _SHAPE_LINES)
    if not lines:
        return FormatError("there is no line in it", path=path)
    skip = len(BOM) if head.startswith(BOM) else 0
    problem = ""
    text, encoding = _decoded(lines[0], profile.encodings)
    if not encoding:
        return FormatError(f"its first line is not {' or '.join(profile.encodings)}", path=path, line=1)
    for delimiter in profile.delimiters:
        rows = [_fields(_decoded(line, profile.encodings)[0], delimiter) for line in lines]
        for layout in profile.layouts:
            shaped = all(
                len(row) == len(layout.columns)
                and all(shape.fullmatch(field.strip()) for shape, field in zip(layout.shape, row, strict=False))
                for row in rows[: -1 if len(rows) > 1 else None]
            )
            if shaped and (layout.shape or not profile.header):
                return Match(profile, layout.columns, delimiter, encoding, skip, 0)
        if profile.header:
            columns = tuple(rows[0])
            # Lines that end with a delimiter under a header that does not.
            if len(rows) > 1 and len(rows[1]) == len(columns) + 1 and rows[1][-1].strip() == "":
                columns += ("",)
            found = Match(profile, columns, delimiter, encoding, skip + _line_bytes(head[skip:]), 1)
            here = _missing(found) or (_unlike(found, rows[1]) if len(rows) > 2 else "")
            if not here:
                return found
            problem = problem or here
        else:
            counts = " or ".join(str(len(layout.columns)) for layout in profile.layouts)
            problem = problem or f"its first line, {text[:200]!r}, has not the {counts} columns of {profile.name}"
    return FormatError(problem, path=path, line=1)


def _missing(found: Match) -> str:
    profile = found.profile
    lacking = [" or ".join(map(repr, names)) for names in profile.needed() if found.column(names) is None]
    if lacking:
        there = ", ".join(found.columns[:_SHOWN]) + (", ..." if len(found.columns) > _SHOWN else "")
        return f"its header lacks {', '.join(lacking)}, which {profile.name} needs; it has {there}"
    if (unwanted := found.column(profile.without)) is not None:
        return f"its header has {found.columns[unwanted]!r}, which {profile.name} has not"
    return ""


def _unlike(found: Match, row: list[str]) -> str:
    """What in the first line of data is not as the profile's files have it."""
    for name, shape in found.profile.like:
        at = found.column((name,))
        if at is not None and at < len(row) and not shape.fullmatch(row[at].strip()):
            return f"{name} is {row[at]!r} in its first line of data, which {found.profile.name} has as {shape.pattern}"
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
