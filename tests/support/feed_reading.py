"""All that a feed, or a decoder, makes of its input, and the error that it ends with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from strand.errors import FeedError
from strand.ticks import empty, zeros


def drain(batches: Iterable[np.ndarray]) -> tuple[np.ndarray, FeedError | None]:
    """The ticks of all batches, and the error behind them."""
    parts: list[np.ndarray] = [empty(0)]
    try:
        parts.extend(batch.copy() for batch in batches)
    except FeedError as error:
        return np.concatenate(parts), error
    return np.concatenate(parts), None


def read(feed: Any) -> tuple[np.ndarray, FeedError | None]:
    return drain(feed.batches())


def check_closed(feed: Any) -> None:
    """A feed that is closed in its midst, and once more, says so instead of ending early."""
    batches = feed.batches()
    next(batches)
    feed.close()
    feed.close()
    for more in (batches, feed.batches()):
        with pytest.raises(FeedError, match="closed"):
            next(more)


def names_of(feed: Any, ticks: np.ndarray) -> list[str]:
    return [feed.symbols[i] for i in ticks["instrument_id"].tolist()]


def decode_all(
    decoder: Any, data: bytes, *, chunk: int | None, capacity: int, max_left: int
) -> tuple[np.ndarray, FeedError | None]:
    """All of ``data``, given to the decoder ``chunk`` bytes at a time and taken ``capacity`` ticks at a time; it leaves
    at most ``max_left`` bytes for the next call."""
    chunk = chunk or max(len(data), 1)
    out = zeros(capacity)
    parts = [out[:0]]
    begin, end = 0, min(chunk, len(data))
    while True:
        # A copy of its own size: a read beyond it is one beyond an allocation, which sanitizers see.
        made, used, sound = decoder.decode(memoryview(bytes(data[begin:end])), last=end == len(data), out=out)
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
