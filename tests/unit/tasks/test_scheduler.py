"""The scheduler: an executor over the engine, under every policy."""

from __future__ import annotations

import concurrent.futures
import gc
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from typing import Any

import pytest

import strand
from strand import Aging, Fair, Fifo, Levels, Scheduler, TaskGroup
from strand.errors import ConfigurationError, QueueFull, StoppedError

POLICIES = [Fifo(), Levels(), Aging(coefficient=1.0), Fair()]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_it_is_an_executor_under_every_policy(policy: Any) -> None:
    with Scheduler(3, policy=policy) as scheduler:
        assert isinstance(scheduler, concurrent.futures.Executor)
        assert scheduler.workers == 3
        assert scheduler.submit(pow, 2, exp=10).result(60) == 1024
        assert list(scheduler.map(abs, range(-5, 5))) == [abs(i) for i in range(-5, 5)]
        futures = scheduler.submit_many(divmod, range(1000), [7] * 1000)
        _, left = concurrent.futures.wait(futures, 60)
        assert not left
        assert [future.result() for future in futures] == [divmod(i, 7) for i in range(1000)]
        with pytest.raises(ZeroDivisionError):
            scheduler.submit(divmod, 1, 0).result(60)
    with pytest.raises(StoppedError):
        scheduler.submit(print)
    scheduler._engine.verify()


def test_none_and_0_workers_are_all_cores_and_others_are_refused() -> None:
    for given in (None, 0):
        with Scheduler(given) as scheduler:
            assert scheduler.workers == len(os.sched_getaffinity(0))
    for wrong in (-1, 1025, 1.5, "2"):
        with pytest.raises(ConfigurationError, match="workers"):
            Scheduler(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="policy"):
        Scheduler(1, policy="levels")  # type: ignore[arg-type]


def test_a_higher_level_is_taken_first_and_a_level_in_order() -> None:
    ran: list[str] = []
    gate = threading.Event()
    with Scheduler(1) as scheduler:
        blocker = scheduler.submit(gate.wait, 60)
        while not blocker.running():
            time.sleep(0.001)
        for level in ("low", "normal", "high", "immediate", "low", "high"):
            scheduler.options(priority=level).submit(ran.append, level)
        late = scheduler.options(priority="low").submit(ran.append, "raised")
        assert late.reprioritise("immediate")
        assert scheduler.pending_count()["high"] == 2
        gate.set()
    assert ran == ["immediate", "raised", "high", "high", "normal", "low", "low"]


def test_a_group_has_its_share_of_time() -> None:
    policy = Fair(slice_ms=2, weights={"three": 3})
    spent: dict[str, float] = defaultdict(float)
    until = time.monotonic() + 1.5

    def burn(name: str) -> None:
        begun = time.thread_time()
        while time.thread_time() - begun < 0.001:
            pass
        if time.monotonic() < until:
            spent[name] += time.thread_time() - begun

    with Scheduler(1, policy=policy) as scheduler:
        for name in ("one", "three"):
            scheduler.options(group=TaskGroup(name)).submit_many(burn, [name] * 3000)
        time.sleep(max(0, until - time.monotonic()))
        scheduler.shutdown(cancel_futures=True)
    assert spent["three"] / (spent["one"] + spent["three"]) == pytest.approx(0.75, abs=0.06)


def test_the_bound_of_the_queue_is_exact() -> None:
    gate = threading.Event()
    with Scheduler(1, max_queue=3) as scheduler:
        blocker = scheduler.submit(gate.wait, 60)
        while not blocker.running():
            time.sleep(0.001)
        futures = [scheduler.submit(int) for _ in range(3)]
        with pytest.raises(QueueFull, match="max_queue"):
            scheduler.submit(int)
        with pytest.raises(QueueFull):
            scheduler.submit_many(int, "12")
        assert futures[0].cancel()
        again = scheduler.submit(int)
        gate.set()
        assert again.result(60) == 0


def test_one_that_nobody_refers_to_ends_with_its_last_task() -> None:
    threads = threading.active_count()
    gate = threading.Event()
    scheduler = Scheduler(2)
    view = scheduler.options(priority="high")
    future = view.submit(gate.wait, 60)
    del scheduler
    gc.collect()
    assert view.submit(int).result(60) == 0
    del view
    gc.collect()
    assert threading.active_count() == threads + 2
    gate.set()
    assert future.result(60)
    until = time.monotonic() + 60
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.001)
    assert threading.active_count() == threads


def test_a_shutdown_that_does_not_wait_ends_the_threads_after_the_last_task() -> None:
    threads = threading.active_count()
    scheduler = Scheduler(2)
    futures = scheduler.submit_many(time.sleep, [0.01] * 10)
    scheduler.shutdown(wait=False)
    with pytest.raises(StoppedError):
        scheduler.submit(int)
    concurrent.futures.wait(futures, 60)
    assert all(future.result() is None for future in futures)
    until = time.monotonic() + 60
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.001)
    assert threading.active_count() == threads


def test_at_the_end_of_the_program_what_waits_is_run_and_what_is_delayed_is_cancelled() -> None:
    program = """
import strand, time
scheduler = strand.Scheduler(2)
later = scheduler.options(delay="1h").submit(print, "never")
later.add_done_callback(lambda future: print("cancelled" if future.cancelled() else "run", flush=True))
ran = scheduler.submit_many(lambda i: time.sleep(0.01) or print(f'{i} ', end='', flush=True), range(20))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == sorted(["cancelled", *map(str, range(20))])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forks_child_is_refused_and_ends() -> None:
    with Scheduler(2) as scheduler:
        future = scheduler.submit(time.sleep, 0.2)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for ask in (lambda: scheduler.submit(int), future.result, scheduler.shutdown):
                    try:
                        ask()
                    except StoppedError:
                        code -= 0
                    else:
                        os._exit(2)
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert future.result(60) is None


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_man_or_boy(policy: Any) -> None:
    """10,000 tasks that raise, sleep, submit others, raise SystemExit, and cancel each other: all are accounted for."""
    threads = threading.active_count()
    futures: list[strand.tasks.TaskFuture] = []

    def act(i: int) -> int:
        if i % 11 == 1:
            raise ValueError(i)
        if i % 97 == 2:
            raise SystemExit(i)
        if i % 101 == 3:
            time.sleep(0.002)
        if i % 5 == 4:
            futures[i * 7919 % len(futures)].cancel()
        if i % 13 == 5:
            futures.append(scheduler.submit(act, 6))
        return i

    with Scheduler(2, policy=policy) as scheduler:
        keyed = [scheduler.options(key=k) for k in range(20)]
        for i in range(10_000):
            futures.append((keyed[i % 20] if i % 3 == 0 else scheduler).submit(act, i))
    ends: dict[str, int] = defaultdict(int)
    for future in futures:
        assert future.done()
        ends[future.state] += 1
    assert sum(ends.values()) == len(futures)
    assert set(ends) == {"done", "failed", "cancelled"}
    assert scheduler.pending_count() == dict.fromkeys(scheduler.pending_count(), 0)
    assert threading.active_count() == threads
    totals = scheduler._engine.tasks.totals(on_strands=False)
    assert totals.submitted == totals.ended
