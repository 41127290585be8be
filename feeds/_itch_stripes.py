"""A selection of an ITCH file's ticks, found by several threads, each in its own stripes of the file.

Passing over what is not wanted takes little more than reading it, so reading is what has to be shared out: each thread
reads and skims its stripes, in pieces that stay in its core's cache. Where a stripe's first frame begins is guessed;
the stripe is taken if the one before it ends exactly there, else decoded in turn (csrc/decode/itch_stripe.h).
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from typing import Final, Protocol

from strand._bindings.itch import ItchDecoder
from strand._bindings.itch_stripe import Outlook, Stripe, StripeDecoder
from strand.errors import FeedError
from strand.feeds.read_ahead import Chunks
from strand.feeds.sources import RawStream

__all__ = ["StripedItch", "worth_striping"]

#: Long enough that handing it over costs little, short enough that little is lost where it is refused.
_STRIPE: Final = 4 << 20
#: Bytes decoded in turn at once: the directory, and what no stripe had.
_IN_TURN: Final = 1 << 19
#: Bytes read at once in a stripe.
_PIECE: Final = 1 << 17
_THREADS: Final = 4
#: Below, starting threads costs more than they save.
_MIN_BYTES: Final = 16 << 20
#: With so many stripes more refused than taken, the file is decoded in turn to its end.
_PATIENCE: Final = 8
_NOTHING: Final = memoryview(b"")
_CLOSED: Final = "the feed was closed while it was being read"


def worth_striping(size: int) -> bool:
    """Whether a file of so many bytes is read faster so."""
    return size >= _MIN_BYTES


def thread_count() -> int:
    """How many are to look for ticks, on the cores that there are for this process."""
    return min(len(os.sched_getaffinity(0)), _THREADS)


class _Stripes(Protocol):
    """Stripes in the order of the file. ``outlook`` is what those begun from now on are decoded with."""

    outlook: Outlook

    def first(self) -> Stripe | None:
        """The one in front; None: decode in turn."""

    def drop(self) -> None:
        """The one in front is done with: its room may be used again."""

    @property
    def working_ns(self) -> int: ...

    def close(self) -> None: ...


class _Alone:
    """Made by the caller, each where the one before it ended: with one core there is nothing to guess."""

    def __init__(self, file: RawStream, follows: ItchDecoder) -> None:
        self.outlook = Outlook(follows)
        self.working_ns = 0
        self._file = file
        self._follows = follows
        self._decoder = StripeDecoder(_PIECE)
        self._stripe = Stripe(_STRIPE)
        self._tried = -1
        # A close from another thread waits for the read under way: a descriptor closed under it may be reused.
        self._lock = threading.Lock()
        self._closed = False

    def first(self) -> Stripe | None:
        at = self._follows.offset
        if at == self._tried:
            return None
        begun = time.perf_counter_ns()
        with self._lock:
            if self._closed:
                raise FeedError(_CLOSED)
            self._decoder.take(self._file.fileno(), at, at + _STRIPE, self.outlook, self._stripe, exact=True)
        self._tried = at
        self.working_ns += time.perf_counter_ns() - begun
        return self._stripe

    def drop(self) -> None:
        """There is one, which the next one replaces."""

    def close(self) -> None:
        with self._lock:
            self._closed = True


class _Shared:
    """What the threads and their user have in common; holds no reference to the user, who may be forgotten."""

    def __init__(self, file: RawStream, begin: int, outlook: Outlook, threads: int) -> None:
        self.file = file
        self.begin = begin
        self.outlook = outlook
        self.threads = threads
        self.stripes = [Stripe(_STRIPE) for _ in range(2 * threads)]
        self.free: list[queue.SimpleQueue[bool]] = [queue.SimpleQueue() for _ in self.stripes]
        # None: it is made; else what no one foresaw. At most one in each at a time.
        self.made: list[queue.SimpleQueue[BaseException | None]] = [queue.SimpleQueue() for _ in self.stripes]
        self.working_ns = [0] * threads
        self.stop = False


def _run(shared: _Shared, mine: int) -> None:
    number = mine
    try:
        decoder = StripeDecoder(_PIECE)
        while shared.free[number % len(shared.stripes)].get() and not shared.stop:
            begun = time.perf_counter_ns()
            start = shared.begin + number * _STRIPE
            stripe = shared.stripes[number % len(shared.stripes)]
            decoder.take(shared.file.fileno(), start, start + _STRIPE, shared.outlook, stripe, exact=False)
            shared.working_ns[mine] += time.perf_counter_ns() - begun
            shared.made[number % len(shared.stripes)].put(None)
            number += shared.threads
        ended: BaseException = FeedError(_CLOSED)
    except BaseException as error:  # whatever it is, it belongs to the user, who would wait for ever
        ended = error
    shared.made[number % len(shared.stripes)].put(ended)


def _stop(shared: _Shared, threads: list[threading.Thread]) -> None:
    shared.stop = True
    for free in shared.free:
        free.put(False)
    for thread in threads:
        # The garbage collector may have found the user in such a thread itself.
        if thread is not threading.current_thread():
            thread.join()


class _Threaded:
    """Made by threads, from byte ``begin`` on. They end with ``close``, or when this object is forgotten."""

    def __init__(self, file: RawStream, begin: int, outlook: Outlook, threads: int) -> None:
        self._shared = shared = _Shared(file, begin, outlook, threads)
        self._number = 0
        self._here = False
        for free in shared.free:
            free.put(True)
        # Daemonic: an iteration nobody finished must not keep the interpreter from leaving.
        running = [
            threading.Thread(target=_run, args=(shared, i), name=f"strand read {i}", daemon=True)
            for i in range(threads)
        ]
        for thread in running:
            thread.start()
        self._finalizer = weakref.finalize(self, _stop, shared, running)

    @property
    def outlook(self) -> Outlook:
        return self._shared.outlook

    @outlook.setter
    def outlook(self, outlook: Outlook) -> None:
        self._shared.outlook = outlook

    @property
    def working_ns(self) -> int:
        return sum(self._shared.working_ns)

    def first(self) -> Stripe | None:
        shared = self._shared
        if shared.begin + self._number * _STRIPE >= shared.file.size:
            return None
        which = self._number % len(shared.stripes)
        if not self._here:
            error = shared.made[which].get()
            if error is not None:
                shared.made[which].put(error)  # for whoever asks again
                raise error
            self._here = True
        return shared.stripes[which]

    def drop(self) -> None:
        self._here = False
        self._shared.free[self._number % len(self._shared.stripes)].put(True)
        self._number += 1

    def close(self) -> None:
        self._finalizer()


class StripedItch(Chunks):
    """``Chunks`` of a file for the decoder of a selection, which adopts stripes of it in between.

    Where ``next`` has made the decoder do so, it returns no bytes, and those it was given need not be kept.
    """

    def __init__(self, file: RawStream, decoder: ItchDecoder, *, headroom: int) -> None:
        super().__init__(file, chunk_bytes=_IN_TURN, headroom=headroom)
        self._file = file
        self._decoder = decoder
        self._read_to = 0
        self._stripes: _Stripes | None = None
        self._named = -1
        self._patience = _PATIENCE
        self._drop_first = False
        self._in_turn_ns = 0

    def next(self, carry: memoryview) -> memoryview | None:
        """See ``Chunks.next``. Raises FeedError too when closed by another thread meanwhile."""
        begun = time.perf_counter_ns()
        try:
            wish = self._adopt()
            if wish == 0:
                return _NOTHING
            self._file.stand_at(self._read_to)
            in_turn = time.perf_counter_ns()
            data = self._read(carry, wish)
            self._in_turn_ns += time.perf_counter_ns() - in_turn
            self._read_to = self._file.bytes_out
            return data
        finally:
            self.reading_ns = self._in_turn_ns + (self._stripes.working_ns if self._stripes is not None else 0)
            self.waiting_ns += time.perf_counter_ns() - begun

    def _adopt(self) -> int:
        """Lets the decoder adopt a stripe. Returns 0 if it has, else how much is to be read in turn."""
        if self._stripes is None and not self._begin():
            return _IN_TURN
        stripes, decoder = self._stripes, self._decoder
        assert stripes is not None
        if self._drop_first:
            self._drop_first = False
            stripes.drop()
        if not stripes.outlook.holds(decoder):
            stripes.outlook = Outlook(decoder)
        while self._patience >= 0 and (stripe := stripes.first()) is not None:
            if stripe.outlook is stripes.outlook and stripe.begin is not None:
                if stripe.end > decoder.offset and decoder.adopt(stripe.state, stripe.ticks):
                    self._read_to = stripe.end
                    self._file.stand_at(stripe.end)
                    self._patience += 1
                    self._drop_first = True
                    return 0
                if stripe.begin > self._read_to:
                    return min(stripe.begin - self._read_to, _IN_TURN)
            stripes.drop()
            self._patience -= 1
        return _IN_TURN

    def _begin(self) -> bool:
        """Whether there are stripes now: not before the directory, which stands at the start, has been read."""
        named, self._named = self._named, self._decoder.named_locates
        if named != self._named or not self._decoder.in_step:
            return False
        threads = thread_count()
        with self._lock:
            if self._closed:
                raise FeedError(_CLOSED)
            if threads > 1:
                self._stripes = _Threaded(self._file, self._read_to, Outlook(self._decoder), threads)
            else:
                self._stripes = _Alone(self._file, self._decoder)
        return True

    def close(self) -> None:
        """Stops the threads, waits for them, and closes the file. May be called again."""
        with self._lock:
            self._closed = True
            if self._stripes is not None:
                self._stripes.close()
            self._file.close()
