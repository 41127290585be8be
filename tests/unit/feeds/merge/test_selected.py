"""Feeds that give part of another's ticks, or go on within it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from feed_samples import itch_seconds
from reading import ticks_of

from strand import feeds
from strand.feeds.merge.selected import batches_from
from strand.ticks import empty

pytestmark = pytest.mark.python


@pytest.mark.parametrize("position", [0, 1, 7, 19, 20, 99])
def test_any_feed_goes_on_from_a_position(tmp_path: Path, position: int) -> None:
    feed = feeds.open(itch_seconds(tmp_path / "20200130.itch"))
    rest = [batch.copy() for batch in batches_from(feed, position)]
    np.testing.assert_array_equal(np.concatenate([empty(0), *rest]), ticks_of(feed)[position:])
