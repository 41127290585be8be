"""What a feed is: batches of ticks, a symbol table and a word about where they came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

__all__ = ["Feed", "FeedInfo", "TickBatch"]

#: A one-dimensional array of ``strand.TICK`` records, in replay order, valid until the next batch is asked for.
TickBatch = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class FeedInfo:
    """What is known of a feed without reading all of it.

    ``format`` is a short name (``"itch50"``, ``"npy"``, ``"lean"``), ``path`` where it comes from, ``date`` the
    trading date as ``YYYY-MM-DD`` or None, ``details`` whatever else the format tells.
    """

    format: str
    path: str
    date: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class Feed(Protocol):
    """Anything that can be replayed.

    ``symbols`` may grow while batches are read (a directory message in mid-stream), and never beyond ``capacity``:
    every ``instrument_id`` in every batch is below ``capacity``. Iterating reads the feed from its start, each
    time anew. ``close`` may be called more than once, also in the middle of an iteration.
    """

    @property
    def info(self) -> FeedInfo: ...

    @property
    def symbols(self) -> Sequence[str]:
        """Names by ``instrument_id``; an empty string where an index has no name."""
        ...

    @property
    def capacity(self) -> int: ...

    def batches(self) -> Iterator[TickBatch]: ...

    def statistics(self) -> dict[str, int]:
        """Counts kept while reading: records read, ticks made, skipped by reason, bytes in and out."""
        ...

    def close(self) -> None: ...
