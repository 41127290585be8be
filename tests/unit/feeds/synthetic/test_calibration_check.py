"""How close generated days are to the calibrated one: the table of docs/feeds/generator.md, asserted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from reading import ticks_of

from strand.errors import ConfigurationError
from strand.feeds.base import FeedInfo
from strand.feeds.formats.npy.reader import NpyFeed
from strand.feeds.synthetic import calibration
from strand.feeds.synthetic.calibration_check import check_calibration
from strand.feeds.synthetic.market import SyntheticFeed
from strand.ticks import zeros

pytestmark = pytest.mark.python

PAGE = Path(__file__).parents[4] / "docs" / "feeds" / "generator.md"
TEN_MILLION = {"symbols": 8172, "messages": 10_000_000, "seed": 1, "batch_ticks": 1 << 18}


def test_a_day_of_ten_million_messages_is_as_close_as_the_page_says() -> None:
    measures = check_calibration(SyntheticFeed(**TEN_MILLION))
    assert [m.name for m in measures if not m.close] == []
    rows = re.findall(
        r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| ([\d.]+) to ([\d.]+) \|$", PAGE.read_text(), re.M
    )
    shown = {name.strip(): (float(t), float(f), float(low), float(high)) for name, t, f, low, high in rows}
    assert shown == {m.name: (round(m.target, 4), round(m.found, 4), m.low, m.high) for m in measures}


@pytest.mark.parametrize(
    ("change", "loses"),
    [({"burst": 0.5}, "peak second / mean"), ({"skew": 1.0}, "share of the top 1"), ({"burst": 0.0}, "gap p50 / mean")],
)
def test_a_day_of_another_shape_is_not_called_close(change: dict[str, float], loses: str) -> None:
    feed = SyntheticFeed(**(TEN_MILLION | {"messages": 1_000_000} | change))  # type: ignore[arg-type]
    assert loses in {m.name for m in check_calibration(feed) if not m.close}


def test_the_targets_are_those_of_the_calibrated_day(shared_data: Path) -> None:
    path = shared_data / "calibration.json"
    if not path.exists():
        pytest.skip("no calibration table")
    table = json.loads(path.read_text())
    burst, mean = table["burst"], table["burst"]["mean_per_second_over_6.5h"]
    assert {f"top_{n}": share for n, share in calibration.TOP_SHARES.items()} == table["share_of_messages"]
    assert pytest.approx(burst["aggregate_max_per_second"] / mean) == calibration.PEAK_SECOND
    assert pytest.approx(1000 * burst["aggregate_max_per_millisecond"] / mean) == calibration.PEAK_MILLISECOND
    assert pytest.approx(1000 * burst["aggregate_p999_per_millisecond"] / mean) == calibration.P999_MILLISECOND
    for part, over_mean in calibration.GAP_QUANTILES.items():
        gap = burst["interarrival_ns"][f"p{round(100 * part):02}Arrival"]
        assert over_mean == pytest.approx(gap / (23_400e9 / table["messages"]))


def test_measures_are_what_a_plain_computation_gives() -> None:
    feed = SyntheticFeed(300, 200_000, seed=4, batch_ticks=999)
    found = {m.name: m.found for m in check_calibration(feed)}
    ticks = ticks_of(feed)
    counts = sorted(np.bincount(ticks["instrument_id"]).tolist(), reverse=True)
    assert found["share of the top 10"] == pytest.approx(sum(counts[:10]) / len(ticks))
    since = ticks["ts_event"].astype(np.int64) - (1_767_589_200 + 34_200) * 10**9
    since = since[(since >= 0) & (since < 23_400 * 10**9)]
    assert found["peak second / mean"] == pytest.approx(np.bincount(since // 10**9).max() / (len(since) / 23_400))
    gap = np.quantile(np.diff(since), 0.5) / (23_400e9 / len(since))
    assert found["gap p50 / mean"] == pytest.approx(gap, rel=0.02)


def test_a_feed_without_a_date_or_without_ticks_in_the_session_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", zeros(10))
    feed = NpyFeed(tmp_path / "a.npy")
    assert isinstance(feed.info, FeedInfo)
    with pytest.raises(ConfigurationError, match="trading day"):
        check_calibration(feed)
    with pytest.raises(ConfigurationError, match="nothing to measure"):
        check_calibration(SyntheticFeed(1, 1))
