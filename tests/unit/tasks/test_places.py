"""The threads of a scheduler."""

from __future__ import annotations

import threading
from collections.abc import Callable

from strand import Levels
from strand.binding.engine import Engine
from strand.binding.engine_words import RunByPython
from strand.tasks.engine_pool import EnginePool
from strand.tasks.places import Places
from strand.tasks.scheduler import _config
from strand.tasks.work import TasksAlone


def workers_of(n: int, run: Callable[[int], None]) -> tuple[Engine, EnginePool, Places]:
    engine = Engine(_config(n, Levels()))
    engine.set_handlers([RunByPython()], [()])
    workers = Places(engine, TasksAlone(run), n)
    workers.start()
    return engine, EnginePool(engine, Levels()), workers


def test_each_task_is_run_once_by_some_thread_and_all_end() -> None:
    ran: list[int] = []
    all_ran = threading.Event()

    def run(tag: int) -> None:
        ran.append(tag)
        if len(ran) == 5000:
            all_ran.set()

    engine, pool, workers = workers_of(3, run)
    for tag in range(1, 1001):
        pool.submit(tag, tag % 5)
    pool.submit_many(range(1001, 5001), 3)
    assert all_ran.wait(60)
    workers.end()
    workers.join()
    assert sorted(ran) == list(range(1, 5001))
    assert not any(thread.is_alive() for thread in workers.threads)
    assert engine.tasks.totals(on_strands=False).ended == 5000


def test_a_thread_that_ends_them_does_not_wait_for_itself() -> None:
    ended = threading.Event()

    def run(_: int) -> None:
        workers.end()
        workers.join()
        ended.set()

    _, pool, workers = workers_of(2, run)
    pool.submit(1, 3)
    assert ended.wait(60)
    workers.join()
    assert not any(thread.is_alive() for thread in workers.threads)
