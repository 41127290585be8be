"""One archive: what its names say, and its rows as ticks."""

from __future__ import annotations

import zipfile
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from lean_files import TRADES, archive
from reading import ticks_of

import strand.feeds
from strand import UNDEF_PRICE
from strand.errors import FormatError
from strand.feeds import Feed
from strand.feeds.formats.lean import _CHUNK_BYTES, FLAG_SUSPICIOUS, LeanFeed
from strand.ticks import KIND_QUOTE, KIND_TRADE

pytestmark = pytest.mark.python
QUOTES = (
    b"34200000,475000,200,0,0,P,1,0\n34200001,0,0,484800,3000,K,1,0\n34200001,1,2,3,4,N,8,1\n34200002,0,0,0,0,N,1,0\n"
)


def test_a_trade_row_becomes_a_trade_tick(tmp_path: Path) -> None:
    feed = LeanFeed(archive(tmp_path, TRADES))
    assert isinstance(feed, Feed)
    assert (feed.symbols, feed.max_symbols, feed.info.date) == (("XYZ",), 1, "2013-10-09")
    ticks = ticks_of(feed)
    opening = int(datetime(2013, 10, 9, 9, 30, tzinfo=ZoneInfo("America/New_York")).timestamp()) * 10**9
    assert ticks["ts_event"].tolist() == ticks["ts_recv"].tolist() == [opening, opening, opening + 5_000_000]
    assert ticks["price"].tolist() == [47_990_000_000, 48_100_000_000, 48_000_000_000]
    assert ticks["size"].tolist() == [100, 200, 1]
    assert ticks["order_id"].tolist() == [0x2000, 0x20002020, 0]
    assert ticks["publisher_id"].tolist() == [ord("P"), ord("Q"), 0]
    assert ticks["flags"].tolist() == [0, FLAG_SUSPICIOUS, 0]
    assert ticks["sequence"].tolist() == [1, 2, 3]
    assert set(zip(ticks["kind"].tolist(), ticks["action"].tolist(), ticks["side"].tolist(), strict=True)) == {
        (KIND_TRADE, b"T", b"N")
    }
    assert feed.statistics()["suspicious"] == 1


def test_a_quote_row_becomes_a_tick_of_one_side_of_both_or_of_none(tmp_path: Path) -> None:
    ticks = ticks_of(LeanFeed(archive(tmp_path, QUOTES, kind="quote")))
    assert ticks["side"].tolist() == [b"B", b"A", b"N", b"N"]
    assert ticks["price"].tolist() == [47_500_000_000, 48_480_000_000, 100_000, UNDEF_PRICE]
    assert ticks["size"].tolist() == [200, 3000, 2, 0]
    assert ticks["order_id"].tolist() == [0, 0, 300_000, UNDEF_PRICE]
    assert ticks["ref_id"].tolist() == [0, 0, 4, 0]
    assert set(ticks["kind"].tolist()) == {KIND_QUOTE}
    assert set(ticks["action"].tolist()) == {b"N"}


def test_an_archive_that_another_system_packed_again_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "mine.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("usa/", b"")
        packed.writestr("usa/20131009_XYZ_Trade_Tick.csv", TRADES)
        packed.writestr("__MACOSX/usa/._20131009_XYZ_Trade_Tick.csv", b"\0\5\x16\7")
        packed.writestr("usa/.DS_Store", b"\0\0\0\1Bud1")
    with strand.feeds.open(path) as feed:
        assert (feed.info.format, feed.info.date, list(feed.symbols)) == ("lean", "2013-10-09", ["XYZ"])
        assert ticks_of(feed).tobytes() == ticks_of(LeanFeed(archive(tmp_path, TRADES))).tobytes()


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("equity/usa/tick/brk.b/20131009_trade.zip", "20131009_brk.b_Trade_Tick.csv"),
        ("equity/usa/tick/brk.b/20131009_trade.zip", "rows.csv"),
        ("brk.b_20131009_trade.zip", "rows.csv"),
        ("anything.zip", "20131009_BRK.B_trade_tick.csv"),
    ],
)
def test_symbol_date_and_kind_come_from_either_name(tmp_path: Path, name: str, member: str) -> None:
    feed = LeanFeed(archive(tmp_path, TRADES, name=name, member=member))
    assert (feed.symbols, feed.info.date) == (("BRK.B",), "2013-10-09")
    assert set(ticks_of(feed)["kind"].tolist()) == {KIND_TRADE}


@pytest.mark.parametrize(
    ("name", "member", "words"),
    [
        ("rows.zip", "rows.csv", "neither its name nor its member's"),
        ("20131009_trade.zip", "rows.csv", "neither its name"),
        ("abc_20131009_trade.zip", "20131009_xyz_Trade_Tick.csv", "but its own name says"),
        ("xyz_20131008_trade.zip", "20131009_xyz_Trade_Tick.csv", "but its own name says"),
        ("x.zip", "20131309_xyz_Trade_Tick.csv", "20131309 does not exist"),
        ("x.zip", "20131009_xyz_Trade_Tick.txt", "holds 0 CSV files"),
    ],
)
def test_names_that_do_not_tell_or_disagree_are_refused(tmp_path: Path, name: str, member: str, words: str) -> None:
    path = archive(tmp_path, TRADES, name=name, member=member)
    with pytest.raises(FormatError, match=words):
        LeanFeed(path)


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"34200000,479900,100,P,2000,0\n34200000,4810", 2, "2 fields where there are 6 columns"),
        (b"34200000,479900,100,P,2000,0,7\n", 1, "7 fields where there are 6 columns"),
        (b"34200000,479900,100,P,2000,0\r\n34200000,x,100,P,2000,0\n", 2, "column price: .*'x'"),
        (b"34200000,479900.123456,100,P,2000,0\n", 1, "column price: too precise"),
        (b"34200000,479900,,P,2000,0\n", 1, "column size"),
        (b"34200000,479900,-1,P,2000,0\n", 1, "column size: out of range: '-1'"),
        (b"34200000,479900,9223372036854775808,P,2000,0\n", 1, "column size"),
        (b"34200000,92233720368548,1,P,2000,0\n", 1, "column price: out of range: '92233720368548'"),
        (b"34200000,479900,100,P,2000,2\n", 1, "column suspicious: unknown value; it may be '0', '1': '2'"),
        (b"86399999,1,1,P,0,0\n86400000,1,1,P,0,0\n", 2, "column time: out of range: '86400000'"),
        (
            b"34200000,479900,100,P,2000,0\n34200000,479900,100,PQ,2000,0\n",
            2,
            "column exchange: unknown value; it may be .* more: 'PQ'",
        ),
        (b"34200000,479900,100,P,20g0,0\n", 1, "column condition: not of its form: '20g0'"),
        (b"34200000,479900,100,\xff,2000,0\n", 1, "column exchange"),
        (b"\xff\xfe3\x004\x00", 1, "1 fields where"),
    ],
)
def test_a_row_that_is_none_is_refused_with_its_line(tmp_path: Path, data: bytes, line: int, words: str) -> None:
    path = archive(tmp_path, data)
    with pytest.raises(FormatError, match=words) as caught:
        ticks_of(LeanFeed(path))
    assert (caught.value.path, caught.value.line) == (path, line)


def test_the_line_is_counted_from_the_start_of_the_file_and_not_of_the_chunk(tmp_path: Path) -> None:
    row = b"34200000,479900,100,P,2000,0\n"
    first_chunk = _CHUNK_BYTES[1] // len(row)
    good = row * (first_chunk + 5)
    for bad in (b",z,", b",-1,"):
        with pytest.raises(FormatError, match="column size") as caught:
            ticks_of(LeanFeed(archive(tmp_path, good + row.replace(b",100,", bad), method=zipfile.ZIP_STORED)))
        assert caught.value.line == first_chunk + 6


def test_receive_time_does_not_go_back_from_one_chunk_to_the_next(tmp_path: Path) -> None:
    row = b"34200000,479900,100,P,2000,0\n"
    rows = _CHUNK_BYTES[1] // len(row)
    data = row * rows + row.replace(b"34200000", b"34199999") * 3
    feed = LeanFeed(archive(tmp_path, data, method=zipfile.ZIP_STORED))
    assert len(set(ticks_of(feed)["ts_recv"].tolist())) == 1
    assert feed.statistics()["times_raised"] == 3
