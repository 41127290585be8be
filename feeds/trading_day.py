"""The trading day of a file that does not say it: from an option or from the file's name."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from strand.errors import ConfigurationError
from strand.zones import ZoneInfoNotFoundError, zone_named

__all__ = ["NEW_YORK", "as_date", "date_in_name", "date_in_names", "day_of_ns", "midnight_ns"]

NEW_YORK: Final = "America/New_York"

# Ticks hold ns since 1970 in 63 bits, which end in April 2262.
_LAST_YEAR: Final = 2261
# An eight-digit run is a year first (20190130) or last (01302019): no month and day read as a year from 1990 on.
_EIGHT_DIGITS: Final = re.compile(r"(?<!\d)\d{8}(?!\d)")
_DASHED: Final = re.compile(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")
# S010220-v50: month, day and the year's last two digits.
_SIX_DIGITS: Final = re.compile(r"(?<!\d)(\d{6})-v\d")


def _parse(text: str, pattern: str) -> dt.date | None:
    try:
        date = dt.datetime.strptime(text, pattern).date()
    except ValueError:
        return None
    return date if 1990 <= date.year <= _LAST_YEAR else None


def date_in_name(path: str | Path) -> dt.date | None:
    """The date in a file's name, or None.

    >>> date_in_name("01302019.NASDAQ_ITCH50.gz"), date_in_name("S010220-v50.txt.gz")
    (datetime.date(2019, 1, 30), datetime.date(2020, 1, 2))
    """
    name = Path(path).name
    for match in _DASHED.finditer(name):
        if date := _parse(match[1], "%Y-%m-%d"):
            return date
    for match in _EIGHT_DIGITS.finditer(name):
        if date := _parse(match[0], "%Y%m%d") or _parse(match[0], "%m%d%Y"):
            return date
    for match in _SIX_DIGITS.finditer(name):
        if date := _parse(match[1], "%m%d%y"):
            return date
    return None


def date_in_names(names: Iterable[str]) -> dt.date | None:
    """The date in the first of a file's names that has one, or None."""
    return next((date for name in names if (date := date_in_name(name)) is not None), None)


def as_date(value: dt.date | str) -> dt.date:
    """A date given as an option: ``datetime.date`` or ``"YYYY-MM-DD"``. Raises ConfigurationError."""
    if isinstance(value, dt.datetime):
        value = value.date()
    elif not isinstance(value, dt.date):
        try:
            value = dt.date.fromisoformat(value)
        except (TypeError, ValueError):
            raise ConfigurationError("date", f"{value!r} is not a date; give it as YYYY-MM-DD") from None
    if not 1970 <= value.year <= _LAST_YEAR:
        raise _beyond(value)
    return value


def _beyond(date: dt.date) -> ConfigurationError:
    return ConfigurationError("date", f"{date} is not from 1970 to {_LAST_YEAR}, the years that ticks can express")


def day_of_ns(time: int, zone: str = NEW_YORK) -> dt.date:
    """The date in ``zone`` at a time in ns since the UNIX epoch."""
    return dt.datetime.fromtimestamp(time // 1_000_000_000, zone_named(zone)).date()


def midnight_ns(date: dt.date, zone: str = NEW_YORK) -> int:
    """The first instant of ``date`` in ``zone``, ns since the UNIX epoch. Raises ConfigurationError."""
    if not 1970 <= date.year <= _LAST_YEAR:
        raise _beyond(date)
    try:
        midnight = dt.datetime.combine(date, dt.time(), zone_named(zone))
    except ZoneInfoNotFoundError:
        raise ConfigurationError(
            "zone", f"{zone} is not known on this system: install its time zone database, or  pip install tzdata"
        ) from None
    seconds = int(midnight.timestamp())
    if seconds < 0:
        raise _beyond(date)
    return seconds * 1_000_000_000
