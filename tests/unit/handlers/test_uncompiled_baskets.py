"""Basket handlers written for numba, run as plain Python: the same rows, baskets and outputs."""

from __future__ import annotations

from typing import Any

import pytest

import strand
from strand.errors import HandlerError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers.hosted_baskets import BasketObjectHandler
from strand.handlers.loading import resolve
from strand.testing import assert_same, feed, reference

pytestmark = pytest.mark.python

#: One symbol is of two baskets.
BASKETS = {"pair": ["AAAHD", "AAADU"], "more": ["AAADU", "AAAOA", "AAAEJ"]}


@strand.basket_handler(
    baskets=BASKETS,
    basket_state=[("volume", "i8"), ("sizes", "i8", 3), ("last", ("i8", 2))],
    params={"factor": "i8"},
    outputs={"large": {"index": "i8", "size": "i8"}},
    on="trade",
)
def traded(trade: Any, basket: Any, member: Any, index: Any, params: Any, emit: Any) -> None:  # noqa: PLR0917
    basket.volume += trade.size * params.factor
    basket.sizes[member] += trade.size
    basket.last[0] = trade.price
    if trade.size > 100:
        emit.large(index, size=trade.size)


@strand.basket_handler(
    baskets=BASKETS, state=[("best", "i8"), ("n", "i8")], basket_state=[("middle", "f8"), ("same", "i8")]
)
def middles(row: Any, tick: Any, basket: Any) -> None:
    row.n += 1
    if row.book.bid_orders > 0 and row.book.ask_orders > 0:
        middle = (row.book.bid_price + row.book.ask_price) / 2.0
        if middle == basket.middle:
            basket.same += tick.size
        basket.middle = middle
    row["best"] = max(row.best, row.book.bid_price)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "handler", [traded.with_params({"*": {"factor": 2}, "AAADU": {"factor": 3}}), strand.chain("book", middles)]
)
def test_without_the_compiler_rows_and_baskets_are_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, handler: Any, workers: int
) -> None:
    pytest.importorskip("numba")

    def replayed() -> Any:
        # A chain resolves its parts as it is made.
        made = strand.chain("book", middles) if "+" in handler.name else handler
        return strand.replay(sample_path(), made, date=SAMPLE_DATE, workers=workers)

    compiled = replayed()
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    plain = replayed()
    assert plain.objects.keys() == BASKETS.keys()
    assert not compiled.objects
    assert_same(plain, compiled)
    assert plain.fingerprint == compiled.fingerprint


@pytest.mark.python
def test_python_runs_the_function_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    @strand.basket_handler(baskets={"ab": ["B", "A"]}, basket_state={"n": "u8"})
    def keeps(member: Any, basket: Any) -> None:
        seen.append((basket.n, member))
        basket.n += 1
        1 // (3 - basket.n)  # its line

    assert resolve(keeps) is keeps
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    handler = resolve(keeps)
    assert isinstance(handler, BasketObjectHandler)
    assert handler.written == keeps.written
    with pytest.raises(HandlerError, match="division") as caught:
        reference(feed([("A", 1, 1.5, 7), ("B", 2, 2.5, 9), ("A", 3, 1.5, 7)]), keeps)
    assert seen == [(0, 1), (1, 0), (2, 1)]
    assert caught.value.line is not None
    assert caught.value.line.text.endswith("# its line")
