"""The engine's tasks, and work that it hands to a worker's Python, one strand at a time."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import Core, ffi, lib
from strand.binding.engine_words import Failure
from strand.binding.gate import Code, checked, refusal, text_of
from strand.binding.memory import Memory, bytes_of
from strand.errors import ConfigurationError, StoppedError
from strand.ticks import named

#: Of a task to submit: no symbol, and the priority of a strand that was given none.
NO_KEY: Final[int] = lib.SD_NO_KEY
USUAL_PRIORITY: Final[int] = lib.SD_USUAL_PRIORITY
#: In a tag that a worker takes, one more than the level to which the task has risen begins at this bit.
ROSE_AT: Final[int] = lib.SD_PY_ROSE_AT
#: In a priority of Levels, one more than the task's own level begins at this bit.
OWN_LEVEL: Final[int] = lib.SD_OWN_LEVEL
#: The most bytes that a task in C copies.
TASK_BYTES: Final[int] = lib.SD_TASK_BYTES
_FIELDS: Final = {
    name: (f"u{ffi.sizeof(field.type)}", field.offset) for name, field in ffi.typeof("sd_task_spec").fields
}
#: sd_task_spec.
_SPEC: Final = np.dtype(
    {
        "names": list(_FIELDS),
        "formats": [form for form, _ in _FIELDS.values()],
        "offsets": [offset for _, offset in _FIELDS.values()],
        "itemsize": ffi.sizeof("sd_task_spec"),
    }
)


def _keeping_gil(core: Core, name: str, *types: Any, kind: Any = ctypes.PYFUNCTYPE) -> Callable[..., int]:
    """A function of the core that waits for nobody, called without giving up the GIL, as cffi would for each call.
    ``types``: of its result and its arguments, by ctypes. ``kind``: CFUNCTYPE for one that waits, without the GIL."""
    address = core.ffi.addressof(core.lib, name)
    call: Callable[..., int] = kind(*types)(int(core.ffi.cast("uintptr_t", address)))
    return call


class TaskTotals(NamedTuple):
    """Tasks since the start; those not ended wait, run, or are suspended. ``cancelled`` and ``expired`` ended without
    running: a cancelled task ends when its turn comes. ``suspended``: times that a task gave its worker back."""

    submitted: int
    ended: int
    cancelled: int
    expired: int
    suspended: int


class Tasks:
    """The tasks of one engine. From any thread; nothing here waits.

    cffi gives up the GIL for each call, and with several threads at tasks each would wait for it again. So what a task
    needs goes through ctypes, which keeps it. ``submit_one(tag, priority, marks)`` submits a free task of Python's and
    returns its handle; 0: the table is full, the engine stops, or the policy has no such priority. ``charge(entry,
    on_cpu_ns)`` charges on-CPU time to the group of a task that is away, by its ``Suspension.entry``.
    """

    def __init__(self, d: Any, core: Core) -> None:
        self._d = d
        self._lib = core.lib
        self._ffi = core.ffi
        self._keeping_gil = partial(_keeping_gil, core)
        one, word = ctypes.c_uint32, ctypes.c_uint64
        pointer = int(core.ffi.cast("uintptr_t", d))
        self.submit_one: Callable[[int, int, int], int] = partial(
            self._keeping_gil("sd_py_task_submit", word, ctypes.c_void_p, word, one, one), pointer
        )
        self.charge: Callable[[int, int], object] = partial(
            self._keeping_gil("sd_task_charge", None, ctypes.c_void_p, one, word), pointer
        )
        self._give_up = partial(self._keeping_gil("sd_task_give_up", ctypes.c_int, ctypes.c_void_p, word), pointer)
        self._rose = partial(self._keeping_gil("sd_task_rose", one, ctypes.c_void_p, word), pointer)
        self._risen = partial(self._keeping_gil("sd_tasks_risen", None, ctypes.c_void_p, ctypes.c_void_p), pointer)
        self._submit_all = partial(
            self._keeping_gil("sd_py_tasks_submit", one, ctypes.c_void_p, ctypes.c_void_p, one, one), pointer
        )

    def next_of(self, hand: Any) -> Callable[[], int]:
        """Returns a call for the worker that owns ``hand``: it ends the current task and takes the next free task of
        Python's. The call returns the tag; 0: there is none, or other work comes next: ask ``PyBatches.more``."""
        call = self._keeping_gil("sd_py_task_next", ctypes.c_uint64, ctypes.c_void_p)
        return partial(call, int(self._ffi.cast("uintptr_t", hand)))

    def wait_of(self, hand: Any) -> Callable[[], int]:
        """Returns a call like that of ``next_of`` for a worker without a current task. It gives up the GIL, and waits
        for what comes; 0: ``PyBatches.what`` says what came."""
        call = self._keeping_gil("sd_py_task_wait", ctypes.c_uint64, ctypes.c_void_p, kind=ctypes.CFUNCTYPE)
        return partial(call, int(self._ffi.cast("uintptr_t", hand)))

    def question_of(self, hand: Any) -> Callable[[], int]:
        """Returns a call for the worker that owns ``hand``: it tells whether the current task should let others go,
        because the policy would take another one first now."""
        call = self._keeping_gil("sd_py_should_yield", ctypes.c_int, ctypes.c_void_p)
        return partial(call, int(self._ffi.cast("uintptr_t", hand)))

    def submit_all(self, tags: Sequence[int], priority: int) -> list[int]:
        """Submits free tasks of Python's in their order. Returns their handles, fewer than there are tags where there
        was no more room for some, or the engine stops."""
        words = (ctypes.c_uint64 * len(tags))(*tags)
        done = self._submit_all(ctypes.addressof(words), len(tags), priority)
        return words[:done]

    def enqueue(self, strand: int, tag: int) -> int | None:
        """Puts a task of Python's behind all that is published to a strand. Returns its handle; None: no room.
        ``tag`` is not 0. Raises StoppedError where the dispatcher has stopped."""
        handle = self._ffi.new("uint64_t *")
        code = self._lib.sd_task_enqueue(self._d, strand, tag, handle)
        if code == Code.AGAIN:
            return None
        checked(code, f"the task {tag} cannot be put on strand {strand}", _kind(code))
        return int(handle[0])

    def specs(self, n: int) -> Any:
        """An array of n tasks to submit, sd_task_spec, each of them free and of the usual priority."""
        specs = self._ffi.new("sd_task_spec[]", n)
        for spec in specs:
            spec.key, spec.priority = NO_KEY, USUAL_PRIORITY
        return specs

    def submit(self, specs: Any, n: int) -> int:
        """Submits up to n tasks and fills in their handles. Returns how many: fewer than n where the table is full.
        Raises ConfigurationError for a symbol or priority that there is not, StoppedError where the dispatcher has
        stopped."""
        done = int(self._lib.sd_tasks_submit(self._d, specs, n))
        if done < 0:
            checked(done, "a task names a symbol or a priority that does not exist", _kind(done))
        return done

    def submit_native(
        self, function: int, arguments: npt.NDArray[Any], *, key: int, priority: int, marks: int, within_ns: int
    ) -> int:
        """Submits a task in C for each of ``arguments``, shape (n,), in their order; each copies its item.
        ``function``: the address of an ``sd_task_fn``. The others are as in sd_task_spec. Returns and raises as
        ``submit``."""
        items = np.ascontiguousarray(arguments)
        specs = np.zeros(len(items), _SPEC)
        specs["fn"], specs["key"], specs["priority"], specs["marks"] = function, key, priority, marks
        specs["within_ns"], specs["argument_bytes"] = within_ns, items.itemsize
        if items.itemsize:
            specs["argument"] = items.ctypes.data + np.arange(len(items), dtype=np.uint64) * np.uint64(items.itemsize)
        return self.submit(self._ffi.cast("sd_task_spec *", specs.ctypes.data), len(specs))

    def give_up(self, handle: int) -> bool:
        """Gives a task up. True if the task will not run any more. A free one leaves its list at once, except under
        Fifo."""
        return bool(self._give_up(handle) == Code.OK)

    def rose(self, handle: int) -> int:
        """Level to which a waiting task has risen, plus one; 0: it has not risen, or waits no longer."""
        return self._rose(handle)

    def risen(self) -> list[int]:
        """Number of waiting tasks, by level, that have risen to it, less those that have risen from it."""
        more = (ctypes.c_int64 * 5)()
        self._risen(ctypes.addressof(more))
        return list(more)

    def prioritise(self, handle: int, priority: int) -> bool:
        """Gives a free task another priority while it waits. False: it runs, or is over. Raises ConfigurationError for
        a priority that the policy has not, and for a task on a strand."""
        code = self._lib.sd_task_prioritise(self._d, handle, priority)
        if code == Code.AGAIN:
            return False
        checked(code, f"a waiting task cannot get the priority {priority}", ConfigurationError)
        return True

    def totals(self, *, on_strands: bool) -> TaskTotals:
        """Totals of the tasks on strands, or of free tasks."""
        totals = self._ffi.new("sd_task_totals *")
        self._lib.sd_tasks_total(self._d, on_strands, totals)
        words = (totals.submitted, totals.ended, totals.cancelled, totals.expired, totals.suspended)
        return TaskTotals(*map(int, words))

    def stop(self) -> None:
        """Informs the C functions of waiting tasks, after all workers have ended. No task is accepted afterwards."""
        self._lib.sd_tasks_stop(self._d)


def _kind(code: int) -> type[Exception]:
    return StoppedError if code == Code.STOPPED else ConfigurationError


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


def _bytes_of_batches(d: Any, participant: int, core: Core, *, copied: bool) -> tuple[int, Any]:
    """Address and bytes of what a worker's batches lie in, read-only; they hold the engine's memory."""
    size = ffi.new("uint64_t *")
    address = int(ffi.cast("uintptr_t", core.lib.sd_py_memory(d, participant, copied, size)))
    whole = np.asarray(Memory(d, address, int(size[0]), 1, np.dtype("u1"))).view(np.uint8)
    whole.flags.writeable = False  # what waits after a batch lies in the same block
    return address, whole


def _whole(memory: npt.NDArray[np.uint8], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """View of the memory as records, as many as fit into it."""
    records: npt.NDArray[Any] = memory[: len(memory) // dtype.itemsize * dtype.itemsize].view(dtype)
    return records


def check_emitted(code: int, message: Any) -> None:
    """Raises the error of a call that emits."""
    if code != lib.SD_OK:
        raise refusal(code, text_of(message) or "records were emitted for ticks that do not exist")


class PyBatches:
    """The strands that one worker's Python has to run, one at a time: ``more`` waits for the first one. ``go_on`` or
    ``done`` ends a strand's records, ``task_done`` a task, and ``wake_done`` a timer. Each returns the next strand,
    whose records are ``records[words[FIRST]:words[END]]``; -1: ``what`` says what it is. ``suspension`` lets a task
    wait.

    The steps of a worker for each call of a handler are here as attributes, and not behind methods: a method costs as
    much as a crossing to C.
    """

    def __init__(self, d: Any, participant: int, dtype: np.dtype[Any], n_strands: int, core: Core) -> None:
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
        # A handler that keeps its ticks reads what came later, but no memory that is gone: both hold it.
        self._arena_at, self._arena = _bytes_of_batches(d, participant, core, copied=False)
        self._copied_at, copied = _bytes_of_batches(d, participant, core, copied=True)
        #: The arena as records, from its start on: slicing takes a third of the time of making an array.
        self.records = named(_whole(self._arena, dtype))
        self._copied = named(_whole(copied, dtype))
        #: All of the records in ``hand`` were handled: the next strand, as ``more``.
        self.go_on: Callable[[Any], int] = self._lib.sd_py_worker_go_on
        self.suspension = Suspension(n_strands, d, participant, self._batch, core)

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
        check_emitted(code, message)

    def arm(self, handled: int, alarm: int) -> None:
        """Says when the timer of the batch's symbol is due from now on, as of its first ``handled`` records; 0: never.
        It is after the last of them."""
        if code := self._lib.sd_py_wake_at(self._d, self._batch, handled, alarm):
            raise refusal(code, f"a timer at {alarm} ns cannot be asked for by record {handled - 1} of {self.n}")

    def done(self, handled: int, failure: Failure | None = None) -> int:
        """The first ``handled`` records were; the handler failed on the next one, or the others come again, behind a
        timer. The next strand, as ``more``."""
        if refused := self._lib.sd_worker_done(self._d, self._participant, self._batch, handled, *_said(failure)):
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


class Suspension:
    """Suspends the tasks of a worker: one that waits gives the worker back meanwhile."""

    def __init__(self, n_strands: int, d: Any, participant: int, batch: Any, core: Core) -> None:
        self._lib, self._d, self._participant, self._batch = core.lib, d, participant, batch
        # A free task takes the lock of a list alone. That of a strand may be in the hands of a publisher for a while.
        self._n_strands = n_strands
        pointer, one, code = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int
        at, batch = (int(core.ffi.cast("uintptr_t", it)) for it in (d, batch))
        suspend = _keeping_gil(core, "sd_task_suspend", code, pointer, one, pointer, code)
        self._suspend = partial(suspend, at, participant, batch)
        self._return = partial(_keeping_gil(core, "sd_task_return", code, pointer, one, one), at, participant)
        self._end_away = partial(_keeping_gil(core, "sd_task_end_away", code, pointer, one), at)

    @property
    def entry(self) -> int:
        """The task in hand, as ``returner`` and ``end_away`` take it: a free one, or one on a strand."""
        return int(self._batch.strand)

    @property
    def is_on_strand(self) -> bool:
        """True if the task in hand is one on a strand."""
        return bool(self._batch.strand < self._n_strands)

    def suspender(self, *, away: bool) -> Callable[[], int]:
        """A call of C, for the task in hand: that gives this worker back, and nothing is in hand, so another thread may
        be the worker. A worker gets the task by RESUME; one that is ``away`` only after ``returner``. The call returns
        0, or another code where a stop ends the tasks, and the task stays in hand."""
        if self._batch.strand < self._n_strands:
            return partial(self._lib.sd_task_suspend, self._d, self._participant, self._batch, away)
        return partial(self._suspend, away)

    def returner(self, entry: int) -> Callable[[], int]:
        """A call of C, by the thread of a task that went away from this worker: the task waits for any worker. It
        returns 0, or another code where a stop has ended the task."""
        if entry < self._n_strands:
            return partial(self._lib.sd_task_return, self._d, self._participant, entry)
        return partial(self._return, entry)

    def end_away(self, entry: int) -> None:
        """Ends a task that is away, unless a stop does. One on a strand, whose token it holds, comes back for that: the
        worker that gets it by RESUME ends it."""
        if entry < self._n_strands:
            self.returner(entry)()
        else:
            self._end_away(entry)

    def resumed(self) -> None:
        """Continues the suspended task in hand as this worker; called by the task's thread."""
        self._lib.sd_task_resumed(self._d, self._participant)


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
        check_emitted(self._lib.sd_py_emit_timer(self._d, 0, self._key, self._time, 1, output, *given), message)

    def done(self, failure: Failure | None = None) -> bool:
        """Notes that the symbol's end is over, or has failed. False: nothing more is to be finished."""
        return bool(self._lib.sd_dispatcher_finished(self._d, self._key, *_said(failure)) == lib.SD_OK)

    def close(self) -> None:
        """Readers of the symbol's row may trust it again."""
        self._lib.sd_dispatcher_finish_end(self._d, self._key)
