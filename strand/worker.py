"""What a worker thread does: pins itself, lives in C, and runs the handlers that are Python's."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from strand._bindings.engine import Claim
    from strand.dispatcher import Dispatcher

__all__ = ["RAISED", "describe", "run_worker"]

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


def _work(dispatcher: Dispatcher, slot: int) -> None:
    engine, causes = dispatcher._engine, dispatcher._causes[slot]
    room = engine.new_claim()
    while (claim := engine.worker_next(slot, room)) is not None:
        handled, error = _run(dispatcher, claim)
        if error is None:
            engine.worker_done(slot, room, handled)
        else:
            if len(causes) < KEPT:
                causes.append(error)
            engine.worker_done(slot, room, handled, RAISED, describe(error))


def describe(error: BaseException) -> str:
    """An exception in one line, whatever its own way of saying so does."""
    try:
        text = str(error)
    except Exception:
        text = "(it cannot be shown as text)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _run(dispatcher: Dispatcher, claim: Claim) -> tuple[int, BaseException | None]:
    """Runs a Python handler over a claim, symbol by symbol; returns how many records it handled, and what it raised."""
    handler = dispatcher._handlers[claim.handler]
    reader = dispatcher._reader
    records: Any = np.frombuffer(claim.records, dtype=reader.dtype)
    records.flags.writeable = False  # what waits after them lies in the same block
    keys = records[reader.key]
    starts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), claim.n] if claim.n > 1 else [0, claim.n]
    assert handler.on_ticks is not None
    for start, end in itertools.pairwise(starts):
        key = int(keys[start])
        try:
            handler.on_ticks(dispatcher._table.name(key), records[start:end], dispatcher._rows.at(key))
        except BaseException as error:
            return start, error
    return claim.n, None
