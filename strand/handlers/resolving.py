"""What users give as a handler, made one: a handler, the name of a built-in one, or a class of objects."""

from __future__ import annotations

from strand.errors import ConfigurationError
from strand.handlers.base import Handler, HandlerLike
from strand.handlers.basket_handlers import CompiledBasketHandler
from strand.handlers.builtin import BUILTIN
from strand.handlers.compiled_handlers import CompiledHandler
from strand.handlers.object_handlers import is_object_class, object_handler
from strand.handlers.uncompiled import is_jit_disabled, uncompiled
from strand.handlers.uncompiled_baskets import uncompiled_basket

__all__ = ["resolve"]


def resolve(like: HandlerLike) -> Handler:
    """A handler from what the user gave: one, the name of a built-in one, or a class whose objects are handlers."""
    if isinstance(like, CompiledHandler) and is_jit_disabled():
        return uncompiled(like)
    if isinstance(like, CompiledBasketHandler) and is_jit_disabled():
        return uncompiled_basket(like)
    if isinstance(like, Handler):
        return like
    if isinstance(like, str):
        if like not in BUILTIN:
            raise ConfigurationError(f"handler: {like!r} is not one of {', '.join(sorted(BUILTIN))}")
        return BUILTIN[like]()
    if is_object_class(like):
        return object_handler(like)
    raise ConfigurationError(
        f"handler: {like!r} is no handler; decorate a function with @strand.handler or @strand.batch_handler"
    )
