"""Calendars of exchanges: half days, holidays, breaks and changes of clocks, and what a calendar does not know."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pytest

import strand
from strand import testing
from strand.errors import ConfigurationError, HandlerError, MissingExtraError
from strand.handlers.loading import load_handler
from strand.zones import zone_named

calendars = pytest.importorskip("exchange_calendars")
pandas = pytest.importorskip("pandas")
# Calendars are made by packages in Python, which takes minutes where memory is checked.
pytestmark = pytest.mark.python

MINUTE = 60 * 10**9
NEW_YORK, HONG_KONG, TOKYO, SEOUL = "America/New_York", "Asia/Hong_Kong", "Asia/Tokyo", "Asia/Seoul"


def at(text: str, zone: str) -> int:
    """A time on a zone's clocks, in ns, as the standard library has it."""
    return int(dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 10**9


def trades(times: list[int]) -> npt.NDArray[Any]:
    """Trades of one symbol, with sizes that are powers of two: a sum of them says which ones it has."""
    ticks = strand.ticks.zeros(len(times))
    ticks["ts_recv"] = ticks["ts_event"] = times
    ticks["price"], ticks["size"] = 10**9, 1 << np.arange(len(times))
    ticks["kind"], ticks["action"], ticks["side"] = strand.ticks.KIND_TRADE, b"T", b"N"
    return ticks


def replayed(like: Any, ticks: npt.NDArray[Any], workers: int = 2, **options: Any) -> strand.ReplayResult:
    if workers:
        options["cores"] = None
    return strand.replay(testing.ListFeed(ticks, ["A"]), like, workers=workers, **options)


def spans(sessions: strand.Sessions, first: str, last: str, zone: str) -> list[str]:
    """The sessions that begin on days from ``first`` to ``last``, as a clock on the wall shows them."""
    low, high = at(first, zone), at(last, zone) + 86_400 * 10**9
    found = []
    for start, end in sessions.table.tolist():
        if low <= start < high:
            a, b = (dt.datetime.fromtimestamp(time // 10**9, ZoneInfo(zone)) for time in (start, end))
            found.append(f"{a:%m-%d %H:%M}-{b:%H:%M}")
    return found


@pytest.mark.parametrize(
    ("text", "zone", "first", "last", "expected"),
    [
        # Thanksgiving is the fourth Thursday of November; the day after closes at 13:00.
        ("XNYS", NEW_YORK, "2026-11-25", "2026-11-30", ["11-25 09:30-16:00", "11-27 09:30-13:00", "11-30 09:30-16:00"]),
        # Clocks go back on 2026-11-01 and forward on 2026-03-08: the hours on the wall stay.
        ("XNYS", NEW_YORK, "2026-10-30", "2026-11-02", ["10-30 09:30-16:00", "11-02 09:30-16:00"]),
        ("XNYS", NEW_YORK, "2026-03-06", "2026-03-09", ["03-06 09:30-16:00", "03-09 09:30-16:00"]),
        ("NYSE", NEW_YORK, "2026-12-24", "2026-12-28", ["12-24 09:30-13:00", "12-28 09:30-16:00"]),
        # Lunch in Hong Kong, and half a day before New Year, which has none.
        ("XHKG", HONG_KONG, "2025-12-30", "2026-01-01",
         ["12-30 09:30-12:00", "12-30 13:00-16:00", "12-31 09:30-12:00"]),
        ("XHKG nobreak", HONG_KONG, "2025-12-30", "2026-01-01", ["12-30 09:30-16:00", "12-31 09:30-12:00"]),
        # Tokyo closes half an hour later since 2024-11-05; the day before was a holiday.
        ("XTKS", TOKYO, "2024-11-01", "2024-11-05",
         ["11-01 09:00-11:30", "11-01 12:30-15:00", "11-05 09:00-11:30", "11-05 12:30-15:30"]),
        ("24/7", "UTC", "2026-11-28", "2026-11-29", ["11-28 00:00-00:00", "11-29 00:00-00:00"]),
    ],
)  # fmt: skip
def test_a_calendar_s_sessions_are_those_of_the_clocks_at_the_exchange(
    text: str, zone: str, first: str, last: str, expected: list[str]
) -> None:
    assert spans(strand.Sessions.parse(text), first, last, zone) == expected


#: Around the half day after Thanksgiving: before the open, the open, the last ns, the close, the afternoon; and the
#: holiday before it.
HALF_DAY = [
    at("2026-11-26 12:00", NEW_YORK),
    at("2026-11-27 08:00", NEW_YORK),
    at("2026-11-27 09:30", NEW_YORK) - 1,
    at("2026-11-27 09:30", NEW_YORK),
    at("2026-11-27 12:59", NEW_YORK),
    at("2026-11-27 13:00", NEW_YORK) - 1,
    at("2026-11-27 13:00", NEW_YORK),
    at("2026-11-27 15:59", NEW_YORK),
]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_half_day_has_its_own_last_bar_and_what_is_outside_of_it_is_counted(workers: int) -> None:
    result = replayed(strand.bars("1h", sessions="XNYS"), trades(HALF_DAY), workers)
    opens = at("2026-11-27 09:30", NEW_YORK)
    found = result.outputs["bars"][["start", "end", "volume", "flags"]].tolist()
    assert found == [
        (opens, opens + 60 * MINUTE, 8, 0),
        (opens + 180 * MINUTE, opens + 210 * MINUTE, 16 + 32, strand.handlers.BAR_CUT),
    ]
    assert result.rows["A"]["outside"] == 5
    (warned,) = [one for one in result.warnings if one.kind == "trades outside of sessions"]
    assert warned.count == 5


@pytest.mark.parametrize("make", [strand.vwap, strand.trade_stats])
def test_totals_of_a_half_day_leave_out_what_came_before_and_after_it(make: Any) -> None:
    row = replayed(make(sessions="XNYS"), trades(HALF_DAY)).rows["A"]
    assert (row["volume"], row["trades"], row["outside"]) == (8 + 16 + 32, 3, 5)


def test_daily_bars_of_an_exchange_with_lunch_are_two_or_one_by_choice() -> None:
    times = [at(f"2025-12-30 {hour}", HONG_KONG) for hour in ("09:30", "11:59", "12:00", "12:59", "13:00", "15:59")]
    ticks = trades(times)
    apart = replayed(strand.bars("1d", sessions="XHKG"), ticks)
    assert apart.outputs["bars"]["volume"].tolist() == [1 + 2, 16 + 32]
    assert apart.rows["A"]["outside"] == 2
    whole = replayed(strand.bars("1d", sessions="XHKG nobreak"), ticks)
    assert whole.outputs["bars"]["volume"].tolist() == [63]


def test_a_market_that_never_closes_has_nothing_outside() -> None:
    times = [at(f"2026-11-{day} {hour}", "UTC") for day in (28, 29) for hour in ("00:00", "23:59")]
    result = replayed(strand.bars("1d", sessions="24/7"), trades(times))
    assert result.outputs["bars"]["volume"].tolist() == [1 + 2, 4 + 8]
    assert result.rows["A"]["outside"] == 0


def test_snapshots_of_a_calendar_are_taken_while_it_is_open_alone() -> None:
    wanted = strand.snapshot(every="1h", fields=["trades"], sessions="XNYS")
    found = replayed("trades", trades(HALF_DAY), snapshot=wanted).snapshots
    assert found is not None
    hours = [at(f"2026-11-27 {hour}:00", NEW_YORK) for hour in (10, 11, 12, 13)]
    assert found.times.tolist() == hours


# ---- what a calendar does not know


def every_handler(sessions: Any) -> list[Any]:
    return [
        strand.bars("1m", sessions=sessions),
        strand.bars(ticks=5, outside="bars", sessions=sessions),
        strand.vwap(sessions=sessions),
        strand.trade_stats(sessions=sessions),
        strand.spread(sessions=sessions),
        strand.imbalance(sessions=sessions),
        strand.volatility("1m", sessions=sessions),
    ]


@pytest.mark.parametrize("number", range(7))
def test_a_tick_of_a_year_that_a_calendar_does_not_know_is_an_error_with_its_range(number: int) -> None:
    like = every_handler("XHKG")[number]
    ticks = trades([at("2049-12-30 10:00", HONG_KONG), at("2050-01-03 10:00", HONG_KONG)])
    if number in (4, 5):
        ticks["kind"], ticks["action"], ticks["side"] = strand.ticks.KIND_QUOTE, b"A", b"B"
    with pytest.raises(HandlerError, match=r"XHKG \(.*\) knows 1970-01-02 to 2049-12-31: update") as caught:
        replayed(like, ticks)
    assert caught.value.number == 2


def test_a_time_of_zero_is_none_and_no_year_before_the_calendar() -> None:
    ticks = trades([0, at("2024-11-05 09:00", TOKYO)])
    assert replayed(strand.vwap(sessions="XTKS"), ticks).rows["A"]["volume"] == 2
    ticks["ts_recv"][0] = ticks["ts_event"][0] = at("1996-06-03 10:00", TOKYO)
    with pytest.raises(HandlerError, match="knows 1997-01-01 to"):
        replayed(strand.vwap(sessions="XTKS"), ticks)


def test_an_exam_day_of_korea_that_the_package_lacks_is_an_error_with_its_cure() -> None:
    known = at("2020-12-03 09:30", SEOUL)  # an exam day that it has: it opens at 10:00
    assert replayed(strand.vwap(sessions="XKRX"), trades([known])).rows["A"]["outside"] == 1
    exam = [at("2025-11-12 09:30", SEOUL), at("2025-11-13 16:00", SEOUL), at("2025-11-14 09:30", SEOUL)]
    if strand.Sessions.calendar("XKRX").around(exam[0])[0] == 0:
        pytest.fail("the day before the exam has a session")
    with pytest.raises(HandlerError, match=r"lacks the exam hours of 2025-11-13: give 'XKRX 2025-11-13=10:00-16:30'"):
        replayed(strand.vwap(sessions="XKRX"), trades(exam))
    cured = strand.Sessions.parse("XKRX 2025-11-13=10:00-16:30 2025-11-17=closed")
    days = ["11-12 09:00-15:30", "11-13 10:00-16:30", "11-14 09:00-15:30", "11-18 09:00-15:30"]
    assert spans(cured, "2025-11-12", "2025-11-18", SEOUL) == days
    row = replayed(strand.vwap(sessions=cured), trades(exam)).rows["A"]
    assert (row["volume"], row["outside"]) == (7, 0)
    wanted = strand.snapshot(every="1h", fields=["trades"], sessions="XKRX")
    with pytest.raises(ConfigurationError, match="lacks the exam hours"):
        replayed("trades", trades(exam), snapshot=wanted)


@pytest.mark.skipif(int(pandas.__version__.split(".")[0]) < 3, reason="the package loses no session with it")
def test_a_session_that_the_package_loses_with_pandas_3_is_an_error_and_no_closed_day() -> None:
    saturday = trades([at("2024-01-20 10:00", "Asia/Kolkata")])  # the exchange in Mumbai traded on it
    with pytest.raises(HandlerError, match=r"XBOM \(.*\) lost 2024-01-20 with pandas .*: use 'pandas<3', or 'XBOM"):
        replayed(strand.vwap(sessions="XBOM"), saturday)
    assert replayed(strand.vwap(sessions="XBOM 2024-01-20=09:15-15:30"), saturday).rows["A"]["volume"] == 1
    sunday = trades([at("2024-01-21 10:00", "Asia/Kolkata")])
    assert replayed(strand.vwap(sessions="XBOM"), sunday).rows["A"]["outside"] == 1
    with pytest.raises(ConfigurationError, match=r"cannot make XTAE with pandas 3.*perhaps with 'pandas<3'"):
        strand.Sessions.calendar("XTAE")


def test_an_unknown_stretch_between_sessions_cuts_the_time_around_it() -> None:
    table = np.array([[100, 200], [500, 600]])
    sessions = strand.Sessions(table, unknown=((300, 400, "nobody was there"),))
    ticks = trades([150, 250, 450, 550])
    assert replayed(strand.vwap(sessions=sessions), ticks).rows["A"]["outside"] == 2
    for time in (300, 399):
        with pytest.raises(HandlerError, match="nobody was there"):
            replayed(strand.vwap(sessions=sessions), trades([250, time, 450]))
    replayed(strand.vwap(sessions=sessions), trades([250, 400, 450]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("XNSY", r"no calendar 'XNSY' \(near: .*XNYS"),
        ("Nasdaq", r"no calendar 'Nasdaq' \(near: NASDAQ"),
        ("qqqqqq", r"no calendar 'qqqqqq': give '09:30-16:00 America/New_York', or a calendar like 'XNYS'"),
        ("XNYS 2026-13-01=closed", "hours: '2026-13-01' is not a date"),
        ("XNYS 2026-12-01=shut", "sessions: 'shut' are not hours"),
        ("09:30-16:00", "needs hours and a zone: .* or a calendar like 'XNYS'"),
    ],
)
def test_text_that_names_no_calendar_is_answered_with_near_ones_or_the_form(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        strand.Sessions.parse(text)


@pytest.mark.parametrize("unknown", [((5, 5, ""),), ((5, 9, ""), (8, 12, "")), ((8, 9, ""), (5, 6, ""))])
def test_unknown_stretches_that_cannot_be_are_named(unknown: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown: .* be in order and not overlap"):
        strand.Sessions(np.array([[1, 2]]), unknown=unknown)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "exchange_calendars", None)
    with pytest.raises(MissingExtraError, match=r"sessions='XWAR' needs .*pip install 'tickstrand\[calendars\]'"):
        strand.bars("1m", sessions="XWAR")


# ---- options and own handlers


def own(sessions: strand.Sessions) -> strand.Handler:
    """A handler that counts the trades of the session under way, and emits the number at its end."""

    @strand.object_handler(outputs={"sessions": [("end", "i8"), ("n", "i8")]})
    class Counted:
        def on_start(self, ctx: Any) -> None:
            self.ctx, self.n = ctx, 0

        def on_trade(self, trade: Any) -> None:
            end = int(sessions.around(self.ctx.time)[1])
            if end:
                self.n += 1
                self.ctx.wake_at(end)

        def on_wake(self, time: int) -> None:
            self.ctx.emit((time, self.n))
            self.n = 0

    return Counted


def test_a_handler_of_one_s_own_takes_a_calendar_as_an_option() -> None:
    like = load_handler(f"{__name__}:own", {"sessions": "XNYS"})
    late = [*HALF_DAY, at("2026-11-30 10:00", NEW_YORK), at("2026-11-30 17:00", NEW_YORK)]
    found = replayed(like, trades(late)).outputs["sessions"][["end", "n"]].tolist()
    assert found == [(at("2026-11-27 13:00", NEW_YORK), 3), (at("2026-11-30 16:00", NEW_YORK), 1)]


def test_sessions_around_moments_are_their_starts_and_ends_or_zeros() -> None:
    sessions = strand.Sessions.parse("XNYS")
    opens, closes = at("2026-11-27 09:30", NEW_YORK), at("2026-11-27 13:00", NEW_YORK)
    found = sessions.around(HALF_DAY).tolist()
    assert found == [[opens, closes] if opens <= time < closes else [0, 0] for time in HALF_DAY]
    with pytest.raises(ConfigurationError, match="knows 1970-01-02 to 2099-12-31"):
        sessions.around([HALF_DAY[0], at("2100-01-04 10:00", NEW_YORK)])


def test_a_calendar_as_text_makes_the_handler_again() -> None:
    like = strand.bars("5m", sessions="XHKG nobreak")
    assert like.origin is not None
    assert like.origin.options == {"every": "5m", "sessions": "XHKG nobreak"}


@pytest.mark.parametrize(
    ("zone", "first", "last"),
    [
        ("America/Boa_Vista", 1999, 2002), ("America/Noronha", 1999, 2002), ("America/Recife", 1999, 2002),
        ("Asia/Gaza", 2038, 2075), ("Asia/Hebron", 2038, 2075),
    ],
)  # fmt: skip
def test_clocks_that_change_twice_within_a_week_are_followed(zone: str, first: int, last: int) -> None:
    days = [
        dt.date.fromordinal(day) for day in range(dt.date(first, 1, 1).toordinal(), dt.date(last, 1, 1).toordinal())
    ]
    noons = [int(dt.datetime(day.year, day.month, day.day, 12, tzinfo=zone_named(zone)).timestamp()) for day in days]
    changes = [at for at in range(1, len(noons)) if noons[at] - noons[at - 1] != 86_400]
    assert 7 in np.diff(changes), "the zone changes twice within a week"
    starts = strand.Sessions.daily("12:00-13:00", zone, days="mon-sun").table[:, 0] // 10**9
    assert starts[(starts >= noons[0]) & (starts <= noons[-1])].tolist() == noons
