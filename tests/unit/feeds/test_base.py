"""What a feed of one's own has from its base class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.errors import FeedError
from strand.feeds.base import BaseFeed, Feed, FeedInfo, TickBatch
from strand.ticks import zeros

pytestmark = pytest.mark.python


class Plain(BaseFeed):
    """Batches of these sizes, whose ticks are numbered in ``sequence``."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self._sizes = sizes

    @property
    def info(self) -> FeedInfo:
        return FeedInfo("plain", "plain.bin")

    @property
    def symbols(self) -> Sequence[str]:
        return ("A", "B")

    def batches(self) -> Iterator[TickBatch]:
        self._check_open()
        first = 0
        for size in self._sizes:
            batch = zeros(size)
            batch["sequence"] = np.arange(first, first + size)
            first += size
            yield batch


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 45))
def test_a_position_passes_over_as_many_ticks_whatever_the_batches(sizes: list[int], position: int) -> None:
    rest = [batch["sequence"].tolist() for batch in Plain(sizes).batches_from(position)]
    assert list(chain.from_iterable(rest)) == list(range(position, sum(sizes)))


def test_what_a_feed_does_not_say_is_as_little_as_there_can_be() -> None:
    feed = Plain([3])
    assert isinstance(feed, Feed)
    assert (feed.max_symbols, feed.reads, feed.writes) == (2, ("plain.bin",), ())
    assert (feed.tick_feeds, feed.count(), feed.statistics(), feed.skipped.total) == (None, None, {}, 0)


def test_a_feed_is_iterated_over_anew_each_time_and_closed_by_with() -> None:
    with Plain([2, 1]) as feed:
        assert [len(batch) for batch in feed] == [len(batch) for batch in feed] == [2, 1]
    feed.close()
    with pytest.raises(FeedError, match=r"^plain\.bin: the feed is closed"):
        list(feed)
