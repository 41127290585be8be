"""Options that calls take by name: which ones there are, and the refusal of all others."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

from strand.errors import ConfigurationError, UnknownOptionError
from strand.validate import did_you_mean

__all__ = ["check_apart", "named_fields", "named_options", "options_of", "refuse_unknown"]

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=type[Any])


@functools.cache
def options_of(taker: Callable[..., Any]) -> frozenset[str]:
    """Names of the arguments that a function or class takes by keyword alone, without those for internal use."""
    return frozenset(
        parameter.name
        for parameter in _parameters(taker).values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not parameter.name.startswith("_")
    )


@functools.cache
def _parameters(taker: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    # Some releases of Python 3.11 would show the parameters of an inherited __new__ instead.
    found: Any = taker
    return inspect.signature(found.__init__ if isinstance(taker, type) else found).parameters


def named_options(
    called: str | None,
    *,
    more: type[Any] | None = None,
    like: Callable[..., Any] | None = None,
    groups: Mapping[str, type[Any]] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a function that users call as ``called``, ``"replay()"``: an option that it does not have is an
    UnknownOptionError with the nearest name. None: it refuses such options itself.

    ``more``: the TypedDict of its ``**options``. Its signature shows them one by one, as ``like`` has them, which is
    what completion at a prompt goes by. ``groups``: options that are dataclasses, whose fields may be options of their
    own, too. A field that is none says where it is given, and one that is given twice is a ConfigurationError.
    """
    fields_of = {group: {one.name for one in fields(kind)} for group, kind in (groups or {}).items()}

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if more is None or one.kind is not one.VAR_KEYWORD]
        if more is not None:
            theirs = {} if like is None else _parameters(like)
            for name, kind in more.__annotations__.items():
                written = getattr(kind, "__forward_arg__", kind)
                one = theirs.get(name, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=written))
                own.append(one.replace(kind=one.KEYWORD_ONLY))
        known = {one.name for one in own if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if called is not None and not known.issuperset(kwargs):
                _refuse_fields(kwargs.keys() - known, called, fields_of)
                refuse_unknown(kwargs, known, called)
            for group, names in fields_of.items():
                if kwargs.get(group) is not None and (both := sorted(names.intersection(kwargs))):
                    raise ConfigurationError(f"{both[0]}: give it in {group}, or leave {group} out")
            return function(*args, **kwargs)

        shown = [one for one in own if not one.name.startswith("_")]
        vars(checked)["__signature__"] = signature.replace(parameters=shown)
        return checked

    return decorate


def named_fields(kind: K) -> K:
    """Decorates a dataclass of options that users make: a field that it does not have is an UnknownOptionError with the
    nearest name."""
    init = kind.__init__
    known = frozenset(one.name for one in fields(kind) if one.init)

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        if not known.issuperset(kwargs):
            refuse_unknown(kwargs, known, f"{kind.__name__}()")
        init(self, *args, **kwargs)

    kind.__init__ = checked
    return kind


def _refuse_fields(unknown: Iterable[str], called: str, fields_of: Mapping[str, Collection[str]]) -> None:
    for option in sorted(unknown):
        for group, names in fields_of.items():
            if option in names:
                where = f"{group}=strand.{group.capitalize()}({option}=...)"
                raise UnknownOptionError(f"{called} has no option {option!r}; give {where}")


def refuse_unknown(given: Collection[str], known: Collection[str], called: str) -> None:
    """Refuses names that are not known. ``called`` says what was called. Raises UnknownOptionError."""
    unknown = sorted(map(str, {*given} - {*known}))
    if not unknown:
        return
    public = sorted(name for name in known if not name.startswith("_"))
    cure = did_you_mean(unknown[0], public) or f"it has {', '.join(public) or 'none'}"
    raise UnknownOptionError(f"{called} has no option {unknown[0]!r}; {cure}")


def check_apart(name: str, options: Mapping[str, Any], apart: Collection[str]) -> None:
    """Refuses options, given as the argument ``name``, that have arguments of their own. Raises ConfigurationError."""
    for option in options:
        if not isinstance(option, str):
            raise ConfigurationError(f"{name}: {option!r} is not the name of an option: give text")
        if option in apart:
            raise ConfigurationError(f"{option}: give it as an argument of its own, and not in {name}")
