"""Chains that end in Python: the native part runs ahead, tick by tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_support import PAIR_ROW, balanced, ticks_for

from strand import Dispatcher, batch_handler, book, chain, native


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
