"""Chunks that a thread reads ahead: what is carried over, closing, faults, cores."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import itch_reference as ref
import pytest
from bad_input import write_anew
from reading import threads_that_read

from strand.errors import (
    StrandError,
)
from strand.feeds.io.prefetch import Chunks, Prefetch
from strand.feeds.io.streams import InflateLimits, MemberStream, Packing, RawStream, gzip_members, open_stream


def write(folder: Path, content: bytes, name: str = "20190130.itch") -> Path:
    return write_anew(folder / name, content)


def gzip_of(path: Path) -> tuple[RawStream, InflateLimits, Packing]:
    """The arguments of a stream of a gzip file."""
    return RawStream(path), InflateLimits(), gzip_members()


def test_closing_from_another_thread_wakes_a_reader_that_waits(tmp_path: Path) -> None:
    class Stuck(MemberStream):
        """Delivers nothing until the test lets it."""

        def readinto(self, view: memoryview) -> int:
            entered.set()
            released.wait()
            return super().readinto(view)

    entered, released = threading.Event(), threading.Event()
    path = write(tmp_path, gzip.compress(ref.deletes(10)))
    chunks = Prefetch(Stuck(*gzip_of(path)), chunk_bytes=4096, headroom=64, name="strand read test")
    caught: list[BaseException] = []

    def reader() -> None:
        try:
            while chunks.next(memoryview(b"")) is not None:
                pass
        except StrandError as error:
            caught.append(error)

    waiting = threading.Thread(target=reader)
    waiting.start()
    entered.wait()
    closing = threading.Thread(target=chunks.close)
    closing.start()
    while not chunks._background.stopping:
        pass
    released.set()
    closing.join()
    waiting.join()
    assert "closed" in str(caught[0])
    assert not threads_that_read()


def test_what_is_carried_to_the_end_of_a_stream_stays_as_it_is(tmp_path: Path) -> None:
    content = bytes(range(100))
    chunks = Chunks(open_stream(write(tmp_path, gzip.compress(content))), chunk_bytes=90, headroom=64)
    first = chunks.next(memoryview(b""))
    assert first is not None
    rest = chunks.next(first[60:])
    assert rest is not None
    assert bytes(rest) == content[60:]  # 30 of them carried, and 10 that were read
    assert chunks.next(rest) is None
    assert bytes(rest) == content[60:]
    chunks.close()


def test_an_error_nobody_foresaw_in_the_thread_reaches_the_reader(tmp_path: Path) -> None:
    class Broken(MemberStream):
        def readinto(self, view: memoryview) -> int:
            raise ZeroDivisionError

    path = write(tmp_path, gzip.compress(b"x"))
    chunks = Prefetch(Broken(*gzip_of(path)), chunk_bytes=4096, headroom=64, name="strand read test")
    with pytest.raises(ZeroDivisionError):
        chunks.next(memoryview(b""))
    chunks.close()
    assert not threads_that_read()


def test_a_reading_thread_keeps_to_cores_as_long_as_it_reads(tmp_path: Path) -> None:
    class Slow(MemberStream):
        """Delivers nothing until the test lets it."""

        def readinto(self, view: memoryview) -> int:
            released.wait()
            return super().readinto(view)

    released = threading.Event()
    allowed = os.sched_getaffinity(0)
    path = write(tmp_path, gzip.compress(ref.deletes(10)))
    chunks = Prefetch(Slow(*gzip_of(path)), chunk_bytes=4096, headroom=64, name="strand read test")
    reader = chunks._background.thread
    chunks.keep_to({min(allowed)})
    assert reader.native_id is not None
    assert os.sched_getaffinity(reader.native_id) == {min(allowed)}
    assert os.sched_getaffinity(0) == allowed
    released.set()
    while chunks.next(memoryview(b"")) is not None:
        pass
    reader.join()
    chunks.keep_to({min(allowed)})
    assert os.sched_getaffinity(0) == allowed
    chunks.close()
