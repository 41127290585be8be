"""Texts of objects: one short line for ``repr``, without addresses, and the full text for files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

#: Characters of a line.
MAX_LENGTH: Final = 199
#: Names that a list of them shows.
_SHOWN: Final = 4


def one_line(text: str, maximum: int = MAX_LENGTH) -> str:
    """The text on one line: control characters are escaped, and what is longer loses its middle part but for the last
    character."""
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    return text if len(text) <= maximum else f"{text[: maximum - 4]}...{text[-1]}"


def brief(of: object, *figures: str) -> str:
    """``<Rows: 500 symbols, vwap>``: the name of the object's class, and its figures, of which empty ones are left
    out."""
    said = ", ".join(figure for figure in figures if figure)
    return one_line(f"<{type(of).__name__}: {said}>" if said else f"<{type(of).__name__}>")


def several(n: int, noun: str) -> str:
    """``1 tick``, ``2,000 ticks``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def listed(names: Iterable[str]) -> str:
    """The first few names, between commas."""
    first = list(islice(names, _SHOWN + 1))
    return ", ".join(first if len(first) <= _SHOWN else [*first[:_SHOWN], "..."])


def written(options: Any, span_text: Callable[[int], str] | None = None) -> str:
    """Options as one writes them, ``Fair(slice_ms=5.0)``. Those that have their default are left out.

    ``options``: a dataclass that can be made without arguments. ``span_text``: writes the ns of fields that take spans
    of time.
    """
    usual = type(options)()
    said = []
    for one in fields(options):
        value = getattr(options, one.name)
        if one.repr and value != getattr(usual, one.name):
            said.append(f"{one.name}={_value(value, span_text if 'SpanLike' in str(one.type) else None)}")
    return one_line(f"{type(options).__name__}({', '.join(said)})")


def _value(value: Any, span_text: Callable[[int], str] | None) -> str:
    if isinstance(value, Mapping):
        return f"{{{listed(f'{key!r}: {_value(one, span_text)}' for key, one in value.items())}}}"
    if isinstance(value, tuple):
        return f"({listed(_value(one, span_text) for one in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, int) and span_text is not None:
        return repr(span_text(value))
    if callable(value):  # whose own repr has an address
        return str(getattr(value, "__qualname__", type(value).__name__))
    return repr(value)


def in_full(value: Any) -> str:
    """All that a value says, however long: what two files or runs are compared by."""
    if is_dataclass(value) and not isinstance(value, type):
        said = (f"{one.name}={in_full(getattr(value, one.name))}" for one in fields(value) if one.repr)
        return f"{type(value).__name__}({', '.join(said)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{in_full(key)}: {in_full(one)}' for key, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(in_full, value))}]"
    return repr(value)


#: The folder of Strand's own code, which no error of a user's code points at.
OURS: Final = str(Path(__file__).resolve().parent)


class CodeLine(NamedTuple):
    """Line of code: its file, its number from 1, and its text without the spaces around it."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.text}" if self.text else f"{self.file}:{self.number}"
