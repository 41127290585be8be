"""The objects of object handlers in a run: who there is, and their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strand.errors import HandlerError
from strand.handlers.context import Context
from strand.worker import RAISED, describe

__all__ = ["objects_of", "stop_objects"]


def objects_of(contexts: dict[int, Context]) -> dict[str, Any]:
    """Objects by symbol, in the order of their keys."""
    by_key = sorted(contexts.copy().items())
    return {context.symbol: context.object for _, context in by_key if context.object is not None}


def stop_objects(contexts: Mapping[int, Context]) -> HandlerError | None:
    """Calls ``on_stop`` of all objects, in the order of their keys; returns the first error."""
    failure = None
    for _, context in sorted(contexts.items()):
        on_stop = getattr(context.object, "on_stop", None)
        if on_stop is None:
            continue
        try:
            on_stop()
        except Exception as error:
            if failure is None:
                reason = f"{describe(error)}, in on_stop"
                failure = HandlerError(context.symbol, 0, context.handler, RAISED, reason)
                failure.__cause__ = error
    return failure
