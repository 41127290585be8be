"""Trades made of ticks for handlers that ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from strand import UNDEF_PRICE
from strand.binding import ffi
from strand.binding.books import TradeMaker, TradeRules, TradeSource
from strand.binding.memory import Space
from strand.ticks import KIND_ORDER, KIND_TRADE, Flags, zeros


def tick(action: bytes, kind: int, order: int, price: int, size: int) -> Any:
    found = zeros(1)
    found["action"], found["kind"], found["order_id"] = action, kind, order
    found["price"], found["size"], found["side"] = price, size, b"B"
    return found


def test_rules_are_apart_in_what_c_is_given() -> None:
    rules = [
        TradeRules(),
        TradeRules(orders=True),
        TradeRules(fills_report=True),
        TradeRules(crosses=False, flags=Flags(cross=4)),
    ]
    packed = {rule.packed for rule in [*rules, TradeRules(resting=True)]}
    assert len(packed) == 5
    assert {len(one) for one in packed} == {ffi.sizeof("sd_trade_rules")}


def test_a_trade_is_itself_and_an_add_is_none() -> None:
    maker = TradeMaker(Space(), 1, TradeSource())
    made, failure = maker.make(tick(b"T", KIND_TRADE, 0, 500, 3), 0)
    assert failure is None
    assert (made["price"].tolist(), made["size"].tolist()) == ([500], [3])
    made, _ = maker.make(tick(b"A", KIND_ORDER, 1, 500, 3), 0)
    assert made["size"].tolist() == [-1]


@pytest.mark.parametrize(("order", "price", "unpriced"), [(1, 500, 0), (2, UNDEF_PRICE, 1)])
def test_an_execution_has_the_price_of_its_order_and_one_of_no_order_is_counted(
    order: int, price: int, unpriced: int
) -> None:
    maker = TradeMaker(Space(), 1, TradeSource(TradeRules(orders=True), books=True))
    maker.make(tick(b"A", KIND_ORDER, 1, 500, 3), 0)
    made, failure = maker.make(tick(b"F", KIND_ORDER, order, UNDEF_PRICE, 2), 0)
    assert failure is None
    assert maker.unpriced.tolist() == [unpriced]
    if not unpriced:
        assert (made["price"].tolist(), made["size"].tolist()) == ([price], [2])
