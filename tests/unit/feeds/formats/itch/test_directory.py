"""The directory describes each stock; events of the whole market are reported."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import itch_reference as ref
import pytest
from bad_input import write_anew
from reading import read

from strand.feeds.formats.itch.reader import ItchFeed
from strand.feeds.trading_day import midnight_ns


@pytest.fixture
def data() -> bytes:
    return b"".join(ref.frame(body) for body in ref.every_type())


def write(folder: Path, content: bytes, name: str = "20190130.itch") -> Path:
    return write_anew(folder / name, content)


def test_the_directory_tells_what_each_stock_is(tmp_path: Path, data: bytes) -> None:
    feed = ItchFeed(write(tmp_path, data))
    assert feed.directory == {}
    read(feed)
    apple = feed.directory["AAPL"]
    assert (apple.locate, apple.market_category, apple.round_lot_size) == (7, "N", 100)
    assert (apple.subtype, apple.luld_tier, apple.etp_leverage, apple.inverse) == ("Z", "2", 0, "N")
    assert list(feed.directory) == ["AAPL", "BRK.A"]


def test_the_whole_markets_events_are_told(tmp_path: Path, data: bytes) -> None:
    feed = ItchFeed(write(tmp_path, data))
    read(feed)
    assert [(event.type, event.code, event.levels) for event in feed.market_events] == [
        ("S", "O", ()),
        ("V", "", (1, 2, 3)),
        ("W", "1", ()),
        ("S", "C", ()),
    ]
    assert feed.market_events[0].ts_ns == midnight_ns(dt.date(2019, 1, 30)) + 34_200_000_000_123
