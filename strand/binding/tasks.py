"""The engine's tasks: what its workers run once each, free or on a strand. Python's are numbers, C's are functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import Core, ffi, lib
from strand.binding.gate import Code, checked
from strand.errors import ConfigurationError, StoppedError

__all__ = ["NO_KEY", "OWN_LEVEL", "ROSE_AT", "TASK_BYTES", "USUAL_PRIORITY", "TaskTotals", "Tasks"]

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
    on_cpu_ns)`` charges on-CPU time to the group of a task that is away, by its ``PyBatches.entry``.
    """

    def __init__(self, d: Any, core: Core) -> None:
        self._d = d
        self._lib = core.lib
        self._ffi = core.ffi
        self._keeping_gil = core.keeping_gil
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
