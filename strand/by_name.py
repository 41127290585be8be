"""Things by their names: a name that is none of them is answered with those there are, and the nearest one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from strand.brief import listed
from strand.errors import UnknownNameError
from strand.validate import nearest

__all__ = ["ByName", "unknown_name"]

V = TypeVar("V")


def unknown_name(what: str, name: object, names: Collection[str]) -> UnknownNameError:
    """The error for a name that is none of ``names``. ``what``: what they name, ``"output"``."""
    near = nearest(name, names) if isinstance(name, str) else None
    cure = "" if near is None else f"did you mean {near!r}? "
    return UnknownNameError(f"no {what} is named {name!r}: {cure}there are {listed(names) or 'none'}")


class ByName(dict[str, V]):
    """A dict whose KeyError is an UnknownNameError. ``what``: what the names are of, ``"output"``. ``elsewhere``: by
    name, where a thing is that is not here, in words."""

    def __init__(self, what: str, things: Mapping[str, V], elsewhere: Mapping[str, str] | None = None) -> None:
        super().__init__(things)
        self._what = what
        self._elsewhere = dict(elsewhere or {})

    def __missing__(self, name: object) -> V:
        if name in self._elsewhere:
            raise UnknownNameError(f"{self._what} {name!r} is not here: {self._elsewhere[str(name)]}")
        raise unknown_name(self._what, name, self)
