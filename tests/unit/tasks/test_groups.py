"""A task group waits for its tasks, cancels the rest where one fails, and raises what failed."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from task_pools import Stepped, Threaded

from strand.errors import ConfigurationError, StoppedError, WouldDeadlockError
from strand.tasks import TaskFuture, TaskGroup, current_task

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


def test_a_task_moves_from_group_to_group_while_it_waits() -> None:
    here = Stepped()
    first, second = TaskGroup("one"), TaskGroup("two")
    future = here.tasks.options(group=first).submit(int)
    assert future.set_group(second)
    assert (len(first), len(second), future.group) == (0, 1, second)
    first.cancel()
    assert future.state == "waiting"
    with pytest.raises(StoppedError):
        future.set_group(first)
    assert future.set_group(None)
    here.pool.run_all()
    assert len(second) == 0


def test_a_task_that_two_threads_move_at_once_is_in_one_group() -> None:
    here = Stepped()
    groups = [TaskGroup(), TaskGroup(), TaskGroup()]
    future = here.tasks.options(group=groups[0]).submit(int)
    moves = [threading.Thread(target=future.set_group, args=(group,)) for group in groups[1:]]
    with here.tasks._core.waiting.lock:
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
    assert len(here.tasks._core.waiting.keys) == 0


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
