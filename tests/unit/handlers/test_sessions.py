"""Sessions: hours of a venue's day in its time zone, over changes of clocks; and spans of time."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest
from plain_run import plain_run

from strand import Sessions, bars
from strand.errors import ConfigurationError
from strand.ticks import KIND_TRADE, zeros
from strand.zones import zone_named

pytestmark = pytest.mark.python

ZONES = ["America/New_York", "Europe/Berlin", "Asia/Shanghai", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"]


def utc(day: dt.date, hour: int, minute: int, zone: str) -> int:
    """As the standard library has it: the first of a time that comes twice."""
    midnight = dt.datetime.combine(day + dt.timedelta(days=hour // 24), dt.time(hour % 24, minute), zone_named(zone))
    return int(midnight.timestamp()) * 1_000_000_000


def of_day(sessions: Sessions, day: dt.date) -> list[tuple[int, int]]:
    start = utc(day, 0, 0, "UTC") - 43_200 * 10**9
    near = sessions.table[(sessions.table[:, 0] >= start) & (sessions.table[:, 0] < start + 2 * 86_400 * 10**9)]
    return [(int(a), int(b)) for a, b in near]


@pytest.mark.cells(1)
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("year", [1971, 1999, 2026, 2037])
def test_daily_hours_are_those_of_the_zones_clocks_on_every_day(zone: str, year: int) -> None:
    table = Sessions.daily("01:30-16:00", zone, days="mon-sun").table.tolist()
    days = [dt.date(year, 1, 1) + dt.timedelta(days=i) for i in range(365)]
    expected = [[utc(day, 1, 30, zone), utc(day, 16, 0, zone)] for day in days]
    at = table.index(expected[0])
    assert table[at : at + 365] == expected


def test_a_session_is_an_hour_shorter_in_spring_and_longer_in_autumn() -> None:
    table = Sessions.daily("00:00-24:00", "America/New_York", days="mon-sun").table
    hours = (table[:, 1] - table[:, 0]) // np.int64(3_600 * 10**9)
    year = table[
        (table[:, 0] >= utc(dt.date(2026, 1, 1), 0, 0, "UTC")) & (table[:, 0] < utc(dt.date(2027, 1, 1), 0, 0, "UTC"))
    ]
    assert len(year) == 365
    assert sorted(set(hours.tolist())) == [23, 24, 25]
    assert (table[1:, 0] == table[:-1, 1]).all()  # no moment is missing


def test_a_session_that_ends_before_it_starts_ends_on_the_next_day() -> None:
    sessions = Sessions.parse("17:00-16:00 America/Chicago sun-thu")
    sunday = dt.date(2023, 12, 24)
    (start, end), *_ = of_day(sessions, sunday)
    assert start == utc(sunday, 17, 0, "America/Chicago")
    assert end == utc(sunday + dt.timedelta(days=1), 16, 0, "America/Chicago")


def test_days_holidays_and_early_closes_are_kept() -> None:
    sessions = Sessions.daily(
        "09:30-16:00", "America/New_York", holidays=["2025-07-04"], closes={dt.date(2025, 7, 3): "13:00"}
    )
    starts = set(sessions.table[:, 0].tolist())
    for day in range(30):
        date = dt.date(2025, 7, 1) + dt.timedelta(days=day)
        assert (utc(date, 9, 30, "America/New_York") in starts) == (date.weekday() < 5 and date.day != 4)
    third = sessions.table[sessions.table[:, 0] == utc(dt.date(2025, 7, 3), 9, 30, "America/New_York")]
    assert int(third[0, 1]) == utc(dt.date(2025, 7, 3), 13, 0, "America/New_York")


@pytest.mark.parametrize(
    ("day", "offset"), [("2026-03-06", 5), ("2026-03-09", 4), ("2026-10-30", 4), ("2026-11-02", 5)]
)
def test_bars_begin_with_the_session_on_both_sides_of_a_change_of_clocks(day: str, offset: int) -> None:
    """Half-past bars: a grid of UTC hours would not begin at 09:30."""
    date = dt.date.fromisoformat(day)
    opens = utc(date, 9 + offset, 30, "UTC")
    minute = 60 * 10**9
    times = [
        opens - minute,
        opens,
        opens + 59 * minute,
        opens + 60 * minute,
        opens + 389 * minute,
        opens + 390 * minute,
    ]
    ticks = zeros(len(times))
    ticks["ts_recv"], ticks["kind"], ticks["action"] = times, KIND_TRADE, b"T"
    ticks["price"], ticks["size"] = np.arange(len(times)) + 1, 1
    ran = plain_run(bars("1h", sessions="09:30-16:00 America/New_York"), ticks, 1)
    spans = ran.records[["start", "end", "open", "close"]].tolist()
    assert spans == [
        (opens, opens + 60 * minute, 2, 3),
        (opens + 60 * minute, opens + 120 * minute, 4, 4),
        (opens + 360 * minute, opens + 390 * minute, 5, 5),
    ]
    assert ran.rows[0]["outside"] == 2


def test_bars_change_with_the_day_and_are_not_filled_over_night() -> None:
    first, second = dt.date(2026, 3, 6), dt.date(2026, 3, 9)  # a weekend, and clocks change
    times = [utc(first, 15, 45, "America/New_York"), utc(second, 10, 45, "America/New_York")]
    ticks = zeros(2)
    ticks["ts_recv"], ticks["kind"], ticks["action"] = times, KIND_TRADE, b"T"
    ticks["price"], ticks["size"] = [5, 6], 1
    ran = plain_run(bars("30m", sessions="09:30-16:00 America/New_York", fill=True), ticks, 1)
    opens = utc(second, 9, 30, "America/New_York")
    half = 30 * 60 * 10**9
    assert ran.records["start"].tolist() == [times[0] - half // 2, opens, opens + half, opens + 2 * half]
    assert ran.records["trades"].tolist() == [1, 0, 0, 1]
    assert ran.records["close"].tolist() == [5, 5, 5, 6]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Sessions.parse("09:30-16:00"), "hours and a zone"),
        (lambda: Sessions.parse("09:30-16:00 Mars/Olympus"), "no time zone 'Mars/Olympus'"),
        (lambda: Sessions.parse("9-16 UTC"), "is not a time of day"),
        (lambda: Sessions.parse("09:30 UTC"), "are not hours"),
        (lambda: Sessions.parse("09:30-25:00 UTC"), "is not a time of day"),
        (lambda: Sessions.parse("09:61-16:00 UTC"), "is not a time of day"),
        (lambda: Sessions.parse("09:30-16:00 UTC mon-noday"), "days:"),
        (lambda: Sessions.parse("00:00-23:00 Europe/Berlin mon"), None),
        (lambda: Sessions.daily("09:30-16:00", "UTC", holidays=["yesterday"]), "holidays:"),
        (lambda: Sessions.daily("09:30-16:00", "UTC", closes={"2026-01-05": "noon"}), "closes:"),
        (lambda: Sessions(np.zeros((0, 2))), "shape"),
        (lambda: Sessions(np.array([1, 2])), "shape"),
        (lambda: Sessions(np.array([[5, 5]])), "end after they start"),
        (lambda: Sessions(np.array([[5, 9], [8, 12]])), "not overlap"),
    ],
)
def test_sessions_that_cannot_be_are_named(make: Any, text: str | None) -> None:
    if text is None:
        make()
        return
    with pytest.raises(ConfigurationError, match=text):
        make()
