"""Moments as people give them: ns since the epoch, ISO 8601 with a zone, or a time of day on a file's date."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Final, NamedTuple, Self

from strand.errors import ConfigurationError
from strand.feeds.trading_day import NEW_YORK, midnight_ns
from strand.validate import is_whole
from strand.zones import zone_named

__all__ = ["Moment"]

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
    def parse(cls, name: str, value: str | int | None) -> Self | None:
        """The moment that the option ``name`` was given. Raises ConfigurationError."""
        if value is None or is_whole(value):
            return None if value is None else cls(absolute_ns=_in_range(name, int(value)))
        text = str(value).strip()
        if text.isdecimal():
            return cls(absolute_ns=_in_range(name, int(text)))
        try:
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
