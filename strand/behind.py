"""Work on batches that a thread of its own does, some way behind whoever hands them over."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy.typing as npt

from strand.errors import EngineError
from strand.threads import Inside, join

__all__ = ["Behind"]

#: Bytes that may wait for the thread: a row group of a file takes long, and others are merged meanwhile.
MOST_BYTES: Final = 1 << 24

Batch = npt.NDArray[Any]


class Behind:
    """Calls ``work`` with each batch, in their order, in a thread on the cores ``allowed``. The first exception that it
    raises goes to ``failed``, in that thread; from then on batches are dropped.

    Begins with ``start``, and ends with ``close`` or ``drop``, after which nothing may be put.
    """

    def __init__(
        self,
        work: Callable[[Batch], None],
        failed: Callable[[Exception], None],
        name: str,
        allowed: Sequence[int],
        inside: Inside | None = None,
    ) -> None:
        self._inside = inside or Inside()
        self._work = work
        self._failed = failed
        self._waiting: deque[Batch] = deque()
        #: Of batches that wait, and of the one under way.
        self._bytes = 0
        self._ending = self._dropping = self._over = False
        # The lock is entered by itself: an interrupt in the condition's own way in would leave it locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._run, args=(allowed,), name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Hands a batch over, whose memory must stay as it is. Waits while too much waits already."""
        with self._lock:
            self._changed.wait_for(lambda: self._bytes < MOST_BYTES or self._over)
            if self._over:
                return
            self._waiting.append(batch)
            self._bytes += batch.nbytes
            self._changed.notify_all()

    def settle(self) -> None:
        """Waits until all that was put has been worked on, or dropped."""
        with self._lock:
            # Less than none where an interrupt came between putting a batch and counting it.
            self._changed.wait_for(lambda: self._bytes <= 0 or self._over)

    def close(self) -> None:
        """Ends the thread when it has worked on all that was put, and waits for that."""
        with self._lock:
            self._ending = True
            self._changed.notify_all()
        join(self._thread)

    def drop(self) -> None:
        """Ends the thread without what waits: at most the batch under way is waited for."""
        self._dropping = True
        self.close()

    def _run(self, allowed: Sequence[int]) -> None:
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            # Where the publisher is pinned, this thread would be so too. Those cores may have gone: then it is slower.
            with suppress(OSError):
                os.sched_setaffinity(0, allowed)
            while (batch := self._next()) is not None:
                self._work(batch)
                with self._lock:
                    self._bytes -= batch.nbytes
                    self._changed.notify_all()
        except Exception as error:
            self._failed(error)
        except BaseException as error:
            # What it had in hand is gone: nobody may take the work for done.
            failure = EngineError(f"the thread {self._thread.name!r} ended by {error!r}")
            failure.__cause__ = error
            self._failed(failure)
        finally:
            with self._lock:
                self._over = True
                self._waiting.clear()
                self._changed.notify_all()
            self._inside.threads.remove(me)

    def _next(self) -> Batch | None:
        with self._lock:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            return self._waiting.popleft() if self._waiting and not self._dropping else None
