"""Exceptions in a worker outside of a task's function: they fail the task at most, and the pool goes on."""

from __future__ import annotations

import ctypes
import logging
import random
import sys
import threading
import time
from bdb import BdbQuit
from types import FrameType
from typing import Any

import pytest
from bounded_child import in_bounded_child
from engine_support import beside

from strand import Scheduler, TaskGroup, blocking, checkpoint
from strand.binding.gate import Thread
from strand.tasks.states import Attempts

pytestmark = [pytest.mark.python, pytest.mark.usefixtures("threads_come_back")]


@pytest.mark.parametrize("n", range(1, 12))
def test_a_debugger_that_quits_in_the_library_fails_that_task_and_the_pool_goes_on(n: int) -> None:
    """As ``breakpoint()`` does after ``next`` past the function's end: it raises at line n of what called it."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines == n:
            raise BdbQuit
        return trace

    def task() -> int:
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            frame.f_trace = trace
            frame = frame.f_back
        sys.settrace(trace)
        return 1

    lines = 0
    with Scheduler(1) as scheduler:
        future = scheduler.submit(task)
        assert future.exception(60) is None or isinstance(future.exception(), BdbQuit)
        assert scheduler.submit(pow, 2, 3).result(60) == 8
        assert scheduler.options(key="key").submit(pow, 2, 3).result(60) == 8
    assert scheduler.statistics().pending == 0


class HitError(Exception):
    pass


def raise_in(thread: int) -> bool:
    """Raises HitError in a thread. Returns False if there is no such thread."""
    return bool(_raise_in(thread, HitError))


_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)


def test_what_other_threads_raise_in_workers_ends_no_worker() -> None:
    in_bounded_child(raise_in_workers)


def raise_in_workers() -> None:
    logging.disable(logging.CRITICAL)
    generator, running = random.Random(3), set[int]()

    def task() -> None:
        running.add(threading.get_ident())
        for _ in range(generator.randrange(2000)):
            pass
        running.discard(threading.get_ident())

    def shoot() -> None:
        time.sleep(generator.uniform(0, 0.001))
        for thread in list(running):
            raise_in(thread)

    ends, late = set[type](), time.monotonic() + 40
    with Scheduler(2) as scheduler:
        executors = scheduler, scheduler.options(key="key"), scheduler.options(delay="1ms")
        with beside(shoot):
            while not ends >= {type(None), HitError} and time.monotonic() < late:  # a busy machine may let no shot hit
                futures = [executor.submit(task) for _ in range(1000) for executor in executors]
                ends |= {type(future.exception(60)) for future in futures}
    assert ends == {type(None), HitError}
    assert scheduler.statistics().pending == 0


@pytest.mark.parametrize("seed", range(3))
def test_what_other_threads_raise_in_tasks_that_wait_for_tasks_leaves_all_whole(seed: int) -> None:
    """In any thread that has ever run a task, at any moment: in a wait, in a hand-over, and before a thread's first
    line. Each future ends, all places come back, and the shutdown ends."""
    in_bounded_child(lambda: raise_in_tasks_that_wait(seed))


def raise_in_tasks_that_wait(seed: int) -> None:
    logging.disable(logging.CRITICAL)
    generator, seen = random.Random(seed), set[int]()
    scheduler = Scheduler(2, max_threads=64)
    keyed, high = scheduler.options(key="key"), scheduler.options(priority="high")

    def leaf() -> int:
        seen.add(threading.get_ident())
        for _ in range(generator.randrange(300)):
            checkpoint()
        return 1

    def waits() -> int:
        seen.add(threading.get_ident())
        return int(scheduler.submit(leaf).result())

    def waits_for_two() -> int:
        return int(keyed.submit(leaf).result()) + int(scheduler.submit(waits).result())

    def waits_in_blocks() -> int:
        with blocking(), blocking():
            time.sleep(0.0005)
        with TaskGroup():
            high.submit(leaf)
        return 1

    def shoot() -> None:
        time.sleep(generator.uniform(0, 0.001))
        for thread in list(seen):
            raise_in(thread)

    ends, rounds, late = set[type](), 0, time.monotonic() + 40
    kinds = leaf, waits, waits_for_two, waits_in_blocks
    with beside(shoot):
        while rounds < 60 or (not ends >= {type(None), HitError} and time.monotonic() < late):
            futures = [scheduler.submit(generator.choice(kinds)) for _ in range(10)]
            ends |= {type(future.exception(60)) for future in futures}
            rounds += 1
    assert {type(None), HitError} <= ends
    found = scheduler.submit_many(lambda _: waits(), range(10))
    assert [future.exception(60) for future in found].count(None) >= 8  # two threads may still have one to come
    assert scheduler.submit(waits_for_two).result(60) == 2
    scheduler.shutdown(timeout=60)
    assert scheduler.statistics().pending == 0
    counts = scheduler.thread_counts()
    assert (counts.suspended, counts.blocked) == (0, 0)


def test_a_thread_that_is_hit_before_its_first_line_begins_all_the_same() -> None:
    in_bounded_child(hit_before_the_first_line)


def hit_before_the_first_line() -> None:
    """The new thread waits for the GIL, which this one keeps until it has hit it."""
    sys.setswitchinterval(10)
    for n in range(30):
        ran: list[int] = []
        thread = Thread(lambda ran=ran: ran.append(1), f"thread {n}")  # type: ignore[misc]
        thread.start()
        assert thread.ident is not None
        while not raise_in(thread.ident):
            pass
        assert not ran
        thread.join(60)
        assert not thread.is_alive()
        assert ran == [1]


def test_an_error_of_the_library_fails_the_task_and_not_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RecursionError("in the library")

    with Scheduler(1) as scheduler:
        with monkeypatch.context() as patch:
            patch.setattr(Attempts, "_leave", fails)
            assert isinstance(scheduler.submit(int, "no number").exception(60), RecursionError)
        with monkeypatch.context() as patch:
            patch.setattr(scheduler._core.attempts, "_follow", fails)
            assert isinstance(scheduler.submit(int).exception(60), RecursionError)
        assert scheduler.submit(int).result(60) == 0


def test_a_key_whose_hash_changes_or_raises_holds_nothing_up() -> None:
    class Key:
        code: int | None = 1

        def __hash__(self) -> int:
            if self.code is None:
                raise ValueError("no hash")
            return self.code

    for changed in (2, None):
        key = Key()
        with Scheduler(1) as scheduler:
            gate = threading.Event()
            executor = scheduler.options(key=key)
            futures = [executor.submit(gate.wait, 60), *(executor.submit(int) for _ in range(3))]
            key.code = changed
            gate.set()
            assert [future.result(60) for future in futures] == [True, 0, 0, 0]
            if changed is None:
                with pytest.raises(ValueError, match="no hash"):
                    executor.submit(int)
        assert scheduler.statistics().pending == 0
