"""Handlers that count, and that only take time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_support import balanced, spin_rows, ticks_for

from strand import UNDEF_PRICE, Dispatcher
from strand.errors import ConfigurationError
from strand.handlers import spin
from strand.ticks import KIND_ORDER, KIND_TRADE


def market(n: int, symbols: int, seed: int = 1) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    ticks = ticks_for(rng.integers(0, symbols, n))
    ticks["kind"] = rng.choice([KIND_ORDER, KIND_TRADE], n)
    ticks["price"] = rng.integers(1, 10**12, n)
    ticks["price"][rng.random(n) < 0.05] = UNDEF_PRICE
    ticks["size"] = rng.integers(0, 1_000, n)
    ticks["action"] = rng.choice([b"A", b"C", b"T"], n)
    return ticks


def run(ticks: Any, symbols: int, like: Any, **options: Any) -> Any:
    with Dispatcher(symbols, like, workers=2, cores=None, feed="plain", **options) as d:
        for part in np.array_split(ticks, 5):
            d.publish(part)
        d.drain()
        balanced(d)
    return d.rows.array


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


def test_spin_takes_longer_for_dear_symbols_and_notices_gaps() -> None:
    ticks = ticks_for([0, 1, 2, 3] * 10)
    dear, plain = run(ticks, 4, spin(2, dear_every=2, dear_times=3)), spin_rows(ticks, 4, 2)
    assert (dear["value"] != plain["value"]).tolist() == [True, False, True, False]
    assert (dear["value"][[0, 2]] == spin_rows(ticks, 4, 6)["value"][[0, 2]]).all()
    assert run(np.delete(ticks, 4), 4, "spin")["broken"].tolist() == [1, 0, 0, 0]
    for wrong in ({"work": -1}, {"work": 1, "dear_every": -1}, {"work": 1, "dear_times": 0}):
        with pytest.raises(ConfigurationError, match=next(name for name, value in wrong.items() if value < 1)):
            spin(**wrong)
