"""Streams and generators read by a thread of their own, a little ahead of their user."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Collection, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, TypeVar

import numpy as np

from strand.background import BackgroundReader
from strand.errors import FeedError
from strand.feeds.io.sources import ByteStream, InputStream, RawStream

_BUFFERS: Final = 4
# More buffers where something is inflated. Handlers begin slowly, on memory that nobody has touched yet. The inflating
# thread bounds a run's speed, so it must not wait for them. ``_MORE_BYTES`` bounds these buffers of all streams under
# way: in a merge, or before slow handlers, all of them are filled.
_MORE_BUFFERS: Final = 12
_MORE_BYTES: Final = 16 << 20


class Chunks:
    """A stream in pieces, each led by the bytes the last one left over. Reads in the caller's thread."""

    reading_ns = 0
    """Time the reader has spent reading, which for a ``Prefetch`` runs beside the caller's."""
    full_ns = 0
    """Time the reader has waited for the caller to give a buffer back."""
    waiting_ns = 0
    """Time the caller has waited in ``next``."""

    def __init__(self, stream: ByteStream, *, chunk_bytes: int, headroom: int) -> None:
        self._stream = stream
        self._headroom = headroom
        self._buffer = np.empty(headroom + chunk_bytes, np.uint8).data
        # A close from another thread waits for the read under way: a descriptor closed under it may be reused.
        self._lock = threading.Lock()
        self._closed = False

    def next(self, carry: memoryview) -> memoryview | None:
        """``carry`` and the bytes that follow it, valid until the next call; None at the end, which leaves ``carry`` as
        it is. Raises FeedError.

        ``carry``: the unused end of what the last call returned, at most ``headroom`` bytes.
        """
        before = self.reading_ns
        data = self._read(carry, len(self._buffer) - self._headroom)
        self.waiting_ns += self.reading_ns - before
        return data

    def add_times_of(self, closed: Chunks) -> None:
        """Adds the times of those that these go on for."""
        self.reading_ns += closed.reading_ns
        self.full_ns += closed.full_ns
        self.waiting_ns += closed.waiting_ns

    def _read(self, carry: memoryview, size: int) -> memoryview | None:
        start = self._headroom - len(carry)
        self._buffer[start : self._headroom] = carry
        begun = time.perf_counter_ns()
        with self._lock:
            if self._closed:
                raise FeedError("the feed was closed while it was being read")
            got = self._stream.readinto(self._buffer[self._headroom : self._headroom + size])
        self.reading_ns += time.perf_counter_ns() - begun
        if got == 0:
            # The caller still has to decode ``carry``, which may lie in this buffer where it was just copied to.
            if not carry.readonly:
                carry[:] = self._buffer[start : self._headroom]
            return None
        return self._buffer[start : self._headroom + got]

    @contextlib.contextmanager
    def apart(self) -> Iterator[RawStream]:
        """The plain file, for who reads it otherwise and then says where it stands: a close waits so long. Raises
        FeedError."""
        with self._lock:
            if self._closed:
                raise FeedError("the feed was closed while it was being read")
            assert isinstance(self._stream, RawStream)
            yield self._stream

    def keep_to(self, cores: Collection[int]) -> None:
        """Keeps the reading thread on these cores, if it is not the caller's thread."""

    def close(self) -> None:
        """Closes the stream. May be called again."""
        _interrupt(self._stream)
        with self._lock:
            self._closed = True
            self._stream.close()


def _interrupt(stream: ByteStream) -> None:
    """Ends a read that waits: a pipe's reader may wait for its writer for ever."""
    if isinstance(stream, InputStream):
        stream.interrupt()


class _Reader:
    """Fills buffers from a stream, behind ``headroom`` bytes that stay free. Holds no reference to the user."""

    def __init__(self, stream: ByteStream, headroom: int) -> None:
        self._stream = stream
        self._headroom = headroom
        self._now = time.perf_counter_ns()
        self.reading_ns = 0
        self.full_ns = 0

    def __call__(self, buffer: memoryview) -> tuple[memoryview, int] | None:
        """A buffer and how much of it was filled; None at the end."""
        begun = time.perf_counter_ns()
        self.full_ns += begun - self._now
        got = self._stream.readinto(buffer[self._headroom :])
        self._now = time.perf_counter_ns()
        self.reading_ns += self._now - begun
        return (buffer, got) if got else None


class Prefetch(Chunks):
    """``Chunks`` whose stream is read, and closed, by a thread: so that inflating overlaps with decoding.

    The thread ends with the stream, on an error, with ``close``, or when this object is forgotten. ``eager``: takes
    more buffers than it needs to keep both threads busy, as far as other streams leave any.
    """

    _under_way: ClassVar[weakref.WeakSet[Prefetch]] = weakref.WeakSet()
    _more_bytes: int
    _background: BackgroundReader[memoryview, tuple[memoryview, int]]

    def __init__(self, stream: ByteStream, *, chunk_bytes: int, headroom: int, name: str, eager: bool = False) -> None:
        self._reader = reader = _Reader(stream, headroom)
        self._headroom = headroom
        # All buffers in one piece, which is large enough for numpy to ask for huge pages. With small pages a run would
        # begin with thousands of page faults.
        size = headroom + chunk_bytes
        taken = sum(one._more_bytes for one in list(self._under_way) if one._background.is_open)
        more = max(0, min(_MORE_BUFFERS, (_MORE_BYTES - taken) // size)) if eager else 0
        self._more_bytes = more * size
        room = np.empty((_BUFFERS + more) * size, np.uint8).data
        buffers = [room[at : at + size] for at in range(len(room) - size, -1, -size)]
        self._in_use: memoryview | None = None
        interrupt = partial(_interrupt, stream)
        self._background = BackgroundReader(reader, stream.close, buffers, name, interrupt=interrupt, last_first=True)
        self._under_way.add(self)

    @property
    def reading_ns(self) -> int:  # type: ignore[override]
        """Time the thread has spent reading and inflating."""
        return self._reader.reading_ns

    @property
    def full_ns(self) -> int:  # type: ignore[override]
        """Time the thread has waited for a free buffer."""
        return self._reader.full_ns

    def next(self, carry: memoryview) -> memoryview | None:
        """See ``Chunks.next``. Raises FeedError too when closed by another thread meanwhile."""
        background = self._background
        if background.is_over:
            return None
        begun = time.perf_counter_ns()
        try:
            item = background.get()
        finally:
            self.waiting_ns += time.perf_counter_ns() - begun
        if item is None:
            if background.stopping:
                raise FeedError("the feed was closed while it was being read")
            return None
        buffer, got = item
        start = self._headroom - len(carry)
        buffer[start : self._headroom] = carry
        if self._in_use is not None:
            background.give_back(self._in_use)
        self._in_use = buffer
        return buffer[start : self._headroom + got]

    def keep_to(self, cores: Collection[int]) -> None:
        """See ``Chunks.keep_to``."""
        thread = self._background.thread
        if not thread.is_alive():  # a short file has been read by then
            return
        assert thread.native_id is not None
        with contextlib.suppress(OSError):  # the thread has ended, or the system refuses, which makes reading slower
            os.sched_setaffinity(thread.native_id, cores)

    def close(self) -> None:
        """Stops the thread and waits for it."""
        self._background.close()


def read_chunks(stream: InputStream, *, chunk_bytes: int, headroom: int) -> Chunks:
    """A stream in pieces. A thread reads ahead where there is something to inflate or to wait for. A plain file only
    has to be copied: it gets a thread where a core is left beside the two that decode and handle."""
    if isinstance(stream, RawStream) and len(os.sched_getaffinity(0)) <= 2:
        return Chunks(stream, chunk_bytes=chunk_bytes, headroom=headroom)
    name = f"strand read {Path(stream.path).name}"
    eager = stream.compression != "none"
    return Prefetch(stream, chunk_bytes=chunk_bytes, headroom=headroom, name=name, eager=eager)


# One batch is made while another waits: a third would only take memory.
_AHEAD: Final = 2

T = TypeVar("T")


def may_prefetch() -> bool:
    """True if a core is free for one more such thread. Of many files that are read together, only the first ones get
    threads."""
    return len(os.sched_getaffinity(0)) > 1 + BackgroundReader.threads()


class PrefetchedBatches(Iterator[T]):
    """The items of a generator, none of them None. A thread runs and closes the generator, so that reading a file
    overlaps with handling its ticks. An error of the generator is raised after the items before it.

    The thread ends with the generator, on an error, with ``close``, or when this object is forgotten.
    """

    def __init__(self, batches: Generator[T, None, None], name: str) -> None:
        self._closed = False
        self._background: BackgroundReader[bool, T] = BackgroundReader(
            lambda _: next(batches, None), batches.close, [True] * _AHEAD, name
        )

    def __next__(self) -> T:
        item = None if self._closed else self._background.get()
        if item is None:
            raise StopIteration
        self._background.give_back(True)
        return item

    def close(self) -> None:
        """Stops the thread and waits until it has made its current batch."""
        self._closed = True
        self._background.close()
