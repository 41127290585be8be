"""A day is a day: what a venue resets is reset at the boundary, as plain Python has it for each day by itself."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bar_reference
import numpy as np
import pytest
from book_reference import PlainBook
from click.testing import CliRunner
from itch_reference import directory, frame, message
from merge_support import ArrayFeed, stamped
from plain_run import plain_run

import strand
from strand import TICK, UNDEF_PRICE, Sessions, bars, book, imbalance, spread, trade_stats, volatility, vwap
from strand.command.cli import cli
from strand.errors import ConfigurationError
from strand.feeds import TickBatch
from strand.feeds.merge.feeds import merge_feeds
from strand.feeds.merge.streams import merge_streams
from strand.feeds.synthetic import SyntheticFeed, write_lobster, write_pitch
from strand.feeds.times import midnight_ns
from strand.feeds.write.npy import write_npy
from strand.output.fingerprint import fingerprint_of_rows
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_STATUS, KIND_TRADE, clear_records, is_clear, zeros

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
DATES = ("2026-01-05", "2026-01-06")


def market(seed: int, start: int, n: int = 1_500) -> Any:
    """Quotes of both sides and of one, and trades near them, of one symbol over 300 s."""
    rng = np.random.default_rng(seed)
    ticks = zeros(n)
    ticks["ts_recv"] = start + np.sort(rng.integers(0, 300 * SECOND, n))
    mid = 10**11 + np.cumsum(rng.integers(-2, 3, n)) * 10**7
    is_trade = rng.random(n) < 0.3
    ticks["kind"] = np.where(is_trade, KIND_TRADE, KIND_QUOTE)
    ticks["action"] = np.where(is_trade, b"T", b"N")
    ticks["side"] = rng.choice([b"A", b"B", b"N"], n)
    half = rng.integers(0, 6, n) * 10**7
    at_quote = np.where(ticks["side"] == b"A", mid + half, mid - half)
    ticks["price"] = np.where(is_trade, mid + rng.integers(-3, 4, n) * 10**7, at_quote)
    ticks["order_id"] = np.where(is_trade, 0, mid + half)
    ticks["size"] = rng.integers(1, 9, n) * 100
    ticks["ref_id"] = np.where(is_trade, 0, rng.integers(1, 9, n) * 100)
    return ticks


def clear_at(ns: int) -> Any:
    """The record that ends a day of the one symbol."""
    return clear_records(np.zeros(1, np.uint32), ns)


def trades_at(times: list[int], prices: list[int]) -> Any:
    ticks = zeros(len(times))
    ticks["kind"], ticks["action"], ticks["size"] = KIND_TRADE, b"T", 1
    ticks["ts_recv"], ticks["price"] = times, prices
    return ticks


def two_days() -> tuple[Any, Any, Any]:
    """Each day's ticks, and both with the clear record between them."""
    first, second = market(1, 10 * SECOND), market(2, DAY)
    clear = clear_at(int(second["ts_recv"][0]))
    return first, second, np.concatenate([first, clear, second])


# ---- each handler, against plain Python that computes each day by itself


@pytest.mark.parametrize("books", [False, True])
def test_a_bar_of_time_ends_where_the_day_does(*, books: bool) -> None:
    ticks = trades_at([10, 130, 170], [7, 8, 9])
    ran = plain_run(bars("100ns", book=books), np.concatenate([ticks[:2], clear_at(160), ticks[2:]]), 1)
    assert ran.records[["start", "end", "open", "close", "flags"]].tolist() == [
        (0, 100, 7, 7, 0),
        (100, 160, 8, 8, bar_reference.CUT),
        (100, 200, 9, 9, bar_reference.PARTIAL),
    ]


SESSION = Sessions(np.array([[20 * SECOND, 280 * SECOND], [DAY, DAY + 250 * SECOND]]))


@pytest.mark.parametrize("sessions", [None, SESSION])
@pytest.mark.parametrize(
    ("plain", "emitting"),
    [
        (spread, lambda **o: spread("7s", **o)),
        (spread, lambda **o: spread("7s", fill=True, **o)),
        (imbalance, lambda **o: imbalance("7s", **o)),
        (lambda **o: volatility("1s", **o), lambda **o: volatility("1s", every="7s", **o)),
        (lambda **o: bars("7s", **o), lambda **o: bars("7s", fill=True, **o)),
    ],
    ids=["spread", "filled spread", "imbalance", "volatility", "filled bars"],
)
def test_what_emits_more_has_the_same_totals_and_tells_of_no_night(plain: Any, emitting: Any, sessions: Any) -> None:
    first, second, both = two_days()
    total = plain_run(plain(sessions=sessions), both, 1).rows[0]
    ran = plain_run(emitting(sessions=sessions), both, 1)
    inner = {"last_time", "bars", "last_start", "last_end", "empty_left", "start", "end", "accounted"}
    for name in total.dtype.names:
        if not name.startswith(("stretch", "window", "interval")) and name not in inner:
            assert np.array_equal(ran.rows[0][name], total[name]), name
    ends = [int(day["ts_recv"].max()) for day in (first, second)]
    for record in ran.records:
        assert record["start"] <= ends[0] or int(second["ts_recv"][0]) < record["end"]
        assert record["start"] <= ends[1]


def test_empty_bars_of_10_ms_do_not_fill_a_weekend() -> None:
    ticks = trades_at([SECOND, SECOND + 45_000_000, 3 * DAY + SECOND], [7, 8, 9])
    clear = clear_at(3 * DAY)
    ran = plain_run(bars("10ms", fill=True), np.concatenate([ticks[:2], clear, ticks[2:]]), 1)
    assert ran.records[["close", "trades"]].tolist() == [(7, 1), (7, 0), (7, 0), (7, 0), (8, 1), (9, 1)]


@pytest.mark.parametrize("every", [None, "1m"])
@pytest.mark.parametrize("times", [(0, 0, 0), (0, 2, 3), (1, 2, 3)])
@pytest.mark.parametrize("kind", [KIND_STATUS, KIND_QUOTE])
def test_a_clear_takes_the_top_also_where_no_tick_had_a_time(kind: int, times: Any, every: Any) -> None:
    ticks = zeros(3)
    ticks["kind"], ticks["action"], ticks["ts_recv"] = [KIND_QUOTE, kind, KIND_TRADE], [b"N", b"R", b"T"], times
    ticks["side"] = [b"N", b"N", b"B"]
    ticks["price"], ticks["size"] = [99, UNDEF_PRICE, 150], [5, 0, 1]
    ticks["order_id"], ticks["ref_id"] = [101, UNDEF_PRICE, 0], [7, 0, 0]
    row = plain_run(spread(every), ticks, 1).rows[0]
    assert (row["bid"], row["ask"], row["trades"], row["unmatched"]) == (UNDEF_PRICE, UNDEF_PRICE, 0, 1)


@pytest.mark.parametrize("made", [vwap, trade_stats, spread])
def test_intervals_end_where_the_day_does(made: Any) -> None:
    """The last interval of the first day and the first of the second have the same place on the grid."""
    every = 250 * SECOND
    first, second = market(1, DAY - 310 * SECOND), market(2, DAY)
    boundary = int(second["ts_recv"][0])
    both = np.concatenate([first, clear_at(boundary), second])
    records = plain_run(made("250s"), both, 1).records
    expected = []
    for day, end in ((first, boundary), (second, 2**62)):
        trades = day[day["kind"] == KIND_TRADE]
        for participant in sorted({int(t) // every for t in day["ts_recv"]}):
            volume = int(trades["size"][trades["ts_recv"] // every == participant].sum())
            expected.append((participant * every, min((participant + 1) * every, end), volume))
    assert expected[1][0] == expected[2][0]
    if made is spread:
        assert [(r["start"], r["end"]) for r in records] == [(start, end) for start, end, _ in expected]
    else:
        assert records[["start", "end", "volume"]].tolist() == expected


def test_a_clear_record_leaves_totals_and_takes_the_state() -> None:
    ticks = zeros(3)
    ticks["kind"] = [KIND_ORDER, KIND_TRADE, KIND_STATUS]
    ticks["action"], ticks["side"] = [b"A", b"T", b"N"], [b"B", b"N", b"N"]
    ticks["order_id"], ticks["price"], ticks["size"] = [1, 0, 0], [100, 99, UNDEF_PRICE], [5, 7, 0]
    ticks["flags"] = [0, 0, ord("H")]
    both = np.concatenate([ticks, clear_at(9)])
    row = plain_run(book(), both, 1).rows[0]
    assert (row["bid_price"], row["bid_size"], row["orders"], row["state"]) == (UNDEF_PRICE, 0, 0, 0)
    assert (row["volume"], row["trades"], row["last_price"]) == (7, 1, 99)


# ---- files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of ITCH in a folder, of the same stocks and order ids."""
    path = tmp_path_factory.mktemp("days")
    for seed, date in enumerate(DATES):
        name = str(path / f"{date}.NASDAQ_ITCH50")
        made = CliRunner().invoke(
            cli, ["gen", "itch", "--symbols", "20", "--messages", "20000", "--seed", str(seed), "--out", name]
        )
        assert made.exit_code == 0, made.output
    return path


def orders_of(path: Path) -> dict[str, dict[int, list[Any]]]:
    """What rests at a file's end, by symbol, by the plain book."""
    feed = strand.feeds.open(path)
    found: dict[int, PlainBook] = {}
    for batch in feed.batches():
        for tick in batch:
            found.setdefault(int(tick["instrument_id"]), PlainBook()).apply(tick)
    return {feed.symbols[key]: plain.orders for key, plain in found.items()}


def test_after_two_days_of_itch_the_books_are_those_of_the_second(folder: Path) -> None:
    second = orders_of(folder / f"{DATES[1]}.NASDAQ_ITCH50")
    found = strand.replay(folder, "book")
    assert found.rows.array["crossed"].sum() == 0
    assert sum(map(len, second.values())) > 0
    for name, orders in second.items():
        resting = np.concatenate([found.books[name].orders(side) for side in ("bid", "ask")])
        assert sorted(resting["order_id"].tolist()) == sorted(orders), name
    carried = strand.replay(folder, "book", feed_options={"carry_over": True})
    assert len(carried.books[max(second, key=lambda name: len(second[name]))]) > 0
    assert carried.rows.array["unknown"].sum() + carried.rows.array["duplicates"].sum() > 0
    assert carried.ticks == found.ticks - found.feed_statistics["days_cleared"]


BUILT_IN = (
    "book", "bars", "bbo", "count", "depth", "imbalance", "spread", "trade_stats", "trades", "volatility", "vwap",
)  # fmt: skip
EMITTING = [
    bars("5m", fill=True),
    imbalance("5m"),
    spread("5m", partial=False),
    spread("5m", fill=True),
    volatility("1m", every="10m"),
]


@pytest.mark.parametrize("handler", EMITTING)
def test_what_two_days_emit_is_the_same_on_any_number_of_workers(folder: Path, handler: Any) -> None:
    found = {strand.replay(folder, handler, workers=workers).fingerprint for workers in (0, 1, 2)}
    found.add(strand.replay(folder, handler, workers=2, strands=3).fingerprint)
    assert len(found) == 1


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("handler", [*BUILT_IN, *EMITTING])
def test_each_day_leaves_the_rows_of_a_run_of_that_day_alone(folder: Path, handler: Any, workers: int) -> None:
    both = strand.replay(folder, handler, per_day=True, workers=workers)
    assert [day.end_ns is None for day in both.days] == [False, True]
    assert both.days[0].end_ns == both.days[1].start_ns
    for day, date in zip(both.days, DATES, strict=True):
        alone = strand.replay(folder / f"{date}.NASDAQ_ITCH50", handler)
        assert day.ticks == alone.ticks
        assert day.fingerprint == fingerprint_of_rows(alone.rows, alone.symbols[:], alone.ticks_by_symbol)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("handler", ["bbo", "trades"])
def test_tables_of_two_days_are_the_same_where_results_are_had_per_day(
    folder: Path, handler: str, workers: int
) -> None:
    whole = strand.replay(folder, handler, workers=workers).outputs[handler]
    each = strand.replay(folder, handler, per_day=True, workers=workers).outputs[handler]
    assert len(whole) > 1000
    assert np.array_equal(each, whole)


def test_days_of_one_venue_leave_another_alone(folder: Path, tmp_path: Path) -> None:
    at = [int(midnight_ns(dt.date.fromisoformat(date)) + 12 * 3600 * SECOND) for date in DATES]
    ticks = zeros(2)
    ticks["ts_recv"], ticks["kind"], ticks["action"], ticks["size"], ticks["price"] = at, KIND_TRADE, b"T", 5, 7
    write_npy(tmp_path / "coin.npz", ticks, ["COIN"])
    result = strand.replay([*sorted(folder.iterdir()), tmp_path / "coin.npz"], "count", per_day=True)
    assert ["COIN" in day.symbols for day in result.days] == [False, True]
    assert (result.rows["COIN"]["trades"], result.rows["COIN"]["volume"]) == (2, 10)


def test_the_state_of_compiled_and_batch_handlers_begins_anew(folder: Path) -> None:
    @strand.batch_handler(state=[("ticks", "i8")])
    def counted(symbol: str, ticks: Any, row: Any) -> None:
        row["ticks"] += np.count_nonzero(~is_clear(ticks))

    result = strand.replay(folder, counted, per_day=True, workers=2)
    for day in result.days:
        assert day.rows.array["ticks"].tolist() == day.ticks_by_symbol.tolist()


@pytest.mark.python
@pytest.mark.parametrize("workers", [0, 2])
def test_objects_are_told_of_a_new_day(folder: Path, workers: int) -> None:
    class Prices:
        def __init__(self) -> None:
            self.days: list[list[int]] = [[]]

        def on_day(self, tick: strand.Tick) -> None:
            assert tick.kind == KIND_STATUS
            self.days.append([])

        def on_trade(self, tick: strand.Tick) -> None:
            self.days[-1].append(tick.price)

    found = strand.replay(folder, Prices, workers=workers).objects
    for number, date in enumerate(DATES):
        alone = strand.replay(folder / f"{date}.NASDAQ_ITCH50", Prices).objects
        assert [len(alone[name].days) for name in alone] == [1] * 20
        assert all(found[name].days[number] == alone[name].days[0] for name in alone)


def test_the_command_reports_each_day(folder: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    run = CliRunner().invoke
    made = run(cli, ["replay", str(folder), "--handler", "vwap", "--per-day", "--out", str(rows), "--json"])
    assert made.exit_code == 0, made.output
    days = json.loads(made.output)["days"]
    lines = rows.read_text().splitlines()
    assert lines[0].startswith("day,symbol,")
    assert [sum(line.startswith(f"{number},") for line in lines) for number in (1, 2)] == [d["symbols"] for d in days]
    shown = run(cli, ["replay", str(folder), "--handler", "vwap", "--per-day", "-v"]).output
    assert f"fingerprint {days[0]['fingerprint']}" in " ".join(shown.split())


@pytest.mark.parametrize("end", ["npz", "parquet"])
def test_a_converted_folder_keeps_its_days(folder: Path, tmp_path: Path, end: str) -> None:
    made = CliRunner().invoke(cli, ["convert", str(folder), str(tmp_path / f"both.{end}")])
    assert made.exit_code == 0, made.output
    source, again = strand.replay(folder, "book"), strand.replay(tmp_path / f"both.{end}", "book")
    assert again.fingerprint == source.fingerprint
    carried = strand.replay(tmp_path / f"both.{end}", "book", feed_options={"carry_over": True})
    assert carried.fingerprint != again.fingerprint


def test_a_start_of_messages_begins_a_day_within_a_file(tmp_path: Path) -> None:
    def session(start: int) -> list[bytes]:
        orders = [message("A", at, start + 9, 7, b"B", 100, name.ljust(8), 10_000) for at, name in NAMES.items()]
        return [message("S", 0, start, b"O"), *(directory(at, name) for at, name in NAMES.items()), *orders]

    path = tmp_path / "day.itch50"
    path.write_bytes(b"".join(frame(body) for body in session(10) + session(1000)))
    found = strand.replay(path, "book", feed_options={"date": DATES[0]}, per_day=True)
    assert (found.rows.array["duplicates"].sum(), found.rows.array["orders"].sum()) == (0, 3)
    assert [(day.ticks, day.rows.array["orders"].sum()) for day in found.days] == [(3, 3), (3, 3)]
    flowed = strand.replay(path, "book", feed_options={"date": DATES[0]}, workers=1)
    assert flowed.rows.array["duplicates"].sum() == 0
    one = strand.replay(path, "book", symbols=["BB"], feed_options={"date": DATES[0]})
    assert (one.ticks, one.rows["BB"]["orders"]) == (3, 1)
    carried = strand.replay(path, "book", feed_options={"date": DATES[0], "carry_over": True})
    assert (carried.ticks, carried.rows.array["duplicates"].sum()) == (6, 3)


NAMES = {1: b"AA", 2: b"BB", 9: b"CC"}


def test_days_of_files_of_single_symbols_end_together(tmp_path: Path) -> None:
    """LOBSTER: four files of two symbols. The second day begins with the first of its files."""
    for seed, date in enumerate(DATES):
        feed = SyntheticFeed(2, 3_000, seed=seed, date=date)
        for symbol in feed.symbols[1:] if not feed.symbols[0] else feed.symbols:
            _, levels = write_lobster(feed, tmp_path, symbol=symbol)
            Path(levels.path).unlink()
    assert len(list(tmp_path.iterdir())) == 4
    both = strand.replay(tmp_path, "book")
    alone = strand.replay(str(tmp_path / f"*{DATES[1]}*"), "book")
    assert both.feed_statistics["days_cleared"] == 2
    for name in alone.symbols:
        for field in ("bid_price", "ask_price", "bid_size", "ask_size", "orders", "bid_levels", "ask_levels"):
            assert both.rows[name][field] == alone.rows[name][field], (name, field)


def test_days_of_pitch_end_with_their_files(tmp_path: Path) -> None:
    for seed, date in enumerate(DATES):
        write_pitch(SyntheticFeed(5, 5_000, seed=seed, date=date), tmp_path / f"{date}.pitch")
    both = strand.replay(tmp_path, "book")
    alone = strand.replay(tmp_path / f"{DATES[1]}.pitch", "book")
    for name in [f"AAAA{letter}" for letter in "ABCDE"]:
        assert both.rows[name]["orders"] == alone.rows[name]["orders"]
    assert both.rows.array["crossed"].sum() == 0


# ---- which files are days


def part(start: int, *, date: str | None, venue: str | None = "X", n: int = 4, key: int = 0) -> ArrayFeed:
    ticks = zeros(n)
    ticks["ts_recv"] = start + np.arange(n)
    ticks["instrument_id"] = key
    return ArrayFeed(ticks, ["A", "B"], venue=venue, date=date, path=f"{start}")


def clears(*feeds: ArrayFeed, **options: Any) -> list[tuple[int, str]]:
    """Time and symbol of each clear record."""
    found = []
    with merge_feeds(feeds, **options) as merged:
        for batch in merged.batches():
            for tick in batch[(batch["action"] == b"R") & (batch["kind"] == KIND_STATUS)]:
                found.append((int(tick["ts_recv"]), merged.symbols[int(tick["instrument_id"])]))
    return found


def test_a_file_that_begins_when_another_has_ended_is_a_new_day() -> None:
    options = {"new_day": "file", "batch_ticks": 3}
    assert clears(part(0, date=None), part(10, date=None), **options) == [(10, "A")]
    assert clears(part(0, date=None), part(10, date=None)) == []  # nobody said that this venue closes
    assert clears(part(0, date=None), part(2, date=None), **options) == []  # at the same time
    assert clears(part(0, date=None), part(10, date=None, venue="Y"), **options) == []
    assert clears(part(0, date=None, key=1), part(10, date=None), **options) == [(10, "B")]
    three = [part(at, date=None) for at in (0, 10, 20)]
    assert clears(*three, **options) == [(10, "A"), (20, "A")]


def test_a_symbol_that_another_file_is_still_telling_is_not_cleared() -> None:
    still = part(1, date=None, n=20, key=0)
    assert clears(part(0, date=None, n=3), still, part(10, date=None, key=1), new_day="file") == []


def test_options_of_days_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="new_day: 'week'"):
        merge_feeds([part(0, date=None)], new_day="week")
    with pytest.raises(ConfigurationError, match="with new_day= days end"):
        merge_feeds([part(0, date=None)], new_day="file", carry_over=True)


def test_the_command_carries_over(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    run = CliRunner().invoke
    plain = run(cli, ["info", str(folder), "--json"])
    carried = run(cli, ["info", str(folder), "--json", "--carry-over"])
    assert plain.exit_code == carried.exit_code == 0
    assert '"days_cleared": 20' in plain.output
    assert '"days_cleared": 0' in carried.output


# ---- what merged files say of themselves


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """A day in two parts, the directory in the first, and the next day with the same locates for other stocks."""
    first = [message("S", 0, 1, b"O"), *(directory(at, name) for at, name in NAMES.items())]
    first += [message("A", at, 100 + at, at, b"B", 100, name.ljust(8), 10_000) for at, name in NAMES.items()]
    second = [message("E", at, 1_000 + at, at, 40, 7) for at in NAMES]
    next_day = [directory(at, b"N" + name) for at, name in NAMES.items()]
    next_day += [
        message("A", at, 100 + at, at, b"B", 300, (b"N" + name).ljust(8), 10_000) for at, name in NAMES.items()
    ]
    paths = []
    for name, bodies in (("a", first), ("b", second), ("c", next_day)):
        path = tmp_path / f"{DATES[name == 'c']}-{name}.itch50"
        path.write_bytes(b"".join(map(frame, bodies)))
        paths.append(path)
    return paths


def with_ticks(result: Any) -> list[str]:
    return sorted(result.symbols[at] for at in np.flatnonzero(result.ticks_by_symbol).tolist())


def test_locates_of_a_day_s_later_part_have_the_names_of_its_first(parts: list[Path]) -> None:
    found = strand.replay(parts, "book")
    assert with_ticks(found) == ["AA", "BB", "CC", "NAA", "NBB", "NCC"]
    assert not found.warnings
    assert [int(found.rows[name]["volume"]) for name in ("AA", "BB", "CC")] == [40] * 3
    assert [int(found.rows[name]["bid_size"]) for name in ("NAA", "NBB", "NCC")] == [300] * 3


def test_a_part_alone_has_locates_without_a_name(parts: list[Path]) -> None:
    alone = strand.replay([parts[1], parts[2]], "count")
    assert [w.kind for w in alone.warnings] == ["unnamed symbols"]
    # Another day's locates are other stocks.
    assert with_ticks(alone) == ["#3", "#4", "#5", "NAA", "NBB", "NCC"]


@pytest.mark.parametrize("end", ["npz", "parquet"])
def test_a_converted_merge_keeps_the_dates_of_its_files_and_what_they_say_of_stocks(
    parts: list[Path], tmp_path: Path, end: str
) -> None:
    out = tmp_path / f"both.{end}"
    made = CliRunner().invoke(cli, ["convert", *map(str, parts), str(out)])
    assert made.exit_code == 0, made.output
    with strand.feeds.open(out) as feed:
        assert [(one["path"], one["date"]) for one in feed.info.details["feeds"]] == [
            (path.name, path.name[:10]) for path in parts
        ]
        assert {name: stock.locate for name, stock in feed.directory.items()} == {
            name.decode(): at for at, plain in NAMES.items() for name in (plain, b"N" + plain)
        }
    assert strand.replay(out, "book").fingerprint == strand.replay(parts, "book").fingerprint


# ---- A merge of streams: alignment, and how far each stream is read


def test_ticks_are_read_where_they_lie_at_any_alignment() -> None:
    ticks = stamped([1, 3, 5])
    odd = np.frombuffer(b"\0" + ticks.tobytes(), np.uint8)[1:].view(TICK)
    spread = zeros(6)
    spread[::2] = stamped([2, 4, 6], 1)
    found = np.concatenate([part.copy() for part in merge_streams([iter([odd]), iter([spread[::2]])])])
    assert found["ts_recv"].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_merge_reads_on_only_in_the_stream_that_holds_the_others_up() -> None:
    read_of = {"quick": 0, "slow": 0}

    def counted(name: str, step: int) -> Iterator[TickBatch]:
        for start in range(100):
            read_of[name] += 1
            yield stamped([number * step for number in range(start * 10, start * 10 + 10)])

    # A hundred batches of the slow stream cover the time of one of the quick stream.
    chunks = merge_streams([counted("quick", 100), counted("slow", 1)], batch_ticks=10)
    for _ in range(90):
        next(chunks)
    assert read_of["slow"] >= 85
    assert read_of["quick"] <= 2
    assert sum(1 for _ in chunks) > 0
    assert read_of == {"quick": 100, "slow": 100}
