"""Timers of handlers in Python."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alarms import asks, times
from engine_support import PAIR_ROW

from strand import Dispatcher, native
from strand.caller.run import CallerRun
from strand.errors import ConfigurationError, HandlerError


def test_timers_need_records_with_a_time(c_handlers: Path) -> None:
    record = np.dtype([("instrument_id", "<u4"), ("sequence", "<u8")])
    raw = native(c_handlers, "on_raw", state=PAIR_ROW, wake="wake_bomb", params=bytes(8))
    with pytest.raises(ConfigurationError, match="ts_recv"):
        Dispatcher(1, raw, dtype=record, workers=1, cores=None)
    with pytest.raises(ConfigurationError, match="'nothing'"):
        native(c_handlers, "on_raw", state=PAIR_ROW, wake="nothing")


WRONG = {
    "not a place": (lambda ctx, n: ctx.wake_at(5), "say which tick asks"),
    "a place outside": (lambda ctx, n: ctx.wake_at(5, at=n), "not a place in a batch of 9 ticks"),
    "a float": (lambda ctx, n: ctx.wake_at(5.0, at=0), "5.0 is not a time"),
    "a time before the epoch": (lambda ctx, n: ctx.wake_at(-1, at=0), "-1 is not a time"),
    "out of order": (lambda ctx, n: (ctx.wake_at(50, at=2), ctx.wake_at(50, at=1)), "tick 1 asks after tick 2"),
    "behind its timer": (lambda ctx, n: (ctx.wake_at(5, at=0), ctx.wake_at(6, at=4)), "handle the 4 before it"),
    "all ticks all the same": (lambda ctx, n: ctx.wake_at(5, at=0) and None, "comes before tick 4 of 9"),
    "more than there are before": (lambda ctx, n: ctx.wake_at(5, at=0) + 1, "returned 5 for 9 ticks, but only 4 come"),
    "fewer than have asked": (lambda ctx, n: ctx.wake_at(5, at=2) - 3, "which tick 2 asked for"),
    "none": (lambda ctx, n: 0, "returned 0 for 9 ticks"),
    "no number": (lambda ctx, n: "all", "return how many ticks it handled"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_batch_handler_is_told_what_it_asks_wrongly(what: str) -> None:
    ask, said = WRONG[what]
    for make in (partial(Dispatcher, workers=1, cores=None), CallerRun):
        with pytest.raises(HandlerError, match=said), make(1, asks(ask)) as d:
            d.publish(times([1, 2, 3, 4, 5, 6, 7, 8, 9]))
            d.drain()
        assert d.statistics().handled == 0


def test_at_the_end_no_timer_is_asked_for() -> None:
    class Late:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_wake(self, time: int) -> None:
            pass

        def on_finish(self) -> None:
            self.ctx.wake_at(10)

    with pytest.raises(HandlerError, match="the run has ended"), CallerRun(1, Late) as d:
        d.publish(times([1]))
