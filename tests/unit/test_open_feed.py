"""A file is opened by what is in it, and what nobody can read is refused in words."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from strand import TICK
from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError, UnknownFormatError
from strand.feeds import open_feed
from strand.feeds.lean import LeanFeed
from strand.feeds.npy import NpyFeed, write_npy

# A system event, "start of messages", at 04:00.
SYSTEM_EVENT = b"\x00\x0cS" + bytes(4) + (4 * 3600 * 10**9).to_bytes(6, "big") + b"O"


def lean(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("20131009_xyz_Trade_Tick.csv", "34200000,479900,100,P,2000,0\n")
    return path


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_numpy_files_are_known_whatever_their_name(tmp_path: Path, name: str) -> None:
    write_npy(tmp_path / name, np.zeros(3, TICK))
    (tmp_path / name).rename(tmp_path / "b.bin")
    feed = open_feed(tmp_path / "b.bin", batch_ticks=2)
    assert isinstance(feed, NpyFeed)
    assert [len(batch) for batch in feed.batches()] == [2, 1]


def test_lean_archives_are_known_and_several_are_one_feed(tmp_path: Path) -> None:
    paths = [lean(tmp_path / "a.bin"), lean(tmp_path / "b.bin")]
    feed = open_feed(str(paths[0]))
    assert isinstance(feed, LeanFeed)
    assert sum(len(batch) for batch in open_feed(paths).batches()) == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_itch_is_known_raw_and_in_gzip(tmp_path: Path, pack: type[bytes]) -> None:
    itch = pytest.importorskip("strand.feeds.itch")
    (tmp_path / "a.bin").write_bytes(pack(SYSTEM_EVENT * 9))
    feed = open_feed(tmp_path / "a.bin", date="2020-01-30")
    assert isinstance(feed, itch.ItchFeed)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"Date,Open,High\n", r"starts with 44 61 74 65"),
        (gzip.compress(b"Date,Open,High\n"), "gzip stream of something else"),
        (b"\x1f\x8b\x08\xff\xff", "gzip stream of something else"),
        (b"\0", "starts with 00"),
    ],
)
def test_other_content_is_refused_with_what_can_be_read(tmp_path: Path, data: bytes, words: str) -> None:
    pytest.importorskip("strand.feeds.itch")
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(UnknownFormatError, match=f"{words}.*numpy.*LEAN.*ITCH"):
        open_feed(tmp_path / "a.npy")


def test_a_zip_of_something_else_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("letter.txt", "Dear")
    with pytest.raises(UnknownFormatError, match=r"zip archive of letter\.txt"):
        open_feed(tmp_path / "a.zip")


def test_a_zip_cut_short_is_said_to_be_so(tmp_path: Path) -> None:
    path = lean(tmp_path / "a.zip")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(TruncatedFeedError, match="ends before its directory"):
        open_feed(path)


def test_a_path_that_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="there is no such file"):
        open_feed(tmp_path / "missing")
    with pytest.raises(FeedError, match="is a directory"):
        open_feed(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FeedError, match="not a regular file"):
        open_feed(tmp_path / "fifo")
    (tmp_path / "empty").touch()
    with pytest.raises(TruncatedFeedError, match="is empty"):
        open_feed(tmp_path / "empty")
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(FeedError, match="cannot be looked at"):
        open_feed(tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "a").chmod(0)
    with pytest.raises(FeedError, match="Permission denied"):
        open_feed(tmp_path / "a")


def test_options_are_those_of_the_reader(tmp_path: Path) -> None:
    path = lean(tmp_path / "a.zip")
    with pytest.raises(ConfigurationError, match="prize: no option of LeanFeed, which has batch_ticks"):
        open_feed(path, prize=3)


def test_files_that_cannot_be_one_feed_are_refused(tmp_path: Path) -> None:
    write_npy(tmp_path / "a.npy", np.zeros(3, TICK))
    with pytest.raises(ConfigurationError, match="one format"):
        open_feed([tmp_path / "a.npy", lean(tmp_path / "a.zip")])
    write_npy(tmp_path / "b.npy", np.zeros(3, TICK))
    with pytest.raises(ConfigurationError, match="several files at once"):
        open_feed([tmp_path / "a.npy", tmp_path / "b.npy"])
    with pytest.raises(ConfigurationError, match="no file is named"):
        open_feed([])


def test_a_reader_that_refuses_is_heard(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(FormatError, match="plain float64"):
        open_feed(tmp_path / "a.npy")
