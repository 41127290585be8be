"""Written forms of moments: patterns of stamps and clocks, and the conversion of local times to UTC."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding.columns import (
    CLOCK,
    DATE,
    EPOCH,
    FAULT_SKIPPED,
    FAULT_TWICE,
    PATTERN,
    STAMP,
    ZONE_ALWAYS,
    ZONE_NEVER,
    Numbers,
)
from strand.errors import ConfigurationError
from strand.zones import zone_named

Times = npt.NDArray[np.int64]
#: Treatment of a local time that comes twice: see ``LocalTimes``.
Ambiguous = Literal["infer", "earliest", "latest", "raise"]

#: The forms that need no pattern, and patterns for others, as errors list them.
STAMPS: Final = (
    "a stamp is ISO 8601, as 2026-09-28T09:30:00.5+02:00, 2026-09-28 09:30 and 20260928T093000, or kdb's "
    "2026.09.28D09:30:00, or digits alone, as 20260928093000, with digits = 6 if a fraction of 6 digits follows them; "
    'give format for any other form, as in format = "%d.%m.%Y %H:%M:%S" or "%m/%d/%y %I:%M %p"'
)
CLOCKS: Final = (
    "a clock is 09:30:00.5, 09:30 or 093000, with digits = 3 if a fraction of 3 digits follows; give format for any "
    'other form, as in format = "%H%M" for 930 (HHMM), '
    '"%H%M%S" for 93000 and 5, "%I:%M:%S %p" for AM and PM'
)
_SHORT: Final = {"T": "%H:%M:%S", "F": "%Y-%m-%d", "D": "%m/%d/%y", "R": "%H:%M"}
_DIRECTIVE: Final = re.compile(r"%(.?)", re.DOTALL)
_KNOWN: Final = "YymbBdjHIpMSfzaA%"
_MONTHS: Final = "mbB"
_DATE: Final = "Yyjd" + _MONTHS
#: Width of the spans in which a zone's offset is looked up: all changes since 1970 lie at their bounds.
_SPAN_NS: Final = 900_000_000_000
_TABLE_SPANS: Final = 1 << 14
_NORMAL, _TWICE, _SKIPPED = range(3)


class Pattern(NamedTuple):
    """A pattern of stamps or clocks, as csrc/codec/text/decimal.h takes it."""

    text: bytes
    has_date: bool
    has_zone: bool


def pattern_of(text: str, where: str) -> Pattern:
    """A pattern of Python's ``strptime`` that says one moment, or one time of day, in one way.

    Raises:
        ConfigurationError: If it has an unknown directive, or one twice, or lacks a part.
    """
    whole = re.sub("%([TFDR])", lambda found: _SHORT[found[1]], text)
    said = [found[1] for found in _DIRECTIVE.finditer(whole)]
    for letter in said:
        if not letter or letter not in _KNOWN:
            raise ConfigurationError(where, f"%{letter} is not one of {', '.join('%' + each for each in _KNOWN)}")
    said = [letter for letter in said if letter != "%"]
    found = set(said)
    has_date = bool(found & set(_DATE))
    years, months = len(found & {"Y", "y"}), len(found & set(_MONTHS))
    by_month = months == 1 and "d" in found and "j" not in found
    problem = ""
    if len(found) < len(said):
        problem = "has a directive twice"
    elif has_date and (years != 1 or not (by_month or ("j" in found and not months and "d" not in found))):
        problem = "has a date in part: a date is a year (%Y or %y), a month (%m, %b or %B) and a day (%d), or %Y and %j"
    elif not has_date and not found & {"H", "I"}:
        problem = "has neither a date nor hours (%H, or %I with %p)"
    elif ("H" in found and "I" in found) or ("I" in found) != ("p" in found):
        problem = "needs either %H, or %I with %p"
    elif (
        ("M" in found and not found & {"H", "I"})
        or ("S" in found and "M" not in found)
        or ("f" in found and "S" not in found)
    ):
        problem = "has minutes without hours, seconds without minutes, or a fraction without seconds"
    elif "z" in found and (said[-1] != "z" or not whole.endswith("%z") or not has_date):
        problem = "may have a zone (%z) at its end only, and only behind a date"
    elif not text.isascii():
        problem = "has letters beyond ASCII"
    if problem:
        raise ConfigurationError(where, f"{text!r} {problem}")
    return Pattern(whole.encode(), has_date, "z" in found)


class LocalTimes:
    """Local times of a zone, given one run of rows after the other, as times in UTC.

    When clocks go back, an hour comes twice. ``ambiguous`` says which of the two a time in it is:

    - ``"infer"``: the order of the rows shows it. Rows that rise into the hour from before it are in its first pass,
      and those from a step back by more than half of it on are in its second one. Anything else is a fault. A row that
      ``lasts`` (a bar of the one symbol that there is) has its own end behind it, from which the next row steps back.
    - ``"earliest"``, ``"latest"``: the first pass, or the second one.
    - ``"raise"``: each is a fault.

    When clocks go forward, they pass over an hour, and a time in it is a fault.
    """

    def __init__(self, zone: str, ambiguous: Ambiguous = "infer", *, lasts: int = 0) -> None:
        self._name, self._zone = zone, zone_named(zone)
        self._is_utc = zone == "UTC"
        self._ambiguous = ambiguous
        self._lasts = lasts
        self._spans: dict[int, tuple[int, int, int]] = {}
        # Of the pass through an hour that comes twice: where the hour begins (None: no row is in it now), the pass, the
        # latest local time in it. ``_before``: a local time of the row before.
        self._hour: int | None = None
        self._pass = 0
        self._latest = 0
        self._before: int | None = None

    @property
    def is_open(self) -> bool:
        """True if the latest rows are in the first pass of an hour, and no row has shown that there is a second."""
        return self._hour is not None and self._pass == 0 and self._ambiguous == "infer"

    def why(self, fault: int) -> str:
        """Words for FAULT_TWICE and FAULT_SKIPPED, to follow a time."""
        if fault == FAULT_SKIPPED:
            return f"does not exist: the clocks of {self._name} go forward over it"
        return f"comes twice: the clocks of {self._name} go back, and the order does not show which one it is"

    def to_utc(self, wall: Times, faults: npt.NDArray[np.uint16] | None = None) -> tuple[Times, Times | None]:
        """Local times, as ns since 1970 as if they were UTC, as times in UTC.

        Args:
            wall: The times, shape (n,).
            faults: Rows with one are left out, shape (n,). None: none are.

        Returns:
            The times, and of each row 0, FAULT_TWICE or FAULT_SKIPPED. None stands for rows without such a fault.
        """
        if self._is_utc or not len(wall):
            return wall, None
        spans = wall // _SPAN_NS
        low, high = int(spans.min()), int(spans.max())
        if high - low < _TABLE_SPANS:
            distinct, places = np.arange(low, high + 1), spans - low
        else:
            distinct, places = np.unique(spans, return_inverse=True)
        table = np.array([self._span(span) for span in distinct.tolist()], np.int64).reshape(-1, 3)
        if (table[:, 2] == _NORMAL).all() and self._hour is None:
            if faults is None or not faults.any():
                self._before = int(wall[-1])
            return wall - (table[0, 0] if (table[:, 0] == table[0, 0]).all() else table[places, 0]), None
        found = wall - table[places, 0]
        state = table[places, 2]
        if faults is not None:
            state = np.where(faults != 0, -1, state)
        bad = np.where(state == _SKIPPED, FAULT_SKIPPED, 0)
        if self._ambiguous == "infer":
            second = self._passes(wall, state, table[:, 0] - table[:, 1], places, bad)
        else:
            second = (state == _TWICE) & (self._ambiguous == "latest")
            if self._ambiguous == "raise":
                bad[state == _TWICE] = FAULT_TWICE
        found = np.where(second, wall - table[places, 1], found)
        return found, bad if bad.any() else None

    def _passes(self, wall: Times, state: Times, widths: Times, places: Times, bad: Times) -> npt.NDArray[np.bool_]:
        """Mask of the rows in the second pass of an hour. ``widths``: for each span, the length of an hour that comes
        twice. Notes in ``bad`` the rows whose pass the order does not show."""
        second = np.zeros(len(wall), np.bool_)
        # Rows outside of such hours matter only beside one: the row before it, and the row after it.
        twice = state == _TWICE
        beside = twice.copy()
        beside[:-1] |= twice[1:]
        beside[1:] |= twice[:-1]
        beside[0] = True
        sound = np.flatnonzero(state >= 0)
        last = int(sound[-1]) if len(sound) else None
        for row in np.flatnonzero(beside & (state >= 0)).tolist():
            time = int(wall[row])
            if not twice[row]:
                if self.is_open:  # the rows of the first pass were not followed by a second one
                    bad[row] = FAULT_TWICE
                self._hour, self._before = None, time
                continue
            width = int(widths[places[row]])
            if self._hour is None:
                begin = self._first_span(time) * _SPAN_NS
                self._hour, self._pass, self._latest = begin, 0, time
                if self._before is None or self._before >= begin:
                    bad[row] = FAULT_TWICE
            elif 2 * (self._latest + self._lasts - time) > width and self._pass == 0:
                self._pass = 1
            elif time < self._latest:
                bad[row] = FAULT_TWICE
            self._latest = time
            second[row] = self._pass == 1
        if last is not None and not twice[last]:
            self._before = int(wall[last])
        return second

    def _first_span(self, time: int) -> int:
        span = time // _SPAN_NS
        while self._span(span - 1)[2] == _TWICE:
            span -= 1
        return span

    def _span(self, span: int) -> tuple[int, int, int]:
        """Lead of the zone over UTC in a span of local time, in ns: in the first pass, and in the second one. The third
        value tells whether the span comes twice, or is skipped."""
        if span not in self._spans:
            if len(self._spans) > 1 << 16:
                self._spans.clear()
            moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=max(span, 0) * (_SPAN_NS // 10**9))
            ahead = [self._ahead(moment.replace(fold=fold)) for fold in (0, 1)]
            state = _NORMAL if ahead[0] == ahead[1] else _TWICE if ahead[0] > ahead[1] else _SKIPPED
            self._spans[span] = (ahead[0], ahead[1], state)
        return self._spans[span]

    def _ahead(self, moment: dt.datetime) -> int:
        ahead = moment.replace(tzinfo=self._zone).utcoffset() or dt.timedelta(0)
        return (ahead.days * 86_400 + ahead.seconds) * 1_000_000_000


class TextTimes:
    """Texts of one form as times, one after the other.

    Args:
        unit: ``"stamp"``, ``"clock"`` or ``"auto"``.
        pattern: The form of stamps and clocks; None: those that need no pattern.
        zone: The zone of those that do not say theirs; None: they have to.
        ambiguous: See ``LocalTimes``.
        date_pattern: The form of dates beside clocks; None: YYYYMMDD and YYYY-MM-DD.
        cure: The way out for a local time that comes twice.
    """

    def __init__(
        self,
        unit: str,
        pattern: Pattern | None,
        zone: str | None,
        ambiguous: Ambiguous = "infer",
        date_pattern: Pattern | None = None,
        *,
        cure: str = 'give ambiguous = "earliest" or "latest" under [time]',
    ) -> None:
        self._unit, self._zone, self._for_twice = unit, zone, cure
        self._local = LocalTimes(zone or "UTC", ambiguous)
        self._form = {"stamp": STAMP, "clock": CLOCK, "auto": EPOCH}[unit] if pattern is None else PATTERN
        text = b"" if pattern is None else pattern.text
        says_zone = unit == "auto" or (pattern is not None and pattern.has_zone)
        zoned, bare = (Numbers(self._form, pattern=text, zone=zone) for zone in (ZONE_ALWAYS, ZONE_NEVER))
        self._zoned = zoned if says_zone or self._form == STAMP else None
        self._bare = None if says_zone else bare
        #: Whether a text is the same time whatever came before it.
        self.is_pure = zone in (None, "UTC") or ambiguous != "infer"
        self._dates = Numbers(DATE) if date_pattern is None else Numbers(PATTERN, pattern=date_pattern.text)

    def ns(self, text: str, date: str | None = None) -> int:
        """A text as ns since 1970 in UTC. ``date``: of a clock.

        Raises:
            ValueError: If the text has another form, or is no time; the message has the cure.
        """
        written = text.strip().encode()
        if self._zoned is not None:
            try:
                return self._zoned.one(written)
            except ValueError as error:
                if self._bare is None:
                    raise ValueError(self._cure(str(error))) from None
        assert self._bare is not None
        try:
            wall = self._bare.one(written)
            if self._unit == "clock":
                wall += self._dates.one((date or "").strip().encode())
        except ValueError as error:
            raise ValueError(self._cure(str(error))) from None
        if self._zone is None:
            raise ValueError('has no time zone: give zone = "UTC", or another one, under [time], or by zone= (--zone)')
        found, bad = self._local.to_utc(np.array([wall], np.int64))
        if bad is not None:
            cure = f"; {self._for_twice}" * (int(bad[0]) == FAULT_TWICE)
            raise ValueError(f"{self._local.why(int(bad[0]))}{cure}")
        if found[0] < 0:
            raise ValueError("is before 1970")
        return int(found[0])

    def _cure(self, said: str) -> str:
        if said != "not of its form" or self._form == EPOCH:
            return f"is {said}"
        if self._form == PATTERN:
            return f"is not of the form {(self._zoned or self._bare).pattern.decode()!r}"  # type: ignore[union-attr]
        return f"is not of its form; {CLOCKS if self._unit == 'clock' else STAMPS}"
