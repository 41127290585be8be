"""The engine's tasks: what its workers run once each, free or on a strand. Python's are numbers, C's are functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from strand.binding import Core, ffi, lib
from strand.binding.gate import Code, checked
from strand.errors import ConfigurationError, StoppedError

__all__ = ["NO_KEY", "PY_OTHER", "PY_TASK", "TASK_SPEC", "USUAL_PRIORITY", "TaskTotals", "Tasks"]

#: Of a task to submit: no symbol, and the priority of a strand that was given none.
NO_KEY: Final[int] = lib.SD_NO_KEY
USUAL_PRIORITY: Final[int] = lib.SD_USUAL_PRIORITY
#: What ``Tasks.next_address`` returns: a task is in hand; something else comes next. 0: nothing is ready.
PY_TASK: Final[int] = lib.SD_PY_TASK
PY_OTHER: Final[int] = lib.SD_PY_OTHER
#: Bytes of an sd_task_spec.
TASK_SPEC: Final[int] = ffi.sizeof("sd_task_spec")


@dataclass(frozen=True, slots=True)
class TaskTotals:
    """Tasks since the start; those not ended wait or run. ``cancelled`` and ``expired`` ended without running:
    a cancelled task ends when its turn comes."""

    submitted: int
    ended: int
    cancelled: int
    expired: int


class Tasks:
    """The tasks of one engine. From any thread; nothing here waits.

    ``submit_address`` and ``next_address`` are sd_tasks_submit and sd_worker_task_next, for a caller that keeps the GIL
    through the call, as ctypes.PYFUNCTYPE does. ``pointer`` is their first argument.
    """

    def __init__(self, d: Any, core: Core) -> None:
        self._d = d
        self._lib = core.lib
        self._ffi = core.ffi
        address = core.ffi.addressof
        self.submit_address = int(core.ffi.cast("uintptr_t", address(core.lib, "sd_tasks_submit")))
        self.next_address = int(core.ffi.cast("uintptr_t", address(core.lib, "sd_worker_task_next")))
        self.pointer = int(core.ffi.cast("uintptr_t", d))

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
            checked(done, "a task names no symbol or priority that there is", _kind(done))
        return done

    def give_up(self, handle: int) -> bool:
        """Whether a task will not run any more. It is over when its turn comes."""
        return bool(self._lib.sd_task_give_up(self._d, handle) == Code.OK)

    def prioritise(self, handle: int, priority: int) -> bool:
        """Gives a free task another priority while it waits. False: it runs, or is over. Raises ConfigurationError for
        a priority that the policy has not, and for a task on a strand."""
        code = self._lib.sd_task_prioritise(self._d, handle, priority)
        if code == Code.AGAIN:
            return False
        checked(code, f"a waiting task cannot get the priority {priority}", ConfigurationError)
        return True

    def totals(self, *, on_strands: bool) -> TaskTotals:
        """Of those on strands, or of free tasks."""
        totals = self._ffi.new("sd_task_totals *")
        self._lib.sd_tasks_total(self._d, on_strands, totals)
        return TaskTotals(int(totals.submitted), int(totals.ended), int(totals.cancelled), int(totals.expired))

    def stop(self) -> None:
        """When no worker runs any more: tells the functions in C of tasks that wait. None is accepted afterwards."""
        self._lib.sd_tasks_stop(self._d)


def _kind(code: int) -> type[Exception]:
    return StoppedError if code == Code.STOPPED else ConfigurationError
