"""A plan: the workers and places to wait in that a load takes for a wait, and the load of a recorded file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from strand.binding.columns import count_by_symbol
from strand.errors import ConfigurationError
from strand.feeds import Feed
from strand.feeds.reader_options import FeedOptions
from strand.handlers import HandlerLike
from strand.planning.erlang import OVERFLOW, Queue, Target, least_workers, workers_for
from strand.replaying.replay import replay
from strand.validate import is_number

__all__ = ["Arrivals", "Burstiness", "Choice", "Load", "Plan", "measure_arrivals", "measure_service", "plan"]

#: The rule of thumb: so many times the load.
_THUMB: Final = 2.5
#: Bounds of the spread of arrivals, above and below: beyond them a note says that they are not Poisson's.
_WIDE, _NARROW = 1.5, 0.67


@dataclass(frozen=True, slots=True)
class Burstiness:
    """Spread of arrivals. ``squared_variation``: the variance of the times between arrivals over the square of their
    mean, 1 for arrivals at random. None: undefined, as there are fewer than two such times. ``busiest_per_s``: arrivals
    in the busiest second."""

    squared_variation: float | None
    busiest_per_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """A load: ``rate_per_s`` ticks arrive per second, and each takes a worker ``service_ns`` ns on average.

    ``by_symbol``: rates per second; empty: not known. ``burstiness``: None: not known. ``holds_gil``: the handler runs
    in Python. Raises ConfigurationError for numbers that are not above 0.
    """

    rate_per_s: float
    service_ns: float
    by_symbol: Mapping[str, float] = field(default_factory=dict)
    burstiness: Burstiness | None = None
    holds_gil: bool = False

    def __post_init__(self) -> None:
        least_workers(self.rate_per_s, self.service_ns)
        for symbol, rate in self.by_symbol.items():
            if not is_number(rate) or not 0 < rate < math.inf:
                raise ConfigurationError("rate", f"{symbol}: {rate!r} is not a number above 0")


@dataclass(frozen=True, slots=True)
class Choice:
    """A number of workers, and how long ticks wait then. ``quantile_ns``: the wait that the target's share of ticks
    does not pass, or 99 % where the target is a mean. ``queue_capacity``: ticks that wait, in all."""

    name: str
    rate_per_s: float
    workers: int
    utilisation: float
    wait_probability: float
    mean_wait_ns: float
    quantile_ns: float
    queue_capacity: int

    @classmethod
    def of(cls, name: str, queue: Queue, quantile: float, capacity: int | None = None) -> Choice:
        """``capacity``: of the queue, where it is not what the formula says."""
        return cls(
            name,
            queue.rate_per_s,
            queue.workers,
            queue.utilisation,
            queue.wait_probability,
            queue.mean_wait_ns,
            queue.wait_ns(quantile),
            queue.capacity() if capacity is None else capacity,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan for a load. ``choices``: the one by Erlang C first. ``undrainable``: symbols that arrive faster than one
    worker serves them, with their rates per second. ``assumptions``: those of the formula. ``doubts``: assumptions that
    do not hold for this load."""

    load: Load
    target: Target
    quantile: float
    choices: tuple[Choice, ...]
    undrainable: Mapping[str, float]
    assumptions: tuple[str, ...]
    doubts: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; null: undefined, or not known."""
        burst = self.load.burstiness
        return {
            "rate_per_s": self.load.rate_per_s,
            "service_ns": self.load.service_ns,
            "load": self.load.rate_per_s * self.load.service_ns / 1e9,
            "target": {"wait_ns": self.target.wait_ns, "quantile": self.target.quantile},
            "quantile": self.quantile,
            "squared_variation": None if burst is None else burst.squared_variation,
            "busiest_per_s": None if burst is None else burst.busiest_per_s,
            "choices": [{name: getattr(choice, name) for name in Choice.__slots__} for choice in self.choices],
            "undrainable": dict(self.undrainable),
            "assumptions": list(self.assumptions),
            "doubts": list(self.doubts),
        }


def plan(load: Load, target: Target, *, workers: int | None = None) -> Plan:
    """The least workers that keep the target by Erlang C, beside the rule of thumb rate x time x 2.5 and ``workers``.

    Raises ConfigurationError where ``workers`` cannot keep up, naming the least number that can, and where more would
    be needed than a dispatcher may have.
    """
    rate, service_ns = load.rate_per_s, load.service_ns
    quantile = 0.99 if target.quantile is None else target.quantile

    def choice(name: str, number: int, capacity: int | None = None) -> Choice:
        return Choice.of(name, Queue(rate, service_ns, number), quantile, capacity)

    thumb = math.ceil(rate * service_ns / 1e9 * _THUMB)
    waiting = max(1, math.ceil(rate * target.wait_ns / 1e9 * _THUMB))
    choices = [choice("Erlang C", workers_for(rate, service_ns, target)), choice("rule of thumb", thumb, waiting)]
    if workers is not None:
        choices.append(choice("as given", workers))
    doubts = _doubts(load, choices[0].workers)
    if load.burstiness is not None and load.burstiness.busiest_per_s > rate:
        busiest = load.burstiness.busiest_per_s
        try:
            queue = Queue(busiest, service_ns, workers_for(busiest, service_ns, target))
            choices.insert(1, Choice.of("busiest second", queue, quantile))
        except ConfigurationError as error:
            doubts.append(f"no number of workers keeps the wait in the busiest second ({busiest:,.0f} ticks): {error}")
    undrainable = {symbol: r for symbol, r in load.by_symbol.items() if least_workers(r, service_ns) > 1}
    ranked = dict(sorted(undrainable.items(), key=lambda entry: -entry[1]))
    return Plan(load, target, quantile, tuple(choices), ranked, _assumptions(load), tuple(doubts))


def _assumptions(load: Load) -> tuple[str, ...]:
    hot = f"{1e9 / load.service_ns:,.6g} ticks per second"
    one_in = f"{round(1 / OVERFLOW):,}"
    return (
        "arrivals are independent of each other (Poisson)",
        "service times are exponentially distributed, and the same for all symbols",
        "any free worker takes the tick that waits longest: strands are independent",
        f"one worker at a time serves a symbol, to keep its ticks in order: a symbol above {hot} is never drained",
        f"nothing bounds the queue; one tick in {one_in} would find the queue capacity of all strands used up",
        f"rule of thumb: workers = rate x service x {_THUMB}, queue capacity = rate x wait x {_THUMB}",
    )


def _doubts(load: Load, workers: int) -> list[str]:
    found = []
    burst = load.burstiness
    if burst is None:
        found.append("the spread of arrivals is unknown (--from FILE measures it): bursts make waits longer")
    elif burst.squared_variation is None:
        found.append("the spread of arrivals is undefined: there are fewer than two times between arrivals")
    elif not _NARROW < burst.squared_variation < _WIDE:
        factor = (burst.squared_variation + 1) / 2
        found.append(
            f"arrivals are not Poisson: the times between them have a squared coefficient of variation of "
            f"{burst.squared_variation:,.3g} instead of 1, so mean waits are about {factor:,.3g} times as long (Allen "
            "and Cunneen), and longer when bursts follow each other"
        )
    if load.by_symbol and workers > len(load.by_symbol):
        found.append(f"only {len(load.by_symbol):,} symbols have ticks, so at most that many workers are ever busy")
    if load.by_symbol:
        symbol, rate = max(load.by_symbol.items(), key=lambda entry: entry[1])
        share = rate * load.service_ns / 1e9
        if 0.5 <= share < 1:
            found.append(
                f"{symbol} alone keeps one worker busy for {share:.0%} of its time: its ticks wait for each other, "
                "longer than for a free worker"
            )
    if load.holds_gil:
        found.append("the handler runs in Python: workers run it one at a time, so more of them serve no more ticks")
    return found


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
        raise ConfigurationError("service", "it is undefined: the worker was busy with no tick; give --service")
    return service_ns
