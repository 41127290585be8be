"""A task that raised is tried again, fails, or becomes a dead letter, by the kind of its error."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from task_pools import Stepped, raises

from strand.errors import ConfigurationError, TaskDropped, TaskExpired
from strand.tasks import RetryPolicy

pytestmark = pytest.mark.python


def test_a_transient_error_goes_to_retry_after_its_backoff_and_is_dead_at_last() -> None:
    here = Stepped()
    error = ArithmeticError("again")
    policy = RetryPolicy(max_retries=2, jitter=0)
    future = here.tasks.options(priority="low", retry=policy).submit(raises(error))
    here.pool.run_all()
    assert (future.state, future.priority, future.attempts) == ("retrying", "retry", 1)
    assert here.tasks.pending_count()["retry"] == 1
    here.advance(0.9)
    assert future.attempts == 1
    here.advance(0.1)
    assert future.attempts == 2
    here.advance(2)
    assert (future.state, future.attempts) == ("dead", 3)
    assert future.exception() is error
    (letter,) = here.tasks.dead_letters
    assert (letter.task_id, letter.error, letter.attempts) == (future.id, error, 3)


def test_a_system_error_goes_one_level_up_and_alerts_at_once() -> None:
    here = Stepped()
    alerts: list[Any] = []
    policy = RetryPolicy(max_retries=1, on_alert=lambda task, error: alerts.append((task.id, task.state, str(error))))
    future = here.tasks.options(priority="low", retry=policy).submit(raises(OSError("disk")))
    here.pool.run_all()
    assert alerts == [(future.id, "running", "disk")]
    assert (future.state, future.priority) == ("retrying", "normal")


def test_an_alert_without_a_function_is_logged_and_one_that_raises_too(caplog: pytest.LogCaptureFixture) -> None:
    here = Stepped()
    with caplog.at_level(logging.ERROR, "strand.tasks"):
        here.tasks.options(retry=RetryPolicy()).submit(raises(OSError("disk")))
        here.tasks.options(retry=RetryPolicy(on_alert=lambda *_: 1 / 0)).submit(raises(OSError("full")))
        here.pool.run_all()
    assert "OSError('disk')" in caplog.text
    assert "on_alert failed" in caplog.text


@pytest.mark.parametrize("error", [KeyError("business"), SystemExit(1), KeyboardInterrupt()])
def test_a_business_error_and_an_exit_are_not_tried_again(error: BaseException) -> None:
    here = Stepped()
    future = here.tasks.options(retry=RetryPolicy(business=LookupError)).submit(raises(error))
    here.pool.run_all()
    assert (future.state, future.attempts) == ("failed", 1)
    assert future.exception() is error
    assert len(here.tasks.dead_letters) == 0


def test_a_classify_that_raises_fails_the_task() -> None:
    here = Stepped()
    policy = RetryPolicy(classify=lambda error: "sometimes")
    future = here.tasks.options(retry=policy).submit(raises(ArithmeticError("first")))
    here.pool.run_all()
    assert future.state == "failed"
    with pytest.raises(ConfigurationError, match="'sometimes'") as caught:
        future.result()
    assert isinstance(caught.value.__context__, ArithmeticError)


def test_a_retry_past_the_deadline_expires_at_once_with_its_last_error() -> None:
    here = Stepped()
    error = ArithmeticError("x")
    future = here.tasks.options(deadline="1s", retry=RetryPolicy(jitter=0)).submit(raises(error))
    here.pool.run_all()
    assert future.state == "expired"
    with pytest.raises(TaskExpired) as caught:
        future.result()
    assert (caught.value.reason, caught.value.__cause__) == ("deadline", error)


def test_the_start_checks_come_before_each_retry() -> None:
    here = Stepped()
    answers = [False, True]
    future = here.tasks.options(retry=RetryPolicy(jitter=0), expire_if=lambda: answers.pop(0)).submit(
        raises(ArithmeticError())
    )
    here.advance(2)
    assert (future.state, future.attempts, answers) == ("expired", 1, [])


def test_a_task_that_waits_for_its_retry_can_be_cancelled() -> None:
    here = Stepped()
    future = here.tasks.options(retry=RetryPolicy()).submit(raises(ArithmeticError()))
    here.pool.run_all()
    assert future.cancel()
    here.advance(5)
    assert (future.state, future.attempts) == ("cancelled", 1)
    assert len(here.tasks._core.timers) == 0


def test_a_task_that_was_asked_to_end_is_not_tried_again() -> None:
    here = Stepped()

    def work() -> None:
        future.cancel(running=True)
        raise ArithmeticError

    future = here.tasks.options(retry=RetryPolicy()).submit(work)
    here.advance(5)
    assert (future.state, future.attempts) == ("failed", 1)


def test_one_seed_gives_the_same_backoffs() -> None:
    def dues(seed: int) -> list[int]:
        here = Stepped(seed=seed)
        futures = [here.tasks.options(retry=RetryPolicy()).submit(raises(ArithmeticError())) for _ in range(5)]
        here.pool.run_all()
        return sorted(future._timer.due_ns for future in futures)

    assert dues(1) == dues(1) != dues(2)


def test_a_business_error_is_logged_where_it_would_have_been_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    here = Stepped()
    with caplog.at_level(logging.WARNING, "strand.tasks"):
        future = here.tasks.options(retry=RetryPolicy()).submit(raises(KeyError("no such account")))
        once = here.tasks.options(retry=RetryPolicy(max_retries=0)).submit(raises(KeyError("none")))
        here.pool.run_all()
    assert (future.state, future.attempts, once.state) == ("failed", 1, "failed")
    assert [record.message for record in caplog.records] == [
        f"task {future.id} is not tried again, because it met a business error: KeyError('no such account')"
    ]


@pytest.mark.parametrize("how", ["deadline", "expire_if", "dropped"])
def test_a_task_that_ends_while_it_waits_for_its_retry_names_its_last_failure(how: str) -> None:
    here = Stepped()
    failure, answers = ConnectionError("no answer"), iter([False, how == "expire_if"])
    future = here.tasks.options(
        retry=RetryPolicy(base_delay="10s", jitter=0), expire_if=lambda: next(answers), deadline="1m"
    ).submit(raises(failure))
    here.pool.run_all()
    assert future.state == "retrying"
    if how == "deadline":
        assert future.set_deadline(0)
        here.tasks.fire()
    elif how == "dropped":
        assert here.tasks.drop(future.id, "made room")
    else:
        here.advance(10)
    ended = future.exception(0)
    assert type(ended) is (TaskDropped if how == "dropped" else TaskExpired)
    assert ended.__cause__ is failure
    assert future._failure is None
