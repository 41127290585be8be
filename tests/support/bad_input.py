"""Trying damaged files: what came out and how it ended, with a count of all that was tried."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strand import feeds
from strand.errors import ConfigurationError, FeedError
from strand.ticks import empty

#: A sanitized core takes several times as long, and keeps what is freed: it gets every eleventh input of a file. Eleven
#: steps of a bit come to each bit of a byte.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
STEP = 11 if SANITIZED else 1

#: Inputs tried in this run of the tests, by suite.
TRIED: Counter[str] = Counter()


@dataclass(frozen=True)
class Outcome:
    """The ticks a file gave, and the error behind them, if any. Anything but strand's own goes through as it is.

    Damage that makes another format of a file may bring up an option which that one cannot do without.
    """

    ticks: np.ndarray
    error: FeedError | ConfigurationError | None


def outcome(path: Path | str, suite: str, **options: Any) -> Outcome:
    TRIED[suite] += 1
    parts = [empty(0)]
    feed = None
    error = None
    try:
        feed = feeds.open(path, **options)
        parts.extend(batch.copy() for batch in feed.batches())
    except (FeedError, ConfigurationError) as raised:
        error = raised
    finally:
        if feed is not None:
            feed.close()
    return Outcome(np.concatenate(parts), error)


def write_anew(path: Path, data: bytes) -> Path:
    """A file of these bytes in the place of one there may be: to empty that one first, as opening it for writing does,
    takes ext4 much longer."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


def common_prefix(some: np.ndarray, others: np.ndarray) -> int:
    """Number of equal ticks at the start of two arrays."""
    length = min(len(some), len(others))
    one, other = (ticks[:length].copy().view(np.uint64).reshape(length, 8) for ticks in (some, others))
    differs = np.flatnonzero((one != other).any(axis=1))
    return int(differs[0]) if len(differs) else length
