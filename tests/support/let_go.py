"""Check that the objects of a Python handler's run go with the last reference to the run."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np

import strand
from strand.errors import HandlerError

__all__ = ["FAILING", "HANDLERS", "kept_by"]


@strand.batch_handler(state=[("ticks", "u8")], outputs={"sizes": [("size", "u8")]})
def batches(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    row["ticks"] += len(ticks)
    ctx.emit((len(ticks),), at=0)


class KeepsItsContext:
    """As most objects do."""

    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_tick(self, tick: Any) -> None:
        pass


class Wakes(KeepsItsContext):
    """Has timers, too."""

    def on_start(self, ctx: Any) -> None:
        super().on_start(ctx)
        ctx.wake_at(1_000)

    def on_wake(self, time: int) -> None:
        self.ctx.wake_at(time + 1_000)


#: Each way in which Python runs a handler.
HANDLERS: dict[str, Any] = {
    "batches": batches,
    "object": strand.object_handler(KeepsItsContext),
    "timers": strand.object_handler(Wakes),
    "chained batches": strand.chain(strand.book(), batches),
    "chained timers": strand.chain(strand.book(), strand.object_handler(Wakes)),
}


class FailsToBegin:
    """No object of it can be made."""

    def __init__(self) -> None:
        raise ValueError("no")

    on_tick = KeepsItsContext.on_tick


class Fails(KeepsItsContext):
    def on_tick(self, tick: Any) -> None:
        raise ValueError("no")


class FailsAtTimers(Wakes):
    def on_wake(self, time: int) -> None:
        raise ValueError("no")


@strand.batch_handler(state=[("ticks", "u8")])
def fails(symbol: str, ticks: Any, row: Any) -> None:
    raise ValueError("no")


#: Each place in which a handler of Python can fail.
FAILING: dict[str, Any] = {
    "batches": fails,
    "objects": strand.object_handler(Fails),
    "timers": strand.object_handler(FailsAtTimers),
    "making objects": strand.object_handler(FailsToBegin),
    "chained objects": strand.chain(strand.book(), strand.object_handler(Fails)),
}


def kept_by(runs: list[Any]) -> list[str]:
    """Runs the only one of ``runs`` over ticks of two symbols, takes it out, and names the parts of it that are still
    there although the collector has not run."""
    ticks = strand.ticks.zeros(100)
    ticks["instrument_id"] = np.arange(100) % 2
    ticks["ts_recv"] = 100 * np.arange(100)
    gc.disable()
    try:
        try:
            with runs[0] as run:
                run.publish(ticks)
        except HandlerError:
            pass
        python = run._python
        contexts = list(python.contexts.values())
        parts = {type(part).__name__: weakref.ref(part) for part in (run, python, run._rows, *contexts)}
        runs.clear()
        del run, python, contexts
        return [name for name, part in parts.items() if part() is not None]
    finally:
        gc.enable()
