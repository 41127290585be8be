"""Whether what a run of a Python handler keeps goes with the last reference to it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np

import strand

__all__ = ["HANDLERS", "kept_by"]


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


def kept_by(runs: list[Any]) -> list[str]:
    """Runs the only one of ``runs`` over ticks of two symbols, takes it out, and names the parts of it that are still
    there although the collector has not run."""
    ticks = strand.ticks.zeros(100)
    ticks["instrument_id"] = np.arange(100) % 2
    ticks["ts_recv"] = 100 * np.arange(100)
    gc.disable()
    try:
        with runs[0] as run:
            run.publish(ticks)
        python = run._python
        contexts = python.contexts.values()
        parts = {type(part).__name__: weakref.ref(part) for part in (run, python, run._rows, *contexts)}
        assert len(contexts) == 2
        runs.clear()
        del run, python, contexts
        return [name for name, part in parts.items() if part() is not None]
    finally:
        gc.enable()
