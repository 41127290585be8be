"""The publishers' side of a dispatcher: slots for threads that publish or drain, and waiting in slices."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from strand._bindings.engine import Engine, PublisherSlot
from strand._bindings.engine_words import Code
from strand._bindings.itch_flow import ItchFlow
from strand.errors import BackpressureError, EngineError, StoppedError, UnknownSymbolError, WouldDeadlockError
from strand.numbers import seconds
from strand.threads import Inside

__all__ = ["NONE", "NOT_STARTED", "Publishers", "publish_error"]

#: How long C waits before it lets Python look for signals.
SLICE_NS = 20_000_000
#: No positions of records.
NONE = np.empty(0, dtype=np.int64)
NOT_STARTED = "no worker runs: use the dispatcher as a context manager, or call start()"


class Publishers:
    """A thread that publishes, or helps to drain, holds one of the engine's slots for publishers meanwhile.

    It is marked as inside for as long: a signal handler that publishes would wait for the slot of its own thread.

    ``workers``: their threads, once they run: without any there is nothing to wait for."""

    def __init__(self, engine: Engine, workers: Sequence[threading.Thread], inside: Inside) -> None:
        self._engine = engine
        self._workers = workers
        self._inside = inside
        #: Of each thread, by its ident, that was ever here.
        self._slots: dict[int, PublisherSlot] = {}

    def publish(self, array: npt.NDArray[Any], timeout_s: float | None) -> tuple[int, npt.NDArray[np.int64]]:
        """Publishes records, and waits for room for as long as it may: the engine's code, and the positions of those
        that were not accepted."""
        deadline = _deadline(timeout_s)
        me, held = threading.get_ident(), self._slot()
        try:
            # What is half published counts as accepted meanwhile: no stop may end before this does.
            self._inside.threads.append(me)
            slot = _enter(held, deadline)
            if slot is None:
                return Code.AGAIN, np.arange(len(array))
            code = self._engine.publish(slot, array, _slice_ns(deadline))
            while code == Code.AGAIN and self._workers and not _passed(deadline):
                code = self._engine.publish_more(slot, _slice_ns(deadline))
            return code, NONE if code == Code.OK else self._engine.rejected(slot)
        finally:
            try:
                held.give()
            finally:
                self._inside.threads.remove(me)

    def flow(self, flow: ItchFlow, *, flush: bool) -> tuple[int, npt.NDArray[np.int64]]:
        """Lets a flow decode and publish: the engine's code, AGAIN where time is over and nothing half published, and
        the positions in what it holds that were not accepted."""
        me, held = threading.get_ident(), self._slot()
        try:
            self._inside.threads.append(me)
            slot = _enter(held, None)
            assert slot is not None
            code = self._engine.flow(slot, flow, flush=flush, slice_ns=SLICE_NS)
            while code == Code.AGAIN and flow.is_open:
                code = self._engine.flow(slot, flow, flush=flush, slice_ns=SLICE_NS)
            return code, NONE if code in (Code.OK, Code.AGAIN) else self._engine.rejected(slot)
        finally:
            try:
                held.give()
            finally:
                self._inside.threads.remove(me)

    def drain(self, timeout_s: float | None) -> int:
        """Waits until all is handled, for as long as it may: the engine's code, AGAIN where it is not. Raises
        StoppedError where nobody will."""
        deadline = _deadline(timeout_s)
        me, held = threading.get_ident(), self._slot()
        try:
            self._inside.threads.append(me)
            # All slots may be taken by publishers that wait for this thread: then it waits without helping.
            slot = _enter(held, time.monotonic())
            while (code := self._engine.drain(slot, _slice_ns(deadline))) == Code.AGAIN:
                if _passed(deadline):
                    break
                if not self._workers:
                    raise StoppedError(f"there are ticks to handle, but {NOT_STARTED}")
            return code
        finally:
            try:
                held.give()
            finally:
                self._inside.threads.remove(me)

    def _slot(self) -> PublisherSlot:
        """The calling thread's: what an interrupted call left in it is used again."""
        me = threading.get_ident()
        slot = self._slots.get(me)
        return self._slots.setdefault(me, self._engine.publisher_slot()) if slot is None else slot

    def wait_for_others(self) -> None:
        """Until no other thread holds a slot. This one may, where an interrupt came as it left."""
        me = threading.get_ident()
        while any(held.number is not None for ident, held in list(self._slots.items()) if ident != me):
            time.sleep(0.0001)


def _enter(held: PublisherSlot, deadline: float | None) -> int | None:
    """A slot's number; None where all were in use until the deadline."""
    while True:
        held.take()
        if (slot := held.number) is not None or _passed(deadline):
            return slot
        time.sleep(0.0001)


def _deadline(timeout_s: float | None) -> float | None:
    limit = seconds("timeout_s", timeout_s)
    return None if limit is None else time.monotonic() + limit


def _slice_ns(deadline: float | None) -> int:
    """How long C may wait at one go."""
    if deadline is None:
        return SLICE_NS
    return max(0, int(min(SLICE_NS, (deadline - time.monotonic()) * 1e9)))


def _passed(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def publish_error(
    code: int, array: npt.NDArray[Any], rejected: npt.NDArray[np.int64], *, key: str, symbols: int, started: bool
) -> Exception:
    """What to raise for a code of publishing, but for that of a stop. ``rejected``: positions in the array; ``key``:
    its field for one of so many ``symbols``; ``started``: workers run."""
    if code == Code.KEY:
        at = int(rejected[0])
        return UnknownSymbolError(
            f"record {at}: {key} is {array[key][at]}, but there are {symbols} symbols (0 to {symbols - 1}); "
            f"the {at} records before it were published",
            position=at,
        )
    text = f"{len(rejected)} of {len(array)} records were not accepted, the first at position {rejected[0]}: "
    if code == Code.WOULD_DEADLOCK:
        return WouldDeadlockError(text + "a handler must not wait for room on a full strand", rejected)
    if code in (Code.FULL, Code.AGAIN):
        why = "their strands are full, or all blocks are in use"
        return BackpressureError(text + (why if started else f"{why}, and {NOT_STARTED}"), rejected)
    return EngineError(f"publishing ended with code {code}")
