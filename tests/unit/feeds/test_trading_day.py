"""The date in a file's name, dates as options, and the first instant of a day."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from strand.feeds.trading_day import as_date, date_in_name, midnight_ns

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("01302019.NASDAQ_ITCH50", "2019-01-30"),
        ("01302019.NASDAQ_ITCH50.gz", "2019-01-30"),
        ("S010220-v50.txt.gz", "2020-01-02"),
        ("20190130.PSX_ITCH_50", "2019-01-30"),
        ("ex20101224.TEST_ITCH_50", "2010-12-24"),
        ("itch-2021-07-01.bin", "2021-07-01"),
        ("12202019.NASDAQ_ITCH50", "2019-12-20"),
        ("13322019.NASDAQ_ITCH50", None),
        ("itch.bin", None),
        ("120190130.bin", None),
        ("00010203.bin", None),
    ],
)
def test_the_date_comes_from_the_name(name: str, date: str | None) -> None:
    found = date_in_name(Path("20200101") / name)
    assert (found.isoformat() if found else None) == date


def test_midnight_is_new_yorks_summer_and_winter() -> None:
    assert midnight_ns(dt.date(2019, 1, 30)) == 1_548_824_400 * 10**9
    assert midnight_ns(dt.date(2019, 7, 30)) == 1_564_459_200 * 10**9


def test_a_date_may_be_an_object() -> None:
    assert as_date(dt.datetime(2019, 1, 30, 9)) == as_date(dt.date(2019, 1, 30)) == dt.date(2019, 1, 30)
