"""Strands that are held back, and let go."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from engine_support import balanced, counting, ticks_for

from strand import Dispatcher, batch_handler
from strand.errors import BackpressureError


def test_pausing_holds_a_symbol_back_and_resuming_lets_it_go_on() -> None:
    with Dispatcher(["A", "B"], counting, workers=2, cores=None) as d:
        d.pause("A")
        d.pause("A")
        d.publish(ticks_for([0, 1] * 50))
        assert d.drain()
        assert (d.rows["A"]["ticks"], d.rows["B"]["ticks"]) == (0, 50)
        assert d.inspect("A").paused
        assert d.watermark() == 0
        d.resume("A")
        d.resume("A")
        assert d.drain()
        assert d.rows["A"]["ticks"] == 50
        assert not d.inspect("A").paused
        assert d.watermark() == 100
        balanced(d)


@pytest.mark.parametrize("handler", ["count", counting], ids=["native", "python"])
@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_pausing_and_resuming_from_several_threads_loses_nothing(handler: Any, on_full: str) -> None:
    keys = np.random.default_rng(2).integers(0, 6, 60_000)
    ticks = ticks_for(keys)
    with Dispatcher(6, handler, workers=3, cores=None, budget_ticks=50, strands="per-symbol", on_full=on_full) as d:
        done = threading.Event()

        def switch(seed: int) -> None:
            rng = np.random.default_rng(seed)
            while not done.is_set():
                symbol = int(rng.integers(0, 6))
                d.pause(symbol)
                d.resume(symbol)

        threads = [threading.Thread(target=switch, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for at in range(0, len(ticks), 500):
            d.publish(ticks[at : at + 500])
        done.set()
        for thread in threads:
            thread.join()
        for symbol in range(6):
            d.resume(symbol)
        d.drain()
        balanced(d)
    assert d.rows.array["ticks"].tolist() == np.bincount(keys, minlength=6).tolist()


def test_a_released_strand_that_is_paused_stays_paused() -> None:
    @batch_handler(state=[("ticks", "u8")])
    def fails_on_x(symbol: str, ticks: Any, row: Any) -> None:
        if ticks["action"][0] == b"X":
            raise ValueError
        row["ticks"] += len(ticks)

    with Dispatcher(1, fails_on_x, workers=1, cores=None, on_error="quarantine", budget_ticks=1) as d:
        ticks = ticks_for([0] * 4)
        ticks["action"][0] = b"X"
        d.publish(ticks)
        d.drain()
        d.pause(0)
        d.release(0)
        d.drain()
        assert d.rows[0]["ticks"] == 0
        d.resume(0)
        d.drain()
        assert d.rows[0]["ticks"] == 3


def test_a_paused_strand_holds_up_a_publisher_only_at_its_bound() -> None:
    with Dispatcher(["A", "B"], counting, workers=1, cores=None, capacity_ticks=16) as d:
        d.pause("A")
        assert d.publish(ticks_for([0] * 16 + [1] * 500)) == 516
        with pytest.raises(BackpressureError) as caught:
            d.publish(ticks_for([0, 1]), timeout_s=0)
        assert caught.value.rejected.tolist() == [0]
        d.drain()
        assert d.rows["B"]["ticks"] == 501
