"""A generator that a thread runs, a little ahead of its user."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Final, TypeVar

from strand.background import BackgroundReader

__all__ = ["PrefetchedBatches", "may_prefetch"]

# One batch is made while another waits: a third would only take memory.
_AHEAD: Final = 2

T = TypeVar("T")


def may_prefetch() -> bool:
    """True if a core is free for one more such thread. Of many files that are read together, only the first ones get
    threads."""
    return len(os.sched_getaffinity(0)) > 1 + BackgroundReader.threads()


class PrefetchedBatches(Iterator[T]):
    """The items of a generator, none of them None. A thread runs and closes the generator, so that reading a file
    overlaps with handling its ticks. An error of the generator is raised after the items before it.

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
        """Stops the thread and waits until it has made its current batch."""
        self._closed = True
        self._background.close()
