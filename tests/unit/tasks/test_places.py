"""The threads of a scheduler."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from strand import Levels
from strand.binding.engine import Engine
from strand.binding.engine_words import RunByPython
from strand.binding.gate import Code
from strand.binding.py_batches import PyBatches
from strand.errors import StoppedError
from strand.tasks.engine_pool import EnginePool
from strand.tasks.places import Place, Places, Seat, seat_here
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


def test_a_task_whose_spare_was_found_before_the_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def run(_: int) -> None:
        seat = seat_here()
        assert seat is not None
        assert seat.place is not None
        with pytest.raises(StoppedError) as error:
            workers.suspend(seat, seat.place)
        told.append(str(error.value))

    engine = Engine(_config(1, Levels()))
    engine.set_handlers([RunByPython()], [()])
    workers = Places(engine, TasksAlone(run), 2)
    find = workers._spare

    def find_and_end() -> Seat | None:
        spare = find()
        workers.end()
        return spare

    monkeypatch.setattr(workers, "_spare", find_and_end)
    workers.start()
    EnginePool(engine, Levels()).submit(1, 3)
    for thread in workers.threads:
        thread.join(60)
    assert told == ["the workers have stopped, and the task cannot go on"]
    assert len(workers.threads) == 2
    assert not any(thread.is_alive() for thread in workers.threads)


def test_a_thread_that_was_given_a_place_before_it_slept_sleeps_the_next_time() -> None:
    class Ends(TasksAlone):
        def serve(self, me: Seat, place: Place) -> int:
            del place
            me.place = None
            return int(Code.STOPPED)

    engine = Engine(_config(1, Levels()))
    places = Places(engine, Ends(lambda _: None), 1)
    seat = Seat(places, None)
    seat.give(places.places[0])
    thread = threading.Thread(target=places.live, args=(seat,))
    thread.start()
    thread.join(60)
    assert seat._wake.locked()


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
    monkeypatch.setattr(PyBatches, "suspend", lambda *_, away: False)
    workers.start()
    pool = EnginePool(engine, Levels())
    pool.submit_many([1, 2], 3)
    assert over.wait(60)
    counts = workers.counts()
    assert (counts.suspended, counts.blocked, counts.suspensions) == (0, 0, 0)
    workers.end()
    workers.join()
    assert ran == ["a task was ended that still ran: please report this", (1, True, 0), (2, True, 0)]
    assert not any(thread.is_alive() for thread in workers.threads)
    assert engine.tasks.totals(on_strands=False).ended == 2
