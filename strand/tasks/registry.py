"""Functions that can be submitted by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from strand.errors import ConfigurationError
from strand.options import named_options
from strand.validate import did_you_mean

__all__ = ["task", "task_named"]

Function = TypeVar("Function", bound=Callable[..., Any])

_functions: dict[str, Callable[..., Any]] = {}


@overload
def task(function: Function, /, *, name: str | None = None) -> Function: ...
@overload
def task(*, name: str | None = None) -> Callable[[Function], Function]: ...
@named_options("task()")
def task(function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Registers a function, so that ``submit("name", ...)`` finds it: ``@strand.task``, ``@strand.task(name="mail")``.

    ``name``: None: the function's own name. Returns the function as it is. Raises ConfigurationError for a name that is
    empty or no text, for what cannot be called, and for a name that another function has. A module that is loaded again
    replaces its own functions.
    """
    if name is not None and (not isinstance(name, str) or not name):
        raise ConfigurationError(f"name: {name!r} is no name of a task")

    def register(found: Function) -> Function:
        if not callable(found):
            raise ConfigurationError(f"task: {found!r} cannot be called")
        called = name or getattr(found, "__name__", "")
        if not called:
            raise ConfigurationError(f"task: {found!r} has no name of its own; give name=")
        known = _functions.setdefault(called, found)
        if known is not found:
            if _place(known) != _place(found):
                raise ConfigurationError(f"name: {called!r} is already the task {'.'.join(_place(known))}")
            _functions[called] = found
        return found

    return register if function is None else register(function)


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", repr(function)))


def task_named(name: str) -> Callable[..., Any]:
    """The function that is registered by a name. Raises ConfigurationError where there is none."""
    found = _functions.get(name)
    if found is None:
        cure = did_you_mean(name, _functions) or "register a function by @strand.task(name=...)"
        raise ConfigurationError(f"fn: no task is named {name!r}: {cure}")
    return found
