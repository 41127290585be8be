"""Streams that benchmarks run on."""

from __future__ import annotations

import numpy as np
import pytest
from route_jobs import job_of

from strand.bench.streams import market_day, numbered, squeezed, with_hot_symbol
from strand.bench.ways import run
from strand.feeds.synthetic.market import route_stream
from strand.ticks import zeros


def test_numbered_counts_each_symbols_ticks_from_one() -> None:
    ticks = zeros(6)
    ticks["instrument_id"] = [3, 1, 3, 3, 1, 0]
    assert numbered(ticks)["sequence"].tolist() == [1, 1, 2, 3, 2, 1]


def test_the_route_stream_is_numbered_already() -> None:
    ticks = route_stream(5000, 100)
    assert np.array_equal(numbered(ticks.copy())["sequence"], ticks["sequence"])


def test_the_hot_symbol_has_its_share_and_its_order() -> None:
    ticks = with_hot_symbol(20_000, 500, 0.4)
    counts = np.bincount(ticks["instrument_id"], minlength=500)
    assert 0.4 <= counts.max() / len(ticks) < 0.45
    run("serial", job_of(ticks, 500))


def test_a_squeezed_day_keeps_its_bursts_at_another_rate() -> None:
    ticks = market_day(20_000, 200)
    times = ticks["ts_recv"].copy()
    squeezed(ticks, times, 1e6)
    assert ticks["ts_recv"][0] == 0
    assert ticks["ts_recv"][-1] == pytest.approx(20_000 / 1e6 * 1e9, rel=1e-6)
    gaps, were = (np.diff(column.astype(np.float64)) for column in (ticks["ts_recv"], times))
    assert (gaps >= 0).all()
    assert np.corrcoef(gaps, were)[0, 1] > 0.999
    run("static", job_of(ticks, 201))
