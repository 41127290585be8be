"""The formats a generated day is written in, read by small decoders that share nothing with the writers: all of them
tell one story, which is the story of the feed's ticks."""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_here import run_here
from hypothesis import given, settings
from hypothesis import strategies as st
from order_books import Books
from reading import ticks_of

from strand import TICK, UNDEF_PRICE, feeds
from strand.binding.lab import Market
from strand.errors import ConfigurationError, FeedError
from strand.feeds import synthetic
from strand.feeds.base import Feed, FeedInfo
from strand.feeds.formats.itch import ItchFeed
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.synthetic import (
    MBO,
    SyntheticFeed,
    check_calibration,
    route_stream,
    stream,
    write_lobster,
    write_mbo,
    write_pitch,
    write_ticks,
)
from strand.ticks import KIND_STATUS, empty, zeros

pytestmark = pytest.mark.python


MIDNIGHT_NS = 1_767_589_200 * 10**9  # 2026-01-05T00:00-05:00
CROSSES = {0x10: "O", 0x20: "C", 0x30: "H"}
SIDES = {b"B": "B", b"A": "S", b"N": "N"}

Line = tuple[Any, ...]


def feed_of(seed: int = 3) -> SyntheticFeed:
    return SyntheticFeed(30, 40_000, seed=seed, halts=5)


@pytest.fixture(scope="module")
def ticks() -> np.ndarray[Any, np.dtype[np.void]]:
    return ticks_of(feed_of())


def story(ticks: Any) -> Iterator[Line]:
    """What happens, an action a line: (ns since midnight, locate, what, ...), prices in units of 1e-9."""
    orders: dict[int, list[Any]] = {}
    for t in ticks.tolist():
        tick = dict(zip(TICK.names or (), t, strict=True))
        head = (tick["ts_event"] - MIDNIGHT_NS, tick["instrument_id"])
        order, size, price, flags = tick["order_id"], tick["size"], tick["price"], tick["flags"]
        match tick["action"]:
            case b"A":
                orders[order] = [SIDES[tick["side"]], price, size]
                yield (*head, "add", order, SIDES[tick["side"]], price, size)
            case b"F":
                side, limit, _ = orders[order]
                orders[order][2] -= size
                yield (*head, "execute", order, side, limit, size)
            case b"C" | b"M":
                side, limit, left = orders[order]
                taken = left if tick["action"] == b"M" or not size else size
                orders[order][2] -= taken
                yield (*head, "take", order, side, limit, taken)
                if tick["action"] == b"M":
                    orders[tick["ref_id"]] = [side, price, size]
                    yield (*head, "add", tick["ref_id"], side, price, size)
            case b"T" if flags & 4:
                yield (*head, "cross", CROSSES[flags & 0x70], price, size)
            case b"T":
                yield (*head, "trade", price, size)
            case b"N" if flags & 0x80:
                yield (*head, "imbalance", chr(flags & 0x7F), SIDES[tick["side"]], price, size, tick["ref_id"])
            case b"N":
                yield (*head, "state", chr(flags))


def test_the_reader_of_pitch_takes_what_was_written(tmp_path: Path, ticks: Any) -> None:
    write_pitch(feed_of(), tmp_path / "day.pitch.gz")
    opened = feeds.open(tmp_path / "day.pitch.gz", date="2026-01-05")
    read = ticks_of(opened)
    names = list(opened.symbols)
    assert opened.info.format == "pitch"
    what = {b"A": "add", b"F": "execute", b"C": "take", b"T": "trade"}
    lines = [(line[1], line[0] // 10**6, *line[2:]) for line in story(ticks)]
    expected = [line for line in lines if line[2] in what.values()]
    halts = [(*line[:2], line[3].replace("P", "H")) for line in lines if line[2] == "state"]
    ms, locate_of = (read["ts_event"] - MIDNIGHT_NS) // 10**6, feed_of().locate_of
    orders: dict[int, list[Any]] = {}
    found: list[Line] = []
    told: list[Line] = []
    for t, at in zip(read.tolist(), ms.tolist(), strict=True):
        tick = dict(zip(TICK.names or (), t, strict=True))
        locate, action = locate_of(names[tick["instrument_id"]]), tick["action"]
        if tick["kind"] == KIND_STATUS:
            told += [(locate, at, chr(tick["flags"]))] if chr(tick["flags"]) in "HQT" else []
        elif action == b"A":
            orders[tick["order_id"]] = [SIDES[tick["side"]], tick["price"]]
            found.append((locate, at, "add", tick["order_id"], *orders[tick["order_id"]], tick["size"]))
        elif action == b"T":
            found.append((locate, at, "trade", tick["price"], tick["size"]))
        else:
            found.append((locate, at, what[action], tick["order_id"], *orders[tick["order_id"]], tick["size"]))
    assert found == expected
    assert told == halts


def levels_after(depth: Any, levels: int) -> list[int]:
    row: list[int] = []
    bids = [(-price, shares) for price, shares in sorted((-p, s) for p, s in depth["B"].items() if s)]
    asks = sorted((p, s) for p, s in depth["S"].items() if s)
    for level in range(levels):
        for side, none in ((asks, 9999999999), (bids, -9999999999)):
            row += [side[level][0] // 100_000, side[level][1]] if level < len(side) else [none, 0]
    return row


@pytest.mark.parametrize("levels", [1, 10])
@pytest.mark.parametrize("locate", [1, 17])
def test_lobster_tells_a_symbols_story_and_its_book_after_each_row(
    tmp_path: Path, ticks: Any, locate: int, levels: int
) -> None:
    feed = feed_of()
    messages, book = write_lobster(feed, tmp_path, symbol=feed.symbols[locate], levels=levels)
    start = f"{feed.symbols[locate]}_2026-01-05_34200000_57610000"
    assert Path(messages.path).name == f"{start}_message_{levels}.csv"
    assert Path(book.path).name == f"{start}_orderbook_{levels}.csv"
    with Path(messages.path).open() as message_file, Path(book.path).open() as book_file:
        rows, books = list(csv.reader(message_file)), list(csv.reader(book_file))
    assert len(rows) == len(books) == messages.messages == book.messages
    expected, depth = [], {"B": defaultdict(int), "S": defaultdict(int)}
    mine = [line for line in story(ticks[30:]) if line[1] == locate and line[2] != "imbalance"]
    left: dict[int, int] = defaultdict(int)
    for (ns, _, what, *rest), after in zip(mine, books, strict=True):
        time = f"{ns // 10**9}.{ns % 10**9:09}"
        if what in ("add", "take", "execute"):
            order, side, price, shares = rest
            sign = 1 if what == "add" else -1
            depth[side][price] += sign * shares
            left[order] += sign * shares
            kind = {"add": 1, "execute": 4}.get(what) or (2 if left[order] else 3)
            row = [kind, order, shares, price // 100_000, 1 if side == "B" else -1]
        elif what == "trade":
            row = [5, 0, rest[1], rest[0] // 100_000, 1]
        elif what == "cross":
            row = [6, 0, rest[2], rest[1] // 100_000, -1]
        else:
            row = [7, 0, 0, {"H": -1, "P": -1, "Q": 0, "T": 1}[rest[0]], -1]
        expected.append([time, *map(str, row)])
        assert list(map(int, after)) == levels_after(depth, levels)
    assert rows == expected


def decoded_mbo(records: Any) -> Iterator[Line]:
    live: dict[int, list[Any]] = {}
    fields = records.dtype.names
    rows = iter([dict(zip(fields, row, strict=True)) for row in records.tolist()])
    for r in rows:
        head = (r["ts_event"] - MIDNIGHT_NS, r["instrument_id"])
        side = SIDES[r["side"]]
        match r["action"]:
            case b"R":
                assert (r["price"], r["size"], r["order_id"], side, r["flags"]) == (UNDEF_PRICE, 0, 0, "N", 0x80)
            case b"A":
                assert r["order_id"] not in live
                live[r["order_id"]] = [side, r["price"], r["size"]]
                yield (*head, "add", r["order_id"], side, r["price"], r["size"])
            case b"C":
                order = live[r["order_id"]]
                assert order[:2] == [side, r["price"]]
                assert 0 < r["size"] <= order[2], "more is taken than is there"
                order[2] -= r["size"]
                yield (*head, "take", r["order_id"], side, r["price"], r["size"])
            case b"T" if side == "N":
                assert r["order_id"] == 0
                yield (*head, "trade", r["price"], r["size"])
            case b"T":
                fill, cancel = next(rows), next(rows)
                assert (fill["action"], cancel["action"]) == (b"F", b"C")
                assert {fill["side"], r["side"]} == {b"A", b"B"}
                assert all(x["size"] == r["size"] and x["ts_event"] == r["ts_event"] for x in (fill, cancel))
                assert (r["flags"], fill["flags"], cancel["flags"]) == (0, 0, 0x80)
                assert abs(r["price"] - fill["price"]) in (0, 10_000_000)
                live[fill["order_id"]][2] -= r["size"]
                yield (*head, "execute", fill["order_id"], SIDES[fill["side"]], fill["price"], fill["size"])
            case _:
                raise AssertionError(r)


def test_market_by_order_records_tell_the_story_to_the_nanosecond(tmp_path: Path, ticks: Any) -> None:
    written = write_mbo(feed_of(), tmp_path / "day.npy")
    records = np.load(tmp_path / "day.npy", allow_pickle=False)
    assert records.dtype == MBO
    assert records.dtype.itemsize == 56
    assert len(records) == written.ticks
    assert (records["length"] == 14).all()
    assert (records["rtype"] == 160).all()
    assert (records["ts_recv"] == records["ts_event"]).all()
    assert (records["action"][:30] == b"R").all()
    expected = [line for line in story(ticks) if line[2] not in ("imbalance", "state")]
    expected = [(*line[:2], "trade", *line[4:]) if line[2] == "cross" else line for line in expected]
    assert list(decoded_mbo(records)) == expected
    last = records["flags"] == 0x80
    assert (np.diff(records["sequence"].astype(np.int64))[last[:-1]] > 0).all()  # an event ends where it says so
    assert last.sum() == len(np.unique(records["sequence"]))


def test_the_documented_layout_of_a_record_is_its_dtype() -> None:
    page = (Path(__file__).parents[4] / "docs" / "feeds" / "generator.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\w\d) \|", page, re.M)
    fields = MBO.fields or {}
    assert rows == [(str(fields[name][1]), name, fields[name][0].str[1:]) for name in MBO.names or ()]


WRITERS = [write_pitch, write_mbo, write_ticks, write_lobster]


@pytest.mark.parametrize("write", WRITERS)
def test_the_same_seed_writes_the_same_file_compressed_or_not_and_another_seed_another(
    tmp_path: Path, write: Any
) -> None:
    for name, seed in (("a_message.x", 1), ("b_message.x.gz", 1), ("c_message.x", 2)):
        write(SyntheticFeed(20, 5000, seed=seed), tmp_path / name)
    plain = (tmp_path / "a_message.x").read_bytes()
    assert gzip.decompress((tmp_path / "b_message.x.gz").read_bytes()) == plain
    assert (tmp_path / "c_message.x").read_bytes() != plain


@pytest.mark.parametrize("write", WRITERS)
def test_what_a_name_promises_is_what_is_written(tmp_path: Path, write: Any) -> None:
    zstandard = pytest.importorskip("zstandard")
    write(SyntheticFeed(20, 5000, seed=1), tmp_path / "a_message.x")
    write(SyntheticFeed(20, 5000, seed=1), tmp_path / "b_message.x.zst")
    with zstandard.open(tmp_path / "b_message.x.zst", "rb") as packed:
        assert packed.read() == (tmp_path / "a_message.x").read_bytes()
    for name in ("c_message.x.bz2", "c_message.XZ", "c_message.zip"):
        with pytest.raises(ConfigurationError, match=r"end the name in \.gz or \.zst"):
            write(SyntheticFeed(20, 5000, seed=1), tmp_path / name)
    if write in (write_mbo, write_ticks):
        with pytest.raises(ConfigurationError, match=r"end the name in \.npy"):
            write(SyntheticFeed(20, 5000, seed=1), tmp_path / "c.npz")
    assert list(tmp_path.glob("*c*")) == []


@pytest.mark.parametrize("write", WRITERS)
def test_writing_that_is_stopped_leaves_no_file(tmp_path: Path, write: Any) -> None:
    calls: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        calls.append((done, total))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(SyntheticFeed(20, 50_000), tmp_path / "a_message.x", progress=stop)
    assert calls == [(16_384, 50_000)]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FeedError, match="cannot be written"):
        write(SyntheticFeed(20, 500), tmp_path / "missing" / "a_message.x")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"symbol": "ZZZZZ"}, "symbol: the day has no 'ZZZZZ': its symbols are AAAAA to AAAAT"),
        ({"symbol": "AAAAU"}, "symbol"),
        ({"symbol": "aaaaa"}, "symbol"),
        ({"symbol": ""}, "symbol"),
        ({"symbol": "A"}, "symbol"),
        ({"levels": 0}, "levels"),
        ({"levels": 201}, "levels"),
        ({"levels": 2.5}, "levels"),
        ({"path": "orders.csv"}, "message"),
    ],
)
def test_lobster_refuses_what_cannot_work(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    path = tmp_path / arguments.pop("path", "a_message.csv")
    with pytest.raises(ConfigurationError, match=words):
        write_lobster(SyntheticFeed(20, 500), path, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_every_format_and_says_what_it_wrote(tmp_path: Path) -> None:
    day = ("--symbols", "20", "--messages", "5000", "--seed", "9", "--halts", "2", "--burst", "0.5", "--json")
    feed = SyntheticFeed(20, 5000, seed=9, halts=2, burst=0.5)
    for kind, options, write in (
        ("itch", (), lambda feed, path: feed.write_itch(path)),
        ("pitch", (), write_pitch),
        ("npy", (), write_mbo),
        ("npy", ("--records", "tick"), write_ticks),
        ("lobster", ("--symbol", "AAAAC", "--levels", "3"), lambda f, p: write_lobster(f, p, symbol="AAAAC", levels=3)),
    ):
        done = run_here("gen", kind, *day, *options, "--out", str(tmp_path / "a_message"))
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        write(feed, tmp_path / "b_message")
        content = (tmp_path / "a_message").read_bytes()
        assert content == (tmp_path / "b_message").read_bytes()
        assert (told["path"], told["bytes"]) == (str(tmp_path / "a_message"), len(content))
        if kind == "lobster":
            assert [file["path"] for file in told["files"]] == [
                str(tmp_path / "a_message"), str(tmp_path / "a_orderbook")
            ]  # fmt: skip


def test_the_command_measures_a_file_against_the_calibrated_day(tmp_path: Path) -> None:
    path = tmp_path / "day.itch50"
    SyntheticFeed(8172, 100_000).write_itch(path)
    done = run_here("gen", "check", str(path), "--date", "2026-01-05", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    expected = {m.name: m.found for m in check_calibration(SyntheticFeed(8172, 100_000))}
    assert {name: m["found"] for name, m in told.items()} == expected
    assert not told["gap p50 / mean"]["close"]
    shown = run_here("gen", "check", str(path), "--date", "2026-01-05").stdout
    assert all(name in shown for name in told)
    undated = run_here("gen", "check", str(path))
    assert (undated.returncode, "date" in undated.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("lobster", "--out", "orders.csv"), "message"),
        (("lobster", "--symbol", "nope", "--out", "a_message.csv"), "no 'nope'"),
        (("pitch", "--halts", "9999", "--out", "x"), "halts"),
        (("npy", "--burst", "3", "--out", "x"), "burst"),
    ],
)
def test_bad_options_of_the_command_are_one_clear_error(args: tuple[str, ...], words: str) -> None:
    done = run_here("gen", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


# ---- The synthetic market, checked by a parser and an order book that share nothing with the code that makes it


OPEN_NS = MIDNIGHT_NS + 34_200 * 10**9
CLOSE_NS = MIDNIGHT_NS + 57_600 * 10**9
OPENING = 3  # messages before the first event, and three a symbol


@pytest.fixture(scope="module")
def day() -> np.ndarray[Any, np.dtype[np.void]]:
    return stream(150_000, symbols=60, seed=7)


@pytest.fixture(scope="module")
def books(day: Any) -> Books:
    return Books().replay(day)


def test_the_generator_and_an_independent_book_agree_on_what_lives_at_the_end(books: Books) -> None:
    market: Market = SyntheticFeed(60, 150_000, seed=7).market()
    out = empty(150_000)
    assert market.next_batch(out) == 150_000
    assert market.next_batch(out) == 0
    market.check()
    totals = market.totals()
    assert totals.events == 150_000
    assert totals.live_orders == len(books.orders)
    assert totals.order_bytes <= 64 * totals.live_orders + 60 * 2 * 4 * 16


def test_times_rise_and_sequences_by_one_but_for_the_start_and_the_end_of_market_hours(day: Any) -> None:
    times = day["ts_event"].astype(np.int64)
    assert (np.diff(times) >= 0).all()
    assert OPEN_NS - 120 * 10**9 <= times[0] < OPEN_NS - 110 * 10**9
    assert CLOSE_NS + 5 * 10**9 <= times[-1] < CLOSE_NS + 10 * 10**9
    session = times[(times >= OPEN_NS) & (times < CLOSE_NS)]
    assert session[0] < OPEN_NS + 60 * 10**9
    assert session[-1] > CLOSE_NS - 60 * 10**9
    assert (day["ts_recv"] == day["ts_event"]).all()
    hours = (times >= OPEN_NS).astype(int) + (times >= CLOSE_NS)
    assert (day["sequence"] == np.arange(150_000) + OPENING + 3 * 60 + 1 + hours).all()


def test_imbalances_come_before_the_crosses_and_crosses_begin_and_end_the_trading(day: Any) -> None:
    opening = np.flatnonzero(day["flags"] == 0x80 | ord("O"))
    assert opening.tolist() == list(range(len(opening)))
    crosses = np.flatnonzero((day["action"] == b"T") & np.isin(day["flags"], (0x14, 0x24)))
    assert crosses.tolist() == [*range(len(opening), len(opening) + 60), *range(150_000 - 60, 150_000)]
    assert set(day["instrument_id"][opening]) == set(range(1, 61)) == set(day["instrument_id"][crosses[:60]])
    assert (day["ts_event"][opening] < OPEN_NS).all()
    closing = day[day["flags"] == 0x80 | ord("C")]
    assert set(closing["instrument_id"]) == set(range(1, 61))
    assert closing["ts_event"].min() >= CLOSE_NS - 600 * 10**9
    assert (day["ts_event"][-60:] >= CLOSE_NS).all()


def test_a_halted_symbol_is_only_cancelled_and_reopens_in_a_cross() -> None:
    ticks = stream(200_000, symbols=4, seed=5, halts=4)
    seen = Counter[str]()
    for locate in range(1, 5):
        mine = ticks[ticks["instrument_id"] == locate]
        states = np.flatnonzero((mine["kind"] == 4) & (mine["flags"] < 0x80))
        halt, quote, resume = states
        assert [chr(c) for c in mine["flags"][states]] in (["P", "Q", "T"], ["H", "Q", "T"])
        reasons = [int(r).to_bytes(4, "big") for r in mine["ref_id"][states]]
        assert reasons in ([b"LUDP"] * 3, [b"T1  ", b"T3  ", b"T3  "])
        assert set(mine["action"][halt + 1 : quote]) <= {b"C", b"N"}
        assert set(mine["action"][quote + 1 : resume - 1]) <= {b"A", b"C", b"M", b"N"}
        assert mine["flags"][resume - 1] == 0x34
        seconds = (int(mine["ts_event"][resume]) - int(mine["ts_event"][halt])) / 1e9
        assert seconds == pytest.approx(300, abs=10) if reasons[0] == b"LUDP" else 890 < seconds < 2710
        seen.update(tick.decode() for tick in mine["action"][halt:resume])
    assert seen["C"]
    assert seen["A"]


@pytest.mark.parametrize(
    ("messages", "symbols", "seed", "burst", "digest"),
    [
        (300, 7, 1, 1.0, "e5abf2aabc8c30ed"),
        (20_000, 500, 7, 1.0, "261b13cf9764927b"),
        (20_000, 500, 7, 2.0, "14ebd1fdc7385ed0"),
    ],
)
def test_a_seed_s_stream_stays_as_it_was(messages: int, symbols: int, seed: int, burst: float, digest: str) -> None:
    made = stream(messages, symbols, seed=seed, burst=burst)
    assert blake2b(made.tobytes(), digest_size=8).hexdigest() == digest


@pytest.mark.parametrize("batch_ticks", [1, 7, 1000, 1_000_000])
def test_the_batch_size_does_not_change_the_stream(batch_ticks: int) -> None:
    feed = SyntheticFeed(40, 5000, batch_ticks=batch_ticks)
    sizes = [len(batch) for batch in feed.batches()]
    assert max(sizes) <= batch_ticks
    assert sum(sizes) == 5040
    assert ticks_of(feed).tobytes() == ticks_of(SyntheticFeed(40, 5000)).tobytes()


def test_the_itch_reader_gives_back_the_ticks_that_were_written(tmp_path: Path) -> None:
    feed = SyntheticFeed(70, 30_000, seed=9)
    feed.write_itch(tmp_path / "day.itch50.gz")
    read = ItchFeed(tmp_path / "day.itch50.gz", date="2026-01-05")
    assert ticks_of(read).tobytes() == ticks_of(feed).tobytes()
    assert list(read.symbols) == list(feed.symbols)


def test_writing_that_is_stopped_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "day.itch50"
    path.write_bytes(b"old")
    calls: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        calls.append((done, total))
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SyntheticFeed(20, 100_000).write_itch(path, progress=stop)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["day.itch50"]
    SyntheticFeed(20, 100_000).write_itch(path, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (100_067, 100_067)


def test_a_place_that_cannot_be_written_is_a_feed_error(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match=r"cannot be written: there is no folder .*missing$"):
        SyntheticFeed(5, 100).write_itch(tmp_path / "missing" / "day.itch50")
    with pytest.raises(FeedError, match=r"cannot be written: File name too long$"):
        SyntheticFeed(5, 100).write_itch(tmp_path / ("x" * 300) / "day.itch50")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FeedError, match="cannot be written: it is a folder"):
        SyntheticFeed(5, 100).write_itch(tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_file_refuses_more_symbols_than_it_can_number_and_arrays_take_a_million(tmp_path: Path) -> None:
    SyntheticFeed(65_535, 1000).write_itch(tmp_path / "most.itch50")
    with pytest.raises(ConfigurationError, match=r"symbols: .*65,535"):
        SyntheticFeed(65_536, 1000).write_itch(tmp_path / "more.itch50")
    assert [p.name for p in tmp_path.iterdir()] == ["most.itch50"]
    feed = SyntheticFeed(1_000_000, 300_000)
    assert feed.max_symbols == len(feed.symbols) == 1_000_001
    assert feed.symbols[-1] == "CEXHN"
    ticks = stream(300_000, symbols=1_000_000)
    Books().replay(ticks[:20_000])
    assert 300_000 > len(np.unique(ticks["instrument_id"])) > 30_000
    assert ticks["instrument_id"].max() <= 1_000_000


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"symbols": 0}, "symbols"),
        ({"symbols": 1_000_001}, "symbols"),
        ({"messages": 0}, "messages"),
        ({"messages": 2**40}, "messages"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"date": "1960-01-05"}, "date"),
        ({"skew": "zipf"}, "skew"),
        ({"skew": float("nan")}, "skew"),
        ({"skew": 9}, "skew"),
        ({"burst": 2.5}, "burst"),
        ({"burst": "much"}, "burst"),
        ({"batch_ticks": 0}, "batch_ticks"),
        ({"halts": 1.5}, "halts"),
        ({"symbols": 5, "halts": 6}, "halts"),
        ({"messages": 999, "halts": 10}, "halts"),
    ],
)
def test_a_bad_argument_is_refused_and_named(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field}: "):
        SyntheticFeed(**arguments)


def test_a_feed_can_be_closed_in_the_middle_and_read_anew() -> None:
    feed = SyntheticFeed(10, 5000, batch_ticks=1000)
    assert isinstance(feed, Feed)
    batches = feed.batches()
    next(batches)
    assert feed.statistics() == {"messages": 1024, "ticks": 1000, "skipped": 0}
    feed.close()
    feed.close()
    assert list(batches) == []
    assert sum(len(batch) for batch in feed.batches()) == feed.statistics()["ticks"] == 5010


@pytest.mark.parametrize(
    ("arguments", "checksum", "first"),
    [
        ((1_000_000, 8172, "calibrated"), 1170836282, [7695, 7028, 1026, 7568]),
        ((1_000_000, 50, 1.2), 1190616058, [35, 2, 3, 49]),
        ((300_000, 1_000_000, 0.9), 1562724894, [844908, 670466, 706427, 399276]),
        ((300_000, 20_000, "calibrated"), 2820094440, [17387, 17395, 11107, 14963]),
        ((300_000, 300, "calibrated"), 2625758411, [233, 28, 80, 116]),
    ],
)
def test_the_routing_stream_keeps_its_recipe(arguments: Any, checksum: int, first: list[int]) -> None:
    ticks = route_stream(*arguments)
    assert ticks["instrument_id"][:4].tolist() == first
    assert zlib.crc32(ticks.tobytes()) == checksum
    assert ticks.ctypes.data % 64 == 0


@settings(max_examples=60, deadline=None)
@given(
    symbols=st.integers(1, 60),
    messages=st.integers(1, 3000),
    seed=st.integers(0, 2**64 - 1),
    skew=st.one_of(st.just("calibrated"), st.floats(0, 8)),
    burst=st.floats(0, 2),
    halted=st.floats(0, 1),
)
def test_any_day_fits_an_independent_book_and_has_as_many_events_as_asked_for(
    *, symbols: int, messages: int, seed: int, skew: Any, burst: float, halted: float
) -> None:
    halts = int(halted * min(symbols, messages // 100))
    feed = SyntheticFeed(symbols, messages, seed=seed, skew=skew, burst=burst, halts=halts)
    ticks = ticks_of(feed)[symbols:]
    assert len(ticks) == messages
    assert (np.diff(ticks["ts_event"].astype(np.int64)) >= 0).all()
    books = Books().replay(ticks)
    assert books.counts["state"] == 3 * halts
    assert set(books.states.values()) <= {"T"}
    assert not any(books.paired.values())


# ---- The shares and peaks of the generated day are the calibrated ones


def test_a_zipf_exponent_gives_the_busiest_symbol_its_share() -> None:
    counts = np.bincount(stream(500_000, symbols=50, skew=1.2)["instrument_id"])
    harmonic = sum(rank**-1.2 for rank in range(1, 51))
    assert counts.max() / 500_000 == pytest.approx(1 / harmonic, rel=0.03)


# ---- How close generated days are to the calibrated one: the table of docs/feeds/generator.md, asserted


PAGE = Path(__file__).parents[4] / "docs" / "feeds" / "generator.md"
TEN_MILLION = {"symbols": 8172, "messages": 10_000_000, "seed": 1, "batch_ticks": 1 << 18}


def test_a_day_of_ten_million_messages_is_as_close_as_the_page_says() -> None:
    measures = check_calibration(SyntheticFeed(**TEN_MILLION))
    assert [m.name for m in measures if not m.close] == []
    rows = re.findall(
        r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| ([\d.]+) to ([\d.]+) \|$", PAGE.read_text(), re.M
    )
    shown = {name.strip(): (float(t), float(f), float(low), float(high)) for name, t, f, low, high in rows}
    assert shown == {m.name: (round(m.target, 4), round(m.found, 4), m.low, m.high) for m in measures}


@pytest.mark.parametrize(
    ("change", "loses"),
    [({"burst": 0.5}, "peak second / mean"), ({"skew": 1.0}, "share of the top 1"), ({"burst": 0.0}, "gap p50 / mean")],
)
def test_a_day_of_another_shape_is_not_called_close(change: dict[str, float], loses: str) -> None:
    feed = SyntheticFeed(**(TEN_MILLION | {"messages": 1_000_000} | change))  # type: ignore[arg-type]
    assert loses in {m.name for m in check_calibration(feed) if not m.close}


def test_the_targets_are_those_of_the_calibrated_day(shared_data: Path) -> None:
    path = shared_data / "calibration.json"
    if not path.exists():
        pytest.skip("no calibration table")
    table = json.loads(path.read_text())
    burst, mean = table["burst"], table["burst"]["mean_per_second_over_6.5h"]
    assert {f"top_{n}": share for n, share in synthetic.TOP_SHARES.items()} == table["share_of_messages"]
    assert pytest.approx(burst["aggregate_max_per_second"] / mean) == synthetic.PEAK_SECOND
    assert pytest.approx(1000 * burst["aggregate_max_per_millisecond"] / mean) == synthetic.PEAK_MILLISECOND
    assert pytest.approx(1000 * burst["aggregate_p999_per_millisecond"] / mean) == synthetic.P999_MILLISECOND
    for part, over_mean in synthetic.GAP_QUANTILES.items():
        gap = burst["interarrival_ns"][f"p{round(100 * part):02}Arrival"]
        assert over_mean == pytest.approx(gap / (23_400e9 / table["messages"]))


def test_measures_are_what_a_plain_computation_gives() -> None:
    feed = SyntheticFeed(300, 200_000, seed=4, batch_ticks=999)
    found = {m.name: m.found for m in check_calibration(feed)}
    ticks = ticks_of(feed)
    counts = sorted(np.bincount(ticks["instrument_id"]).tolist(), reverse=True)
    assert found["share of the top 10"] == pytest.approx(sum(counts[:10]) / len(ticks))
    since = ticks["ts_event"].astype(np.int64) - (1_767_589_200 + 34_200) * 10**9
    since = since[(since >= 0) & (since < 23_400 * 10**9)]
    assert found["peak second / mean"] == pytest.approx(np.bincount(since // 10**9).max() / (len(since) / 23_400))
    gap = np.quantile(np.diff(since), 0.5) / (23_400e9 / len(since))
    assert found["gap p50 / mean"] == pytest.approx(gap, rel=0.02)


def test_a_feed_without_a_date_or_without_ticks_in_the_session_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", zeros(10))
    feed = NpyFeed(tmp_path / "a.npy")
    assert isinstance(feed.info, FeedInfo)
    with pytest.raises(ConfigurationError, match="trading day"):
        check_calibration(feed)
    with pytest.raises(ConfigurationError, match="nothing to measure"):
        check_calibration(SyntheticFeed(1, 1))
