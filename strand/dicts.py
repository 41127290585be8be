"""Dicts of the public interface: by name, with an error that says the nearest one, and dicts that nobody changes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn, TypeVar

from strand.brief import listed
from strand.errors import UnknownNameError
from strand.validate import did_you_mean

K = TypeVar("K")
V = TypeVar("V")


def unknown_name(what: str, name: object, names: Collection[str]) -> UnknownNameError:
    """The error for a name that is not among ``names``. ``what``: the kind of thing that they name, as ``"output"``."""
    cure = did_you_mean(name, names, after=" ")
    return UnknownNameError(f"no {what} is named {name!r}: {cure}there are {listed(names) or 'none'}")


class ByName(dict[str, V]):
    """A dict whose KeyError is an UnknownNameError. ``what``: the kind of thing that is named, as ``"output"``.
    ``elsewhere``: of names that are not here, where their things are, in words."""

    def __init__(self, what: str, things: Mapping[str, V], elsewhere: Mapping[str, str] | None = None) -> None:
        super().__init__(things)
        self._what = what
        self._elsewhere = dict(elsewhere or {})

    def __missing__(self, name: object) -> V:
        if name in self._elsewhere:
            raise UnknownNameError(f"{self._what} {name!r} is not here: {self._elsewhere[str(name)]}")
        raise unknown_name(self._what, name, self)


class TableByName:
    """A table whose rows have names. It is no Mapping, because polars would then read a column of each name, and not
    the table that it is."""

    @abstractmethod
    def __getitem__(self, name: str) -> Any: ...

    @abstractmethod
    def __iter__(self) -> Iterator[str]: ...

    def keys(self) -> list[str]:
        """The names, in the order of the table."""
        return list(self)

    def values(self) -> Iterator[Any]:
        """The rows."""
        return (self[name] for name in self)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and rows, as pairs."""
        return ((name, self[name]) for name in self)


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed. It is one still, for json, pickle and ``dataclasses.asdict``."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this dict cannot be changed; dict(...) makes a copy that can")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)
