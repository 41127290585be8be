"""The symbol table: names by dense index, and back."""

from __future__ import annotations

import operator
from collections.abc import Sequence, Sized
from typing import overload

from strand.errors import ConfigurationError, UnknownSymbolError

__all__ = ["SymbolTable"]


def _name(at: int, given: object) -> str:
    if not isinstance(given, str):
        raise ConfigurationError(f"symbols: {given!r}, at {at}, is not a name, which is text")
    return str(given)


class SymbolTable(Sequence[str]):
    """Names by ``instrument_id``. Made from a number, names are made up when asked for: ``#17``.

    An empty name stands for an index without a symbol. Raises ConfigurationError for no symbols, and for a name that
    comes twice.
    """

    def __init__(self, symbols: int | Sequence[str]) -> None:
        if isinstance(symbols, bool | str):
            raise ConfigurationError(f"symbols: {symbols!r} is not a number or a sequence of names")
        self._names: list[str] | None = None
        try:
            self._size = operator.index(symbols)  # type: ignore[arg-type]
        except TypeError:
            if not isinstance(symbols, Sized):
                raise ConfigurationError(f"symbols: {symbols!r} is not a number or a sequence of names") from None
            self._size = len(symbols)
            self._names = [_name(i, s) for i, s in enumerate(symbols)]
        if not 1 <= self._size < 2**31:
            raise ConfigurationError(f"symbols: there must be from 1 to {2**31 - 1}, not {self._size}")
        self._index: dict[str, int] = {}
        if self._names is not None:
            for i, name in enumerate(self._names):
                if name and self._index.setdefault(name, i) != i:
                    raise ConfigurationError(f"symbols: {name!r} is there twice, at {self._index[name]} and {i}")

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
        if self._names is not None and index < len(self._names) and self._names[index]:
            return self._names[index]
        return f"#{index}"

    def has_name(self, index: int) -> bool:
        """Whether the name at an index is one that was given."""
        return self._names is not None and index < len(self._names) and bool(self._names[index])

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
        if self._names is None:
            self._names = [""] * self._size
        for i, name in enumerate(names[: self._size]):
            if name and i < len(self._names) and not self._names[i]:
                self._names[i] = name
                self._index.setdefault(name, i)
