"""Periodic functions do not drift and do not pile up, and their skipped turns are counted."""

from __future__ import annotations

import logging

import pytest
from task_pools import Stepped, raises

from strand.errors import ConfigurationError, StoppedError

pytestmark = pytest.mark.python


def test_turns_come_at_fixed_times_whatever_a_run_takes() -> None:
    here = Stepped()
    times: list[int] = []

    def work() -> None:
        times.append(here.clock.now_ns() // 10**6)
        here.clock.advance(0.3)

    every = here.tasks.every("1s", work)
    here.advance(4.5)
    assert times == [1000, 2000, 3000, 4000]
    assert (every.turns, every.skipped, every.failed, every.next_due_ns) == (4, 0, 0, 5 * 10**9)


def test_turns_during_a_long_run_and_a_sleep_are_skipped_and_counted() -> None:
    here = Stepped()
    times: list[int] = []

    def work() -> None:
        times.append(here.clock.now_ns() // 10**9)
        if len(times) == 1:
            here.clock.advance(3.5)

    every = here.tasks.every("1s", work)
    here.advance(6.9)
    assert times == [1, 4, 5, 6]  # at 4.5 the turn of 4 comes late; those of 2 and 3 are gone
    assert (every.turns, every.skipped) == (4, 2)


def test_a_turn_that_comes_late_does_not_move_the_next_one() -> None:
    here = Stepped()
    every = here.tasks.every("1s", int)
    here.clock.advance(1.25)
    here.tasks.fire()
    assert (every.turns, every.next_due_ns) == (1, 2 * 10**9)


def test_a_turn_is_skipped_while_the_one_before_waits() -> None:
    here = Stepped()
    every = here.tasks.every("1s", int)
    for _ in range(3):
        here.clock.advance(1)
        here.tasks.fire()
    assert (every.turns, every.skipped, len(here.pool.listed)) == (1, 2, 1)


def test_a_delay_says_when_the_first_turn_comes() -> None:
    here = Stepped()
    times: list[int] = []
    here.tasks.options(delay="3s").every("1s", lambda: times.append(here.clock.now_ns() // 10**9))
    here.advance(5.5)
    assert times == [3, 4, 5]


def test_it_can_be_cancelled_with_the_turn_that_waits() -> None:
    here = Stepped()
    every = here.tasks.every("1s", int)
    here.clock.advance(1)
    here.tasks.fire()
    assert every.last is not None
    assert not every.cancelled()
    assert every.cancel()
    assert (every.last.state, every.cancelled(), every.next_due_ns) == ("cancelled", True, None)
    assert not every.cancel()
    here.advance(5)
    assert every.turns == 1
    assert "cancelled" in repr(every)


def test_an_error_of_a_turn_is_logged_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    here = Stepped()
    with caplog.at_level(logging.ERROR, "strand.tasks"):
        every = here.tasks.every("1s", raises(KeyError("turn")))
        here.advance(3)
    assert (every.turns, every.failed) == (3, 3)
    assert "KeyError('turn')" in caplog.text


def test_a_turn_that_is_refused_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    here = Stepped(max_queue=1)
    waits = here.tasks.submit(int)
    here.pool.listed.clear()  # no worker takes it
    with caplog.at_level(logging.WARNING, "strand.tasks"):
        every = here.tasks.every("1s", int)
        here.advance(2)
    assert (waits.state, every.turns, every.skipped) == ("waiting", 0, 2)
    assert "max_queue" in caplog.text


def test_shutdown_ends_it_and_what_cannot_work_is_refused() -> None:
    here = Stepped()
    every = here.tasks.every("1s", int)
    with pytest.raises(ConfigurationError, match="period"):
        here.tasks.every(0, int)
    with pytest.raises(ConfigurationError, match="no task is named"):
        here.tasks.every("1s", "nobody has this name")
    with pytest.raises(TypeError, match="is neither callable"):
        here.tasks.every("1s", 5)  # type: ignore[arg-type]
    here.tasks.shutdown()
    assert every.cancelled()
    with pytest.raises(StoppedError):
        here.tasks.every("1s", int)


def test_each_turn_of_a_level_that_is_held_is_held() -> None:
    here = Stepped(hold={"low": "2s"})
    times: dict[str, list[int]] = {"with": [], "without": []}
    for name, delay in (("with", "3s"), ("without", None)):
        low = here.tasks.options(priority="low", delay=delay)
        low.every("3s", lambda name=name: times[name].append(here.clock.now_ns() // 10**9))
    here.advance(9)
    assert times == {"with": [5, 8], "without": [5, 8]}
