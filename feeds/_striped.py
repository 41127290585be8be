"""A file read by several threads at once, for a reader that looks at its bytes faster than one thread copies them."""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from typing import Final

from strand.errors import FeedError
from strand.feeds.read_ahead import Chunks
from strand.feeds.sources import RawStream

__all__ = ["StripedChunks", "worth_striping"]

_CHUNK: Final = 1 << 20
_THREADS: Final = 3
_BUFFERS: Final = 2 * _THREADS
#: Below, starting the threads costs more than they save.
_MIN_BYTES: Final = 64 << 20


def worth_striping(size: int) -> bool:
    """Whether a file of so many bytes is read faster so, on the cores there are for this process."""
    return size >= _MIN_BYTES and len(os.sched_getaffinity(0)) > 2


class _Shared:
    """What the threads and their user have in common; holds no reference to the user, who may be forgotten."""

    def __init__(self, stream: RawStream, headroom: int) -> None:
        self.stream = stream
        self.headroom = headroom
        self.buffers = [memoryview(bytearray(headroom + _CHUNK)) for _ in range(_BUFFERS)]
        self.free: list[queue.SimpleQueue[bool]] = [queue.SimpleQueue() for _ in range(_BUFFERS)]
        # How many bytes the buffer was filled with, or what no one foresaw. At most one in each at a time.
        self.full: list[queue.SimpleQueue[int | BaseException]] = [queue.SimpleQueue() for _ in range(_BUFFERS)]
        self.reading_ns = [0] * _THREADS
        self.stop = False
        # A close from another thread waits for the read under way: a descriptor closed under it may be reused.
        self.lock = threading.Lock()


def _fill(shared: _Shared, view: memoryview, at: int) -> int:
    """Short where the file ends or cannot be read on: whoever comes there in order finds out why."""
    filled = 0
    while filled < len(view) and not shared.stop:
        try:
            got = shared.stream.read_at(view[filled:], at + filled)
        except FeedError:
            break
        if got == 0:
            break
        filled += got
    return filled


def _run(shared: _Shared, mine: int) -> None:
    piece = mine
    while shared.free[piece % _BUFFERS].get() and not shared.stop:
        begun = time.perf_counter_ns()
        try:
            got: int | BaseException = _fill(
                shared, shared.buffers[piece % _BUFFERS][shared.headroom :], piece * _CHUNK
            )
        except BaseException as error:  # whatever it is, it belongs to the user, who would wait for ever
            got = error
        shared.reading_ns[mine] += time.perf_counter_ns() - begun
        shared.full[piece % _BUFFERS].put(got)
        if got != _CHUNK:
            return
        piece += _THREADS
    shared.full[piece % _BUFFERS].put(FeedError("the feed was closed while it was being read"))


def _stop(shared: _Shared, threads: list[threading.Thread]) -> None:
    shared.stop = True
    for free in shared.free:
        free.put(False)
    for thread in threads:
        # The garbage collector may have found the user in a reading thread itself.
        if thread is not threading.current_thread():
            thread.join()
    with shared.lock:
        shared.stream.close()


class StripedChunks(Chunks):
    """``Chunks`` of a file whose pieces are read by turns by threads, and handed out in order.

    The threads end with the file, with ``close``, or when this object is forgotten.
    """

    def __init__(self, stream: RawStream, *, headroom: int) -> None:
        self._stream: RawStream = stream
        self._headroom = headroom
        self._shared = shared = _Shared(stream, headroom)
        self._piece = 0
        self._at = 0
        self._rest: memoryview | None = None
        for free in shared.free:
            free.put(True)
        # Daemonic: an iteration nobody finished must not keep the interpreter from leaving.
        threads = [
            threading.Thread(target=_run, args=(shared, i), name=f"strand read {i}", daemon=True)
            for i in range(_THREADS)
        ]
        for thread in threads:
            thread.start()
        self._finalizer = weakref.finalize(self, _stop, shared, threads)

    @property
    def reading_ns(self) -> int:  # type: ignore[override]
        """Time the threads have spent reading, all of them together."""
        return sum(self._shared.reading_ns)

    def next(self, carry: memoryview) -> memoryview | None:
        """See ``Chunks.next``. Raises FeedError too when closed by another thread meanwhile."""
        begun = time.perf_counter_ns()
        buffer, got = self._in_order(carry) if self._rest is not None else self._in_turn()
        if buffer is not self._rest:
            buffer[self._headroom - len(carry) : self._headroom] = carry
            if self._piece:
                self._shared.free[(self._piece - 1) % _BUFFERS].put(True)
            self._piece += 1
            if got != _CHUNK:  # the file's end, or a fault, which is met by going on in order
                self._rest = memoryview(bytearray(self._headroom + _CHUNK))
        self._at += got
        self._stream.stand_at(self._at)
        self.waiting_ns += time.perf_counter_ns() - begun
        if got:
            return buffer[self._headroom - len(carry) : self._headroom + got]
        return None if buffer is self._rest else self.next(carry)

    def _in_turn(self) -> tuple[memoryview, int]:
        which = self._piece % _BUFFERS
        item = self._shared.full[which].get()
        if isinstance(item, BaseException):
            raise item
        return self._shared.buffers[which], item

    def _in_order(self, carry: memoryview) -> tuple[memoryview, int]:
        assert self._rest is not None
        self._rest[self._headroom - len(carry) : self._headroom] = carry
        with self._shared.lock:
            if self._shared.stop:
                raise FeedError("the feed was closed while it was being read")
            return self._rest, self._stream.read_at(self._rest[self._headroom :], self._at)

    def close(self) -> None:
        """Stops the threads and waits for them."""
        self._finalizer()
