"""Everything a feed or a decoder gives, with the error that ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.errors import FeedError
from strand.feeds import Selection, TickBatch
from strand.ticks import FIELDS, empty, zeros

__all__ = ["assert_selected", "decode_in_pieces", "names_of", "read", "threads_that_read", "ticks_of"]

Array = npt.NDArray[Any]


def ticks_of(batches: Iterable[TickBatch]) -> Array:
    """All ticks of a feed, or of batches, each copied before the next one takes its place."""
    return np.concatenate([empty(0), *(batch.copy() for batch in batches)])


def read(batches: Iterable[TickBatch]) -> tuple[Array, FeedError | None]:
    """The same up to the error that ends them, and that error."""
    parts = [empty(0)]
    try:
        parts.extend(batch.copy() for batch in batches)
    except FeedError as error:
        return np.concatenate(parts), error
    return np.concatenate(parts), None


def names_of(feed: Any, ticks: Array) -> list[str]:
    """The name of each tick's symbol."""
    return [feed.symbols[i] for i in ticks["instrument_id"].tolist()]


def threads_that_read() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("strand read")]


def assert_selected(feed: Any, whole: Any, select: Selection) -> Array:
    """That a feed gives of ``whole`` what masking would, whatever the numbers of its symbols. Returns its ticks."""
    ticks, _ = read(whole)
    expected = ticks[select.mask(ticks, select.keys(whole.symbols))]
    chosen, error = read(feed)
    assert error is None
    assert names_of(feed, chosen) == names_of(whole, expected)
    for name in set(FIELDS) - {"instrument_id"}:
        np.testing.assert_array_equal(chosen[name], expected[name])
    return chosen


def decode_in_pieces(
    decoder: Any, data: bytes, *, chunk: int | None, capacity: int, max_left: int
) -> tuple[Array, FeedError | None]:
    """All of ``data``, given to a decoder ``chunk`` bytes at a time and taken ``capacity`` ticks at a time.

    The decoder may leave at most ``max_left`` bytes for want of more.
    """
    chunk = chunk or max(len(data), 1)
    out = zeros(capacity)
    parts = [out[:0]]
    begin, end = 0, min(chunk, len(data))
    while True:
        # A copy of its own size: a read beyond it is one beyond an allocation, which sanitizers see.
        window = memoryview(bytes(data[begin:end]))
        made, used, sound = decoder.decode(window, last=end == len(data), out=out)
        parts.append(out[:made].copy())
        begin += used
        if not sound:
            return np.concatenate(parts), decoder.fault("x")
        if made == capacity:
            continue
        if end == len(data):
            assert begin == end
            return np.concatenate(parts), None
        assert end - begin <= max_left
        end = min(end + chunk, len(data))
