"""What a worker's Python is given by the engine, one strand at a time: records, a task's turn, a timer."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from strand._bindings import ffi, lib
from strand._bindings.memory import bytes_of
from strand.errors import EngineError

if TYPE_CHECKING:
    from strand._bindings.engine import Engine

__all__ = ["RECORDS", "TASK", "WAKE", "Claims", "EndClaim"]

#: Records to handle, a task's turn, or a timer's.
RECORDS: Final[int] = lib.SD_CLAIM_RECORDS
TASK: Final[int] = lib.SD_CLAIM_TASK
WAKE: Final[int] = lib.SD_CLAIM_WAKE

_MARK: Final = np.dtype([("number", "<u8"), ("time", "<u8")])
#: Bytes of a failure's message, its end not counted.
_MESSAGE: Final = 255


def _text(message: str) -> bytes:
    return message.encode(errors="backslashreplace")[:_MESSAGE]


def _check(code: int, message: Any) -> None:
    if code != lib.SD_OK:
        raise EngineError(ffi.string(message).decode() or "records were emitted for ticks that are not there")


class Claims:
    """The strands that one worker's Python has to run, one at a time: ``more`` waits for the first one, ``take`` says
    what it is, ``go_on``, ``stopped`` or ``failed`` end it; ``task_done`` and ``wake_done`` end a task and a timer."""

    _FIELDS = struct.Struct("=IIQq")

    def __init__(self, engine: Engine, d: Any, slot: int, dtype: np.dtype[Any]) -> None:
        self._d = d
        self._slot = slot
        self._claim = ffi.new("sd_claim *")
        self._bytes = ffi.buffer(self._claim)
        self._dtype = dtype
        self._size = dtype.itemsize
        #: A timer is in hand, and no records.
        self.at_timer = False
        # A handler that keeps its ticks reads what came later, but no memory that is gone: both hold the engine.
        self._arena_at, self._arena = engine.memory(slot, copied=False)
        self._copied_at, self._copied = engine.memory(slot, copied=True)
        # Slicing takes a third of the time of making an array, where records lie at whole multiples of their size.
        whole = lib.SD_BLOCK_HEADER % self._size == 0 and engine.block_bytes % self._size == 0
        self._records = self._arena[: len(self._arena) // self._size * self._size].view(dtype) if whole else None

    def more(self) -> int:
        """Runs native handlers until there is something for Python: RECORDS, TASK or WAKE; 0 when the dispatcher
        stops."""
        return max(0, int(lib.sd_worker_next(self._d, self._slot, self._claim)))

    # ---- records

    def take(self) -> tuple[int, npt.NDArray[Any]]:
        """The claimed strand, and its records in a row: valid until it is ended."""
        strand, _, address, n = self._FIELDS.unpack_from(self._bytes)
        at = address - self._arena_at
        if self._records is not None and 0 <= at < self._arena.nbytes:
            first = at // self._size
            return strand, self._records[first : first + n]
        base = self._arena
        if not 0 <= at < base.nbytes:
            base, at = self._copied, address - self._copied_at
        return strand, base[at : at + n * self._size].view(self._dtype)

    @property
    def n(self) -> int:
        """Records of the claim in hand."""
        return int(self._claim.n)

    def times(self) -> npt.NDArray[np.uint64]:
        """The feed's time at each record of the claim in hand, ns, shape (n,): where records carry marks."""
        marks = ffi.buffer(self._claim.marks, self.n * _MARK.itemsize)
        times: npt.NDArray[np.uint64] = np.frombuffer(marks, _MARK)["time"].copy()
        return times

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None:
        """Emits on behalf of the claim in hand: record i for its record at[i], or all for the timer in hand."""
        message, n, claim = ffi.new("char[104]"), len(records), self._claim
        if self.at_timer:
            key, ns = claim.wake_key, claim.wake_time
            code = lib.sd_emit_timer(self._d, self._slot, key, ns, 0, output, bytes_of(records), n, message)
        else:
            to = ffi.NULL if at is None else ffi.cast("int64_t *", ffi.from_buffer(at))
            code = lib.sd_emit_claimed(self._d, self._slot, claim, output, to, bytes_of(records), n, message)
        _check(code, message)

    def arm(self, handled: int, wish: int) -> None:
        """Says when the timer of the claim's symbol is due from now on, as of its first ``handled`` records; 0: never.
        It is after the last of them."""
        if lib.sd_claim_wake_at(self._d, self._claim, handled, wish) != lib.SD_OK:
            raise EngineError(f"a timer at {wish} ns cannot be asked for by record {handled - 1} of {self.n}")

    def go_on(self) -> int:
        """All of it was handled: the next one, as ``more``."""
        return max(0, int(lib.sd_worker_go_on(self._d, self._slot, self._claim)))

    def stopped(self, handled: int) -> int:
        """The first ``handled`` records were; the others come again, behind a timer. The next strand, as ``more``."""
        return self._done(handled, 0, b"")

    def failed(self, handled: int, code: int, message: str) -> int:
        """The first ``handled`` records were, the next one failed: the next strand, as ``more``."""
        return self._done(handled, code, _text(message))

    def _done(self, handled: int, code: int, message: bytes) -> int:
        if lib.sd_worker_done(self._d, self._slot, self._claim, handled, code, message) != lib.SD_OK:
            raise EngineError(f"{handled} of {self._claim.n} records cannot have been handled")
        return self.more()

    # ---- tasks and timers

    @property
    def task(self) -> int:
        """The tag of the task whose turn it is."""
        return int(self._claim.task)

    def task_done(self) -> int:
        """It has run: the next strand, as ``more``."""
        lib.sd_worker_task_done(self._d, self._slot, self._claim)
        return self.more()

    def wake(self) -> tuple[int, int]:
        """The strand whose timer it is, and its time. What is emitted from here to ``wake_done`` is the timer's."""
        self.at_timer = True
        return int(self._claim.strand), int(self._claim.wake_time)

    def wake_done(self, wish: int, code: int = 0, message: str = "") -> int:
        """The timer has run, or (``code`` not 0) failed; ``wish``: when the symbol's next one is due, 0: never. The
        next strand, as ``more``."""
        self.at_timer = False
        if lib.sd_worker_wake_done(self._d, self._slot, self._claim, wish, code, _text(message)) != lib.SD_OK:
            raise EngineError("a timer of a handler without timers")
        return self.more()


class EndClaim:
    """A symbol's end, when nothing runs any more: where its Python handler emits to."""

    n = 0
    at_timer = True

    def __init__(self, d: Any, key: int, time: int) -> None:
        self._d = d
        self._key = key
        self._time = time

    def times(self) -> npt.NDArray[np.uint64]:
        """None: there is no tick in hand."""
        return np.empty(0, np.uint64)

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None:  # noqa: ARG002 - as Claims has it
        """Emits on behalf of the end."""
        message = ffi.new("char[104]")
        given = bytes_of(records), len(records), message
        _check(lib.sd_emit_timer(self._d, 0, self._key, self._time, 1, output, *given), message)

    def done(self, code: int = 0, message: str = "") -> bool:
        """It is over, or (``code`` not 0) failed. False: nothing more is to be finished."""
        return bool(lib.sd_dispatcher_finished(self._d, self._key, code, _text(message)) == lib.SD_OK)
