"""What a worker thread does: pins itself, lives in C, and runs the handlers that are Python's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from strand._bindings.engine import RECORDS
from strand.errors import HandlerError
from strand.handlers.context import Context, FailedOnTick

if TYPE_CHECKING:
    from strand.dispatcher import Dispatcher

__all__ = ["RAISED", "describe", "objects_of", "run_worker", "stop_objects"]

#: The code of a failure that was an exception in Python.
RAISED = -1000
#: Exceptions kept a worker; the engine keeps as many failures in all.
KEPT = 64


def run_worker(dispatcher: Dispatcher, slot: int, core: int | None) -> None:
    """The body of worker ``slot``, until the dispatcher stops."""
    try:
        if core is not None:
            os.sched_setaffinity(0, {core})  # 0: this thread alone
        dispatcher._this_thread.slot = slot
        _work(dispatcher, slot)
    except BaseException as error:
        dispatcher._worker_broke(error)
    finally:
        dispatcher._worker_ended()


def _work(dispatcher: Dispatcher, slot: int) -> None:
    """A claim is a strand's, and a strand of a Python handler is one symbol's: what to call is found by the strand."""
    causes = dispatcher._causes[slot]
    claims = dispatcher._engine.claims(slot, dispatcher._reader.dtype)
    dispatcher._this_thread.claims = claims
    calls, meet = dispatcher._calls, dispatcher._meet
    take, go_on = claims.take, claims.go_on
    more = claims.more()
    while more:
        if more != RECORDS:
            dispatcher._asked.run(dispatcher, claims.task)
            more = claims.task_done()
            continue
        strand, ticks = take()
        try:
            (calls.get(strand) or meet(strand))(ticks)
        except BaseException as error:
            handled, cause = (error.handled, error.__cause__ or error) if type(error) is FailedOnTick else (0, error)
            if len(causes) < KEPT:
                causes.append(cause)
            more = claims.failed(handled, RAISED, describe(cause))
        else:
            more = go_on()


def describe(error: BaseException) -> str:
    """An exception in one line, whatever its own way of saying so does."""
    try:
        text = str(error)
    except Exception:
        text = "(it cannot be shown as text)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def objects_of(contexts: dict[int, Context]) -> dict[str, Any]:
    """The objects of object handlers by symbol, in the order of their keys."""
    found = sorted(contexts.copy().items())
    return {context.symbol: context.object for _, context in found if context.object is not None}


def stop_objects(contexts: dict[int, Context]) -> HandlerError | None:
    """Calls ``on_stop`` of all objects, in the order of their keys, and returns the first failure."""
    failure: HandlerError | None = None
    for _, context in sorted(contexts.items()):
        on_stop = getattr(context.object, "on_stop", None)
        if on_stop is None:
            continue
        try:
            on_stop()
        except Exception as error:
            if failure is None:
                failure = HandlerError(context.symbol, 0, context.handler, RAISED, f"{describe(error)}, in on_stop")
                failure.__cause__ = error
    return failure
