"""The arguments of basket handlers, which are taken by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from strand.errors import ConfigurationError
from strand.handlers.compiled_handlers import arguments_of
from strand.handlers.functions import check_runs

__all__ = ["check_arguments"]


def check_arguments(
    name: str,
    function: Callable[..., Any],
    given: Collection[str],
    *,
    declared: Collection[str] = (),
    undeclared: Collection[tuple[str, str]] = (),
    skip: int = 0,
) -> None:
    """Checks a function's arguments. Raises ConfigurationError for an argument that is not ``given`` to it, or that it
    ``declared`` and leaves out.

    ``undeclared``: an argument, and the keyword that would declare it; ``skip``: arguments before those by name.
    """
    check_runs(name, function)
    taken = arguments_of(function)[skip:]
    for argument, keyword in undeclared:
        if argument in taken:
            raise ConfigurationError(f"handler {name!r}: give {keyword}= to declare what its argument {argument} is")
    if strange := [argument for argument in taken if argument not in given]:
        raise ConfigurationError(
            f"handler {name!r}: it takes {strange[0]!r}; a basket handler's arguments are {', '.join(given)}, by name"
        )
    if missing := [argument for argument in declared if argument not in taken]:
        raise ConfigurationError(f"handler {name!r}: it has no argument {missing[0]!r}, which it was declared to have")
