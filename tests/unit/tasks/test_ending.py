"""The end of a scheduler's threads behind its tasks in C."""

from __future__ import annotations

import threading
import time

import pytest

from strand import Levels
from strand.binding.engine import Engine
from strand.binding.engine_words import RunByPython
from strand.errors import StoppedError
from strand.tasks.engine_pool import EnginePool
from strand.tasks.places import Places, TasksAlone
from strand.tasks.scheduler import Ending, _config


def test_without_tasks_in_c_the_threads_end_at_once_and_no_more_come() -> None:
    engine = Engine(_config(2, Levels()))
    engine.set_handlers([RunByPython()], [()])
    places = Places(engine, TasksAlone(lambda _: None), 2)
    ending = Ending(engine, places)
    places.start()
    assert not ending.wait(0)
    ending.end()
    assert ending.wait(0)
    ending.join()
    assert not any(thread.is_alive() for thread in places.threads)
    with pytest.raises(StoppedError, match="the workers have stopped"):
        ending.expect_native()


def test_where_some_may_come_the_end_waits_for_all_tasks_unless_they_are_given_up() -> None:
    release = threading.Event()
    for give_up in (False, True):
        engine = Engine(_config(1, Levels()))
        engine.set_handlers([RunByPython()], [()])
        places = Places(engine, TasksAlone(lambda _: release.wait(60) and None), 1)
        ending = Ending(engine, places)
        places.start()
        ending.expect_native()
        ending.expect_native()
        EnginePool(engine, Levels()).submit_many([1, 2], 3)
        ending.end()
        assert (ending.wait(0), ending.left(), engine.stopping) == (False, 2, False)
        if give_up:
            ending.give_up()
            while not engine.stopping:
                time.sleep(0.001)
        release.set()
        ending.join()
        assert ending.wait(0)
        assert not any(thread.is_alive() for thread in places.threads)
        release.clear()
