"""Days and moments: the trading day of a file, by an option or its name, and moments as people give them (ns since the
epoch, ISO 8601 with a zone, or a time of day on the date of a file).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Self

from strand.errors import ConfigurationError
from strand.validate import is_whole
from strand.zones import zone_named

NEW_YORK: Final = "America/New_York"

#: Bounds of times of our days in s, ms or us, read as ns. Below may be small numbers that mean "from the beginning".
MISREAD_NS: Final = (1_000_000, 3_000_000_000_000_000)
_OUR_DAYS: Final = 1990
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


def check_unit(name: str, ns: int, day: dt.date) -> None:
    """Refuses a time of our days in s, ms or us that was given as ns.

    Args:
        name: The option or column that has the time.
        ns: The time, as it was given.
        day: A day of the ticks.

    Raises:
        ConfigurationError: If the time is early in 1970, and the day is not.
    """
    if day.year >= _OUR_DAYS and MISREAD_NS[0] <= ns < MISREAD_NS[1]:
        raise ConfigurationError(
            name,
            f"{ns} ns since the epoch is early in 1970, but the ticks are of {day}: was the time in s, ms or us? "
            "give ns",
        )


def day_of_ns(time: int, zone: str = NEW_YORK) -> dt.date:
    """The date in ``zone`` at a time in ns since the UNIX epoch."""
    return dt.datetime.fromtimestamp(time // 1_000_000_000, zone_named(zone)).date()


def midnight_ns(date: dt.date, zone: str = NEW_YORK) -> int:
    """The first instant of ``date`` in ``zone``, ns since the UNIX epoch. Raises ConfigurationError."""
    if not 1970 <= date.year <= _LAST_YEAR:
        raise _beyond(date)
    try:
        midnight = dt.datetime.combine(date, dt.time(), zone_named(zone))
    except KeyError:
        raise ConfigurationError(
            "zone", f"{zone} is not known on this system: install its time zone database, or  pip install tzdata"
        ) from None
    seconds = int(midnight.timestamp())
    if seconds < 0:
        raise _beyond(date)
    return seconds * 1_000_000_000


_SECOND: Final = 1_000_000_000
_FRACTION: Final = r"(?:[.,](?P<fraction>\d{1,9}))?"
_TIME_OF_DAY: Final = re.compile(r"(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})" + _FRACTION + ")?")
_ISO: Final = re.compile(
    r"(?P<whole>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?)" + _FRACTION + r"(?P<zone>Z|[+-]\d{2}:?\d{2})?",
    re.IGNORECASE,
)


class Moment(NamedTuple):
    """A moment, known at once or once a date is: ``of_day`` is hours, minutes, seconds and ns."""

    absolute_ns: int | None = None
    of_day: tuple[int, int, int, int] | None = None

    @classmethod
    def parse(cls, name: str, value: str | int) -> Self:
        """The moment that the option ``name`` was given. Raises ConfigurationError."""
        if is_whole(value):
            return cls(absolute_ns=_in_range(name, int(value)))
        text = str(value).strip()
        try:
            if text.isdecimal():
                return cls(absolute_ns=_in_range(name, int(text)))
            if found := _TIME_OF_DAY.fullmatch(text):
                moment = dt.time(int(found["h"]), int(found["m"]), int(found["s"] or 0))
                return cls(of_day=(moment.hour, moment.minute, moment.second, _nanoseconds(found["fraction"])))
            if found := _ISO.fullmatch(text):
                if found["zone"] is None:
                    raise ConfigurationError(
                        name, f"{text!r} has no time zone: end it in Z or in an offset like -05:00"
                    )
                whole = dt.datetime.fromisoformat(found["whole"] + found["zone"].upper())
                return cls(
                    absolute_ns=_in_range(name, int(whole.timestamp()) * _SECOND + _nanoseconds(found["fraction"]))
                )
        except (ValueError, OverflowError) as error:
            if isinstance(error, ConfigurationError):
                raise
            raise ConfigurationError(name, f"{text!r} is not a time: {error}") from None
        raise ConfigurationError(
            name,
            f"{text!r} is not a time: give ns since the epoch, ISO 8601 with a zone (2026-01-05T09:30-05:00) "
            "or a time of day in the files' zone, New York if they have none (09:30, 09:30:00.5)",
        )

    @property
    def needs_date(self) -> bool:
        return self.absolute_ns is None

    def ns(self, date: dt.date | None, path: str | Path, zone: str | None = None) -> int:
        """The moment in ns since the epoch, a time of day being one of ``date`` in ``zone``; None: New York."""
        if self.absolute_ns is not None:
            return self.absolute_ns
        assert self.of_day is not None
        if date is None:
            raise ConfigurationError(
                "date", f"{path} does not say its date, which a time of day needs: give date=, or a time with its date"
            )
        midnight_ns(date, zone or NEW_YORK)  # refuses a date before the epoch, and a system without time zones
        hour, minute, second, fraction = self.of_day
        moment = dt.datetime.combine(date, dt.time(hour, minute, second), zone_named(zone or NEW_YORK))
        return int(moment.timestamp()) * _SECOND + fraction


def _nanoseconds(digits: str | None) -> int:
    return int((digits or "0").ljust(9, "0"))


def _in_range(name: str, value: int) -> int:
    if not 0 <= value < 1 << 63:
        raise ConfigurationError(name, f"give ns since the epoch, from 0 to 2^63 - 1 (the year 2262), not {value}")
    return value
