"""The symbol table: names by dense index, and back."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence, Sized
from typing import cast, overload

from strand.errors import ConfigurationError, UnknownSymbolError

__all__ = ["SymbolTable"]


def _name(at: int, given: object) -> str:
    if not isinstance(given, str):
        raise ConfigurationError(f"symbols: {given!r}, at {at}, is not a name, which is text")
    return str(given)


def _repeated(names: list[str]) -> ConfigurationError:
    first: dict[str, int] = {}
    name, i = next((name, i) for i, name in enumerate(names) if name and first.setdefault(name, i) != i)
    return ConfigurationError(f"symbols: {name!r} is there twice, at {first[name]} and {i}")


class SymbolTable(Sequence[str]):
    """Names by ``instrument_id``. Made from a number, names are made up when asked for: ``#17``.

    An empty name stands for an index without a symbol. Raises ConfigurationError for no symbols, and for a name that
    comes twice. A table made from another one has its names, and learns its own.
    """

    def __init__(self, symbols: int | Sequence[str]) -> None:
        if isinstance(symbols, bool | str):
            raise ConfigurationError(f"symbols: {symbols!r} is not a number or a sequence of names")
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
                raise ConfigurationError(f"symbols: {symbols!r} is not a number or a sequence of names") from None
            self._size = len(symbols)
            self._take(symbols)
        if not 1 <= self._size < 2**31:
            raise ConfigurationError(f"symbols: there must be from 1 to {2**31 - 1}, not {self._size}")

    @classmethod
    def with_room(cls, names: Sequence[str], size: int) -> SymbolTable:
        """Of ``size`` indexes, the first of which have ``names``: a feed tells its symbols as it goes, and has room for
        many more than a file has."""
        table = cls(size)
        table._take(names[:size])
        return table

    def _take(self, names: Iterable[object]) -> None:
        # A market's names are nearly always text, and each there once: no loop of Python's over them then.
        given = list(names)
        plain = set(map(type, given)) <= {str}
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
            return [self.name(i) for i in range(*index.indices(self._size))]
        if not -self._size <= index < self._size:
            raise IndexError(f"there are {self._size} symbols")
        return self.name(index % self._size)

    def name(self, index: int) -> str:
        """The name at an index, or one made of the index."""
        if self.has_name(index):
            return self._names[index]
        return f"#{index}"

    def has_name(self, index: int) -> bool:
        """Whether the name at an index is one that was given."""
        return 0 <= index < len(self._names) and bool(self._names[index])

    def index(self, symbol: str | int, start: int = 0, stop: int | None = None) -> int:  # noqa: ARG002 - Sequence's
        """The index of a name, or of an index itself. Raises UnknownSymbolError."""
        if isinstance(symbol, str):
            found = self._index.get(symbol)
            if found is None and symbol.startswith("#") and symbol[1:].isdecimal():
                found = int(symbol[1:])
        else:
            found = int(symbol)
        if found is None or not 0 <= found < self._size:
            raise UnknownSymbolError(f"there is no symbol {symbol!r} among the {self._size}")
        return found

    def learn(self, names: Sequence[str]) -> None:
        """Takes names over from a feed that has met more of them; the size stays."""
        known = len(self._names)
        told = list(names[:known])
        # A feed tells all its names each time, of which those at the end are new, if any are.
        if told != (self._names if len(told) == known else self._names[: len(told)]):
            for i, name in enumerate(told):
                if name and not self._names[i]:
                    self._names[i] = name
                    self._index.setdefault(name, i)
        for i, name in enumerate(names[known : self._size], known):
            self._names.append(name)
            if name:
                self._index.setdefault(name, i)
