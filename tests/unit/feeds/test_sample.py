"""The sample that ships is what its feed makes, and replays."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from order_books import Books
from reading import ticks_of

from strand.feeds.formats.itch.reader import ItchFeed
from strand.feeds.sample import SAMPLE_DATE, sample_feed, sample_path

pytestmark = pytest.mark.python


def test_the_shipped_sample_is_what_its_feed_makes(tmp_path: Path) -> None:
    sample_feed().write_itch(tmp_path / "sample.itch50")
    assert gzip.decompress(sample_path().read_bytes()) == (tmp_path / "sample.itch50").read_bytes()
    assert sample_path().stat().st_size < 4_000_000


def test_the_shipped_sample_replays_through_a_book() -> None:
    ticks = ticks_of(ItchFeed(sample_path(), date=SAMPLE_DATE))
    events = ticks[500:]
    assert len(events) == 200_000
    assert Books().replay(events).counts["add"] > 80_000
