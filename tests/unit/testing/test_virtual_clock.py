"""A clock to move."""

from __future__ import annotations

import threading
from typing import Any

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


def run_of_two(workers: int, seed: int = 3) -> tuple[list[tuple[str, int, int]], int, strand.Statistics]:
    """Two symbols at 0 and 5 s, whose handlers take 2 s: when each call began and ended, and when all was over."""
    calls = []
    with testing.Clock(7) as clock:

        @strand.batch_handler(state=[])
        def slow(symbol: str, ticks: Any, row: Any) -> None:
            begun = clock.now_ns()
            clock.advance(2)
            calls.append((symbol, begun, clock.now_ns()))

        ticks = [(symbol, time * SECOND, 1, 1) for time in (0, 5) for symbol in "AB"]
        run = testing.seeded(
            testing.feed(ticks),
            slow,
            seed=seed,
            workers=workers,
            strands="per-symbol",
            speed=1,
            idle="park",
            policy=strand.Fair(),
        )
        return calls, clock.now_ns(), run.statistics


@pytest.mark.parametrize(("workers", "ends"), [(1, [2, 4, 7, 9]), (2, [2, 2, 7, 7])])
def test_a_handler_of_a_seeded_run_takes_time_while_the_other_workers_go_on(workers: int, ends: list[int]) -> None:
    calls, over, statistics = run_of_two(workers)
    assert sorted(round(end / SECOND, 3) for _, _, end in calls) == ends
    assert all(end - begun == 2 * SECOND for _, begun, end in calls)
    assert round(over / SECOND, 3) == max(ends)
    assert {round(group.on_cpu_ns / SECOND, 3) for group in statistics.fair.groups.values()} == {4}
    assert run_of_two(workers) == (calls, over, statistics), "the same seed is the same run"


def test_a_clock_goes_by_itself_again_after_a_seeded_run() -> None:
    with testing.Clock() as clock:
        testing.seeded(testing.feed(trades(3)), "count", seed=0, speed=1)
        at = clock.now_ns()
        assert at >= 2 * SECOND
        clock.advance(1)
        assert clock.now_ns() == at + SECOND
