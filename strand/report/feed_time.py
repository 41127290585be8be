"""The feed's time in figures and tables: on the clocks of the market's sessions, or in UTC where no zone is known."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strand.report.canvas import matplotlib
from strand.zones import zone_named

if TYPE_CHECKING:
    from strand.feeds import FeedInfo

__all__ = ["UTC_CLOCK", "FeedClock", "clock_of", "feed_clock", "feed_time_axis"]


class FeedClock(NamedTuple):
    """The zone that times are shown in, and what it is called."""

    zone: dt.tzinfo
    name: str

    def moment(self, ns: int) -> str:
        """A time in ns since 1970-01-01 UTC, as 2026-01-05 09:30:00.123 on these clocks."""
        second, rest = divmod(ns, 10**9)
        return f"{dt.datetime.fromtimestamp(second, self.zone):%Y-%m-%d %H:%M:%S}.{rest // 10**6:03}"


UTC_CLOCK: Final = FeedClock(dt.UTC, "UTC")


def feed_clock(info: FeedInfo) -> FeedClock:
    """The clock of the market's sessions; UTC, where nobody knows their zone, or this system does not. Where nobody
    knows of which day times are, they are times of day at the market, and count from 1970-01-01."""
    return clock_of(info.zone, undated=info.undated)


def clock_of(zone: str | None, *, undated: bool = False) -> FeedClock:
    """The clock of ``FeedInfo.zone`` and ``FeedInfo.undated``: see ``feed_clock``."""
    if undated:
        return FeedClock(dt.UTC, f"{zone or 'the market'}, date unknown")
    try:
        return UTC_CLOCK if zone is None else FeedClock(zone_named(zone), zone)
    except (ValueError, OSError, KeyError):  # a file may name any
        return UTC_CLOCK


def feed_time_axis(axis: Any, clock: FeedClock, words: str) -> None:
    """Times below an axis of dates, by a clock, which is named behind ``words``."""
    dates = matplotlib("dates")
    locator = dates.AutoDateLocator(tz=clock.zone)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=clock.zone))
    axis.set_xlabel(f"{words}, {clock.name}")
