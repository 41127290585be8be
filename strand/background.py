"""Work that a thread of its own does beside whoever uses it, so much ahead or behind and no more.

A ``Background`` is that thread. A ``BackgroundWriter`` hands batches to it, and waits while too much waits there. A
``BackgroundReader`` hands it room, and takes what it has made there.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy.typing as npt

from strand.errors import EngineError
from strand.threads import Inside, join

__all__ = ["Background", "BackgroundReader", "BackgroundWriter"]

#: Bytes that may wait for a writer: a row group of a file takes long, and others are merged meanwhile.
MAXIMUM_BYTES: Final = 1 << 24

Batch = npt.NDArray[Any]
T = TypeVar("T")
Room = TypeVar("Room")


class _Thread(threading.Thread):
    """One that is known by its kind."""


class _LastFirst(Generic[T]):
    """A queue whose last item comes first: what is put back is in a cache, and what is never needed is not touched."""

    def __init__(self) -> None:
        self._items: deque[T | None] = deque()
        self._count: queue.SimpleQueue[None] = queue.SimpleQueue()

    def put(self, item: T | None) -> None:
        self._items.append(item)
        self._count.put(None)

    def get(self) -> T | None:
        self._count.get()
        return self._items.pop()

    def empty(self) -> bool:
        return self._count.empty()


class Background(Generic[T]):
    """Calls ``work`` with each item that is put, in their order or the last one first, in a daemonic thread.

    The thread ends where ``work`` returns False or raises, or with ``end``. Its last act is to call ``ended`` with what
    was raised, or None. It holds this object, and so both functions: they must not hold a user who may be forgotten.

    ``allowed``: the cores that it runs on; None: those of its maker. ``inside``: what it counts as being in.
    """

    def __init__(
        self,
        work: Callable[[T], bool],
        ended: Callable[[BaseException | None], None],
        name: str,
        *,
        last_first: bool = False,
        allowed: Sequence[int] | None = None,
        inside: Inside | None = None,
    ) -> None:
        self._work = work
        self._ended = ended
        self._allowed = allowed
        self._inside = inside or Inside()
        self._waiting: queue.SimpleQueue[T | None] | _LastFirst[T] = _LastFirst() if last_first else queue.SimpleQueue()
        #: Whether it is to end without what waits.
        self.stopping = False
        # Daemonic: an iteration that nobody finished must not keep the interpreter from leaving.
        self.thread = _Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def put(self, item: T) -> None:
        """Hands an item over."""
        self._waiting.put(item)

    def end(self, *, now: bool) -> None:
        """Lets the thread end when it has worked on all that was put; ``now``: on the item under way."""
        self.stopping = self.stopping or now
        self._waiting.put(None)

    def join(self) -> None:
        """Waits for the thread's end, unless this is the thread."""
        if self.thread is not threading.current_thread():
            join(self.thread)

    def _run(self) -> None:
        me = threading.get_ident()
        error: BaseException | None = None
        try:
            self._inside.threads.append(me)
            if self._allowed is not None:
                # Where its maker is pinned, it would be so too. Those cores may have gone: then it is slower.
                with suppress(OSError):
                    os.sched_setaffinity(0, self._allowed)
            self._work_on()
        except BaseException as raised:  # whatever it is, it belongs to the user, who would wait for ever
            error = raised
        finally:
            try:
                self._ended(error)
            finally:
                error = None  # which holds this frame
                self._inside.threads.remove(me)

    def _work_on(self) -> None:
        while (item := self._waiting.get()) is not None and not self.stopping:
            if not self._work(item):
                break
            del item  # which would be one more in memory while nothing comes

    def discard(self) -> None:
        """Once the thread has ended, and nothing is put any more: lets go of what waits."""
        while not self._waiting.empty():
            self._waiting.get()


class BackgroundWriter:
    """Calls ``write`` with each batch, in their order, in a thread on the cores ``allowed``. The first exception that
    it raises goes to ``failed``, in that thread; from then on batches are dropped.

    Begins with ``start``, and ends with ``close`` or ``drop``, after which nothing may be put.
    """

    def __init__(
        self,
        write: Callable[[Batch], None],
        failed: Callable[[Exception], None],
        name: str,
        allowed: Sequence[int],
        inside: Inside | None = None,
    ) -> None:
        self._write = write
        self._failed = failed
        #: Of batches that wait, and of the one under way.
        self._bytes = 0
        self._over = False
        # The lock is entered by itself: an interrupt in the condition's own way in would leave it locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._background = Background(self._work, self._ended, name, allowed=allowed, inside=inside)

    def start(self) -> None:
        self._background.start()

    @property
    def is_this_thread(self) -> bool:
        """Whether the calling thread is its thread."""
        return self._background.thread is threading.current_thread()

    def put(self, batch: Batch) -> None:
        """Hands a batch over, whose memory must stay as it is. Waits while too much waits already."""
        with self._lock:
            self._changed.wait_for(lambda: self._bytes < MAXIMUM_BYTES or self._over)
            if self._over:
                return
            self._background.put(batch)
            self._bytes += batch.nbytes

    def settle(self) -> None:
        """Waits until all that was put has been worked on, or dropped."""
        with self._lock:
            # Less than none where an interrupt came between putting a batch and counting it.
            self._changed.wait_for(lambda: self._bytes <= 0 or self._over)

    def close(self) -> None:
        """Ends the thread when it has worked on all that was put, and waits for that."""
        self._background.end(now=False)
        self._background.join()

    def drop(self) -> None:
        """Ends the thread without what waits: at most the batch under way is waited for."""
        self._background.end(now=True)
        self._background.join()

    def _work(self, batch: Batch) -> bool:
        self._write(batch)
        with self._lock:
            self._bytes -= batch.nbytes
            self._changed.notify_all()
        return True

    def _ended(self, error: BaseException | None) -> None:
        try:
            if isinstance(error, Exception):
                self._failed(error)
            elif error is not None:
                # What it had in hand is gone: nobody may take the work for done.
                failure = EngineError(f"the thread {self._background.thread.name!r} ended by {error!r}")
                failure.__cause__ = error
                self._failed(failure)
        finally:
            with self._lock:
                self._over = True
                self._changed.notify_all()
            self._background.discard()


class BackgroundReader(Generic[Room, T]):
    """What ``make`` makes of each room, made by a thread, as much ahead of ``get`` as there are ``rooms``.

    ``make`` returns None at the end. ``close`` is called in the thread, when it ends: then, on an error, with ``close``
    of this object, or when this object is forgotten. ``interrupt`` ends a wait of ``make``, as far as it can. None of
    the three may hold this object. ``last_first``: the room given back last is used first.
    """

    _under_way: ClassVar[weakref.WeakSet[Background[Any]]] = weakref.WeakSet()

    def __init__(
        self,
        make: Callable[[Room], T | None],
        close: Callable[[], None],
        rooms: Iterable[Room],
        name: str,
        *,
        interrupt: Callable[[], None] | None = None,
        last_first: bool = False,
    ) -> None:
        # An item, an error, or None at the end. Bounded by the rooms.
        made: queue.SimpleQueue[T | BaseException | None] = queue.SimpleQueue()

        def work(room: Room) -> bool:
            item = make(room)
            if item is not None:
                made.put(item)
            return item is not None

        def ended(error: BaseException | None) -> None:
            made.put(error)
            try:
                close()
            finally:
                BackgroundReader._under_way.discard(background)

        self._made = made
        self._interrupt = interrupt
        #: Whether ``get`` has come to the end, or raised.
        self.is_over = False
        self._background = background = Background(work, ended, name, last_first=last_first)
        for room in rooms:
            background.put(room)
        self._under_way.add(background)  # before it begins: what it runs may ask
        background.start()
        self._finalizer = weakref.finalize(self, _forget, background, interrupt)

    @classmethod
    def threads(cls) -> int:
        """How many such threads run."""
        return len(cls._under_way)

    @property
    def thread(self) -> threading.Thread:
        return self._background.thread

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self._finalizer.alive

    @property
    def stopping(self) -> bool:
        """Whether it has been closed before its end."""
        return self._background.stopping

    def get(self) -> T | None:
        """The next item; None at the end, or where it was closed. An error comes where the item would have come."""
        if self.is_over:
            return None
        item = self._made.get()
        if item is None or isinstance(item, BaseException):
            self.is_over = True
            if item is None:
                return None
            try:
                raise item
            finally:
                del item  # which holds this frame
        return item

    def give_back(self, room: Room) -> None:
        """Room for one more."""
        self._background.put(room)

    def close(self) -> None:
        """Stops the thread and waits for it: at most for the item under way."""
        if self._finalizer.detach() is not None:
            _stop(self._background, self._interrupt)
        self._background.join()


def _stop(background: Background[Any], interrupt: Callable[[], None] | None) -> None:
    background.stopping = True
    if interrupt is not None:
        interrupt()
    background.end(now=True)


def _forget(background: Background[Any], interrupt: Callable[[], None] | None) -> None:
    _stop(background, interrupt)
    # The garbage collector may have found the user in such a thread: in this one, or in one that it waits for.
    if not isinstance(threading.current_thread(), _Thread):
        join(background.thread)
