"""A pace is kept by intended time, measured, and changed from anywhere while it runs; no test looks at a real clock."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bounded_child import in_bounded_child
from click.testing import CliRunner
from engine_support import wait_until
from hypothesis import given
from hypothesis import strategies as st
from interrupt_points import APART, at_each_point, at_random, free, interrupter
from merge_support import ArrayFeed, stamped

import strand
from strand.command.cli import cli
from strand.errors import ConfigurationError
from strand.feeds import TickBatch
from strand.feeds.write.npy import write_npy
from strand.replaying.pacing import Pacer
from strand.testing import Clock

MS = 1_000_000


class CountedClock(Clock):
    """It counts how often it was waited for."""

    waits = 0

    def wait_until(self, time_ns: int) -> None:
        self.waits += 1
        super().wait_until(time_ns)


def paced(pacer: Pacer, batches: Iterable[TickBatch]) -> Iterator[TickBatch]:
    """Slices of the batches, each when it is due, as a replay publishes them."""
    with pacer.serving():
        for batch in batches:
            pacer.begin(batch)
            at = 0
            while at < len(batch):
                to = pacer.release(at, len(batch))
                yield batch[at:to]
                at = to


def released(pacer: Pacer, clock: Clock, *batches: TickBatch, takes_ns: int = 0) -> list[tuple[int, list[int]]]:
    """The time of each slice from the start, and its receive times; publishing one takes ``takes_ns``."""
    found, start = [], clock.now_ns()
    for part in paced(pacer, batches):
        found.append((clock.now_ns() - start, part["ts_recv"].tolist()))
        clock.advance(takes_ns / 1e9)
    return found


@pytest.mark.parametrize(("speed", "at"), [(1, [0, 40, 100]), (10, [0, 4, 10]), (0.5, [0, 80, 200])])
def test_ticks_come_when_their_receive_times_over_the_speed_say(speed: float, at: list[int]) -> None:
    clock = Clock()
    ticks = stamped([1_000 * MS, 1_040 * MS, 1_100 * MS])
    found = released(Pacer(speed, clock=clock), clock, ticks[:2], ticks[2:])
    assert found == [(at[i] * MS, [int(ticks["ts_recv"][i])]) for i in range(3)]


def test_speed_0_lets_everything_through_at_once() -> None:
    clock = CountedClock()
    pacer = Pacer(0, clock=clock)
    assert released(pacer, clock, stamped([5, 900 * MS])) == [(0, [5, 900 * MS])]
    assert clock.waits == 0
    assert pacer.statistics().lateness.count == 0


def test_what_became_due_while_publishing_took_long_comes_together_and_the_schedule_stays() -> None:
    clock = Clock()
    pacer = Pacer(1, clock=clock)
    found = released(pacer, clock, stamped([0, 10 * MS, 20 * MS, 30 * MS, 80 * MS]), takes_ns=25 * MS)
    assert found == [(0, [0]), (25 * MS, [10 * MS, 20 * MS]), (50 * MS, [30 * MS]), (80 * MS, [80 * MS])]
    pacing = pacer.statistics()
    assert pacing.lateness.count == 5
    assert pacing.lateness.maximum_ns == 20 * MS
    assert pacing.late == 3
    assert pacing.waited_s == 5 / 1000


def test_a_time_that_runs_back_is_due_at_once() -> None:
    clock = Clock()
    found = released(Pacer(1, clock=clock), clock, stamped([5 * MS, 9 * MS, 2 * MS]), stamped([1 * MS, 10 * MS]))
    assert found == [(0, [5 * MS]), (4 * MS, [9 * MS, 2 * MS]), (4 * MS, [1 * MS]), (5 * MS, [10 * MS])]


@given(
    st.lists(st.lists(st.integers(0, 50 * MS), max_size=8), max_size=5),
    st.sampled_from([0.01, 0.3, 1, 7, 1e4]),
    st.sampled_from([0, 1, 3 * MS]),
)
def test_nothing_comes_early_lost_or_out_of_order(steps: list[list[int]], speed: float, takes_ns: int) -> None:
    times = np.cumsum([step for batch in steps for step in batch], dtype=np.uint64) + np.uint64(10**18)
    ticks = stamped(times.tolist())
    cuts = np.cumsum([len(batch) for batch in steps], dtype=int)[:-1]
    clock = Clock()
    pacer = Pacer(speed, clock=clock)
    found = released(pacer, clock, *(np.split(ticks, cuts) if steps else []), takes_ns=takes_ns)
    assert [time for _, part in found for time in part] == times.tolist()
    latenesses = [at - (time - int(times[0])) / speed for at, part in found for time in part]
    assert all(late > -0.01 for late in latenesses)
    assert pacer.ticks == len(times)
    pacing = pacer.statistics()
    assert pacing.lateness.count == len(times)
    assert abs(pacing.lateness.maximum_ns - max(latenesses, default=0)) <= 1
    assert pacing.late == sum(late > MS + 1 for late in latenesses)


def test_times_a_century_apart_and_undefined_ones_do_not_stall_it() -> None:
    clock = Clock()
    ticks = stamped([0, 2**62, 2**63 - 1])
    found = released(Pacer(1e12, clock=clock), clock, ticks)
    assert [time for _, part in found for time in part] == [0, 2**62, 2**63 - 1]


def test_a_pause_puts_off_what_follows_by_its_length() -> None:
    clock = Clock()
    pacer = Pacer(1, clock=clock)
    slices = paced(pacer, [stamped([0, 10 * MS, 20 * MS])])
    start = clock.now_ns()
    next(slices)
    clock.advance(4 / 1000)
    pacer.pause()
    assert pacer.paused
    clock.advance(1000 / 1000)
    pacer.resume()
    next(slices)
    assert clock.now_ns() - start == 1010 * MS
    next(slices)
    assert clock.now_ns() - start == 1020 * MS
    assert pacer.statistics().lateness.maximum_ns == 0


def test_a_step_lets_exactly_so_many_ticks_through() -> None:
    clock = Clock()
    pacer = Pacer(1, clock=clock, paused=True)
    slices = paced(pacer, [stamped([0, 10 * MS, 20 * MS]), stamped([30 * MS, 40 * MS])])
    pacer.step(ticks=1)
    assert next(slices)["ts_recv"].tolist() == [0]
    pacer.step(ticks=1)
    pacer.step(ticks=2)
    assert [next(slices)["ts_recv"].tolist() for _ in range(2)] == [[10 * MS, 20 * MS], [30 * MS]]
    assert (pacer.ticks, pacer.time_ns) == (4, 30 * MS)
    pacer.resume()
    start = clock.now_ns()
    assert [part["ts_recv"].tolist() for part in slices] == [[40 * MS]]
    assert pacer.statistics().lateness.count == 1
    assert clock.now_ns() == start


def test_a_step_until_a_time_lets_what_was_received_until_then_through() -> None:
    pacer = Pacer(1, clock=Clock(), paused=True)
    slices = paced(pacer, [stamped([0, 10, 20]), stamped([20, 21])])
    pacer.step(until=20)
    assert [next(slices)["ts_recv"].tolist() for _ in range(2)] == [[0, 10, 20], [20]]


def test_after_stepping_ahead_it_goes_on_from_there_at_its_pace() -> None:
    clock = Clock()
    pacer = Pacer(1, clock=clock)
    slices = paced(pacer, [stamped([0, 10 * MS, 20 * MS, 25 * MS])])
    next(slices)
    pacer.step(ticks=2)
    next(slices)
    pacer.resume()
    start = clock.now_ns()
    next(slices)
    assert clock.now_ns() - start == 5 * MS


def test_another_speed_holds_from_where_the_replay_stands() -> None:
    clock = Clock()
    pacer = Pacer(1, clock=clock)
    slices = paced(pacer, [stamped([0, 10 * MS, 30 * MS])])
    start = clock.now_ns()
    next(slices)
    next(slices)
    pacer.speed = 4
    next(slices)
    assert clock.now_ns() - start == 15 * MS
    assert pacer.speed == 4


def test_after_a_stretch_as_fast_as_it_goes_a_speed_holds_from_the_last_tick() -> None:
    clock = Clock()
    pacer = Pacer(1, clock=clock)
    slices = paced(pacer, [stamped([0]), stamped([500 * MS]), stamped([504 * MS])])
    next(slices)
    pacer.speed = 0
    next(slices)
    pacer.speed = 2
    start = clock.now_ns()
    next(slices)
    assert clock.now_ns() - start == 2 * MS


def test_the_time_reached_never_runs_back() -> None:
    pacer = Pacer(0)
    assert [pacer.time_ns for _ in paced(pacer, [stamped([5, 9]), stamped([2])])] == [9, 9]


def test_a_replay_is_paused_stepped_and_resumed_from_another_thread() -> None:
    feed = ArrayFeed(stamped(range(0, 1000, 10)), ["A"], batch_ticks=7)
    pacer = Pacer(1000, paused=True)
    seen: list[int] = []
    results = []
    thread = threading.Thread(
        target=lambda: results.append(strand.replay(feed, "count", workers=1, pacer=pacer, progress=seen.append))
    )
    thread.start()
    try:
        assert pacer.wait(60)
        assert pacer.ticks == 0
        pacer.step(ticks=33)
        assert pacer.wait(60)
        assert pacer.ticks == 33
        pacer.step(until=500)
        assert pacer.wait(60)
        assert pacer.ticks == 51
    finally:
        pacer.resume()
        thread.join(60)
    assert pacer.wait(0)
    assert results[0].ticks == seen[-1] == 100, "progress counts what is handled"
    assert results[0].pacing.lateness.count == 49
    assert int(results[0].rows["A"]["ticks"]) == 100


def test_a_pacer_serves_one_replay_at_a_time_and_then_the_next() -> None:
    pacer = Pacer(0)
    first = paced(pacer, [stamped([1]), stamped([2])])
    next(first)
    with pytest.raises(ConfigurationError, match="pacer"):
        next(paced(pacer, [stamped([1])]))
    first.close()  # type: ignore[attr-defined]
    assert [len(part) for part in paced(pacer, [stamped([1])])] == [1]
    assert pacer.ticks == 1


def test_a_step_is_of_ticks_or_until_a_time() -> None:
    pacer = Pacer(1)
    for given_ in ({}, {"ticks": 1, "until": 2}, {"ticks": -1}, {"until": 1.5}):
        with pytest.raises(ConfigurationError):
            pacer.step(**given_)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="late_after_ns"):
        Pacer(1, late_after_ns=-1)


def test_a_paced_replay_gives_the_rows_of_one_as_fast_as_it_goes_and_says_how_late_it_was() -> None:
    ticks = stamped(range(0, 3_000_000, 1000), 0, np.arange(3000) % 3)
    plain = strand.replay(ArrayFeed(ticks, ["A", "B", "C"], batch_ticks=64), "count", workers=1)
    paced = strand.replay(ArrayFeed(ticks, ["A", "B", "C"], batch_ticks=64), "count", workers=1, speed=1.5)
    assert plain.rows.array.tobytes() == paced.rows.array.tobytes()
    assert plain.ticks_by_symbol.tolist() == paced.ticks_by_symbol.tolist() == [1000] * 3
    assert plain.pacing is None
    assert paced.pacing is not None
    assert paced.pacing.speed == 1.5
    assert paced.pacing.lateness.count == 3000


def test_a_limit_ends_a_paced_replay_and_frees_its_pacer() -> None:
    pacer = Pacer(1, clock=Clock())
    for _ in range(2):
        feed = ArrayFeed(stamped([0, 10 * MS, 20 * MS]), ["A"])
        assert strand.replay(feed, "count", workers=1, limit=2, pacer=pacer).ticks == 2


def test_a_speed_and_a_pacer_together_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="speed"):
        strand.replay(ArrayFeed(stamped([1]), ["A"]), "count", speed=2, pacer=Pacer(1))


def test_an_interrupt_ends_a_paced_replay_after_what_was_published_is_handled() -> None:
    class Interrupting(CountedClock):
        def wait_until(self, time_ns: int) -> None:
            super().wait_until(time_ns)
            if self.waits == 3:
                os.kill(os.getpid(), signal.SIGINT)
                signal.pthread_sigmask(signal.SIG_BLOCK, [])  # a call behind which Python looks for signals

    feed = ArrayFeed(stamped([0, 10 * MS, 20 * MS, 30 * MS, 40 * MS]), ["A"])
    with pytest.raises(KeyboardInterrupt) as caught:
        strand.replay(feed, "count", workers=1, pacer=Pacer(1, clock=Interrupting()))
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert partial.ticks == 3
    assert int(partial.rows["A"]["ticks"]) == 3
    assert feed.closed == 1


TIMES = [0, 10 * MS, 20 * MS, 30 * MS, 40 * MS]
CHANGES: dict[str, Callable[[Pacer], object]] = {
    "pause": Pacer.pause,
    "resume": Pacer.resume,
    "step by ticks": lambda pacer: pacer.step(ticks=1),
    "step to a time": lambda pacer: pacer.step(until=25 * MS),
    "speed": lambda pacer: setattr(pacer, "speed", 3),
}


class Begun:
    """A replay that has begun, and is paused with a step of 2 ticks left, or is not."""

    def __init__(self, paused: bool) -> None:
        clock = Clock()
        self.pacer = Pacer(1, clock=clock)
        self.slices = paced(self.pacer, [stamped(TIMES[:3]), stamped(TIMES[3:])])
        next(self.slices)
        clock.advance(0.004)
        if paused:
            self.pacer.step(ticks=2)
            clock.advance(0.004)


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_an_interrupt_at_points_of_a_change_leaves_the_pace_of_before_or_behind_it(
    name: str, paused: bool, apart: str, one_in: Callable[[int], int]
) -> None:
    interrupter()

    def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
        case, changed = Begun(paused), Begun(paused)
        before = case.pacer._pace
        CHANGES[name](changed.pacer)

        def check() -> None:
            assert case.pacer._pace in (before, changed.pacer._pace)
            assert free(case.pacer._bell)
            case.pacer.resume()
            assert [time for part in case.slices for time in part["ts_recv"].tolist()] == TIMES[1:]

        return partial(CHANGES[name], case.pacer), check

    in_bounded_child(partial(at_each_point, prepare, apart, one_in(5)))


def replayed_and_interrupted(*, paused: bool) -> tuple[Callable[[], Any], Callable[[], Any]]:
    pacer = Pacer(1, clock=Clock(), paused=paused)
    found: list[Any] = []
    # An interrupt may come before the replay, which then has no end.
    late = threading.Timer(1, pacer.resume)
    late.daemon = True
    if paused:
        late.start()

    def replay() -> None:
        for part in paced(pacer, [stamped(TIMES[:3]), stamped(TIMES[3:])]):
            found.append(part)

    def check() -> None:
        late.cancel()
        if paused:
            late.join()
        times = [time for part in found for time in part["ts_recv"].tolist()]
        assert times == TIMES[: len(times)]
        wait_until(lambda: pacer._replay is None)
        assert free(pacer._bell)
        pacer.resume()
        found.clear()
        replay()
        assert [time for part in found for time in part["ts_recv"].tolist()] == TIMES
        assert pacer.ticks == pacer.statistics().lateness.count == len(TIMES)
        assert pacer.wait(0)

    return replay, check


@pytest.mark.parametrize("apart", APART)
def test_an_interrupt_at_points_of_a_paced_replay_frees_its_pacer(apart: str, one_in: Callable[[int], int]) -> None:
    interrupter()
    in_bounded_child(partial(at_each_point, partial(replayed_and_interrupted, paused=False), apart, one_in(20)))


def test_interrupts_of_a_paused_replay_free_its_pacer(one_in: Callable[[int], int]) -> None:
    prepare = partial(replayed_and_interrupted, paused=True)
    in_bounded_child(partial(at_random, prepare, interrupts=300 // one_in(6), longest_s=0.004))


def test_interrupts_of_a_wait_for_a_paused_replay_leave_it_whole(one_in: Callable[[int], int]) -> None:
    pacer = Pacer(1, clock=Clock())

    def check() -> None:
        assert free(pacer._bell)
        pacer.step(ticks=1)
        assert not pacer.wait(0)
        assert [len(part) for part in paced(pacer, [stamped([1])])] == [1]
        assert pacer.wait(0)
        pacer.pause()

    pacer.pause()
    prepare = lambda: (partial(pacer.wait, 0.01), check)  # noqa: E731
    in_bounded_child(partial(at_random, prepare, interrupts=300 // one_in(6), longest_s=0.004))


@pytest.mark.parametrize("change", ["speed", "slice"])
def test_what_a_signal_handler_does_in_the_middle_of_another_change_holds(change: str) -> None:
    class Stepping(Clock):
        steps = False

        def now_ns(self) -> int:
            if self.steps:
                self.steps = False
                pacer.step(ticks=2)
            return super().now_ns()

    clock = Stepping()
    pacer = Pacer(1, clock=clock)
    slices = paced(pacer, [stamped(TIMES)])
    next(slices)
    clock.steps = True
    if change == "speed":
        pacer.speed = 2
    assert next(slices)["ts_recv"].tolist() == TIMES[1:3]
    assert pacer.paused
    assert pacer.speed == (2 if change == "speed" else 1)


def test_the_command_takes_a_speed_and_reports_lateness(tmp_path: Path) -> None:
    path = tmp_path / "day.npz"
    write_npy(path, stamped(range(0, 2_000_000, 1000), 0, 0), ["A"])
    done = CliRunner().invoke(cli, ["replay", str(path), "--speed", "2", "--workers", "1", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["pacing"]
    assert found["speed"] == 2
    assert found["ticks"] == 2000
    assert {"p50_ns", "p99_ns", "max_ns"} <= set(found["lateness"])
    said = CliRunner().invoke(cli, ["replay", str(path), "--speed", "2", "--workers", "1"]).stdout
    assert "pace: speed 2" in " ".join(said.split())
    assert CliRunner().invoke(cli, ["replay", str(path), "--speed", "-1"]).exit_code == 2


def test_a_lateness_that_the_systems_clock_does_not_resolve_is_as_much_as_it_does() -> None:
    # Ticks of one moment are due at once: the first is on time.
    result = strand.replay(ArrayFeed(stamped([5] * 10), ["A"]), "count", workers=1, speed=1)
    assert result.pacing is not None
    lateness = result.pacing.lateness
    assert lateness.resolution_ns > 0
    assert min(lateness.percentiles.values()) >= lateness.resolution_ns
    assert lateness.maximum_ns >= max(lateness.percentiles.values())
    assert min(result.pacing.as_dict()["lateness"].values()) >= lateness.resolution_ns
