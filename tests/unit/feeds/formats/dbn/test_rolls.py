"""Names that go over from one instrument to another: nothing of the first contract runs on in the second one."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import dbn_reference as ref
import numpy as np
import pytest
from databento_tables import DIALECTS, written

import strand
from strand.ticks import clear_records, is_clear

pytest.importorskip("databento_dbn")

MONDAY = dt.date(1970, 1, 1) + dt.timedelta(ref.NOON // ref.DAY)
TUESDAY, WEDNESDAY = MONDAY + dt.timedelta(1), MONDAY + dt.timedelta(2)
ROLLS = {"ES.c.0": [(MONDAY, TUESDAY, "10"), (TUESDAY, WEDNESDAY, "20")], "CL.c.0": [(MONDAY, WEDNESDAY, "30")]}


def file_of(folder: Path, records: list[bytes], names: Any = ROLLS, **metadata: Any) -> Path:
    path = folder / "continuous.dbn"
    path.write_bytes(ref.metadata(3, names, **metadata) + b"".join(records))
    return path


def two_days(make: Any) -> list[bytes]:
    """Records of both instruments on both days, in turns: of ES 10 and then 20, of CL 30 both times."""
    days = ((10, ref.NOON), (20, ref.NOON + ref.DAY))
    return [
        make(instrument=number, received=day + i, event=day + i)
        for now, day in days
        for i in range(3)
        for number in (now, 30)
    ]


def mbo(**given: Any) -> bytes:
    return ref.mbo(**given)


def of_head(rtype: int, count: int) -> Any:
    """A record with the head of a trade and so many levels."""

    def make(*, instrument: int, received: int, event: int) -> bytes:
        head = bytearray(ref.head())
        head[16:24] = received.to_bytes(8, "little")
        return ref.record(rtype, bytes(head) + ref.levels(count), instrument=instrument, event=event)

    return make


def bar(*, instrument: int, received: int, event: int) -> bytes:
    prices = b"".join((10**9 + i).to_bytes(8, "little") for i in range(4))
    return ref.record(0x21, prices + (5).to_bytes(8, "little"), instrument=instrument, event=event)


SCHEMAS = {
    "mbo": mbo,
    "trades": of_head(0x00, 0),
    "mbp-1": of_head(0x01, 1),
    "mbp-10": of_head(0x0A, 10),
    "ohlcv-1m": bar,
}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("batch", [1, 16_384])
def test_numbers_that_go_round_among_names_stand_for_the_name_of_their_day(
    tmp_path: Path, schema: str, batch: int
) -> None:
    """As numbers of shares do, which a venue gives anew each day. The last record before midnight is received after it,
    and databento's ``to_df(map_symbols=True)`` gives it the name of the new day, too."""
    of_day = [{10: "AAPL", 20: "MSFT", 30: "IBM"}, {20: "AAPL", 30: "MSFT", 10: "IBM"}, {30: "AAPL", 10: "MSFT"}]
    names: dict[str, list[Any]] = {}
    for at, ids in enumerate(of_day):
        for number, name in ids.items():
            days = MONDAY + dt.timedelta(at), MONDAY + dt.timedelta(at + 1)
            names.setdefault(name, []).append((*days, str(number)))
    midnight, hour = ref.NOON // ref.DAY * ref.DAY, 3_600 * 10**9
    times = [(day * ref.DAY + at, day) for day in range(3) for at in (hour, 12 * hour, 23 * hour)]
    records = [(time + number, day, number) for time, day in times for number in sorted(of_day[day])]
    records += [(ref.DAY - 1, 1 if schema != "ohlcv-1m" else 0, 10)]
    records.sort()
    made = [
        mbo(instrument=number, event=midnight + at, received=midnight + at + 5, order=i, price=number * 10**9)
        if schema == "mbo"
        else SCHEMAS[schema](instrument=number, event=midnight + at, received=midnight + at + 5)
        for i, (at, _, number) in enumerate(records)
    ]
    path = file_of(tmp_path, made, names)
    wanted = [of_day[day][number] for _, day, number in records]
    with strand.feeds.open(path, batch_ticks=batch, levels=10) as feed:
        ticks = feed.to_numpy()
        symbols = list(feed.symbols)
        assert feed.statistics()["rolled_instruments"] == 5
    found = [symbols[key] for key in ticks["instrument_id"]]
    clears = is_clear(ticks)
    per_record = (len(ticks) - 5) // len(records)
    assert [name for name, clear in zip(found, clears, strict=True) if not clear][::per_record] == wanted
    rolls = [i for i, name in enumerate(wanted) if name in wanted[:i] and records[i][2] != records[_last(wanted, i)][2]]
    before = np.cumsum(~clears)[clears]
    assert before.tolist() == [i * per_record for i in rolls]
    if schema == "mbo":
        result = strand.replay(path, "book", workers=1, cores=None)
        prices = {"AAPL": 30, "MSFT": 10, "IBM": 10}
        for name, price in prices.items():
            assert result.books[name].bids()["price"].tolist() == [price * 10**9]


def _last(names: list[str], place: int) -> int:
    """The place of the latest record of the same name."""
    return max(i for i in range(place) if names[i] == names[place])


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("batch", [1, 3, 16_384])
def test_a_clear_record_comes_before_the_first_tick_of_another_instrument(
    tmp_path: Path, schema: str, batch: int
) -> None:
    path = file_of(tmp_path, two_days(SCHEMAS[schema]))
    with strand.feeds.open(path, batch_ticks=batch, levels=10) as feed:
        ticks = feed.to_numpy()
        assert feed.statistics()["rolled_instruments"] == 1
        assert feed.count() is None
        key = list(feed.symbols).index("ES.c.0")
    (at,) = np.flatnonzero(is_clear(ticks))
    following = ticks[at + 1]
    assert ticks["instrument_id"][at] == key
    np.testing.assert_array_equal(
        ticks[at : at + 1], clear_records(np.array([key], np.uint32), int(following["ts_recv"]))
    )
    of_es = ticks[ticks["instrument_id"] == key]
    assert (of_es["ts_recv"][: int(np.argmax(is_clear(of_es)))] < ref.NOON + ref.DAY // 2).all()
    with strand.feeds.open(path, levels=10, carry_over=True) as feed:
        np.testing.assert_array_equal(feed.to_numpy(), np.delete(ticks, at))


def test_books_bars_and_returns_begin_anew_and_the_run_says_so(tmp_path: Path) -> None:
    def trade(number: int, day: int, at: int, price: int) -> bytes:
        return ref.mbo(instrument=number, received=day + at, event=day + at, action=b"T", price=price, order=0)

    def order(number: int, day: int, at: int, price: int, side: bytes) -> bytes:
        return ref.mbo(instrument=number, received=day + at, event=day + at, price=price, side=side, order=number + at)

    records: list[bytes] = []
    for number, day, price in ((10, ref.NOON, 5000 * 10**9), (20, ref.NOON + ref.DAY, 5060 * 10**9)):
        records += [order(number, day, 1, price, b"B"), order(number, day, 2, price + 10**9, b"A")]
        records += [trade(number, day, 3, price), trade(number, day, 4, price)]
    path = file_of(tmp_path, records)
    handlers = {
        "book": strand.book(),
        "rv": strand.volatility(ticks=1),
        "bars": strand.bars(ticks=3),
        "bbo": strand.bbo(),
    }
    found = {name: strand.replay(path, handler, workers=1, cores=None) for name, handler in handlers.items()}
    book = found["book"].books["ES.c.0"]
    assert (book.bids()["price"].tolist(), book.asks()["price"].tolist()) == ([5060 * 10**9], [5061 * 10**9])
    assert found["book"].rows["ES.c.0"]["crossed"] == 0
    assert found["rv"].rows["ES.c.0"]["rv"] == 0
    bars = found["bars"].outputs["bars"]
    assert [(bar["open"], bar["close"], bar["trades"]) for bar in bars] == [
        (price, price, 2) for price in (5000 * 10**9, 5060 * 10**9)
    ]
    tops = [(row["bid"], row["ask"]) for row in found["bbo"].outputs["bbo"]]
    assert (5060 * 10**9, 5001 * 10**9) not in tops
    for result in found.values():
        (warning,) = [w for w in result.warnings if w.kind == "rolled instruments"]
        assert (warning.count, "ES.c.0" in warning.example, "20" in warning.example) == (1, True, True)
        assert "carry_over" in warning.cure
    carried = strand.replay(path, strand.volatility(ticks=1), workers=1, cores=None, feed_options={"carry_over": True})
    assert carried.rows["ES.c.0"]["rv"] == pytest.approx(np.log(5060 / 5000) ** 2)
    assert [w.kind for w in carried.warnings] == ["rolled instruments"]


def test_a_name_of_two_instruments_at_one_time_does_not_roll(tmp_path: Path) -> None:
    names = {"ES.FUT": [(MONDAY, WEDNESDAY, "10"), (MONDAY, WEDNESDAY, "20")]}
    with strand.feeds.open(file_of(tmp_path, two_days(mbo), names)) as feed:
        assert not is_clear(feed.to_numpy()).any()
        assert feed.statistics()["rolled_instruments"] == 0


def test_rolls_leave_the_same_rows_on_any_number_of_workers(tmp_path: Path) -> None:
    path = file_of(tmp_path, two_days(mbo) * 50)
    wanted = strand.replay(path, "book", workers=0).fingerprint
    for workers in (1, 2, 4):
        for batch in (1, 7, 16_384):
            options: Any = {"batch_ticks": batch}
            assert strand.replay(path, "book", workers=workers, cores=None, feed_options=options).fingerprint == wanted


@pytest.mark.cells(1)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_table_of_records_rolls_as_its_dbn_file_does(tmp_path: Path, schema: str, dialect: str) -> None:
    records = two_days(SCHEMAS[schema])
    data = ref.metadata(3, ROLLS) + b"".join(records)
    path = written(tmp_path, dialect, data, {10: "ES.c.0", 20: "ES.c.0", 30: "CL.c.0"})
    options: Any = {"levels": 10} if "parquet" not in dialect and "own" not in dialect else {}
    with strand.feeds.open(path, **options) as feed:
        names, ticks = list(feed.symbols), feed.to_numpy()
        names = list(feed.symbols)
        counted = 1 if "own" in dialect else feed.statistics()["rolled_instruments"]
    places = np.flatnonzero(is_clear(ticks))
    assert counted == 1
    assert [(names[ticks["instrument_id"][at]], int(ticks["ts_recv"][at])) for at in places] == [
        ("ES.c.0", int(ticks["ts_recv"][places[0] + 1]))
    ]
    before, after = ticks[: places[0]], ticks[places[0] :]
    assert before["ts_event"].max() < ref.NOON + ref.DAY // 2 < after["ts_event"].min()
    if "own" not in dialect:
        (warning,) = [w for w in strand.replay(path, "count").warnings if w.kind == "rolled instruments"]
        assert "instrument 20 follows 10" in warning.example
        with strand.feeds.open(path, carry_over=True, **options) as feed:
            np.testing.assert_array_equal(feed.to_numpy(), np.delete(ticks, places))


@pytest.mark.parametrize("dialect", ["csv", "parquet"])
def test_a_table_rolls_once_where_a_name_stands_for_two_instruments_on_a_day(tmp_path: Path, dialect: str) -> None:
    records = [mbo(instrument=10 + 10 * (i % 2), received=ref.NOON + i, event=ref.NOON + i) for i in range(20)]
    records += [mbo(instrument=20, received=ref.NOON + ref.DAY + i, event=ref.NOON + i) for i in range(3)]
    records += [mbo(instrument=10, received=ref.NOON + 2 * ref.DAY + i, event=ref.NOON + i) for i in range(3)]
    path = written(tmp_path, dialect, ref.metadata(3, ROLLS) + b"".join(records), {10: "ES", 20: "ES"})
    with strand.feeds.open(path, batch_ticks=7) as feed:
        assert np.flatnonzero(is_clear(feed.to_numpy())).tolist() == [1, 24]


@pytest.mark.cells(1)
@pytest.mark.parametrize("dialect", ["csv", "parquet"])
@pytest.mark.parametrize("batch_ticks", [1, 3, 1000])
@pytest.mark.parametrize("make", [mbo, of_head(0x01, 1)], ids=["mbo", "mbp-1"])
def test_days_in_files_of_their_own_roll_as_they_do_in_one(
    tmp_path: Path, make: Any, dialect: str, batch_ticks: int
) -> None:
    """ES rolls between the files; CL does not, and NQ has its first tick in the second one."""
    names = {10: "ES", 20: "ES", 30: "CL", 40: "NQ"}
    days = [
        [(10, 0), (30, 1), (10, 2)],
        [(30, 0), (20, 1), (40, 2), (20, 3), (30, 4)],
        [(40, 0), (20, 1), (30, 2)],
    ]
    made = [
        [make(instrument=number, received=ref.NOON + day * ref.DAY + at, event=ref.NOON + at) for number, at in ticks]
        for day, ticks in enumerate(days)
    ]
    head = ref.metadata(3, ROLLS)
    whole = written(tmp_path, dialect, head + b"".join(record for day in made for record in day), names)
    parts = []
    for day, records in enumerate(made):
        (folder := tmp_path / str(day)).mkdir()
        path = written(folder, dialect, head + b"".join(records), names)
        parts.append(path.rename(tmp_path / f"day{day}{path.suffix}"))
    with strand.feeds.open(whole) as one, strand.feeds.open(parts, batch_ticks=batch_ticks) as several:
        expected, found = one.to_numpy(), several.to_numpy()
        assert np.flatnonzero(is_clear(expected)).tolist() == [4 * (1 if make is mbo else len(expected) // 11)]
        keys = [several.symbols.index(name) for name in one.symbols]
        expected["instrument_id"] = np.array(keys, np.uint32)[expected["instrument_id"]]
        np.testing.assert_array_equal(found, expected)
        assert several.statistics()["rolled_instruments"] == one.statistics()["rolled_instruments"] == 1
        assert several.info.details["examples"] == one.info.details["examples"]
        np.testing.assert_array_equal(several.to_numpy(), expected)  # again, from the start
    with strand.feeds.open(parts, carry_over=True) as feed:
        assert not is_clear(feed.to_numpy()).any()
    assert [warning.kind for warning in strand.replay(parts, "count").warnings] == ["rolled instruments"]


def test_files_of_one_time_with_two_instruments_of_a_name_do_not_roll(tmp_path: Path) -> None:
    paths = []
    for number in (10, 20):
        records = [mbo(instrument=number, received=ref.NOON + at + number, event=ref.NOON) for at in range(0, 60, 20)]
        (folder := tmp_path / str(number)).mkdir()
        path = written(folder, "csv", ref.metadata(3, ROLLS) + b"".join(records), {number: "ES"})
        paths.append(path.rename(tmp_path / f"of{number}.csv"))
    with strand.feeds.open(paths) as feed:
        assert not is_clear(feed.to_numpy()).any()


def test_a_session_over_midnight_runs_on_from_file_to_file_where_the_venue_is_open_then(tmp_path: Path) -> None:
    midnight = (ref.NOON // ref.DAY + 1) * ref.DAY
    same = {"ES": [(MONDAY, WEDNESDAY, "10")]}

    def bars(dataset: str, names: Any = same, warns: tuple[str, ...] = (), **options: Any) -> list[int]:
        paths = []
        for day, time in ((MONDAY, midnight - 10**9), (TUESDAY, midnight + 10**9)):
            folder = tmp_path / dataset / str(day)
            folder.mkdir(parents=True, exist_ok=True)
            number = 10 if names is same or day == MONDAY else 20
            records = [of_head(0x00, 0)(instrument=number, received=time + i, event=time + i) for i in range(2)]
            start, end = (int(at) for at in (time // ref.DAY * ref.DAY, (time // ref.DAY + 1) * ref.DAY))
            paths.append(file_of(folder, records, names, dataset=dataset, start=start, end=end))
        sessions = strand.Sessions.parse("17:00-16:00 America/Chicago mon-sun")
        result = strand.replay(paths, strand.bars("1d", sessions=sessions), workers=0, feed_options=options)
        assert tuple(warning.kind for warning in result.warnings) == warns
        return [int(bar["trades"]) for bar in result.outputs["bars"]]

    assert bars("GLBX.MDP3") == bars("XCBF.PITCH") == bars("IFUS.IMPACT") == bars("OCEA.MEMOIR") == [4]
    assert bars("XNAS.ITCH", new_day="file") == bars("GLBX.MDP3", new_day="file") == [2, 2]
    # A contract that takes over the name at midnight.
    rolls = {"ES": [(MONDAY, TUESDAY, "10"), (TUESDAY, WEDNESDAY, "20")]}
    assert bars("GLBX.MDP3", rolls, ("rolled instruments",)) == [2, 2]
    assert bars("GLBX.MDP3", rolls, carry_over=True) == [4]
    # Days by date leave rolls between files as they are. A share has another number each day, and is the same.
    assert bars("GLBX.MDP3", rolls, ("rolled instruments",), new_day="date America/Chicago") == [2, 2]
    assert bars("IFEU.IMPACT", rolls, ("rolled instruments",)) == [2, 2]
    assert bars("XNAS.ITCH", rolls) == [4]


@pytest.mark.parametrize(
    ("dataset", "zone", "hours", "month"),
    [
        ("XNAS.ITCH", "America/New_York", (4, 20), 1),  # its last hour is in the next file
        ("XNAS.ITCH", "America/New_York", (4, 20), 7),
        ("XEUR.EOBI", "Europe/Berlin", (1, 22), 7),  # its first hour is in the file before
        ("XEUR.EOBI", "Europe/Berlin", (1, 22), 1),
    ],
)
def test_day_files_end_days_at_the_midnight_of_their_venue(
    dataset: str, zone: str, hours: tuple[int, int], month: int, tmp_path: Path
) -> None:
    first, last = hours
    midnights = [int(dt.datetime(2026, month, 13 + day, tzinfo=ZoneInfo(zone)).timestamp()) * 10**9 for day in range(3)]
    times = [midnight + h * 3_600 * 10**9 + m * 60 * 10**9 for midnight in midnights
             for h, m in ((first, 0), (first, 30), (12, 0), (last - 1, 30), (last - 1, 59))]  # fmt: skip
    by_date: dict[int, list[Any]] = {}
    for time in times:
        by_date.setdefault(time // ref.DAY, []).append(of_head(0x00, 0)(instrument=10, received=time, event=time))
    paths = []
    for day, records in by_date.items():
        (folder := tmp_path / str(day)).mkdir()
        names = {"ES": [(dt.date(2026, month, 1), dt.date(2026, month, 28), "10")]}
        start, end = day * ref.DAY, (day + 1) * ref.DAY
        paths.append(file_of(folder, records, names, dataset=dataset, start=start, end=end))
    assert len(paths) > 1
    sessions = strand.Sessions.parse(f"{first:02}:00-{last:02}:00 {zone} mon-fri")
    for workers in (0, 1):
        result = strand.replay(paths, strand.bars("1d", sessions=sessions), workers=workers, per_day=True)
        assert [int(bar["trades"]) for bar in result.outputs["bars"]] == [5, 5, 5]
        assert result.feed_statistics["days_cleared"] == 2
        assert [day.ticks_by_symbol.tolist() for day in result.days] == [[5], [5], [5]]
        assert result.warnings == ()


def test_a_name_without_ticks_on_a_file_s_last_day_rolls_by_the_instrument_of_its_latest_tick(tmp_path: Path) -> None:
    """Its metadata says that the name went over within the file. No tick shows it before the next file."""
    start, hour = ref.NOON // ref.DAY * ref.DAY, 3_600 * 10**9
    end = MONDAY + dt.timedelta(7)
    names = {"ES": [(MONDAY, TUESDAY, "10"), (TUESDAY, end, "20")], "CL": [(MONDAY, end, "30")]}

    def day_file(name: str, days: tuple[int, int], *ticks: tuple[int, int]) -> Path:
        (folder := tmp_path / name).mkdir()
        records = [of_head(0x00, 0)(instrument=i, received=start + at, event=start + at) for i, at in ticks]
        span = {"start": start + days[0] * ref.DAY, "end": start + days[1] * ref.DAY}
        return file_of(folder, records, names, dataset="GLBX.MDP3", **span)

    thin = day_file("thin", (0, 2), (10, hour), (30, 2 * hour), (30, 25 * hour))
    after = day_file("after", (2, 3), (20, 49 * hour), (30, 50 * hour))
    with strand.feeds.open([thin, after]) as feed:
        found = feed.to_numpy()
        assert np.flatnonzero(is_clear(found)).tolist() == [3]
        assert [feed.symbols[key] for key in found["instrument_id"]] == ["ES", "CL", "CL", "ES", "ES", "CL"]
        assert feed.statistics()["rolled_instruments"] == 1
    # One that went over in the file, and one that had its first tick after it went over, roll no more.
    rolled = day_file("rolled", (0, 2), (10, hour), (20, 25 * hour))
    late = day_file("late", (1, 2), (20, 25 * hour))
    for first, clears in ((rolled, [1]), (late, [])):
        with strand.feeds.open([first, after]) as feed:
            assert np.flatnonzero(is_clear(feed.to_numpy())).tolist() == clears
