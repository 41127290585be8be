"""The formats a generated day is written in, read by small decoders that share nothing with the writers: all of them
tell one story, which is the story of the feed's ticks."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_here import run_here
from reading import ticks_of

from strand import TICK, UNDEF_PRICE, feeds
from strand.errors import ConfigurationError, FeedError
from strand.feeds.synthetic import (
    MBO,
    SyntheticFeed,
    check_calibration,
    write_lobster,
    write_mbo,
    write_pitch,
    write_ticks,
)
from strand.ticks import KIND_STATUS

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
