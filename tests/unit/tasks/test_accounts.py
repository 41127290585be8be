"""Under Fair each group of tasks has an account of its own, which is given back when the group has ended."""

from __future__ import annotations

import gc
import threading
import time

import pytest
from engine_support import wait_until

from strand import Fair, Scheduler, TaskGroup, checkpoint
from strand.errors import QueueFull

pytestmark = pytest.mark.python


def burn(ns: int) -> None:
    """Uses so much on-CPU time, with checkpoints."""
    end = time.thread_time_ns() + ns
    while time.thread_time_ns() < end:
        checkpoint()


@pytest.mark.parametrize("names", [(None, None), ("same", "same"), ("a", "b")])
def test_each_group_object_has_an_account_of_its_own(names: tuple[str | None, str | None]) -> None:
    with Scheduler(1, policy=Fair()) as scheduler:
        first, second = (TaskGroup(name) for name in names)
        for group in (first, second, first):
            scheduler.options(group=group).submit(int).result()
        accounts = scheduler._groups
        assert accounts is not None
        numbers = {accounts.number_of(group) for group in (None, first, second)}
        assert len(numbers) == 3


def test_groups_of_a_name_that_has_a_weight_share_one_account() -> None:
    with Scheduler(1, policy=Fair(weights={"tenant": 2.0})) as scheduler:
        accounts = scheduler._groups
        assert accounts is not None
        assert accounts.number_of(TaskGroup("tenant")) == accounts.number_of(TaskGroup("tenant"))


def test_a_small_group_without_a_name_does_not_wait_for_all_tasks_of_another_one() -> None:
    """The tasks of the big group are submitted first, and take a hundred slices. The small one comes in between."""
    order: list[str] = []

    def big() -> None:
        burn(10_000_000)
        order.append("big")

    gate = threading.Event()
    with Scheduler(1, policy=Fair(slice_ms=1)) as scheduler:
        scheduler.submit(gate.wait, 60)
        hungry, small = TaskGroup(), TaskGroup()
        for _ in range(10):
            scheduler.options(group=hungry).submit(big)
        scheduler.options(group=small).submit(order.append, "small")
        gate.set()
    assert order.index("small") <= 1


@pytest.mark.parametrize("with_block", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_a_group_per_request_has_no_limit_over_a_run(named: bool, with_block: bool) -> None:
    n = 6000
    with Scheduler(2, policy=Fair()) as scheduler:
        for i in range(n):
            group = TaskGroup(f"request {i}" if named else None)
            if with_block:
                with group:
                    scheduler.submit(int)
            else:
                scheduler.options(group=group).submit(int).result()
        del group
        gc.collect()
        scheduler.submit(int).result()
        found = scheduler.statistics()
        accounts = scheduler._groups
        assert accounts is not None
        assert accounts._next < 4200, "numbers are used again"
        assert len(accounts._names) < 4200
    assert found.fair is not None
    names = set(found.fair.groups)
    if named:
        assert len(names) <= 4200
        assert {"(tasks)", f"request {n - 1}"} <= names
    else:
        assert names == {"(tasks)", "(unnamed)"}
        assert found.wait_by_priority["(unnamed)"].count == n
    assert sum(waits.count for waits in found.wait_by_priority.values()) == found.wait.count == n + 1
    assert sum(group.share for group in found.fair.groups.values()) == pytest.approx(1)


def test_what_a_group_used_is_counted_by_its_name_when_it_has_ended() -> None:
    """Together with other groups of that name; nothing is lost and nothing counted twice."""
    with Scheduler(1, policy=Fair(slice_ms=1)) as scheduler:
        for _ in range(3):
            with TaskGroup("report"):
                scheduler.submit(burn, 5_000_000)
        scheduler.submit(int).result()
        fair = scheduler.statistics().fair
        again = scheduler.statistics().fair
    assert fair is not None
    assert again is not None
    assert fair.groups["report"].on_cpu_ns >= 15_000_000
    assert fair.groups["report"].on_cpu_ns == again.groups["report"].on_cpu_ns
    assert fair.groups["report"].slice_ends >= 3


def test_a_task_that_was_cancelled_gives_its_entry_back_at_once() -> None:
    """Under each policy with an order: the engine's table does not fill while a worker is busy."""
    gate = threading.Event()
    with Scheduler(1, policy=Fair()) as scheduler:
        scheduler.submit(gate.wait, 60)
        group = TaskGroup()
        for _ in range(3000):
            assert scheduler.options(group=group).submit(int).cancel()
        assert scheduler._engine.tasks.totals(on_strands=False).ended >= 3000
        gate.set()


def test_too_many_groups_at_a_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strand.binding.engine.Engine.max_groups", 3)
    with Scheduler(1, policy=Fair()) as scheduler:
        kept = [TaskGroup() for _ in range(2)]
        for group in kept:
            scheduler.options(group=group).submit(int).result()
        with pytest.raises(QueueFull, match="3 groups have tasks"):
            scheduler.options(group=TaskGroup()).submit(int)
        kept.pop()
        del group

        def accepted() -> bool:
            gc.collect()
            try:
                return bool(scheduler.options(group=TaskGroup()).submit(int).result() == 0)
            except QueueFull:
                return False

        wait_until(accepted)
