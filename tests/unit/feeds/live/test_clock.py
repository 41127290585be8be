"""Time that goes on by the clock where no tick comes: live, and in the recording."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path
from typing import Any

import itch_reference as ref
import pytest
from command_here import run_here
from engine_support import wait_until
from mold_lines import listen as listen_to_lines
from mold_lines import orders, sender
from mold_wire import end_of_session, packet
from websocket_server import listen, message, serving, stay, trade

import strand
from strand.errors import ConfigurationError, FormatError, StoppedError, WouldDeadlockError

pytestmark = pytest.mark.python

SECOND = 1_000_000_000


class Alarm:
    """A handler that sets a timer 50 ms behind each tick, and tells when one fires."""

    def __init__(self) -> None:
        self.fired = threading.Event()
        alarm = self

        @strand.object_handler(outputs={"woken": [("at", "i8")]})
        class Woken:
            def on_start(self, ctx: Any) -> None:
                self.ctx = ctx

            def on_tick(self, tick: Any) -> None:
                self.ctx.wake_at(self.ctx.time + 50_000_000)

            def on_wake(self, time_ns: int) -> None:
                self.ctx.emit((time_ns,))
                alarm.fired.set()

        self.handler = Woken


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_timer_fires_while_the_line_is_silent_and_its_recording_replays_to_the_same(
    workers: int, ending: str, tmp_path: Path
) -> None:
    alarm, was_first = Alarm(), []

    def handle(connection: Any, _: int) -> None:
        connection.send(message(trade(1)))
        was_first.append(alarm.fired.wait(60))
        connection.send(message(trade(2)))
        connection.send(message(trade(1, "ETH")))
        stay(connection)

    path = tmp_path / f"day.ws{ending}"
    with serving(handle) as url:
        feed = listen(url, clock_s=0.02, max_messages=3, max_seconds=120.0, record=path)
        live = strand.replay(feed, alarm.handler, workers=workers)
    assert was_first == [True]
    for again in (0, 2):
        replayed = strand.replay(path, Alarm().handler, workers=again)
        assert replayed.outputs["woken"].tobytes() == live.outputs["woken"].tobytes()
        assert replayed.fingerprint == live.fingerprint


def heard_for_a_while(clock_s: float | None, path: Path) -> Any:
    """The result of bars of a feed that is stopped when its one tick is 200 ms old."""

    def handle(connection: Any, _: int) -> None:
        connection.send(message(trade(1)))
        wait_until(lambda: feed.statistics()["messages"] == 1, 60)
        time.sleep(0.2)
        feed.stop()

    with serving(handle) as url:
        feed = listen(url, clock_s=clock_s, max_seconds=120.0, record=path)
        return strand.replay(feed, strand.bars("100ms"))


def test_bars_close_by_the_clock_and_stay_open_without_it(tmp_path: Path) -> None:
    flags, path = {}, tmp_path / "day.ws"
    for clock_s in (None, 0.02):
        live = heard_for_a_while(clock_s, path)
        flags[clock_s] = live.outputs["bars"]["flags"].tolist()
        replayed = strand.replay(path, strand.bars("100ms"))
        assert replayed.outputs["bars"].tobytes() == live.outputs["bars"].tobytes()
    assert flags == {None: [strand.handlers.BAR_PARTIAL], 0.02: [0]}
    assert json.loads(run_here("info", path, "--json").stdout)["ticks"] == 1


def test_an_entry_of_a_recording_that_says_what_none_does_is_damage(tmp_path: Path) -> None:
    from strand.feeds.formats.websocket import entry_line

    path = tmp_path / "day.ws"

    def handle(connection: Any, _: int) -> None:
        told: set[int | None] = set()
        wait_until(lambda: told.add(feed.passed_ns) or len(told) > 3, 60)
        feed.stop()

    with serving(handle) as url:
        feed = listen(url, clock_s=0.02, max_seconds=120.0, record=path)
        strand.replay(feed, "count", allow_empty=True)
    lines = path.read_bytes().splitlines(keepends=True)
    assert sum(b" clock " in line for line in lines) >= 2
    for word, rest, said in (
        (b"clock", b"x", "says more than the time"),
        (b"connected", b"[" * 500_000, "more than 400 arrays"),
    ):
        path.write_bytes(b"".join([*lines[:-1], entry_line(1, word, rest), lines[-1]]))
        with pytest.raises(FormatError, match=said):
            strand.replay(path, "count", allow_empty=True)


def test_the_clock_goes_on_while_the_server_is_away() -> None:
    alarm, connections = Alarm(), []

    def handle(connection: Any, before: int) -> None:
        connections.append(before)
        connection.send(message(trade(before + 1)))

    with serving(handle) as url:
        # The next attempt comes when the test is long over.
        feed = listen(url, clock_s=0.02, max_seconds=600.0, reconnect_min_s=600.0, reconnect_max_s=600.0)
        ends = threading.Thread(target=lambda: (alarm.fired.wait(60), feed.stop()))
        ends.start()
        strand.replay(feed, alarm.handler)
        ends.join()
    assert alarm.fired.is_set()
    assert connections == [0]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_timer_fires_while_the_lines_of_mold_are_silent_and_the_recording_replays_to_the_same(
    workers: int, tmp_path: Path
) -> None:
    alarm, was_first, path = Alarm(), [], tmp_path / "day.itch50"

    def send_all(send: Any) -> None:
        send(0, packet(1, [ref.directory(1, b"AAA"), ref.directory(2, b"BBB"), *orders(1, 3)]))
        was_first.append(alarm.fired.wait(60))
        alarm.fired.clear()
        send(0, packet(5, orders(3, 4)))
        alarm.fired.wait(60)
        send(0, end_of_session(6))

    with (
        contextlib.closing(listen_to_lines(clock_s=0.02, record=path)) as feed,
        sender(*feed.addresses) as send,
    ):
        thread = threading.Thread(target=send_all, args=(send,))
        thread.start()
        live = strand.replay(feed, alarm.handler, workers=workers)
        thread.join()
    assert was_first == [True]
    assert len(live.outputs["woken"]) == 2
    for again in (0, 2):
        replayed = strand.replay(path, Alarm().handler, workers=again)
        assert replayed.ticks == live.ticks
        assert replayed.outputs["woken"].tobytes() == live.outputs["woken"].tobytes()


def ticks_at(*seconds: int, key: int = 0) -> Any:
    ticks = strand.ticks.zeros(len(seconds))
    ticks["kind"], ticks["action"], ticks["size"], ticks["price"] = 2, b"T", 1, 10**9
    ticks["instrument_id"], ticks["ts_recv"] = key, [at * SECOND for at in seconds]
    return ticks


def test_a_dispatcher_is_told_that_time_has_passed_and_records_are_those_of_a_tick_of_another_symbol() -> None:
    made = []
    for told in (False, True):
        with strand.Dispatcher(["A", "B"], strand.bars("1s")) as dispatcher:
            dispatcher.publish(ticks_at(1, 2))
            if told:
                dispatcher.advance(4 * SECOND)
                dispatcher.advance(3 * SECOND)  # it is later already
            else:
                dispatcher.publish(ticks_at(4, key=1))
        bars = dispatcher.outputs["bars"].to_numpy()
        made.append(bars[bars["instrument_id"] == 0])
    assert made[0].tobytes() == made[1].tobytes()
    assert made[1]["end"].tolist() == [2 * SECOND, 3 * SECOND]


def test_timers_that_ticks_set_for_a_time_told_before_fire_though_nothing_else_comes() -> None:
    class Waits:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            told.wait()
            self.ctx.wake_at(2 * SECOND)

        def on_wake(self, time_ns: int) -> None:
            woken.append(time_ns)

    told, woken = threading.Event(), []
    with strand.Dispatcher(["A"], strand.object_handler(Waits), workers=1) as dispatcher:
        dispatcher.publish(ticks_at(1))
        dispatcher.advance(4 * SECOND)
        told.set()
        wait_until(lambda: bool(woken))
    assert woken == [2 * SECOND]


def test_a_seeded_dispatcher_is_told_too() -> None:
    for seed in range(20):
        with strand.testing.SeededDispatcher(["A", "B"], strand.bars("1s"), seed=seed) as dispatcher:
            dispatcher.publish(ticks_at(1, 2))
            dispatcher.advance(4 * SECOND)
        assert dispatcher.outputs["bars"].to_numpy()["end"].tolist() == [2 * SECOND, 3 * SECOND]


@pytest.mark.parametrize("time_ns", [-1, 1.5, True, "now", 2**63])
def test_a_time_that_is_none_is_refused(time_ns: Any) -> None:
    with (
        strand.Dispatcher(["A"], strand.bars("1s")) as dispatcher,
        pytest.raises(ConfigurationError, match="time_ns"),
    ):
        dispatcher.advance(time_ns)


def test_time_cannot_be_told_within_a_handler_nor_after_a_stop() -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def told(symbol: Any, ticks: Any, row: Any) -> None:
        dispatcher.advance(1)

    dispatcher = strand.Dispatcher(["A"], told)
    with pytest.raises(strand.errors.HandlerError) as failed, dispatcher:
        dispatcher.publish(ticks_at(1))
    assert isinstance(failed.value.__cause__, WouldDeadlockError)
    with pytest.raises(strand.errors.HandlerError, match="told"):
        dispatcher.advance(1)
    with strand.Dispatcher(["A"], "count") as ended:
        pass
    with pytest.raises(StoppedError):
        ended.advance(1)
