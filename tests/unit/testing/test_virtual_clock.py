"""A clock to move."""

from __future__ import annotations

import threading

import pytest
from seeded_cases import SECOND, trades

import strand
from strand import testing
from strand.errors import (
    BackpressureError,
    CallTimeoutError,
    ConfigurationError,
)
from strand.replaying.pacing import Pacer


def test_a_paced_replay_waits_for_nothing_but_the_clock() -> None:
    with testing.Clock() as clock:
        run = strand.replay(testing.feed(trades(60)), "count", workers=1, speed=0.5)
        assert clock.now_ns() == 2 * 59 * SECOND
        clock.advance(1.5)
        assert clock.now_ns() == 2 * 59 * SECOND + 1_500_000_000
    assert run.pacing is not None
    assert run.pacing.waited_s == 2 * 59
    assert run.pacing.lateness.maximum_ns == 0


def test_a_pacer_of_ones_own_takes_a_clock_without_a_block() -> None:
    clock = testing.Clock(7)
    strand.replay(testing.feed(trades(3)), "count", workers=1, pacer=Pacer(1, clock=clock))
    assert clock.now_ns() == 7 + 2 * SECOND


def test_timeouts_of_a_dispatcher_go_by_the_clock() -> None:
    go_on = threading.Event()
    feed = testing.feed(trades(10, "A"))
    with testing.Clock() as clock, strand.Dispatcher(["A"], "count", workers=1, capacity_ticks=2) as dispatcher:
        dispatcher.pause("A")
        with pytest.raises(BackpressureError):
            dispatcher.publish(feed.ticks, timeout_s=60)
        assert clock.now_ns() == 60 * SECOND
        with pytest.raises(CallTimeoutError):
            dispatcher.call("A", lambda view: go_on.wait(), timeout_s=30)
        assert clock.now_ns() == 90 * SECOND
        dispatcher.resume("A")
        assert dispatcher.drain(timeout_s=1e9)
        assert dispatcher.drain(timeout_s=0)


def test_one_clock_at_a_time_stands_in_and_it_only_goes_on() -> None:
    with testing.Clock() as clock:
        with pytest.raises(ConfigurationError, match="another one"):
            testing.Clock().__enter__()
        clock.wait_until(50)
        clock.wait_until(20)
        assert clock.now_ns() == 50
    for wrong in (-1, float("nan"), None, "1"):
        with pytest.raises(ConfigurationError):
            clock.advance(wrong)  # type: ignore[arg-type]
    with testing.Clock():
        pass
