"""What a generator makes, made by a thread of its own, a little ahead of whoever uses it."""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Generator, Iterator
from typing import Final, Generic, TypeVar

__all__ = ["PrefetchedBatches", "may_prefetch"]

# One that is read while another waits: a third would only take memory.
_AHEAD: Final = 2

T = TypeVar("T")


def may_prefetch() -> bool:
    """Whether the calling thread has a core to leave to one more such thread: of many files that are read together the
    first ones have some."""
    ahead = sum(isinstance(thread, _Thread) for thread in threading.enumerate())
    return len(os.sched_getaffinity(0)) > 1 + ahead


class _Thread(threading.Thread):
    """One that is known by its kind."""


class _Shared(Generic[T]):
    """What the thread and its user have in common; holds no reference to the user, who may be forgotten."""

    def __init__(self, batches: Generator[T, None, None]) -> None:
        self.batches = batches
        self.room: queue.SimpleQueue[None] = queue.SimpleQueue()
        # A batch, an error, or None at the end. Bounded by what is put into ``room``.
        self.read: queue.SimpleQueue[T | BaseException | None] = queue.SimpleQueue()
        self.stop = False


def _run(shared: _Shared[T]) -> None:
    try:
        shared.room.get()
        while not shared.stop and (item := next(shared.batches, None)) is not None:
            shared.read.put(item)
            del item  # which would be one more in memory while there is no room
            shared.room.get()
    except BaseException as error:  # whatever it is, it belongs to the user, who would wait for ever
        shared.read.put(error)
    else:
        shared.read.put(None)
    finally:
        shared.batches.close()


def _stop(shared: _Shared[T]) -> None:
    shared.stop = True
    shared.room.put(None)


def _forget(shared: _Shared[T], thread: threading.Thread) -> None:
    _stop(shared)
    # The garbage collector may have found the user in such a thread: in this one, or in one that it waits for.
    if not isinstance(threading.current_thread(), _Thread):
        thread.join()


class PrefetchedBatches(Iterator[T]):
    """The items of a generator, none of them None, which a thread runs, and closes: so that reading a file overlaps
    with what is done with it. An error of the generator's comes where it would have come.

    The thread ends with the generator, on an error, with ``close``, or when this object is forgotten.
    """

    def __init__(self, batches: Generator[T, None, None], name: str) -> None:
        self._shared = shared = _Shared(batches)
        for _ in range(_AHEAD):
            shared.room.put(None)
        self._ended = False
        # Daemonic: an iteration nobody finished must not keep the interpreter from leaving.
        self._thread = _Thread(target=_run, args=(shared,), name=name, daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _forget, shared, self._thread)

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        item = self._shared.read.get()
        if item is None or isinstance(item, BaseException):
            self._ended = True
            raise StopIteration if item is None else item
        self._shared.room.put(None)
        return item

    def close(self) -> None:
        """Stops the thread and waits for it: at most for a batch."""
        self._ended = True
        if self._finalizer.detach() is not None:
            _stop(self._shared)
        if self._thread is not threading.current_thread():
            self._thread.join()
