"""Threads that get the places of workers are pinned as those say, and threads without one are not."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from engine_support import wait_until

import strand
from strand import Dispatcher, Levels
from strand.dispatch.workers import pin_here
from strand.tasks.places import seat_here


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
    """What ``pin_here`` looks at of a dispatcher."""

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
    """Where a thread may run that was pinned to a core, and then got a place."""
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
