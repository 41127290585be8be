"""Conversion of a user's value to a handler: a handler, the name of a built-in one, or a class of objects."""

from __future__ import annotations

import os

from strand.errors import ConfigurationError
from strand.handlers.base import Handler, HandlerLike
from strand.handlers.builtin import BUILTIN
from strand.validate import did_you_mean

__all__ = ["is_jit_disabled", "not_built_in", "resolve"]


def resolve(like: HandlerLike) -> Handler:
    """A handler from a user's value: a handler, which is returned unchanged, the name of a built-in one, or a class
    whose objects are handlers. With ``NUMBA_DISABLE_JIT=1`` a compiled handler becomes one that Python runs. Raises
    ConfigurationError for any other value, and for an unknown name."""
    if isinstance(like, Handler):
        return _as_python(like) if is_jit_disabled() else like
    if isinstance(like, str):
        if like not in BUILTIN:
            raise ConfigurationError(f"handler: {not_built_in(like)}")
        return BUILTIN[like]()
    from strand.handlers.object_handlers import is_object_class, object_handler

    if is_object_class(like):
        return object_handler(like)
    raise ConfigurationError(
        f"handler: {like!r} is not a handler; decorate a function with @strand.handler or @strand.batch_handler"
    )


def not_built_in(name: str, otherwise: str = "") -> str:
    """Message that no built-in handler has a name, with the nearest one. ``otherwise``: what else it might have
    been."""
    cure = did_you_mean(name, BUILTIN, before="; ")
    return f"{name!r} is not one of {', '.join(sorted(BUILTIN))}{otherwise}{cure}"


def is_jit_disabled() -> bool:
    """True if numba is told to compile nothing."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def _as_python(handler: Handler) -> Handler:
    from strand.handlers.basket_handlers import CompiledBasketHandler
    from strand.handlers.compiled_handlers import CompiledHandler
    from strand.handlers.uncompiled import uncompiled
    from strand.handlers.uncompiled_baskets import uncompiled_basket

    if isinstance(handler, CompiledBasketHandler):
        return uncompiled_basket(handler)
    return uncompiled(handler) if isinstance(handler, CompiledHandler) else handler
