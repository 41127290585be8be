"""Moments as people write them: what they are in ns, and what is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from feed_samples import itch_seconds
from hypothesis import given
from hypothesis import strategies as st
from reading import ticks_of

from strand import feeds
from strand.errors import ConfigurationError
from strand.feeds.times import Moment

pytestmark = pytest.mark.python


def test_a_time_of_day_needs_a_date(tmp_path: Path) -> None:
    path = itch_seconds(tmp_path / "undated")
    with pytest.raises(ConfigurationError, match="does not say its date"):
        feeds.open(path, start="09:30")
    assert len(ticks_of(feeds.open(path, start="09:30:09", date="2020-01-30"))) == 2
    assert len(ticks_of(feeds.open(path, start=34_209 * 10**9))) == 2


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SECONDS = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2261, 1, 1)).map(lambda at: at.replace(microsecond=0))


def ns_of(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(seconds=1) * 10**9


@given(SECONDS, st.integers(0, 10**9 - 1), st.integers(-14 * 60, 14 * 60))
def test_a_moment_with_a_zone_is_what_datetime_says_of_it(at: dt.datetime, ns: int, minutes: int) -> None:
    zone = dt.timezone(dt.timedelta(minutes=minutes))
    text = f"{at:%Y-%m-%dT%H:%M:%S}.{ns:09}{at.replace(tzinfo=zone):%z}"
    moment = Moment.parse("start", text)
    assert moment is not None
    assert moment.ns(None, "file") == ns_of(at.replace(tzinfo=zone)) + ns


@given(st.dates(dt.date(1970, 1, 2), dt.date(2261, 1, 1)), st.times(), st.sampled_from([0, 3, 6]))
def test_a_time_of_day_is_one_of_new_york(date: dt.date, at: dt.time, digits: int) -> None:
    micro = at.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
    text = f"{at:%H:%M:%S}" + (f".{micro:06}"[: digits + 1] if digits else "")
    moment = Moment.parse("end", text)
    assert moment is not None
    assert moment.needs_date
    wall = dt.datetime.combine(date, at.replace(microsecond=0), ZoneInfo("America/New_York"))
    assert moment.ns(date, "file") == ns_of(wall) + micro * 1000
