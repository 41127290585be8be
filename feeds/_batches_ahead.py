"""Record batches read by a thread of its own, a few ahead of whoever makes ticks of them."""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Generator, Iterator
from typing import Any, Final

__all__ = ["BatchesAhead", "may_read_ahead"]

# One that is read while another waits: a third would only take memory.
_AHEAD: Final = 2

Item = tuple[int, Any]


def may_read_ahead() -> bool:
    """Whether the calling thread has a core to leave to another."""
    return len(os.sched_getaffinity(0)) > 1


class _Shared:
    """What the thread and its user have in common; holds no reference to the user, who may be forgotten."""

    def __init__(self, batches: Generator[Item, None, None]) -> None:
        self.batches = batches
        self.room: queue.SimpleQueue[None] = queue.SimpleQueue()
        # A batch, an error, or None at the end. Bounded by what is put into ``room``.
        self.read: queue.SimpleQueue[Item | BaseException | None] = queue.SimpleQueue()
        self.stop = False


def _run(shared: _Shared) -> None:
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


def _stop(shared: _Shared, thread: threading.Thread) -> None:
    shared.stop = True
    shared.room.put(None)
    # The garbage collector may have found the user in the reading thread itself.
    if thread is not threading.current_thread():
        thread.join()


class BatchesAhead(Iterator[Item]):
    """The items of a generator, which a thread runs, and closes: so that reading a file overlaps with what is done with
    it. An error of the generator's comes where it would have come.

    The thread ends with the generator, on an error, with ``close``, or when this object is forgotten.
    """

    def __init__(self, batches: Generator[Item, None, None], name: str) -> None:
        self._shared = shared = _Shared(batches)
        for _ in range(_AHEAD):
            shared.room.put(None)
        self._ended = False
        # Daemonic: an iteration nobody finished must not keep the interpreter from leaving.
        thread = threading.Thread(target=_run, args=(shared,), name=name, daemon=True)
        thread.start()
        self._finalizer = weakref.finalize(self, _stop, shared, thread)

    def __next__(self) -> Item:
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
        self._finalizer()
