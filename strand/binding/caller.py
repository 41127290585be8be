"""The engine as the thread that publishes drives it (csrc/caller/caller.h)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.engine import Engine
from strand.binding.engine_words import Failure
from strand.binding.gate import Code, text_of
from strand.binding.memory import bytes_of
from strand.binding.native import NativeFunction
from strand.binding.tasks import check_emitted

#: A record's place: its number in the order of publishing, and the feed's time there.
POSITION: Final = np.dtype([("number", "<u8"), ("time", "<i8")])
#: No number is as great.
_NEVER: Final = 2**64 - 1


class Caller:
    """Driver of an engine whose handlers are set, for one thread. Nobody else uses the engine meanwhile.

    Records are contiguous. What native handlers do is over when a method returns; an interrupt comes before or after.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._d = engine._d
        self._caller = caller = ffi.new("sd_caller *")
        lib.sd_caller_open(caller, self._d)
        #: The engine's number of this thread.
        self.participant = int(caller.participant)
        self._batch = caller.batch
        self._in_hand: Any = None
        #: Lets outputs end: before the record with a number, and after the timers of a time.
        self.end_at: Callable[[int, int], None] = partial(lib.sd_caller_end_at, caller)
        #: Sets the feed's time to that of the records that were handled before an interrupt.
        self.take_back: Callable[[int], None] = partial(lib.sd_caller_take_back, caller)

    # ---- native handlers

    def publish(self, records: npt.NDArray[Any]) -> int:
        """Runs records of native handlers. Returns the number of records it handled. If that is less than all, the next
        record failed, a timer before it failed (see ``failure``), or its key is out of range."""
        return int(lib.sd_caller_publish(self._caller, bytes_of(records), len(records)))

    def number(self, records: npt.NDArray[Any], positions: npt.NDArray[Any]) -> int:
        """Numbers records and fills in their ``positions`` (``POSITION``), up to the first key that is out of range.
        Returns how many there are."""
        to = ffi.cast("sd_position *", ffi.from_buffer(positions, require_writable=True))
        return int(lib.sd_caller_number(self._caller, bytes_of(records), len(records), to))

    def run(self, records: npt.NDArray[Any], positions: npt.NDArray[Any], *, passes: bool = False) -> int:
        """Runs numbered records. Returns how many it handled, as ``publish``. ``passes``: leaves out those of handlers
        that Python runs; there are none without it."""
        self._caller.passes = passes
        at = ffi.cast("sd_position *", bytes_of(positions))
        return int(lib.sd_caller_run(self._caller, bytes_of(records), at, len(records)))

    def wake(self, time: int) -> Failure | None:
        """Fires the native handlers' timers that are due at a time of the feed, until one fails: then others may be
        due still."""
        return self._timer_failure() if lib.sd_caller_wake(self._caller, time) else None

    def finish(self) -> Failure | None:
        """Runs the native handlers' ends, in the order of keys, until one fails."""
        if self._engine.finish() == Code.OK:
            return None
        lib.sd_failure_take(self._d, ffi.addressof(self._caller, "failure"))
        return self._timer_failure()

    def failure(self, handled: int) -> Failure | None:
        """Failure of the call that handled so many records; None: no handler failed."""
        caller = self._caller
        if not caller.failed:
            return None
        if caller.at_timer:
            return self._timer_failure()._replace(handled=handled)
        return self._told(Failure(int(caller.error_code), text_of(caller.message), handled=handled))

    def _told(self, failure: Failure) -> Failure:
        if not lib.sd_caller_refused(self._caller):
            return failure
        message = "it publishes, which a plain loop (workers=0) cannot do: give workers=1 or more"
        return failure._replace(message=message)

    def _timer_failure(self) -> Failure:
        """Failure of a timer, or an end, whose message says at which."""
        said = self._caller.failure
        return Failure(int(said.code), text_of(said.message), key=int(said.key), time=int(said.place))

    @property
    def handled(self) -> int:
        """Records that native handlers have handled so far."""
        return int(lib.sd_caller_handled(self._caller))

    # ---- Python's handlers

    def track(
        self, function: NativeFunction, records: npt.NDArray[Any], after: npt.NDArray[Any]
    ) -> tuple[int, Failure | None]:
        """Runs a chain of native handlers over records in hand, as ``strand.binding.engine.Chains.track``."""
        done, failure = self._engine.chains.track(self.participant, function, records, after)
        return done, None if failure is None else self._told(failure)

    def hold(self, handler: int, records: npt.NDArray[Any], positions: npt.NDArray[Any]) -> None:
        """Puts records in the hand of a Python handler, by its number: for ``emit``, and chains that end in Python."""
        data, at = bytes_of(records), bytes_of(positions)
        self._in_hand = data, at
        batch = self._batch
        batch.handler = batch.strand = handler
        batch.records, batch.n, batch.positions = data, len(records), ffi.cast("sd_position *", at)

    def emit(self, output: int, at: npt.NDArray[np.int64], records: npt.NDArray[Any]) -> None:
        """Emits record i on behalf of record at[i] in hand. Raises MemoryError."""
        message, places = ffi.new("char[104]"), ffi.cast("int64_t *", bytes_of(at))
        given = output, places, bytes_of(records), len(records), message
        batch = ffi.addressof(self._caller, "batch")
        check_emitted(lib.sd_py_emit(self._d, self.participant, batch, *given), message)

    def emit_at_timer(
        self, key: int, time: int, output: int, records: npt.NDArray[Any], *, at_end: bool = False
    ) -> None:
        """Emits records on behalf of a symbol's timer, or its end. Raises MemoryError."""
        message = ffi.new("char[104]")
        given = key, time, at_end, output, bytes_of(records), len(records), message
        check_emitted(lib.sd_py_emit_timer(self._d, self.participant, *given), message)

    def emitted(self, handler: int, *, below: int = _NEVER) -> None:
        """Lets what a handler has emitted since be merged, for numbers below a bound, and drops the rest."""
        lib.sd_caller_emitted(self._caller, handler, below)
