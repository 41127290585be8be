"""Feeds that give part of another's ticks, or go on within it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from feed_samples import itch_seconds
from merge_support import ArrayFeed, stamped
from reading import ticks_of

from strand import feeds
from strand.feeds.base import Selection, batches_from
from strand.feeds.merge.selected import CarriedFeed, SelectedFeed
from strand.ticks import KIND_STATUS, empty

pytestmark = pytest.mark.python


@pytest.mark.parametrize("position", [0, 1, 7, 19, 20, 99])
def test_any_feed_goes_on_from_a_position(tmp_path: Path, position: int) -> None:
    feed = feeds.open(itch_seconds(tmp_path / "20200130.itch"))
    rest = [batch.copy() for batch in batches_from(feed, position)]
    np.testing.assert_array_equal(np.concatenate([empty(0), *rest]), ticks_of(feed)[position:])


def test_symbols_are_chosen_by_the_names_that_they_have_by_then() -> None:
    ticks = stamped(range(12), 0, [0, 1, 2] * 4)
    feed = SelectedFeed(
        ArrayFeed(ticks, max_symbols=3, learns=[["A"], ["A", "B"], ["A", "B", "A2"]]), Selection(("A*",))
    )
    assert ticks_of(feed)["sequence"].tolist() == [0, 3, 6, 8, 9, 11]
    assert feed.statistics()["not_selected"] == 6
    assert ticks_of(feed)["sequence"].tolist() == [0, 3, 6, 8, 9, 11]
    assert feed.statistics()["not_selected"] == 6


def test_a_feed_that_is_carried_over_has_all_ticks_but_those_that_begin_a_day() -> None:
    ticks = stamped(range(9))
    ticks["action"][[2, 3, 4, 7]] = b"R"
    ticks["kind"][[3, 4, 5]] = KIND_STATUS
    one = ArrayFeed(ticks, ["A"])
    with CarriedFeed(one) as feed:
        assert ticks_of(feed)["ts_recv"].tolist() == [0, 1, 2, 5, 6, 7, 8]
        assert feed.statistics()["not_selected"] == 2
    assert one.closed == 1
