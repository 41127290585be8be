"""Counts, and the table of trades, of ticks that numpy counts or that are worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from market_ticks import market, run

import strand
from strand import UNDEF_PRICE, Dispatcher
from strand.ticks import KIND_TRADE, zeros

pytestmark = pytest.mark.python

#: A trade of a cross, as ITCH flags it.
CROSS = 4


def test_count_equals_a_numpy_computation() -> None:
    ticks = market(20_000, 30)
    rows = run(ticks, 31, "count")
    for key in range(30):
        mine = ticks[ticks["instrument_id"] == key]
        trades = mine[mine["kind"] == KIND_TRADE]
        row = rows[key]
        assert (row["ticks"], row["trades"]) == (len(mine), len(trades))
        assert row["volume"] == trades["size"].sum(dtype=np.uint64)
        assert row["last_price"] == trades["price"][-1]
        assert (row["first_ts_recv"], row["last_ts_recv"]) == (mine["ts_recv"][0], mine["ts_recv"][-1])
        assert row["last_sequence"] == mine["sequence"][-1]
    assert rows[30] == np.zeros(1, rows.dtype)[0]


def emitted(handler: strand.Handler, ticks: Any) -> tuple[Any, Any]:
    with Dispatcher(["A"], handler, feed="plain", workers=1, cores=None) as dispatcher:
        dispatcher.publish(ticks)
        dispatcher.drain()
        return np.array(dispatcher.outputs["trades"].array()), dispatcher.rows["A"].copy()


def test_each_trade_is_a_record_and_one_without_a_price_is_counted() -> None:
    ticks = zeros(4)
    ticks["kind"], ticks["action"] = KIND_TRADE, b"T"
    ticks["ts_event"] = ticks["ts_recv"] = [10, 20, 30, 40]
    ticks["price"], ticks["size"] = [5, UNDEF_PRICE, 7, 8], [1, 2, 3, 4]
    ticks["side"], ticks["ref_id"] = [b"A", b"B", b"B", b"N"], [11, 12, 13, 14]
    ticks["flags"] = [0, 0, 0, CROSS]
    records, row = emitted(strand.trades(), ticks)
    assert records["ts_event"].tolist() == [10, 30, 40]
    assert records["price"].tolist() == [5, 7, 8]
    assert records["size"].tolist() == [1, 3, 4]
    assert records["match_id"].tolist() == [11, 13, 14]
    assert (row["trades"], row["volume"], row["unpriced"]) == (3, 8, 1)
    assert (row["last_price"], row["last_size"]) == (8, 4)
    assert records["cross"].tolist() == [0, 0, 1]
    without, _ = emitted(strand.trades(crosses=False), ticks)
    assert without["ts_event"].tolist() == [10, 30]
