"""What a generator makes, made by a thread of its own, a little ahead of whoever uses it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Final, TypeVar

from strand.background import BackgroundReader

__all__ = ["PrefetchedBatches", "may_prefetch"]

# One that is read while another waits: a third would only take memory.
_AHEAD: Final = 2

T = TypeVar("T")


def may_prefetch() -> bool:
    """Whether the calling thread has a core to leave to one more such thread: of many files that are read together the
    first ones have some."""
    return len(os.sched_getaffinity(0)) > 1 + BackgroundReader.threads()


class PrefetchedBatches(Iterator[T]):
    """The items of a generator, none of them None, which a thread runs, and closes: so that reading a file overlaps
    with what is done with it. An error of the generator's comes where it would have come.

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
        """Stops the thread and waits for it: at most for a batch."""
        self._closed = True
        self._background.close()
