"""What is looked at before a task starts, and what its thread has to bear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from task_pools import Stepped, raises

from strand.errors import ConfigurationError, TaskExpired, WouldDeadlockError
from strand.tasks import RetryPolicy, current_task

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("answer", "state", "priority"),
    [
        (None, "done", "low"),
        (False, "done", "low"),
        (True, "expired", "low"),
        (np.True_, "expired", "low"),
        (np.False_, "done", "low"),
        ("high", "done", "high"),
        ("low", "done", "low"),
        ("hihg", "failed", "low"),
        (0, "failed", "low"),
    ],
)
def test_expire_if_drops_a_task_moves_it_or_lets_it_start(answer: Any, state: str, priority: str) -> None:
    here = Stepped()
    future = here.tasks.options(priority="low", key="k", expire_if=lambda: answer).submit(int)
    here.pool.run_all()
    assert (future.state, future.priority) == (state, priority)
    if state == "expired":
        with pytest.raises(TaskExpired) as caught:
            future.result()
        assert caught.value.reason == "expire_if"
    if state == "failed":
        assert isinstance(future.exception(), ConfigurationError)


def test_a_task_that_expire_if_moves_waits_anew_and_can_be_cancelled() -> None:
    here = Stepped()
    future = here.tasks.options(priority="high", expire_if=lambda: "low").submit(int)
    other = here.tasks.options(priority="normal").submit(future.cancel)
    here.pool.run_all()
    assert (other.result(), future.state, future.attempts) == (True, "cancelled", 0)


def test_what_is_asked_about_a_task_runs_as_a_part_of_it() -> None:
    """So a wait for itself is refused in ``expire_if``, in ``classify`` and in ``on_alert``."""
    here = Stepped()
    told: list[Any] = []

    def asks(*_: Any) -> str:
        assert current_task() is future
        for wait in (here.tasks.shutdown, future.result):
            with pytest.raises(WouldDeadlockError):
                wait()
        told.append(1)
        return "system"

    retry = RetryPolicy(max_retries=0, classify=asks, on_alert=asks)
    future = here.tasks.options(expire_if=lambda: asks() == "", retry=retry).submit(raises(ArithmeticError()))
    here.pool.run_all()
    assert (future.state, len(told), current_task()) == ("dead", 3, None)
