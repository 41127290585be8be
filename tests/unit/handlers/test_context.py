"""The context of a handler in Python."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for

from strand import Context, Dispatcher, Tick, batch_handler
from strand.errors import HandlerError

pytestmark = pytest.mark.python


def test_a_batch_handler_that_takes_four_arguments_gets_its_context() -> None:
    seen: dict[str, set[int]] = {}

    @batch_handler(state=[("n", "u8")], name="mine")
    def takes(symbol: str, ticks: Any, row: Any, ctx: Context) -> None:
        seen.setdefault(symbol, set()).add(id(ctx))
        assert (ctx.symbol, ctx.key, ctx.handler) == (symbol, ticks["instrument_id"][0], "mine")
        assert ctx.time == ticks["ts_recv"].max()
        ctx.row["n"] += len(ticks)
        assert row["n"] == ctx.row["n"]
        assert repr(ctx) == f"<Context of mine for {symbol}>"

    with Dispatcher(["A", "B"], takes, workers=1, cores=None, budget_ticks=10) as d:
        d.publish(ticks_for([0, 1] * 50))
    assert d.rows.array["n"].tolist() == [50, 50]
    assert {symbol: len(ids) for symbol, ids in seen.items()} == {"A": 1, "B": 1}


def test_an_object_s_time_is_that_of_the_tick_in_hand() -> None:
    class Clock:
        def on_start(self, ctx: Context) -> None:
            self.ctx, self.times = ctx, [ctx.time]

        def on_tick(self, tick: Tick) -> None:
            self.times.append(self.ctx.time)

    ticks = ticks_for([0] * 4)
    ticks["ts_recv"] = [10, 30, 20, 40]
    with Dispatcher(1, Clock, workers=1, cores=None) as d:
        d.publish(ticks)
    assert d.objects["#0"].times == [0, 10, 30, 30, 40]


def test_records_without_a_time_say_so() -> None:
    asks = batch_handler(state=[("n", "u8")], name="asks")(lambda symbol, ticks, row, ctx: ctx.time)
    with (
        pytest.raises(HandlerError, match="'asks': its records have no field ts_recv"),
        Dispatcher(1, asks, workers=1, cores=None, dtype=np.dtype([("key", "<u4")]), key="key") as d,
    ):
        d.publish(np.zeros(1, [("key", "<u4")]))


def test_what_is_logged_names_handler_and_symbol(caplog: pytest.LogCaptureFixture) -> None:
    @batch_handler(state=[("n", "u8")], name="talks")
    def talks(symbol: str, ticks: Any, row: Any, ctx: Context) -> None:
        ctx.log.warning("%d ticks", len(ticks), extra={"more": 1})

    with caplog.at_level(logging.INFO), Dispatcher(["A"], talks, workers=1, cores=None) as d:
        d.publish(ticks_for([0]))
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("strand.handlers.talks", "A: 1 ticks")
    assert (record.symbol, record.more) == ("A", 1)  # type: ignore[attr-defined]


def test_names_that_are_learned_later_reach_the_context() -> None:
    seen: list[str] = []
    like = batch_handler(state=[("n", "u8")])(lambda symbol, ticks, row: seen.append(symbol))
    with Dispatcher(["", "B"], like, workers=1, cores=None) as d:
        d.publish(ticks_for([0]))
        d.drain()
        d.learn_symbols(["A"])
        d.publish(ticks_for([0]))
    assert seen == ["#0", "A"]
