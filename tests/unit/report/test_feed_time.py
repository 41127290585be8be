"""On which clocks times are shown."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import strand
from strand.feeds import FeedInfo
from strand.feeds.merge.feeds import MergedFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.report.feed_time import feed_clock

pytestmark = pytest.mark.python


def test_times_are_those_of_the_session_and_utc_where_nobody_knows_it() -> None:
    info = strand.feeds.open(sample_path(), date=SAMPLE_DATE).info
    clock = feed_clock(info)
    assert clock.name == "America/New_York"
    # Half past nine in New York is 14:30 UTC in winter, and 13:30 in summer.
    for utc in ("2026-01-05 14:30:00.123", "2026-07-06 13:30:00.123"):
        ns = int(dt.datetime.fromisoformat(utc + "+00:00").timestamp()) * 10**9 + 123_999_999
        assert clock.moment(ns) == utc[:11] + "09:30:00.123"
    for zone in (None, "No/Such", "../etc"):
        utc_clock = feed_clock(FeedInfo("mine", "here", zone=zone))
        assert (utc_clock.name, utc_clock.moment(0)) == ("UTC", "1970-01-01 00:00:00.000")


def test_where_the_date_is_not_known_times_of_day_stay_as_they_are() -> None:
    clock = feed_clock(strand.feeds.open(sample_path()).info)
    assert clock.name == "America/New_York, date unknown"
    assert clock.moment(34_200 * 10**9) == "1970-01-01 09:30:00.000"


def test_the_axis_has_the_clock_and_its_name() -> None:
    pytest.importorskip("matplotlib")
    result = strand.replay(sample_path(), strand.bars("30m"), workers=1, date=SAMPLE_DATE)
    axis = result.plot("bars").axes[-1]
    axis.figure.canvas.draw()
    assert axis.get_xlabel() == "feed time at which each bar was known, America/New_York"
    labels = [label.get_text() for label in axis.get_xticklabels()]
    assert "10:00" in labels
    assert "16:00" in labels
    assert "21:00" not in labels


def test_a_converted_file_keeps_the_zone(tmp_path: Path) -> None:
    convert(sample_path(), tmp_path / "day.npz", feed_options={"date": SAMPLE_DATE}, limit=100)
    assert strand.feeds.open(tmp_path / "day.npz").info.zone == "America/New_York"


def test_each_format_says_the_zone_that_it_knows(tmp_path: Path) -> None:
    day = tmp_path / "AAPL_2012-06-21_34200000_57600000_message_1.csv"
    day.write_text("34200.004241176,1,16113575,18,5853300,1\n34200.025551909,1,16113584,18,5853200,1\n")
    lobster = strand.feeds.open(day)
    itch = strand.feeds.open(sample_path(), date="2012-06-21")
    assert lobster.info.zone == itch.info.zone == "America/New_York"
    assert MergedFeed([lobster, itch]).info.zone == "America/New_York"
    coins = tmp_path / "coins.csv"
    coins.write_text("exchange,symbol,timestamp,local_timestamp,id,side,price,amount\nx,BTC,1000,1000,1,buy,5.5,1\n")
    assert strand.feeds.open(coins).info.zone is None
    assert strand.feeds.open(coins, new_day="date Asia/Tokyo").info.zone == "Asia/Tokyo"
    assert strand.feeds.open(coins, new_day="date").info.zone is None
    assert MergedFeed([strand.feeds.open(coins), itch]).info.zone is None
