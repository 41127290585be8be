"""Tasks in C that Python submits."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strand import TICK, Aging, Dispatcher, Fair, Fifo, Levels, NativeTask, Scheduler
from strand.errors import ConfigurationError, QueueFull, StoppedError, UnknownSymbolError, WouldDeadlockError

RUN, CANCELLED, EXPIRED, STOPPED = range(4)


pytestmark = pytest.mark.usefixtures("threads_come_back")


class Counts:
    """Notes of the functions of an object."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))

    @property
    def told(self) -> list[int]:
        return list((ctypes.c_long * 4).in_dll(self._library, "told"))

    @property
    def arguments(self) -> list[int]:
        n = ctypes.c_long.in_dll(self._library, "n_arguments").value
        return list((ctypes.c_uint32 * n).in_dll(self._library, "arguments"))

    @property
    def begun(self) -> int:
        return ctypes.c_int.in_dll(self._library, "begun").value

    def open(self) -> None:
        ctypes.c_int.in_dll(self._library, "opened").value = 1


def until(condition: Callable[[], bool]) -> None:
    for _ in range(60_000):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError("it does not come")


@pytest.mark.parametrize("policy", [Fifo(), Levels(), Aging(), Fair()], ids=lambda policy: type(policy).__name__)
def test_one_or_many_run_once_each_and_a_shutdown_waits_for_them(c_tasks: Path, policy: Any) -> None:
    note, counts = NativeTask(c_tasks, "note"), Counts(c_tasks)
    with Scheduler(2, policy=policy) as scheduler:
        assert scheduler.submit_native(note, np.uint32(7).tobytes()) == 1
        assert scheduler.submit_native(note, np.arange(10, 20_000, dtype=np.uint32)) == 19_990
        assert scheduler.submit_native(note) == 1
        assert scheduler.submit_native(note, np.empty(3, "V0")) == 3
        assert scheduler.submit_native(note, np.arange(0)) == 0
    assert counts.told == [19_995, 0, 0, 0]
    assert sorted(counts.arguments) == [7, *range(10, 20_000), *[2**32 - 1] * 4]
    totals = scheduler._engine.tasks.totals(on_strands=False)
    assert (totals.submitted, totals.ended) == (19_995, 19_995)


def test_an_item_of_a_structured_array_is_copied_as_it_lies(c_tasks: Path) -> None:
    items = np.zeros(200, [("number", "u4"), ("rest", "V28")])
    items["number"] = np.arange(200)
    with Scheduler(1, policy=Fifo()) as scheduler:
        scheduler.submit_native(NativeTask(c_tasks, "note"), items[::2])
        items["number"] = 0
    assert Counts(c_tasks).arguments == list(range(0, 200, 2))


def test_the_scheduler_keeps_the_function_alive(c_tasks: Path) -> None:
    counts, ran = Counts(c_tasks), []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(lambda *_: ran.append(1))
    with Scheduler(1) as scheduler:
        scheduler.submit_native(NativeTask(c_tasks, "wait"))
        until(lambda: counts.begun > 0)
        scheduler.submit_native(NativeTask(callback))
        del callback
        gc.collect()
        counts.open()
    assert ran == [1]


def test_higher_priorities_go_first(c_tasks: Path) -> None:
    note, counts = NativeTask(c_tasks, "note"), Counts(c_tasks)
    with Scheduler(1) as scheduler:
        scheduler.submit_native(NativeTask(c_tasks, "wait"), priority="immediate")
        until(lambda: counts.begun > 0)
        for number, level in enumerate(("low", "normal", "high", "immediate")):
            scheduler.submit_native(note, np.uint32(number).tobytes(), priority=level)
        counts.open()
    assert counts.arguments == [3, 2, 1, 0]


def test_one_whose_first_turn_comes_late_is_told(c_tasks: Path) -> None:
    counts = Counts(c_tasks)
    with Scheduler(1) as scheduler:
        scheduler.submit_native(NativeTask(c_tasks, "wait"))
        until(lambda: counts.begun > 0)
        scheduler.submit_native(NativeTask(c_tasks, "note"), np.arange(3), deadline="1ns")
        scheduler.submit_native(NativeTask(c_tasks, "note"), np.arange(2), deadline="1h")
        counts.open()
    assert counts.told == [3, 0, 3, 0]
    assert scheduler._engine.tasks.totals(on_strands=False).expired == 3


@pytest.mark.parametrize("runs", [True, False], ids=["within", "past"])
def test_a_deadline_is_a_span_of_seconds_whatever_the_clock_counts(c_tasks: Path, *, runs: bool) -> None:
    counts, span = Counts(c_tasks), 1.0
    with Scheduler(1) as scheduler:
        scheduler.submit_native(NativeTask(c_tasks, "wait"))
        until(lambda: counts.begun > 0)
        earliest = time.monotonic()
        scheduler.submit_native(NativeTask(c_tasks, "note"), deadline=f"{span:g}s")
        latest = time.monotonic()
        time.sleep(0.7 * span if runs else 1.2 * span)
        opened = time.monotonic()
        counts.open()
        until(lambda: sum(counts.told) == 2)
        over = time.monotonic()
    expired = counts.told[EXPIRED]
    if over - earliest < span:
        assert not expired
    elif opened - latest > span:
        assert expired  # a machine that stalls may bring the first case here; between the two nobody can tell


@pytest.mark.parametrize("before", [0, 3], ids=["new", "used"])
def test_a_tick_behind_a_task_waits_no_longer_than_the_task(c_tasks: Path, before: int) -> None:
    counts = Counts(c_tasks)
    with Dispatcher(["A", "B"], "count", workers=1) as dispatcher:
        dispatcher.publish(ticks_of(1, before))
        dispatcher.drain()
        time.sleep(0.3)
        began = time.perf_counter_ns()
        dispatcher.tasks.submit_native(NativeTask(c_tasks, "wait"), symbol="B")
        until(lambda: counts.begun > 0)
        dispatcher.publish(ticks_of(1, 5))
        counts.open()
        dispatcher.drain()
        passed = time.perf_counter_ns() - began
        found = dispatcher.statistics()
    for latency in (found.wait, found.end_to_end):
        assert latency.count == before + 5
        slowest = latency.floors_ns[np.flatnonzero(latency.counts)[-1]]
        assert slowest <= passed


def test_a_shutdown_waits_for_what_they_submit_and_for_their_turns(c_tasks: Path) -> None:
    counts = Counts(c_tasks)
    with Scheduler(2) as scheduler:
        scheduler.submit_native(NativeTask(c_tasks, "grows"), np.uint32(8).tobytes())
        scheduler.submit_native(NativeTask(c_tasks, "turns"))
        until(lambda: counts.begun > 3)
        scheduler.shutdown(wait=False)
        with pytest.raises(TimeoutError, match=r"shutdown: 1 tasks? ha"):
            until(lambda: counts.told[RUN] == 2**9 - 1)
            scheduler.shutdown(timeout=0.01)
        with pytest.raises(StoppedError, match="shut down"):
            scheduler.submit_native(NativeTask(c_tasks, "note"))
        counts.open()
    assert counts.told == [2**9, 0, 0, 0]


def race(monkeypatch: pytest.MonkeyPatch, tasks: Any, end: Callable[[], Any]) -> threading.Thread:
    """The next submit of tasks in C looks whether it may, and then ``end`` runs in a thread before it goes on."""
    submit, thread = tasks._core.pool._tasks.submit_native, threading.Thread(target=end)

    def late(*arguments: Any, **options: Any) -> Any:
        thread.start()
        until(lambda: tasks._core.table.refusal is not None)
        thread.join(0.3)  # it gets as far as it can
        return submit(*arguments, **options)

    monkeypatch.setattr(tasks._core.pool._tasks, "submit_native", late)
    return thread


@pytest.mark.parametrize("before", [0, 3])
def test_what_is_submitted_while_a_shutdown_begins_is_run(
    c_tasks: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    note, counts, scheduler = NativeTask(c_tasks, "note"), Counts(c_tasks), Scheduler(2)
    scheduler.submit_native(note, np.arange(before))
    thread = race(monkeypatch, scheduler, scheduler.shutdown)
    assert scheduler.submit_native(note, np.arange(100)) == 100
    thread.join()
    assert counts.told == [100 + before, 0, 0, 0]
    with pytest.raises(StoppedError, match="shut down"):
        scheduler.submit_native(note)


def test_what_is_submitted_while_a_dispatcher_begins_to_stop_is_run(
    c_tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, counts = NativeTask(c_tasks, "note"), Counts(c_tasks)
    dispatcher = Dispatcher(3, "count", workers=1, cores=None)
    dispatcher.start()
    tasks = dispatcher.tasks
    thread = race(monkeypatch, tasks, lambda: dispatcher.stop(drain=True))
    assert tasks.submit_native(note, np.arange(100)) == 100
    thread.join()
    assert counts.told == [100, 0, 0, 0]
    with pytest.raises(StoppedError, match="was stopped"):
        tasks.submit_native(note, symbol=1)


def test_a_shutdown_that_interrupts_a_submit_does_not_wait_for_it(
    c_tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a signal handler, or of a __del__."""
    note, counts, scheduler = NativeTask(c_tasks, "note"), Counts(c_tasks), Scheduler(1)
    submit = scheduler._core.pool._tasks.submit_native

    def interrupted(*arguments: Any, **options: Any) -> Any:
        with pytest.raises(WouldDeadlockError, match="submit_native of this thread that it interrupts"):
            scheduler.shutdown()
        scheduler.shutdown(wait=False)
        return submit(*arguments, **options)

    monkeypatch.setattr(scheduler._core.pool._tasks, "submit_native", interrupted)
    scheduler.submit_native(note)
    scheduler.shutdown()
    assert counts.told == [1, 0, 0, 0]


def test_those_that_wait_are_told_of_a_shutdown_that_cancels(c_tasks: Path) -> None:
    counts = Counts(c_tasks)
    scheduler = Scheduler(1)
    scheduler.submit_native(NativeTask(c_tasks, "wait"))
    until(lambda: counts.begun > 0)
    scheduler.submit_native(NativeTask(c_tasks, "note"), np.arange(500))
    scheduler.submit_native(NativeTask(c_tasks, "turns"))
    python = scheduler.submit(int)
    with pytest.raises(TimeoutError):
        scheduler.shutdown(cancel_futures=True, timeout=0.01)
    counts.open()
    scheduler.shutdown()
    assert counts.told == [1, 0, 0, 501]
    assert python.cancelled()


def test_a_scheduler_that_nobody_refers_to_runs_them_first(c_tasks: Path) -> None:
    counts = Counts(c_tasks)
    scheduler = Scheduler(1)
    scheduler.submit_native(NativeTask(c_tasks, "wait"))
    scheduler.submit_native(NativeTask(c_tasks, "note"), np.arange(100))
    threads = [*scheduler._workers.threads]
    del scheduler
    gc.collect()
    assert any(thread.is_alive() for thread in threads)
    counts.open()
    for thread in threads:
        thread.join(60)
    until(lambda: not any("native-tasks" in thread.name for thread in threading.enumerate()))
    assert counts.told == [101, 0, 0, 0]


def test_at_the_end_of_the_program_they_are_run(c_tasks: Path) -> None:
    program = f"""
        import atexit, ctypes
        import numpy as np

        library = ctypes.CDLL({str(c_tasks)!r})
        # Registered before the scheduler's, and so called after it.
        atexit.register(lambda: print(list((ctypes.c_long * 4).in_dll(library, "told"))))

        import strand
        scheduler = strand.Scheduler(1)
        scheduler.submit_native(strand.NativeTask({str(c_tasks)!r}, "grows"), np.full(50, 3, np.uint32))
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=120
    )
    assert (ran.stdout, ran.stderr) == ("[750, 0, 0, 0]\n", "")


# ---- a dispatcher's


def ticks_of(key: int, n: int) -> Any:
    ticks = np.zeros(n, TICK)
    ticks["instrument_id"] = key
    return ticks


@pytest.mark.parametrize("policy", [Fifo(), Levels(), Fair()], ids=lambda policy: type(policy).__name__)
def test_one_of_a_symbol_runs_in_order_with_its_ticks(c_tasks: Path, policy: Any) -> None:
    look = NativeTask(c_tasks, "look")
    with Dispatcher(["A", "B", "C"], "count", workers=2, cores=None, policy=policy) as d:
        for _ in range(100):
            d.publish(ticks_of(1, 5))
            assert d.tasks.submit_native(look, symbol="B") == 1
        assert d.tasks.submit_native(NativeTask(c_tasks, "note"), np.arange(1000)) == 1000
    counts = Counts(c_tasks)
    assert counts.told == [1100, 0, 0, 0]
    d.verify()


def test_a_row_is_seen_as_all_ticks_before_left_it(c_tasks: Path) -> None:
    with Dispatcher(["A", "B", "C"], "count", workers=2, cores=None) as d:
        for _ in range(100):
            d.publish(ticks_of(1, 5))
            d.tasks.submit_native(NativeTask(c_tasks, "look"), symbol="B")
    assert Counts(c_tasks).arguments == list(range(5, 505, 5))


def test_a_stop_without_drain_tells_those_that_wait(c_tasks: Path) -> None:
    counts = Counts(c_tasks)
    d = Dispatcher(2, "count", workers=1, cores=None)
    with pytest.raises(StoppedError, match="no worker runs"):
        d.tasks.submit_native(NativeTask(c_tasks, "note"))
    d.start()
    d.tasks.submit_native(NativeTask(c_tasks, "wait"))
    until(lambda: counts.begun > 0)
    d.tasks.submit_native(NativeTask(c_tasks, "note"), np.arange(10))
    d.tasks.submit_native(NativeTask(c_tasks, "note"), np.arange(10), symbol=1)
    stopping = threading.Thread(target=lambda: d.stop(drain=False))
    stopping.start()
    until(lambda: d._engine.stopping)
    counts.open()
    stopping.join(60)
    assert counts.told == [1, 0, 0, 20]
    with pytest.raises(StoppedError):
        d.tasks.submit_native(NativeTask(c_tasks, "note"))


def test_a_full_table_says_which_were_not_taken(c_tasks: Path) -> None:
    counts = Counts(c_tasks)
    with Dispatcher(1, "count", workers=1, cores=None) as d:
        d.tasks.submit_native(NativeTask(c_tasks, "wait"))
        until(lambda: counts.begun > 0)
        n = 4 * d._engine.config.n_tasks
        try:
            with pytest.raises(QueueFull, match="no room for") as error:
                d.tasks.submit_native(NativeTask(c_tasks, "note"), np.arange(n))
        finally:
            counts.open()
    taken = n - len(error.value.rejected)
    assert n // 4 - 1 <= taken < n
    assert error.value.rejected.tolist() == list(range(taken, n))
    assert counts.told == [taken + 1, 0, 0, 0]


# ---- what cannot work


def test_what_cannot_work_is_refused(c_tasks: Path) -> None:
    note: Any = NativeTask(c_tasks, "note")
    with Scheduler(1, policy=Levels(hold={"low": "1s"})) as scheduler:
        for given, says in (
            ({"arguments": bytes(33)}, "arguments: 33 bytes for a task, and it copies at most 32"),
            ({"arguments": np.zeros(2, "V40")}, "arguments: 40 bytes for a task"),
            ({"arguments": np.zeros((2, 2))}, "arguments: a ndarray is neither"),
            ({"arguments": np.array([None])}, "arguments: a ndarray is neither"),
            ({"arguments": [b"a"]}, "arguments: a list is neither"),
            ({"priority": "urgent"}, "priority: 'urgent'"),
            ({"priority": "low"}, "priority: 'low' has a hold"),
            ({"symbol": "A"}, "symbol: this scheduler has no ticks"),
            ({"deadline": 60}, "deadline: 60 has no unit"),
            ({"marks": "loud"}, "marks: 'loud'"),
        ):
            with pytest.raises(ConfigurationError, match=says):
                scheduler.submit_native(note, **given)
        with pytest.raises(ConfigurationError, match="task: 3 is not a strand"):
            scheduler.submit_native(3)  # type: ignore[arg-type]
    with Dispatcher(["A"], "count", workers=1, cores=None) as d:
        with pytest.raises(UnknownSymbolError):
            d.tasks.submit_native(note, symbol="B")
        with pytest.raises(ConfigurationError, match="priority: Fifo has no priorities"):
            d.tasks.submit_native(note, priority="high")
    assert Counts(c_tasks).told == [0, 0, 0, 0]
