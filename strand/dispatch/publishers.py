"""The part of a dispatcher that publishes and drains: participants for threads that do, and waiting in slices."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.columns import Seen
from strand.binding.engine import Publisher
from strand.binding.feeder import Feeder, Step
from strand.binding.gate import NOT_STARTED, Code, publish_error
from strand.dispatch.calls import RunTasks
from strand.dispatch.python_handlers import PythonHandlers
from strand.dispatch.records import OrderWatch, RecordReader
from strand.dispatch.routing import Routing
from strand.dispatch.state import RunState
from strand.errors import StoppedError, WouldDeadlockError
from strand.tasks.waits import LOOPS, in_loop
from strand.threads import NEVER, WAITS_FOR_ITSELF, Deadline
from strand.validate import seconds

#: Longest wait in C before Python looks for signals.
SLICE_NS = 20_000_000
#: No positions of records.
NONE = np.empty(0, dtype=np.int64)


class Publishers:
    """A thread that publishes, or helps to drain, holds one of the engine's participants for publishers meanwhile.

    It is marked as inside for as long: a signal handler that publishes would wait for its own thread's.
    """

    def __init__(
        self,
        state: RunState,
        reader: RecordReader,
        orders: OrderWatch,
        routing: Routing,
        python: PythonHandlers,
        *,
        tasks: RunTasks,
    ) -> None:
        self._state = state
        self._reader = reader
        self._orders = orders
        self._routing = routing
        self._python = python
        self._tasks = tasks
        self._engine = state.engine
        self._inside = state.inside
        #: Of each thread, by its ident, that was ever here.
        self._held: dict[int, Publisher] = {}

    def publish(self, records: npt.NDArray[Any] | np.void, timeout_s: float | None) -> int:
        """See ``Dispatcher.publish``, which alone calls it."""
        array = self._reader.read(records)
        if self._state.closing:
            raise self._state.stopped_error()
        if len(array) == 0:
            return 0
        self._state.outputs.merger.wake()
        if self._orders.is_needed:
            self._orders.look(array, stacklevel=3)
        if not self._routing.is_known:
            self._routing.by_keys(array[self._reader.key])
        if self._inside.here:
            return self._publish_nested(array)
        if timeout_s is None and LOOPS and in_loop() and self._tasks.here:
            timeout_s = 0  # room may come only when this coroutine, or another one in its thread, has ended
        if self._state.overload.is_on and self._state.overload.look(stacklevel=3):
            self._state.tell_failures()
        deadline = NEVER if timeout_s is None else Deadline(seconds("timeout_s", timeout_s))
        me, held = threading.get_ident(), self._participant()
        try:
            # A half-published batch counts as accepted meanwhile: no stop may end before this does.
            self._inside.threads.append(me)
            if _enter(held, deadline) is None:
                code, rejected = Code.AGAIN, np.arange(len(array))
            else:
                code = held.publish(array, deadline.slice_ns(SLICE_NS))
                while code == Code.AGAIN and self._state.threads and not deadline.has_passed():
                    code = held.publish_more(deadline.slice_ns(SLICE_NS))
                rejected = NONE if code == Code.OK else held.rejected()
        finally:
            try:
                held.give()
            finally:
                self._inside.threads.remove(me)
        if code == Code.OK:
            self._end_if_failed()
            return len(array)
        raise self._error(code, array, rejected)

    def _end_if_failed(self) -> None:
        """Ends the run after a failure where strands go on: the ticks published before it are handled first."""
        if self._engine.goes_on_after_one:
            self.drain_inside(None)

    def _publish_nested(self, array: npt.NDArray[Any]) -> int:
        """Publishes from a handler, task or call."""
        site = self._python.site
        participant = site.participant
        if participant is None:
            if self._engine.stopping:
                raise self._state.stopped_error()
            if site.is_away:
                raise WouldDeadlockError(
                    "publish: not allowed within strand.blocking(): publish after that block", np.arange(len(array))
                )
            raise WouldDeadlockError(f"publish: {WAITS_FOR_ITSELF}: publish after that", np.arange(len(array)))
        code, rejected = self._engine.publish_nested(participant, array)
        if rejected is None:
            return len(array)
        raise self._error(code, array, rejected)

    def advance(self, time_ns: int) -> None:
        """See ``Dispatcher.advance``."""
        if self._inside.here or self._tasks.here:
            raise WouldDeadlockError(f"advance: {WAITS_FOR_ITSELF}: advance in the thread that publishes the ticks")
        if self._state.closing:
            raise self._state.stopped_error()
        self._state.outputs.merger.wake()
        me = threading.get_ident()
        self._inside.threads.append(me)  # no stop may end before this does
        try:
            self._engine.pass_time(time_ns)
        finally:
            self._inside.threads.remove(me)

    def feeder(self, counts: npt.NDArray[np.int64], seen: Seen, limit: int | None) -> Feeder:
        """Returns a feeder, through which a feed's decoder publishes as it decodes: for ``replay``. It starts once a
        batch has shown which symbols are busy. ``counts``: ticks by symbol, shape (n_symbols,), added to, as is
        ``seen``. ``limit``: ticks to end after."""
        return Feeder(self._step, counts, seen, limit)

    def _step(self, feeder: Feeder, step: Step) -> None:
        """Lets a feeder decode and publish, until time is over and nothing half published."""
        if self._state.closing:
            raise self._state.stopped_error()
        me, held = threading.get_ident(), self._participant()
        try:
            self._inside.threads.append(me)
            _enter(held, NEVER)
            code = held.step(step, SLICE_NS)
            while code == Code.AGAIN and feeder.is_open:
                code = held.step(step, SLICE_NS)
            rejected = NONE if code in (Code.OK, Code.AGAIN) else held.rejected()
        finally:
            try:
                held.give()
            finally:
                self._inside.threads.remove(me)
        if code not in (Code.OK, Code.AGAIN):
            raise self._error(code, feeder.held, rejected)
        self._end_if_failed()

    def drain(self, timeout_s: float | None) -> bool:
        """See ``Dispatcher.drain``."""
        if self._inside.here or self._tasks.here:
            raise WouldDeadlockError(f"drain: {WAITS_FOR_ITSELF}: drain in the thread that publishes the ticks")
        return self.drain_inside(timeout_s)

    def drain_inside(self, timeout_s: float | None) -> bool:
        """Drains in a thread that was found to be outside, and may be marked as inside since."""
        if self._state.closing:
            raise self._state.stopped_error()
        deadline = NEVER if timeout_s is None else Deadline(seconds("timeout_s", timeout_s))
        me, held = threading.get_ident(), self._participant()
        try:
            self._inside.threads.append(me)
            # All participants may be taken by publishers that wait for this thread: then it waits without helping.
            participant = _enter(held, Deadline(0))
            while (code := self._engine.drain(participant, deadline.slice_ns(SLICE_NS))) == Code.AGAIN:
                if deadline.has_passed():
                    break
                if not self._state.threads:  # there is nothing to wait for
                    raise StoppedError(f"there are ticks to handle, but {NOT_STARTED}")
        finally:
            try:
                held.give()
            finally:
                self._inside.threads.remove(me)
        if code == Code.OK and self._engine.goes_on_after_one:
            self._engine.stop()
        elif code in (Code.OK, Code.AGAIN):
            return code == Code.OK
        raise self._state.stopped_error()

    def _error(self, code: int, array: npt.NDArray[Any], rejected: npt.NDArray[np.int64]) -> Exception:
        """Returns the exception to raise for a code of publishing. ``rejected``: positions in the array."""
        if code == Code.STOPPED:
            return self._state.stopped_error()
        key, symbols, started = self._reader.key, len(self._state.table), bool(self._state.threads)
        return publish_error(code, array, rejected, key=key, symbols=symbols, started=started)

    def _participant(self) -> Publisher:
        """The calling thread's: what an interrupted call left in it is used again."""
        me = threading.get_ident()
        held = self._held.get(me)
        return self._held.setdefault(me, Publisher(self._engine)) if held is None else held

    def wait_for_others(self) -> None:
        """Waits until no other thread holds a participant. This thread may, where an interrupt came as it left."""
        me = threading.get_ident()
        while any(held.number is not None for ident, held in list(self._held.items()) if ident != me):
            time.sleep(0.0001)


def _enter(held: Publisher, deadline: Deadline) -> int | None:
    """A participant's number; None where all were in use until the deadline."""
    while True:
        held.take()
        if (participant := held.number) is not None or deadline.has_passed():
            return participant
        time.sleep(0.0001)
