"""Functions that users give as handlers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

from strand.errors import ConfigurationError

__all__ = ["check_runs", "name_of"]


def name_of(function: Callable[..., None]) -> str:
    """A partial, or an object that can be called, has no name of its own."""
    return getattr(function, "__name__", type(function).__name__)


def check_runs(name: str, function: object) -> None:
    """Refuses a function whose call runs nothing of it: an ``async`` one, or a generator."""
    plain = getattr(function, "py_func", function)
    while isinstance(plain, functools.partial):
        plain = plain.func
    if not callable(plain):
        raise ConfigurationError(f"handler {name!r}: {plain!r} is not a function")
    called = plain if inspect.isroutine(plain) else type(plain).__call__
    if inspect.iscoroutinefunction(called) or inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ConfigurationError(
            f"handler {name!r}: {called.__name__} is async or a generator, and would not run when it is called; write "
            "a plain function"
        )
