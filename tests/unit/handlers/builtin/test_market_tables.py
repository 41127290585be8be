"""The tables of trades and of the best bid and ask, of ticks worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import strand
from strand import UNDEF_PRICE, Dispatcher
from strand.ticks import KIND_QUOTE, KIND_TRADE, zeros

pytestmark = pytest.mark.python


#: A trade of a cross, as ITCH flags it.
CROSS = 4


def emitted(handler: strand.Handler, ticks: Any, output: str) -> tuple[Any, Any]:
    with Dispatcher(["A"], handler, feed="plain", workers=1, cores=None) as dispatcher:
        dispatcher.publish(ticks)
        dispatcher.drain()
        return np.array(dispatcher.outputs[output].array()), dispatcher.rows["A"].copy()


def test_each_trade_is_a_record_and_one_without_a_price_is_counted() -> None:
    ticks = zeros(4)
    ticks["kind"], ticks["action"] = KIND_TRADE, b"T"
    ticks["ts_event"] = ticks["ts_recv"] = [10, 20, 30, 40]
    ticks["price"], ticks["size"] = [5, UNDEF_PRICE, 7, 8], [1, 2, 3, 4]
    ticks["side"] = [b"A", b"B", b"B", b"N"]
    ticks["flags"] = [0, 0, 0, CROSS]
    records, row = emitted(strand.trades(), ticks, "trades")
    assert records["ts_event"].tolist() == [10, 30, 40]
    assert records["price"].tolist() == [5, 7, 8]
    assert records["size"].tolist() == [1, 3, 4]
    assert (row["trades"], row["volume"], row["unpriced"]) == (3, 8, 1)
    assert (row["last_price"], row["last_size"]) == (8, 4)
    assert records["cross"].tolist() == [0, 0, 1]
    without, _ = emitted(strand.trades(crosses=False), ticks, "trades")
    assert without["ts_event"].tolist() == [10, 30]


def test_each_change_of_the_top_is_a_record_and_the_same_again_is_none() -> None:
    ticks = zeros(3)
    ticks["kind"] = KIND_QUOTE
    ticks["ts_event"] = ticks["ts_recv"] = [10, 20, 30]
    # A quote has its bid in price and size, and its ask in order_id and ref_id.
    ticks["price"], ticks["order_id"] = [5, 5, 9], [8, 8, 8]
    ticks["size"], ticks["ref_id"] = [1, 1, 1], [2, 2, 2]
    records, row = emitted(strand.bbo(), ticks, "bbo")
    assert records["ts_event"].tolist() == [10, 30]
    assert records["bid"].tolist() == [5, 9]
    assert (row["changes"], row["one_sided"], row["locked"]) == (2, 0, 1)
