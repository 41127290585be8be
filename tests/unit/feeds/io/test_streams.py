"""Bytes out of files and pipes, whatever they are packed in: all, in bounds, and faults behind what was good."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_input import write_anew
from packing import PACKERS, pack_zip, pack_zstd

from strand.errors import FeedError, FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds.io import sources
from strand.feeds.io.bytestream import InputStream
from strand.feeds.io.prefetch import read_chunks
from strand.feeds.io.streams import InflateLimits, open_stream

pytestmark = pytest.mark.python

# Text that packs by about three, so that a flipped bit meets all parts of the packed data.
TEXT = b"".join(b"%d,%d,AAPL\n" % (i * 7919 % 10007, i * i) for i in range(4000))


JOINED = ["gzip", "zstd", "bz2", "xz"]


@pytest.fixture(params=["isal", "zlib"])
def inflater(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "zlib":
        monkeypatch.setitem(sys.modules, "isal", None)
    else:
        pytest.importorskip("isal")


def write(folder: Path, data: bytes, name: str = "file") -> Path:
    return write_anew(folder / name, data)


def drain(stream: InputStream, piece: int = 1000) -> tuple[bytes, FeedError | None]:
    data, buffer = b"", bytearray(piece)
    with stream:
        try:
            while got := stream.readinto(memoryview(buffer)):
                data += buffer[:got]
        except FeedError as error:
            return data, error
    return data, None


def read(path: Path, limits: InflateLimits | None = None, piece: int = 1000) -> tuple[bytes, FeedError | None]:
    return drain(open_stream(path, limits=limits), piece)


def tried(path: Path) -> tuple[bytes, FeedError | None]:
    """As ``read``, with faults that show when the stream is opened."""
    try:
        return read(path)
    except FeedError as error:
        return b"", error


@pytest.mark.parametrize("piece", [1, 1000, 1 << 20])
@pytest.mark.parametrize("packing", PACKERS)
def test_every_packing_gives_what_was_packed(tmp_path: Path, packing: str, piece: int, inflater: None) -> None:
    data = TEXT[:5000] if piece == 1 else TEXT
    stream = open_stream(write(tmp_path, PACKERS[packing](data), "20200102.bin"))
    assert stream.compression == packing
    assert drain(stream, piece) == (data, None)
    assert stream.bytes_out == len(data)
    assert 0 < stream.bytes_in <= (tmp_path / "20200102.bin").stat().st_size


@pytest.mark.parametrize("packing", PACKERS)
def test_nothing_packed_is_nothing_again(tmp_path: Path, packing: str) -> None:
    assert read(write(tmp_path, PACKERS[packing](b""))) == (b"", None)


@pytest.mark.parametrize("packing", JOINED)
def test_several_members_are_one_stream(tmp_path: Path, packing: str, inflater: None) -> None:
    members = b"".join(PACKERS[packing](TEXT[at : at + 1700]) for at in range(0, len(TEXT), 1700))
    assert read(write(tmp_path, members)) == (TEXT, None)


@pytest.mark.parametrize("packing", JOINED)
def test_what_follows_the_last_member_is_an_error_behind_all_bytes(tmp_path: Path, packing: str) -> None:
    data, error = read(write(tmp_path, PACKERS[packing](TEXT) + b"and so on and on"))
    assert data == TEXT
    assert isinstance(error, FormatError)
    assert error.offset == len(TEXT)


@pytest.mark.parametrize("packing", JOINED)
def test_a_head_is_not_lost(tmp_path: Path, packing: str) -> None:
    stream = open_stream(write(tmp_path, PACKERS[packing](TEXT)))
    assert stream.head() == TEXT[:4096]
    assert stream.head(100) == TEXT[:100]
    assert drain(stream) == (TEXT, None)
    stream = open_stream(write(tmp_path, PACKERS[packing](b"short")))
    assert stream.head() == b"short"
    assert drain(stream) == (b"short", None)


def test_a_head_before_a_fault_is_given_and_the_fault_comes_after_it(tmp_path: Path) -> None:
    stream = open_stream(write(tmp_path, gzip.compress(TEXT[:3000])[:-8]))
    head = stream.head()
    assert head == TEXT[: len(head)]
    assert head
    data, error = drain(stream)
    assert data == head
    assert isinstance(error, TruncatedFeedError)


@pytest.mark.parametrize("packing", PACKERS)
def test_a_file_cut_at_any_byte_gives_a_prefix_then_a_typed_error(
    tmp_path: Path, packing: str, inflater: None, one_in: Callable[[int], int]
) -> None:
    packed = PACKERS[packing](TEXT[:3000])
    for cut in range(8, len(packed), one_in(3)):
        data, error = tried(write(tmp_path, packed[:cut]))
        assert isinstance(error, TruncatedFeedError), cut
        assert data == TEXT[: len(data)]


@pytest.mark.parametrize("packing", PACKERS)
def test_flipped_bits_never_change_bytes_unseen(
    tmp_path: Path, packing: str, inflater: None, one_in: Callable[[int], int]
) -> None:
    text = TEXT[:3000]
    packed = PACKERS[packing](text)
    for at in range(8, len(packed), one_in(3)):
        broken = bytearray(packed)
        broken[at] ^= 1 << at % 8
        data, error = tried(write(tmp_path, bytes(broken)))
        # A checksum lies behind the data it is of: what was given before it said so may have been wrong.
        assert error is not None or data == text, at


@pytest.mark.parametrize("packing", PACKERS)
def test_what_comes_before_a_fault_does_not_hang_on_the_size_of_reads(
    tmp_path: Path, packing: str, inflater: None
) -> None:
    packed = PACKERS[packing](b"".join(b"%d %d\n" % (i, i * i) for i in range(90_000)))
    limits = InflateLimits(max_bytes=1 << 20)
    ends = set()
    for at in range(len(packed) // 16, len(packed), len(packed) // 4):
        broken = bytearray(packed)
        broken[at : at + 8] = bytes(8)
        path = write(tmp_path, bytes(broken))
        data, error = read(path, limits, 2 << 20)
        assert error is not None
        ends.add(len(data))
        for piece in (4093, 1 << 16):
            again = read(path, limits, piece)
            assert (again[0], str(again[1])) == (data, str(error))
    assert len(ends) > 1


@pytest.mark.parametrize("packing", ["gzip", "bz2", "xz", "zip"])
def test_a_fault_behind_the_head_does_not_hide_it(tmp_path: Path, packing: str, inflater: None) -> None:
    packed = bytearray(PACKERS[packing](TEXT))
    packed[-4 if packing == "gzip" else packed.index(b"PK\x01\x02") + 16 if packing == "zip" else -8] ^= 1
    stream = open_stream(write(tmp_path, bytes(packed)))
    assert stream.head() == TEXT[:4096]
    data, error = drain(stream)
    assert isinstance(error, FormatError)
    assert data[:4096] == TEXT[:4096]


@pytest.mark.parametrize("packing", PACKERS)
def test_what_expands_too_far_is_refused_behind_what_was_allowed(tmp_path: Path, packing: str) -> None:
    path = write(tmp_path, PACKERS[packing](bytes(8 << 20)))
    data, error = read(path, InflateLimits(ratio_after_bytes=1 << 20), 1 << 16)
    assert isinstance(error, FormatError)
    assert "max_ratio = 200" in str(error)
    assert 1 << 20 < len(data) < 3 << 20
    data, error = read(path, InflateLimits(max_bytes=2 << 20), 1 << 16)
    assert isinstance(error, FormatError)
    assert "max_bytes" in str(error)
    assert len(read(path, None, 1 << 20)[0]) == 8 << 20


def test_a_zstd_window_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    wide = zstandard.ZstdCompressionParameters(window_log=28, write_content_size=False)
    packed = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    path = write(tmp_path, packed.compress(TEXT) + packed.flush())
    data, error = read(path)
    assert data == b""
    assert isinstance(error, FormatError)
    assert "window" in str(error)


def test_zstd_frames_that_are_to_be_skipped_are_skipped(tmp_path: Path) -> None:
    skippable = struct.pack("<II", 0x184D2A53, 300_000) + bytes(300_000)
    packed = skippable + pack_zstd(TEXT[:1000]) + skippable + pack_zstd(TEXT[1000:]) + skippable
    assert read(write(tmp_path, packed)) == (TEXT, None)
    data, error = read(write(tmp_path, packed[:-1]))
    assert data == TEXT
    assert isinstance(error, TruncatedFeedError)


def test_zstd_blocks_before_a_corrupt_one_are_given(tmp_path: Path) -> None:
    noise = random.Random(5).randbytes(1 << 20)
    packed = bytearray(pack_zstd(noise))
    packed[-6] ^= 1
    packed[600_000] ^= 1
    data, error = read(write(tmp_path, bytes(packed)), None, 1 << 16)
    assert isinstance(error, FormatError)  # the checksum at the end: blocks of noise are stored as they are
    assert len(data) >= 7 << 17


def test_without_its_package_zstd_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, pack_zstd(TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"strand\[zstd\]"):
        open_stream(path)


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


def test_what_is_no_file_or_pipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="No such file"):
        open_stream(tmp_path / "none")
    with pytest.raises(FeedError, match="is a directory"):
        open_stream(tmp_path)
    with pytest.raises(FeedError, match="neither a regular file nor a pipe"):
        open_stream("/dev/null")
    assert read(write(tmp_path, b"")) == (b"", None)


def test_a_file_that_shrinks_is_reported_behind_its_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT)
    stream = open_stream(path)
    stream.readinto(memoryview(bytearray(100)))
    os.truncate(path, 1000)
    data, error = drain(stream)
    assert data == TEXT[100:1000]
    assert isinstance(error, TruncatedFeedError)
    assert error.offset == 1000


def test_zeros_read_while_a_file_shrinks_are_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that began before the file was cut may end behind the new end, and finds zeros there."""
    path = write(tmp_path, TEXT)
    preadv = os.preadv

    def cut_meanwhile(fd: int, views: list[memoryview], at: int) -> int:
        got = preadv(fd, views, at)
        if at + got > 1000:
            os.truncate(path, 1000)
            views[0][max(0, 1000 - at) : got] = bytes(got - max(0, 1000 - at))
        return got

    stream = open_stream(path)
    stream.readinto(memoryview(bytearray(100)))
    monkeypatch.setattr(os, "preadv", cut_meanwhile)
    data, error = drain(stream)
    assert data == TEXT[100:1000]
    assert isinstance(error, TruncatedFeedError)
    assert error.offset == 1000


# ---- pipes


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def feed(pipe: Path, data: bytes) -> threading.Thread:
    def write_all() -> None:
        with contextlib.suppress(BrokenPipeError):
            pipe.write_bytes(data)

    thread = threading.Thread(target=write_all, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("packing", ["raw", *JOINED])
def test_a_pipe_is_recognised_and_then_read_whole(pipe: Path, packing: str) -> None:
    data = TEXT * 40  # more than is kept
    writer = feed(pipe, PACKERS[packing](data) if packing != "raw" else data)
    for _ in range(3):
        with open_stream(pipe) as stream:
            assert stream.head() == TEXT[:4096]
    assert drain(open_stream(pipe), 1 << 16) == (data, None)
    writer.join()


def test_a_pipe_that_was_read_cannot_be_read_again_until_it_is_opened_anew(pipe: Path) -> None:
    for again in (TEXT, TEXT[::-1]):
        writer = feed(pipe, again * 40)
        assert drain(open_stream(pipe), 1 << 16) == (again * 40, None)
        writer.join()
        with pytest.raises(FeedError, match="can be read once"):
            open_stream(pipe)
        sources.forget_pipe(pipe)


def test_a_pipe_that_nobody_writes_to_is_given_up(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "WRITER_WAIT_S", 0.05)
    with pytest.raises(FeedError, match=r"nothing has come out of the pipe in 0\.05 s"):
        open_stream(pipe)


def test_a_zip_archive_out_of_a_pipe_is_refused(pipe: Path) -> None:
    writer = feed(pipe, pack_zip(TEXT))
    with pytest.raises(FeedError, match="zip archive cannot be read from a pipe"):
        open_stream(pipe)
    writer.join()


def test_closing_ends_a_read_that_waits_for_a_pipe(pipe: Path) -> None:
    holder = os.open(pipe, os.O_RDWR)  # a writer that says no more
    os.write(holder, TEXT[:5000])
    stream = open_stream(pipe)
    assert stream.head(100) == TEXT[:100]
    chunks = read_chunks(stream, chunk_bytes=1 << 16, headroom=64)
    chunks.close()
    os.close(holder)


def test_standard_input_is_a_pipe_named_by_a_dash(tmp_path: Path) -> None:
    program = (
        "import sys; from strand.feeds.io.streams import open_stream\n"
        "assert open_stream('-').head(9) == open_stream('-').head(9)\n"
        "s, b = open_stream('-'), bytearray(1 << 20)\n"
        "while n := s.readinto(memoryview(b)): sys.stdout.buffer.write(b[:n])\n"
    )
    run = [sys.executable, "-c", program]
    data = TEXT * 40
    done = subprocess.run(run, input=gzip.compress(data), capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (data, b"")
    with write(tmp_path, data).open("rb") as file:
        done = subprocess.run(run, stdin=file, capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (data, b"")
