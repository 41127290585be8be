"""Handlers in Python: in order, one at a time, and publishing themselves."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from engine_support import (
    balanced,
    in_threads,
    ticks_for,
    wait_until,
)
from order_recorder import Recorder

from strand import Dispatcher, batch_handler
from strand.dispatch.configuration import Pool
from strand.errors import BackpressureError, WouldDeadlockError


def test_a_python_handler_never_runs_twice_at_a_time_and_sees_every_publisher_in_order() -> None:
    symbols, publishers = 5, 8
    recorder = Recorder(symbols)
    with Dispatcher(symbols, recorder.handler(), workers=4, cores=None, budget_ticks=16) as d:

        def publish(number: int) -> None:
            keys = np.random.default_rng(number).integers(0, symbols, 2_000)
            ticks = ticks_for(keys, publisher=number)
            for at in range(0, len(ticks), 37):
                d.publish(ticks[at : at + 37])

        in_threads(publish, range(publishers))
        d.drain()
        balanced(d)
    assert recorder.overlaps == 0
    for key in range(symbols):
        for number in range(publishers):
            mine = [sequence for publisher, sequence in recorder.seen[key] if publisher == number]
            assert mine == list(range(1, len(mine) + 1))
        assert d.rows[key]["ticks"] == len(recorder.seen[key])
    assert sum(map(len, recorder.seen)) == publishers * 2_000


def test_a_python_handler_may_publish_to_its_own_symbol_and_to_others() -> None:
    symbols = 4
    seen: list[list[int]] = [[] for _ in range(symbols)]

    @batch_handler(state=[("ticks", "u8")])
    def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
        key = int(ticks["instrument_id"][0])
        for tick in ticks:
            row["ticks"] += 1
            seen[key].append(int(tick["sequence"]))
            if tick["order_id"]:
                both = np.array([tick, tick])
                both["order_id"] -= 1
                both["instrument_id"][1] = (key + 1) % symbols
                assert d.publish(both) == 2

    with Dispatcher(symbols, on_ticks, workers=3, cores=None) as d:
        first = ticks_for([0])
        first["order_id"] = 8
        d.publish(first)
        assert d.drain()
        balanced(d)
        assert d.statistics().handled == 2**9 - 1
    assert sum(map(len, seen)) == 2**9 - 1


def test_a_handler_publishes_even_while_every_publisher_waits_for_room() -> None:
    """Publishers in wait for this very handler must not keep it from going on."""
    release = threading.Event()

    @batch_handler(state=[("ticks", "u8")])
    def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
        row["ticks"] += len(ticks)
        if symbol == "A" and (ticks["order_id"] != 0).any():
            release.wait()
            more = ticks[:1].copy()
            more["instrument_id"], more["order_id"] = 1, 0
            assert d.publish(more) == 1

    with Dispatcher(["A", "B"], on_ticks, pool=Pool(workers=1, cores=None, max_publishers=2), capacity_ticks=4) as d:
        first = ticks_for([0])
        first["order_id"] = 1
        d.publish(first)
        wait_until(lambda: d.inspect("A").owner is not None)
        threads = [threading.Thread(target=d.publish, args=(ticks_for([0] * 20),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_until(lambda: d.inspect("A").pending == 4)
        assert not d.drain(timeout_s=0)
        release.set()
        for thread in threads:
            thread.join()
        d.drain()
        balanced(d)
        assert (d.rows["A"]["ticks"], d.rows["B"]["ticks"]) == (41, 1)


@pytest.mark.parametrize(("on_full", "error"), [("block", WouldDeadlockError), ("raise", BackpressureError)])
def test_a_python_handler_that_meets_a_full_strand_is_told_which_ticks_did_not_go_in(
    on_full: str, error: type[BackpressureError]
) -> None:
    caught: list[BackpressureError] = []

    @batch_handler(state=[("ticks", "u8")])
    def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
        row["ticks"] += len(ticks)
        if ticks["order_id"][0]:
            more = np.repeat(ticks[:1], 10)
            more["order_id"] = 0
            try:
                d.publish(more)
            except BackpressureError as e:
                caught.append(e)

    with Dispatcher(1, on_ticks, workers=1, cores=None, capacity_ticks=4, on_full=on_full) as d:
        tick = ticks_for([0])
        tick["order_id"] = 1
        d.publish(tick)
        d.drain()
        balanced(d)
    assert [type(e) for e in caught] == [error]
    assert caught[0].rejected.tolist() == list(range(3, 10))
    assert d.rows[0]["ticks"] == 4
