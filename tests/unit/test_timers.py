"""Timers come at the same place among a symbol's ticks, whoever handles what and whenever."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import PAIR_ROW, balanced, ticks_for
from hypothesis import given
from hypothesis import strategies as st

from strand import Dispatcher, Handler, batch_handler, native
from strand.errors import ConfigurationError, HandlerError

ALARM_ROW = np.dtype([("ticks", "<u8"), ("wakes", "<u8"), ("hash", "<u8"), ("finished", "<u8")])
ALARM_OUT = np.dtype([("hash", "<u8"), ("ticks", "<u4"), ("what", "<u4")])
MASK = 2**64 - 1


def alarm(library: Path, multiplier: int, *, yields: bool = False, pure: bool = True, emits: bool = True) -> Handler:
    return native(
        library,
        "on_alarm",
        state=ALARM_ROW,
        params=struct.pack("=QQ", multiplier, yields),
        pure=pure,
        outputs={"alarms": ALARM_OUT} if emits else None,
        wake="wake_alarm",
        finish="finish_alarm",
        yields=yields,
    )


class PlainAlarm:
    """The handler once more, one tick after the other."""

    def __init__(self, symbols: int, multiplier: int) -> None:
        self.multiplier = multiplier | 1
        self.rows = [[0, 0, 0, 0] for _ in range(symbols)]
        self.wishes = [0] * symbols
        self.out: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.now = 0

    def mix(self, key: int, value: int) -> None:
        row = self.rows[key]
        row[2] = ((row[2] ^ value) * self.multiplier) & MASK

    def ask(self, key: int, now: int) -> None:
        draw = self.rows[key][2] >> 33
        if draw % 3 == 0:
            wish = 0 if draw % 7 == 0 else now + draw % 50 - 3
            self.wishes[key] = max(wish, now + 1) if wish else 0

    def say(self, order: tuple[int, ...], key: int, number: int, time: int, what: int) -> None:
        row = self.rows[key]
        self.out.append(((*order, len(self.out)), (number, time, key, row[2], row[0], what)))

    def fire(self, key: int, until: int) -> None:
        while self.wishes[key] and self.wishes[key] <= until:
            time, self.wishes[key] = self.wishes[key], 0
            self.rows[key][1] += 1
            self.mix(key, time)
            self.ask(key, time)
            self.say((0, time, 0, key), key, MASK, time, 1)

    def run(self, ticks: npt.NDArray[Any]) -> None:
        for number, tick in enumerate(ticks):
            key, time = int(tick["instrument_id"]), int(tick["ts_recv"])
            self.now = max(self.now, time)
            self.fire(key, self.now)
            self.rows[key][0] += 1
            self.mix(key, int(tick["sequence"]) * 0x9E3779B97F4A7C15 & MASK)
            if self.rows[key][2] >> 62 == 0:
                self.say((0, self.now, 1, number), key, number, self.now, 0)
            self.ask(key, self.now)
        for key in range(len(self.rows)):
            self.fire(key, self.now)
        for key, row in enumerate(self.rows):
            if row[0]:
                row[3] += 1
                self.mix(key, key + 1)
                self.say((1, key), key, MASK, self.now, 2)

    @property
    def records(self) -> list[tuple[int, ...]]:
        return [record for _, record in sorted(self.out)]


def stream(draw: st.DrawFn, symbols: int) -> npt.NDArray[Any]:
    keys = draw(st.lists(st.integers(0, symbols - 1), max_size=400))
    ticks = ticks_for(keys)
    gaps = draw(st.lists(st.integers(-3, 30), min_size=len(keys), max_size=len(keys)))
    ticks["ts_recv"] = 1000 + np.maximum(np.cumsum(np.array(gaps, np.int64)), 0).astype(np.uint64)
    return ticks


def collected(d: Dispatcher) -> list[tuple[int, ...]]:
    array = d.outputs["alarms"].array()
    # The end's records have a number of their own, and what a timer has is not of interest.
    fields = ("ts", "instrument_id", "hash", "ticks", "what")
    return list(zip(*(array[f].tolist() for f in fields), strict=True)) if len(array) else []


@given(data=st.data())
def test_any_workers_grouping_and_batches_give_what_a_plain_loop_gives(c_handlers: Path, data: st.DataObject) -> None:
    symbols = data.draw(st.integers(1, 10))
    ticks = stream(data.draw, symbols)  # type: ignore[arg-type]
    multiplier = data.draw(st.integers(1, 2**64 - 1))
    handler = alarm(c_handlers, multiplier, yields=data.draw(st.booleans()), pure=data.draw(st.booleans()))
    plain = PlainAlarm(symbols, multiplier)
    plain.run(ticks)
    options = {
        "workers": data.draw(st.integers(1, 4)),
        "strands": data.draw(st.sampled_from(["auto", "per-symbol", 1, 3])),
        "capacity_ticks": data.draw(st.sampled_from([1, 7, 100, 65_536])),
        "quantum_ticks": data.draw(st.sampled_from([1, 3, 4096])),
        "batch_ticks": data.draw(st.sampled_from([1, 5, 64, 4096])),
        "idle": data.draw(st.sampled_from(["spin", "backoff", "park"])),
        "publisher_drains": data.draw(st.booleans()),
    }
    cuts = data.draw(st.integers(1, 60))
    with Dispatcher(symbols, handler, cores=None, **options) as d:
        for at in range(0, len(ticks), cuts):
            d.publish(ticks[at : at + cuts])
            if data.draw(st.integers(0, 20)) == 0:
                d.drain()
        d.drain()
        balanced(d)
    assert [list(row) for row in d.rows.array.tolist()] == plain.rows
    assert collected(d) == [record[1:] for record in plain.records]


def test_a_long_run_that_publishers_claim_gives_what_a_plain_loop_gives(c_handlers: Path) -> None:
    rng = np.random.default_rng(7)
    ticks = ticks_for(rng.integers(0, 60, 90_000))
    ticks["ts_recv"] = 1000 + np.cumsum(rng.integers(0, 9, len(ticks)))
    plain = PlainAlarm(60, 0x9E3779B97F4A7C15)
    plain.run(ticks)
    for yields in (False, True):
        with Dispatcher(60, alarm(c_handlers, 0x9E3779B97F4A7C15, yields=yields), workers=2, cores=None) as d:
            d.publish(ticks)
        assert d.statistics().claimed > 0
        assert [list(row) for row in d.rows.array.tolist()] == plain.rows
        assert collected(d) == [record[1:] for record in plain.records]


def test_a_quiet_symbol_s_timer_fires_when_the_others_pass_its_time(c_handlers: Path) -> None:
    """No drain, no further tick of its own."""
    handler = native(c_handlers, "on_bomb", state=PAIR_ROW, wake="wake_bomb")
    first, others = ticks_for([0]), ticks_for([1] * 5)
    first["ts_recv"], others["ts_recv"] = 100, [101, 102, 103, 104, 105]
    with Dispatcher(2, handler, workers=1, cores=None, on_error="quarantine", strands="per-symbol") as d:
        d.publish(first)
        d.drain()
        d.publish(others[:4])
        d.drain()
        assert d.failures == []
        d.publish(others[4:])
        d.call(1, lambda view: None)  # the strand's own, which asks for nothing of the first's
        d.drain()
        (failure,) = d.failures
        assert (failure.symbol, failure.code) == (d.symbols[0], 7)
        assert "its timer at 105 ns: boom at 105" in str(failure)


def test_a_timer_s_failure_counts_no_tick_and_its_strand_goes_on_after_a_release(c_handlers: Path) -> None:
    handler = native(c_handlers, "on_bomb", state=PAIR_ROW, wake="wake_bomb")
    ticks = ticks_for([0] * 10)
    ticks["ts_recv"] = np.arange(10)
    with Dispatcher(1, handler, workers=1, cores=None, on_error="quarantine") as d:
        d.publish(ticks)
        d.drain()
        assert d.look(0).quarantined
        assert (d.look(0).handled, d.look(0).failed) == (5, 0)
        d.release(0)
        d.drain()
        s = d.statistics()
        assert (s.accepted, s.handled, s.dropped["failed"]) == (10, 10, 0)
        assert d.rows[0]["ticks"] == 10
        balanced(d)
    with (
        pytest.raises(HandlerError, match="boom at 5"),
        Dispatcher(1, handler, workers=1, cores=None) as d,
    ):
        d.publish(ticks)


def test_the_end_comes_only_after_everything_was_handled(c_handlers: Path) -> None:
    ticks = ticks_for([0, 2])
    d = Dispatcher(3, alarm(c_handlers, 3), workers=1, cores=None).start()
    d.publish(ticks)
    d.drain()
    d.stop(drain=False)
    assert d.rows.array["finished"].tolist() == [0, 0, 0]
    with Dispatcher(3, alarm(c_handlers, 3), workers=1, cores=None) as d:
        d.publish(ticks)
        d.drain()
        assert d.rows.array["finished"].tolist() == [0, 0, 0]
    assert d.rows.array["finished"].tolist() == [1, 0, 1]
    with Dispatcher(3, alarm(c_handlers, 3), workers=1, cores=None) as d:
        d.pause(0)
        d.publish(ticks)
    assert d.rows.array["finished"].tolist() == [0, 0, 0]


def test_an_end_that_fails_is_raised_and_the_rows_are_there(c_handlers: Path) -> None:
    fails = native(c_handlers, "on_sum", state=PAIR_ROW, finish="finish_bomb")
    d = Dispatcher(2, fails, workers=1, cores=None).start()
    d.publish(ticks_for([1, 1]))
    with pytest.raises(HandlerError, match="no end of 1"):
        d.stop()
    assert d.rows[1]["ticks"] == 2
    with Dispatcher(2, fails, workers=1, cores=None, on_error="quarantine") as d:
        d.publish(ticks_for([0, 1]))
    assert [failure.code for failure in d.failures] == [9, 9]


def test_timers_need_records_with_a_time(c_handlers: Path) -> None:
    record = np.dtype([("instrument_id", "<u4"), ("sequence", "<u8")])
    raw = native(c_handlers, "on_raw", state=PAIR_ROW, wake="wake_bomb", params=bytes(8))
    with pytest.raises(ConfigurationError, match="ts_recv"):
        Dispatcher(1, raw, dtype=record, workers=1, cores=None)
    with pytest.raises(ConfigurationError, match="'nothing'"):
        native(c_handlers, "on_raw", state=PAIR_ROW, wake="nothing")


def test_a_handler_that_python_runs_is_refused_with_functions_for_timers(c_handlers: Path) -> None:
    @batch_handler(state=[("ticks", "<u8")])
    def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
        row["ticks"] += len(ticks)

    with pytest.raises(ConfigurationError, match="run by Python; timers and an end are for those in C"):
        Dispatcher(2, replace(on_ticks, wake=alarm(c_handlers, 1).wake))
