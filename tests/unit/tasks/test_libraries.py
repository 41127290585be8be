"""Libraries that take an executor run their work on a scheduler: asyncio, dask and joblib."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import CancelledError
from typing import Any

import pytest
from engine_support import wait_until

import strand
from strand.errors import ConfigurationError
from strand.tasks import register_joblib

pytestmark = pytest.mark.python


@pytest.fixture
def joblib() -> Any:
    found = pytest.importorskip("joblib", reason="joblib is not installed: pip install 'tickstrand[joblib]'")
    register_joblib()
    return found


def square(x: int) -> tuple[int, str]:
    return x * x, threading.current_thread().name


def test_asyncio_waits_for_tasks() -> None:
    """For the first or for all, with a time limit, and for tasks that have ended."""

    async def main(scheduler: strand.Scheduler) -> None:
        gate = threading.Event()
        ended, waits = scheduler.submit(int), scheduler.submit(gate.wait, 60)
        done, pending = await asyncio.wait([ended, waits], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        assert (done, pending) == ({ended}, {waits})
        done, pending = await asyncio.wait([ended, waits], timeout=0.01)  # type: ignore[type-var]
        assert (done, pending) == ({ended}, {waits})
        asyncio.get_running_loop().call_later(0.01, gate.set)
        done, pending = await asyncio.wait([ended, waits])  # type: ignore[type-var]
        assert (done, pending) == ({ended, waits}, set())
        assert sorted([await each for each in asyncio.as_completed([ended, waits])]) == [0, True]

    with strand.Scheduler(2) as scheduler:
        asyncio.run(asyncio.wait_for(main(scheduler), 60))


def test_a_callback_that_is_removed_is_not_called() -> None:
    called: list[str] = []
    with strand.Scheduler(1) as scheduler:
        gate = threading.Event()
        future = scheduler.submit(gate.wait, 60)
        once, twice = (lambda _: called.append("once")), (lambda _: called.append("twice"))
        for callback in (once, twice, twice):
            future.add_done_callback(callback)
        assert future.remove_done_callback(twice) == 2
        gate.set()
    assert called == ["once"]
    assert future.remove_done_callback(once) == 0


@pytest.mark.parametrize("options", [{}, {"priority": "low"}])
def test_dask_computes_on_a_scheduler_that_is_its_pool(options: dict[str, Any]) -> None:
    dask = pytest.importorskip("dask", reason="dask is not installed")
    with strand.Scheduler(2) as scheduler:
        pool = scheduler.options(**options) if options else scheduler
        with dask.config.set(pool=pool):
            squares = [dask.delayed(square)(i) for i in range(20)]
            found = dask.compute(*squares)
        assert [value for value, _ in found] == [i * i for i in range(20)]
        assert {thread for _, thread in found} <= {"strand-task-worker-0", "strand-task-worker-1"}
        level = options.get("priority", "normal")
        assert scheduler.statistics().wait_by_priority[level].count == scheduler.statistics().submitted > 0


def test_joblib_runs_on_a_scheduler(joblib: Any) -> None:
    with strand.Scheduler(2) as scheduler:
        with joblib.parallel_config(backend="strand", executor=scheduler.options(priority="low")):
            found = joblib.Parallel()(joblib.delayed(square)(i) for i in range(300))
            assert [value for value, _ in found] == [i * i for i in range(300)]
            assert {thread for _, thread in found} <= {"strand-task-worker-0", "strand-task-worker-1"}
            lazy = joblib.Parallel(return_as="generator", n_jobs=2)(joblib.delayed(pow)(i, 2) for i in range(9))
            assert list(lazy) == [i * i for i in range(9)]
        assert scheduler.statistics().wait_by_priority["low"].count == scheduler.statistics().submitted > 0


def test_a_parallel_within_a_task_of_joblib_gives_its_worker_away(joblib: Any) -> None:
    """With one worker it would otherwise wait for itself."""

    def outer(n: int) -> int:
        return (
            sum(joblib.Parallel(n_jobs=1)(joblib.delayed(pow)(i, 2) for i in range(n))) + scheduler.submit(int).result()
        )

    with strand.Scheduler(1) as scheduler, joblib.parallel_config(backend="strand", executor=scheduler):
        assert joblib.Parallel()(joblib.delayed(outer)(n) for n in range(6)) == [0, 0, 1, 5, 14, 30]


def test_an_error_in_a_batch_of_joblib_cancels_the_others(joblib: Any) -> None:
    began: list[int] = []

    def fail_first(i: int) -> None:
        began.append(i)
        if i == 0:
            raise ValueError("the first one")
        while not strand.tasks.current_task().cancel_requested:  # type: ignore[union-attr]
            time.sleep(0.001)
        raise CancelledError

    with strand.Scheduler(2) as scheduler, joblib.parallel_config(backend="strand", executor=scheduler):
        with pytest.raises(ValueError, match="the first one"):
            joblib.Parallel(batch_size=1, pre_dispatch="all")(joblib.delayed(fail_first)(i) for i in range(40))
        wait_until(lambda: scheduler.statistics().pending == 0)
    assert len(began) < 10
    assert scheduler.statistics().ended["cancelled"] >= 30


def test_joblib_is_told_what_executor_to_give(joblib: Any) -> None:
    with pytest.raises(ConfigurationError, match=r'parallel_config\(backend="strand", executor=scheduler\)'):
        joblib.parallel_config(backend="strand")
