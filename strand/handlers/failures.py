"""Handlers' failures: Python exceptions become failure records, and records become HandlerError."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.engine_words import Failure
from strand.errors import ConfigurationError, HandlerError
from strand.handlers.compiled.called_again import Before, FailedCall, line_of
from strand.handlers.context import Context, EarlierPartError, FailedOnTick
from strand.ticks import named

if TYPE_CHECKING:
    from strand.handlers import Handler
    from strand.symbols import SymbolTable


class KeptRows(Protocol):
    """``strand.output.rows.Rows``."""

    def at(self, index: int, /) -> Any: ...


#: The code of a failure that was an exception in Python.
RAISED = -1000
#: The place of its reason in ``StrandInspection.dropped``.
_QUARANTINED: Final = 3


def describe(error: BaseException) -> str:
    """An exception in one line, whatever its own way of saying so does."""
    try:
        text = str(error)
    except Exception:
        text = "(it cannot be shown as text)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failure_of(error: BaseException) -> Failure:
    """Turns an exception out of a handler that Python runs into a failure."""
    handled, cause = (error.handled, error.__cause__ or error) if type(error) is FailedOnTick else (0, error)
    said = str(cause) if isinstance(cause, EarlierPartError) else describe(cause)
    return Failure(RAISED, said, cause=cause, handled=handled)


class Kept(NamedTuple):
    """State that a run keeps of its symbols: rows by key, contexts and objects of symbols that Python runs, and the
    dtype of its records."""

    rows: KeptRows
    contexts: Mapping[int, Context]
    objects: Mapping[int, Any]
    record: np.dtype[Any]


def error_of(failure: Failure, handler: Handler, table: SymbolTable, kept: Kept) -> HandlerError:
    """The error that is raised for a failure."""
    symbol = f"strand {failure.strand}" if failure.key is None else table.name(failure.key)
    reason = failure.message
    # Machine code keeps no exceptions.
    if any(part.is_compiled for part in handler.singles) and (
        not reason or re.fullmatch(r"its (timer|end) at \d+ ns", reason)
    ):
        raised = "it raised an exception, which machine code does not keep"
        reason = f"{reason}: {raised}" if reason else raised
    row = None if failure.key is None else _copy_of(kept.rows.at(failure.key))
    context = None if failure.key is None else kept.contexts.get(failure.key)
    if context is not None and row is not None and not isinstance(failure.cause, EarlierPartError):
        # Those before Python's handler in its chain may be ahead of it.
        for name, rows in context.after.items():
            row[name] = rows[0]
    of_set = None if row is None else handler.failed_set(symbol, row, failure.cause)
    number, params = (None, None) if of_set is None else (of_set.number, of_set.params)
    error = HandlerError(symbol, failure.sequence, handler.name, failure.code, reason, set_number=number, params=params)
    if not isinstance(failure.cause, EarlierPartError):  # which only says what machine code said
        error.__cause__ = failure.cause
    error._line = line_of(failure.cause, handler.written)
    if failure.key is None or row is None:
        return error
    if of_set is not None:
        handler, row = of_set.handler, of_set.row
    key = failure.key
    error.row = row[0]
    error._timer_ns = failure.time
    if failure.record is None:
        return error
    tick = named(np.frombuffer(failure.record, kept.record))
    error.tick = tick[0]
    error._place = None if failure.place is None or failure.strand is None else (failure.strand, failure.place)

    call = call_of(key, row[0], tick, table, kept)._replace(cause=failure.cause)
    if of_set is not None and of_set.context is not None:
        call = call._replace(context=of_set.context, object=of_set.context.object)
    error._again = partial(call_again, handler, call)
    error._line_in = partial(line_of, written=handler.written)
    return error


def place_of(error: HandlerError) -> tuple[int, int] | None:
    """The number of a failed tick's strand, and of the ticks that were before it there; None where it has none."""
    return error._place


def counts_all(engine: Engine, strand: int) -> bool:
    """Tells whether the position of a strand's failure counts every tick published before it, because none was
    dropped."""
    books = engine.strands.inspect(strand)
    # If strands go on, the drops of a failed strand come after its failure.
    after = books.dropped[_QUARANTINED] if engine.goes_on else 0
    return sum(books.dropped) == after and not books.lost


def timer_of(error: HandlerError) -> int | None:
    """The time of the timer that failed, in ns since the epoch; None where it was none."""
    return error._timer_ns


def _copy_of(record: Any) -> npt.NDArray[Any]:
    """A record as an array of shape (1,). numpy's array() of a record may share its memory."""
    copy = np.empty(1, record.dtype)
    copy[0] = record
    return copy


def call_of(key: int, row: Any, tick: npt.NDArray[Any], table: SymbolTable, kept: Kept) -> FailedCall:
    """A call of a handler for a tick, shape (1,), of the symbol with a key."""
    context, thing = kept.contexts.get(key), kept.objects.get(key)
    return FailedCall(table.name(key), key, _copy_of(row), tick, table, context, thing)


def call_again(handler: Handler, call: FailedCall, *, before: Before | None = None, anew: bool = False) -> Any:
    """Makes a call in Python, with copies of its row and tick; returns the row as the handler leaves it. ``before``:
    the input up to the tick, None where that cannot be read again. ``anew``: with the row as it was before the tick.
    Raises what the handler raises, and ConfigurationError where Python cannot call it, or the row is not known."""
    call = call._replace(row=_copy_of(call.row[0]), tick=call.tick.copy(), before=before)
    if anew:
        if before is None or not handler.is_native:
            raise ConfigurationError("replay: the row before the tick is not known")
        call = call._replace(row=before.row_before(handler), rehearses=True)
    handler.call_again(call)
    return call.row[0]


def failures_of(
    failures: Sequence[Failure],
    engine: Engine,
    table: SymbolTable,
    handlers: Sequence[Handler],
    *,
    raised: Sequence[Sequence[BaseException]],
    kept: Kept,
) -> list[HandlerError]:
    """The errors of failures that the engine keeps. ``raised``: each worker's exceptions, in the order of its
    failures."""
    found = []
    causes: list[Iterator[BaseException]] = [iter(list(errors)) for errors in raised]
    for failure in failures:
        assert failure.handler is not None
        assert failure.participant is not None
        cause = next(causes[failure.participant], None) if failure.code == RAISED else None
        handler = handlers[failure.handler]
        error = error_of(failure._replace(cause=cause), handler, table, kept)
        found.append(error)
        # Of what Python runs, only symbols that share rows share a strand.
        may_share = handler.is_native or any(part.shape.kind for part in handler.singles)
        if error._place is None or (may_share and engine.config.n_strands < engine.config.n_symbols):
            continue
        strand, place = error._place
        if counts_all(engine, strand):
            error.number = place + 1
    return found
