"""Which task runs here, and whose wait a wait is."""

from __future__ import annotations

import threading

import pytest
from task_pools import Stepped, Threaded

from strand import Scheduler
from strand.errors import WouldDeadlockError
from strand.tasks import current_task
from strand.tasks.places import CURRENT_TASK, on_behalf_of, wait_as, waiter_here

pytestmark = pytest.mark.python


def test_what_runs_on_behalf_of_a_task_is_a_part_of_it_and_nothing_after_it() -> None:
    task = Stepped().tasks.submit(int)

    def part(error: BaseException) -> None:
        assert current_task() is CURRENT_TASK.get() is task
        raise error

    with pytest.raises(KeyError):
        on_behalf_of(task, part, KeyError())
    assert current_task() is None
    assert waiter_here() == (None, None)


def test_a_wait_of_nobodys_only_waits() -> None:
    task = Stepped().tasks.submit(int)
    assert wait_as(None, None, task, lambda: 3) == 3
    assert task.waits_for is None


def test_a_wait_in_a_thread_without_a_seat_is_noted_while_it_lasts() -> None:
    with Threaded(1) as tasks:
        me, target = tasks.options(delay="1h").submit(int), tasks.options(delay="1h").submit(int)

        def wait() -> None:
            assert me.waits_for is target
            with pytest.raises(WouldDeadlockError):
                wait_as(None, target, me, int)
            raise KeyError

        with pytest.raises(KeyError):
            wait_as(None, me, target, wait)
        assert me.waits_for is None
        tasks.shutdown(cancel_futures=True)


def test_a_thread_with_a_seat_gives_its_place_away_meanwhile() -> None:
    with Scheduler(1) as scheduler:
        over = threading.Event()

        def waits() -> bool:
            seat, me = waiter_here()
            return bool(wait_as(seat, me, scheduler.options(delay="1h").submit(int), lambda: over.wait(60)))

        waiting = scheduler.submit(waits)
        scheduler.submit(over.set)
        assert waiting.result(60)
        scheduler.shutdown(cancel_futures=True)
