"""Bytes as they lie in a file or come out of a pipe."""

from __future__ import annotations

import contextlib
import gzip
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from byte_streams import JOINED, TEXT, drain, read, write
from packing import PACKERS, pack_zip

from strand.errors import FeedError, TruncatedFeedError
from strand.feeds.io import sources
from strand.feeds.io.prefetch import read_chunks
from strand.feeds.io.streams import open_stream

pytestmark = pytest.mark.python


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
