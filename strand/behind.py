"""Work on batches that a thread of its own does, some way behind whoever hands them over."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy.typing as npt

from strand.threads import join

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
        self, work: Callable[[Batch], None], failed: Callable[[Exception], None], name: str, allowed: Sequence[int]
    ) -> None:
        self._work = work
        self._failed = failed
        self._waiting: deque[Batch] = deque()
        #: Of batches that wait, and of the one under way.
        self._bytes = 0
        self._ending = self._dropping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(allowed,), name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Hands a batch over, whose memory must stay as it is. Waits while too much waits already."""
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < MOST_BYTES)
            self._waiting.append(batch)
            self._bytes += batch.nbytes
            self._changed.notify_all()

    def settle(self) -> None:
        """Waits until all that was put has been worked on."""
        with self._changed:
            # Less than none where an interrupt came between putting a batch and counting it.
            self._changed.wait_for(lambda: self._bytes <= 0)

    def close(self) -> None:
        """Ends the thread when it has worked on all that was put, and waits for that."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        join(self._thread)

    def drop(self) -> None:
        """Ends the thread without what waits: at most the batch under way is waited for."""
        self._dropping = True
        self.close()

    def _run(self, allowed: Sequence[int]) -> None:
        # Where the publisher is pinned, this thread would be so too: slower, as where those cores have gone meanwhile.
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)
        while (batch := self._next()) is not None:
            if not self._dropping:
                try:
                    self._work(batch)
                except Exception as error:
                    self._dropping = True
                    self._failed(error)
            with self._changed:
                self._bytes -= batch.nbytes
                self._changed.notify_all()

    def _next(self) -> Batch | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            return self._waiting.popleft() if self._waiting else None
