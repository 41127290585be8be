"""Handlers in Python on the calling thread: their timers between their ticks, interrupts, and that nothing holds the
run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for
from let_go import HANDLERS, kept_by

from strand import basket_handler, batch_handler, chain, object_handler
from strand.caller.run import CallerRun
from strand.errors import HandlerError

pytestmark = pytest.mark.python


@pytest.mark.parametrize("kind", ["object", "batch"])
def test_what_an_interrupt_comes_upon_after_others_in_a_chain_can_be_published_again(kind: str) -> None:
    interrupted = True

    class Adds:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: Any) -> None:
            if interrupted and tick.sequence == 2:
                raise KeyboardInterrupt
            self.ctx.row["n"] += 1

        def on_wake(self, time: int) -> None:
            pass

    @batch_handler(state=[("n", "i8")])
    def adds(symbol: str, ticks: Any, row: Any) -> None:
        if interrupted and 2 in ticks["sequence"]:
            raise KeyboardInterrupt
        row["n"] += len(ticks)

    last = adds if kind == "batch" else object_handler(state=[("n", "i8")], name="adds")(Adds)
    ticks = ticks_for([0] * 5)
    ticks["sequence"] = range(5)
    with CallerRun(1, chain("count", last)) as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.publish(ticks)
        done = loop.statistics().accepted
        assert done == (0 if kind == "batch" else 2)
        interrupted = False
        loop.publish(ticks[done:])
    assert (loop.rows[0]["adds"]["n"], loop.rows[0]["count"]["ticks"]) == (5, 5)


@pytest.mark.parametrize("n", [1, 5])
def test_what_an_interrupt_comes_upon_in_the_middle_of_a_batch_has_written_nothing(n: int) -> None:
    interrupted = True

    @batch_handler(state=[("n", "i8")])
    def adds(symbol: str, ticks: Any, row: Any) -> None:
        for tick in ticks:
            row["n"] += 1
            if interrupted and tick["sequence"] == n // 2:
                raise KeyboardInterrupt

    ticks = ticks_for([0] * n)
    ticks["sequence"] = range(n)
    with CallerRun(1, adds) as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.publish(ticks)
        assert (loop.statistics().accepted, loop.rows[0]["n"]) == (0, 0)
        interrupted = False
        loop.publish(ticks)
    assert loop.rows[0]["n"] == n


@pytest.mark.parametrize("before", [(), ("count",)])
def test_a_function_of_baskets_fails_on_the_tick_that_it_would_fail_on_alone(before: tuple[str, ...]) -> None:
    @basket_handler(
        baskets={"one": ["A", "B"], "two": ["B", "C"], "other": ["D"]}, basket_state=[("n", "i8")],
        state=[("n", "i8")], outputs={"seen": [("n", "i8")]}, kind="batch",
    )  # fmt: skip
    def adds(ticks: Any, rows: Any, basket: Any, members: Any, ctx: Any) -> None:
        for at, member in enumerate(members):
            basket["n"] += 1
            rows[member]["n"] += 1
            if ticks["sequence"][at] == 6:
                raise ValueError("six")
            ctx.emit((int(basket["n"]),), at=at)

    ticks = ticks_for([3, 0, 0, 1, 2, 3, 0, 2, 3, 0])
    ticks["sequence"] = range(10)
    found = []
    for batch in (10, 1):
        loop = CallerRun(["A", "B", "C", "D"], chain(*before, adds) if before else adds)
        with pytest.raises(HandlerError, match="on A at sequence 6: ValueError: six"), loop:
            for at in range(0, len(ticks), batch):
                loop.publish(ticks[at : at + batch])
        rows = loop.rows.array["adds"] if before else loop.rows.array
        together = np.array([0, 1, 2])  # the symbol beside them has gone on
        found.append((rows[together].tolist(), *(loop.baskets[name]["n"] for name in ("one", "two"))))
        assert loop.outputs["seen"].array()["number"].tolist() == [0, 1, 2, 3, 3, 4, 5]
    assert found[0] == found[1] == ([(3,), (2,), (1,)], 4, 2)


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_a_run_goes_with_the_last_reference_to_it(handler: Any) -> None:
    assert kept_by([CallerRun(2, handler)]) == []
