"""The context of a handler in Python."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from engine_support import ticks_for

from strand import Context, Dispatcher, batch_handler

pytestmark = pytest.mark.python


def test_what_is_logged_names_handler_and_symbol(caplog: pytest.LogCaptureFixture) -> None:
    @batch_handler(state=[("n", "u8")], name="talks")
    def talks(symbol: str, ticks: Any, row: Any, ctx: Context) -> None:
        ctx.log.warning("%d ticks", len(ticks), extra={"more": 1})

    with caplog.at_level(logging.INFO, "strand.handlers"), Dispatcher(["A"], talks, workers=1, cores=None) as d:
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
