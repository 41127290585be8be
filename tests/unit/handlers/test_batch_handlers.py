"""Handlers in Python that are called with batches."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from engine_support import run_python, ticks_for
from market_ticks import market, run

from strand import TICK, batch_handler
from strand.errors import ConfigurationError


def test_a_batch_handler_gets_one_symbol_s_ticks_in_a_row_of_at_most_a_budget() -> None:
    sizes: list[int] = []

    @batch_handler(state=[("volume", "u8"), ("last", "i8")])
    def volume(symbol: str, ticks: Any, row: Any) -> None:
        assert ticks.dtype == TICK
        assert ticks.flags["C_CONTIGUOUS"]
        assert not ticks.flags.writeable
        assert {f"#{key}" for key in ticks["instrument_id"]} == {symbol}
        sizes.append(len(ticks))
        row["volume"] += ticks["size"].sum(dtype=np.uint64)
        row["last"] = ticks["price"][-1]

    ticks = market(5_000, 4)
    rows = run(ticks, 4, volume, budget_ticks=100)
    assert max(sizes) <= 100
    assert sum(sizes) == 5_000
    for key in range(4):
        mine = ticks[ticks["instrument_id"] == key]
        assert (rows[key]["volume"], rows[key]["last"]) == (mine["size"].sum(dtype=np.uint64), mine["price"][-1])


@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_ticks_that_a_handler_keeps_do_not_outlive_their_memory(on_full: str) -> None:
    """They are other ticks by then, but reading them must not end the process."""
    code = f"""
        import gc, numpy as np, strand
        kept = []

        @strand.batch_handler(state=[("n", "u8")])
        def keeps(symbol, ticks, row):
            kept.append(ticks)

        with strand.Dispatcher(3, keeps, workers=2, cores=None, on_full={on_full!r}, budget_ticks=100) as d:
            d.publish(strand.ticks.zeros(1000))
        del d
        gc.collect()
        print(sum(len(ticks) for ticks in kept), sum(int(ticks["price"].sum()) for ticks in kept))
    """
    result = run_python(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "1000 0\n", "")


@pytest.mark.parametrize("returned", [0, 1, np.arange(3), "done"], ids=str)
def test_what_a_batch_handler_without_timers_returns_is_not_asked_for(returned: Any) -> None:
    @batch_handler(state=[("n", "u8")])
    def plain(symbol: str, ticks: Any, row: Any) -> Any:
        row["n"] += len(ticks)
        return returned

    @batch_handler(state=[("n", "u8")])
    def with_context(symbol: str, ticks: Any, row: Any, ctx: Any) -> Any:
        row["n"] += len(ticks)
        return returned

    for like in (plain, with_context):
        assert run(ticks_for([0] * 10), 1, like)["n"].tolist() == [10]


def test_what_is_callable_may_be_a_batch_handler() -> None:
    class Adds:
        def __call__(self, symbol: str, ticks: Any, row: Any) -> None:
            row["n"] += len(ticks)

        def method(self, symbol: str, ticks: Any, row: Any) -> None:
            row["n"] += len(ticks)

    def scaled(by: int, symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += by * len(ticks)

    decorate = batch_handler(state=[("n", "i8")])
    for like, factor, name in (
        (decorate(Adds()), 1, "Adds"),
        (decorate(Adds().method), 1, "method"),
        (decorate(functools.partial(scaled, 3)), 3, "partial"),
        (batch_handler(state=[("n", "i8")], name="mine")(functools.partial(scaled, 2)), 2, "mine"),
    ):
        assert like.name == name
        assert run(ticks_for([0] * 10), 1, like)["n"].tolist() == [10 * factor]


@pytest.mark.parametrize(
    ("function", "others", "text"),
    [
        (lambda row: None, {}, r"its arguments are \(row\); write on_ticks\(symbol, ticks, row\)"),
        (lambda symbol, ticks, row, ctx, more: None, {}, r"write on_ticks\("),
        (lambda symbol, ticks, row, *, least: None, {}, r"write on_ticks\("),
        (lambda symbol, ticks, row: None, {"on_finish": lambda row: None}, r"write on_finish\(symbol, row\)"),
        (lambda s, t, r, ctx: None, {"on_wake": lambda time: None}, r"write on_wake\(symbol, time, row\)"),
        (lambda symbol, ticks, row: None, {"on_finish": 3}, "handler 'mine': 3 is not a function"),
        (3, {}, "handler 'mine': 3 is not a function"),
    ],
)
def test_a_batch_handler_with_other_arguments_is_refused_where_it_is_made(
    function: Any, others: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        batch_handler(state=[("n", "u8")], name="mine", **others)(function)


def test_a_batch_handler_that_would_not_run_when_called_is_refused() -> None:
    async def waits(symbol: str, ticks: Any, row: Any) -> None: ...

    def lazy(symbol: str, ticks: Any, row: Any) -> Any:
        yield

    class Waits:
        async def __call__(self, symbol: str, ticks: Any, row: Any) -> None: ...

    for function in (waits, lazy, Waits(), functools.partial(lazy), functools.partial(Waits())):
        with pytest.raises(ConfigurationError, match="is async or a generator, and would not run"):
            batch_handler(state=[("n", "u8")])(function)  # type: ignore[arg-type]


def test_a_batch_handler_may_have_arguments_that_need_not_be_given() -> None:
    def optional(symbol: str, ticks: Any, row: Any, least: int = 2) -> None:
        row["n"] += least * len(ticks)

    def starred(*arguments: Any) -> None:
        arguments[2]["n"] += 2 * len(arguments[1])

    for function in (optional, starred):
        assert run(ticks_for([0] * 10), 1, batch_handler(state=[("n", "u8")])(function))["n"].tolist() == [20]
