"""Options that one function passes on to another by name: which ones there are, and the refusal of all others."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any

from strand.errors import ConfigurationError

__all__ = ["check_apart", "options_of", "refuse_renamed", "refuse_unknown"]


@functools.cache
def options_of(taker: Callable[..., Any]) -> frozenset[str]:
    """The names of what a function or class takes by keyword alone, without those of its own use."""
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


def refuse_renamed(given: Collection[str], taker: Callable[..., Any], renamed: Mapping[str, str]) -> None:
    """Refuses old names of what a function or class takes. ``renamed``: new names by old ones; those that it does not
    take are passed over. Raises ConfigurationError."""
    known = _parameters(taker)
    for option in given:
        now = known.get(renamed.get(option, ""))
        if now is not None and option not in known:
            how = ", and given without its name" if now.kind is inspect.Parameter.VAR_POSITIONAL else ""
            raise ConfigurationError(f"{option}: is called {now.name} now{how}")


def refuse_unknown(given: Collection[str], known: Collection[str], owner: str, renamed: Mapping[str, str]) -> None:
    """Refuses names that are not known. ``owner`` says whose options are, ``renamed`` the new names of old ones. Raises
    ConfigurationError."""
    for option in given:
        if option not in known and renamed.get(option) in known:
            raise ConfigurationError(f"{option}: is called {renamed[option]} now")
    unknown = sorted(set(given) - set(known))
    if not unknown:
        return
    near = get_close_matches(unknown[0], sorted(known), n=1)
    cure = f"did you mean {near[0]}? It is " if near else ""
    raise ConfigurationError(
        f"{', '.join(unknown)}: {cure}no option of {owner}, which has {', '.join(sorted(known)) or 'none'}"
    )


def check_apart(name: str, options: Mapping[str, Any], apart: Collection[str]) -> None:
    """Refuses options, given as the argument ``name``, that have arguments of their own. Raises ConfigurationError."""
    for option in options:
        if not isinstance(option, str):
            raise ConfigurationError(f"{name}: {option!r} is no option's name: give text")
        if option in apart:
            raise ConfigurationError(f"{option}: give it as an argument of its own, and not in {name}")
