"""The load that a recorded file is: when its ticks came, and how long a handler takes for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strand.binding.tick_counts import count_by_symbol
from strand.errors import ConfigurationError
from strand.feeds import Feed
from strand.feeds.reader_options import FeedOptions
from strand.handlers import HandlerLike
from strand.planning.plan import Burstiness
from strand.replaying.replay import replay

__all__ = ["Arrivals", "measure_arrivals", "measure_service"]

_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Arrivals:
    """``rate_per_s``: ticks over the time from the first to the last; ``by_symbol``: likewise."""

    ticks: int
    rate_per_s: float
    by_symbol: Mapping[str, float]
    burstiness: Burstiness


def measure_arrivals(feed: Feed, *, limit: int | None = None) -> Arrivals:
    """Measures the arrivals of a feed's ticks by their receive times. A time that runs back counts as the one before
    it.

    ``limit``: ticks to read. Closes the feed. Raises ConfigurationError where no time passes between two ticks, so that
    there is no rate, and the errors of the feed.
    """
    counts = np.zeros(feed.max_symbols, np.int64)
    by_second: dict[int, int] = {}
    total, first_ns, last_ns, squares = 0, 0, 0, 0.0
    try:
        for batch in feed.batches():
            ticks = batch if limit is None else batch[: limit - total]
            if len(ticks) == 0:
                continue
            count_by_symbol(ticks, counts)
            times = np.maximum.accumulate(ticks["ts_recv"].astype(np.int64))
            if total == 0:
                first_ns = last_ns = int(times[0])
            times = np.maximum(times, last_ns)
            gaps = np.diff(times, prepend=last_ns).astype(np.float64)
            squares += float(gaps @ gaps)
            seconds, numbers = np.unique((times - first_ns) // _SECOND, return_counts=True)
            for second, number in zip(seconds.tolist(), numbers.tolist(), strict=True):
                by_second[second] = by_second.get(second, 0) + number
            last_ns = int(times[-1])
            total += len(ticks)
            if total == limit:
                break
        names = list(feed.symbols)
    finally:
        feed.close()
    span_ns = last_ns - first_ns
    if span_ns == 0:
        raise ConfigurationError(f"{feed.info.path}: the rate is undefined: {total:,} ticks, and no time between them")
    gaps_seen = total - 1
    mean_ns = span_ns / gaps_seen
    variation = max(0.0, squares / gaps_seen / mean_ns**2 - 1) if gaps_seen > 1 else None
    per_second = _SECOND / span_ns
    rates = {_name(names, i): int(counts[i]) * per_second for i in np.flatnonzero(counts).tolist()}
    return Arrivals(total, gaps_seen * per_second, rates, Burstiness(variation, float(max(by_second.values()))))


def _name(names: Sequence[str], index: int) -> str:
    return names[index] if index < len(names) and names[index] else f"#{index}"


def measure_service(
    files: str | Sequence[str],
    handler: HandlerLike,
    *,
    symbols: Sequence[str] | None = None,
    start: str | None = None,
    end: str | None = None,
    limit: int | None = None,
    feed_options: FeedOptions | None = None,
) -> float:
    """ns per tick that one worker is busy with a replay of files, taking ticks from their queues included.

    The options are those of ``strand.replay``, which says what is raised.
    """
    result = replay(
        files,
        handler,
        symbols=symbols,
        start=start,
        end=end,
        limit=limit,
        feed_options=feed_options,
        workers=1,
        publisher_drains=False,
        timeline=False,
    )
    workers = [worker for worker in result.statistics.workers if worker.core is not None or worker.name != "publishers"]
    busy_ns, handled = sum(w.busy_ns for w in workers), sum(w.handled for w in workers)
    service_ns = busy_ns / handled if handled else math.nan
    if not service_ns > 0:
        raise ConfigurationError("service: it is undefined: the worker was busy with no tick; give --service")
    return service_ns
