"""Members of zip archives: by name, the only one, and those that cannot be read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from byte_streams import TEXT, read, write
from packing import pack_zip

from strand.errors import FeedError, FormatError
from strand.feeds.io.compression import inflater_name
from strand.feeds.io.streams import open_stream

pytestmark = pytest.mark.python


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_member_is_named_behind_its_archive(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "day.zip", "w", method) as archive:
        archive.writestr("a/one.csv", TEXT)
        archive.writestr("two.csv", TEXT[::-1])
    assert read(tmp_path / "day.zip" / "a" / "one.csv") == (TEXT, None)
    assert read(tmp_path / "day.zip" / "two.csv") == (TEXT[::-1], None)
    with pytest.raises(FeedError, match=r"holds 2 files \(a/one\.csv, two\.csv\): name one"):
        open_stream(tmp_path / "day.zip")
    with pytest.raises(FeedError, match=r"no member 'three\.csv'"):
        open_stream(tmp_path / "day.zip" / "three.csv")


def test_folders_and_what_a_system_adds_are_no_members(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "day.zip", "w") as archive:
        archive.mkdir("a")
        archive.writestr("__MACOSX/a/._one.csv", b"x")
        archive.writestr("a/one.csv", TEXT)
    assert read(tmp_path / "day.zip") == (TEXT, None)


def test_members_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    packed = bytearray(pack_zip(TEXT))
    directory = packed.rindex(b"PK\1\2")
    for offset, value, words in ((8, 1, "encrypted"), (10, 93, "method 93")):
        broken = packed[:]
        broken[directory + offset] = value
        with pytest.raises(FormatError, match=words):
            open_stream(write(tmp_path, bytes(broken)))
    with pytest.raises(FormatError, match="method 14"):
        open_stream(write(tmp_path, pack_zip(TEXT, zipfile.ZIP_LZMA)))


def test_a_member_names_what_inflates_it_and_one_that_is_stored_names_nothing(tmp_path: Path) -> None:
    found = {}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
        path = tmp_path / f"{method}.zip"
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("a", b"abc" * 100)
        with open_stream(path) as stream:
            found[method] = stream.inflater
    assert found == {zipfile.ZIP_STORED: None, zipfile.ZIP_DEFLATED: inflater_name(), zipfile.ZIP_BZIP2: "bz2"}
