"""Records as users declare them, the changes that a chain tells of, sessions and spans, and outputs."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pytest
from plain_run import plain_run

import strand
from strand import Dispatcher, Sessions, bars, batch_handler, handler, testing
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers.host import check_states, watches_of
from strand.handlers.state import LARGEST, check_attributes, defaults_of, output_dtypes, row_dtype
from strand.ticks import KIND_TRADE, zeros
from strand.units import PRICE, unit_of
from strand.zones import zone_named

pytestmark = pytest.mark.python


class Level:
    price: np.int64
    size: np.uint32


class State:
    count: np.uint64
    last: np.int64 = 7  # type: ignore[assignment]
    flag: bool
    ratio: float
    number: int
    name: Annotated[bytes, 6]
    histogram: Annotated[npt.NDArray[np.uint32], 4]
    grid: Annotated[npt.NDArray[np.float64], (2, 3)]
    shares: Annotated[np.uint16, 2]
    best: Level
    levels: Annotated[Level, 3]


def test_a_class_s_annotations_are_the_fields_in_their_order() -> None:
    dtype = row_dtype(State)
    assert dtype.names == tuple(State.__annotations__)
    assert dtype["count"] == np.dtype("<u8")
    assert (dtype["flag"], dtype["ratio"], dtype["number"]) == (np.dtype("?"), np.dtype("<f8"), np.dtype("<i8"))
    assert dtype["name"] == np.dtype("S6")
    assert (dtype["histogram"].base, dtype["histogram"].shape) == (np.dtype("<u4"), (4,))
    assert dtype["grid"].shape == (2, 3)
    assert dtype["shares"].base == np.dtype("<u2")
    assert dtype["best"] == np.dtype([("price", "<i8"), ("size", "<u4")], align=True)
    assert dtype["levels"].shape == (3,)
    assert dtype.isalignedstruct


def test_a_dict_has_dtypes_by_name_and_lays_them_out_as_c_does() -> None:
    dtype = row_dtype({"flag": "?", "n": "u8", "seen": ("?", 4), "price": PRICE, "level": Level, "ratio": float})
    assert dtype.names == ("flag", "n", "seen", "price", "level", "ratio")
    assert (dtype["n"], dtype["seen"].base, dtype["seen"].shape) == (np.dtype("<u8"), np.dtype("?"), (4,))
    assert unit_of(dtype["price"], None).quantity == "price"
    assert (dtype["level"], dtype["ratio"]) == (row_dtype(Level), np.dtype("<f8"))
    assert dtype.isalignedstruct
    assert dtype.fields is not None
    assert dtype.fields["n"][1] == 8
    plain = {"names": ["a"], "formats": ["u8"], "offsets": [8]}
    assert row_dtype(plain) == np.dtype(plain)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match=r"state: .* is not a dtype"):
        row_dtype({"n": "u7"})


def test_truth_values_may_be_in_arrays_of_rows_and_records() -> None:
    names = {"n": "u8", "seen": ("?", 4)}

    @batch_handler(state=names, outputs={"first": {"kind": "u1", "flags": ("?", 3)}})
    def in_python(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        for at, tick in enumerate(ticks):
            row["n"] += 1
            row["seen"][int(tick["size"]) & 3] = True
            if row["n"] == 3:
                ctx.emit((7, row["seen"][:3]), at=at)

    pytest.importorskip("numba")

    @handler(state=names, outputs={"first": {"kind": "u1", "flags": ("?", 3)}})
    def compiled(row: Any, tick: Any, emit: Any) -> None:
        row.n += 1
        row.seen[tick.size & 3] = True
        if row.n == 3 and row.seen[1] and not row.seen[0]:
            emit.first(7, row.seen[:3])

    feed = testing.feed([("A", i, 1.0, size) for i, size in enumerate((1, 3, 3, 2, 7))])
    runs = [testing.reference(feed, each) for each in (in_python, compiled)]
    for run in runs:
        assert run.rows["A"]["seen"].tolist() == [False, True, True, True]
        assert run.outputs["first"]["flags"].tolist() == [[False, True, False]]
    testing.assert_same(*runs)
    seen = runs[0].rows.to_arrow()["seen"]
    assert (str(seen.type), seen.to_pylist()) == ("fixed_size_list<item: bool>[4]", [[False, True, True, True]])


def test_what_a_class_sets_are_defaults() -> None:
    assert defaults_of(State) == {"last": 7}
    assert defaults_of([("x", "u8")]) == {}


class Loose:
    histogram: npt.NDArray[np.float64]


class Text:
    name: np.bytes_


class Objects:
    things: list[int]


class Sizes:
    things: Annotated[np.float64, "many"]


class Empty:
    pass


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (Loose, "state.histogram: say how large it is"),
        (Text, "state.name: bytes_ has no size of its own"),
        (Objects, r"state.things: list\[int\] is not a type of a field"),
        (Sizes, "state.things: 'many' is not the size"),
        (Empty, "Empty has no annotated fields"),
        ("no such", "is not a dtype"),
        ("u8", "give a structured dtype"),
        ([("x", "O")], "cannot hold Python objects"),
    ],
)
def test_a_record_that_cannot_be_one_is_refused_by_its_field(state: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        batch_handler(state=state)


def test_a_compiled_handler_reads_and_writes_all_kinds_of_fields() -> None:
    pytest.importorskip("numba")
    import strand

    @handler(state=State)
    def fills(row, tick):  # type: ignore[no-untyped-def]
        row.count += 1
        row.flag = True
        row.ratio = 0.5
        row.histogram[tick.size % 4] += 1
        row.grid[1, 2] = tick.size
        row.best.price = tick.price
        row.levels[1].size += 3

    ticks = strand.ticks.zeros(6)
    ticks["size"] = np.arange(6)
    ticks["price"] = 11
    with Dispatcher(1, fills, workers=1, cores=None) as d:
        d.publish(ticks)
    row = d.rows[0]
    assert (row["count"], row["flag"], row["ratio"]) == (6, True, 0.5)
    assert row["histogram"].tolist() == [2, 2, 1, 1]
    assert row["grid"].tolist() == [[0, 0, 0], [0, 0, 5]]
    assert row["best"]["price"] == 11
    assert row["levels"]["size"].tolist() == [0, 18, 0]


@pytest.mark.parametrize("state", [[("", "i8")], {"": "i8"}, [("a", "i8"), ("", "u8", 3)]])
def test_a_field_without_a_name_is_refused(state: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^state: a field's name is ''"):
        row_dtype(state)


@pytest.mark.parametrize("name", ["a b", "class", "1st", "bid-price"])
def test_fields_that_are_no_attributes_are_for_python_alone(name: str) -> None:
    check_attributes("state", row_dtype({"volume": "i8", "level": Level}))
    for state in ({name: "i8"}, {"level": np.dtype([(name, "i8")])}, {"levels": np.dtype(([(name, "i8")], 3))}):
        with pytest.raises(ConfigurationError, match=f"compiled code cannot use a field named '{name}'"):
            check_attributes("state", row_dtype(state))


# ---- A chain tells a later object which changes of a row there were


BOOK = np.dtype([("bid_price", "i8"), ("bid_size", "i8"), ("ask_price", "i8"), ("ask_size", "i8"), ("orders", "i8")])
BARS = np.dtype([("bars", "i8"), ("last_open", "i8"), ("last_close", "i8")])


class Both:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_book(self, top: Any) -> None:
        self.seen.append(("book", top.bid_price, top.orders))

    def on_bar(self, bar: Any) -> None:
        self.seen.append(("bar", bar.open, bar.close))


def rows(dtype: np.dtype[Any], **columns: list[int]) -> Any:
    found = np.zeros(len(next(iter(columns.values()))), dtype)
    for name, values in columns.items():
        found[name] = values
    return found


def test_each_change_is_a_call_and_what_stood_before_is_none() -> None:
    thing = Both()
    book, bar = watches_of(thing, "mine", {"book": BOOK, "bars": BARS})
    # The number of orders alone is no change of the top.
    after = {
        "book": rows(BOOK, bid_price=[0, 5, 5, 6], orders=[0, 1, 2, 3]),
        "bars": rows(BARS, bars=[0, 0, 1, 1], last_open=[0, 0, 7, 7], last_close=[0, 0, 8, 8]),
    }
    for watch, expected in ((book, [1, 3]), (bar, [2])):
        places, values = watch.look(after)
        watch.stand(after, 3)
        assert places == expected
        for value in values:
            watch.method(value)
    assert thing.seen == [("book", 5, 1), ("book", 6, 3), ("bar", 7, 8)]
    places, _ = book.look({"book": rows(BOOK, bid_price=[6, 7])})
    assert places == [1]


def test_of_two_books_the_last_one_is_watched() -> None:
    (watch,) = watches_of(type("Top", (), {"on_book": lambda self, top: None})(), "mine", {"a": BOOK, "b": BOOK})
    assert watch.look({"a": rows(BOOK, bid_price=[1]), "b": rows(BOOK, bid_price=[0])}) == ([], [])


def test_a_method_that_nothing_in_the_chain_gives_cause_to_call_is_refused() -> None:
    check_states("mine", ("on_book",), {"book": BOOK})
    with pytest.raises(ConfigurationError, match="handler 'mine': on_bar is only called after bars"):
        check_states("mine", ("on_book", "on_bar"), {"book": BOOK})


# ---- Sessions: hours of a venue's day in its time zone, over changes of clocks; and spans of time


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


def test_dates_of_sessions_may_be_datetimes() -> None:
    """Those of pandas are."""
    holiday, half = dt.date(2025, 7, 4), dt.date(2025, 7, 3)
    midnight = dt.time()
    tables = [
        Sessions.daily("09:30-16:00", "America/New_York", holidays=[free], closes={early: "13:00"}).table.tolist()
        for free, early in (
            (holiday, half),
            (dt.datetime.combine(holiday, midnight), dt.datetime.combine(half, midnight)),
        )
    ]
    assert tables[0] == tables[1]


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


# ---- Outputs as handlers declare them


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"no name": [("x", "i8")]}, "'no name' cannot be an output's name"),
        ({"class": [("x", "i8")]}, "'class' cannot be an output's name"),
        ({3: [("x", "i8")]}, "3 cannot be an output's name"),
        ({"bars": [("x", "O")]}, "outputs.bars: "),
        ({"bars": [("x", "i8"), ("ts", "i8")]}, "every record has a column 'ts' already"),
        ({"bars": [("x", "u1", (LARGEST + 1,))]}, "a record has 16385 bytes, and at most 16384"),
    ],
)
def test_what_cannot_be_an_output_is_refused_by_name(outputs: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        output_dtypes(outputs)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"state": {"a b": "i8"}}, "handler 'one': state: compiled code cannot use a field named 'a b'"),
        ({"params": {"class": "i8"}}, "handler 'one': params: compiled code cannot use a field named 'class'"),
        (
            {"outputs": {"bars": {"1st": "i8"}}},
            "handler 'one': outputs.bars: compiled code cannot use a field named '1st'",
        ),
        ({"params": {"": "i8"}}, "params: a field's name is ''"),
        ({"outputs": {"bars": [("", "i8")]}}, "outputs.bars: a field's name is ''"),
    ],
)
def test_a_compiled_handler_is_refused_with_the_field_that_its_code_cannot_name(declared: Any, said: str) -> None:
    given: dict[str, Any] = {"state": {"n": "i8"}, **declared}
    arguments = [word for word, option in (("params", "params"), ("emit", "outputs")) if option in given]
    space: dict[str, Any] = {}
    exec(f"def one({', '.join(['row', 'tick', *arguments])}): pass", space)
    with pytest.raises(ConfigurationError) as caught:
        strand.handler(**given)(space["one"])
    assert str(caught.value).startswith(said)


def test_a_compiled_basket_handler_is_refused_likewise_and_a_batch_handler_reads_fields_by_text() -> None:
    def one(row: Any, basket: Any) -> None: ...

    named = {"a b": "i8"}
    for records in ({"basket_state": named}, {"basket_state": {"n": "i8"}, "state": named}):
        with pytest.raises(ConfigurationError, match="compiled code cannot use a field named 'a b'"):
            strand.basket_handler(baskets={"pair": ["A", "B"]}, **records)(one)
    assert strand.batch_handler(state=named)(lambda symbol, ticks, row: None).state.names == ("a b",)


def test_fields_of_an_output_may_have_names_that_emitting_uses() -> None:
    pytest.importorskip("numba")
    fields = ("emit", "record", "reserve", "set_in")

    @strand.handler(state={"n": "i8"}, outputs={"seen": dict.fromkeys(fields, "i8")})
    def seen(row: Any, tick: Any, emit: Any) -> None:
        row.n += 1
        emit.seen(row.n, row.n, row.n, row.n)

    result = strand.replay(sample_path(), seen, symbols=["AAAHD"], date=SAMPLE_DATE, workers=1)
    for field in fields:
        assert result.outputs["seen"][field].tolist() == list(range(1, result.ticks + 1))
