"""The streams the scenarios route: who ticks how often, and when."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from strand import feeds
from strand.errors import FeedError
from strand.feeds.synthetic import route_stream, stream
from strand.ticks import named

Ticks = npt.NDArray[Any]


def numbered(ticks: Ticks) -> Ticks:
    """Sets ``sequence`` to each tick's place among its symbol's, from 1, in place; the spin handler checks it."""
    keys = ticks["instrument_id"]
    by_symbol = np.argsort(keys, kind="stable")
    counts = np.bincount(keys)
    starts = np.cumsum(counts) - counts
    places = np.empty(len(ticks), np.int64)
    places[by_symbol] = np.arange(1, len(ticks) + 1) - np.repeat(starts, counts)
    ticks = named(ticks)
    ticks["sequence"] = places
    return ticks


def recorded(path: str | os.PathLike[str], most: int) -> Ticks:
    """The first ticks of a file, at most so many. Raises FeedError, also where it has none, and ConfigurationError."""
    found, left = [], most
    with feeds.open(path) as feed:
        for batch in feed.batches():
            found.append(batch[:left].copy())
            left -= len(found[-1])
            if not left:
                break
    if left == most:
        raise FeedError(f"{os.fspath(path)}: it has no ticks")
    return np.concatenate(found)


def with_hot_symbol(count: int, symbols: int, share: float, seed: int = 1) -> Ticks:
    """The calibrated market, with ``share`` of all ticks given to its busiest symbol instead."""
    ticks = route_stream(count, symbols)
    busiest = int(np.bincount(ticks["instrument_id"]).argmax())
    ticks["instrument_id"][np.random.default_rng(seed).random(count) < share] = busiest
    return numbered(ticks)


def market_day(count: int, symbols: int, seed: int = 1) -> Ticks:
    """A generated day with its bursts in time and runs of one symbol; ``instrument_id`` is from 1 to ``symbols``."""
    return numbered(stream(count, symbols, seed=seed))


def all_at_once(ticks: Ticks) -> Ticks:
    """Makes every tick due at once, in place: what is measured then is capacity."""
    ticks["ts_recv"] = 0
    return ticks


def paced(ticks: Ticks, ticks_per_s: float) -> Ticks:
    """Spreads ticks evenly over time, in place."""
    ticks["ts_recv"] = (np.arange(len(ticks)) * (1e9 / ticks_per_s)).astype(np.uint64)
    return ticks


def squeezed(ticks: Ticks, times_ns: npt.NDArray[np.uint64], ticks_per_s: float) -> Ticks:
    """Gives ticks the times ``times_ns`` (never falling), squeezed to a mean rate, in place: bursts stay bursts."""
    elapsed = (times_ns - times_ns[0]).astype(np.float64)
    wanted_ns = len(ticks) / ticks_per_s * 1e9
    ticks["ts_recv"] = (elapsed * (wanted_ns / max(elapsed[-1], 1.0))).astype(np.uint64)
    return ticks
