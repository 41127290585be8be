"""A task group waits for its tasks, cancels the rest where one fails, and raises what failed."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest
from engine_support import wait_until
from task_pools import Stepped, Threaded

from strand import Fair, Scheduler, TaskGroup, checkpoint
from strand.errors import ConfigurationError, QueueFull, StoppedError, WouldDeadlockError
from strand.tasks import TaskFuture, current_task

pytestmark = pytest.mark.python


def test_leaving_waits_for_all_tasks_and_for_those_they_spawn() -> None:
    with Threaded() as tasks:
        ran: list[int] = []

        def work(depth: int) -> None:
            ran.append(depth)
            if depth:
                for _ in range(2):
                    tasks.submit(work, depth - 1)

        with TaskGroup() as group:
            first = tasks.submit(work, 5)
            assert first.group is group
        assert len(ran) == 63
        assert len(group) == 0
        assert first.done()
        assert tasks.submit(int).group is None


def test_where_one_fails_the_rest_is_cancelled_and_the_errors_come_out() -> None:
    with Threaded(1) as tasks:
        begun, rest = threading.Event(), []

        def fails() -> None:
            begun.wait(60)
            raise KeyError("no")

        with pytest.raises(ExceptionGroup) as caught, TaskGroup() as group:
            tasks.submit(fails)
            rest += [tasks.submit(int) for _ in range(20)]
            begun.set()
        assert [type(error) for error in caught.value.exceptions] == [KeyError]
        assert {future.state for future in rest} == {"cancelled"}
        with pytest.raises(StoppedError, match="takes no more tasks"):
            tasks.options(group=group).submit(int)


def test_tasks_that_run_are_asked_to_end() -> None:
    with Threaded(2) as tasks:
        running = threading.Event()

        def works() -> None:
            running.set()
            me = current_task()
            assert me is not None
            while not me.cancel_requested:
                threading.Event().wait(0.001)

        def fails() -> None:
            running.wait(60)
            raise SystemExit(2)

        with pytest.raises(BaseExceptionGroup) as caught, TaskGroup():
            works_on = tasks.submit(works)
            tasks.submit(fails)
        assert isinstance(caught.value.exceptions[0], SystemExit)
        assert works_on.state == "done"


def test_what_the_block_raises_is_one_of_the_errors_but_an_interrupt_comes_as_it_is() -> None:
    here = Stepped()
    with pytest.raises(ExceptionGroup) as caught, TaskGroup():
        future = here.tasks.submit(int)
        raise ValueError("in the block")
    assert [str(error) for error in caught.value.exceptions] == ["in the block"]
    assert future.cancelled()
    with pytest.raises(KeyboardInterrupt), TaskGroup():
        other = here.tasks.submit(int)
        raise KeyboardInterrupt
    assert other.cancelled()


def test_cancelled_and_expired_tasks_raise_nothing() -> None:
    here = Stepped()
    with TaskGroup() as group:
        future = here.tasks.submit(int)
        expiring = here.tasks.options(expire_if=lambda: True).submit(int)
        future.cancel()
        here.pool.run_all()
    assert (future.state, expiring.state, len(group)) == ("cancelled", "expired", 0)
    with TaskGroup() as another:
        future = here.tasks.submit(int)
        another.cancel()
    assert future.cancelled()


def test_dropped_and_dead_tasks_are_failures() -> None:
    here = Stepped()
    with pytest.raises(ExceptionGroup), TaskGroup():
        here.tasks.drop(here.tasks.submit(int).id, "made room")


def test_a_block_in_a_block_is_a_group_of_its_own() -> None:
    here = Stepped()
    with TaskGroup() as outer:
        with TaskGroup() as inner:
            future = here.tasks.submit(int)
            assert (len(outer), len(inner)) == (0, 1)
            here.pool.run_all()
        assert here.tasks.submit(int).group is outer
        here.pool.run_all()
    assert future.group is inner


def test_a_task_that_two_threads_move_at_once_is_in_one_group() -> None:
    here = Stepped()
    groups = [TaskGroup(), TaskGroup(), TaskGroup()]
    future = here.tasks.options(group=groups[0]).submit(int)
    moves = [threading.Thread(target=future.set_group, args=(group,)) for group in groups[1:]]
    with here.tasks._core.states.lock:
        for move in moves:
            move.start()
        time.sleep(0.2)  # both have looked for the group, and wait for the lock
    for move in moves:
        move.join()
    assert [len(group) for group in groups] == [int(group is future.group) for group in groups]
    here.pool.run_all()
    assert [len(group) for group in groups] == [0, 0, 0]


def test_a_group_that_is_cancelled_while_its_task_is_submitted_leaves_nothing_behind() -> None:
    here = Stepped()

    class Hasty(TaskGroup):
        def add(self, future: Any) -> None:
            super().add(future)
            self.cancel()

    for options in ({}, {"key": "k"}, {"delay": "1s"}):
        group = Hasty()
        future = here.tasks.options(group=group, **options).submit(int)
        assert future.cancelled()
        assert len(group) == 0
    here.advance(2)
    assert here.tasks._core.table.alive == {}
    assert len(here.tasks._core.states.keys) == 0


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("end", ["deadline", "shutdown"])
def test_a_task_that_ends_before_its_group_has_it_keeps_no_block_waiting(
    end: str, many: bool, interrupted: bool
) -> None:
    here = Stepped()

    class Late(TaskGroup):
        def add(self, future: Any) -> None:
            if end == "deadline":
                here.advance(2)
            else:
                future.cancel()  # as a shutdown with cancel_futures does to all tasks
            super().add(future)
            if interrupted:
                raise KeyboardInterrupt

    def submit(group: TaskGroup) -> list[TaskFuture]:
        executor = here.tasks.options(group=group, deadline="1s")
        return executor.submit_many(int, [1, 2]) if many else [executor.submit(int)]

    group = Late()
    if interrupted:
        with pytest.raises(KeyboardInterrupt):
            submit(group)
    else:
        assert {future.state for future in submit(group)} == {"expired" if end == "deadline" else "cancelled"}
    assert len(group) == 0
    with group:
        pass


def test_leaving_in_a_task_for_which_its_group_waits_is_refused() -> None:
    here = Stepped()

    def work() -> None:
        with TaskGroup():
            here.tasks.options(key="k").submit(int)

    future = here.tasks.options(key="k").submit(work)
    here.pool.run_all()
    assert isinstance(future.exception(), WouldDeadlockError)
    assert here.tasks._core.table.alive == {}


def test_leaving_waits_for_the_callbacks_of_the_last_task() -> None:
    with Threaded(1) as tasks:
        gate, called = threading.Event(), []

        def slow(future: Any) -> None:
            gate.wait(60)
            called.append(len(group))

        with TaskGroup() as group:
            future = tasks.submit(int)
            future.add_done_callback(slow)
            timer = threading.Timer(0.05, gate.set)
            timer.start()
        assert called == [1]
        timer.join(60)


def test_a_group_serves_one_block_and_has_a_name_or_none() -> None:
    group = TaskGroup("mail")
    assert "mail, 0 tasks" in repr(group)
    with group:
        pass
    with pytest.raises(StoppedError, match="another one"):
        group.__enter__()
    for name in ("", 5):
        with pytest.raises(ConfigurationError, match="is not the name of a group"):
            TaskGroup(name)  # type: ignore[arg-type]


def test_a_task_without_a_group_does_not_get_the_one_that_ran_before_in_its_worker() -> None:
    here = Stepped()
    spawned: list[TaskFuture] = []
    group = TaskGroup()
    here.tasks.options(group=group, priority="high").submit(lambda: spawned.append(here.tasks.submit(int)))
    here.tasks.options(priority="low").submit(lambda: spawned.append(here.tasks.submit(int)))
    here.pool.run_all()
    assert [future.group for future in spawned] == [group, None]


# ---- Under Fair each group of tasks has an account of its own, which is given back when the group has ended


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


@pytest.mark.cells(1)
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


def test_too_many_groups_at_a_time_are_refused() -> None:
    with Scheduler(1, policy=Fair()) as scheduler:
        scheduler._engine.schedule.max_groups = 3
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
