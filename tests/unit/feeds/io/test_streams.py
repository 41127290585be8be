"""Bytes out of files and pipes, whatever they are packed in: all, in bounds, and faults behind what was good."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import ipaddress
import lzma
import os
import random
import struct
import subprocess
import sys
import threading
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bad_input import write_anew
from bounded_child import in_bounded_child
from engine_support import wait_until
from hypothesis import given
from hypothesis import strategies as st
from interrupt_points import Interrupted, at_each_point, interrupter

from strand.errors import ConfigurationError, FeedError, FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds.io import sources, streams
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.io.files import check_folder, files_in, named_paths, read_head, regular_file, small_text
from strand.feeds.io.prefetch import PrefetchedBatches, read_chunks
from strand.feeds.io.sources import InputStream
from strand.feeds.io.streams import InflateLimits, inflater_name, open_member, open_stream
from strand.feeds.live.options import Address, parse_address

pytestmark = pytest.mark.python


# Text that packs by about three, so that a flipped bit meets all parts of the packed data.
TEXT = b"".join(b"%d,%d,AAPL\n" % (i * 7919 % 10007, i * i) for i in range(4000))
JOINED = ["gzip", "zstd", "bz2", "xz"]


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


def pack_zstd(data: bytes, **options: bool) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    return bytes(zstandard.ZstdCompressor(write_checksum=True, **options).compress(data))


def pack_zip(data: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("day.csv", data)
    return packed.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": pack_zstd,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zip": pack_zip,
}


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


# ---- Inflated streams: members, cuts, flipped bits, and bounds, whatever the packing


def tried(path: Path) -> tuple[bytes, FeedError | None]:
    """As ``read``, with faults that show when the stream is opened."""
    try:
        return read(path)
    except FeedError as error:
        return b"", error


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


@pytest.mark.cells(1)
@pytest.mark.parametrize("flags", range(32))
def test_gzip_headers_of_every_kind_are_read_wherever_a_piece_ends(
    tmp_path: Path, flags: int, inflater: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options of RFC 1952, as its section 2.3 lays them out: extra field, name, comment, CRC of the header."""
    header = b"\x1f\x8b\x08" + bytes([flags]) + bytes(5) + b"\xff"
    header += b"\x07\0\x0aB\x03\0\0\1\2" if flags & 4 else b""
    header += b"day.csv\0" if flags & 8 else b""
    header += b"a comment\0" if flags & 16 else b""
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF) if flags & 2 else b""

    def member(text: bytes) -> bytes:
        packer = zlib.compressobj(6, zlib.DEFLATED, -15)
        return header + packer.compress(text) + packer.flush() + struct.pack("<II", zlib.crc32(text), len(text))

    path = write(tmp_path, b"".join(member(TEXT[at : at + 40]) for at in range(0, 400, 40)))
    assert gzip.decompress(path.read_bytes()) == TEXT[:400]
    for piece in (1, 2, 3, 5, 7, 11, 64, 1 << 17):
        monkeypatch.setattr(streams, "_INPUT_PIECE", piece)
        assert read(path) == (TEXT[:400], None), piece


def test_a_gzip_header_that_is_wrong_is_told(tmp_path: Path, inflater: None) -> None:
    good = bytearray(gzip.compress(TEXT, mtime=0))
    for at, value, told in ((2, 7, "compression method 7"), (3, 0x20, "header flags"), (3, 2, "header crc")):
        broken = good.copy()
        broken[at] = value
        _, error = tried(write(tmp_path, bytes(broken)))
        assert isinstance(error, FormatError), told
        assert told in str(error)
    endless = good[:3] + b"\x08" + good[4:10] + b"n" * (2 << 20)
    _, error = tried(write(tmp_path, bytes(endless)))
    assert isinstance(error, FormatError)
    assert "header is longer than 1,048,576 bytes" in str(error)


# ---- Bytes as they lie in a file or come out of a pipe


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
    with pytest.raises(FeedError, match=r"no data came from the pipe in 0\.05 s"):
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


# ---- Files from elsewhere: what is refused before a reader sees it, and pieces of what is inflated


def test_only_a_file_that_can_be_read_again_is_a_regular_one(tmp_path: Path) -> None:
    path = write(tmp_path, b"data")
    assert regular_file(str(path)) == path
    assert [read_head(path, size) for size in (0, 2, 9)] == [b"", b"da", b"data"]
    os.mkfifo(tmp_path / "pipe")
    for other, words in (("none", "no such file"), (".", "is a directory"), ("pipe", "not a regular file")):
        with pytest.raises(FeedError, match=words):
            regular_file(tmp_path / other)
    with pytest.raises(TruncatedFeedError, match="the file is empty"):
        regular_file(write(tmp_path, b""))


def test_a_users_text_is_utf8_with_or_without_its_mark_and_has_an_end(tmp_path: Path) -> None:
    for data in ("Größe".encode(), b"\xef\xbb\xbf" + "Größe".encode()):
        assert small_text(write(tmp_path, data), "symbols") == "Größe"
    for path, words in (
        (write(tmp_path, b"\xff"), "cannot be read"),
        (tmp_path / "none", "cannot be read"),
        (Path("/dev/zero"), "below 64 MiB"),
    ):
        with pytest.raises(ConfigurationError, match=f"^symbols: .*{words}"):
            small_text(path, "symbols")


LONG = TEXT * 50  # more than is read at once
PACKED = gzip.compress(LONG, 1)


@given(sizes=st.lists(st.integers(0, 2 << 20), max_size=5))
def test_pieces_of_any_size_are_the_stream_in_order(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    reader = open_stream(write(tmp_path_factory.getbasetemp(), PACKED, "pieces.gz"))
    at = 0
    for size in sizes:
        assert reader.read(size) == LONG[at : at + size]
        at = min(at + size, len(LONG))
        assert reader.bytes_out == at
    assert reader.read(1 << 40) == LONG[at:]  # no memory is taken for what is not there
    reader.close()


def test_a_member_gives_what_comes_before_its_fault_first(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("day.csv", TEXT)
        (member,) = archive.infolist()
    path = tmp_path / "a.zip"
    path.write_bytes(path.read_bytes().replace(TEXT[-20:], b"x" * 20, 1))
    reader = open_member(path, member, InflateLimits())
    assert reader.member == "day.csv"
    assert reader.read(len(TEXT) - 20) == TEXT[:-20]
    with pytest.raises(FormatError, match="checksum"):
        while reader.read(1000):
            pass
    reader.close()


# ---- Members of zip archives: by name, the only one, and those that cannot be read


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


# ---- Zstandard streams, frame by frame: windows, frames to be skipped, corrupt blocks


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


# ---- Which files are meant by paths, folders, globs and a dash


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.csv", "a.csv", "c[1].csv", "deep/d.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "empty.csv").touch()
    (tmp_path / ".hidden.csv").write_text("x")
    (tmp_path / "_SUCCESS").write_text("x")
    return tmp_path


def test_a_path_stands_for_itself_also_where_a_glob_could_be_meant(folder: Path) -> None:
    for name in ("a.csv", "c[1].csv", "deep"):
        assert list(named_paths(folder / name)) == list(named_paths(str(folder / name))) == [folder / name]
    assert list(named_paths(["-", folder / "b.csv"])) == ["-", folder / "b.csv"]
    assert list(named_paths(folder / "a.csv" / "member")) == [folder / "a.csv" / "member"]  # of an archive, perhaps


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("[ab].csv", ["a.csv", "b.csv"]),
        ("?.csv", ["a.csv", "b.csv"]),
        ("**/d*", ["deep/d.csv"]),
        ("*", ["_SUCCESS", "a.csv", "b.csv", "c[1].csv", "empty.csv"]),
    ],
)
def test_a_glob_is_its_files_by_name_without_folders(folder: Path, pattern: str, names: list[str]) -> None:
    assert list(named_paths(folder / pattern)) == [folder / name for name in names]


def test_of_a_folder_hidden_and_empty_files_are_left_out(folder: Path) -> None:
    assert [path.name for path in files_in(folder)] == ["a.csv", "b.csv", "c[1].csv"]


@pytest.mark.parametrize("source", [[5], [None], b"a.csv", ["a\0.csv"]])
def test_what_is_no_path_is_refused(source: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^source: .* is not a path"):
        list(named_paths(source))


@pytest.mark.parametrize("name", ["none.csv", "*.none", "deep/*/x", "x" * 300 + "*"])
def test_what_is_not_there_is_a_feed_error(folder: Path, name: str) -> None:
    with pytest.raises(FeedError, match=r"no such file|no file matches"):
        list(named_paths(folder / name))


def test_a_folder_that_is_not_there_or_takes_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_folder("out", tmp_path / "a.csv")
    with pytest.raises(ConfigurationError, match="out: there is no folder /no/such"):
        check_folder("out", Path("/no/such/a.csv"))
    # As of a folder without rights; root has all of them.
    monkeypatch.setattr("os.access", lambda path, rights: path != tmp_path)
    with pytest.raises(ConfigurationError, match=f"out: no file may be written in {tmp_path}: name another folder"):
        check_folder("out", tmp_path / "a.csv")


# ---- HOST:PORT as options give it


@given(st.ip_addresses(v=4), st.integers(0, 65535))
def test_an_address_is_what_its_text_says(host: ipaddress.IPv4Address, port: int) -> None:
    found = parse_address(f"{host}:{port}", "line")
    assert found == Address(str(host), port) == parse_address(found, "line")
    assert str(found) == f"{host}:{port}"
    assert found.packed == host.packed
    assert (found.is_loopback, found.is_multicast) == (host.is_loopback, host.is_multicast)


def test_a_port_alone_is_on_this_machine() -> None:
    for text in ("26400", ":26400", "localhost:26400"):
        assert parse_address(text, "line") == Address("127.0.0.1", 26400)


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:\u0661", "1:000001"]
)
def test_what_has_no_port_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^line: .* is not HOST:PORT"):
        parse_address(text, "line")


@pytest.mark.parametrize("host", ["example.com", "127.0.0", "127.0.0.256", "[::1]", "010.0.0.1"])
def test_what_is_no_address_of_ipv4_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^line: .* is not an IPv4 address"):
        parse_address(f"{host}:1", "line")


# ---- A file appears under its name when it is whole, or not at all


def test_what_had_the_name_is_there_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"before")
    with atomic_write(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.bin", "a.gz"])
@pytest.mark.parametrize("existed", [True, False])
def test_a_block_that_raises_leaves_what_was_there(tmp_path: Path, name: str, existed: bool) -> None:
    path = tmp_path / name
    if existed:
        path.write_bytes(b"before")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as file:
        file.write(b"after")
        raise ZeroDivisionError
    assert [(one, one.read_bytes()) for one in tmp_path.iterdir()] == ([(path, b"before")] if existed else [])


def test_the_same_bytes_give_the_same_packed_file_whatever_its_name(tmp_path: Path) -> None:
    data = b"".join(b"%d," % i for i in range(10_000))
    for name in ("a.gz", "b.GZ"):
        with atomic_write(tmp_path / name) as file:
            file.write(data)
    packed = (tmp_path / "a.gz").read_bytes()
    assert packed == (tmp_path / "b.GZ").read_bytes()
    assert len(packed) < len(data)
    assert gzip.decompress(packed) == data


def test_zstd_files_have_a_checksum(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    with atomic_write(tmp_path / "a.zst") as file:
        file.write(b"data" * 100)
    packed = (tmp_path / "a.zst").read_bytes()
    assert zstandard.get_frame_parameters(packed).has_checksum
    assert zstandard.ZstdDecompressor().decompressobj().decompress(packed) == b"data" * 100


def test_an_interrupt_as_the_file_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def interrupted(path: Path, *args: Any) -> Any:
        opened(path, *args).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "open", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "a.bin"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_child_of_a_fork_writes_nothing_a_second_time(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with atomic_write(path) as file:
        file.write(b"once")  # in the buffer yet, which the child has a copy of
        child = os.fork()
        if child == 0:
            try:
                file.flush()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0) == (child, 0)
    assert path.read_bytes() == b"once"


@pytest.mark.parametrize("name", ["a.bz2", "a.xz", "a.ZIP"])
def test_a_packing_that_is_not_written_is_refused(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(ConfigurationError, match="files cannot be written: end the name in"),
        atomic_write(tmp_path / name),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_place_where_nothing_can_be_written_is_a_feed_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "none" / "a.bin", Path("/")):
        with pytest.raises(FeedError, match="cannot be written"), atomic_write(path):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


# ---- Batches that a thread makes ahead are bounded in number


def readers() -> list[str]:
    return sorted(t.name for t in threading.enumerate() if t.name.startswith(("strand read", "strand make")))


def test_two_batches_are_made_ahead_and_a_third_waits_until_one_is_taken() -> None:
    begun: list[int] = []
    ahead = PrefetchedBatches((begun.append(i) or i for i in range(9)), "strand read x")
    for taken in range(3):
        wait_until(lambda: len(begun) >= taken + 2)  # noqa: B023 - it is called here
        threading.Event().wait(0.2)  # in which one batch too many would be made
        assert begun == list(range(taken + 2))
        assert next(ahead) == taken
    ahead.close()


def test_what_is_read_ahead_is_bounded() -> None:
    begun = []

    def numbers() -> Any:
        for i in range(100):
            begun.append(i)
            yield i, None

    ahead = PrefetchedBatches(numbers(), "strand read x")
    for i in range(50):
        assert next(ahead) == (i, None)
        assert begun[-1] <= i + 3
    ahead.close()
    ahead.close()
    assert readers() == []
    assert list(ahead) == []


def test_two_interrupts_in_a_row_leave_no_file_open(tmp_path: Path) -> None:
    interrupter()
    (tmp_path / "plain.txt").write_bytes(TEXT)

    def prepare() -> tuple[Callable[[], Any], Callable[[], Any]]:
        case = Interrupted(lambda: open_stream(tmp_path / "plain.txt").close())
        return case.run, case.check_nothing_is_open

    in_bounded_child(lambda: at_each_point(prepare, "two in a row"))
