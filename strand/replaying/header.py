"""Header of a run's fingerprint file: input, handlers, selection, settings."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from strand.brief import in_full
from strand.errors import FeedError
from strand.feeds import Feed
from strand.feeds.opening import expand
from strand.handlers import Handler, HandlerLike, resolve
from strand.handlers.options import Origin
from strand.machine import strand_version

__all__ = ["describe_handlers", "describe_source", "run_header"]

#: Bytes of a file's start that identify it, beside its name and size.
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
        "version": strand_version(),
        "every": every,
        "source": describe_source(source, feed_options),
        "handlers": describe_handlers(handlers),
        "selection": {name: value for name, value in selection.items() if value not in (None, 0, [])},
        "feed_options": {name: _plain(value) for name, value in feed_options.items()},
        "settings": {name: _plain(value) for name, value in settings.items()},
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else in_full(value)


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
    """Describes the handlers by symbol (``*``: the others). ``name``: the handler's. ``load``: the name to load it by
    (None: unknown). ``options``: as text. ``code``: a digest of its code (None for a handler that is not Python)."""
    return {symbol: _describe(like) for symbol, like in handlers.items() if like is not None}


def _describe(like: HandlerLike) -> dict[str, Any]:
    handler = resolve(like)
    origin = handler.origin or Origin(_where(like), {})
    if origin.load is None and not origin.options:
        origin = Origin(None, handler.described_params)
    code = _code(like if isinstance(like, type) else handler)
    return {"name": handler.name, "load": origin.load, "options": dict(origin.options), "code": code}


def _where(like: HandlerLike) -> str | None:
    """``module:name`` where that is this handler."""
    for module_name, module in list(sys.modules.items()):
        if module_name == "__main__" or module_name.startswith("strand."):
            continue
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is like:
                return f"{module_name}:{name}"
    return None


def _code(like: Handler | type) -> str | None:
    """A digest of the text of a handler's functions, which says nothing of what they call."""
    try:
        written = (like,) if isinstance(like, type) else like.written
        texts = [inspect.getsource(inspect.unwrap(function)) for function in written]
    except (OSError, TypeError):
        return None
    return blake2b("".join(texts).encode(), digest_size=8).hexdigest() if texts else None
