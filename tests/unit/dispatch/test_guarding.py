"""A guard in a running dispatcher, by readings that are made up: what waits, what goes on, and that nothing is lost."""

from __future__ import annotations

import gc
import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import ticks_for, wait_until

import strand
from strand import Dispatcher, Guard, Levels, testing
from strand.dispatch import guarding
from strand.dispatch.guard import Hold, Reading
from strand.threads import Inside
from strand.ticks import TICK

NAMES = ["now", "usual", "low", "disk", "cache"]
PRIORITIES = {"now": "immediate", "low": "low", "cache": "low"}
MARKS = {"disk": "io", "cache": "frees_memory"}
#: What rises by itself never does so in a test.
LATE = Levels(dict.fromkeys(("high", "retry", "normal", "low"), "1d"))
GUARD = Guard(every="1ms", max_hold="1h")


class Machine:
    """``reading``: what the guard measures, or an exception that it meets; ``looks``: how often it has looked."""

    def __init__(self) -> None:
        self.reading: Reading | Exception = Reading(0.0, 0.0, 0.0)
        self.looks = 0
        self.sources = {"cpu": "a test", "memory": "a test", "io": "a test"}
        self.lacks_io = False

    def read(self) -> Reading:
        self.looks += 1
        if isinstance(self.reading, Exception):
            raise self.reading
        return self.reading

    def look_on(self, n: int = 5) -> None:
        until = self.looks + n
        wait_until(lambda: self.looks >= until)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(guarding, "Meters", lambda guard: made)
    return made


def dispatcher(**options: Any) -> Dispatcher:
    given: dict[str, Any] = {"policy": LATE, "priorities": PRIORITIES, "guard": GUARD, "marks": MARKS, "workers": 2}
    return Dispatcher(NAMES, "vwap", cores=None, strands="per-symbol", **(given | options))


def ticks(n: int = 50) -> npt.NDArray[Any]:
    """So many of each symbol."""
    return ticks_for(np.arange(n * len(NAMES)) % len(NAMES))


def pending(d: Dispatcher) -> dict[str, int]:
    return {name: d.inspect(name).pending for name in NAMES if d.inspect(name).pending}


def holding(d: Dispatcher, *resources: str) -> Callable[[], bool]:
    return lambda: {name for name, decided in d.statistics().guard.items() if decided.holding} == {*resources}


def assert_as_the_plain_loop(d: Dispatcher, published: npt.NDArray[Any]) -> None:
    plain = strand.replay(testing.feed(published, NAMES), "vwap", workers=0)
    assert d.statistics().handled == len(published)
    assert d.rows.array.tobytes() == plain.rows.array.tobytes()


@pytest.mark.parametrize("idle", ["park", "backoff", "spin"])
def test_low_waits_for_the_cpu_and_goes_on_when_it_is_let_go(machine: Machine, idle: str) -> None:
    with dispatcher(idle=idle) as d:
        machine.reading = Reading(0.81, 0.5, 0.0)
        wait_until(holding(d, "cpu"))
        d.publish(ticks())
        wait_until(lambda: d.statistics().handled == 150)
        machine.reading = Reading(0.73, 0.5, 0.0)  # below the threshold, and not below its release
        machine.look_on()
        assert pending(d) == {"low": 50, "cache": 50}
        assert not d.drain(0.05), "what is held back is waited for"
        machine.reading = Reading(0.71, 0.5, 0.0)
        assert d.drain(30)
        wait_until(holding(d))
        decided = d.statistics().guard["cpu"]
        assert (decided.holding, decided.begun, decided.expired, decided.source) == (False, 1, 0, "a test")
        assert decided.held_ns > 0
        assert d.statistics().as_dict()["guard"]["memory"]["begun"] == 0
    d.verify()
    assert_as_the_plain_loop(d, ticks())


def test_memory_that_is_short_lets_high_levels_and_what_frees_it_go_on(machine: Machine) -> None:
    with dispatcher() as d:
        machine.reading = Reading(0.99, 0.76, 0.0)
        wait_until(holding(d, "cpu", "memory"))
        d.publish(ticks())
        wait_until(lambda: d.statistics().handled == 100)
        machine.look_on()
        assert pending(d) == {"usual": 50, "low": 50, "disk": 50}
        d.prioritise("usual", "high")
        wait_until(lambda: d.statistics().handled == 150)
        machine.reading = Reading(0.0, 0.0, 0.0)
        assert d.drain(30)
    assert_as_the_plain_loop(d, ticks())


def test_marked_strands_wait_for_io(machine: Machine) -> None:
    with dispatcher() as d:
        machine.reading = Reading(0.0, 0.0, io_queue=101)
        wait_until(holding(d, "io"))
        d.publish(ticks())
        wait_until(lambda: d.statistics().handled == 200)
        machine.look_on()
        assert pending(d) == {"disk": 50}
        machine.reading = Reading(0.0, 0.0, io_queue=3)
        assert d.drain(30)
    assert_as_the_plain_loop(d, ticks())


def test_what_is_held_back_goes_on_after_max_hold(machine: Machine) -> None:
    with dispatcher(guard=Guard(every="1ms", max_hold="20ms")) as d:
        machine.reading = Reading(1.0, 1.0, 1.0)
        wait_until(holding(d, "cpu", "memory", "io"))
        d.publish(ticks())
        assert d.drain(30), "although all of them stay short"
        wait_until(lambda: all(decided.expired >= 2 for decided in d.statistics().guard.values()))
    assert_as_the_plain_loop(d, ticks())


def test_what_is_held_back_rises_although_all_workers_sleep(machine: Machine) -> None:
    rising = Levels({"low": "50ms", "high": "50ms", "retry": "50ms", "normal": "50ms"})
    with dispatcher(policy=rising, idle="park", publisher_drains=False) as d:
        machine.reading = Reading(1.0, 0.0, 0.0)
        wait_until(holding(d, "cpu"))
        d.publish(ticks())
        wait_until(lambda: d.statistics().handled == 250)
        assert d.statistics().promoted["low"] >= 2
        assert holding(d, "cpu")()
    assert_as_the_plain_loop(d, ticks())


@pytest.mark.parametrize("ends", ["stop", "error"])
def test_when_the_guard_ends_nothing_is_held_back(
    machine: Machine, ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    with dispatcher() as d:
        machine.reading = Reading(1.0, 0.0, 0.0)
        wait_until(holding(d, "cpu"))
        d.publish(ticks())
        if ends == "stop":
            assert d.stop(), "everything was handled"
        else:
            machine.reading = OSError("it is gone")
            assert d.drain(30)
            wait_until(lambda: not guard_threads())
            assert "it is gone" in d.statistics().guard["cpu"].source
            assert "the guard has ended" in caplog.text
        assert holding(d)()
    assert_as_the_plain_loop(d, ticks())


def test_a_stop_without_draining_ends_the_guard_too(machine: Machine) -> None:
    with dispatcher() as d:
        machine.reading = Reading(1.0, 0.0, 0.0)
        wait_until(holding(d, "cpu"))
        d.publish(ticks())
        d.stop(drain=False)
        statistics = d.statistics()
    assert statistics.accepted == statistics.handled + statistics.dropped["abandoned"]
    assert not guard_threads()


def test_decisions_are_logged_and_nothing_goes_to_stdout(
    machine: Machine, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "strand.guard")
    machine.lacks_io, machine.sources["io"] = True, "not watched: there is nothing"
    with dispatcher() as d:
        machine.reading = Reading(1.0, 0.0, None)
        wait_until(holding(d, "cpu"))
        machine.look_on()
        machine.reading = Reading(0.4, 0.0, None)
        wait_until(holding(d))
        assert d.statistics().guard["io"].source == "not watched: there is nothing"
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "io: not watched: there is nothing"
    assert said[1] == "cpu: at 125 % of its threshold: strands of level low wait"
    assert said[2].startswith("cpu: at 50 % of its threshold: what was held back for")
    assert len(said) == 3
    assert capsys.readouterr().out == ""


def guard_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "strand-guard"]


def test_a_dispatcher_that_nobody_holds_takes_its_guard_with_it(machine: Machine) -> None:
    d = dispatcher(guard=Guard(every="1h", max_hold="1h"))
    d.start()
    assert guard_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del d
        gc.collect()
    wait_until(lambda: not guard_threads())


def test_a_saved_state_goes_on_without_what_was_held_back(machine: Machine, tmp_path: Any) -> None:
    with dispatcher(guard=Guard(every="1ms", max_hold="20ms")) as d:
        machine.reading = Reading(1.0, 0.0, 0.0)
        wait_until(holding(d, "cpu"))
        d.publish(ticks())
        d.save(tmp_path / "state")
    machine.reading = Reading(0.0, 0.0, 0.0)
    with dispatcher(load=tmp_path / "state") as d:
        assert holding(d)()
        d.publish(ticks())
        assert d.drain(30)
    plain = strand.replay(testing.feed(np.concatenate([ticks(), ticks()]), NAMES), "vwap", workers=0)
    assert d.rows.array.tobytes() == plain.rows.array.tobytes()


def test_symbols_of_different_marks_share_no_strand(machine: Machine) -> None:
    names = [f"S{i}" for i in range(300)]
    marks = dict.fromkeys(names[::10], "io")
    with Dispatcher(names, "count", policy=Levels(), guard=GUARD, marks=marks, strands=8, workers=1, cores=None) as d:
        d.publish(np.zeros(1, TICK))
        d.drain()
        strands = {marked: {d.strand_of(name) for name in names if (name in marks) == marked} for marked in (0, 1)}
    assert not strands[0] & strands[1]


def test_a_replay_has_a_guard(machine: Machine) -> None:
    machine.reading = Reading(1.0, 0.0, 0.0)
    options: dict[str, Any] = {"policy": LATE, "priorities": PRIORITIES, "marks": MARKS}
    guard = Guard(every="1ms", max_hold="20ms")
    result = strand.replay(testing.feed(ticks(), NAMES), "vwap", workers=1, cores=None, guard=guard, **options)
    assert result.ticks == 250
    assert set(result.statistics.guard) == {"cpu", "memory", "io"}


def test_a_hold_that_begins_as_statistics_are_read_has_not_lasted_for_less_than_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: Any = None
    made = guarding.Guarding(nothing, GUARD, allowed=(), inside=Inside())

    def a_hold_begins() -> int:
        made._holds = dict.fromkeys(made._holds, Hold(since_ns=1005, begun=1))
        return 1000

    monkeypatch.setattr(guarding.time, "monotonic_ns", a_hold_begins)
    held_ns = [decided.held_ns for decided in made.statistics().values()]
    monkeypatch.undo()
    assert held_ns == [0, 0, 0]
