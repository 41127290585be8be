"""Handlers by name, as a command or a file of a run says them: built-in ones, and those of modules."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strand.errors import ConfigurationError
from strand.handlers.base import BUILTIN, Handler, resolve
from strand.handlers.objects import is_object_class
from strand.handlers.options import Makes, Origin, configured

__all__ = ["find", "load_handler"]


def load_handler(name: str, options: Mapping[str, str] | None = None) -> Handler:
    """The handler that a name stands for, with options as text.

    ``name``: a built-in one's, or ``package.module:attribute``: a handler, a class of objects, or a function that is
    annotated to return a handler. Modules are looked for in the working directory first. Raises ConfigurationError.
    """
    found = find(name)
    handler = configured(found, options or {}, name)
    if name in BUILTIN:
        return handler
    return dataclasses.replace(handler, origin=Origin(name, dict(options or {})))


def find(name: str) -> Makes:
    """What a name stands for, as it is without options. Raises ConfigurationError."""
    if name in BUILTIN:
        return BUILTIN[name]
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or module_name.startswith("."):
        raise ConfigurationError(
            f"handler: {name!r} is not one of {', '.join(sorted(BUILTIN))}, nor package.module:function"
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigurationError(f"handler: cannot import {module_name!r}: {error}") from error
    finally:
        sys.path.pop(0)
    found: Any = getattr(module, attribute, None)
    if inspect.isfunction(found) and _returns_a_handler(found):
        return found
    if not isinstance(found, Handler) and not is_object_class(found):
        raise ConfigurationError(
            f"handler: {name!r} is no handler: decorate it with @strand.handler or @strand.batch_handler, or annotate "
            "a function that makes one:  def f(...) -> strand.Handler"
        )
    return resolve(found)


def _returns_a_handler(function: Any) -> bool:
    try:
        return typing.get_type_hints(function).get("return") is Handler
    except NameError:
        return False
