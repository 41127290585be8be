"""Handlers' failures: what comes out of Python as one, and one as the error that is raised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from strand.binding.engine import Engine
from strand.binding.engine_words import Failure
from strand.errors import HandlerError
from strand.handlers.context import FailedOnTick

if TYPE_CHECKING:
    from strand.handlers import Handler
    from strand.symbols import SymbolTable

__all__ = ["describe", "error_of", "failure_of", "failures_of"]

#: The code of a failure that was an exception in Python.
RAISED = -1000


def describe(error: BaseException) -> str:
    """An exception in one line, whatever its own way of saying so does."""
    try:
        text = str(error)
    except Exception:
        text = "(it cannot be shown as text)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failure_of(error: BaseException) -> Failure:
    """What came out of a handler that Python runs, as a failure."""
    handled, cause = (error.handled, error.__cause__ or error) if type(error) is FailedOnTick else (0, error)
    return Failure(RAISED, describe(cause), cause=cause, handled=handled)


def error_of(failure: Failure, handler: Handler, table: SymbolTable) -> HandlerError:
    """The error that is raised for a failure."""
    symbol = f"strand {failure.strand}" if failure.key is None else table.name(failure.key)
    reason = handler.reason_of(failure.message)
    error = HandlerError(symbol, failure.sequence, handler.name, failure.code, reason)
    error.__cause__ = failure.cause
    return error


def failures_of(
    engine: Engine, table: SymbolTable, handlers: Sequence[Handler], raised: Sequence[Sequence[BaseException]]
) -> list[HandlerError]:
    """The first ones, in the order they happened. ``raised``: each worker's exceptions, in that of its failures."""
    found = []
    causes: list[Iterator[BaseException]] = [iter(list(errors)) for errors in raised]
    for failure in engine.failures():
        assert failure.handler is not None
        assert failure.participant is not None
        cause = next(causes[failure.participant], None) if failure.code == RAISED else None
        found.append(error_of(replace(failure, cause=cause), handlers[failure.handler], table))
    return found
