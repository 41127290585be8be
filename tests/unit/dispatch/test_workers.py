"""Workers: pinned to cores, and asleep without work."""

from __future__ import annotations

import os
import threading
import time
import warnings
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from engine_support import counting, ticks_for, wait_until, worker_threads

import strand
from strand import Dispatcher, Levels
from strand.binding.gate import Thread
from strand.dispatch.workers import pin_here
from strand.errors import ConfigurationError, StoppedError
from strand.tasks.places import seat_here

pytestmark = pytest.mark.python


def affinity_of(thread: Thread) -> set[int]:
    assert thread.native_id is not None
    return os.sched_getaffinity(thread.native_id)


def test_workers_are_pinned_to_the_cores_asked_for_in_turn() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    cores = allowed[:2]
    before = os.sched_getaffinity(0)
    with Dispatcher(1, counting, workers=5, cores=cores) as d:
        wait_until(lambda: all(len(affinity_of(t)) == 1 for t in d._state.threads))
        assert [affinity_of(t) for t in d._state.threads] == [{cores[i % len(cores)]} for i in range(5)]
        assert [w.core for w in d.statistics().workers] == [*(cores[i % len(cores)] for i in range(5)), None]
        d.publish(ticks_for([0] * 100))
    assert os.sched_getaffinity(0) == before
    assert d.rows[0]["ticks"] == 100


def test_workers_are_not_pinned_where_no_cores_are_named() -> None:
    with Dispatcher(1, counting, workers=2, cores=None) as d:
        d.publish(ticks_for([0]))
        d.drain()
        assert all(affinity_of(t) == os.sched_getaffinity(0) for t in d._state.threads)


def test_auto_takes_the_last_cores_this_process_may_use() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    with Dispatcher(1, counting, workers=1, cores="auto") as d:
        assert [w.core for w in d.statistics().workers] == [allowed[-1], None]
    with Dispatcher(1, counting, workers=3 * len(allowed), cores="auto") as d:
        assert {w.core for w in d.statistics().workers} == {*allowed, None}


def refuse(pid: int, cores: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_where_pinning_is_refused_auto_runs_unpinned_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    d = Dispatcher(1, counting, workers=2)
    with pytest.warns(RuntimeWarning, match="refused it .Operation not permitted.") as warned, d:
        d.publish(ticks_for([0] * 10))
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert d.rows[0]["ticks"] == 10
    s = d.statistics()
    assert s.unpinned == "workers are not pinned to cores: the system refused it (Operation not permitted)"
    assert s.as_dict()["unpinned"] == s.unpinned
    assert [w.core for w in s.workers] == [None] * 3


@pytest.mark.parametrize(
    ("cores", "said"),
    [
        ([], "an empty list cannot be used; this process may use"),
        ([4000], r"\[4000\] cannot be used"),
        ("all", "'all' is not 'auto', None or a list of core numbers"),
        (3, "3 is not 'auto', None or a list of core numbers"),
    ],
)
def test_cores_that_there_are_not_are_refused(cores: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^cores: {said}"):
        Dispatcher(1, "count", workers=1, cores=cores)


def test_cores_asked_for_by_number_that_are_refused_are_an_error_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    core = min(os.sched_getaffinity(0))
    d = Dispatcher(1, counting, workers=2, cores=[core])
    with pytest.raises(ConfigurationError, match=f"cores: the system refused to pin a worker to core {core}"):
        d.start()
    assert worker_threads() == []


def test_a_core_that_is_gone_leaves_its_worker_alone_unpinned(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def refuse_first(pid: int, cores: set[int]) -> None:
        if pid:  # a thread's own calls, by which it has all cores until it has one, are of 0
            calls.append(pid)
        if len(calls) == 1:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sched_setaffinity", refuse_first)
    with pytest.warns(RuntimeWarning, match="Invalid argument"), Dispatcher(1, counting, workers=2) as d:
        first, second, _ = d.statistics().workers
    assert first.core is None
    assert second.core is not None


def test_nothing_is_said_of_pinning_where_it_went_well() -> None:
    with warnings.catch_warnings(), Dispatcher(1, counting, workers=1) as d:
        warnings.simplefilter("error")
        assert d.statistics().unpinned is None


@pytest.mark.parametrize("idle", ["backoff", "park"])
def test_idle_workers_sleep_and_wake_for_a_tick(idle: str) -> None:
    """Processor time, not wall time: a worker that spun would use all of it."""
    with Dispatcher(4, counting, workers=3, cores=None, idle=idle) as d:
        d.publish(ticks_for([0, 1, 2, 3]))
        d.drain()
        wait_until(lambda: d.statistics().parks >= 3)
        wait_until(lambda: all(state_of(t) == "S" for t in d._state.threads))
        before = [cpu_ticks(t) for t in d._state.threads]
        time.sleep(0.5)
        assert sum(cpu_ticks(t) for t in d._state.threads) - sum(before) <= 3
        d.publish(ticks_for([0, 1, 2, 3]))
        d.drain()
        assert d.rows.array["ticks"].tolist() == [2] * 4


def test_a_spinning_worker_uses_its_core_which_the_measure_above_sees() -> None:
    with Dispatcher(1, counting, workers=1, cores=None, idle="spin") as d:
        start = cpu_ticks(d._state.threads[0])
        wait_until(lambda: cpu_ticks(d._state.threads[0]) - start > 10)


def state_of(thread: Thread) -> str:
    return stat_of(thread)[0]


def cpu_ticks(thread: Thread) -> int:
    """Hundredths of a second of processor time."""
    return sum(map(int, stat_of(thread)[11:13]))


def stat_of(thread: Thread) -> list[str]:
    return Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()


@pytest.mark.parametrize("name", ["strand-outputs", "strand-worker-0", "strand-worker-1"])
def test_an_interrupt_as_threads_are_started_leaves_none_of_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(thread: Any, start: Any) -> None:
        if thread.name == name:
            raise KeyboardInterrupt
        start(thread)

    for kind in (threading.Thread, Thread):
        monkeypatch.setattr(kind, "start", partialmethod(interrupted, kind.start))
    d = Dispatcher(2, "bars", workers=3, cores=None)
    with pytest.raises(KeyboardInterrupt):
        d.start()
    assert worker_threads() == []
    with pytest.raises(StoppedError):
        d.publish(ticks_for([0]))


# ---- Threads that get the places of workers are pinned as those say, and threads without one are not


def here() -> set[int]:
    return os.sched_getaffinity(0)


def test_a_spare_thread_takes_the_core_of_its_place_and_a_thread_in_a_block_none() -> None:
    allowed = here()
    core = max(allowed)
    gate = threading.Event()

    def wait() -> list[set[int]]:
        cores = [here()]
        with strand.blocking():
            gate.wait(60)
            cores.append(here())
        return [*cores, here()]

    with Dispatcher(2, "count", workers=1, cores=[core]) as d:
        futures = [d.tasks.submit(wait), d.submit_call(0, lambda _: wait())]
        wait_until(lambda: d.thread_counts().blocked == 2)
        assert d.tasks.submit(here).result(60) == {core}
        assert d.call(1, lambda _: here()) == {core}
        gate.set()
        assert [future.result(60) for future in futures] == [[{core}, allowed, {core}]] * 2
        assert [worker.core for worker in d.statistics().workers] == [core, None]
    assert here() == allowed


def test_a_task_that_was_suspended_is_pinned_to_the_core_of_the_worker_that_takes_it() -> None:
    cores = sorted(here())[-2:]
    wrong: list[Any] = []
    free = threading.Event()

    def low() -> None:
        while not free.is_set():
            strand.checkpoint()
            place = seat_here().place  # type: ignore[union-attr]
            if place is None or here() != {place.core}:
                wrong.append((place, here()))

    with Dispatcher(2, "count", workers=2, cores=cores, policy=Levels()) as d:
        lows = [d.tasks.options(priority="low").submit(low) for _ in range(3)]
        wait_until(lambda: any(future.running() for future in lows))
        for _ in range(20):
            assert d.tasks.options(priority="high").submit(here).result(60) in [{core} for core in cores]
        free.set()
        for future in lows:
            future.result(60)
        assert d.thread_counts().suspensions >= 1
    assert wrong == []


def test_without_cores_no_thread_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("nothing is to be pinned")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)

    def wait() -> set[int]:
        with strand.blocking():
            pass
        return here()

    with Dispatcher(1, "count", workers=1, cores=None) as d:
        assert d.tasks.submit(wait).result(60) == here()


def test_a_core_that_is_refused_later_leaves_its_place_unpinned_and_statistics_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = max(here())

    def wait() -> int:
        with strand.blocking():
            pass
        return 7

    def refuse(*_: Any) -> None:
        raise OSError(22, "Invalid argument")

    with Dispatcher(1, "count", workers=1, cores=[core]) as d:
        assert [worker.core for worker in d.statistics().workers] == [core, None]
        monkeypatch.setattr(os, "sched_setaffinity", refuse)
        assert d.tasks.submit(wait).result(60) == 7
        wait_until(lambda: d._state.cores == [None])
        statistics = d.statistics()
        assert [worker.core for worker in statistics.workers] == [None, None]
        assert "Invalid argument" in (statistics.unpinned or "")


class Cores:
    """Attributes of a dispatcher that ``pin_here`` reads."""

    def __init__(self, cores: list[int | None]) -> None:
        self.cores = cores
        self.unpinned: str | None = None


class Spot:
    """A place whose core is another one each time that somebody looks, the last for good."""

    participant = 0

    def __init__(self, *cores: int | None) -> None:
        self._cores = list(cores)

    @property
    def core(self) -> int | None:
        return self._cores.pop(0) if len(self._cores) > 1 else self._cores[0]

    @core.setter
    def core(self, core: int | None) -> None:
        self._cores = [core]


def pinned_to_one_then(spot: Spot, state: Cores) -> set[int]:
    """Cores of a thread that was pinned to a core, and then got a place."""
    allowed, found = sorted(here()), set[int]()

    def run() -> None:
        os.sched_setaffinity(0, {allowed[0]})
        pin_here(state, spot, allowed)  # type: ignore[arg-type]
        found.update(here())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found


@pytest.mark.skipif(len(here()) < 2, reason="one core: all threads are pinned to it")
def test_a_thread_that_gets_a_place_without_a_core_keeps_none_of_another_place() -> None:
    state = Cores([min(here()), None])
    assert pinned_to_one_then(Spot(None), state) == here()
    assert state.unpinned is None


@pytest.mark.skipif(len(here()) < 2, reason="one core: all threads are pinned to it")
def test_a_core_that_a_place_gets_while_its_thread_goes_on_without_one_is_not_lost() -> None:
    core = max(here())
    assert pinned_to_one_then(Spot(None, core), Cores([core])) == {core}


@pytest.mark.skipif(len(here()) < 2, reason="one core: all threads are pinned to it")
def test_a_thread_whose_new_core_is_refused_does_not_keep_the_old_one() -> None:
    allowed, spot, state = here(), Spot(1023), Cores([1023])
    assert pinned_to_one_then(spot, state) == allowed
    assert (spot.core, state.cores) == (None, [None])
    assert "refused core 1023" in (state.unpinned or "")
