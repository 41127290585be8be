"""Handlers that count, and that only take time."""

from __future__ import annotations

import numpy as np
import pytest
from engine_support import spin_rows, ticks_for
from market_ticks import market, run

from strand.handlers import spin
from strand.ticks import KIND_TRADE


def test_count_equals_a_numpy_computation() -> None:
    ticks = market(20_000, 30)
    rows = run(ticks, 31, "count")
    for key in range(30):
        mine = ticks[ticks["instrument_id"] == key]
        trades = mine[mine["kind"] == KIND_TRADE]
        row = rows[key]
        assert row["ticks"] == len(mine)
        assert row["trades"] == len(trades)
        assert row["volume"] == trades["size"].sum(dtype=np.uint64)
        assert row["last_price"] == trades["price"][-1]
        assert (row["first_ts_recv"], row["last_ts_recv"]) == (mine["ts_recv"][0], mine["ts_recv"][-1])
        assert row["last_sequence"] == mine["sequence"][-1]
    assert rows[30] == np.zeros(1, rows.dtype)[0]


@pytest.mark.parametrize("work", [0, 1, 5])
def test_spin_equals_a_plain_loop(work: int) -> None:
    ticks = ticks_for(np.random.default_rng(2).integers(0, 9, 2_000))
    assert (run(ticks, 9, spin(work)) == spin_rows(ticks, 9, work)).all()
