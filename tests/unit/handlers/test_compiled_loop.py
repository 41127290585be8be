"""The loop that numba compiles around a handler."""

from __future__ import annotations

import numpy as np
import pytest
from engine_support import balanced, ticks_for

from strand import Dispatcher, handler
from strand.errors import HandlerError


def test_a_compiled_handler_reads_records_of_one_s_own_and_rows_of_another_size() -> None:
    dtype = np.dtype({"names": ["x", "key"], "formats": ["<f4", "<u4"], "offsets": [3, 9], "itemsize": 21})

    @handler(state=[("total", "f8"), ("wide", "u1", (100,))])
    def adds(row, record):  # type: ignore[no-untyped-def]
        row["total"] += record["x"]

    @handler(state=[("total", "f8")])
    def subtracts(row, record):  # type: ignore[no-untyped-def]
        row["total"] -= record["x"]

    records = np.zeros(1_000, dtype)
    records["x"], records["key"] = np.arange(1_000) % 7, np.arange(1_000) % 5
    with Dispatcher(5, handlers={"#1": adds, "*": subtracts}, workers=2, cores=None, dtype=dtype, key="key") as d:
        d.publish(records)
    for key in range(5):
        assert abs(d.rows[key]["total"]) == records["x"][records["key"] == key].sum()
        assert (d.rows[key]["total"] > 0) == (key == 1)


@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_a_compiled_handler_that_raises_names_the_very_tick(on_full: str) -> None:
    @handler(state=[("ticks", "u8")])
    def refuses(row, tick):  # type: ignore[no-untyped-def]
        if tick.action == b"X":
            raise ValueError("no X")
        row.ticks += 1

    ticks = ticks_for([0, 1] * 500)
    ticks["action"][601] = b"X"
    with Dispatcher(2, refuses, workers=1, cores=None, on_error="quarantine", on_full=on_full) as d:
        d.pause(1)
        d.publish(ticks)
        d.resume(1)
        d.drain()
        (error,) = d.failures
        assert (error.symbol, error.sequence, error.handler) == ("#1", 301, "refuses")
        assert "raised an exception" in str(error)
        assert d.rows.array["ticks"].tolist() == [500, 300]
        d.release(1)
        d.drain()
        balanced(d)
        assert d.rows[1]["ticks"] == (499 if on_full == "block" else 300)


def test_a_compiled_handler_that_divides_by_nought_fails_instead_of_going_on() -> None:
    @handler(state=[("x", "i8")])
    def divides(row, tick):  # type: ignore[no-untyped-def]
        row.x = 100 // tick.size

    ticks = ticks_for([0] * 3)
    ticks["size"] = [1, 0, 2]
    with pytest.raises(HandlerError, match="sequence 2"), Dispatcher(1, divides, workers=1, cores=None) as d:
        d.publish(ticks)
    assert d.rows[0]["x"] == 100
