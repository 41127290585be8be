"""Moments as people write them: what they are in ns, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from feed_samples import itch_seconds
from reading import ticks_of

from strand import feeds
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python


def test_a_time_of_day_needs_a_date(tmp_path: Path) -> None:
    path = itch_seconds(tmp_path / "undated")
    with pytest.raises(ConfigurationError, match="does not say its date"):
        feeds.open(path, start="09:30")
    assert len(ticks_of(feeds.open(path, start="09:30:09", date="2020-01-30"))) == 2
    assert len(ticks_of(feeds.open(path, start=34_209 * 10**9))) == 2
