"""A file is opened by what is in it and by its options, and what nobody can read is refused in words."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import json
import lzma
import os
import pkgutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from click.testing import CliRunner
from feed_samples import itch_seconds, some_ticks
from hypothesis import given
from hypothesis import strategies as st
from reading import ticks_of

import strand
from strand import feeds
from strand.command.cli import cli
from strand.errors import (
    ConfigurationError,
    DisorderError,
    FeedError,
    FormatError,
    TruncatedFeedError,
    UnknownFormatError,
    UnknownOptionError,
    UnknownSymbolError,
)
from strand.feeds.base import Selection, batches_from
from strand.feeds.formats.registry import formats
from strand.feeds.io.sources import InflateLimits
from strand.feeds.opening import option_values
from strand.feeds.times import Moment, as_date, date_in_name, midnight_ns
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.options import options_of
from strand.ticks import zeros

pytestmark = pytest.mark.python


def test_no_module_has_the_name_of_what_the_package_offers() -> None:
    assert not {module.name for module in pkgutil.iter_modules(feeds.__path__)}.intersection(feeds.__all__)


def lean(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("20131009_xyz_Trade_Tick.csv", "34200000,479900,100,P,2000,0\n")
    return path


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"Date,Open,High\n", r"starts with 44 61 74 65 2c 4f 70 65 \(Date,Open,High\); (what|docs)"),
        (b"\xef\xbb\xbf" + b"a" * 100, rf"starts with ef bb bf [0-9a-f ]* \({'a' * 80}\.\.\.\); (what|docs)"),
        (b"a\x1b[31m,b\n", "starts with 61 1b 5b 33 31 6d 2c 62; (what|docs)"),
        (b"a,\xffb\n", "starts with 61 2c ff 62 0a; (what|docs)"),
        (gzip.compress(b"Date,Open,High\n", mtime=0), "gzip data, which starts with 44 61 74 65"),
        (b"\0", "starts with 00"),
    ],
)
def test_other_content_is_refused_with_what_can_be_read(tmp_path: Path, data: bytes, words: str) -> None:
    pytest.importorskip("strand.feeds.formats.itch")
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(UnknownFormatError, match=f"{words}.*(numpy.*LEAN.*ITCH|reads.md lists what can be read$)"):
        feeds.open(tmp_path / "a.npy")


def test_a_zip_of_something_else_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("letter.txt", "Dear")
    with pytest.raises(UnknownFormatError, match=r"zip archive of letter\.txt, which starts with 44 65"):
        feeds.open(tmp_path / "a.zip")


def test_a_zip_cut_short_is_said_to_be_so(tmp_path: Path) -> None:
    path = lean(tmp_path / "a.zip")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(TruncatedFeedError, match="ends before its directory"):
        feeds.open(path)


def test_a_path_that_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="there is no such file"):
        feeds.open(tmp_path / "missing")
    with pytest.raises(UnknownFormatError, match=r"directory holds no file that can be read$"):
        feeds.open(tmp_path)
    for name in ("b", "a"):
        (tmp_path / "outer" / name).mkdir(parents=True)
    with pytest.raises(UnknownFormatError, match=r"it holds folders: name one of a, b$"):
        feeds.open(tmp_path / "outer")
    with pytest.raises(FeedError, match="neither a regular file nor a pipe"):
        feeds.open("/dev/null")
    with pytest.raises(FeedError, match="no file matches"):
        feeds.open(tmp_path / "*.itch")
    (tmp_path / "empty").touch()
    with pytest.raises(TruncatedFeedError, match="is empty"):
        feeds.open(tmp_path / "empty")
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(FormatError, match="not a zip archive"):
        feeds.open(tmp_path / "file" / "below")


@pytest.mark.parametrize("as_path", [str, Path])
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("kafka://user:secret@broker:9092/ticks", r"^source: kafka:// is not read: .*listen --kafka.*KafkaFeed$"),
        ("WSS://host/stream", r"^source: wss:// is not read: .*listen --websocket.*WebSocketFeed$"),
        ("file:///data/day.itch", "^source: file:// is not read: give the path alone$"),
        ("az://box/*.parquet", r"^source: az:// is not read: name a file, or .* s3://, gs://, https:// or http://$"),
    ],
)
def test_a_url_that_is_of_no_store_names_its_scheme_and_what_is_read(
    url: str, words: str, as_path: Callable[[str], str | Path]
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        feeds.open(as_path(url))


def test_a_path_that_looks_like_a_url_and_is_there_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kafka:").mkdir()
    itch_seconds(tmp_path / "kafka:" / "20200130.itch")
    monkeypatch.chdir(tmp_path)
    assert feeds.open("kafka:/20200130.itch").info.date == "2020-01-30"


def test_an_output_is_not_written_to_a_url_that_is_of_no_store(tmp_path: Path) -> None:
    day = itch_seconds(tmp_path / "20200130.itch")
    with pytest.raises(ConfigurationError, match=r"^path: kafka:// is not written: .*s3:// or gs://"):
        convert(day, "kafka://broker/day.parquet")
    with pytest.raises(ConfigurationError, match=r"^path: there is no folder .*none$"):
        convert(day, tmp_path / "none" / "day.parquet")
    with pytest.raises(ConfigurationError, match=r"^path: .*xxx cannot be looked at: File name too long$"):
        convert(day, tmp_path / ("x" * 300) / "day.parquet")


def test_a_folder_without_a_file_that_can_be_read_names_one_of_them_and_its_cure(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("Dear reader,\n")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("when,what,price\n1,2,3\n")
    cure = "looks like columns of text that no built-in profile knows: give a profile"
    with pytest.raises(UnknownFormatError, match=rf"holds no file that can be read: .*a\.csv: {cure}") as raised:
        feeds.open(tmp_path)
    assert raised.value.path == tmp_path
    profile = (
        'name = "own"\n[symbol]\nconstant = "A"\n[fields]\nprice = "cost"\nkind = { constant = "trade" }\n'
        'ts_recv = { column = "when", unit = "s" }\n'
    )
    (tmp_path / "own.toml").write_text(profile)
    with pytest.raises(FormatError, match=r"holds no file that can be read: .*a\.csv.*cost"):
        feeds.open(tmp_path, profile=tmp_path / "own.toml")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "a").chmod(0)
    with pytest.raises(FeedError, match="Permission denied"):
        feeds.open(tmp_path / "a")


# ---- folders, globs, pipes


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_any_packing_is_seen_through(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    feed = feeds.open(itch_seconds(tmp_path / "20200130.bin", pack=pack))
    assert feed.info.format == "itch50"
    assert len(ticks_of(feed)) == 20


def test_a_file_in_an_archive_is_named_behind_it(tmp_path: Path) -> None:
    plain = itch_seconds(tmp_path / "20200130.itch")
    with zipfile.ZipFile(tmp_path / "days.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(plain, "20200130.itch")
        archive.writestr("README", "two files")
    feed = feeds.open(tmp_path / "days.zip" / "20200130.itch")
    np.testing.assert_array_equal(ticks_of(feed), ticks_of(feeds.open(plain)))
    np.testing.assert_array_equal(ticks_of(feeds.open(tmp_path / "days.zip")), ticks_of(feeds.open(plain)))
    with zipfile.ZipFile(tmp_path / "days.zip", "w") as archive:
        archive.writestr("LETTER", "Dear")
        archive.writestr("README", "two files")
    with pytest.raises(UnknownFormatError, match=r"zip archive of LETTER, README: name a file"):
        feeds.open(tmp_path / "days.zip")


@pytest.mark.parametrize(
    ("archive", "member"), [("days.zip", "20200130.itch"), ("20200130.zip", "day.itch"), ("20200130.zip", "a/day.itch")]
)
def test_an_archived_file_has_the_date_of_its_name_there_or_of_the_archive(
    tmp_path: Path, archive: str, member: str
) -> None:
    plain = itch_seconds(tmp_path / "20200130.itch")
    with zipfile.ZipFile(tmp_path / archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(plain, member)
    for path in (tmp_path / archive, tmp_path / archive / member):
        feed = feeds.open(path)
        assert (feed.info.date, feed.info.undated) == ("2020-01-30", False)
        np.testing.assert_array_equal(ticks_of(feed), ticks_of(feeds.open(plain)))


def test_a_csv_file_in_an_archive_of_another_name_has_its_symbol_and_date(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "download.zip", "w") as packed:
        packed.writestr("AAPL_2012-06-21_34200000_57600000_message_1.csv", "34200.5,1,1,18,5853300,1\n")
    with feeds.open(tmp_path / "download.zip", profile="lobster") as feed:
        assert (feed.info.date, list(feed.symbols)) == ("2012-06-21", ["AAPL"])


def test_what_in_an_archive_cannot_be_read_is_not_called_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "days.zip", "w") as packed:
        packed.writestr("notes", "Dear all")
        packed.writestr("more", "")
    with pytest.raises(UnknownFormatError, match="zip data, which starts with 44 65 61 72"):
        feeds.open(tmp_path / "days.zip" / "notes")


def test_a_folder_or_glob_of_one_readable_file_is_that_file(tmp_path: Path) -> None:
    plain = itch_seconds(tmp_path / "20200130.itch")
    (tmp_path / "metadata.json").write_text("{}")
    notes = gzip.compress(b"not ticks, and damaged far behind its first lines\n" * 1000)
    (tmp_path / "notes.txt.gz").write_bytes(notes[:-8] + bytes(4) + notes[-4:])
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden").write_bytes(plain.read_bytes())
    for where in (tmp_path, str(tmp_path / "*.itch"), [tmp_path / "2020*"]):
        assert feeds.open(where).info.path == str(plain)


@pytest.mark.parametrize("profile", [None, "deals.toml"])
@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        (gzip.compress, "is gzip data inside of other packed data: unpack it once"),
        (lzma.compress, "is xz data inside of other packed data"),
        (bz2.compress, "is bz2 data inside of other packed data"),
        (lambda text: text.decode().encode("utf-16"), "is text in UTF-16: write it in UTF-8"),
        (lambda text: tar_of("deals.csv", text), "is a tar archive: unpack it"),
    ],
)
def test_what_is_packed_twice_or_in_utf_16_is_refused_with_what_to_do(
    tmp_path: Path, wrap: Callable[[bytes], bytes], words: str, profile: str | None
) -> None:
    (tmp_path / "deals.toml").write_text(
        'name = "deals"\n[symbol]\nconstant = "A"\n[fields]\nprice = "p"\nkind = { constant = "trade" }\n'
        'ts_recv = { column = "t", unit = "s" }\n'
    )
    path = tmp_path / "deals.csv.gz"
    path.write_bytes(gzip.compress(wrap(b"t,p\n1767571200,10\n")))
    options: Any = {} if profile is None else {"profile": tmp_path / profile}
    with pytest.raises(FeedError, match=words):
        feeds.open(path, **options)


def tar_of(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def test_an_empty_file_among_those_of_a_folder_is_an_error(tmp_path: Path) -> None:
    for day in ("20200130", "20200131", "20200203"):
        itch_seconds(tmp_path / f"{day}.itch")
    (tmp_path / "20200131.itch").write_bytes(b"")
    with pytest.raises(TruncatedFeedError, match=r"it holds empty files \(20200131.itch\)"):
        feeds.open(tmp_path)
    (tmp_path / "20200131.itch").unlink()
    (tmp_path / "notes.txt").touch()
    assert len(feeds.open(tmp_path).info.details["feeds"]) == 2


def test_a_file_of_a_folder_that_is_unreadable_and_named_like_the_others_is_an_error(tmp_path: Path) -> None:
    for day in (5, 6):
        (tmp_path / f"BTCUSDT-trades-2026-01-0{day}.csv").write_text(
            f"1,100.5,0.1,10.05,{1767571200000 + day},True,True\n"
        )
    (tmp_path / "README.txt").write_text("Trades of two days")
    assert len(feeds.open(tmp_path).to_numpy()) == 2
    other = tmp_path / "BTCUSDT-trades-2026-01-06.csv"
    other.write_text("number;cost;amount\n1;100.5;0.1\n")
    with pytest.raises(
        UnknownFormatError, match=r"name the files to read, or move this one out.*06\.csv: looks like columns"
    ) as raised:
        feeds.open(tmp_path)
    assert raised.value.path == tmp_path
    other.write_text("<html>Not found</html>\n")
    with pytest.raises(UnknownFormatError, match="looks like a web page"):
        feeds.open(tmp_path)


def test_files_without_ticks_that_vendors_put_beside_those_of_ticks_are_passed_over_in_a_folder(tmp_path: Path) -> None:
    start = "AAPL_2012-06-21_34200000_57600000"
    (tmp_path / f"{start}_message_1.csv").write_text("34200.004241176,1,16113575,18,5853300,1\n")
    (tmp_path / f"{start}_orderbook_1.csv").write_text("5859400,200,5853300,18\n")
    assert len(feeds.open(tmp_path).to_numpy()) == 1
    with pytest.raises(UnknownFormatError, match=r"looks like LOBSTER's book after each message.*file of messages"):
        feeds.open(tmp_path / f"{start}_orderbook_1.csv")


def test_a_file_beside_its_packed_copy_is_refused(tmp_path: Path) -> None:
    header = (
        "ts_recv,ts_event,rtype,publisher_id,instrument_id,action,side,depth,price,size,"
        "flags,ts_in_delta,sequence,symbol\n"
    )
    row = "1767571200000000000,1767571200000000000,0,1,7,T,A,0,1500000000,{},0,0,1,ES\n"
    (tmp_path / "day.csv").write_text(header + row.format(1))
    (tmp_path / "day.csv.gz").write_bytes(gzip.compress((header + row.format(1)).encode()))
    (tmp_path / "other.csv.gz").write_bytes(gzip.compress((header + row.format(2)).encode()))
    for source in (tmp_path, str(tmp_path / "day*"), sorted(tmp_path.iterdir())):
        with pytest.raises(ConfigurationError, match=r"day\.csv\.gz holds what .*day\.csv holds.*name one of them"):
            feeds.open(source)
    (tmp_path / "day.csv.gz").write_bytes(gzip.compress((header + row.format(3)).encode()))
    with feeds.open(tmp_path) as feed:
        assert sorted(feed.to_numpy()["size"].tolist()) == [1, 2, 3]


def test_a_file_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    plain = itch_seconds(tmp_path / "20200130.itch")
    link = tmp_path / "link.itch"
    link.symlink_to(plain)
    ways = [
        ([plain, plain], "named twice"),
        ([plain, tmp_path / "." / ".." / tmp_path.name / plain.name], "same file as"),
        ([tmp_path, plain], "link.itch is the same file as"),
        ([str(tmp_path / "2*"), str(tmp_path / "*0130.itch")], "named twice"),
    ]
    for where, words in ways:
        with pytest.raises(ConfigurationError, match=words):
            feeds.open(where)


def test_a_folder_of_archives_goes_to_their_reader_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        lean(tmp_path / f"{name}.zip")
    assert feeds.open(tmp_path).info.details["files"] == [str(tmp_path / "a.zip"), str(tmp_path / "b.zip")]


# ---- selection


def test_symbols_come_from_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"\xef\xbb\xbfS2  # the second\r\n# mine\n\n")
    assert set(
        ticks_of(feeds.open(itch_seconds(tmp_path / "20200130.itch"), symbols=["@" + str(tmp_path / "mine")]))[
            "instrument_id"
        ]
    ) == {2}
    (tmp_path / "mine").write_text("# mine\n\n S2 \n#S1\n")
    feed = feeds.open(itch_seconds(tmp_path / "20200130.itch"), symbols=["@" + str(tmp_path / "mine")])
    assert set(ticks_of(feed)["instrument_id"].tolist()) == {2}
    (tmp_path / "mine").write_text("\n")
    with pytest.raises(ConfigurationError, match="has no names"):
        feeds.open(tmp_path / "20200130.itch", symbols=["@" + str(tmp_path / "mine")])
    with pytest.raises(ConfigurationError, match="cannot be read"):
        feeds.open(tmp_path / "20200130.itch", symbols=["@" + str(tmp_path / "none")])


def test_an_array_says_how_many_ticks_it_has_and_goes_on_without_reading_those_before(tmp_path: Path) -> None:
    ticks = some_ticks(1000)
    write_npy(tmp_path / "a.npz", ticks, ["A", "B"])
    with feeds.open(tmp_path / "a.npz", batch_ticks=100) as feed:
        assert feed.count() == 1000
        rest = np.concatenate(list(batches_from(feed, 950)))
        assert feed.statistics()["records"] == 50
        assert list(batches_from(feed, 1001)) == []
    np.testing.assert_array_equal(rest, ticks[950:])


@pytest.mark.parametrize("option", ["start", "end"])
@pytest.mark.parametrize("moment", [1_580_394_600, "1580394600000", 1_580_394_600_000_000])
def test_seconds_in_the_place_of_ns_are_refused(tmp_path: Path, option: str, moment: str | int) -> None:
    path = itch_seconds(tmp_path / "20200130.itch")
    with pytest.raises(ConfigurationError, match=rf"{option}: {moment} ns since the epoch is early in 1970"):
        feeds.open(path, **{option: moment})
    feeds.open(path, **{option: int(moment)}, date="1970-01-15").close()
    feeds.open(path, **{option: 1}).close()
    undated = itch_seconds(tmp_path / "a.itch")
    feeds.open(undated, **{option: moment}).close()


@pytest.mark.parametrize("option", ["start", "end", "until"])
def test_seconds_in_the_place_of_ns_are_refused_where_the_ticks_alone_have_a_date(tmp_path: Path, option: str) -> None:
    write_npy(tmp_path / "a.npz", some_ticks(10), ["A", "B"])
    for source in (tmp_path / "a.npz", some_ticks(10)):
        for moment in (1_580_394_600, 1_580_394_600_000, 1_580_394_600_000_000):
            with pytest.raises(ConfigurationError, match=rf"{option}: {moment} ns since .* are of 2020-01-30"):
                strand.replay(source, "count", **{option: moment})
    assert strand.replay(tmp_path / "a.npz", "count", until=1, allow_empty=True).ticks == 0


def test_a_date_given_with_a_time_of_day_serves_files_that_have_none(tmp_path: Path) -> None:
    ticks = ticks_of(feeds.open(itch_seconds(tmp_path / "20200130.itch")))
    write_npy(tmp_path / "a.npz", ticks, [])
    of_first_tick = ticks_of(feeds.open(tmp_path / "a.npz", start="09:30:05"))
    chosen = ticks_of(feeds.open(tmp_path / "a.npz", start="09:30:05", date="2020-01-30"))
    np.testing.assert_array_equal(chosen, ticks_of(feeds.open(tmp_path / "20200130.itch", start="09:30:05")))
    assert of_first_tick.tobytes() == chosen.tobytes()
    assert 0 < len(chosen) < len(ticks)
    with pytest.raises(ConfigurationError, match=r"open\(\) of npy files has no option 'date'"):
        feeds.open(tmp_path / "a.npz", date="2020-01-30")


@pytest.mark.parametrize("on_disorder", [None, "raise", "keep", "skip"])
def test_disorder_of_one_file_is_looked_at_where_it_is_asked_for(on_disorder: str | None, tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    at = 1_767_571_200
    path.write_text("t,p,q\n" + "".join(f"{at + s},10,1\n" for s in (0, 1, 2, 1, 3)))
    (tmp_path / "own.toml").write_text(
        'name = "own"\n[symbol]\nconstant = "A"\n[fields]\nprice = "p"\nsize = "q"\nkind = { constant = "trade" }\n'
        'ts_recv = { column = "t", unit = "s" }\n'
    )
    given: dict[str, Any] = {} if on_disorder is None else {"on_disorder": on_disorder}
    with feeds.open(path, profile=str(tmp_path / "own.toml"), **given) as feed:
        if on_disorder == "raise":
            with pytest.raises(DisorderError, match=r"tick 3 is 1000000000 ns before an earlier one's"):
                feed.to_numpy()
            return
        assert len(feed.to_numpy()) == (4 if on_disorder == "skip" else 5)


# ---- Readers' options as a command line gives them


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ({}, {}),
        ({"price_unit": "0.01", "levels": "5"}, {"price_unit": "0.01", "levels": 5}),
        ({"symbol": "600000", "session": "0000000001"}, {"symbol": "600000", "session": "0000000001"}),
        ({"port": "26400,26401"}, {"port": [26400, 26401]}),
        ({"size_unit": "0.001", "inexact": "round"}, {"size_unit": "0.001", "inexact": "round"}),
        ({"blank_headers": "true"}, {"blank_headers": True}),
        ({"columns.price.column": "zz,ipx"}, {"columns": {"price": {"column": ["zz", "ipx"]}}}),
        (
            {"columns.price": "a,b", "columns.price.unit": "0.01,1"},
            {"columns": {"price": {"column": "a,b", "unit": ["0.01", "1"]}}},
        ),
        ({"columns.price": "px", "columns.flags": ""}, {"columns": {"price": "px", "flags": None}}),
        ({"constants.kind": "2", "constants.side": "B"}, {"constants": {"kind": 2, "side": "B"}}),
        (
            {"limits.max_ratio": "1e3", "limits.max_bytes": "4096"},
            {"limits": InflateLimits(max_ratio=1000.0, max_bytes=4096)},
        ),
    ],
    ids=",".join,
)
def test_a_text_becomes_what_the_readers_take(texts: dict[str, str], values: dict[str, Any]) -> None:
    assert option_values(texts) == values


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"prize": "1"}, r"prize: no reader has such an option; there are array, "),
        ({"date": "2026-01-05"}, r"date: give it by --date, an option of its own"),
        ({"on_bad_record": "skip"}, r"on_bad_record: give it by --on-bad-record, an option of its own"),
        ({"levels": "five"}, r"levels: 'five' is not a whole number"),
        ({"port": "1,b"}, r"port: '1,b' is not a whole number"),
        ({"blank_headers": "yes"}, r"blank_headers: give true or false, not 'yes'"),
        ({"columns": "price"}, r"columns: it is given as columns.NAME=VALUE"),
        ({"levels.bid": "1"}, r"levels.bid: it is given as levels=VALUE"),
        (
            {"columns.side.map": "x", "columns.side.map.buy": "B"},
            r"columns.side.map: given both as one text and by its entries",
        ),
        (
            {"columns.side.map.buy": "B", "columns.side.map": "x"},
            r"columns.side.map: given both as one text and by its entries",
        ),
        ({"limits.ratio": "3"}, r"limits.ratio: there are max_ratio, max_bytes"),
        ({"limits.max_bytes": "much"}, r"limits.max_bytes: 'much' is not a whole number"),
        ({"limits.max_ratio": "much"}, r"limits.max_ratio: 'much' is not a number"),
    ],
    ids=lambda given: ",".join(given) if isinstance(given, dict) else "",
)
def test_a_text_that_cannot_be_meant_is_refused(texts: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        option_values(texts)


def said_of(*arguments: object) -> Any:
    return json.loads(CliRunner().invoke(cli, [*map(str, arguments), "--json"], catch_exceptions=False).stdout)


@pytest.fixture
def coins(tmp_path: Path) -> Path:
    """Two trades of fractions of a coin, as an array of one symbol."""
    rows = np.zeros(2, [("at", "<i8"), ("p", "<i8"), ("q", "<i8")])
    rows["at"], rows["p"], rows["q"] = [10**18, 10**18 + 1], [7, 8], 3
    np.save(tmp_path / "coins.npy", rows)
    return tmp_path / "coins.npy"


OPTIONS = ("--feed", "columns.ts_recv=at", "--feed", "columns.price=p", "--feed", "columns.size=q",
           "--feed", "symbol=XBT", "--feed", "price_unit=1", "--feed", "constants.side=B")  # fmt: skip


@pytest.mark.parametrize("command", ["info", "replay"])
def test_commands_hand_them_to_the_reader(coins: Path, command: str) -> None:
    assert said_of(command, coins, *OPTIONS)["ticks"] == 2


def test_convert_hands_them_to_the_reader(coins: Path) -> None:
    out = coins.with_name("out.npz")
    assert said_of("convert", coins, out, *OPTIONS)["ticks"] == 2
    with feeds.open(out) as feed:
        (ticks,) = [batch.copy() for batch in feed.batches()]
        assert feed.symbols == ("XBT",)
    assert ticks["price"].tolist() == [7 * 10**9, 8 * 10**9]
    assert ticks["side"].tolist() == [b"B", b"B"]


def test_an_option_of_another_reader_is_refused(coins: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"open\(\) of npy files has no option 'levels'"):
        said_of("info", coins, *OPTIONS, "--feed", "levels=2")


@pytest.mark.parametrize("option", ["limit", "allow_empty"])
def test_an_option_of_what_reads_a_feed_is_not_one_of_opening_it(coins: Path, option: str) -> None:
    with pytest.raises(
        UnknownOptionError, match=rf"has no option '{option}'; give it to .*strand\.replay\(feed, {option}="
    ):
        feeds.open(coins, **{option: 1})
    with pytest.raises(ConfigurationError, match=r"format: 'cvs' is not one of .*; did you mean 'csv'"):
        feeds.open(coins, format="cvs")
    with pytest.raises(ConfigurationError, match=r"no reader has such an option; did you mean 'levels'"):
        said_of("info", coins, *OPTIONS, "--feed", "level=2")


def test_a_name_that_no_symbol_has_is_an_error_of_every_command(coins: Path) -> None:
    out = coins.with_name("out.npz")
    for arguments in (("info", coins), ("replay", coins), ("convert", coins, out)):
        with pytest.raises(UnknownSymbolError, match=r"nothing in .*coins.npy is named 'ETH\*'"):
            said_of(*arguments, *OPTIONS, "--symbols", "XBT,ETH*")
        with pytest.raises(UnknownSymbolError, match=r"is named 'xbt'; did you mean 'XBT'\?$"):
            said_of(*arguments, *OPTIONS, "--symbols", "xbt")
        with pytest.raises(ConfigurationError, match="cannot be read"):
            said_of(*arguments, *OPTIONS, "--symbols", "@no-such-file")
    assert not out.exists()
    assert said_of("convert", coins, out, *OPTIONS, "--symbols", "X*")["ticks"] == 2


def test_convert_says_what_it_passed_over(tmp_path: Path) -> None:
    import itch_reference as ref

    sound = ref.frame(ref.message("D", 1, 2, 3))
    bad = next(bytearray(body) for body in ref.every_type() if body[:1] == b"A")
    bad[19] = ord("?")  # neither B nor S
    (tmp_path / "20190130.itch").write_bytes(sound + ref.frame(bytes(bad)) + sound * 9)
    found = said_of("convert", tmp_path / "20190130.itch", tmp_path / "out.npz", "--on-bad-record", "skip")
    assert (found["ticks"], found["skipped"]["counts"]) == (10, {"bad side": 1})
    assert [sample["offset"] for sample in found["skipped"]["samples"]] == [len(sound)]


# ---- The options of readers, by name and type


def test_opening_takes_every_option_of_every_reader() -> None:
    every = {name for form in formats() for name in options_of(form.feed_class())}
    assert every - {"select"} <= options_of(strand.feeds.open)


# ---- Symbols and a span of time are chosen of a feed as a mask over all its ticks would choose them


def midnight() -> int:
    return midnight_ns(dt.date(2020, 1, 30))


@pytest.mark.parametrize(
    ("options", "seconds", "names"),
    [
        ({"symbols": ["S1"]}, range(10), ["S1"]),
        ({"symbols": ["S[23]"]}, range(10), ["S2"]),
        ({"start": "09:30:03"}, range(3, 10), ["S1", "S2"]),
        ({"start": "09:30:02.000000001", "end": "09:30:04"}, range(3, 4), ["S1", "S2"]),
        ({"end": "2020-01-30T14:30:02Z"}, range(2), ["S1", "S2"]),
        ({"end": "2020-01-30 09:30:02.5-05:00", "symbols": ["S2"]}, range(3), ["S2"]),
        ({"start": 1580394600 * 10**9 + 8 * 10**9}, range(8, 10), ["S1", "S2"]),
        ({"start": str(1580394609 * 10**9)}, range(9, 10), ["S1", "S2"]),
        ({"start": "10:00"}, range(0), ["S1", "S2"]),
    ],
)
@pytest.mark.parametrize("kind", ["itch", "npy"])
def test_a_selection_keeps_symbols_and_a_half_open_span(
    tmp_path: Path, kind: str, options: dict[str, Any], seconds: range, names: list[str]
) -> None:
    path = itch_seconds(tmp_path / "20200130.itch")
    whole = feeds.open(path)
    everything = ticks_of(whole)
    if kind == "npy":
        path = tmp_path / "20200130.npz"
        write_npy(path, everything, list(whole.symbols))
    feed = feeds.open(path, **options)
    kept = np.isin((everything["ts_recv"] - np.uint64(midnight())) // 10**9 - 34_200, list(seconds))
    kept &= np.isin(np.array(whole.symbols)[everything["instrument_id"]], names)
    np.testing.assert_array_equal(ticks_of(feed), everything[kept])


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=30),
    st.lists(st.sampled_from(["A", "AB", "A*", "?", "[!A]", "b"]), max_size=2).map(tuple),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(10, 20),
)
def test_a_mask_keeps_what_is_named_and_in_the_span(
    rows: list[tuple[int, int]], symbols: tuple[str, ...], start: int | None, end: int | None
) -> None:
    names, matching = ["A", "AB", "B", ""], {
        "A": {0}, "AB": {1}, "A*": {0, 1}, "?": {0, 2}, "[!A]": {2}, "b": set(),
    }  # fmt: skip
    select = Selection(symbols, start, end)
    assert bool(select) == (bool(symbols) or start is not None or end is not None)
    ticks = zeros(len(rows))
    ticks["instrument_id"], ticks["ts_recv"] = [key for key, _ in rows], [at for _, at in rows]
    wanted = set(range(4)) if not symbols else set().union(*(matching[pattern] for pattern in symbols))
    expected = [key in wanted and (start is None or at >= start) and (end is None or at < end) for key, at in rows]
    assert select.mask(ticks, select.keys(names)).tolist() == expected


# ---- Moments as people write them: what they are in ns, and what is refused


def test_a_time_of_day_needs_a_date(tmp_path: Path) -> None:
    path = itch_seconds(tmp_path / "undated")
    with pytest.raises(ConfigurationError, match="does not say its date"):
        feeds.open(path, start="09:30")
    assert len(ticks_of(feeds.open(path, start="09:30:09", date="2020-01-30"))) == 2
    assert len(ticks_of(feeds.open(path, start=34_209 * 10**9))) == 2


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
SECONDS = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2261, 1, 1)).map(lambda at: at.replace(microsecond=0))


def ns_of(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(seconds=1) * 10**9


@given(SECONDS, st.integers(0, 10**9 - 1), st.integers(-14 * 60, 14 * 60))
def test_a_moment_with_a_zone_is_what_datetime_says_of_it(at: dt.datetime, ns: int, minutes: int) -> None:
    zone = dt.timezone(dt.timedelta(minutes=minutes))
    text = f"{at:%Y-%m-%dT%H:%M:%S}.{ns:09}{at.replace(tzinfo=zone):%z}"
    moment = Moment.parse("start", text)
    assert moment is not None
    assert moment.ns(None, "file") == ns_of(at.replace(tzinfo=zone)) + ns


@given(st.dates(dt.date(1970, 1, 2), dt.date(2261, 1, 1)), st.times(), st.sampled_from([0, 3, 6]))
def test_a_time_of_day_is_one_of_new_york(date: dt.date, at: dt.time, digits: int) -> None:
    micro = at.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
    text = f"{at:%H:%M:%S}" + (f".{micro:06}"[: digits + 1] if digits else "")
    moment = Moment.parse("end", text)
    assert moment is not None
    assert moment.needs_date
    wall = dt.datetime.combine(date, at.replace(microsecond=0), ZoneInfo("America/New_York"))
    assert moment.ns(date, "file") == ns_of(wall) + micro * 1000


# ---- The date in a file's name, dates as options, and the first instant of a day


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("01302019.NASDAQ_ITCH50", "2019-01-30"),
        ("01302019.NASDAQ_ITCH50.gz", "2019-01-30"),
        ("S010220-v50.txt.gz", "2020-01-02"),
        ("20190130.PSX_ITCH_50", "2019-01-30"),
        ("ex20101224.TEST_ITCH_50", "2010-12-24"),
        ("itch-2021-07-01.bin", "2021-07-01"),
        ("12202019.NASDAQ_ITCH50", "2019-12-20"),
        ("13322019.NASDAQ_ITCH50", None),
        ("itch.bin", None),
        ("120190130.bin", None),
        ("00010203.bin", None),
    ],
)
def test_the_date_comes_from_the_name(name: str, date: str | None) -> None:
    found = date_in_name(Path("20200101") / name)
    assert (found.isoformat() if found else None) == date


def test_midnight_is_new_yorks_summer_and_winter() -> None:
    assert midnight_ns(dt.date(2019, 1, 30)) == 1_548_824_400 * 10**9
    assert midnight_ns(dt.date(2019, 7, 30)) == 1_564_459_200 * 10**9


def test_a_date_may_be_an_object() -> None:
    assert as_date(dt.datetime(2019, 1, 30, 9)) == as_date(dt.date(2019, 1, 30)) == dt.date(2019, 1, 30)
