"""Feeds that give part of another's ticks, or go on within it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from feed_samples import itch_seconds
from merge_support import ArrayFeed, stamped
from reading import ticks_of

from strand import feeds
from strand.feeds.base import FeedInfo, Selection, TickBatch, as_base, batches_from
from strand.feeds.merge.selected import CarriedFeed, SelectedFeed
from strand.ticks import KIND_STATUS, empty

pytestmark = pytest.mark.python


@pytest.mark.parametrize("position", [0, 1, 7, 19, 20, 99])
def test_any_feed_goes_on_from_a_position(tmp_path: Path, position: int) -> None:
    feed = feeds.open(itch_seconds(tmp_path / "20200130.itch"))
    rest = [batch.copy() for batch in batches_from(feed, position)]
    np.testing.assert_array_equal(np.concatenate([empty(0), *rest]), ticks_of(feed)[position:])


class Plain:
    """A feed of a class of its own, which has what a run needs, and tells the time."""

    info, symbols, max_symbols, passed_ns = FeedInfo("plain", "plain.bin"), ("A",), 1, 7

    def batches(self) -> Iterator[TickBatch]:
        yield stamped(range(3))

    def statistics(self) -> dict[str, int]:
        return {}

    def close(self) -> None: ...


def test_a_feed_of_another_class_has_the_defaults_of_what_it_lacks() -> None:
    feed = as_base(Plain())
    assert (feed.passed_ns, feed.reads, feed.writes, feed.is_live) == (7, ("plain.bin",), (), False)
    assert (feed.state(), feed.line_numbers(), feed.tick_feeds, feed.live_counts()) == (None, None, None, {})
    feed.follow(lambda: 0, lambda: 0)
    given = [batch["ts_recv"].tolist() for batch in feed.batches()]
    assert given == [batch["ts_recv"].tolist() for batch in Plain().batches()]
    selected = SelectedFeed(Plain(), Selection(end_ns=6))
    assert (selected.passed_ns, selected.reads, selected.is_live) == (5, ("plain.bin",), False)


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
