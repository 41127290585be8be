"""Chains that end in Python: the native part runs ahead, tick by tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ahead_handlers import COMPILED_FAILS, PARTS, PYTHON_ASKS, SYMBOLS, compiled, run, streams, ticks_with
from engine_support import PAIR_ROW, balanced, ticks_for
from hypothesis import given, settings
from hypothesis import strategies as st

from strand import Dispatcher, batch_handler, book, chain, native, object_handler
from strand.caller.run import CallerRun
from strand.errors import HandlerError
from strand.handlers.sets import with_sets


def test_the_state_a_signal_sees_is_that_after_the_very_tick() -> None:
    ticks = ticks_for([0, 0, 0], kind=1)
    ticks["order_id"], ticks["price"], ticks["size"], ticks["side"] = [1, 2, 1], [10, 11, 10], [5, 6, 5], b"B"
    ticks["action"] = [b"A", b"A", b"C"]
    seen: list[tuple[int, int]] = []

    @batch_handler(state=[("n", "u8")])
    def looks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        seen.extend(ctx.after["book"][["bid_price", "bid_orders"]].tolist())

    with Dispatcher(1, chain(book(), looks), workers=1, cores=None) as d:
        d.publish(ticks)
    assert seen == [(10, 1), (11, 1), (11, 1)]
    assert d.books[0].order(2) is not None


@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
@pytest.mark.parametrize("bad", [0, 3, 9])
@pytest.mark.parametrize("alike", [False, True])
def test_after_a_python_failure_the_compiled_part_does_no_tick_twice(on_full: str, bad: int, alike: bool) -> None:
    """Rule 2 in a chain: after a release the Python part gets the ticks that it missed, and the compiled part,
    which had them, gets none twice. On a lossy strand those ticks are lost, also where the next ones look like them."""
    seen: list[int] = []

    class Picky:
        def on_tick(self, tick: Any) -> None:
            if tick.action == b"X":
                raise ValueError("no X")
            seen.append(tick.sequence)

    ticks = ticks_for([0] * 10)
    ticks["action"][bad] = b"X"
    with Dispatcher(1, chain("count", Picky), workers=1, cores=None, on_error="quarantine", on_full=on_full) as d:
        d.pause(0)
        d.publish(ticks)
        d.resume(0)
        d.drain()
        (error,) = d.failures
        assert (error.sequence, error.reason) == (bad + 1, "ValueError: no X")
        assert isinstance(error.__cause__, ValueError)
        d.release(0)
        d.drain()
        balanced(d)
        if on_full == "block":
            assert seen == [i + 1 for i in range(10) if i != bad]
            assert d.rows[0]["count"]["ticks"] == 10
        seen.clear()
        more = ticks[bad + 1 :] if alike else ticks_for([0] * 5)
        more["size"] += not alike
        d.publish(more)
        d.drain()
        assert seen == more["sequence"].tolist()
        assert d.rows[0]["count"]["ticks"] == 10 + len(more)


def test_a_compiled_part_that_fails_before_a_python_one_names_the_tick(c_handlers: Path) -> None:
    seen: list[int] = []
    look = batch_handler(state=[("n", "u8")], name="look")(lambda symbol, ticks, row: seen.extend(ticks["sequence"]))
    ticks = ticks_for([0] * 10)
    ticks["action"][6] = b"X"
    with Dispatcher(
        1, chain(native(c_handlers, "on_sum", state=PAIR_ROW), look), workers=1, cores=None, on_error="quarantine"
    ) as d:
        d.publish(ticks)
        d.drain()
        (error,) = d.failures
        assert error.sequence == 7
        assert "action X" in error.reason
        d.release(0)
        d.drain()
        balanced(d)
    assert seen == [1, 2, 3, 4, 5, 6, 8, 9, 10]
    assert d.rows[0]["on_sum"]["ticks"] == 9


@pytest.mark.cells(1)
@pytest.mark.python
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("asking", [(0, 1, 2, 3), (3,), (4,)])
def test_a_compiled_part_s_failure_behind_timers_of_the_python_one_comes_at_its_tick(
    part: str, asking: tuple[int, ...], workers: int
) -> None:
    pytest.importorskip("numba")
    flags = dict.fromkeys(asking, PYTHON_ASKS) | {5: COMPILED_FAILS}
    ran = run(part, [ticks_with(flags, 20)], timed=False, on_error="stop", workers=workers)
    ((sequence, reason, row),) = ran.failures["#0"]
    assert (sequence, reason) == (6, "it raised an exception, which machine code does not keep")
    assert row == ran.rows[0] == ((6, 0), (5, len(asking)))
    assert [(n, counted) for n, counted in ran.log["#0"] if n > 0] == [(n, n) for n in range(1, 6)]
    assert ran.outputs["before", 0] == [(1001 + 11 * n, n + 1) for n in range(5)]


@pytest.mark.cells(2)
@pytest.mark.python
@pytest.mark.parametrize("on_error", ["quarantine", "stop"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("timed", [False, True])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_failures_and_timers_of_both_parts_are_as_tick_by_tick(
    part: str, timed: bool, on_error: str, data: st.DataObject
) -> None:
    """A run that ends at a failure has one symbol: others may have come further, or less far, by then."""
    pytest.importorskip("numba")
    ticks = data.draw(streams(SYMBOLS if on_error == "quarantine" else 1))
    for workers in (1, 2) if on_error == "quarantine" else (0, 1):
        ran = run(part, [ticks], timed=timed, on_error=on_error, workers=workers)
        expected = run(
            part, [ticks[i : i + 1] for i in range(len(ticks))], timed=timed, on_error=on_error, workers=min(workers, 1)
        )
        assert ran.failures == expected.failures
        assert ran.rows == expected.rows
        assert ran.outputs == expected.outputs
        # A plain loop calls a batch function that fails once more, with one tick at a time.
        if workers or part == "objects":
            assert ran.log == expected.log


def test_the_row_of_a_c_part_is_at_the_timer_that_fails_and_its_own_failure_is_told_once(c_handlers: Path) -> None:
    seen: list[int] = []

    @object_handler(state=[("n", "u8")])
    class Asks:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            seen.append(tick.sequence)
            self.ctx.wake_at(self.ctx.time + 1)

        def on_wake(self, time: int) -> None:
            if time == 3:
                raise ValueError("no 3")

    ticks = ticks_for([0] * 10)
    ticks["action"][6] = b"X"
    whole = chain(native(c_handlers, "on_sum", state=PAIR_ROW), Asks)
    with Dispatcher(1, whole, workers=1, cores=None, on_error="quarantine") as d:
        d.publish(ticks)
        d.drain()
        assert [error.sequence for error in d.failures] == [None]
        assert d.rows[0]["on_sum"]["ticks"] == 3
        d.release(0)
        d.drain()
        assert [error.sequence for error in d.failures] == [None, 7]
        assert d.rows[0]["on_sum"]["ticks"] == 6
        d.release(0)
        d.drain()
        balanced(d)
        assert len(d.failures) == 2
        assert d.rows[0]["on_sum"]["ticks"] == 9
    assert seen == [1, 2, 3, 4, 5, 6, 8, 9, 10]


@pytest.mark.python
@pytest.mark.parametrize("workers", [0, 1])
def test_a_failure_before_sets_of_a_sweep_comes_behind_the_timers_of_each(workers: int) -> None:
    pytest.importorskip("numba")

    @object_handler(state=[("n", "i8")], params=[("gap", "i8")])
    class Gaps:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            self.ctx.row["n"] += 1
            self.ctx.wake_at(self.ctx.time + int(self.ctx.params["gap"]))

        def on_wake(self, time: int) -> None:
            """The timer alone matters."""

    many = chain(compiled(timed=False, use="sets"), with_sets(Gaps, [{"gap": 1}, {"gap": 25}, {"gap": 70}]))
    d: Any = Dispatcher(1, many, workers=1, cores=None) if workers else CallerRun(1, many)
    with pytest.raises(HandlerError) as caught, d:
        d.publish(ticks_with({5: COMPILED_FAILS}, 20))
        d.drain()
    assert caught.value.sequence == 6
    assert d.rows[0]["before"]["n"] == 6
    assert d.rows[0]["Gaps"]["sets"]["n"].tolist() == [5, 5, 5]
