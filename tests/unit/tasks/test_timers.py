"""What is due later comes at its time and in order, from one heap."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

from strand.tasks.timers import Timer, Timers
from strand.testing import Clock

pytestmark = pytest.mark.python


def test_actions_come_by_their_time_and_then_in_the_order_they_were_added() -> None:
    clock = Clock()
    timers = Timers(clock)
    called: list[Any] = []
    for due, name in ((3, "c"), (1, "a"), (3, "d"), (2, "b")):
        timers.add(Timer(due * 10**9, lambda name=name: called.append(name)))  # type: ignore[misc]
    assert timers.next_due_ns() == 10**9
    assert timers.fire() == 0
    clock.advance(2)
    assert timers.fire() == 2
    clock.advance(2)
    timers.fire()
    assert called == ["a", "b", "c", "d"]
    assert (len(timers), timers.next_due_ns()) == (0, None)


def test_an_action_that_raises_is_logged_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    timers = Timers(Clock(5))
    called: list[int] = []
    timers.add(Timer(1, lambda: 1 / 0))  # type: ignore[arg-type, return-value]
    timers.add(Timer(2, lambda: called.append(1)))
    with caplog.at_level(logging.ERROR, "strand.tasks"):
        assert timers.fire() == 2
    assert called == [1]
    assert "a timer of tasks failed" in caplog.text


def test_one_thread_serves_the_systems_clock_and_ends() -> None:
    timers = Timers(None)
    done = threading.Event()
    called: list[int] = []
    now = time.monotonic_ns()
    with timers._bell:  # the thread looks at none of them before all are there
        timers.add(Timer(now + 3600 * 10**9, lambda: called.append(3)))
        timers.add(Timer(now + 20_000_000, lambda: (called.append(2), done.set())))  # type: ignore[arg-type, return-value]
        timers.add(Timer(now, lambda: called.append(1)))
    assert done.wait(60)
    assert called == [1, 2]
    [thread] = timers._threads
    timers.end()
    timers.join()
    assert not thread.is_alive()
    assert len(timers) == 0
    timers.add(Timer(0, lambda: called.append(4)))
    assert (len(timers), timers.fire(), called) == (0, 0, [1, 2])
