"""A new day begins at midnight in a zone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import strand
from strand.errors import ConfigurationError
from strand.feeds.write.npy import write_npy
from strand.ticks import is_clear, zeros

SECOND = 1_000_000_000
DAY = 86_400 * SECOND


def test_a_date_begins_at_midnight_in_its_zone(tmp_path: Path) -> None:
    ticks = zeros(6)
    hour = 3600 * SECOND
    ticks["ts_recv"] = np.array([1, 23, 22, 25, 30, 60]) * hour + 20_000 * DAY
    ticks["instrument_id"] = [0, 1, 0, 0, 0, 0]
    write_npy(tmp_path / "a.npz", ticks, ["A", "B"])

    def at(new_day: str, batch: int) -> list[tuple[int, int]]:
        with strand.feeds.open(tmp_path / "a.npz", new_day=new_day, batch_ticks=batch) as feed:
            found = np.concatenate([one.copy() for one in feed.batches()])
        assert found[~is_clear(found)].tobytes() == ticks.tobytes()
        clears = found[is_clear(found)]
        return [(int(t["ts_recv"] // hour) - 480_000, int(t["instrument_id"])) for t in clears]

    for batch in (1, 2, 100):
        assert at("date", batch) == [(25, 0), (25, 1), (60, 0)]
        assert at("date America/New_York", batch) == [(23, 0), (30, 0), (30, 1), (60, 0)]
    with pytest.raises(ConfigurationError, match="is not a time zone"):
        strand.feeds.open(tmp_path / "a.npz", new_day="date Mars")
