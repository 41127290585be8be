"""A selection of an ITCH file's ticks, found by several threads, each in its own stripes of the file.

Passing over what is not wanted takes little more than reading it, so reading is what has to be shared out: each thread
reads and skims its stripes, in pieces that stay in its core's cache. Where a stripe's first frame begins is guessed;
the stripe is taken if the one before it ends exactly there, else decoded in turn (csrc/codec/itch/stripe.h).
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from typing import Final

from strand.background import Background
from strand.binding.itch import ItchDecoder
from strand.binding.itch_stripe import Outlook, Stripe, StripeDecoder
from strand.errors import FeedError
from strand.feeds.io.prefetch import Chunks
from strand.feeds.io.sources import RawStream

__all__ = ["StripedItch", "worth_striping"]

#: Bytes of a stripe: enough to make handing it over cheap, few enough to lose little when the decoder refuses it.
_STRIPE: Final = 4 << 20
#: Bytes read at once where the file is decoded in turn: the directory, and parts that no stripe covers.
_IN_TURN: Final = 1 << 19
#: Bytes read at once in a stripe.
_PIECE: Final = 1 << 17
_THREADS: Final = 4
#: Bytes of a file below which starting threads costs more than they save.
_MIN_BYTES: Final = 16 << 20
#: Once refused stripes outnumber adopted ones by so many, the rest of the file is decoded in turn.
_PATIENCE: Final = 8
_NOTHING: Final = memoryview(b"")
_CLOSED: Final = "the feed was closed while it was being read"


def worth_striping(size: int) -> bool:
    """True if stripes read a file of ``size`` bytes faster."""
    return size >= _MIN_BYTES


def thread_count() -> int:
    """Number of threads that look for ticks: one per core of this process, up to a bound."""
    return min(len(os.sched_getaffinity(0)), _THREADS)


class _Shared:
    """State that the threads share with their user. It has no reference to the user, so that the user can be
    collected."""

    def __init__(self, file: RawStream, begin: int, outlook: Outlook, threads: int) -> None:
        self.file = file
        self.begin = begin
        self.outlook = outlook
        self.stripes = [Stripe(_STRIPE) for _ in range(2 * threads)]
        # Numbers of stripes to make, in the order of the file, as far as there is room; None: the thread ends.
        self.wanted: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        # One queue per stripe with at most one entry: None once the stripe is made, or the error that making it raised.
        self.made: list[queue.SimpleQueue[BaseException | None]] = [queue.SimpleQueue() for _ in self.stripes]
        self.working_ns = [0] * threads
        # Held by the user while it makes one itself: a descriptor closed meanwhile may be reused.
        self.lock = threading.Lock()
        self.stop = False
        for number in range(len(self.stripes)):
            self.want(number)

    def want(self, number: int) -> None:
        if self.start(number) < self.file.size:
            self.wanted.put(number)

    def start(self, number: int) -> int:
        return self.begin + number * _STRIPE

    def make(self, number: int, decoder: StripeDecoder, who: int) -> None:
        begun = time.perf_counter_ns()
        which = number % len(self.stripes)
        start = self.start(number)
        try:
            decoder.take(
                self.file.fileno(), start, start + _STRIPE, self.outlook, self.stripes[which], exact=number == 0
            )
        except BaseException as error:  # the user gets every error: without one it would wait for ever
            self.made[which].put(error)
            raise
        self.working_ns[who] += time.perf_counter_ns() - begun
        self.made[which].put(None)


def _started(shared: _Shared, who: int) -> Background[int]:
    decoder = StripeDecoder(_PIECE)

    def work(number: int) -> bool:
        shared.make(number, decoder, who)
        return not shared.stop

    def ended(error: BaseException | None) -> None:
        """``make`` has passed the error to the user."""

    thread = Background(work, ended, f"strand read {who}", waiting=shared.wanted)
    thread.start()
    return thread


def _stop(shared: _Shared, threads: list[Background[int]]) -> None:
    with shared.lock:
        shared.stop = True
    for thread in threads:
        thread.end(now=True)
    for thread in threads:
        thread.join()
    for made in shared.made:
        made.put(FeedError(_CLOSED))


class _Stripes:
    """Stripes in the order of the file, from byte ``begin`` on.

    The user's thread and ``threads - 1`` others make them. The others end with ``close``, or when this object is
    collected.
    """

    def __init__(self, file: RawStream, begin: int, outlook: Outlook, threads: int) -> None:
        self._shared = shared = _Shared(file, begin, outlook, threads)
        self._decoder = StripeDecoder(_PIECE)
        self._number = 0
        self._here = False
        running = [_started(shared, i) for i in range(1, threads)]
        self._finalizer = weakref.finalize(self, _stop, shared, running)

    @property
    def outlook(self) -> Outlook:
        """The state with which stripes begun from now on are decoded."""
        return self._shared.outlook

    @outlook.setter
    def outlook(self, outlook: Outlook) -> None:
        self._shared.outlook = outlook

    @property
    def working_ns(self) -> int:
        return sum(self._shared.working_ns)

    def first(self) -> Stripe | None:
        """The next stripe in the order of the file; None: there are no more."""
        shared = self._shared
        if shared.start(self._number) >= shared.file.size:
            return None
        which = self._number % len(shared.stripes)
        while not self._here:
            if shared.made[which].empty() and self._make_one():
                continue
            error = shared.made[which].get()
            if error is not None:
                shared.made[which].put(error)  # for whoever asks again
                raise error
            self._here = True
        return shared.stripes[which]

    def _make_one(self) -> bool:
        """Makes a stripe in the user's thread, which would else wait. Returns whether there was one to make."""
        shared = self._shared
        with shared.lock:
            if shared.stop:
                raise FeedError(_CLOSED)
            try:
                number = shared.wanted.get_nowait()
            except queue.Empty:
                return False
            assert number is not None
            shared.make(number, self._decoder, 0)
        return True

    def drop(self) -> None:
        """Gives up the next stripe, so that its room can be used again."""
        self._here = False
        self._shared.want(self._number + len(self._shared.stripes))
        self._number += 1

    def close(self) -> None:
        self._finalizer()


class StripedItch(Chunks):
    """``Chunks`` of a file for the decoder of a selection. Between chunks the decoder adopts stripes.

    Where the decoder adopted one, ``next`` returns no bytes, and the caller need not keep the ``carry`` that it gave.
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
            size = self._adopt()
            if size == 0:
                return _NOTHING
            self._file.stand_at(self._read_to)
            in_turn = time.perf_counter_ns()
            data = self._read(carry, size)
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
        """Starts the stripes once the directory, at the file's start, has been read. Returns whether there are
        stripes."""
        named, self._named = self._named, self._decoder.named_locates
        if named != self._named or not self._decoder.in_step:
            return False
        with self._lock:
            if self._closed:
                raise FeedError(_CLOSED)
            # The stripes start at the decoder's offset: bytes that it has not used yet are read again.
            self._stripes = _Stripes(self._file, self._decoder.offset, Outlook(self._decoder), thread_count())
        return True

    def close(self) -> None:
        """Stops the threads, waits for them, and closes the file. May be called again."""
        with self._lock:
            self._closed = True
            if self._stripes is not None:
                self._stripes.close()
            self._file.close()
