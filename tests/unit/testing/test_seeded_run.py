"""Runs under many seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from seeded_cases import TIGHT, own_row_alone, timed, trades

import strand
from strand import testing
from strand.errors import (
    DifferenceError,
    HandlerError,
)


def shares_the_last_price() -> strand.Handler:
    """Wrong: what a symbol's row becomes depends on which other symbol was handled before."""
    last = [0]

    @strand.batch_handler(state=[("moves", "i8")])
    def shares(symbol: str, ticks: Any, row: Any) -> None:
        for price in ticks["price"].tolist():
            row["moves"] += price - last[0]
            last[0] = price

    return shares


KINDS: dict[str, Callable[[], Any]] = {
    "built-in": lambda: "count",
    "outputs": lambda: strand.bars("10s"),
    "chain": lambda: strand.chain(strand.vwap(), own_row_alone),
    "chain with outputs": lambda: strand.chain(strand.bars("10s"), own_row_alone),
    "batches": lambda: own_row_alone,
    "objects with timers": timed,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strands", ["per-symbol", 2])
def test_handlers_of_all_kinds_come_to_the_same_under_every_seed(kind: str, strands: Any) -> None:
    feed = testing.feed(trades(), batches=[1, 5, 30])
    testing.check_seeds(feed, KINDS[kind](), seeds=range(15), **TIGHT | {"strands": strands})


def test_a_numba_handler_runs_under_a_seed() -> None:
    pytest.importorskip("numba")

    @strand.handler(on="trade", state=[("volume", "i8")])
    def volume(row: Any, trade: Any) -> None:
        row.volume += trade.size

    testing.check_seeds(testing.feed(trades()), volume, seeds=range(5), **TIGHT)


def test_a_handler_that_shares_state_among_symbols_is_found_and_its_seed_shows_it_again() -> None:
    feed = testing.feed(trades())
    with pytest.raises(DifferenceError, match=r"seed \d+: .*moves is") as caught:
        for seed in range(20):
            testing.check_seeds(feed, shares_the_last_price(), seeds=[seed], **TIGHT)
    assert caught.value.seed is not None
    run, again = (testing.seeded(feed, shares_the_last_price(), seed=caught.value.seed, **TIGHT) for _ in range(2))
    testing.assert_same(run, again)
    with pytest.raises(DifferenceError):
        testing.assert_same(run, testing.reference(feed, shares_the_last_price()))


def test_one_seeded_run_at_a_time() -> None:
    feed = testing.feed(trades())

    @strand.batch_handler(state=[])
    def another(symbol: str, ticks: Any, row: Any) -> None:
        testing.seeded(feed, "count", seed=0)

    with pytest.raises(HandlerError, match="another seeded run is under way"):
        testing.seeded(feed, another, seed=0)
    testing.seeded(feed, "count", seed=0)
