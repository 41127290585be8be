"""Volume as columns, beside an opening cross."""

from __future__ import annotations

import numpy as np
import pytest

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.report.market import volume_by_time

pytestmark = pytest.mark.python
SECOND = 10**9


def test_every_trade_is_in_the_step_in_which_it_was_seen() -> None:
    rng = np.random.default_rng(4)
    times = np.sort(rng.integers(0, 3600, 500)).astype(np.uint64) * SECOND + 7 * 60 * SECOND
    traded = rng.integers(0, 100, 500)
    starts, volumes = volume_by_time(times, np.cumsum(traded).astype(np.float64), 60 * SECOND)
    by_hand: dict[int, int] = {}
    for time, size in zip(times.tolist(), traded.tolist(), strict=True):
        start = time - time % (60 * SECOND)
        by_hand[start] = by_hand.get(start, 0) + size
    assert {at: n for at, n in zip(starts.tolist(), volumes.tolist(), strict=True) if n} == {
        at: n for at, n in by_hand.items() if n
    }
    assert np.diff(starts).tolist() == [60 * SECOND] * (len(starts) - 1)


def test_a_volume_that_begins_anew_is_counted_from_nothing() -> None:
    _, volumes = volume_by_time(np.array([0, 1, 2, 3]) * SECOND, np.array([5.0, 9.0, 2.0, 2.0]), SECOND)
    assert volumes.tolist() == [5, 4, 2, 0]


def test_what_the_scale_leaves_out_is_labelled_and_said() -> None:
    pytest.importorskip("matplotlib")
    result = strand.replay(sample_path(), strand.bars("10m"), workers=1, date=SAMPLE_DATE)
    bars = result.outputs["bars"]
    axis = result.plot("bars", symbols=["AAAHD"]).axes[1]
    volumes = bars["volume"][bars["instrument_id"] == result.symbols.index("AAAHD")]
    top = axis.get_ylim()[1]
    above = volumes[volumes > top]
    assert len(above) == 2
    assert sorted(text.get_text() for text in axis.texts) == sorted(f"{n:,}" for n in above.tolist())
    assert axis.get_title(loc="right") == "2 columns above the scale, labelled"
    drawn = [high for part in axis.collections for (_, _), (_, high) in part.get_segments()]
    assert sorted(drawn) == sorted(np.minimum(volumes, top).tolist())
