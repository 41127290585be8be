"""What a CSV profile says, once it is read: where each field of a tick comes from."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

__all__ = ["FieldRule", "Layout", "Profile", "SymbolRule", "normal"]


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Where a field of the tick comes from. ``columns``: what its column may be called; empty for a constant.

    ``map`` and ``otherwise`` hold numbers (letters by their code), 1 in the file is ten to the ``power`` of
    currency or shares, ``unit`` a time's, or those it may be in.
    """

    field: str
    columns: tuple[str, ...] = ()
    constant: int | None = None
    optional: bool = False
    empty: bool = False
    zero: bool = False
    power: int = 0
    unit: tuple[str, ...] = ()
    since: str = "epoch"
    digits: int = 0
    text: bool = False
    map: tuple[tuple[str, int], ...] = ()
    otherwise: int | None = None
    pair: tuple[tuple[str, ...], ...] = ()
    earlier: bool = False


@dataclass(frozen=True, slots=True)
class SymbolRule:
    """The symbol: of a column, of the file's name (the first group of a pattern), or one for all."""

    columns: tuple[str, ...] = ()
    file_name: re.Pattern[str] | None = None
    constant: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a file without a header, and what a field of each looks like, to recognise it by."""

    columns: tuple[str, ...]
    shape: tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """How the lines of a CSV file become ticks."""

    name: str
    about: str
    source: str
    symbol: SymbolRule
    fields: tuple[FieldRule, ...]
    delimiters: tuple[str, ...] = (",",)
    encodings: tuple[str, ...] = ("utf-8",)
    header: bool = True
    layouts: tuple[Layout, ...] = ()
    requires: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    like: tuple[tuple[str, re.Pattern[str]], ...] = ()
    end: str | None = None
    venue: str | None = None
    one_sided: bool = False
    """A quote without one side's price leaves that side as it was; else the side is empty."""
    zone: str = "UTC"
    date_columns: tuple[str, ...] = ()
    size_power: int = 0

    def needed(self) -> list[tuple[str, ...]]:
        """Names of each column that has to be there."""
        wanted = [rule.columns for rule in self.fields if rule.columns and not rule.optional]
        wanted += [names for rule in self.fields for names in rule.pair]
        wanted += [names for names in (self.symbol.columns, self.date_columns) if names]
        return wanted + [(name,) for name in self.requires]


@functools.lru_cache(maxsize=4096)
def normal(name: str) -> str:
    """A column's name as it is compared: case, underscores and outer spaces do not count."""
    return name.strip().replace("_", " ").casefold()
