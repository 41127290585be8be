"""The symbol table: names by dense index, and back."""

from __future__ import annotations

import operator
import unicodedata
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Final, cast, overload

from strand.brief import brief, listed, several
from strand.errors import ConfigurationError, UnknownSymbolError
from strand.validate import did_you_mean, is_whole, shown

#: The most bytes of a symbol's name, as UTF-8.
NAME_BYTES: Final = 255
#: The most names that a prompt is given to complete one: all of a market's, and not the million that a table may have.
MAX_COMPLETIONS: Final = 10_000


def name_problem(name: str) -> str | None:
    """Fault of a text as a symbol's name, in words that follow it; None where the text may be a name, or is empty.

    A name is UTF-8 text of at most ``NAME_BYTES`` bytes without control characters. All readers ask this.
    """
    if len(name) <= NAME_BYTES and name.isascii() and name.isprintable():
        return None
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not UTF-8 text"
    if size > NAME_BYTES:
        return f"has {size:,} bytes, and a symbol's name at most {NAME_BYTES}"
    if any(unicodedata.category(letter) == "Cc" for letter in name):
        return "has a control character"
    return None


def check_name(option: str, name: str) -> str:
    """The name, which an option or a file's name gives. Raises ConfigurationError where it is none."""
    if not isinstance(name, str):
        raise ConfigurationError(option, f"{shown(name)} is not a name: give text")
    if problem := name_problem(name):
        raise ConfigurationError(option, f"{name[:80]!r} {problem}: give the symbol another name")
    return name


def near_symbol(name: object, names: Iterable[str]) -> str:
    """``; did you mean 'AAPL'?`` for a name that no symbol has: the most alike of the first ``MAX_COMPLETIONS``. Empty
    where none is like it."""
    return did_you_mean(name, islice(filter(None, names), MAX_COMPLETIONS), before="; ")


def _name(at: int, given: object) -> str:
    if not isinstance(given, str):
        raise ConfigurationError("symbols", f"{given!r}, at {at}, is not a name: give text")
    return check_name(f"symbols: the name at {at}", str(given))


def _repeated(names: list[str]) -> ConfigurationError:
    first: dict[str, int] = {}
    name, i = next((name, i) for i, name in enumerate(names) if name and first.setdefault(name, i) != i)
    return ConfigurationError("symbols", f"{name!r} is given twice, at {first[name]} and {i}")


def _all_plain(names: list[str]) -> bool:
    text = "".join(names)
    return text.isascii() and text.isprintable() and max(map(len, names), default=0) <= NAME_BYTES


class SymbolTable(Sequence[str]):
    """Names by ``instrument_id``. Made from a number, names are made up when asked for: ``#17``.

    An empty name stands for an index without a symbol. Raises ConfigurationError for no symbols, for a name that
    comes twice, and for a text that is no name (``name_problem``). A table made from another one has its names, and
    learns its own.
    """

    def __init__(self, symbols: int | Sequence[str]) -> None:
        if isinstance(symbols, bool | str):
            raise ConfigurationError("symbols", f"{symbols!r} is not a number or a sequence of names")
        # Of the first indexes: those of the others are not known.
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        if isinstance(symbols, SymbolTable):
            self._size: int = symbols._size
            self._names, self._index = list(symbols._names), dict(symbols._index)
            return
        try:
            self._size = operator.index(symbols)  # type: ignore[arg-type]
        except TypeError:
            if not isinstance(symbols, Sized):
                raise ConfigurationError("symbols", f"{symbols!r} is not a number or a sequence of names") from None
            self._size = len(symbols)
            self._take(symbols)
        if not 1 <= self._size < 2**31:
            raise ConfigurationError("symbols", f"there must be from 1 to {2**31 - 1}, not {self._size}")

    @classmethod
    def with_capacity(cls, names: Sequence[str], size: int) -> SymbolTable:
        """Table of ``size`` indexes, the first of which have ``names``: a feed learns its symbols as it goes, and has
        room for many more than a file has."""
        table = cls(size)
        if names.count("") < len(names):  # else there may be millions of empty ones
            table._take(names[:size])
        return table

    def first(self, size: int) -> SymbolTable:
        """The table of the first ``size`` indexes, at least one, and of all that have a name."""
        table = SymbolTable(self)
        table._size = max(size, len(self._names), 1)
        return table

    def _take(self, names: Iterable[object]) -> None:
        # A market's names are nearly always plain text, and each there once: no loop of Python's over them then.
        given = list(names)
        plain = set(map(type, given)) <= {str} and _all_plain(cast("list[str]", given))
        self._names = cast("list[str]", given) if plain else [_name(i, s) for i, s in enumerate(given)]
        self._index = dict(zip(self._names, range(len(self._names)), strict=True))
        self._index.pop("", None)
        if len(self._index) + self._names.count("") < len(self._names):
            raise _repeated(self._names)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            # A feed may have room for many more symbols than it has names.
            names, known = self._names, len(self._names)
            return [(names[i] if i < known else "") or f"#{i}" for i in range(*index.indices(self._size))]
        if not -self._size <= index < self._size:
            raise IndexError(f"there are {self._size} symbols")
        return self.name(index % self._size)

    def __iter__(self) -> Iterator[str]:
        return iter(self[:])

    def name(self, index: int) -> str:
        """The name at an index, or one made of the index."""
        if self.has_name(index):
            return self._names[index]
        return f"#{index}"

    def __repr__(self) -> str:
        return brief(self, several(self.n_shown, "symbol"), listed(self.offered(5)))

    @property
    def n_shown(self) -> int:
        """Number of names that were given: a feed may have room for many more. Without names, the number of indexes."""
        return len(self._index) or self._size

    def offered(self, maximum: int) -> list[str]:
        """The first names that were given, as many as ``maximum``; made-up ones, where none was."""
        given = list(islice(filter(None, self._names), maximum))
        return given or self[: min(maximum, self._size)]

    @property
    def n_named(self) -> int:
        """Indexes from here on have no name."""
        return len(self._names)

    @property
    def named(self) -> list[int]:
        """The indexes that have a name, in their order."""
        return [index for index, name in enumerate(self._names) if name]

    def has_name(self, index: int) -> bool:
        """Tells whether the name at an index was given."""
        return 0 <= index < len(self._names) and bool(self._names[index])

    def index(self, symbol: str | int, start: int = 0, stop: int | None = None) -> int:  # noqa: ARG002 - Sequence's
        """The index of a name, or of an index itself. Raises UnknownSymbolError, with the nearest name."""
        found = self.find(symbol)
        if found is None:
            near = near_symbol(symbol, self.offered(MAX_COMPLETIONS))
            raise UnknownSymbolError(f"there is no symbol {symbol!r} among the {self.n_shown:,}{near}")
        return found

    def find(self, symbol: str | int) -> int | None:
        """Index of a symbol; None where there is no such symbol."""
        if isinstance(symbol, str):
            found = self._index.get(symbol)
            if found is None and symbol.startswith("#") and symbol[1:].isdecimal():
                found = int(symbol[1:])
        else:
            found = int(symbol) if is_whole(symbol) else None
        return found if found is not None and 0 <= found < self._size else None

    def learn(self, names: Sequence[str]) -> bool:
        """Takes names over from a feed that has met more of them; the size stays. Returns True where an index below
        ``n_named`` was without one."""
        known, is_late = len(self._names), False
        told = list(names[:known])
        # A feed tells all its names each time, of which those at the end are new, if any are.
        if told != (self._names if len(told) == known else self._names[: len(told)]):
            for i, name in enumerate(told):
                if name and not self._names[i]:
                    self._names[i], is_late = _name(i, name), True
                    self._index.setdefault(name, i)
        more = names[known : self._size]
        for i, name in enumerate(more if more.count("") < len(more) else (), known):
            self._names.append(_name(i, name))
            if name:
                self._index.setdefault(name, i)
        return is_late
