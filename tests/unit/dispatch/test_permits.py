"""Who has a permit, and that nothing waits for one beside a worker that could go on."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from strand import Aging, Dispatcher, Levels, NativeTask

HOUR = Levels({"high": "1h", "retry": "1h", "normal": "1h", "low": "1h"})
#: A function in C's place, that waits without the GIL.
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class Slow:
    """Tasks in C, each of which begins and waits for its gate."""

    def __init__(self, n: int) -> None:
        self.gates = [threading.Event() for _ in range(n)]
        self.begun = [threading.Event() for _ in range(n)]
        self._function = FUNCTION(self._run)
        self._task = NativeTask(ctypes.cast(self._function, ctypes.c_void_p).value)

    def _run(self, ctx: Any, argument: int, why: int) -> None:
        i = ctypes.c_int64.from_address(argument).value
        self.begun[i].set()
        self.gates[i].wait(60)

    def submit(self, d: Dispatcher, i: int, symbol: int) -> None:
        d.tasks.submit_native(self._task, np.array([i], "i8"), symbol=symbol)


class Long:
    """A task of Python's that waits with its worker."""

    def __init__(self) -> None:
        self.gate, self._begun = threading.Event(), threading.Event()

    def begin(self, d: Dispatcher) -> None:
        d.tasks.submit(self._run)
        assert self._begun.wait(60)

    def _run(self) -> None:
        self._begun.set()
        self.gate.wait(60)


@contextmanager
def opened_at_last(*gates: threading.Event) -> Iterator[None]:
    try:
        yield
    finally:
        for gate in gates:
            gate.set()


def dispatcher(n: int, workers: int, **options: Any) -> Dispatcher:
    given: dict[str, Any] = {
        "publisher_drains": False,
        "strands": "per-symbol",
        "idle": "park",
        "cores": None,
    } | options
    return Dispatcher(n, "count", workers=workers, **given)


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_task_in_c_on_a_strand_runs_without_a_permit() -> None:
    slow, long, ran = Slow(2), Long(), threading.Event()
    with dispatcher(3, 2, policy=HOUR) as d, opened_at_last(long.gate, *slow.gates):
        long.begin(d)
        d.tasks.options(priority="low").submit(ran.set)
        wait_until(lambda: d._engine.ready_strands() == 1)
        slow.submit(d, 0, symbol=1)  # by the other worker, which has deferred the task
        assert slow.begun[0].wait(60)
        slow.submit(d, 1, symbol=2)
        long.gate.set()  # its worker may take a permit, and has the strand first
        assert slow.begun[1].wait(60)
        slow.gates[0].set()
        assert ran.wait(60)
        assert not slow.gates[1].is_set()


def test_a_permit_more_is_seen_although_the_worker_that_is_active_now_is_busy() -> None:
    slow, long, ran = Slow(3), Long(), threading.Event()
    with dispatcher(3, 3, policy=HOUR) as d, opened_at_last(long.gate, *slow.gates):
        for i in range(3):
            slow.submit(d, i, symbol=i)
        assert all(begun.wait(60) for begun in slow.begun)
        last = next(i for i in range(3) if d.inspect(i).owner == 2)
        d._engine.activate(2)
        for gate in (gate for i, gate in enumerate(slow.gates) if i != last):
            gate.set()
        wait_until(lambda: sum(d.inspect(i).owner is not None for i in range(3)) == 1)
        long.begin(d)
        parks = sum(worker.parks for worker in d.statistics().workers)
        d.tasks.submit(ran.set)
        wait_until(lambda: sum(worker.parks for worker in d.statistics().workers) > parks)
        assert not ran.is_set()
        d._engine.activate(3)
        assert ran.wait(60)


def test_what_waits_for_a_permit_or_is_left_to_a_worker_is_counted_once() -> None:
    long = Long()
    with dispatcher(1, 2, policy=Aging()) as d, opened_at_last(long.gate):
        long.begin(d)
        for _ in range(10):
            d.tasks.submit(int)
        wait_until(lambda: sum(d.statistics().picked.values()) == 11)
        long.gate.set()
        assert d.drain(timeout_s=60)
        assert d.statistics().picked == {"normal": 11}
    long = Long()
    with dispatcher(1, 1, policy=Aging(), publisher_drains=True) as d, opened_at_last(long.gate):
        long.begin(d)
        d.tasks.submit(int)
        assert not d.drain(timeout_s=0.05)
        long.gate.set()
        assert d.drain(timeout_s=60)
        assert d.statistics().picked == {"normal": 2}


@pytest.mark.parametrize("held", ["paused", "paused and delayed"])
def test_a_stop_does_not_wait_for_tasks_of_a_paused_symbol(held: str) -> None:
    d = dispatcher(2, 1)
    d.start()
    d.pause(0)
    future = d.tasks.options(symbol=0, delay="1h" if "delayed" in held else None).submit(int)
    other = d.tasks.options(symbol=1).submit(pow, 2, 3)
    assert d.stop(timeout_s=60)
    assert other.result(60) == 8
    assert future.state == ("cancelled" if "delayed" in held else "dropped")
