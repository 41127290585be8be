"""A failed handler called again in Python, with copies of its row and tick, and the line that failed."""

from __future__ import annotations

import inspect
import pickle
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for

import strand
from strand import Dispatcher, batch_handler, object_handler
from strand.caller.run import CallerRun
from strand.errors import HandlerError
from strand.ticks import KIND_TRADE

pytestmark = pytest.mark.python


def failure(handler: Any, make: Any = CallerRun, n: int = 5, **fields: Any) -> HandlerError:
    """Of a run over ticks of one symbol, A, with sizes 0, 1, 2, ..."""
    ticks = ticks_for([0] * n)
    ticks["size"], ticks["price"] = np.arange(n), 7
    for name, value in fields.items():
        ticks[name] = value
    with pytest.raises(HandlerError) as caught, make(["A"], handler) as d:
        d.publish(ticks)
        d.drain()
    return caught.value


def dispatcher(*arguments: Any) -> Dispatcher:
    return Dispatcher(*arguments, workers=1, cores=None)


def line_in(function: Any, text: str) -> tuple[str, int, str]:
    """The place of the line of a function that holds a text."""
    lines, first = inspect.getsourcelines(function)
    at = next(i for i, line in enumerate(lines) if text in line)
    return inspect.getsourcefile(function) or "", first + at, lines[at].strip()


def helper(size: int) -> float:
    return 1 / (3 - size)  # its line


@batch_handler(state=[("n", "i8")], outputs={"x": [("n", "i8")]})
def in_batches(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    for tick in ticks:
        ctx.emit((1,), at=0)
        helper(int(tick["size"]))
        row["n"] += 1


@object_handler(outputs={"x": [("n", "i8")]})
class InObjects:
    def on_start(self, ctx: Any) -> None:
        self.ctx, self.n = ctx, 0

    def on_tick(self, tick: Any) -> None:
        self.ctx.emit((1,))
        helper(tick.size)
        self.n += 1


def in_machine_code() -> Any:
    numba = pytest.importorskip("numba")
    helping = numba.njit(helper)

    @strand.handler(
        state=[("n", "i8"), ("last", [("size", "i8")]), ("all", "i8", (2,))],
        params=[("factor", "i8")],
        outputs={"x": [("n", "i8")]},
        cache=False,
    )
    def divides(row: Any, tick: Any, params: Any, emit: Any) -> None:
        row.last.size = tick.size
        row.all[1] = tick.sequence
        emit.x(n=row.n)
        row["n"] += params.factor * (1 // (3 - tick.size) * 0 + 1)  # its line
        helping(tick.size)

    return divides.with_params({"*": {"factor": 2}})


@pytest.mark.cells(1)
@pytest.mark.parametrize("make", [CallerRun, dispatcher])
@pytest.mark.parametrize("kind", ["batch", "object", "compiled"])
def test_the_line_of_the_handler_is_told_and_the_call_can_be_made_again(make: Any, kind: str) -> None:
    handler = {"batch": in_batches, "object": InObjects}[kind] if kind != "compiled" else in_machine_code()
    n = 1 if kind == "batch" else 5
    error = failure(handler, make, n, **({"size": 3} if kind == "batch" else {}))
    where = handler.on_tick if kind == "compiled" else helper
    assert error.line == line_in(where, "# its line")
    assert str(error.line) == f"{error.line.file}:{error.line.number}: {error.line.text}"
    known = make is not CallerRun
    assert error.number == ((1 if kind == "batch" else 4) if known else None)
    assert error.tick["size"] == 3
    before = error.row.tobytes()
    with pytest.raises(ZeroDivisionError):
        error.replay()
    assert error.row.tobytes() == before


@pytest.mark.parametrize("on_error", ["stop", "quarantine"])
def test_a_chain_s_rows_are_those_of_the_tick_that_python_s_part_failed_on(on_error: str) -> None:
    ticks = ticks_for([0] * 50)
    ticks["size"] = np.arange(50)
    with (
        suppress(HandlerError),
        Dispatcher(["A"], strand.chain("count", InObjects), workers=1, cores=None, on_error=on_error) as d,
    ):
        d.publish(ticks)
        with suppress(HandlerError):
            d.drain()
        error = d.failures[0]
        assert error.row["count"]["ticks"] == 4
        if on_error == "stop":
            assert d.rows["A"]["count"]["ticks"] == 4
        with pytest.raises(ZeroDivisionError):
            error.replay()


def test_an_object_s_call_writes_to_a_copy_of_the_row() -> None:
    @object_handler(state=[("n", "i8")])
    class Writes:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            self.ctx.row["n"] += 1
            helper(tick.size)

    loop: list[Any] = []
    error = failure(Writes, lambda *given: loop.append(CallerRun(*given)) or loop[0])
    with pytest.raises(ZeroDivisionError):
        error.replay()
    assert (loop[0].rows["A"]["n"], error.row["n"]) == (4, 4)


def test_a_compiled_part_before_python_s_is_told_by_its_own_reason() -> None:
    part = in_machine_code()
    error = failure(strand.chain(part, InObjects))
    assert error.reason == "it raised an exception, which machine code does not keep"
    assert error.line == line_in(part.on_tick, "# its line")
    assert str(error).endswith(f": ZeroDivisionError, at {error.line}")


@pytest.mark.parametrize("make", [CallerRun, dispatcher])
def test_the_text_of_a_compiled_failure_says_once_what_was_raised_and_where(make: Any) -> None:
    handler = in_machine_code()
    error = failure(handler, make)
    its_tick = " (its tick 4)" if make is dispatcher else ""
    assert str(error) == (
        f"handler 'divides' failed on A at sequence {error.sequence}{its_tick}: ZeroDivisionError, at {error.line}"
    )
    assert error.line == line_in(handler.on_tick, "# its line")


def test_the_text_of_a_failure_in_python_leaves_the_line_to_its_traceback() -> None:
    error = failure(InObjects, dispatcher)
    assert str(error).endswith(" (its tick 4): ZeroDivisionError: division by zero")
    assert error.described(with_line=True) == f"{error}, at {error.line}"


def test_the_error_goes_to_another_process_without_what_can_be_called() -> None:
    error = failure(InObjects, dispatcher)
    other = pickle.loads(pickle.dumps(error))
    assert str(other) == f"{error}, at {error.line}"  # it has no cause, whose traceback would show the line
    assert (other.number, other.line, other.row, other.tick) == (error.number, error.line, error.row, error.tick)


def test_what_failed_by_what_the_row_was_before_returns_the_row() -> None:
    pytest.importorskip("numba")

    @strand.handler(state=[("n", "i8")], cache=False)
    def fourth(row: Any, tick: Any) -> None:
        row.n += 1
        if row.n == 4:
            raise ValueError

    error = failure(fourth)
    assert error.line is None
    assert (error.row["n"], error.replay()["n"], error.row["n"]) == (4, 5, 4)


def test_trades_that_are_ticks_are_called_again() -> None:
    @batch_handler(on="trade", state=[("n", "i8")])
    def on_trades(symbol: str, trades: Any, row: Any) -> None:
        raise ValueError(int(trades["size"][0]))

    error = failure(on_trades, size=9, kind=KIND_TRADE, action=b"T")
    with pytest.raises(ValueError, match="9"):
        error.replay()


def test_a_record_that_is_larger_than_a_tick_is_not_kept_by_an_engine() -> None:
    @batch_handler(state=[("n", "i8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        raise ValueError

    wide = np.zeros(1, [("instrument_id", "<u4"), ("text", "S100")])
    with pytest.raises(HandlerError) as caught, Dispatcher(1, fails, workers=1, cores=None, dtype=wide.dtype) as d:
        d.publish(wide)
        d.drain()
    assert caught.value.tick is None
    assert caught.value.row is not None
