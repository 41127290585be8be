"""The shares and peaks of the generated day are the calibrated ones."""

from __future__ import annotations

import numpy as np
import pytest

from strand.feeds.synthetic.calibration import PEAK_MILLISECOND, PEAK_SECOND, TOP_SHARES, symbol_counts, symbol_weights
from strand.feeds.synthetic.market import SyntheticFeed, stream

pytestmark = pytest.mark.python
MIDNIGHT_NS = 1_767_589_200 * 10**9  # 2026-01-05T00:00-05:00
OPEN_NS = MIDNIGHT_NS + 34_200 * 10**9
CLOSE_NS = MIDNIGHT_NS + 57_600 * 10**9


def test_shares_of_the_busiest_symbols_are_the_calibrated_ones_within_four_percent() -> None:
    ticks = stream(3_000_000, seed=11)
    counts = np.sort(np.bincount(ticks["instrument_id"], minlength=8173))[::-1]
    for top, share in TOP_SHARES.items():
        assert counts[:top].sum() / 3_000_000 == pytest.approx(share, rel=0.04)


def test_the_busiest_second_and_millisecond_are_the_calibrated_ones_within_one_and_ten_percent() -> None:
    feed = SyntheticFeed(100, 8_000_000, seed=1, batch_ticks=1 << 20)
    seconds, milliseconds = np.zeros(23_400, np.int64), np.zeros(23_400_000, np.int32)
    for batch in feed.batches():
        times = batch["ts_event"][(batch["ts_event"] >= OPEN_NS) & (batch["ts_event"] < CLOSE_NS)]
        np.add.at(milliseconds, (times - OPEN_NS) // 10**6, 1)
    seconds = milliseconds.reshape(-1, 1000).sum(1)
    assert 7_950_000 < seconds.sum() < 8_000_000
    assert seconds.max() / seconds.mean() == pytest.approx(PEAK_SECOND, rel=0.01)
    assert milliseconds.max() / milliseconds.mean() == pytest.approx(PEAK_MILLISECOND, rel=0.1)


def test_a_zipf_exponent_gives_the_busiest_symbol_its_share() -> None:
    counts = np.bincount(stream(500_000, symbols=50, skew=1.2)["instrument_id"])
    harmonic = sum(rank**-1.2 for rank in range(1, 51))
    assert counts.max() / 500_000 == pytest.approx(1 / harmonic, rel=0.03)


def test_weights_beyond_the_calibrated_symbols_stretch_its_curve_and_keep_its_ends() -> None:
    weights = symbol_weights(100_000, "calibrated") >> np.uint64(16)
    assert weights[0] == symbol_counts()[0]
    assert weights[-1] in (symbol_counts()[-1], symbol_counts()[-1] + 1)
    assert (np.diff(weights.astype(np.int64)) <= 0).all()
    assert (symbol_weights(8172, "calibrated") >> np.uint64(16) == symbol_counts()).all()
