"""What a worker thread does: pins itself, lives in C, and runs the handlers that are Python's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from strand._bindings.claims import RECORDS, TASK, Claims
from strand.failures import RAISED, describe
from strand.handlers.context import FailedOnTick
from strand.python_handlers import PythonHandlers

if TYPE_CHECKING:
    from strand.dispatcher import Dispatcher

__all__ = ["run_worker"]


def run_worker(dispatcher: Dispatcher, slot: int, core: int | None) -> None:
    """The body of worker ``slot``, until the dispatcher stops."""
    try:
        if core is not None:
            os.sched_setaffinity(0, {core})  # 0: this thread alone
        _work(dispatcher, slot)
    except BaseException as error:
        dispatcher._worker_broke(error)
    finally:
        dispatcher._worker_ended()


def _work(dispatcher: Dispatcher, slot: int) -> None:
    """A claim is a strand's, and a strand of a Python handler is one symbol's: what to call is found by the strand."""
    python = dispatcher._python
    claims = dispatcher._engine.claims(slot, dispatcher._reader.dtype)
    python.enter(slot, claims)
    calls, meet = python.calls, python.meet
    take, go_on = claims.take, claims.go_on
    more = claims.more()
    while more:
        if more == TASK:
            dispatcher._asked.run(dispatcher, claims.task)
            more = claims.task_done()
            continue
        if more != RECORDS:
            more = _wake(python, claims)
            continue
        strand, ticks = take()
        try:
            handled = (calls.get(strand) or meet(strand))(ticks)
        except BaseException as error:
            at, cause = (error.handled, error.__cause__ or error) if type(error) is FailedOnTick else (0, error)
            python.raised(cause)
            more = claims.failed(at, RAISED, describe(cause))
        else:
            more = go_on() if handled is None else claims.stopped(handled)


def _wake(python: PythonHandlers, claims: Claims) -> int:
    """Runs the timer in hand: the next strand, as ``Claims.more``."""
    strand, time = claims.wake()
    work = python.at_work[strand]
    try:
        wish = work.wake(time)
    except BaseException as error:
        python.raised(error)
        return claims.wake_done(work.wish, RAISED, describe(error))
    return claims.wake_done(wish)
