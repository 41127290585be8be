"""LEAN archives become the ticks that a plain reading of the CSV gives, or are refused with the line."""

from __future__ import annotations

import io
import struct
import zipfile
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from lean_files import TRADES, archive
from reading import ticks_of

from strand.errors import ConfigurationError, FormatError
from strand.feeds.formats.lean import _CHUNK_BYTES, LeanFeed
from strand.ticks import KIND_QUOTE, KIND_TRADE

pytestmark = pytest.mark.python

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("row", [b"34200000,479900,0.5,P,2000,0\n", b"34200000,479900,99999999999999999999,P,2000,0\n"])
def test_an_error_names_no_option_that_archives_lack(row: bytes, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"column size: .*'(0.5|9+)'") as caught:
        ticks_of(LeanFeed(archive(tmp_path, row)))
    assert "inexact" not in str(caught.value)
    assert "size_unit" not in str(caught.value)


def test_a_byte_order_mark_is_refused_where_a_chunk_starts_as_it_is_elsewhere(tmp_path: Path) -> None:
    row = b"34200000,479900,100,P,2000,0\n"
    first_chunk = _CHUNK_BYTES[1] // len(row)
    for rows in (first_chunk - 1, first_chunk, first_chunk + 1):
        data = row * rows + b"\xef\xbb\xbf" + row
        with pytest.raises(FormatError) as caught:
            ticks_of(LeanFeed(archive(tmp_path, data, method=zipfile.ZIP_STORED)))
        assert caught.value.line == rows + 1


def test_a_byte_order_mark_and_mixed_line_ends_change_nothing(tmp_path: Path) -> None:
    plain = ticks_of(LeanFeed(archive(tmp_path / "a", TRADES)))
    first, second, third = TRADES.split(b"\n")
    mixed = b"\xef\xbb\xbf" + first + b"\r\n" + second + b"\n" + third + b"\r\n"
    assert ticks_of(LeanFeed(archive(tmp_path / "b", mixed))).tobytes() == plain.tobytes()


def test_a_file_without_line_ends_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = archive(tmp_path, b"1" * (3 << 20), method=zipfile.ZIP_STORED)
    with pytest.raises(FormatError, match="no end within 65536 bytes"):
        ticks_of(LeanFeed(path))


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, TRADES)
    data = bytearray(path.read_bytes())
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(signature) + place
        data[at : at + 2] = struct.pack("<H", struct.unpack_from("<H", data, at)[0] | 1)
    path.write_bytes(data)
    with pytest.raises(FormatError, match="encrypted"):
        ticks_of(LeanFeed(path))


def test_archives_are_merged_by_time_then_by_file_then_by_position(tmp_path: Path) -> None:
    a = archive(tmp_path, b"1,10,1,P,0,0\n2,11,1,P,0,0\n2,12,1,P,0,0\n9,13,1,P,0,0\n", symbol="a")
    b = archive(tmp_path, b"2,20,1,P,0,0\n3,21,1,P,0,0\n", symbol="b")
    a_quotes = archive(tmp_path, b"2,30,1,0,0,P,1,0\n", symbol="a", kind="quote")
    feed = LeanFeed([b, a, a_quotes], batch_ticks=2)
    assert feed.symbols == ("B", "A")
    ticks = ticks_of(feed)
    assert (ticks["price"] // 100_000).tolist() == [10, 20, 11, 12, 30, 21, 13]
    assert ticks["instrument_id"].tolist() == [1, 0, 1, 1, 1, 0, 1]
    assert [len(batch) for batch in feed.batches()] == [2, 2, 2, 1]


def test_archives_of_several_days_follow_each_other_whatever_the_order_given(tmp_path: Path) -> None:
    days = [archive(tmp_path, b"1,10,1,P,0,0\n", date=date) for date in ("20131010", "20131008", "20131009")]
    feed = LeanFeed(days)
    times = ticks_of(feed)["ts_event"].astype("M8[ns]").astype("M8[D]").astype(str).tolist()
    assert times == ["2013-10-08", "2013-10-09", "2013-10-10"]
    assert feed.info.date is None


@pytest.mark.parametrize(("hour", "utc"), [(0, 4), (2, 7), (3, 8), (23, 28)])
def test_the_wall_clock_is_followed_through_the_end_of_summer_time(tmp_path: Path, hour: int, utc: int) -> None:
    ticks = ticks_of(LeanFeed(archive(tmp_path, f"{hour * 3_600_000},1,1,P,0,0\n".encode(), date="20131103")))
    assert ticks["ts_event"].astype("M8[ns]")[0] == np.datetime64("2013-11-03") + np.timedelta64(utc, "h")


def test_an_hour_that_comes_twice_is_refused_where_the_order_does_not_show_which_one_it_is(tmp_path: Path) -> None:
    feed = LeanFeed(archive(tmp_path, b"3600000,1,1,P,0,0\n", date="20131103"))
    with pytest.raises(FormatError, match="comes twice: the clocks of America/New_York go back"):
        ticks_of(feed)


def test_a_time_that_goes_back_keeps_its_place_and_is_counted(tmp_path: Path) -> None:
    feed = LeanFeed(archive(tmp_path, b"5,10,1,P,0,0\n3,11,1,P,0,0\n6,12,1,P,0,0\n"))
    ticks = ticks_of(feed)
    assert (ticks["price"] // 100_000).tolist() == [10, 11, 12]
    since = (ticks["ts_recv"] - ticks["ts_recv"][0]).tolist()
    assert since == [0, 0, 1_000_000]
    assert int(ticks["ts_recv"][1] - ticks["ts_event"][1]) == 2_000_000
    assert feed.statistics()["times_raised"] == 1


def test_an_empty_line_is_passed_over_and_counted(tmp_path: Path) -> None:
    feed = LeanFeed(archive(tmp_path, TRADES.replace(b"\n", b"\n\n", 1)))
    for _ in range(2):
        assert ticks_of(feed)["sequence"].tolist() == [1, 2, 3]
        assert feed.statistics()["empty_lines"] == 1


def test_an_empty_table_is_an_empty_feed(tmp_path: Path) -> None:
    assert list(LeanFeed(archive(tmp_path, b"")).batches()) == []


def test_no_paths_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="paths: name a file"):
        LeanFeed([])


def plainly(path: Path) -> tuple[str, int, np.ndarray]:
    """Symbol, kind and rows (ms, price, size, side, position) of an archive, by numpy's reader."""
    with zipfile.ZipFile(path) as zipped:
        member = io.BytesIO(zipped.read(zipped.namelist()[0]))
        width = 3 if "trade" in path.name else 5
        numbers = np.loadtxt(member, np.int64, delimiter=",", usecols=range(width), unpack=True)
    if "trade" in path.name:
        ms, price, size = numbers
        kind, side = KIND_TRADE, np.full(len(ms), ord("N"))
    else:
        ms, bid, bid_size, ask, ask_size = numbers
        assert (((bid == 0) & (bid_size == 0)) ^ ((ask == 0) & (ask_size == 0))).all(), "each row has one side"
        # One of the two is zero.
        kind, side, price, size = KIND_QUOTE, np.where(bid != 0, ord("B"), ord("A")), bid + ask, bid_size + ask_size
    return path.name.split("_")[0].upper(), kind, np.stack([ms, price, size, side, np.arange(1, len(ms) + 1)], axis=1)


def test_a_recorded_day_equals_a_plain_reading_of_it(shared_data: Path) -> None:
    paths = sorted((shared_data / "lean").glob("*.zip"))
    if not paths:
        pytest.skip("no LEAN archives among the recorded data")
    feed = LeanFeed(paths)
    ticks = ticks_of(feed)
    midnight = int(datetime(2013, 10, 9, tzinfo=ZoneInfo("America/New_York")).timestamp()) * 1000
    ms = (ticks["ts_event"] // 1_000_000).astype(np.int64) - midnight
    order, read_rows = np.zeros((len(ticks), 3), np.int64), 0
    for number, path in enumerate(paths):
        symbol, kind, wanted = plainly(path)
        mine = (ticks["instrument_id"] == feed.symbols.index(symbol)) & (ticks["kind"] == kind)
        got = ticks[mine]
        assert len(got) == len(wanted), path.name
        assert int(got["price"].sum()) == int(wanted[:, 1].sum()) * 100_000
        assert int(got["size"].sum(dtype=np.int64)) == int(wanted[:, 2].sum())
        fields = [ms[mine], got["price"] // 100_000, got["size"], got["side"].view("u1"), got["sequence"]]
        assert np.array_equal(np.stack([field.astype(np.int64) for field in fields], axis=1), wanted), path.name
        order[mine] = np.stack([wanted[:, 0], np.full(len(wanted), number), wanted[:, 4]], axis=1)
        read_rows += len(wanted)
    assert len(ticks) == read_rows == 2_845_943
    in_order = np.lexsort((order[:, 2], order[:, 1], order[:, 0]))
    assert np.array_equal(in_order, np.arange(len(ticks)))
