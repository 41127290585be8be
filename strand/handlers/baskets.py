"""Symbols that share a basket, and so a strand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, UnknownSymbolError
from strand.symbols import SymbolTable

__all__ = ["MEMBER", "SPAN", "BasketMemory", "BasketObjects", "Baskets", "Members", "units_of"]

#: A symbol's stretch of ``Members.entries``, and the first of these.
SPAN: Final = np.dtype([("first", "<u4"), ("end", "<u4"), ("basket", "<u4"), ("member", "<u4")])
#: A basket of a symbol, and the symbol's place in it.
MEMBER: Final = np.dtype([("basket", "<u4"), ("member", "<u4")])

#: Result of a function for a symbol.
BasketNames = str | Iterable[str] | None


class BasketObjects(dict[str, Any]):
    """The objects of some baskets, by name."""


class Members(NamedTuple):
    """The baskets of a table's symbols.

    ``names``: of the baskets. ``keys``: the indexes of each one's symbols, in the order of its members. ``spans``: by
    symbol, shape (n_symbols,), its stretch of ``entries``.
    """

    names: tuple[str, ...]
    keys: tuple[tuple[int, ...], ...]
    spans: npt.NDArray[Any]
    entries: npt.NDArray[Any]

    @classmethod
    def of(cls, by_name: Mapping[str, Sequence[int]], n_symbols: int) -> Members:
        keys = np.array([key for group in by_name.values() for key in group], np.intp)
        entries = np.array(
            [(basket, member) for basket, group in enumerate(by_name.values()) for member in range(len(group))], MEMBER
        )
        order = np.argsort(keys, kind="stable")
        ends = np.cumsum(np.bincount(keys, minlength=n_symbols))
        spans = np.zeros(n_symbols, SPAN)
        spans["end"], spans["first"][1:] = ends, ends[:-1]
        entries = np.ascontiguousarray(entries[order])
        # Most symbols have one basket, which is found without a look at the entries.
        for each in ("basket", "member"):
            spans[each] = entries[each][np.minimum(spans["first"], len(entries) - 1)]
        return cls(tuple(by_name), tuple(map(tuple, by_name.values())), spans, entries)

    def of_key(self, key: int) -> list[tuple[int, int]]:
        """The baskets of a symbol, in their order, and its place in each."""
        span = self.spans[key]
        found: list[tuple[int, int]] = self.entries[span["first"] : span["end"]].tolist()
        return found


@dataclass(frozen=True)
class Baskets:
    """Baskets as a user gives them: symbols by name of the basket, or a function of a symbol."""

    given: Mapping[str, tuple[str, ...]] | Callable[[str], BasketNames]
    _members: WeakKeyDictionary[SymbolTable, Members] = field(
        default_factory=WeakKeyDictionary, repr=False, compare=False
    )

    @classmethod
    def declared(cls, given: object) -> Baskets:
        """Raises ConfigurationError for what cannot be baskets."""
        if isinstance(given, Mapping):
            if not given:
                raise ConfigurationError("baskets", "there are none; give symbols by name: {'pair': ['AAPL', 'MSFT']}")
            return cls({_name(name): _symbols(name, symbols) for name, symbols in given.items()})
        if callable(given):
            return cls(given)
        raise ConfigurationError(
            "baskets",
            f"{type(given).__name__} is neither a dict of lists of symbols by name, nor a function of a symbol",
        )

    @property
    def described(self) -> dict[str, str]:
        """Number of baskets as text, and a digest of their names and members."""
        if not isinstance(self.given, Mapping):
            return {"baskets": "a function"}
        digest = blake2b(repr(list(self.given.items())).encode())
        return {"baskets": f"{len(self.given):,}, {digest.hexdigest()[:16]}"}

    def members(self, handler: str, table: SymbolTable) -> Members:
        """Members of the baskets among a table's symbols; a function is called once for each. ``handler``: its name.

        Raises UnknownSymbolError for a symbol that the table does not have, and ConfigurationError for what a function
        may not return."""
        found = self._members.get(table)
        if found is None:
            by_name = self._by_name(handler, table) if isinstance(self.given, Mapping) else self._asked(handler, table)
            found = self._members[table] = Members.of(by_name, len(table))
        return found

    def check_learnt(self, handler: str, table: SymbolTable, known: int) -> None:
        """Checks symbols from the index ``known`` on, which have just got names. Raises ConfigurationError where one of
        these symbols has a basket, since its strand is settled by then, and is another one."""
        if isinstance(self.given, Mapping):
            return
        for key in range(known, table.n_named):
            if table.has_name(key) and _names(handler, table.name(key), self.given):
                raise ConfigurationError(
                    "baskets",
                    f"the feed named {table.name(key)!r} after the run had begun, too late for a basket: give the "
                    "baskets as a dict, or a feed that names its symbols at its beginning",
                    where=f"handler {handler!r}",
                )

    def _by_name(self, handler: str, table: SymbolTable) -> dict[str, list[int]]:
        assert isinstance(self.given, Mapping)
        found = {}
        for name, symbols in self.given.items():
            try:
                found[name] = [table.index(symbol) for symbol in symbols]
            except UnknownSymbolError as error:
                raise UnknownSymbolError(f"handler {handler!r}: basket {name!r}: {error}") from None
        return found

    def _asked(self, handler: str, table: SymbolTable) -> dict[str, list[int]]:
        assert not isinstance(self.given, Mapping)
        found: dict[str, list[int]] = {}
        for key in table.named or range(len(table)):
            for name in _names(handler, table.name(key), self.given):
                found.setdefault(name, []).append(key)
        if not found:
            raise ConfigurationError(
                "baskets", "the function returns no basket for any symbol", where=f"handler {handler!r}"
            )
        return found


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigurationError("baskets", f"{name!r} is not a name: give text")
    return name


def _symbols(name: str, symbols: object) -> tuple[str, ...]:
    if isinstance(symbols, str) or not isinstance(symbols, Iterable):
        raise ConfigurationError("baskets", f"{name!r}: {symbols!r} is not a list of symbols")
    found = tuple(symbols)
    if not found:
        raise ConfigurationError("baskets", f"{name!r} has no symbols")
    for at, symbol in enumerate(found):
        if not isinstance(symbol, str):
            raise ConfigurationError("baskets", f"{name!r}: {symbol!r} is not a symbol's name: give text")
        if symbol in found[:at]:
            raise ConfigurationError("baskets", f"{name!r} has {symbol!r} twice")
    return found


def _names(handler: str, symbol: str, function: Callable[[str], BasketNames]) -> tuple[str, ...]:
    """Names of the baskets that a function returns for a symbol."""
    said = function(symbol)
    names = () if said is None else (said,) if isinstance(said, str) else said
    returned, where = f"the function returned {said!r} for {symbol!r}", f"handler {handler!r}"
    if not isinstance(names, Iterable):
        raise ConfigurationError(
            "baskets", f"{returned}: return a basket's name, a list of names, or None", where=where
        )
    found = tuple(names)
    for at, name in enumerate(found):
        if not isinstance(name, str) or not name:
            raise ConfigurationError("baskets", f"{returned}: {name!r} is not a name: return text", where=where)
        if name in found[:at]:
            raise ConfigurationError("baskets", f"{returned}: {name!r} is in it twice", where=where)
    return found


class BasketMemory(NamedTuple):
    """The rows of a handler's baskets in a run: ``rows`` has shape (n_baskets,). ``size_unit``: see Handler."""

    handler: str
    members: Members
    rows: npt.NDArray[Any]
    size_unit: float | None


def units_of(n_symbols: int, members: Iterable[Members]) -> npt.NDArray[np.intp] | None:
    """Units of symbols that have to share a strand: by symbol, shape (n_symbols,), the number of its unit, from 0 on.
    Baskets that have a symbol in common are one unit, and a symbol without a basket is one by itself. None: there are
    no baskets."""
    groups = [keys for each in members for keys in each.keys]
    if not groups:
        return None
    parent = list(range(n_symbols))

    def root(key: int) -> int:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for first, *others in groups:
        for key in others:
            one, other = sorted((root(first), root(key)))
            parent[other] = one
    roots = np.array([root(key) for key in range(n_symbols)], np.intp)
    units: npt.NDArray[np.intp] = np.unique(roots, return_inverse=True)[1]
    return units
