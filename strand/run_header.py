"""What a run was made of, for the header of its fingerprint file: input, handlers, selection, settings."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from strand.errors import ConfigurationError, FeedError
from strand.feeds import Feed
from strand.feeds._open import expand
from strand.handlers import BUILTIN, Handler, HandlerLike, resolve

__all__ = ["describe_handlers", "describe_source", "handler_from", "run_header"]

#: How much of a file's start stands for it, beside its name and size.
HEAD_BYTES: Final = 1 << 20


def run_header(
    source: Any,
    handlers: Mapping[str, HandlerLike | None],
    *,
    selection: Mapping[str, Any],
    feed_options: Mapping[str, Any],
    every: int | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """The header: everything in it is plain. ``settings`` are those that must not matter, such as ``workers``."""
    return {
        "version": version("strand"),
        "every": every,
        "source": describe_source(source, feed_options),
        "handlers": describe_handlers(handlers),
        "selection": {name: value for name, value in selection.items() if value not in (None, 0, [])},
        "feed_options": {name: _plain(value) for name, value in feed_options.items()},
        "settings": {name: _plain(value) for name, value in settings.items()},
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else str(value)


def describe_source(source: Any, feed_options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each file's path, size in bytes, and the digest of its first MiB; what is no file has only a path."""
    if isinstance(source, Feed) and not isinstance(source, str | os.PathLike | Sequence):
        return [{"path": source.info.path, "size": None, "head": None}]
    found: list[dict[str, Any]] = []
    for path in expand(source, dict(feed_options)):
        known = Path(path)
        if not known.is_file():
            found.append({"path": os.fspath(path), "size": None, "head": None})
            continue
        try:
            with known.open("rb") as file:
                head = blake2b(file.read(HEAD_BYTES), digest_size=16).hexdigest()
        except OSError as error:
            raise FeedError(f"cannot be read: {error.strerror or error}", path=known) from error
        found.append({"path": os.fspath(known.absolute()), "size": known.stat().st_size, "head": head})
    return found


def describe_handlers(handlers: Mapping[str, HandlerLike | None]) -> dict[str, dict[str, Any]]:
    """By symbol (``*``: the others): the handler's ``name``, where to ``load`` it from (None: cannot be said), and a
    digest of its ``code`` (None for what is not Python)."""
    return {symbol: _describe(like) for symbol, like in handlers.items() if like is not None}


def _describe(like: HandlerLike) -> dict[str, Any]:
    if isinstance(like, str):
        return {"name": like, "load": like, "code": None}
    function = like.on_tick or like.on_ticks
    if function is None:
        plain = like.name in BUILTIN and BUILTIN[like.name]().function == like.function
        return {"name": like.name, "load": like.name if plain and like.function is not None else None, "code": None}
    return {"name": like.name, "load": _where(like, function), "code": _code(function)}


def _where(handler: Handler, function: Any) -> str | None:
    """``module:name`` where that is this handler."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    found = getattr(sys.modules.get(module or ""), name, None)
    return f"{module}:{name}" if found is handler and module != "__main__" else None


def _code(function: Any) -> str | None:
    """A digest of the function's text, which says nothing of what it calls."""
    try:
        text = inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):
        return None
    return blake2b(text.encode(), digest_size=8).hexdigest()


def handler_from(load: str) -> Handler:
    """The handler that a name or ``package.module:function`` stands for. Raises ConfigurationError."""
    if load in BUILTIN:
        return resolve(load)
    module_name, colon, attribute = load.partition(":")
    if not colon:
        raise ConfigurationError(f"handler: {load!r} is not one of {', '.join(sorted(BUILTIN))}, nor module:function")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigurationError(f"handler: cannot import {module_name!r}: {error}") from error
    finally:
        sys.path.pop(0)
    found = getattr(module, attribute, None)
    if not isinstance(found, Handler):
        raise ConfigurationError(f"handler: {load!r} is no handler")
    return found
