"""Work that a thread does beside its user, with a bound on how far the two may be apart.

A ``Background`` is such a thread that works on items, and ``Rounds`` is one that does the same again and again. A
``BackgroundWriter`` hands batches to a ``Background``, and waits while too many bytes wait there. A
``BackgroundReader`` hands it empty buffers, and takes what the thread makes in them.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from _thread import allocate_lock
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy.typing as npt

from strand.binding.gate import Thread
from strand.errors import EngineError
from strand.threads import Bell, Inside

#: Bytes that may wait for a writer. Writing a row group of a file takes long, and more records are merged meanwhile.
MAXIMUM_BYTES: Final = 1 << 24

Batch = npt.NDArray[Any]
T = TypeVar("T")
Buffer = TypeVar("Buffer")


_here: Final = threading.local()


class _LastFirst(Generic[T]):
    """A queue whose last item comes first. The buffer that was put back last is in a cache, and those that the thread
    never needs are not touched."""

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


class _Beside:
    """A daemonic thread that works, and then calls ``ended`` with the exception that ended the work, or with None.

    The thread holds this object, and so all functions here. They must not hold a user whose garbage collection ends the
    thread. Without ``ended`` the exception is logged. ``allowed``: the cores that the thread runs on; None: those of
    the thread that makes it. ``inside``: marks it as a thread that may not wait for a dispatcher.
    """

    def __init__(
        self,
        ended: Callable[[BaseException | None], None] | None,
        name: str,
        allowed: Sequence[int] | None,
        inside: Inside | None,
    ) -> None:
        self._ended = ended
        self._allowed = allowed
        self._inside = inside or Inside()
        # Daemonic: an iteration that was not finished must not keep the interpreter from exiting.
        self.thread = Thread(self._run, name, once=True)

    def start(self) -> None:
        self.thread.start()

    def join(self) -> None:
        """Waits for the thread's end, unless this is the thread."""
        self.thread.join()

    def _run(self) -> None:
        me = threading.get_ident()
        error: BaseException | None = None
        _here.is_in_background = True
        try:
            self._inside.threads.append(me)
            if self._allowed is not None:
                # A thread inherits the cores of its maker, which may be pinned. If these cores are gone, it keeps them.
                with suppress(OSError):
                    os.sched_setaffinity(0, self._allowed)
            self._work_on()
        except BaseException as raised:  # of any kind: without it the user would wait for ever
            if self._ended is None:
                raise
            error = raised
        finally:
            try:
                if self._ended is not None:
                    self._ended(error)
            finally:
                error = None  # which holds this frame
                self._let_go()
                self._inside.threads.remove(me)

    def _let_go(self) -> None:
        """Drops the functions: most are methods of the user, which holds this object. Such a circle would keep all that
        the user has until the garbage collector comes by."""
        self._ended = None

    @abstractmethod
    def _work_on(self) -> None: ...


class Background(_Beside, Generic[T]):
    """Calls ``work`` with each item that is put, in their order, until ``work`` returns False or raises, or ``end``.

    See ``_Beside`` for the thread and its end. ``waiting``: the queue of its items, which several threads may share;
    None: one of its own.
    """

    def __init__(
        self,
        work: Callable[[T], bool],
        ended: Callable[[BaseException | None], None],
        name: str,
        *,
        waiting: queue.SimpleQueue[T | None] | _LastFirst[T] | None = None,
        allowed: Sequence[int] | None = None,
        inside: Inside | None = None,
    ) -> None:
        super().__init__(ended, name, allowed, inside)
        self._work = work
        self._waiting = queue.SimpleQueue() if waiting is None else waiting
        #: Hands an item over. It is a call of C, unless ``waiting`` has another ``put``.
        self.put: Callable[[T], None] = self._waiting.put
        #: True if the thread is to end before the items that wait.
        self.stopping = False

    def end(self, *, now: bool) -> None:
        """Ends the thread after all items that were put; ``now``: after the item under way."""
        self.stopping = self.stopping or now
        self._waiting.put(None)

    def _work_on(self) -> None:
        while (item := self._waiting.get()) is not None and not self.stopping:
            if not self._work(item):
                break
            del item  # or it would stay in memory while the thread waits for the next

    def discard(self) -> None:
        """Removes the items that wait. The thread has ended, and nothing is put any more."""
        while not self._waiting.empty():
            self._waiting.get()


class Rounds(_Beside):
    """Calls ``look`` again and again, and pauses before each call: ``pause_s`` seconds, and from then on as many as
    ``look`` returned. The thread ends when ``look`` returns None or raises, or with ``end``.

    ``look`` is given whether ``wake`` has cut the pause short. See ``_Beside`` for the thread and its end.
    """

    def __init__(
        self,
        look: Callable[[bool], float | None],
        pause_s: float,
        name: str,
        *,
        ended: Callable[[BaseException | None], None] | None = None,
        allowed: Sequence[int] | None = None,
        inside: Inside | None = None,
    ) -> None:
        super().__init__(ended, name, allowed, inside)
        self._look = look
        self._pause_s = pause_s
        self._is_ending = False
        # A pause is a wait for this lock, which is one call: an event's would be a dozen.
        self._pause = allocate_lock()
        self._pause.acquire()

    def wake(self) -> None:
        """Ends the pause, or the next one. It takes no lock: the garbage collector may call it anywhere."""
        with suppress(RuntimeError):  # it has been woken, and has not begun the next pause
            self._pause.release()

    def tell_to_end(self) -> None:
        """The thread ends after the call under way. Waits for nobody."""
        self._is_ending = True
        self.wake()

    def end(self) -> None:
        """Ends the thread, and waits for its end."""
        self.tell_to_end()
        self.join()

    def _work_on(self) -> None:
        pause_s: float | None = self._pause_s
        while pause_s is not None:
            is_woken = self._pause.acquire(timeout=pause_s)
            if self._is_ending:
                break
            pause_s = self._look(is_woken)

    def _let_go(self) -> None:
        super()._let_go()
        del self._look


class BackgroundWriter:
    """Calls ``write`` with each batch, in their order, in a thread on the cores ``allowed``.

    The first exception of ``write`` is passed to ``failed``, in that thread. From then on batches are dropped.
    ``start`` starts the thread, ``close`` or ``drop`` ends it. Nothing may be put after that.
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
        #: The size of the batches that wait and of the one under way.
        self._bytes = 0
        self._over = False
        self._bell = Bell()
        self._background = Background(self._work, self._ended, name, allowed=allowed, inside=inside)

    def start(self) -> None:
        self._background.start()

    @property
    def is_this_thread(self) -> bool:
        """True if the calling thread is the background thread."""
        return self._background.thread.is_here

    def put(self, batch: Batch) -> None:
        """Hands a batch over, whose memory must not be changed. Waits while ``MAXIMUM_BYTES`` or more wait."""
        self._bell.wait_for(lambda: self._bytes < MAXIMUM_BYTES or self._over)
        with self._bell:
            if self._over:
                return
            for _ in map(self._background.put, (batch,)):
                # No interrupt comes between the call and these lines.
                self._bytes += batch.nbytes
                break

    def settle(self) -> None:
        """Waits until all batches that were put have been written, or dropped."""
        self._bell.wait_for(lambda: not self._bytes or self._over)

    def close(self) -> None:
        """Ends the thread after all batches that were put, and waits for that."""
        self._background.end(now=False)
        self._background.join()

    def drop(self) -> None:
        """Ends the thread after the batch under way, and waits for that. Batches that wait are dropped."""
        self._background.end(now=True)
        self._background.join()

    def _work(self, batch: Batch) -> bool:
        self._write(batch)
        with self._bell:
            self._bytes -= batch.nbytes
        self._bell.ring()
        return True

    def _ended(self, error: BaseException | None) -> None:
        try:
            if isinstance(error, Exception):
                self._failed(error)
            elif error is not None:
                # The batch under way is lost: the work must not look complete.
                failure = EngineError(f"the thread {self._background.thread.name!r} ended by {error!r}")
                failure.__cause__ = error
                self._failed(failure)
        finally:
            with self._bell:
                self._over = True
            self._bell.ring()
            self._background.discard()


class BackgroundReader(Generic[Buffer, T]):
    """A thread calls ``make`` with each buffer, and ``get`` returns what it makes. The thread is ahead of ``get`` by as
    many items as there are ``buffers``.

    ``make`` returns None at the end. The thread calls ``close`` when it ends: after the last item, after an error,
    after ``close`` of this object, or after this object was garbage collected. ``interrupt`` ends a wait of ``make``,
    where it can. None of the three may hold this object. ``last_first``: the buffer given back last is used first.
    """

    _under_way: ClassVar[weakref.WeakSet[Background[Any]]] = weakref.WeakSet()

    def __init__(
        self,
        make: Callable[[Buffer], T | None],
        close: Callable[[], None],
        buffers: Iterable[Buffer],
        name: str,
        *,
        interrupt: Callable[[], None] | None = None,
        last_first: bool = False,
    ) -> None:
        # An item, an error, or None at the end. The number of buffers bounds it.
        made: queue.SimpleQueue[T | BaseException | None] = queue.SimpleQueue()

        def work(buffer: Buffer) -> bool:
            item = make(buffer)
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
        #: True once ``get`` has come to the end, or raised.
        self.is_over = False
        waiting: _LastFirst[Buffer] | None = _LastFirst() if last_first else None
        background: Background[Buffer] = Background(work, ended, name, waiting=waiting)
        self._background = background
        for buffer in buffers:
            background.put(buffer)
        self._under_way.add(background)  # before the start: what it runs may call ``threads``
        background.start()
        self._finalizer = weakref.finalize(self, _forget, background, interrupt)

    @classmethod
    def threads(cls) -> int:
        """The number of such threads that run."""
        return len(cls._under_way)

    @property
    def thread(self) -> Thread:
        return self._background.thread

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self._finalizer.alive

    @property
    def stopping(self) -> bool:
        """True if it was closed before its end."""
        return self._background.stopping

    def get(self) -> T | None:
        """The next item; None at the end, or after ``close``. Raises what ``make`` raised, in place of its item."""
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

    def give_back(self, buffer: Buffer) -> None:
        """The buffer may be used for another item."""
        self._background.put(buffer)

    def close(self) -> None:
        """Stops the thread, and waits for it: for the item under way at most."""
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
    # The garbage collector may run in such a thread: in this one, or in one that this one waits for.
    if not getattr(_here, "is_in_background", False):
        background.join()
