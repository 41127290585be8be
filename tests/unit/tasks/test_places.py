"""The threads of a scheduler."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from strand import Levels
from strand.binding.engine import Engine
from strand.binding.engine_words import RunByPython
from strand.binding.gate import Code
from strand.binding.tasks import PyBatches
from strand.tasks.places import Places, Seat, TasksAlone, seat_here
from strand.tasks.pool import Pool
from strand.tasks.scheduler import _config


def workers_of(n: int, run: Callable[[int], None]) -> tuple[Engine, Pool, Places]:
    engine = Engine(_config(n, Levels()))
    engine.set_handlers([RunByPython()], [()])
    workers = Places(engine, TasksAlone(run), n)
    workers.start()
    return engine, Pool(engine, Levels()), workers


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


def test_a_wake_for_nothing_has_a_thread_sleep_on() -> None:
    engine, _, places = workers_of(1, lambda _: None)
    seat = Seat(places, None)
    seat._wake.release()
    thread = threading.Thread(target=places.live, args=(seat,))
    thread.start()
    while seat not in places._spares or not seat._wake.locked():
        time.sleep(0.001)
    places._seats.append(seat)
    assert thread.is_alive()
    places.end()
    thread.join(60)
    assert not thread.is_alive()
    places.join()
    assert engine.stopping


@pytest.mark.parametrize("how", ["a block", "a checkpoint"])
def test_a_task_that_the_engine_does_not_take_back_keeps_its_place_and_the_spare_thread_ends(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    ran: list[object] = []
    over = threading.Event()

    def run(tag: int) -> None:
        seat = seat_here()
        assert seat is not None
        assert seat.place is not None
        if tag == 1:
            try:
                if how == "a block":
                    seat.enter_block()
                else:
                    workers.suspend(seat, seat.place)
            except RuntimeError as error:
                ran.append(str(error))
        ran.append((tag, seat.place is workers.places[0], seat.depth))
        if tag == 2:
            over.set()

    engine = Engine(_config(1, Levels()))
    engine.set_handlers([RunByPython()], [()])
    workers = Places(engine, TasksAlone(run), 3)
    monkeypatch.setattr(PyBatches, "suspender", lambda *_, away: lambda: int(Code.STOPPED))
    workers.start()
    pool = Pool(engine, Levels())
    pool.submit_many([1, 2], 3)
    assert over.wait(60)
    counts = workers.counts()
    assert (counts.suspended, counts.blocked, counts.suspensions) == (0, 0, 0)
    workers.end()
    workers.join()
    assert ran == ["a task was ended that still ran: please report this", (1, True, 0), (2, True, 0)]
    assert not any(thread.is_alive() for thread in workers.threads)
    assert engine.tasks.totals(on_strands=False).ended == 2
