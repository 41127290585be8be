"""Tasks that let others go in their middle, and that wait without keeping a worker."""

from __future__ import annotations

import concurrent.futures
import decimal
import itertools
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import strand
from strand import Aging, Dispatcher, Fair, Fifo, Levels, Scheduler, TaskGroup
from strand.errors import ConfigurationError, StoppedError, WouldDeadlockError
from strand.tasks import TaskFuture

#: The C of it is that of test_tasks_that_wait.py.
pytestmark = [pytest.mark.python, pytest.mark.usefixtures("threads_come_back")]


def passes(n: int = 50) -> None:
    """Checkpoints over a while in which a thread asks its policy some times."""
    for _ in range(n):
        time.sleep(0.0002)
        strand.checkpoint()


def running(scheduler: Scheduler, fn: Any, *args: Any, **options: Any) -> TaskFuture:
    """A task that has begun."""
    future = scheduler.options(**options).submit(fn, *args)
    while not future.running():
        assert not future.done()
        time.sleep(0.0005)
    return future


def until(condition: Any) -> None:
    for _ in range(60_000):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError("it does not come")


def test_outside_of_a_task_neither_does_anything() -> None:
    strand.checkpoint()
    with strand.blocking(), strand.blocking():
        strand.checkpoint()


def test_a_higher_level_goes_first_and_the_task_goes_on_afterwards() -> None:
    said: list[str] = []
    thread: list[int] = []

    def low() -> str:
        thread.append(threading.get_ident())
        said.append("low begins")
        passes(3)
        scheduler.options(priority="normal").submit(said.append, "normal")
        scheduler.options(priority="high").submit(said.append, "high")
        scheduler.options(priority="low").submit(said.append, "low")
        passes()
        said.append("low ends")
        thread.append(threading.get_ident())
        return "value"

    with Scheduler(1) as scheduler:
        assert scheduler.options(priority="low").submit(low).result(60) == "value"
        assert scheduler.thread_counts().suspensions == 1
    # The one that was suspended waits behind the other one of its level.
    assert said == ["low begins", "high", "normal", "low", "low ends"]
    assert thread[0] == thread[1]
    scheduler._engine.verify()
    assert scheduler._engine.tasks.totals(on_strands=False).suspended == 1


def test_many_tasks_of_a_key_hold_up_no_higher_level() -> None:
    ran: list[str] = []
    gate = threading.Event()
    with Scheduler(1) as scheduler:
        view = scheduler.options(key="k")
        first = running(scheduler, gate.wait, 60, key="k")
        keyed = [view.submit(time.sleep, 0.0001) for _ in range(2000)]
        high = scheduler.options(priority="high").submit(lambda: ran.append(f"{keyed[-1].state}"))
        other = scheduler.submit(lambda: ran.append(f"{keyed[-1].state}"))
        gate.set()
        assert high.result() is None
        assert first.result()
        assert other.result() is None
    assert ran == ["waiting", "waiting"], "neither a higher level nor one of the same waits for all of the key"


def test_the_same_level_and_fifo_do_not_interrupt() -> None:
    for policy in (Levels(), Fifo(), Aging()):
        said: list[str] = []

        def first(said: list[str] = said) -> None:
            scheduler.submit(said.append, "second")
            passes()
            said.append("first")

        with Scheduler(1, policy=policy) as scheduler:
            scheduler.submit(first).result(60)
        assert said == ["first", "second"]
        assert scheduler.thread_counts().suspensions == 0


def test_aging_lets_a_higher_number_go_first() -> None:
    said: list[str] = []

    def low() -> None:
        scheduler.options(priority=1000).submit(said.append, "high")
        passes()
        said.append("low")

    with Scheduler(1, policy=Aging()) as scheduler:
        scheduler.submit(low).result(60)
    assert said == ["high", "low"]


def test_a_key_waits_with_its_task() -> None:
    said: list[str] = []

    def head() -> None:
        said.append("head begins")
        scheduler.options(priority="high").submit(said.append, "high")
        passes()
        with strand.blocking():
            time.sleep(0.02)
        said.append("head ends")

    with Scheduler(2) as scheduler:
        keyed = scheduler.options(key="k", priority="low")
        keyed.submit(head)
        keyed.submit(said.append, "next").result(60)
    assert [word for word in said if word != "high"] == ["head begins", "head ends", "next"]


def test_a_group_that_used_up_its_slice_lets_others_go_and_is_charged() -> None:
    ended: list[str] = []
    submitted = threading.Event()

    def burn(seconds: float) -> float:
        begun = time.thread_time()
        while not submitted.is_set():
            strand.checkpoint()
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            strand.checkpoint()
        ended.append("burn")
        return time.thread_time() - begun

    with Scheduler(1, policy=Fair(slice_ms=2)) as scheduler:
        hungry = scheduler.options(group=TaskGroup("hungry"))
        others = scheduler.options(group=TaskGroup("small"))
        futures = [running(scheduler, burn, 0.2, group=TaskGroup("first"))]
        futures += hungry.submit_many(burn, [0.05] * 3)
        for _ in range(3):
            others.submit(ended.append, "small")
        submitted.set()
        burnt = sum(future.result(60) for future in futures)
        assert ended == ["small"] * 3 + ["burn"] * 4
        counts = scheduler.thread_counts()
        assert counts.suspensions > 10
        assert counts.suspended == 0
        fair = scheduler.statistics().fair
        assert fair is not None
        spent = {name: group.on_cpu_ns for name, group in fair.groups.items()}
    assert spent.keys() == {"(tasks)", "first", "hungry", "small"}
    assert spent["(tasks)"] == 0
    assert sum(spent.values()) / 1e9 == pytest.approx(burnt, rel=0.2)


def test_a_task_in_a_block_keeps_no_worker() -> None:
    gate = threading.Event()

    def wait() -> bool:
        with strand.blocking(), strand.blocking():
            strand.checkpoint()
            return gate.wait(60)

    with Scheduler(1) as scheduler:
        waits = scheduler.submit(wait)
        assert scheduler.submit(int).result(60) == 0
        until(lambda: scheduler.thread_counts().blocked == 1)
        scheduler.submit(gate.set)
        assert waits.result(60)
        counts = scheduler.thread_counts()
        assert (counts.threads, counts.places, counts.blocked, counts.suspended) == (2, 1, 0, 0)


def test_what_a_block_raises_comes_out_of_it() -> None:
    def raises() -> None:
        with strand.blocking():
            raise KeyError("in the block")

    with Scheduler(1) as scheduler:
        with pytest.raises(KeyError, match="in the block"):
            scheduler.submit(raises).result(60)
        assert scheduler.submit(int).result(60) == 0


@pytest.mark.parametrize("policy", [Levels(), Fifo(), Aging(), Fair()], ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("timeout", [None, 60])
def test_200_tasks_that_wait_for_each_other_on_two_workers(policy: Any, timeout: float | None) -> None:
    """Each waits for the one that is submitted behind it."""
    futures: list[TaskFuture] = []
    all_there = threading.Event()

    def one(i: int) -> int:
        with strand.blocking():
            all_there.wait(60)
        return 1 if i == 199 else 1 + int(futures[i + 1].result(timeout))

    with Scheduler(2, policy=policy) as scheduler:
        futures += [scheduler.submit(one, i) for i in range(200)]
        all_there.set()
        assert [future.result(60) for future in futures] == list(range(200, 0, -1))


def test_tasks_that_wait_for_what_they_submit_end_or_are_refused_but_never_hang() -> None:
    def fibonacci(n: int) -> int:
        if n < 2:
            return n
        first, second = scheduler.submit(fibonacci, n - 1), scheduler.submit(fibonacci, n - 2)
        return int(first.result()) + int(second.result())

    with Scheduler(2) as scheduler:
        assert scheduler.submit(fibonacci, 10).result(60) == 55
    with Scheduler(2, max_threads=10) as scheduler, pytest.raises(WouldDeadlockError, match="max_threads"):
        scheduler.submit(fibonacci, 10).result(60)


CONTEXT_VARIABLE: ContextVar[str] = ContextVar("variable", default="free")
THREAD_LOCAL = threading.local()
LOCK = threading.RLock()


def look() -> tuple[Any, ...]:
    """The state of its thread that a function finds: that of a free worker for a task that another one waits for."""
    lock_is_free = LOCK.acquire(blocking=False)
    if lock_is_free:
        LOCK.release()
    return (
        CONTEXT_VARIABLE.get(),
        decimal.getcontext().prec,
        np.geterr()["divide"],
        getattr(THREAD_LOCAL, "value", "free"),
        "free" if lock_is_free else "held by another thread",
    )


def spoil() -> None:
    """Changes what a task that waits for this one must find as it was."""
    CONTEXT_VARIABLE.set("spoilt")
    decimal.getcontext().prec = 3
    np.seterr(divide="raise")
    THREAD_LOCAL.value = "spoilt"
    time.sleep(0)


def ways_to_wait() -> dict[str, Callable[[TaskFuture], Any]]:
    def wait_in_block(future: TaskFuture) -> Any:
        with strand.blocking():
            concurrent.futures.wait([future])
        return future.result()

    def first_completed(future: TaskFuture) -> Any:
        with strand.blocking():
            return next(concurrent.futures.as_completed([future])).result()

    def exception(future: TaskFuture) -> Any:
        return future.exception() or future.result()

    def group(future: TaskFuture) -> Any:
        with TaskGroup() as group:
            future.set_group(group)
        return future.result()

    return {
        "result": lambda future: future.result(),
        "result with a timeout": lambda future: future.result(60),
        "exception": exception,
        "wait": wait_in_block,
        "as_completed": first_completed,
        "group": group,
    }


@pytest.mark.parametrize(
    ("kind", "way"),
    [("ThreadPoolExecutor", "result"), *itertools.product(["Scheduler", "Dispatcher"], ways_to_wait())],
)
def test_a_task_never_runs_in_the_thread_of_one_that_waits_for_it(kind: str, way: str) -> None:
    """Whatever the timing: contexts, thread-local values and reentrant locks are as on a worker of a thread pool."""
    wait: Callable[[Any], Any] = ways_to_wait()[way]
    generator = random.Random(5)

    def outer(tasks: Executor, function: Callable[[], Any]) -> Any:
        before = CONTEXT_VARIABLE.set("mine")
        THREAD_LOCAL.value = "mine"
        try:
            with decimal.localcontext() as context, np.errstate(divide="ignore"), LOCK:
                context.prec = 50
                future = tasks.submit(function)
                for _ in range(generator.randrange(3)):
                    time.sleep(0.0002)  # so that it may have begun
                return wait(future) or look()
        finally:
            CONTEXT_VARIABLE.reset(before)
            del THREAD_LOCAL.value

    def check(tasks: Executor) -> None:
        seen = {tasks.submit(outer, tasks, look).result(60) for _ in range(50)}
        assert seen == {("free", 28, "warn", "free", "held by another thread")}
        seen = {tasks.submit(outer, tasks, spoil).result(60) for _ in range(50)}
        assert seen == {("mine", 50, "ignore", "mine", "free")}

    if kind == "Dispatcher":
        with Dispatcher(["A"], "count", workers=2) as dispatcher:
            check(dispatcher.tasks)
        return
    with Scheduler(2) if kind == "Scheduler" else ThreadPoolExecutor(2) as executor:
        check(executor)


def test_with_max_threads_a_wait_is_refused_and_a_checkpoint_goes_on() -> None:
    gate, said = threading.Event(), []

    def wait() -> None:
        with strand.blocking():
            gate.wait(60)

    def low() -> None:
        scheduler.options(priority="high").submit(said.append, "high")
        passes()
        said.append("low")

    with Scheduler(1, max_threads=2) as scheduler:
        first = running(scheduler, wait)
        until(lambda: scheduler.thread_counts().blocked == 1)
        with pytest.raises(WouldDeadlockError, match="max_threads"):
            scheduler.submit(wait).result(60)
        scheduler.options(priority="low").submit(low).result(60)
        assert scheduler.thread_counts().refused >= 2
        gate.set()
        assert first.result(60) is None
    assert said == ["low", "high"]
    with pytest.raises(ConfigurationError, match="max_threads"):
        Scheduler(1, max_threads=0)


def test_a_task_that_is_asked_to_end_is_told_at_its_next_checkpoint() -> None:
    def runs() -> None:
        while True:
            passes(1)

    def suspended() -> None:
        while not told.is_set():
            passes(1)
        scheduler.options(priority="high").submit(lambda: asleep.set() or gate.wait(60))
        passes()
        raise AssertionError("it goes on")

    gate, told, asleep = threading.Event(), threading.Event(), threading.Event()
    with Scheduler(1) as scheduler:
        future = running(scheduler, runs)
        assert future.cancel(running=True)
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(60)
        future = running(scheduler, suspended)
        told.set()
        assert asleep.wait(60)
        assert scheduler.thread_counts().suspended == 1
        assert future.running()
        assert future.cancel(running=True)
        gate.set()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(60)
        assert future.state == "cancelled"


def test_system_exit_in_a_task_that_was_suspended_ends_no_worker() -> None:
    def leaves() -> None:
        scheduler.options(priority="high").submit(int)
        passes()
        raise SystemExit(3)

    with Scheduler(1) as scheduler:
        with pytest.raises(SystemExit):
            scheduler.submit(leaves).result(60)
        assert scheduler.thread_counts().suspensions == 1
        assert scheduler.submit(int).result(60) == 0


def test_a_shutdown_waits_for_tasks_that_are_suspended_or_in_a_block() -> None:
    gate = threading.Event()

    def wait() -> str:
        with strand.blocking():
            gate.wait(60)
        passes()
        return "ended"

    scheduler = Scheduler(1)
    futures = [scheduler.submit(wait) for _ in range(5)]
    until(lambda: scheduler.thread_counts().blocked == 5)
    scheduler.shutdown(wait=False)
    with pytest.raises(TimeoutError):
        scheduler.shutdown(timeout=0.05)
    gate.set()
    scheduler.shutdown()
    assert [future.result(0) for future in futures] == ["ended"] * 5


def test_when_the_workers_stop_tasks_without_one_are_told() -> None:
    """A stop that no scheduler makes by itself: it waits for all tasks."""
    gate, asleep, told = threading.Event(), threading.Event(), []

    def low() -> None:
        scheduler.options(priority="high").submit(lambda: asleep.set() or gate.wait(60))
        try:
            passes()
        except StoppedError:
            told.append("suspended")
        for again in (strand.checkpoint, strand.blocking().__enter__):
            with pytest.raises(StoppedError):
                again()

    def wait() -> None:
        try:
            with strand.blocking():
                gate.wait(60)
        except StoppedError:
            told.append("blocked")

    scheduler = Scheduler(1)
    futures = [running(scheduler, wait)]
    until(lambda: scheduler.thread_counts().blocked == 1)
    futures.append(scheduler.options(priority="low").submit(low))
    assert asleep.wait(60)
    scheduler._workers.end()
    gate.set()
    concurrent.futures.wait(futures, 60)
    scheduler.shutdown()
    assert sorted(told) == ["blocked", "suspended"]


@pytest.mark.parametrize("policy", [Levels(), Fifo(), Aging(), Fair(slice_ms=1)], ids=lambda p: type(p).__name__)
def test_many_tasks_that_are_suspended_wait_and_submit_others(policy: Any) -> None:
    """Each ends once, under every policy, and as many threads of the scheduler run as it has workers."""
    at_once, most, lock = 0, 0, threading.Lock()
    levels = ["immediate", "high", "normal", "low"] if isinstance(policy, Levels) else [None]

    def act(i: int) -> int:
        nonlocal at_once, most

        for turn in range(4):
            with lock:
                at_once += 1
                most = max(most, at_once)
            sum(range(200))
            with lock:
                at_once -= 1
            if i % 3 == turn:
                strand.checkpoint()
            if i % 21 == turn:
                with strand.blocking():
                    time.sleep(0.0005)
            if i % 20 == turn and i < 500:
                assert options[turn % len(options)].submit(act, 1000 + i).result(60) == 1000 + i
        return i

    groups = [TaskGroup("a"), TaskGroup("b")]
    with Scheduler(2, policy=policy) as scheduler:
        options = [scheduler.options(priority=level, group=group) for level in levels for group in groups]
        futures = [options[i % len(options)].submit(act, i) for i in range(500)]
        assert [future.result(120) for future in futures] == list(range(500))
        counts = scheduler.thread_counts()
    assert (counts.suspended, counts.blocked) == (0, 0)
    assert most <= 2
    scheduler._engine.verify()
    totals = scheduler._engine.tasks.totals(on_strands=False)
    assert totals.submitted == totals.ended


def test_a_callback_that_waits_keeps_no_worker() -> None:
    gate, found = threading.Event(), []
    with Scheduler(1) as scheduler:
        future = scheduler.submit(gate.wait, 60)
        behind = scheduler.options(key="k").submit(pow, 2, 3)
        future.add_done_callback(lambda _: found.append(behind.result(60)))
        gate.set()
    assert found == [8]
