"""``strand policy``: the workers and places to wait in that a load takes for a wait, and the load of a recorded file.

Waits are those of work for one of several workers: the queue M/M/c, by Erlang's formulas. Sources: A. K. Erlang,
"Solution of some problems in the theory of probabilities of significance in automatic telephone exchanges", 1917;
R. B. Cooper, "Introduction to Queueing Theory", 2nd ed., 1981, sections 3.3 and 3.4.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, Final

import click
import numpy as np
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape

from strand.binding.columns import count_by_symbol
from strand.command.parameters import Reads, SectionedCommand, complete_files, json_option, reading, show, source_of
from strand.command.run_options import handling
from strand.errors import ConfigurationError
from strand.feeds import Feed
from strand.fixed import dataclass
from strand.handlers import Handler, HandlerLike
from strand.replaying.replay import replay
from strand.report.quantities import duration
from strand.report.tables import numbers_table
from strand.spans import span_ns
from strand.validate import is_number, whole

#: As many workers as a dispatcher may have.
MAX_WORKERS: Final = 1024
#: Share of arrivals that may find a queue of a plan's capacity full.
OVERFLOW: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Target:
    """A wait that is to be kept: ``wait_ns`` is not passed by the share ``quantile`` of all arrivals, such as 0.99, or
    on average (None). Raises ConfigurationError for a quantile outside 0 to 1, and for a wait that is not above 0."""

    wait_ns: float
    quantile: float | None = None

    def __post_init__(self) -> None:
        if not is_number(self.wait_ns) or not 0 < self.wait_ns < math.inf:
            raise ConfigurationError("wait", f"{self.wait_ns!r} is not a number of ns above 0")
        if self.quantile is not None and (not is_number(self.quantile) or not 0 < self.quantile < 1):
            raise ConfigurationError(
                "wait", f"{self.quantile!r} is not a share between 0 and 1, such as 0.99: no bound holds for all waits"
            )


def blocking(load: float) -> Iterator[float]:
    """Erlang B for 0, 1, 2, ... workers: the share of arrivals that find all of them busy, where nobody waits.

    ``load``: rate times service time, above 0. B(0) = 1 and B(c) = load B(c-1) / (c + load B(c-1)). Every value is
    between 0 and 1. No power or factorial can overflow, unlike in the usual sum.
    """
    share = 1.0
    for workers in itertools.count(1):
        yield share
        share = load * share / (workers + load * share)


def _load(rate_per_s: float, service_ns: float) -> Fraction:
    """Rate times service time: so many workers are busy on average. Raises ConfigurationError."""
    for name, value in (("rate", rate_per_s), ("service", service_ns)):
        if not is_number(value) or not 0 < value < math.inf:
            raise ConfigurationError(name, f"{value!r} is not a number above 0")
    return Fraction(float(rate_per_s)) * Fraction(float(service_ns)) / 10**9


def least_workers(rate_per_s: float, service_ns: float) -> int:
    """The least number of workers that keep up: more than are busy on average. Raises ConfigurationError."""
    return math.floor(_load(rate_per_s, service_ns)) + 1


@dataclass(frozen=True, slots=True)
class Queue:
    """Arrivals at random (Poisson) at ``rate_per_s``, each served by one of ``workers``, for a time that is distributed
    exponentially around ``service_ns``; one queue, first in, first out, without a bound.

    Raises ConfigurationError for numbers that are not above 0, and for workers that cannot keep up; it names the least
    number that can.
    """

    rate_per_s: float
    service_ns: float
    workers: int

    def __post_init__(self) -> None:
        least = least_workers(self.rate_per_s, self.service_ns)
        whole("workers", self.workers, 1)
        if self.workers < least:
            raise ConfigurationError(
                "workers",
                f"{self.workers:,} cannot keep up with {self.rate_per_s:,.6g} ticks per second of "
                f"{self.service_ns:,.6g} ns each, which keep {self.load:,.4g} workers busy all the time: the "
                f"queue would grow without end; give at least {least:,}",
            )

    @property
    def load(self) -> float:
        """Workers that are busy on average."""
        return float(_load(self.rate_per_s, self.service_ns))

    @property
    def utilisation(self) -> float:
        """Utilisation of each worker: the share of its time that it is busy, from 0 to below 1."""
        return self.load / self.workers

    @property
    def wait_probability(self) -> float:
        """Erlang C: the share of arrivals that have to wait. C = c B / (c - load (1 - B)) for c workers, B by
        ``blocking``."""
        busy = next(itertools.islice(blocking(self.load), self.workers, None))
        return _waiting(busy, self.load, self._spare)

    @property
    def _spare(self) -> float:
        """Workers that are idle on average. Exact: near a utilisation of 1 the difference of two floats is noise."""
        return float(self.workers - _load(self.rate_per_s, self.service_ns))

    @property
    def mean_wait_ns(self) -> float:
        """Mean wait of all arrivals, those that do not wait among them: C / (workers / service - rate)."""
        return self.wait_probability * self.service_ns / self._spare

    def wait_ns(self, quantile: float) -> float:
        """The wait that a share of all arrivals does not pass: 0 where fewer than the others have to wait.

        P(W > t) = C exp(-(workers / service - rate) t), solved for t. Raises ConfigurationError for a quantile outside
        0 to 1.
        """
        Target(1, quantile)
        return _quantile_ns(self.wait_probability, self.service_ns / self._spare, quantile)

    def capacity(self) -> int:
        """Places to wait in, so that at most ``OVERFLOW`` of all arrivals find none: the least n with
        P(n or more wait) = C utilisation^n <= OVERFLOW, and at least 1. A queue that turns arrivals away is shorter
        than the one without a bound of which that is true, so it turns away fewer."""
        share = self.wait_probability
        if share <= OVERFLOW:
            return 1
        return max(1, math.ceil(math.log(OVERFLOW / share) / math.log1p(-self._spare / self.workers)))


def _waiting(busy: float, load: float, spare: float) -> float:
    """Erlang C from Erlang B, of ``load + spare`` workers."""
    return (load + spare) * busy / (spare + load * busy)


def _quantile_ns(share: float, relief_ns: float, quantile: float) -> float:
    """``relief_ns``: the mean wait of those that wait."""
    return max(0.0, math.log(share / (1 - quantile))) * relief_ns if share > 0 else 0.0


def workers_for(rate_per_s: float, service_ns: float, target: Target) -> int:
    """The least number of workers with which arrivals as in ``Queue`` keep the target. Raises ConfigurationError for
    numbers that are not above 0, and where more than ``MAX_WORKERS`` would be needed."""
    least = least_workers(rate_per_s, service_ns)
    exact = _load(rate_per_s, service_ns)
    load = float(exact)
    for workers, busy in zip(range(MAX_WORKERS + 1), blocking(load), strict=False):
        if workers < least:
            continue
        spare = float(workers - exact)
        share, relief_ns = _waiting(busy, load, spare), service_ns / spare
        if target.quantile is None:
            wait_ns = share * relief_ns
        else:
            wait_ns = _quantile_ns(share, relief_ns, target.quantile)
        if wait_ns <= target.wait_ns:
            return workers
    raise ConfigurationError(
        "wait",
        f"it takes more than {MAX_WORKERS:,} workers, the most that a dispatcher may have; the ticks keep "
        f"{load:,.4g} workers busy all the time",
    )


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


def measure_service(source: str | Sequence[str], handler: HandlerLike, **options: Any) -> float:
    """ns per tick that one worker is busy with a replay of files, taking ticks from their queues included.

    The options are those of ``strand.replay``, which says what is raised.
    """
    result = replay(source, handler, workers=1, publisher_drains=False, timeline=False, **options)
    workers = [worker for worker in result.statistics.workers if worker.core is not None or worker.name != "publishers"]
    busy_ns, handled = sum(w.busy_ns for w in workers), sum(w.handled for w in workers)
    service_ns = busy_ns / handled if handled else math.nan
    if not service_ns > 0:
        raise ConfigurationError("service", "it is undefined: the worker was busy with no tick; give --service")
    return service_ns


_WAIT: Final = re.compile(r"(mean|p(\d{1,2}(?:\.\d{1,6})?)) ?= ?(.+)")
#: Options that are not about a file.
_ALWAYS: Final = ("files", "rates", "service", "wait", "workers", "as_json")


@click.group("policy")
def policy() -> None:
    """Plan how to schedule a load."""


@policy.command(
    "plan",
    cls=SectionedCommand,
    sections={"Load": ("--from", "--rate", "--service"), "Target": ("--wait", "--workers")},
)
@click.option(
    "--rate",
    "rates",
    multiple=True,
    metavar="N|SYMBOL=N",
    help="Ticks per second, in total or per symbol. Repeatable with SYMBOL=N.",
)
@click.option("--service", metavar="SPAN", help="Average time to handle a tick, such as 800ns. [default: measured]")
@click.option(
    "--from",
    "files",
    multiple=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="Measure the load of a recorded file. Repeatable.",
)
@click.option(
    "--wait", required=True, metavar="pNN=SPAN|mean=SPAN", help="Longest acceptable wait, such as p99=5ms or mean=1ms."
)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Show the waits with N workers too.")
@handling
@reading
@json_option("a table")
def plan_(
    rates: tuple[str, ...], service: str | None, files: tuple[str, ...], wait: str, workers: int | None,
    handler: Handler, reads: Reads, as_json: bool,
) -> None:  # fmt: skip
    """Plan workers and the queue for a wait by Erlang C, and show the rule of thumb rate x time x 2.5 beside it.

    Give --rate and --service, or --from. With --from, Strand measures when the ticks of a file arrive, and replays them
    through --handler to measure how long one takes.
    """
    target = _target(wait)
    service_ns = None if service is None else span_ns("--service", service)
    load = _measured(files, rates, service_ns, handler, reads) if files else _given(rates, service_ns)
    found = plan(load, target, workers=workers)
    show(as_json, found.as_dict(), lambda console: _print(console, found))


def _target(text: str) -> Target:
    found = _WAIT.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError("--wait", f"{text!r} is neither like p99=5ms nor like mean=1ms")
    quantile = None if found[2] is None else float(found[2]) / 100
    return Target(span_ns("--wait", found[3]), quantile)


def _given(rates: tuple[str, ...], service_ns: int | None) -> Load:
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if name not in _ALWAYS and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[0]} is for --from")
    if not rates or service_ns is None:
        raise click.UsageError("give --rate and --service, or --from")
    by_symbol: dict[str, float] = {}
    for text in rates:
        symbol, equals, number = text.rpartition("=")
        if symbol in by_symbol:
            raise click.UsageError(f"--rate: {symbol or 'the total rate'} is given twice")
        if equals and not symbol:
            raise click.UsageError(f"--rate: {text!r} is neither N nor SYMBOL=N")
        try:
            by_symbol[symbol] = float(number)
        except ValueError:
            raise ConfigurationError("--rate", f"{number!r} is not a number of ticks per second") from None
    if "" in by_symbol:
        if len(by_symbol) > 1:
            raise click.UsageError("--rate: give the total rate, or the rate of each symbol")
        return Load(by_symbol[""], service_ns)
    return Load(sum(by_symbol.values()), service_ns, by_symbol)


def _measured(
    files: tuple[str, ...], rates: tuple[str, ...], service_ns: float | None, handler: Handler, reads: Reads
) -> Load:
    if rates:
        raise click.UsageError("--rate: --from measures the rate; leave out one of the two")
    if "-" in files and service_ns is None:
        raise click.UsageError("--from -: standard input cannot be read twice; give a file, or --service")
    arrivals = measure_arrivals(reads.open(files), limit=reads.limit)
    if service_ns is None:
        service_ns = measure_service(source_of(files), handler, **reads._asdict())
    return Load(arrivals.rate_per_s, service_ns, arrivals.by_symbol, arrivals.burstiness, not handler.is_native)


def _print(console: Console, found: Plan) -> None:
    load, target = found.load, found.target
    wanted = "a mean wait of" if target.quantile is None else f"{100 * target.quantile:g}% of the ticks wait"
    console.print(
        f"[bold]{load.rate_per_s:,.6g}[/] ticks per second of [bold]{duration(load.service_ns)}[/] each keep "
        f"{load.rate_per_s * load.service_ns / 1e9:,.4g} workers busy without a pause; target: {wanted} at most "
        f"{duration(target.wait_ns)}"
    )
    # A row a quantity: as a column each, they would not fit a terminal's width.
    table = numbers_table("", *(choice.name for choice in found.choices))
    rows: dict[str, Callable[[Choice], str]] = {
        "ticks per second": lambda choice: f"{choice.rate_per_s:,.6g}",
        "workers": lambda choice: f"{choice.workers:,}",
        "busy": lambda choice: f"{choice.utilisation:.1%}",
        "ticks that wait": lambda choice: f"{choice.wait_probability:.2%}",
        "mean wait": lambda choice: duration(choice.mean_wait_ns),
        f"p{100 * found.quantile:g} wait": lambda choice: duration(choice.quantile_ns),
        "queue capacity": lambda choice: f"{choice.queue_capacity:,}",
    }
    for name, told in rows.items():
        table.add_row(name, *map(told, found.choices))
    console.print(table)
    for symbol, rate in found.undrainable.items():
        console.print(
            f"[red]never drained:[/] {escape(symbol)} has {rate:,.6g} ticks per second, but one worker at a time "
            f"handles only {1e9 / load.service_ns:,.6g}",
            highlight=False,
        )
    for doubt in found.doubts:
        console.print(f"[yellow]caution:[/] {escape(doubt)}", highlight=False)
    for assumption in found.assumptions:
        console.print(f"assumed: {escape(assumption)}", highlight=False)
