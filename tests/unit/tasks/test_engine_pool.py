"""The engine as a pool: handles, priorities, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strand import Fifo, Levels
from strand.binding.engine import Engine
from strand.binding.engine_words import RunByPython
from strand.errors import QueueFull, StoppedError
from strand.tasks.engine_pool import EnginePool
from strand.tasks.scheduler import _config


def pool_of(policy: Any = Levels(), n_tasks: int = 256) -> tuple[Engine, EnginePool]:  # noqa: B008 - frozen
    engine = Engine(replace(_config(1, policy), n_tasks=n_tasks))
    engine.set_handlers([RunByPython()], [()])
    return engine, EnginePool(engine, policy)


def taken(engine: Engine, n: int) -> list[int]:
    """The tags of the next n tasks, as a worker gets them."""
    from strand.ticks import TICK

    batches = engine.batches(0, TICK)
    take = engine.tasks.next_of(batches.hand)
    tags = [take() for _ in range(n)]
    assert take() == 0
    return tags


def test_tasks_come_by_priority_and_each_has_a_handle_of_its_own() -> None:
    engine, pool = pool_of()
    low, normal = pool.submit(11, 4), pool.submit(12, 3)
    many = pool.submit_many(range(13, 113), 4)
    marked = pool.submit_as(200, 3, 3, 1)
    assert len({low, normal, marked, *many}) == 103
    pool.prioritise(many[-1], 0, 0)
    assert taken(engine, 103) == [112, 12, 200, 11, *range(13, 112)]
    # Their handles name nothing any more.
    again = pool.submit(300, 4)
    pool.prioritise(low, 0, 0)
    pool.prioritise(again, 4, 4)
    assert taken(engine, 1) == [300]


def test_a_policy_without_priorities_takes_them_in_order() -> None:
    engine, pool = pool_of(Fifo())
    for tag, number in ((1, 0), (2, 5), (3, 0)):
        pool.submit(tag, number)
    pool.prioritise(1, 7, 7)
    assert taken(engine, 3) == [1, 2, 3]


def test_a_full_table_and_a_stop_are_refused() -> None:
    engine, pool = pool_of(n_tasks=8)
    tags = []
    with pytest.raises(QueueFull, match="no room for 1 more task"):
        for tag in range(1, 10_000):
            pool.submit(tag, 3)
            tags.append(tag)
    assert len(tags) >= 8
    with pytest.raises(QueueFull, match="no room for 3 more tasks"):
        pool.submit_many([1, 2, 3], 3)
    assert taken(engine, len(tags)) == tags
    assert pool.submit(9, 3)
    engine.stop()
    with pytest.raises(StoppedError):
        pool.submit(10, 3)
