"""Input that cannot work is refused by name or counted, loses nothing, and a shutdown ends all the same.

For every way in: a scheduler's tasks and a dispatcher's.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import re
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import wait_until

import strand
from strand import Dispatcher, Fair, Levels, NativeTask, RetryPolicy, Scheduler, TaskGroup
from strand.errors import ConfigurationError, StoppedError, TaskExpired, WouldDeadlockError
from strand.tasks.tasks import Tasks

WORKERS = 2
#: What is no span of time.
NO_SPANS = [60, "", "soon", "1", nan, inf, True, [], 1e-12]
NO_SPANS += [2**63, np.int64(60), np.timedelta64(60), np.bool_(True), dt.datetime(2030, 1, 1)]  # without a time zone
NO_LEVELS = ["lowest", "", "LOW", b"low", 0, -1, True, nan, inf, [], ("low",)]
NO_FUNCTIONS = [None, 3, True, nan, b"int", [int]]
OPTIONS: dict[str, list[Any]] = {
    "priority": NO_LEVELS,
    "deadline": NO_SPANS,
    "delay": [*NO_SPANS, dt.datetime(2030, 1, 1, tzinfo=dt.UTC)],
    "key": [[], {}, {1}, np.zeros(2)],
    "retry": [3, True, "never", RetryPolicy],
    "group": ["mail", 0, True, TaskGroup],
    "expire_if": [True, False, 3, "no"],
    "marks": ["disk", "", 1, True, nan, ["io", "disk"], [1]],
}


@pytest.fixture(params=["scheduler", "dispatcher"])
def tasks(request: pytest.FixtureRequest) -> Iterator[Tasks]:
    """Tasks under Levels on two workers. After whatever a test did, they run, none is left, and all threads end."""
    threads = set(threading.enumerate())
    if request.param == "scheduler":
        with Scheduler(WORKERS, policy=Levels()) as scheduler:
            yield scheduler
            goes_on(scheduler)
    else:
        with Dispatcher(3, "count", workers=WORKERS, cores=None, policy=Levels()) as dispatcher:
            yield dispatcher.tasks
            goes_on(dispatcher.tasks)
            assert dispatcher.drain(60)
    wait_until(lambda: set(threading.enumerate()) <= threads)


def goes_on(tasks: Tasks) -> None:
    if tasks._core.table.refusal is None:
        assert tasks.submit(pow, 2, 3).result(60) == 8
    tasks.shutdown(timeout=60)
    found = tasks.statistics()
    assert (found.pending, sum(found.ended.values())) == (0, found.submitted)
    assert not any(tasks.pending_count().values())


@pytest.mark.parametrize("name", ["priority", "deadline", "marks"])
def test_an_option_of_tasks_in_c_too(tasks: Tasks, name: str, c_tasks: Path) -> None:
    for wrong in OPTIONS[name]:
        with pytest.raises(ConfigurationError, match=f"^{name}: "):
            tasks.submit_native(NativeTask(c_tasks, "note"), **{name: wrong})


def test_what_cannot_be_called_is_refused(tasks: Tasks) -> None:
    for wrong in NO_FUNCTIONS:
        for submit in (tasks.submit, lambda fn: tasks.submit_many(fn, "12"), lambda fn: tasks.every("1s", fn)):
            with pytest.raises(TypeError, match=r"^fn: "):
                submit(wrong)
        with pytest.raises(ConfigurationError, match=r"^task: "):
            tasks.submit_native(wrong)
    for submit in (tasks.submit, lambda fn: tasks.submit_many(fn, "12"), lambda fn: tasks.every("1s", fn)):
        with pytest.raises(ConfigurationError, match=r"^fn: no task is named 'nobody'"):
            submit("nobody")
    for wrong in NO_SPANS:
        with pytest.raises(ConfigurationError, match=r"^period: "):
            tasks.every(wrong, int)
    assert tasks.statistics().submitted == 0


def test_items_that_raise_submit_nothing(tasks: Tasks) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        tasks.submit_many(int, items())
    with pytest.raises(TypeError):
        tasks.submit_many(int, 3)  # type: ignore[arg-type]
    assert tasks.statistics().submitted == 0


def test_a_change_that_cannot_work_is_refused_and_changes_nothing(tasks: Tasks) -> None:
    gate = threading.Event()
    held = tasks.submit_many(lambda _: gate.wait(60), range(WORKERS))
    waits = tasks.options(delay="1h").submit(int)
    for change, name, wrong in (
        (waits.reprioritise, "priority", [*NO_LEVELS, None]),
        (waits.set_deadline, "deadline", [*NO_SPANS, "1s"]),
        (waits.set_group, "group", ["mail", 0, True, TaskGroup]),
        (waits.result, "timeout", [nan, "1", True, []]),
        (waits.exception, "timeout", [nan, "1", True, []]),
        (lambda value: tasks.shutdown(timeout=value), "timeout", [nan, "1", True, []]),
    ):
        for value in wrong:
            with pytest.raises(ConfigurationError, match=f"^{name}: "):
                change(value)
    for past in (0, -1, -inf):
        with pytest.raises(TimeoutError):
            waits.result(past)
    assert (waits.state, waits.priority, waits.deadline_ns, waits.group) == ("delayed", "normal", None, None)
    gate.set()
    assert [future.result(inf) for future in held] == [True] * WORKERS  # which is no limit
    assert waits.cancel()


# ---- deadlines


def test_a_deadline_that_is_over_expires_the_task_unstarted(tasks: Tasks) -> None:
    gate, ran = threading.Event(), []
    held = tasks.submit_many(lambda _: gate.wait(60), range(WORKERS))
    late = [tasks.options(deadline="1ns", key=key).submit(ran.append, 0) for key in (None, "k")]
    changed = tasks.options(key="k").submit(ran.append, 0)
    assert changed.set_deadline("1ns")
    behind = tasks.options(key="k").submit(ran.append, 1)
    gate.set()
    for future in (*late, changed):
        with pytest.raises(TaskExpired, match=f"the deadline of task {future.id} is over"):
            future.result(60)
        assert future.attempts == 0
    assert behind.result(60) is None
    assert ran == [1]
    assert all(future.result(60) for future in held)


def test_the_longest_spans_do_not_overflow(tasks: Tasks, c_tasks: Path) -> None:
    assert tasks.options(deadline=f"{2**63 - 1}ns").submit(int).result(60) == 0
    assert tasks.options(deadline=f"{2**63 - 1}ns", delay=f"{2**63 - 2}ns").submit(int).cancel()
    assert tasks.every(f"{2**63 - 1}ns", int).cancel()
    tasks.submit_native(NativeTask(c_tasks, "note"), deadline=f"{2**63 - 1}ns")
    totals = tasks._core.pool._engine.tasks.totals
    wait_until(lambda: totals(on_strands=False).ended == 2)
    assert totals(on_strands=False).expired == 0


# ---- functions of a user that raise


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_callback_that_raises_is_logged_and_the_others_are_called(
    tasks: Tasks, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    called, gate = [], threading.Event()

    def raises(future: Any) -> None:
        raise error(future.id)

    futures = [tasks.options(key="k").submit(gate.wait, 60), tasks.options(delay="1h").submit(int)]
    for future in futures:
        future.add_done_callback(called.append)
        future.add_done_callback(raises)
        future.add_done_callback(called.append)
    behind = tasks.options(key="k").submit(int)
    with caplog.at_level(logging.CRITICAL, "concurrent.futures"):
        gate.set()
        assert futures[0].result(60) is True
        assert behind.result(60) == 0
        if error is ValueError:  # others end what this thread does
            assert futures[1].cancel()
        else:
            assert tasks.submit(futures[1].cancel).result(60)
    assert called == [futures[0]] * 2 + [futures[1]] * 2


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_an_expire_if_that_raises_fails_its_task_alone(tasks: Tasks, error: type[BaseException]) -> None:
    def raises() -> bool:
        raise error("expire_if")

    retry = RetryPolicy(max_retries=3, base_delay="1ms")
    future = tasks.options(key="k", expire_if=raises, retry=retry).submit(int)
    behind = tasks.options(key="k").submit(int)
    with pytest.raises(error, match="expire_if"):
        future.result(60)
    assert (future.state, future.attempts) == ("failed", 0)
    assert behind.result(60) == 0


@pytest.mark.parametrize("answer", ["lowest", 3, nan, [], object()])
def test_an_expire_if_that_answers_what_is_no_level_fails_its_task(tasks: Tasks, answer: Any) -> None:
    future = tasks.options(expire_if=lambda: answer).submit(int)
    with pytest.raises(ConfigurationError, match=r"^expire_if: "):
        future.result(60)
    assert (future.state, future.attempts) == ("failed", 0)


# ---- waits that would have no end


def test_a_key_that_waits_for_itself_is_told(tasks: Tasks) -> None:
    keyed = tasks.options(key="k")
    told = keyed.submit(lambda: keyed.submit(int).result(60)).exception(60)
    assert isinstance(told, WouldDeadlockError)
    assert tasks.submit(lambda: keyed.submit(int).result(60)).result(60) == 0


@pytest.mark.parametrize("n", [1, 2, 5])
def test_waits_in_a_circle_are_found(tasks: Tasks, n: int) -> None:
    """Each waits for a task behind the next one of its key, the last for one behind the first."""
    begun = [threading.Event() for _ in range(n)]

    def waits(i: int) -> Any:
        begun[i].set()
        with strand.blocking():
            assert all(event.wait(60) for event in begun)
        return tasks.options(key=(i + 1) % n).submit(int).result(60)

    futures = [tasks.options(key=i).submit(waits, i) for i in range(n)]
    errors = [future.exception(60) for future in futures]
    assert sum(isinstance(error, WouldDeadlockError) for error in errors) == 1
    assert sum(error is None for error in errors) == n - 1


def test_a_circle_over_two_schedulers_names_both(tasks: Tasks) -> None:
    """Each has a task 1."""
    begun = threading.Event()
    with Scheduler(1) as other:

        def waits_there() -> Any:
            future = other.options(key="k").submit(waits_here)
            return future.result(60)

        def waits_here() -> Any:
            begun.set()
            return tasks.options(key="k").submit(int).result(60)

        told = tasks.options(key="k").submit(waits_there).exception(60)
        assert begun.is_set()
        assert isinstance(told, WouldDeadlockError)
        home, there = (re.findall(r"(?:scheduler|dispatcher) \d+", repr(each))[0] for each in (tasks, other))
        assert home != there
        ours, theirs = rf"task \d of {home}", rf"task \d of {there}"
        assert re.match(f"({ours} would wait for {theirs}|{theirs} would wait for {ours}), which waits for", str(told))


# ---- a task that never lets others go


def test_one_that_reaches_no_checkpoint_under_a_cap_is_counted_by_name_and_ends() -> None:
    threads = set(threading.enumerate())
    policy = Fair(slice_ms=1, cpu_share=0.25)
    with Scheduler(1, policy=policy) as scheduler:

        def burns() -> None:
            until = time.thread_time() + 0.02
            while time.thread_time() < until:
                pass

        scheduler.options(group=TaskGroup("hog")).submit(burns)
        assert scheduler.submit(int).result(60) == 0
        fair = scheduler.statistics().fair
        assert fair is not None
        # Of a busy machine the short task may have had more than its slice, too.
        assert fair.groups["hog"].long_stretches == 1
        assert fair.long_stretches == sum(group.long_stretches for group in fair.groups.values())
        longest = fair.groups["hog"].longest_stretch_ns
        assert longest is not None
        assert longest >= 15_000_000
    assert set(threading.enumerate()) <= threads


# ---- after the end, and in a fork's child


def ways_in(tasks: Tasks, native: NativeTask) -> list[Callable[[], Any]]:
    return [
        lambda: tasks.submit(int),
        lambda: tasks.options(key="k").submit(int),
        lambda: tasks.options(delay="1s").submit(int),
        lambda: tasks.submit_many(int, "12"),
        lambda: tasks.submit_native(native),
        lambda: tasks.every("1s", int),
        lambda: tasks.map(int, "12"),
    ]


def test_nothing_is_taken_after_a_shutdown(tasks: Tasks, c_tasks: Path) -> None:
    gate = threading.Event()
    running = tasks.submit(gate.wait, 60)
    wait_until(running.running)
    waits = [tasks.options(key="k").submit(int) for _ in range(3)]
    tasks.shutdown(wait=False)
    for submit in ways_in(tasks, NativeTask(c_tasks, "note")):
        with pytest.raises(StoppedError):
            submit()
    gate.set()
    tasks.shutdown(timeout=60)
    assert [future.result(0) for future in (running, *waits)] == [True, 0, 0, 0]
    for submit in ways_in(tasks, NativeTask(c_tasks, "note")):
        with pytest.raises(StoppedError):
            submit()


def in_a_child(check: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            check()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forks_child_of_a_dispatcher_that_has_run_no_task_is_refused(c_tasks: Path) -> None:
    with Dispatcher(1, "count", workers=1, cores=None) as dispatcher:

        def check() -> None:
            native = NativeTask(c_tasks, "note")
            for ask in (*ways_in(dispatcher.tasks, native), dispatcher.tasks.shutdown):
                with pytest.raises(StoppedError, match="fork"):
                    ask()

        in_a_child(check)
        goes_on(dispatcher.tasks)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forks_child_is_refused_changes_nothing_and_ends(tasks: Tasks, c_tasks: Path) -> None:
    gate = threading.Event()
    dead = tasks.options(retry=RetryPolicy(max_retries=0)).submit(divmod, 1, 0)
    assert isinstance(dead.exception(60), ZeroDivisionError)
    running = [tasks.submit(gate.wait, 60)]
    waits = tasks.options(key="k", delay="1h").submit(int)
    wait_until(lambda: all(future.running() for future in running))
    refused = [*ways_in(tasks, NativeTask(c_tasks, "note")), waits.result, waits.exception, tasks.shutdown]
    refused += [running[0].result, lambda: tasks.dead_letters.put_back(*tasks.dead_letters)]
    changes = [
        waits.cancel,
        lambda: running[0].cancel(running=True),
        lambda: waits.reprioritise("high"),
        lambda: waits.set_deadline("2h"),
        lambda: waits.set_group(TaskGroup()),
    ]

    def check() -> None:
        for ask in refused:
            with pytest.raises(StoppedError, match="fork"):
                ask()
        assert [change() for change in changes] == [False] * len(changes)

    in_a_child(check)
    assert (waits.state, waits.priority, waits.deadline_ns, waits.group) == ("delayed", "normal", None, None)
    assert not any(future.cancel_requested for future in running)
    gate.set()
    assert [future.result(60) for future in running] == [True]
    assert waits.cancel()
