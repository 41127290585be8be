"""How a task comes in: what a plain one costs, and what is taken back."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from task_pools import Stepped

from strand.errors import StoppedError
from strand.tasks import TaskGroup

pytestmark = pytest.mark.python


def test_a_shutdown_between_the_look_and_the_list_takes_the_task_back() -> None:
    here = Stepped()
    submit = here.pool.submit

    def stops(tag: int, priority: int) -> int:
        here.tasks.shutdown(wait=False)
        return submit(tag, priority)

    here.pool.submit = stops  # type: ignore[method-assign]
    with pytest.raises(StoppedError, match="shut down"):
        here.tasks.submit(int)
    here.pool.run_all()
    assert here.tasks._core.table.alive == {}


def test_a_submit_that_fails_halfway_cancels_what_was_listed() -> None:
    here = Stepped(max_queue=100)
    submit, listed = here.pool.submit, []

    def fails(tag: int, priority: int) -> int:
        if len(listed) == 3:
            raise StoppedError("full")
        listed.append(tag)
        return submit(tag, priority)

    here.pool.submit = fails  # type: ignore[method-assign]
    ran: list[Any] = []
    group = TaskGroup()
    with contextlib.suppress(StoppedError):
        here.tasks.options(group=group, key=None, marks="io").submit_many(ran.append, range(5))
    here.pool.run_all()
    assert (ran, len(group), here.tasks._core.table.alive, here.tasks.pending_total()) == ([], 0, {}, 0)
