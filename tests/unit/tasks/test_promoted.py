"""A task that has risen by its wait shows its level, and is counted at its level, now and where it came from."""

from __future__ import annotations

import ctypes
import random
import threading
import time
from collections import Counter

import pytest
from engine_support import wait_until
from policies import DEFERRED, NOT_VISITED, VISITED, WAS_EMPTY, Trial, build, levels

from strand import Levels, Scheduler
from strand.policies.policy import LEVELS

pytestmark = pytest.mark.python

#: Each level rises within a moment, all the way.
AT_ONCE = Levels(timeouts=dict.fromkeys(LEVELS[1:], "1ms"))


def test_a_task_shows_the_level_to_which_it_has_risen_and_the_one_it_was_submitted_with() -> None:
    stop = threading.Event()
    with Scheduler(1, policy=Levels(timeouts=dict.fromkeys(LEVELS[1:], "20ms"))) as scheduler:
        ahead = scheduler.options(priority="immediate")

        def flood() -> None:
            time.sleep(0.001)
            if not stop.is_set():
                ahead.submit(flood)

        for _ in range(3):
            ahead.submit(flood)
        low = [scheduler.options(priority="low").submit(int) for _ in range(5)]
        seen: list[str] = []
        while not all(future.done() for future in low):
            counted, priority = scheduler.pending_count(), low[0].priority
            if low[0].state == "waiting" and priority not in seen:
                seen.append(priority)
            assert min(counted.values()) >= 0
        stop.set()
    assert seen == [level for level in reversed(LEVELS) if level in seen]
    assert len(seen) > 1
    found = scheduler.statistics()
    for future in low:
        assert future.submitted_priority == "low"
    began = Counter(future.priority for future in low)
    for level in LEVELS[1:]:
        assert found.wait_by_priority[level].count == began[level]
    assert found.wait_by_submitted["low"].count == 5
    assert sum(waits.count for waits in found.wait_by_submitted.values()) == found.wait.count


def test_a_level_that_is_given_to_a_task_that_has_risen_holds() -> None:
    gate = threading.Event()
    with Scheduler(1, policy=AT_ONCE) as scheduler:
        ahead = scheduler.options(priority="immediate")
        ahead.submit(gate.wait, 60)
        ahead.submit_many(time.sleep, [0.005] * 10)
        future = scheduler.options(priority="low").submit(int)
        gate.set()
        wait_until(lambda: future.priority != "low")
        future.reprioritise("low")
    assert future.submitted_priority == "low"
    assert scheduler.pending_count() == dict.fromkeys(LEVELS, 0)


def test_what_ends_before_it_begins_leaves_no_count_behind() -> None:
    """Cancelled, expired and given another level, where tasks have risen and where not; a head of a key too."""
    gate = threading.Event()
    with Scheduler(1, policy=AT_ONCE) as scheduler:
        scheduler.options(priority="immediate").submit(gate.wait, 60)
        scheduler.options(priority="immediate").submit_many(time.sleep, [0.01] * 3)
        generator = random.Random(7)
        futures = []
        for i in range(300):
            level = generator.choice(LEVELS[1:])
            options = scheduler.options(priority=level, key=generator.choice([None, i % 7]), deadline="20s")
            futures.append(options.submit(int))
        assert sum(scheduler.pending_count().values()) == scheduler.pending_total() >= 300
        gate.set()
        wait_until(lambda: scheduler.pending_count()["low"] == 0)
        for future in futures:
            what = generator.randrange(3)
            if what == 0:
                future.cancel()
            elif what == 1:
                future.set_deadline(0)
            else:
                future.reprioritise("low")
        scheduler.shutdown()
        assert scheduler.pending_count() == dict.fromkeys(LEVELS, 0)
        assert scheduler._core.states.pool.risen() == [0] * 5


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("policies"))


@pytest.mark.parametrize("seed", range(20))
def test_tasks_that_rise_are_counted_as_a_plain_count_says(built: ctypes.CDLL, seed: int) -> None:
    """In the policy alone: tasks are listed, rise, are taken, deferred, suspended, changed, and taken out."""
    generator = random.Random(seed)
    trial = Trial(built, levels((0, 10, 10, 10, 10)), 2, 1, tasks=8)
    own: dict[int, int] = {}  # of tasks that wait
    given: dict[int, int] = {}
    taken: list[int] = []
    now = 0
    for _ in range(400):
        now += generator.choice([0, 1, 5, 12])
        what = generator.choice(["list", "list", "take", "take", "leave", "change", "defer", "suspend"])
        idle = [task for task in range(1, 9) if task not in given and task not in taken]
        listed = [task for task in given if task not in taken]
        if what == "list" and idle:
            task, level, counted = idle[0], generator.randrange(5), generator.randrange(5)
            counted = max(counted, level)  # a head stands in the highest level of its order
            trial.renew(task, level | (counted + 1) << 8)
            trial.ready(generator.randrange(2), [task], WAS_EMPTY, now)
            own[task], given[task] = counted, level
        elif what == "take" and (task := trial.next(0, now, 2)) is not None:
            taken.append(task)
        elif what == "leave" and listed:
            task = generator.choice(listed)
            assert trial.leave(task)
            del given[task]
            own.pop(task, None)
        elif what == "change" and (waiting := [task for task in listed if task in own]):
            task, level = generator.choice(waiting), generator.randrange(5)
            own[task], given[task] = max(level, generator.randrange(5)), level
            trial.prioritise(task, level | (own[task] + 1) << 8, False, now)
        elif what == "defer" and taken:
            task = taken.pop()
            trial.ready(2, [task], DEFERRED if task in own else NOT_VISITED, now)
        elif what == "suspend" and taken:
            task = taken.pop()
            own.pop(task, None)  # it has begun
            trial.ready(0, [task], VISITED, now)
        expected = [0] * 5
        for task in given:
            rose = trial.rose(task)
            if task in own and task not in taken and rose is not None:
                expected[rose] += 1
                expected[own[task]] -= 1
        assert trial.risen() == expected
        if taken and generator.random() < 0.3:
            over = taken.pop()
            own.pop(over, None)
            del given[over]
    trial.close()
