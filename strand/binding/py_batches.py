"""Work that the engine hands to a worker's Python, one strand at a time: records, a task's turn, a timer."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding import Core, ffi, lib
from strand.binding.engine_config import EngineConfig
from strand.binding.engine_words import Failure
from strand.binding.gate import Code, refusal, text_of
from strand.binding.memory import bytes_of
from strand.binding.tasks import ROSE_AT
from strand.ticks import named

__all__ = ["END", "FIRST", "RECORDS", "RESUME", "TASK", "WAKE", "EndBatch", "PyBatches"]

#: Records to handle, a task's turn, that of a suspended one, or a timer's.
RECORDS: Final[int] = lib.SD_PY_RECORDS
TASK: Final[int] = lib.SD_PY_TASK
RESUME: Final[int] = lib.SD_PY_RESUME
WAKE: Final[int] = lib.SD_PY_WAKE

#: Places in ``PyBatches.words``.
FIRST: Final[int] = ffi.offsetof("sd_py_worker", "first") // 8
END: Final[int] = ffi.offsetof("sd_py_worker", "end") // 8

_RECORDS_AT: Final[int] = (ffi.offsetof("sd_py_worker", "batch") + ffi.offsetof("sd_py_batch", "records")) // 8

_POSITION: Final = np.dtype([("number", "<u8"), ("time", "<i8")])
#: Bytes of a failure's message, its end not counted.
_MESSAGE: Final = 255


def _text(message: str) -> bytes:
    return message.encode(errors="backslashreplace")[:_MESSAGE]


def _said(failure: Failure | None) -> tuple[int, bytes]:
    """The code and the message that C is given; 0: it did not fail."""
    return (0, b"") if failure is None else (failure.code, _text(failure.message))


def _whole(memory: npt.NDArray[np.uint8], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """View of the memory as records, as many as fit into it."""
    records: npt.NDArray[Any] = memory[: len(memory) // dtype.itemsize * dtype.itemsize].view(dtype)
    return records


def _check(code: int, message: Any) -> None:
    if code != lib.SD_OK:
        raise refusal(code, text_of(message) or "records were emitted for ticks that do not exist")


class Memories(Protocol):
    """The engine, as far as batches need it."""

    config: EngineConfig

    def memory(self, participant: int, *, copied: bool) -> tuple[int, npt.NDArray[np.uint8]]: ...


class PyBatches:
    """The strands that one worker's Python has to run, one at a time: ``more`` waits for the first one. ``go_on``,
    ``stopped`` or ``failed`` end a strand's records, ``task_done`` a task, and ``wake_done`` a timer. Each returns the
    next strand, whose records are ``records[words[FIRST]:words[END]]``; -1: ``what`` says what it is.

    The steps of a worker for each call of a handler are here as attributes, and not behind methods: a method costs as
    much as a crossing to C.
    """

    def __init__(self, engine: Memories, d: Any, participant: int, dtype: np.dtype[Any], core: Core) -> None:
        self._lib = core.lib
        self._d = d
        self._participant = participant
        #: The words of the structure, for reading one of an array takes half the time of a field of a structure.
        self.words = array("q", bytes(ffi.sizeof("sd_py_worker")))
        #: Argument of ``go_on``.
        self.hand = core.ffi.from_buffer("sd_py_worker *", self.words)
        self.hand.d, self.hand.participant = d, participant
        self._batch = core.ffi.addressof(self.hand, "batch")
        self._dtype = dtype
        #: A timer is in hand, and no records.
        self.at_timer = False
        # A handler that keeps its ticks reads what came later, but no memory that is gone: both hold the engine.
        self._arena_at, self._arena = engine.memory(participant, copied=False)
        self._copied_at, copied = engine.memory(participant, copied=True)
        #: The arena as records, from its start on: slicing takes a third of the time of making an array.
        self.records = named(_whole(self._arena, dtype))
        self._copied = named(_whole(copied, dtype))
        #: All of the records in ``hand`` were handled: the next strand, as ``more``.
        self.go_on: Callable[[Any], int] = self._lib.sd_py_worker_go_on
        # A free task takes the lock of a list alone. That of a strand may be in the hands of a publisher for a while.
        self._n_strands = engine.config.n_strands
        pointer, one, code = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int
        at, batch = (int(core.ffi.cast("uintptr_t", it)) for it in (d, self._batch))
        suspend = core.keeping_gil("sd_task_suspend", code, pointer, one, pointer, code)
        self._suspend = partial(suspend, at, participant, batch)
        self._return = partial(core.keeping_gil("sd_task_return", code, pointer, one, one), at, participant)

    def more(self) -> int:
        """Runs native handlers until there is something for Python: a strand, or -1, and ``what`` says what it is."""
        return int(self._lib.sd_py_worker_next(self.hand))

    @property
    def what(self) -> int:
        """RECORDS, to be had by ``take``, TASK or WAKE; else the dispatcher stops."""
        return int(self.hand.what)

    # ---- records

    def take(self) -> tuple[int, npt.NDArray[Any]]:
        """The strand in hand and its records: copied together, or at no whole multiple of their size in the arena."""
        strand, address, n = int(self._batch.strand), self.words[_RECORDS_AT], self.n
        if address == self._copied_at:
            return strand, self._copied[:n]
        at = address - self._arena_at
        return strand, named(self._arena[at : at + n * self._dtype.itemsize].view(self._dtype))

    @property
    def n(self) -> int:
        """Records of the batch in hand."""
        return int(self._batch.n)

    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each record of the batch in hand, ns, shape (n,): where records carry positions."""
        positions = ffi.buffer(self._batch.positions, self.n * _POSITION.itemsize)
        times: npt.NDArray[np.int64] = np.frombuffer(positions, _POSITION)["time"].copy()
        return times

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None:
        """Emits on behalf of the batch in hand: record i for its record at[i], or all for the timer in hand."""
        message, n, batch = ffi.new("char[104]"), len(records), self._batch
        if self.at_timer:
            key, ns = batch.wake_key, batch.wake_time
            code = self._lib.sd_py_emit_timer(
                self._d, self._participant, key, ns, 0, output, bytes_of(records), n, message
            )
        else:
            to = ffi.NULL if at is None else ffi.cast("int64_t *", ffi.from_buffer(at))
            code = self._lib.sd_py_emit(self._d, self._participant, batch, output, to, bytes_of(records), n, message)
        _check(code, message)

    def arm(self, handled: int, alarm: int) -> None:
        """Says when the timer of the batch's symbol is due from now on, as of its first ``handled`` records; 0: never.
        It is after the last of them."""
        if code := self._lib.sd_py_wake_at(self._d, self._batch, handled, alarm):
            raise refusal(code, f"a timer at {alarm} ns cannot be asked for by record {handled - 1} of {self.n}")

    def stopped(self, handled: int) -> int:
        """The first ``handled`` records were; the others come again, behind a timer. The next strand, as ``more``."""
        return self._done(handled, 0, b"")

    def failed(self, failure: Failure) -> int:
        """The handler failed on a record: the next strand, as ``more``."""
        return self._done(failure.handled, failure.code, _text(failure.message))

    def _done(self, handled: int, code: int, message: bytes) -> int:
        if refused := self._lib.sd_worker_done(self._d, self._participant, self._batch, handled, code, message):
            raise refusal(refused, f"{handled} of {self._batch.n} records cannot have been handled")
        return self.more()

    # ---- tasks and timers

    @property
    def task(self) -> int:
        """The tag of the task whose turn it is."""
        return int(self._batch.task)

    @property
    def tag(self) -> int:
        """``task``, with the level to which the task had risen (``ROSE_AT``)."""
        return int(self._batch.task | self._batch.rose << ROSE_AT)

    def task_done(self) -> int:
        """Ends the task, which has run. Returns the next strand, as ``more`` does."""
        self._lib.sd_worker_task_done(self._d, self._participant, self._batch)
        return self.more()

    @property
    def entry(self) -> int:
        """The task in hand, as ``come_back`` takes it: a free one, or one on a strand."""
        return int(self._batch.strand)

    def suspender(self, *, away: bool) -> Callable[[], int]:
        """A call of C, for the task in hand: that gives this worker back, and nothing is in hand, so another thread may
        be the worker. A worker gets the task by RESUME; one that is ``away`` only after ``come_back``. The call returns
        0, or another code where a stop ends the tasks, and the task stays in hand."""
        if self.entry < self._n_strands:
            return partial(self._lib.sd_task_suspend, self._d, self._participant, self._batch, away)
        return partial(self._suspend, away)

    def returner(self, entry: int) -> Callable[[], int]:
        """A call of C, by the thread of a task that went away from this worker: the task waits for any worker. It
        returns 0, or another code where a stop has ended the task."""
        if entry < self._n_strands:
            return partial(self._lib.sd_task_return, self._d, self._participant, entry)
        return partial(self._return, entry)

    def come_back(self, entry: int) -> bool:
        """Calls ``returner``. False: a stop has ended the task."""
        return self.returner(entry)() == Code.OK

    def resumed(self) -> None:
        """Continues the suspended task in hand as this worker; called by the task's thread."""
        self._lib.sd_task_resumed(self._d, self._participant)

    def wake(self) -> tuple[int, int]:
        """The strand whose timer is due, and its time. Records emitted from here to ``wake_done`` are the timer's."""
        self.at_timer = True
        return int(self._batch.strand), int(self._batch.wake_time)

    def wake_done(self, alarm: int, failure: Failure | None = None) -> int:
        """The timer has run, or failed; ``alarm``: when the symbol's next one is due, 0: never. The next strand, as
        ``more``."""
        self.at_timer = False
        if refused := self._lib.sd_worker_wake_done(self._d, self._participant, self._batch, alarm, *_said(failure)):
            raise refusal(refused, "a timer of a handler without timers")
        return self.more()


class EndBatch:
    """A symbol's end, when nothing runs any more: where its Python handler emits to."""

    n = 0
    at_timer = True

    def __init__(self, d: Any, key: int, time: int, core: Core) -> None:
        self._lib = core.lib
        self._d = d
        self._key = key
        self._time = time

    def times(self) -> npt.NDArray[np.int64]:
        """None: there is no tick in hand."""
        return np.empty(0, np.uint64)

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None:  # noqa: ARG002 - as PyBatches has it
        """Emits on behalf of the end."""
        message = ffi.new("char[104]")
        given = bytes_of(records), len(records), message
        _check(self._lib.sd_py_emit_timer(self._d, 0, self._key, self._time, 1, output, *given), message)

    def done(self, failure: Failure | None = None) -> bool:
        """Notes that the symbol's end is over, or has failed. False: nothing more is to be finished."""
        return bool(self._lib.sd_dispatcher_finished(self._d, self._key, *_said(failure)) == lib.SD_OK)

    def close(self) -> None:
        """Readers of the symbol's row may trust it again."""
        self._lib.sd_dispatcher_finish_end(self._d, self._key)
