"""What compiled handlers emit."""

from __future__ import annotations

from typing import Any

import pytest
from emitting import OUTPUTS, ROW, run
from engine_support import ticks_for

from strand import Dispatcher, handler
from strand.errors import ConfigurationError, HandlerError

pytestmark = pytest.mark.python


def test_a_compiled_handler_that_fails_has_not_emitted_for_the_tick_it_failed_on() -> None:
    @handler(state=ROW, outputs={"x": [("n", "<u8")]}, cache=False)
    def fails(row: Any, tick: Any, emit: Any) -> None:
        row.ticks += 1
        emit.x(row.ticks)
        if tick.size == 3:
            raise ValueError

    d = Dispatcher(1, fails, workers=1, cores=None)
    with pytest.raises(HandlerError), d:
        d.publish(ticks_for([0] * 9))
        d.drain()
    assert d.outputs["x"].array()["n"].tolist() == [1, 2, 3]


def test_a_compiled_handler_takes_params_and_emit_in_either_order() -> None:
    rows = [("n", "<u8")]

    @handler(state=ROW, params=[("factor", "<u8")], outputs={"x": rows}, cache=False)
    def first(row: Any, tick: Any, params: Any, emit: Any) -> None:
        emit.x(tick.size * params.factor)

    @handler(state=ROW, params=[("factor", "<u8")], outputs={"x": rows}, cache=False)
    def last(row: Any, tick: Any, emit: Any, params: Any) -> None:
        emit.x(tick.size * params.factor)

    for one in (first, last):
        found = run(one.with_params({"*": {"factor": 3}}), ticks_for([0, 1, 2]), workers=1)
        assert [record[-1] for record in found["x"]] == [0, 3, 6]


def test_a_compiled_handler_that_emits_a_field_too_few_is_refused_with_its_name() -> None:
    @handler(state=ROW, outputs=OUTPUTS, cache=False)
    def short(row: Any, tick: Any, emit: Any) -> None:
        emit.seen(row.ticks)

    with pytest.raises(ConfigurationError, match="short"):
        Dispatcher(1, short)
