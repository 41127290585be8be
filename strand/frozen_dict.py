"""Dicts that nobody changes: those of statistics and of options."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

__all__ = ["FrozenDict"]

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed. It is one still, for json, pickle and ``dataclasses.asdict``."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this dict cannot be changed; dict(...) makes a copy that can")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)
