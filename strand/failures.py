"""Handlers' failures as the engine keeps them, and as they are raised."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from strand._bindings.engine import Engine
from strand.errors import HandlerError

if TYPE_CHECKING:
    from strand.handlers import Handler
    from strand.symbols import SymbolTable

__all__ = ["RAISED", "describe", "failures_of", "interrupts"]

#: The code of a failure that was an exception in Python.
RAISED = -1000


def interrupts(error: BaseException) -> bool:
    """Whether what came out of a handler is the user's Ctrl-C: Python raises that in the main thread, whatever runs
    there. All else is the handler's failure, SystemExit too."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def describe(error: BaseException) -> str:
    """An exception in one line, whatever its own way of saying so does."""
    try:
        text = str(error)
    except Exception:
        text = "(it cannot be shown as text)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failures_of(
    engine: Engine, table: SymbolTable, handlers: Sequence[Handler], raised: Sequence[Sequence[BaseException]]
) -> list[HandlerError]:
    """The first ones, in the order they happened. ``raised``: each worker's exceptions, in that of its failures."""
    found = []
    causes: list[Iterator[BaseException]] = [iter(list(errors)) for errors in raised]
    for f in engine.failures():
        symbol = table.name(f.key) if f.key is not None else f"strand {f.strand}"
        handler = handlers[f.handler]
        error = HandlerError(symbol, f.sequence, handler.name, f.code, handler.reason_of(f.message))
        if f.code == RAISED:
            error.__cause__ = next(causes[f.slot], None)
        found.append(error)
    return found
