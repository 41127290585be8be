"""Turns of tasks that run in no thread of the workers."""

from __future__ import annotations

import threading

import pytest

from strand import Fair
from strand.binding.engine import Engine
from strand.binding.engine_words import RunByPython
from strand.tasks.engine_pool import EnginePool
from strand.tasks.places import EngineTurn, Places, TasksAlone, seat_here
from strand.tasks.scheduler import _config

pytestmark = pytest.mark.python


def test_a_held_entry_lasts_until_its_turn_is_over_and_its_worker_goes_on_meanwhile() -> None:
    turns: list[EngineTurn] = []
    names: list[str] = []
    ran, over = threading.Event(), threading.Event()

    def run(tag: int) -> None:
        names.append(threading.current_thread().name)
        if tag == 1:
            seat = seat_here()
            assert seat is not None
            turns.append(seat.hold())
        elif tag == 2:
            ran.set()
        else:
            over.set()

    engine = Engine(_config(1, Fair()))
    engine.set_handlers([RunByPython()], [()])
    places = Places(engine, TasksAlone(run), 1)
    places.start()
    pool = EnginePool(engine, Fair())
    pool.submit(1, 0)
    pool.submit(2, 0)
    assert ran.wait(60)
    assert engine.tasks.totals(on_strands=False).ended < 2
    pool._tasks.charge(turns[0].entry, 5_000_000)
    turns[0].over()
    pool.submit(3, 0)
    assert over.wait(60)
    places.end()
    places.join()
    totals = engine.tasks.totals(on_strands=False)
    assert (totals.submitted, totals.ended, totals.suspended) == (3, 3, 1)
    assert len(set(names)) == 1
    assert engine.group_counts(1).groups[0][0] >= 5_000_000


def test_a_turn_that_ends_behind_the_end_of_all_does_nothing() -> None:
    turns: list[EngineTurn] = []
    held = threading.Event()

    def run(_: int) -> None:
        seat = seat_here()
        assert seat is not None
        turns.append(seat.hold())
        held.set()

    engine = Engine(_config(1, Fair()))
    engine.set_handlers([RunByPython()], [()])
    places = Places(engine, TasksAlone(run), 1)
    places.start()
    EnginePool(engine, Fair()).submit(1, 0)
    assert held.wait(60)
    places.end()
    places.join()
    engine.tasks.stop()
    turns[0].over()
    assert engine.tasks.totals(on_strands=False).ended == 1
