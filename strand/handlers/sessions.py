"""Sessions: when a venue is open, as stretches of time that handlers keep to."""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from strand.brief import brief
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.options import named_fields
from strand.spans import SpanLike, span_ns
from strand.validate import mapping, several, text
from strand.zones import zone_named

__all__ = ["Sessions", "SessionsLike", "session_table"]

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_FIRST, _LAST = dt.date(1970, 1, 2), dt.date(2100, 1, 1)
_EPOCH: Final = dt.date(1970, 1, 1)
_WEEK: Final = 7 * 86_400
_SECOND: Final = 1_000_000_000


@named_fields
@dataclass(frozen=True, eq=False, repr=False)
class Sessions:
    """Stretches of time in which a venue is open. ``Sessions.daily`` makes them from hours in a time zone.

    Args:
        table: The starts and ends, an array of integers, shape (n, 2), n at least 1, in ns since the UNIX epoch. An end
            does not belong to its session. Sessions are in order and do not overlap.

    Raises:
        ConfigurationError: If the table has another shape, or its sessions are not in order or overlap.
    """

    table: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        table = np.ascontiguousarray(self.table, dtype=np.int64)
        if table.ndim != 2 or table.shape[1] != 2 or len(table) == 0:
            raise ConfigurationError(
                "sessions", "the table needs the shape (n, 2), n at least 1: starts and ends in ns"
            )
        if not (table[:, 0] < table[:, 1]).all() or not (table[1:, 0] >= table[:-1, 1]).all():
            raise ConfigurationError("sessions", "they must end after they start, be in order and not overlap")
        object.__setattr__(self, "table", table)

    def __str__(self) -> str:
        """Number of sessions, and a digest that tells tables apart."""
        from hashlib import blake2b

        return f"{len(self.table):,} sessions, {blake2b(self.table.tobytes(), digest_size=8).hexdigest()}"

    def __repr__(self) -> str:
        return brief(self, str(self))

    @classmethod
    def daily(
        cls,
        hours: str,
        zone: str,
        *,
        days: str = "mon-fri",
        holidays: Iterable[dt.date | str] = (),
        closes: Mapping[dt.date | str, str] | None = None,
    ) -> Self:
        """Makes one session per day, from 1970 to 2099.

        A time that clocks skip in spring is the moment of the change. So a session in the skipped hour is left out on
        that day. If a time comes twice in autumn, the first one is meant.

        Args:
            hours: Start and end, like ``"09:30-16:00"``, on the clocks of ``zone``. An end at or before the start is on
                the next day (``"17:00-16:00"``); ``24:00`` is midnight.
            zone: The time zone, like ``"America/New_York"``.
            days: The days of the week on which a session starts, like ``"mon-fri"`` or ``"sun,mon-thu"``.
            holidays: Dates without a session.
            closes: Other ends, by date (``{"2025-07-03": "13:00"}``).

        Raises:
            ConfigurationError: If hours, zone, days or a date cannot be read.
        """
        on = _weekdays(text("days", days))
        free = frozenset(_date("holidays", day) for day in several("holidays", holidays, "['2026-12-25']"))
        ends = mapping("closes", closes or {}, "{'2025-07-03': '13:00'}")
        early = {_date("closes", day): _clock("closes", text("closes", end)) for day, end in ends.items()}
        return cls(
            _daily(_hours(text("hours", hours)), _zone(text("zone", zone)), on, free, tuple(sorted(early.items())))
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Makes daily sessions from text.

        Args:
            text: Hours, zone and perhaps days, as in ``"09:30-16:00 America/New_York mon-fri"``.

        Raises:
            ConfigurationError: If the text cannot be read.
        """
        hours, _, rest = text.strip().partition(" ")
        zone, _, days = rest.strip().partition(" ")
        if not zone:
            raise ConfigurationError("sessions", f"{text!r} needs hours and a zone: '09:30-16:00 America/New_York'")
        return cls.daily(hours, zone, days=days.strip() or "mon-fri")


SessionsLike = Sessions | str


def session_table(sessions: SessionsLike | None, auctions: SpanLike | None = None) -> bytes:
    """Returns an sd_calendar: the number of sessions, how long crosses count after each, then starts and ends. None:
    all of time is one session. Raises ConfigurationError."""
    if sessions is None:
        if auctions is not None:
            raise ConfigurationError(
                "auctions", "without sessions= all trades count: give sessions too, or leave it out"
            )
        return struct.pack("=Qq", 0, 0)
    if isinstance(sessions, str):
        sessions = Sessions.parse(sessions)
    if not isinstance(sessions, Sessions):
        raise ConfigurationError(
            "sessions", f"{sessions!r} is neither strand.Sessions nor text like '09:30-16:00 America/New_York'"
        )
    after = 0 if auctions is None else span_ns("auctions", auctions)
    return struct.pack("=Qq", len(sessions.table), after) + sessions.table.tobytes()


def _clock(name: str, text: str) -> int:
    found = _HOURS.fullmatch(text.strip())
    hour, minute, second = (int(part or 0) for part in found.groups()) if found else (99, 0, 0)
    if minute > 59 or second > 59 or hour * 3600 + minute * 60 + second > 86_400:
        raise ConfigurationError(name, f"{text!r} is not a time of day like 09:30 or 24:00")
    return hour * 3600 + minute * 60 + second


def _hours(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not dash:
        raise ConfigurationError("sessions", f"{text!r} are not hours like 09:30-16:00")
    start, end = _clock("sessions", first), _clock("sessions", last)
    return start, end if end > start else end + 86_400


def _weekdays(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in text.lower().split(","):
        first, _, last = part.strip().partition("-")
        if first not in _DAYS or (last or first) not in _DAYS:
            raise ConfigurationError(
                "days", f"{text!r} is not made of {', '.join(_DAYS)} like 'mon-fri' or 'sun,mon-thu'"
            )
        low, high = _DAYS.index(first), _DAYS.index(last or first)
        days.update(day % 7 for day in range(low, (high if high >= low else high + 7) + 1))
    return frozenset(days)


def _date(name: str, day: dt.date | str) -> dt.date:
    try:
        return day if isinstance(day, dt.date) else dt.date.fromisoformat(day)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(name, f"{day!r} is not a date like 2026-12-25") from error


def _zone(name: str) -> str:
    try:
        return str(zone_named(name))
    except (KeyError, ValueError, OSError) as error:
        raise ConfigurationError(
            "sessions",
            f"there is no time zone {name!r} here; names are like America/New_York, and a system without any "
            "needs the package 'tzdata'",
        ) from error


@lru_cache(maxsize=16)
def _daily(
    hours: tuple[int, int], zone: str, on: frozenset[int], free: frozenset[dt.date], early: tuple[Any, ...]
) -> npt.NDArray[np.int64]:
    start_s, end_s = hours
    days = np.arange((_FIRST - _EPOCH).days, (_LAST - _EPOCH).days, dtype=np.int64)
    keep = np.isin((days + 3) % 7, sorted(on)) & ~np.isin(days, [(day - _EPOCH).days for day in free])
    days = days[keep]
    ends = np.full(len(days), end_s, np.int64)
    for day, close in early:
        ends[days == (day - _EPOCH).days] = close if close > start_s else close + 86_400
    table = np.stack([_utc(days * 86_400 + start_s, zone), _utc(days * 86_400 + ends, zone)], axis=1)
    kept: npt.NDArray[np.int64] = (table[table[:, 0] < table[:, 1]] * _SECOND).astype(np.int64)
    return kept


def _utc(wall: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    """Seconds since the epoch of times on the clocks of a zone, given as seconds since its 1970-01-01T00:00."""
    moments, offsets = _offsets(zone)
    # On the clocks, the old offset holds until both would agree that it is over.
    until = moments[1:] + np.maximum(offsets[:-1], offsets[1:])
    at = np.searchsorted(until, wall, side="right")
    # A time that the clocks skip is the moment of the change.
    found: npt.NDArray[np.int64] = np.minimum(wall - offsets[at], np.append(moments[1:], np.iinfo(np.int64).max)[at])
    return found


@lru_cache(maxsize=16)
def _offsets(zone: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Moments at which a zone's offset from UTC changed, and the new offsets: found by looking once a week, then by
    halving."""
    info = zone_named(zone)

    def offset(second: int) -> int:
        found = info.utcoffset(dt.datetime.fromtimestamp(second, dt.UTC).astimezone(info))
        assert found is not None
        return found.days * 86_400 + found.seconds

    end = ((_LAST - _EPOCH).days + 2) * 86_400
    moments, offsets = [0], [offset(0)]
    for week in range(_WEEK, end + _WEEK, _WEEK):
        now = offset(week)
        if now == offsets[-1]:
            continue
        low, high = week - _WEEK, week
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if offset(middle) == now else (middle, high)
        moments.append(high)
        offsets.append(now)
    return np.array(moments, np.int64), np.array(offsets, np.int64)
