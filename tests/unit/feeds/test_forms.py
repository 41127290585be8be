"""Times, numbers and documents as people write them: profiles of CSV and JSON against plain datetime and Decimal."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strand import bars, feeds, replay
from strand.binding.columns import DECIMAL, PATTERN, Numbers
from strand.errors import ConfigurationError, FormatError, StrandError, TruncatedFeedError
from strand.feeds.mapping.clocks import LocalTimes, pattern_of

pytestmark = pytest.mark.python

NEW_YORK = ZoneInfo("America/New_York")
MOMENT = dt.datetime(2026, 9, 8, 9, 30, 5)
EPOCH = dt.datetime(1970, 1, 1)


def ns_of(moment: dt.datetime) -> int:
    """Exact: of a moment in UTC, or of one without a zone as if it were."""
    return (moment.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1) * 1000


def csv(folder: Path, rows: list[str], keys: str, head: str = "t;p;q", file: str = "") -> npt.NDArray[Any]:
    """Ticks of rows under a header, by a profile of columns t, p and q."""
    pytest.importorskip("pyarrow")
    (folder / "rows.csv").write_text("\n".join([head, *rows]) + "\n")
    profile = f'delimiter = ";"\n{file}\n[symbol]\nconstant = "ABC"\n{keys}\n[fields.kind]\nconstant = "trade"\n'
    (folder / "own.toml").write_text(profile)
    return feeds.open(folder / "rows.csv", profile=folder / "own.toml").to_numpy()


def jsonl(folder: Path, messages: list[dict[str, Any]], field: dict[str, Any], **keys: Any) -> npt.NDArray[Any]:
    """Ticks of messages whose time is t."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(message) + "\n" for message in messages))
    fields = {"ts_event": field, "price": "p", "size": {"column": "q", **keys.pop("size", {})}}
    rule = {"symbol": {"constant": "ABC"}, "kind": "trade", "fields": fields}
    return feeds.open(folder / "rows.jsonl", profile={"message": [rule], **keys}).to_numpy()


FORMS = {  # a pattern (empty: none is needed), and what the moment of 9:30:05 on September 8 is in it
    "%d.%m.%Y %H:%M:%S": "08.09.2026 09:30:05", "%m/%d/%Y %I:%M:%S %p": "9/8/2026 9:30:05 AM",
    "%d/%m/%y %H:%M:%S.%f": "08/09/26 09:30:05.000", "%d-%b-%Y %H:%M:%S": "08-SEP-2026 09:30:05",
    "%A, %B %d %Y %T": "Tuesday, September 8 2026 09:30:05", "%Y-%jT%T": "2026-251T09:30:05",
    "%Y%m%d%H%M%S": "20260908093005", "%Y%m%d %H%M%S%f": "20260908 09300500", "%FD%T": "2026-09-08D09:30:05",
    "%a %b %d %H:%M:%S %Y": "Tue Sep  8 09:30:05 2026", "%Y-%m-%d %H:%M:%S%z": "2026-09-08 11:30:05+0200",
}  # fmt: skip
PLAIN = ("2026-09-08T09:30:05", "2026-09-08 09:30:05.000", "2026-09-08D09:30:05", "2026.09.08D09:30:05.000000000",
         "20260908T093005", "2026-09-08T11:30:05+02:00", "2026-09-08 09:30:05 UTC",
         "2026-09-08 09:30:05,0")  # fmt: skip


@pytest.mark.parametrize(("pattern", "text"), [*FORMS.items(), *(("", text) for text in PLAIN)])
def test_a_stamp_is_read_in_csv_and_json_alike(tmp_path: Path, pattern: str, text: str) -> None:
    form = f'format = "{pattern}"' if pattern else ""
    keys = f'[fields.ts_recv]\ncolumn = "t"\nunit = "stamp"\n{form}\n[fields.price]\ncolumn = "p"'
    assert csv(tmp_path, [f"{text};10;1"], keys)["ts_recv"].tolist() == [ns_of(MOMENT)]
    field = {"column": "t", "unit": "stamp"} | ({"format": pattern} if pattern else {})
    messages = [{"t": text, "p": "10", "q": "1"}]
    assert jsonl(tmp_path, messages, field, time={"zone": "UTC"})["ts_event"].tolist() == [ns_of(MOMENT)]


@pytest.mark.parametrize(
    ("pattern", "text", "seconds"),
    [
        ("", "09:30", 34_200), ("", "9:30:05.5", 34_205.5), ("", "093005", 34_205), ("", "93005", 34_205),
        ("%H%M", "930", 34_200), ("%H%M", "1559", 57_540), ("%H%M", "5", 300), ("%H%M%S", "5", 5),
        ("%I:%M:%S %p", "12:00:05 AM", 5), ("%I:%M:%S %p", "12:00:05 pm", 43_205), ("%I:%M%p", "9:30PM", 77_400),
        ("%H.%M.%S", "09.30.05", 34_205), ("%H:%M", "09:30", 34_200),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dates", [("", "2026-09-08"), ("%d.%m.%Y", "8.9.2026")])
def test_a_clock_beside_a_date_is_read_in_csv_and_json_alike(
    tmp_path: Path, pattern: str, text: str, seconds: float, dates: tuple[str, str]
) -> None:
    date_format, date = dates
    wanted = ns_of(dt.datetime(2026, 9, 8)) + int(seconds * 10**9)
    form, of_date = (
        f'{key} = "{each}"' * bool(each) for key, each in (("format", pattern), ("date_format", date_format))
    )
    time = f'[time]\ndate_column = "d"\n{of_date}'
    keys = f'{time}\n[fields.ts_recv]\ncolumn = "t"\nunit = "clock"\n{form}\n[fields.price]\ncolumn = "p"'
    assert csv(tmp_path, [f"{text};10;{date}"], keys, "t;p;d")["ts_recv"].tolist() == [wanted]
    field = {"column": "t", "unit": "clock"} | ({"format": pattern} if pattern else {})
    said = {"zone": "UTC", "date_column": "d"} | ({"date_format": date_format} if date_format else {})
    ticks = jsonl(tmp_path, [{"t": text, "d": date, "p": "10", "q": "1"}], field, time=said)
    assert ticks["ts_event"].tolist() == [wanted]


@pytest.mark.parametrize(
    ("unit", "text", "words"),
    [
        ("stamp", "01/02/2026 09:30:00", r"format = \"%d\.%m\.%Y"), ("stamp", "28.09.2026 09:30", "ISO 8601"),
        ("stamp", "2026-09-28", "ISO 8601"), ("stamp", "45000.395", "ISO 8601"), ("stamp", "2026-W40-1", "ISO 8601"),
        ("clock", "930", "%H%M"), ("clock", "9:30 PM", "%p"), ("clock", "24:00:00", "24:00 and leap seconds"),
        ("clock", "23:59:60", "24:00 and leap seconds"), ("s", "2026-09-28T09:30:00", 'unit = "stamp"'),
    ],
)  # fmt: skip
def test_any_other_form_is_refused_with_those_that_there_are(tmp_path: Path, unit: str, text: str, words: str) -> None:
    keys = f'[time]\ndate_column = "d"\n[fields.ts_recv]\ncolumn = "t"\nunit = "{unit}"\n[fields.price]\ncolumn = "p"'
    with pytest.raises(FormatError, match=words):
        csv(tmp_path, [f"{text};10;2026-09-08"], keys, "t;p;d")


@pytest.mark.parametrize(
    "pattern",
    ["%d.%m %H:%M", "%Y-%m-%d %I:%M", "%Y-%m-%d %H:%M %p", "%Y %Y-%m-%d", "%H:%S", "%Y-%m-%d %M", "%Q", "%H:%M %z",
     "%Y-%m-%d%z %H:%M", "%", "plain"],
)  # fmt: skip
def test_a_pattern_that_does_not_say_one_moment_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="format"):
        pattern_of(pattern, "fields.ts_recv.format")


_PATTERNS = ["%Y-%m-%d %H:%M:%S.%f", "%d.%m.%Y %H:%M", "%m/%d/%y %I:%M:%S %p", "%d %B %Y %H:%M:%S", "%Y%m%d%H%M%S",
             "%Y/%j %H.%M", "%b %d %Y %I %p"]  # fmt: skip


@given(st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2068, 12, 31)), st.sampled_from(_PATTERNS))
@settings(max_examples=400)
def test_a_pattern_reads_what_strftime_writes(moment: dt.datetime, pattern: str) -> None:
    text = moment.strftime(pattern)
    wanted = dt.datetime.strptime(text, pattern)
    made = pattern_of(pattern, "format")
    assert Numbers(PATTERN, pattern=made.text).one(text.encode()) == ns_of(wanted)


@given(
    st.decimals(min_value=-(10**9), max_value=10**9, places=4), st.sampled_from([(",", "."), (".", ","), (",", " ")])
)
def test_marks_of_numbers_are_what_a_profile_says(number: Decimal, marks: tuple[str, str]) -> None:
    point, group = marks
    text = f"{number:,.4f}".replace(",", "G").replace(".", point).replace("G", group)
    read = Numbers(DECIMAL, 4, point=point.encode(), group=group.encode())
    assert read.one(text.encode()) == int(number.scaleb(4))
    assert Numbers(DECIMAL, 4, point=point.encode()).one(f"{number:f}".replace(".", point).encode()) == int(
        number.scaleb(4)
    )


@pytest.mark.parametrize("text", ["1.2345,5", "1..234", ".123,5", "12.34", "1,234.5", "1.234.56"])
def test_a_group_of_other_than_three_digits_is_refused(tmp_path: Path, text: str) -> None:
    keys = '[fields.ts_recv]\ncolumn = "t"\nunit = "stamp"\n[fields.price]\ncolumn = "p"'
    said = "column p: not of its form; a '.' stands between groups of three digits"
    with pytest.raises(FormatError, match=said):
        csv(tmp_path, [f"2026-01-05T10:00:00Z;{text};1"], keys, file='decimal = ","\nthousands = "."')


def test_a_text_that_stands_for_no_value_is_said_by_the_profile(tmp_path: Path) -> None:
    keys = (
        '[fields.ts_recv]\ncolumn = "t"\nunit = "stamp"\n[fields.price]\ncolumn = "p"\n{}\n[fields.size]\ncolumn = "q"'
    )
    rows = ["2026-01-05T10:00:00Z;NaN;1", "2026-01-05T10:00:00Z;null;2", "2026-01-05T10:00:00Z;2.5;3"]
    with pytest.raises(FormatError, match='give undefined = "NaN"'):
        csv(tmp_path, rows, keys.format(""))
    ticks = csv(tmp_path, rows, keys.format('undefined = ["NaN", "null"]'))
    assert ticks["price"].tolist() == [(1 << 63) - 1, (1 << 63) - 1, 2_500_000_000]


@pytest.mark.parametrize("lines", [1, 3])
def test_lines_above_the_header_are_skipped_and_the_error_without_it_says_how(tmp_path: Path, lines: int) -> None:
    keys = '[fields.ts_recv]\ncolumn = "t"\nunit = "stamp"\n[fields.price]\ncolumn = "p"'
    rows = [*["# made by; hand"] * (lines - 1), "t;p;q", "2026-01-05T10:00:00Z;10;1", "bad;10;1"]
    with pytest.raises(FormatError, match=f"give skip_lines = {lines}$"):
        csv(tmp_path, rows, keys, "State: final")
    with pytest.raises(FormatError) as caught:
        csv(tmp_path, rows, keys, "State: final", f"skip_lines = {lines}")
    assert caught.value.line == lines + 3


def test_differences_of_a_running_total_are_those_of_each_symbol(tmp_path: Path) -> None:
    totals = [("A", 1, 5), ("B", 1, 100), ("A", 1, 8), ("A", 1, 8), ("B", 1, 130), ("A", 2, 3), ("B", 2, 131)]
    lines = [f"2026-01-0{day}T10:00:00Z;10;{total};{name}" for name, day, total in totals]
    (tmp_path / "a.csv").write_text("t;p;q;s\n" + "\n".join(lines) + "\n")
    fields = '[fields.ts_recv]\ncolumn = "t"\nunit = "stamp"\n[fields.size]\ncolumn = "q"\nrunning = true\n'
    (tmp_path / "own.toml").write_text(f'delimiter = ";"\n[symbol]\ncolumn = "s"\n{fields}')
    wanted: list[int] = []
    last: dict[str, int] = {}
    for name, _, total in totals:
        before = last.get(name, 0)
        wanted.append(total - before if total >= before else total)
        last[name] = total
    feed = feeds.open(tmp_path / "a.csv", profile=tmp_path / "own.toml")
    assert feed.to_numpy()["size"].tolist() == wanted
    only = feeds.open(tmp_path / "a.csv", profile=tmp_path / "own.toml", symbols=["A"], start="2026-01-02T00:00:00Z")
    assert only.to_numpy()["size"].tolist() == [3]
    (tmp_path / "a.csv").write_text("t;p;q;s\n" + "\n".join([*lines[:3], lines[0], lines[3]]) + "\n")
    with pytest.raises(FormatError, match=r"below the running total before it.*'5'") as caught:
        feeds.open(tmp_path / "a.csv", profile=tmp_path / "own.toml").to_numpy()
    assert caught.value.line == 5
    skipped = feeds.open(tmp_path / "a.csv", profile=tmp_path / "own.toml", on_bad_record="skip")
    assert skipped.to_numpy()["size"].tolist() == [5, 100, 3, 0]


@pytest.mark.parametrize("way", ["csv", "json"])
def test_a_size_below_0_sells_where_the_profile_says_so(tmp_path: Path, way: str) -> None:
    amounts = [3, -2, 0]
    at = "2026-01-05T10:00:00Z"

    def ticks(signed: bool) -> npt.NDArray[Any]:
        key = "signed = true" if signed else ""
        if way == "csv":
            keys = f'[fields.ts_recv]\ncolumn = "t"\nunit = "stamp"\n[fields.size]\ncolumn = "q"\n{key}'
            return csv(tmp_path, [f"{at};10;{amount}" for amount in amounts], keys)
        messages = [{"t": at, "p": "10", "q": amount} for amount in amounts]
        return jsonl(tmp_path, messages, {"column": "t", "unit": "stamp"}, size={"signed": True} if signed else {})

    found = ticks(True)
    assert list(zip(found["size"].tolist(), found["side"].tolist(), strict=True)) == [(3, b"B"), (2, b"A"), (0, b"N")]
    with pytest.raises(FormatError, match="give signed = true"):
        ticks(False)


# ---- an hour that comes twice


@pytest.mark.parametrize(
    ("zone", "first"),
    [("America/New_York", dt.datetime(2026, 11, 1, 3)), ("Europe/Berlin", dt.datetime(2026, 10, 24, 22)),
     ("Australia/Lord_Howe", dt.datetime(2026, 4, 4, 13))],
)  # fmt: skip
@pytest.mark.parametrize("step", [1, 7])
def test_the_hour_that_comes_twice_is_right_by_the_order(zone: str, first: dt.datetime, step: int) -> None:
    utc = [first.replace(tzinfo=dt.UTC) + dt.timedelta(minutes=step * i) for i in range(300 // step)]
    wall = np.array([ns_of(moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for moment in utc])
    wanted = [ns_of(moment) for moment in utc]
    for size in (1, 17, len(wall)):  # as blocks of a file come
        clocks = LocalTimes(zone)
        found = [clocks.to_utc(wall[at : at + size]) for at in range(0, len(wall), size)]
        assert all(bad is None for _, bad in found)
        assert np.concatenate([times for times, _ in found]).tolist() == wanted
        assert not clocks.is_open
    for word, fold in (("earliest", 0), ("latest", 1)):
        times, bad = LocalTimes(zone, word).to_utc(wall)  # type: ignore[arg-type]
        assert bad is None
        local = [
            (EPOCH + dt.timedelta(microseconds=at // 1000)).replace(tzinfo=ZoneInfo(zone), fold=fold)
            for at in wall.tolist()
        ]
        assert times.tolist() == [ns_of(moment.astimezone(dt.UTC)) for moment in local]


@pytest.mark.parametrize(
    "clocks",
    [["00:50", "01:10", "01:50", "02:10"], ["01:10", "01:50", "01:05", "01:40", "02:10"], ["00:50", "01:30"],
     ["00:50", "01:20", "01:15", "01:50", "02:00"], ["12:00", "01:20", "02:10"]],
)  # fmt: skip
def test_where_the_order_does_not_show_it_an_hour_that_comes_twice_is_refused(
    tmp_path: Path, clocks: list[str]
) -> None:
    keys = '[time]\nzone = "America/New_York"\n{}[fields.ts_recv]\ncolumn = "t"\nunit = "stamp"'
    rows = [f"2026-11-01 {clock};10;1" for clock in clocks]
    with pytest.raises(FormatError, match=r"(?s)comes twice.*ambiguous = \"earliest\""):
        csv(tmp_path, rows, keys.format(""))
    with pytest.raises(FormatError, match="comes twice"):
        csv(tmp_path, rows, keys.format('ambiguous = "raise"\n'))
    assert len(csv(tmp_path, rows, keys.format('ambiguous = "latest"\n'))) == len(clocks)


LEAN_BARS = "{at},100000,110000,90000,105000,7"
OWN_BARS = (
    'header = false\nbars = "1h"\n[[layouts]]\ncolumns = ["at", "o", "h", "l", "p", "q"]\n[symbol]\n{symbol}\n'
    '[time]\nzone = "America/New_York"\n[fields]\nts_event = {{ column = "at", unit = "stamp" }}\n'
    'kind = {{ constant = "trade" }}\nprice = "p"\nsize = "q"\n'
)


@pytest.mark.parametrize("length", ["1h", "30m", "20m", "1m"])
def test_bars_of_the_hour_that_comes_twice_are_right_by_their_order(tmp_path: Path, length: str) -> None:
    """Two bars of an hour may have one start: the second one begins where the first ends."""
    step = 3_600_000_000_000 if length == "1h" else int(length[:-1]) * 60_000_000_000
    first = ns_of(dt.datetime(2026, 11, 1, 2))
    utc = [first + at * step for at in range(12 * 3_600_000_000_000 // step)]
    moments = [EPOCH.replace(tzinfo=dt.UTC) + dt.timedelta(microseconds=at // 1000) for at in utc]
    local = [moment.astimezone(NEW_YORK) for moment in moments]
    path = tmp_path / "equity" / "usa" / "hour" / "spy.csv"
    path.parent.mkdir(parents=True)
    path.write_text("".join(LEAN_BARS.format(at=f"{at:%Y%m%d %H:%M}") + "\n" for at in local))
    for batch in (1, 65_536):
        with feeds.open(path, bars=length, batch_ticks=batch) as feed:
            closes = feed.to_numpy()[3::4]
        assert closes["ts_event"].tolist() == utc
        assert closes["ts_recv"].tolist() == [at + step for at in utc]
    found = replay(path, bars(length), feed_options={"bars": length}).outputs["bars"]
    assert found["start"].tolist() == utc


@pytest.mark.parametrize(
    ("clocks", "symbol"),
    [(["00:00", "01:00", "02:00", "03:00"], 'constant = "A"'), (["01:00", "01:00", "02:00"], 'constant = "A"'),
     (["00:00", "01:00", "01:00", "02:00"], 'column = "l"')],
    ids=["one start", "from within the hour", "symbols"],
)  # fmt: skip
def test_bars_of_the_hour_that_comes_twice_are_refused_where_the_order_does_not_show_it(
    tmp_path: Path, clocks: list[str], symbol: str
) -> None:
    (tmp_path / "own.toml").write_text(OWN_BARS.format(symbol=symbol))
    (tmp_path / "bars.csv").write_text("".join(f"2026-11-01 {at},1,1,A,1,5\n" for at in clocks))
    with (
        feeds.open(tmp_path / "bars.csv", profile=tmp_path / "own.toml") as feed,
        pytest.raises(FormatError, match=r"(?s)comes twice.*ambiguous = \"earliest\""),
    ):
        feed.to_numpy()


def test_a_local_time_that_clocks_pass_over_is_refused(tmp_path: Path) -> None:
    keys = '[time]\nzone = "America/New_York"\n[fields.ts_recv]\ncolumn = "t"\nunit = "stamp"'
    with pytest.raises(FormatError, match="does not exist: the clocks of America/New_York go forward") as caught:
        csv(tmp_path, ["2026-03-08 01:59:59;10;1", "2026-03-08 02:00:00;10;1", "2026-03-08 03:00:00;10;1"], keys)
    assert caught.value.line == 3


# ---- JSON


@pytest.mark.parametrize(
    ("received", "text"),
    [
        ("s", "1767571200.000000001"), ("ms", "1767571200000.000001"), ("us", "1767571200000000.001"),
        ("ns", "1767571200000000001"), (None, "1767571200000000001"), ("stamp", "2026-01-05T00:00:00.000000001Z"),
        ("stamp", "2026-01-05 01:00:00.000000001+01:00"),
    ],
)  # fmt: skip
def test_the_time_before_a_message_has_the_unit_that_the_profile_says(tmp_path: Path, received: Any, text: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{text} {{"p": "10"}}\n')
    profile = {"message": [{"symbol": {"constant": "X"}, "fields": {"price": "p"}}]} | (
        {} if received is None else {"received": received}
    )
    assert feeds.open(tmp_path / "a.jsonl", profile=profile).to_numpy()["ts_recv"].tolist() == [
        1_767_571_200_000_000_001
    ]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("path", ["", "data", "a.b"])
def test_a_document_is_read_as_its_lines_are(tmp_path: Path, indent: int | None, path: str) -> None:
    trades: list[Any] = [{"s": "AB"[i % 2], "t": 1_767_571_200_000 + i, "p": f"{10 + i}.25", "q": i} for i in range(7)]
    value: Any = trades
    for name in reversed(path.split(".") if path else []):
        value = {"other": 1, name: value}
    (tmp_path / "a.json").write_text(json.dumps(value, indent=indent))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(trade) + "\n" for trade in trades))
    fields = {"ts_event": {"column": "t", "unit": "ms"}, "price": "p", "size": "q"}
    profile = {"message": [{"symbol": "s", "kind": "trade", "fields": fields}]}
    wanted = feeds.open(tmp_path / "a.jsonl", profile=profile).to_numpy()
    feed = feeds.open(tmp_path / "a.json", profile={**profile, "document": path or True}, batch_ticks=3)
    assert feed.to_numpy().tobytes() == wanted.tobytes()
    assert list(feed.symbols) == ["A", "B"]
    if indent:  # an object or a list on one line may as well be a message
        with pytest.raises(FormatError, match="document = true"):
            feeds.open(tmp_path / "a.json", profile=profile).to_numpy()
    (tmp_path / "a.json").write_text(json.dumps(value)[: -3 - len(path)])
    with pytest.raises(TruncatedFeedError, match="ends inside its list"):
        feeds.open(tmp_path / "a.json", profile={**profile, "document": path or True}).to_numpy()


def test_a_caret_names_a_field_of_the_message_around_a_record(tmp_path: Path) -> None:
    message = {"id": "ABC", "price": "7", "trades": [{"id": "t1", "price": "10"}, {"id": "t2"}]}
    (tmp_path / "a.jsonl").write_text(f"1767571200000000000 {json.dumps(message)}\n")

    def read(symbol: str, price: str) -> tuple[list[str], list[int]]:
        rule = {"symbol": symbol, "each": "trades", "fields": {"price": price}}
        feed = feeds.open(tmp_path / "a.jsonl", profile={"message": [rule]})
        ticks = feed.to_numpy()
        return [feed.symbols[key] for key in ticks["instrument_id"]], ticks["price"].tolist()

    assert read("^id", "price") == (["ABC", "ABC"], [10 * 10**9, 7 * 10**9])
    assert read("id", "^price") == (["t1", "t2"], [7 * 10**9] * 2)
    with pytest.raises(StrandError, match=r"there is no field \^nothing"):
        read("id", "^nothing")


def test_a_stamp_without_a_zone_needs_one_in_a_profile_of_json(tmp_path: Path) -> None:
    messages = [{"t": "2026-07-01 09:30", "p": "10", "q": "1"}]
    field = {"column": "t", "unit": "stamp"}
    with pytest.raises(FormatError, match='has no time zone: give zone = "UTC"'):
        jsonl(tmp_path, messages, field)
    (tick,) = jsonl(tmp_path, messages, field, time={"zone": "America/New_York"})
    assert tick["ts_event"] == ns_of(dt.datetime(2026, 7, 1, 13, 30))
