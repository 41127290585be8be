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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strand
from strand import Aging, Fair, Fifo, Levels, Scheduler, TaskGroup
from strand.dispatch import guarding
from strand.dispatch.guard import Reading
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


def test_a_file_gives_what_is_not_given_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        '[policy]\nname = "levels"\nhold = {low = "20ms"}\n[worker_pool]\nmax_workers = 3\ntotal_capacity_ticks = 2\n'
        '[retry_policy]\nmax_attempts = 2\ninitial_backoff = "1ms"\n'
    )
    for config in (file, str(file), strand.Config.load(file)):
        with Scheduler(config=config) as scheduler:
            assert scheduler.workers == 3
            failed = scheduler.submit(divmod, 1, 0)
            with pytest.raises(ZeroDivisionError):
                failed.result(60)
            assert (failed.state, failed.attempts) == ("dead", 2)
            once = scheduler.options(retry=strand.RetryPolicy(max_retries=0)).submit(divmod, 1, 0)
            assert once.exception(60)
            assert once.attempts == 1
            low = scheduler.options(priority="low").submit(int)
            assert low.result(60) == 0
            assert low.waited_ns >= 20_000_000
            with pytest.raises(QueueFull):
                scheduler.submit_many(int, "123")
    never = strand.RetryPolicy(max_retries=0)
    with Scheduler(0, 0, policy=Fifo(), retry=never, config=file) as scheduler:
        assert scheduler.workers == len(os.sched_getaffinity(0))
        assert len(scheduler.options(key="k").submit_many(int, "12345")) == 5
        failed = scheduler.submit(divmod, 1, 0)
        assert failed.exception(60)
        assert failed.attempts == 1
        with pytest.raises(ConfigurationError, match="priority"):
            scheduler.options(priority="low")


def test_without_a_file_a_task_that_fails_is_not_tried_again() -> None:
    with Scheduler(1) as scheduler:
        failed = scheduler.submit(divmod, 1, 0)
        assert failed.exception(60)
        assert (failed.state, failed.attempts) == ("failed", 1)
        assert scheduler.guard_statistics() is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"config": 3}, "config: 3 is neither a strand.Config nor the path of a file"),
        ({"config": "none.toml"}, "none.toml"),
        ({"guard": 0.8}, "guard: 0.8 is not a strand.Guard"),
        ({"guard": strand.Guard(), "policy": Fifo()}, "guard: Fifo has no levels"),
        ({"retry": 3}, "retry: 3 is not a strand.RetryPolicy"),
        ({"max_queue": -1}, "max_queue"),
    ],
)
def test_what_cannot_work_is_refused_and_leaves_no_thread(given: dict[str, Any], says: str) -> None:
    threads = threading.active_count()
    with pytest.raises(ConfigurationError, match=says):
        Scheduler(1, **given)
    assert threading.active_count() == threads


class Machine:
    """``cpu``, ``memory``, ``io``: what a guard measures."""

    def __init__(self) -> None:
        self.cpu = self.memory = self.io = 0.0
        self.sources = {"cpu": "a test", "memory": "a test", "io": "a test"}
        self.lacks_io = False

    def read(self) -> Reading:
        return Reading(self.cpu, self.memory, self.io)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(guarding, "Meters", lambda guard: made)
    return made


GUARD = strand.Guard(every="1ms", max_hold="1h")


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.001)


def holds(scheduler: Scheduler, *resources: str) -> Callable[[], bool]:
    def is_so() -> bool:
        found = scheduler.guard_statistics()
        assert found is not None
        return {name for name, decided in found.items() if decided.holding} == {*resources}

    return is_so


def test_the_guard_holds_tasks_back_by_level_and_mark_and_lets_them_go(machine: Machine) -> None:
    with Scheduler(2, guard=GUARD) as scheduler:
        machine.cpu = machine.memory = machine.io = 0.9
        wait_until(holds(scheduler, "cpu", "memory", "io"))
        held = [
            scheduler.options(priority="low").submit(int),
            scheduler.submit(int),
            scheduler.options(priority="immediate", marks="io").submit(int),
        ]
        freeing = scheduler.options(priority="low", marks="frees_memory").submit(int)
        assert scheduler.options(priority="high").submit(int).result(60) == 0
        assert freeing.result(60) == 0
        assert [future.state for future in held] == ["waiting"] * 3
        machine.memory = 0.0
        assert held[1].result(60) == 0
        machine.io = 0.0
        assert held[2].result(60) == 0
        assert held[0].state == "waiting"
        machine.cpu = 0.0
        assert held[0].result(60) == 0


def test_a_shutdown_ends_the_guard_and_runs_what_it_held_back(machine: Machine) -> None:
    threads = threading.active_count()
    machine.cpu = 1.0
    with Scheduler(1, guard=GUARD) as scheduler:
        wait_until(holds(scheduler, "cpu"))
        low = scheduler.options(priority="low").submit(int)
        scheduler.submit(int).result(60)
        assert low.state == "waiting"
    assert low.result(0) == 0
    assert holds(scheduler)()
    assert threading.active_count() == threads


def test_a_guarded_scheduler_that_nobody_refers_to_ends_and_runs_what_was_held_back(machine: Machine) -> None:
    threads = threading.active_count()
    machine.cpu = 1.0
    scheduler = Scheduler(1, guard=GUARD)
    wait_until(holds(scheduler, "cpu"))
    low = scheduler.options(priority="low").submit(int)
    del scheduler
    gc.collect()
    assert low.result(60) == 0
    wait_until(lambda: threading.active_count() == threads)


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
    enough = threading.Event()

    def burn(name: str) -> None:
        begun = time.thread_time()
        while time.thread_time() - begun < 0.001:
            pass
        # Over so much time on a core, however long that takes beside others: then a slice makes no difference.
        if sum(spent.values()) < 1:
            spent[name] += time.thread_time() - begun
        else:
            enough.set()

    with Scheduler(1, policy=policy) as scheduler:
        for name in ("one", "three"):
            scheduler.options(group=TaskGroup(name)).submit_many(burn, [name] * 3000)
        assert enough.wait(100)
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


@pytest.mark.parametrize(("io_bound", "per_core"), [(False, 1), (True, 2)])
def test_tasks_that_mostly_sleep_have_twice_as_many_workers_where_nobody_says_how_many(
    io_bound: bool, per_core: int
) -> None:
    with Scheduler(io_bound=io_bound) as scheduler:
        assert scheduler.workers == per_core * len(os.sched_getaffinity(0))
    with Scheduler(3, io_bound=io_bound) as scheduler:
        assert scheduler.workers == 3


def test_the_load_says_how_many_workers_are_active() -> None:
    gate, running = threading.Event(), []

    def waits(n: int) -> None:
        running.append(n)
        gate.wait(60)

    with Scheduler(4, min_workers=1) as scheduler:

        def active() -> int:
            found = scheduler.active_statistics()
            assert found is not None
            return found.now

        assert active() == 1
        futures = [scheduler.submit(waits, n) for n in range(20)]
        wait_until(lambda: len(running) == 4)
        assert active() == 4
        gate.set()
        assert [future.result(60) for future in futures] == [None] * 20
        wait_until(lambda: active() == 1)
    with Scheduler(4) as scheduler:
        assert scheduler.active_statistics() is None
    with pytest.raises(ConfigurationError, match="min_workers"):
        Scheduler(2, min_workers=3)
