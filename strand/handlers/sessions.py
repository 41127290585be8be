"""Sessions: when a venue is open, as stretches of time that handlers keep to."""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from strand.brief import brief
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.lazy import imported
from strand.options import named_fields
from strand.spans import SpanLike, span_ns
from strand.validate import mapping, several, text, yes_or_no
from strand.zones import zone_named

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_FIRST, _LAST = dt.date(1970, 1, 2), dt.date(2100, 1, 1)
_EPOCH: Final = dt.date(1970, 1, 1)
#: Seconds between two looks at a zone's offset. Since 1970 no zone has changed its offset twice within 6 days.
_LOOK: Final = 3 * 86_400
_SECOND: Final = 1_000_000_000
_EXAMPLE: Final = "'09:30-16:00 America/New_York', or a calendar like 'XNYS'"
#: Bytes of an sd_unknown_text of csrc/measures/calendar.h, with the zero at its end.
_TEXT_BYTES: Final = 104


class Unknown(NamedTuple):
    """A stretch of time with unknown hours: start and end in ns since the epoch, the reason, and the cure."""

    start: int
    end: int
    reason: str


@named_fields
@dataclass(frozen=True, eq=False, repr=False)
class Sessions:
    """Stretches of time in which a venue is open. ``Sessions.daily`` makes them from hours in a time zone, and
    ``Sessions.calendar`` from the calendar of an exchange.

    Args:
        table: The starts and ends, an array of integers, shape (n, 2), n at least 1, in ns since the UNIX epoch. An end
            does not belong to its session. Sessions are in order and do not overlap.
        unknown: Stretches of time of which nobody knows whether the venue was open: (start, end, reason), in order. A
            handler that meets a tick there fails, and its error has the reason.

    Raises:
        ConfigurationError: If the table has another shape, or its sessions are not in order or overlap.
    """

    table: npt.NDArray[np.int64]
    unknown: tuple[tuple[int, int, str], ...] = ()

    def __post_init__(self) -> None:
        table = np.ascontiguousarray(self.table, dtype=np.int64)
        if table.ndim != 2 or table.shape[1] != 2 or len(table) == 0:
            raise ConfigurationError(
                "sessions", "the table needs the shape (n, 2), n at least 1: starts and ends in ns"
            )
        if not (table[:, 0] < table[:, 1]).all() or not (table[1:, 0] >= table[:-1, 1]).all():
            raise ConfigurationError("sessions", "they must end after they start, be in order and not overlap")
        try:
            unknown = tuple(Unknown(int(start), int(end), str(reason)) for start, end, reason in self.unknown)
        except (TypeError, ValueError) as error:
            raise ConfigurationError("unknown", f"{self.unknown!r} is not a list of (start, end, reason)") from error
        edges = [edge for one in unknown for edge in one[:2]]
        if edges != sorted(edges) or any(one.start >= one.end for one in unknown):
            raise ConfigurationError("unknown", "stretches must end after they start, be in order and not overlap")
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "unknown", unknown)

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
    def calendar(cls, name: str, *, breaks: bool = True, hours: Mapping[dt.date | str, str] | None = None) -> Self:
        """Makes the sessions of an exchange, from 1970 to 2099 or as far as its calendar goes, by the package
        ``exchange_calendars``, which the extra ``[calendars]`` installs.

        Days without trading, early closes and late opens are those of the package. Time that its calendar does not know
        is in ``unknown``: years before and after it, sessions that the package lost, and hours that it lacks.

        Args:
            name: The calendar's name, like ``"XNYS"`` or ``"24/7"``.
            breaks: A break, such as lunch in Tokyo, ends a session, and another one begins after it. False: a session
                goes on through its break.
            hours: Other hours by date, on the clocks of the exchange: ``{"2025-11-13": "10:00-16:30"}``, or
                ``"closed"``.

        Raises:
            ConfigurationError: If no calendar has the name, if the package cannot make it, or for a date or hours that
                cannot be read.
            MissingExtraError: If the package is not installed.
        """
        given = mapping("hours", hours or {}, "{'2025-11-13': '10:00-16:30'}")
        other = {_date("hours", day): text("hours", its).strip() for day, its in given.items()}
        return cls(*_calendar(text("name", name), yes_or_no("breaks", breaks), tuple(sorted(other.items()))))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Makes sessions from text.

        Args:
            text: Hours, zone and perhaps days, as in ``"09:30-16:00 America/New_York mon-fri"``. Or the calendar of an
                exchange, as in ``"XNYS"``, perhaps with ``nobreak`` or other hours of dates behind it, as in ``"XKRX
                2025-11-13=10:00-16:30"``.

        Raises:
            ConfigurationError: If the text cannot be read.
            MissingExtraError: If it names a calendar, and the package for it is not installed.
        """
        first, *rest = text.split() or [""]
        if re.fullmatch(r"[A-Za-z0-9/_]+", first) and all("=" in word or word == "nobreak" for word in rest):
            dates = (word.split("=", 1) for word in rest if word != "nobreak")
            hours: dict[dt.date | str, str] = {day: said for day, said in dates}  # noqa: C416 - of the wider type
            return cls.calendar(first, breaks="nobreak" not in rest, hours=hours)
        if not rest:
            raise ConfigurationError("sessions", f"{text!r} needs hours and a zone: {_EXAMPLE}")
        return cls.daily(first, rest[0], days=" ".join(rest[1:]) or "mon-fri")

    def around(self, times: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Finds the sessions that contain moments.

        Args:
            times: Moments in ns since the UNIX epoch: one, or an array of any shape.

        Returns:
            The start and the end of the session of each, in a last axis of two; zeros outside of sessions.

        Raises:
            ConfigurationError: If a moment is in a stretch that nobody knows.
        """
        found = np.asarray(times, np.int64)
        unknown = np.array([one[:2] for one in self.unknown], np.int64).reshape(-1, 2)
        if len(met := np.flatnonzero(np.isin(unknown[:, 0], sessions_in(unknown, found)[..., 0]))):
            raise ConfigurationError("sessions", self.unknown[met[0]][2])
        return sessions_in(self.table, found)


SessionsLike = Sessions | str


def sessions_in(table: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Start and end of the session of each time, in a last axis of two; zeros where it is in none."""
    if not len(table):
        return np.zeros((*times.shape, 2), np.int64)
    at = np.searchsorted(table[:, 0], times, side="right") - 1
    inside = (at >= 0) & (times < table[at, 1])
    found: npt.NDArray[np.int64] = np.where(inside[..., None], table[at], 0)
    return found


def session_table(sessions: SessionsLike | None, auctions: SpanLike | None = None) -> bytes:
    """Returns an sd_calendar: the numbers of sessions and unknown stretches, how long crosses count after a session,
    starts and ends of both, and the texts of unknown stretches. None: all of time is one session. Raises
    ConfigurationError."""
    if sessions is None:
        if auctions is not None:
            raise ConfigurationError(
                "auctions", "without sessions= all trades count: give sessions too, or leave it out"
            )
        return struct.pack("=QQq", 0, 0, 0)
    if isinstance(sessions, str):
        sessions = Sessions.parse(sessions)
    if not isinstance(sessions, Sessions):
        raise ConfigurationError("sessions", f"{sessions!r} is neither strand.Sessions nor text like {_EXAMPLE}")
    after = 0 if auctions is None else span_ns("auctions", auctions)
    unknown = [Unknown(*one) for one in sessions.unknown]
    return b"".join(
        (
            struct.pack("=QQq", len(sessions.table), len(unknown), after),
            sessions.table.tobytes(),
            np.array([one[:2] for one in unknown], np.int64).tobytes(),
            *(one.reason.encode()[: _TEXT_BYTES - 1].ljust(_TEXT_BYTES, b"\0") for one in unknown),
        )
    )


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
        if isinstance(day, dt.datetime):
            return day.date()
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
    """Moments at which a zone's offset from UTC changed, and the new offsets: found by looking every few days, then by
    halving."""
    info = zone_named(zone)

    def offset(second: int) -> int:
        found = info.utcoffset(dt.datetime.fromtimestamp(second, dt.UTC).astimezone(info))
        assert found is not None
        return found.days * 86_400 + found.seconds

    end = ((_LAST - _EPOCH).days + 2) * 86_400
    moments, offsets = [0], [offset(0)]
    for look in range(_LOOK, end + _LOOK, _LOOK):
        now = offset(look)
        if now == offsets[-1]:
            continue
        low, high = look - _LOOK, look
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if offset(middle) == now else (middle, high)
        moments.append(high)
        offsets.append(now)
    return np.array(moments, np.int64), np.array(offsets, np.int64)


def table_in(calendar: bytes) -> npt.NDArray[np.int64]:
    """Starts and ends of the sessions of an sd_calendar."""
    numbers = np.frombuffer(calendar, np.int64)
    return numbers[3 : 3 + 2 * int(numbers[0])].reshape(-1, 2)


# ---- calendars of exchanges

_NEVER: Final = np.iinfo(np.int64).min  # NaT, of a day without a break
#: Korea's exam has been on the Thursday of these days of November since 2021. Shares then trade an hour later.
_EXAM_DAYS: Final = range(13, 20)


@lru_cache(maxsize=16)
def _calendar(
    name: str, breaks: bool, hours: tuple[tuple[dt.date, str], ...]
) -> tuple[npt.NDArray[np.int64], tuple[Unknown, ...]]:
    """Table and unknown stretches of a calendar."""
    import warnings

    with warnings.catch_warnings():  # of pandas, about the code of exchange_calendars
        warnings.simplefilter("ignore")
        made, first, last = _made(name)
        schedule = made.schedule
        days = schedule.index.to_numpy().astype("datetime64[D]").astype(np.int64)
        opens, closes, stops, resumes = (
            schedule[column].to_numpy("datetime64[ns]").astype(np.int64)
            for column in ("open", "close", "break_start", "break_end")
        )
        lost = _lost(made, days, first, last)
    zone, others = _zone(str(made.tz)), {_number(day) for day, _ in hours}
    kept = ~np.isin(days, list(others))
    paused = kept & (stops != _NEVER) & breaks
    parts = [
        np.stack([opens, np.where(paused, stops, closes)], axis=1)[kept],
        np.stack([resumes, closes], axis=1)[paused],
        *(_moments([_number(day)], _hours(its), zone) for day, its in hours if its != "closed"),
    ]
    table = np.concatenate(parts)
    table = table[np.argsort(table[:, 0])]

    from importlib.metadata import version

    its = f"{made.name} ({version('exchange_calendars')})"
    reasons = {
        day: f"{its} lost {_day(day)} with pandas {version('pandas')}: use 'pandas<3', "
        f"or '{made.name} {_day(day)}=HH:MM-HH:MM'"
        for day in lost
    }
    for day in _exams(table, last) if made.name == "XKRX" else ():
        reasons[day] = f"{its} lacks the exam hours of {_day(day)}: give '{made.name} {_day(day)}=10:00-16:30'"
    unknown = [
        Unknown(int(start), int(end), reason)
        for day, reason in sorted(reasons.items())
        if day not in others
        for start, end in _moments([day], (0, 86_400), zone)
    ]
    (start, _), (_, end) = _moments([first, last], (0, 86_400), zone).tolist()
    years = f"{its} knows {_day(first)} to {_day(last)}: update exchange_calendars, or give strand.Sessions"
    # A time of 0 is none.
    before = [Unknown(1, start, years)] if first > (_FIRST - _EPOCH).days else []
    return table, (*before, *unknown, Unknown(end, np.iinfo(np.int64).max, years))


def _made(name: str) -> tuple[Any, int, int]:
    """The calendar of exchange_calendars over all that it knows, and its first and last day since the epoch."""
    package = imported("exchange_calendars", "calendars", f"sessions={name!r}")
    names = package.get_calendar_names(include_aliases=True)
    if name not in names:
        from difflib import get_close_matches

        near = ", ".join(get_close_matches(name.upper(), names, 5))
        also = f" (near: {near})" if near else ""
        raise ConfigurationError("sessions", f"exchange_calendars has no calendar {name!r}{also}: give {_EXAMPLE}")
    first, last = _FIRST, _LAST - dt.timedelta(1)
    try:
        a_month = package.get_calendar(
            name, start="2024-01-02", end="2024-02-01"
        )  # made at once, to ask for its bounds
        low, high = a_month.bound_min(), a_month.bound_max()
        first = first if low is None else max(first, low.date())
        last = last if high is None else min(last, high.date())
        made = package.get_calendar(name, start=first.isoformat(), end=last.isoformat())
    except Exception as error:
        from importlib.metadata import version

        raise ConfigurationError(
            "sessions",
            f"exchange_calendars {version('exchange_calendars')} cannot make {name} with pandas {version('pandas')}, "
            f"perhaps with 'pandas<3': {type(error).__name__}: {str(error)[:200]}",
        ) from error
    return made, (first - _EPOCH).days, (last - _EPOCH).days


def _lost(made: Any, days: npt.NDArray[np.int64], first: int, last: int) -> list[int]:
    """Days that are sessions by a calendar's own rules for weekends, and that it left out, as it does with pandas 3."""
    masks = [
        (
            first if start is None else max(first, _number(start)),
            last if end is None else min(last, _number(end)),
            days_on,
        )
        for start, end, days_on in getattr(made, "special_weekmasks", ())
    ]
    if not masks:
        return []
    rules, low, high = made.regular_holidays, min(mask[0] for mask in masks), max(mask[1] for mask in masks)
    known = [] if rules is None else rules.holidays(_day(low).isoformat(), _day(high).isoformat())
    told = np.union1d(days, [_number(day) for day in (*made.adhoc_holidays, *known)])
    found: list[int] = []
    for start, end, days_on in masks:
        its = np.arange(start, end + 1, dtype=np.int64)
        its = its[[days_on[day] == "1" for day in (its + 3) % 7]]
        found += np.setdiff1d(its, told).tolist()
    return found


def _exams(table: npt.NDArray[np.int64], last: int) -> list[int]:
    """Days of Korea's exam in years whose November and December have no session that begins at 10:00."""
    starts = table[:, 0] // _SECOND
    late = starts[starts % 86_400 == 3600] // 86_400
    found = []
    for year in range(2021, _EPOCH.year + last // 365):
        low, high = (_number(dt.date(year, 11, 1)), _number(dt.date(year, 12, 31)))
        if high <= last and not ((late >= low) & (late <= high)).any():
            found += [low + day - 1 for day in _EXAM_DAYS if (low + day - 1 + 3) % 7 == 3]
    return found


def _number(day: Any) -> int:
    """Days since the epoch, of whatever numpy reads as a date."""
    return int(np.datetime64(getattr(day, "date", lambda: day)(), "D").astype(np.int64))


def _day(number: int) -> dt.date:
    return _EPOCH + dt.timedelta(number)


def _moments(days: list[int], hours: tuple[int, int], zone: str) -> npt.NDArray[np.int64]:
    """Starts and ends in ns of the same hours of days, on the clocks of a zone."""
    midnights = np.array(days, np.int64) * 86_400
    return np.stack([_utc(midnights + at, zone) for at in hours], axis=1) * _SECOND
