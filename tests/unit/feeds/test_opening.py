"""A file is opened by what is in it, and what nobody can read is refused in words."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pkgutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feed_samples import itch_seconds, some_ticks
from reading import ticks_of

from strand import feeds
from strand.errors import (
    ConfigurationError,
    DisorderError,
    FeedError,
    FormatError,
    TruncatedFeedError,
    UnknownFormatError,
)
from strand.feeds.merge.selected import batches_from
from strand.feeds.write.npy import write_npy

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
        (b"Date,Open,High\n", r"starts with 44 61 74 65 2c 4f 70 65 \(Date,Open,High\); what"),
        (b"\xef\xbb\xbf" + b"a" * 100, rf"starts with ef bb bf [0-9a-f ]* \({'a' * 80}\.\.\.\); what"),
        (b"a\x1b[31m,b\n", "starts with 61 1b 5b 33 31 6d 2c 62; what"),
        (b"a,\xffb\n", "starts with 61 2c ff 62 0a; what"),
        (gzip.compress(b"Date,Open,High\n", mtime=0), "gzip data, which starts with 44 61 74 65"),
        (b"\0", "starts with 00"),
    ],
)
def test_other_content_is_refused_with_what_can_be_read(tmp_path: Path, data: bytes, words: str) -> None:
    pytest.importorskip("strand.feeds.formats.itch")
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(UnknownFormatError, match=f"{words}.*numpy.*LEAN.*ITCH"):
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
    with pytest.raises(UnknownFormatError, match=r"zip archive of 20200130\.itch, README: name a file"):
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
    for named in (tmp_path, str(tmp_path / "*.itch"), [tmp_path / "2020*"]):
        assert feeds.open(named).info.path == str(plain)


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
    for named, words in ways:
        with pytest.raises(ConfigurationError, match=words):
            feeds.open(named)


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
