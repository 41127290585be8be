"""Statistics of a dispatcher: frozen numbers, read without stopping it."""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from strand.brief import brief, listed, several
from strand.dicts import FrozenDict
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.validate import is_number, one_of, shown

PERCENTILES = (50.0, 90.0, 99.0, 99.9)

#: With fewer ends in a span there is no rate of success.
LEAST_ENDS: Final = 20
#: The ends that a tick at a level, and a task, may have.
TICK_ENDS: Final = ("handled", "failed")
TASK_ENDS: Final = ("done", "failed", "cancelled", "expired", "dropped", "dead")


def _fixed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, repr=False)
class Latency:
    """A latency distribution in ns, known to one part in sixteen; counted once per tick, or once per task.

    Attributes:
        count: How many were counted.
        percentiles: ns by percentile: 50, 90, 99 and 99.9. None is below ``resolution_ns``.
        maximum_ns: The upper edge of the highest bucket hit, in ns; not below ``resolution_ns``.
        counts: Ticks (or tasks) per bucket, shape (n_buckets,), u8; empty if the distribution was not made from a
            histogram.
        floors_ns: The buckets' lower edges in ns, shape (n_buckets,), f8; likewise empty.
        resolution_ns: What the clock resolves, in ns.
    """

    count: int
    percentiles: Mapping[float, float]
    maximum_ns: float
    counts: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64), compare=False, repr=False)
    floors_ns: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0), compare=False, repr=False)
    resolution_ns: float = 0.0

    def __repr__(self) -> str:
        percentiles = (f"p{p:g} {ns:,.0f} ns" for p, ns in self.percentiles.items())
        return brief(self, f"{self.count:,} counted", *percentiles, f"maximum {self.maximum_ns:,.0f} ns")

    @classmethod
    def from_histogram(
        cls, counts: npt.NDArray[np.uint64], floors_ns: npt.NDArray[np.float64], resolution_ns: float = 0.0
    ) -> Latency:
        """Makes a distribution from bucket counts and the buckets' lower edges in ns, both shape (n_buckets,).

        A percentile is its bucket's upper edge.
        """
        found = cls(int(counts.sum()), {}, 0.0, _fixed(counts.view()), _fixed(floors_ns.view()), resolution_ns)
        values = FrozenDict({p: found.percentile(p) or 0.0 for p in PERCENTILES})
        return replace(found, percentiles=values, maximum_ns=found.percentile(100) or 0.0)

    def percentile(self, p: float) -> float | None:
        """Returns a percentile in ns, of a latency that was made from a histogram: its bucket's upper edge.

        Args:
            p: The percentile, above 0 and at most 100.

        Returns:
            None if nothing was counted.

        Raises:
            ValueError: If ``p`` is not above 0 and at most 100.
        """
        if not 0 < p <= 100:
            raise ValueError(f"p: {p!r} is not above 0 and at most 100")
        if not self.counts.any():
            return None
        edges = np.append(self.floors_ns[1:], self.floors_ns[-1] * 2)
        return max(float(edges[_bucket(np.cumsum(self.counts), p)]), self.resolution_ns)


def _bucket(running: npt.NDArray[np.uint64], p: float) -> int:
    """The bucket in which the p-th percentile of the ticks is; ``running``: ticks up to each bucket's end."""
    return int(np.searchsorted(running, max(1, np.ceil(int(running[-1]) * p / 100))))


def percentiles_of(found: Latency) -> dict[str, float | None]:
    """Number of latencies, and their percentiles in ns; None where there are none."""
    numbers = {f"p{p:g}_ns": ns for p, ns in found.percentiles.items()} | {"maximum_ns": found.maximum_ns}
    return {"count": found.count} | {name: ns if found.count else None for name, ns in numbers.items()}


@dataclass(frozen=True, slots=True, repr=False)
class GuardStatistics:
    """Decisions of the guard for one resource.

    Attributes:
        source: Where the resource is measured, or why it is not.
        holding: Whether strands are held back for it now.
        begun: How often a hold began.
        expired: How often a hold ended because ``max_hold`` was over.
        held_ns: How long strands were held back in all, up to now, in ns.
        reading: What was measured last: a share from 0 to 1; of I/O without the kernel's PSI, requests in flight. None:
            nothing was yet, or the resource is not watched.
    """

    source: str
    holding: bool
    begun: int
    expired: int
    held_ns: int
    reading: float | None = None

    def __repr__(self) -> str:
        now = "holding" if self.holding else "not holding"
        return brief(self, now, f"{self.begun:,} begun", f"{self.expired:,} expired", f"held {self.held_ns:,} ns")


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Counters of ``Fair`` for one group.

    A checkpoint reads the thread's clock, at most every 100 us; the time for that is charged to its task. Of a
    coroutine, ``on_cpu_ns`` has each step, from one await to the next, until the task ends. The steps of asyncio tasks
    that it starts are included. The work of asyncio between steps is not included, nor are other threads.

    Attributes:
        on_cpu_ns: The on-CPU time that was charged to it, in ns.
        share: Its share of what was charged to all groups, 0 to 1; 0 if nothing was.
        slice_ends: How often it used up its slice and had to wait its turn.
        long_stretches: Visits and tasks that took more on-CPU time than the group's slice without a pause. For a task
            this is from one checkpoint to the next, for a coroutine from one await to the next. They are counted when
            they are over.
        longest_stretch_ns: The longest of these, in ns; None if there was none.
    """

    on_cpu_ns: int
    share: float
    slice_ends: int
    long_stretches: int
    longest_stretch_ns: int | None


@dataclass(frozen=True, slots=True, repr=False)
class LongStretch:
    """Visits to one strand that took more on-CPU time than the slice of their group.

    Attributes:
        symbols: The strand's symbols.
        visits: How many such visits there were.
        longest_ns: The longest of them, in ns.
    """

    symbols: tuple[str, ...]
    visits: int
    longest_ns: int

    def __repr__(self) -> str:
        return brief(self, listed(self.symbols), several(self.visits, "visit"), f"longest {self.longest_ns:,} ns")


@dataclass(frozen=True, slots=True, repr=False)
class FairStatistics:
    """Counters of ``Fair``.

    Attributes:
        groups: The counts of each group, by name.
        cap_holds: How often the pool was held because its on-CPU time was used up; None without a cap.
        long_stretches: The long stretches of all groups.
        longest: The strands with the longest stretches, at most 16, the longest first. Long stretches of tasks are only
            found by group.
    """

    groups: Mapping[str, GroupStatistics]
    cap_holds: int | None
    long_stretches: int
    longest: tuple[LongStretch, ...]

    def __repr__(self) -> str:
        groups = f"{several(len(self.groups), 'group')} ({listed(self.groups)})"
        return brief(self, groups, f"{self.long_stretches:,} long stretches")


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """Counters of one worker, or of the publishers together.

    Attributes:
        name: The worker's name; ``"publishers"`` for the publishers.
        core: The core that it is pinned to; None if it is not, and for the publishers.
        handled: How many ticks it handled.
        busy_ns: Time in visits and tasks, in ns. It grows when a visit ends, and when a task ends or gives its worker
            back.
        visits: How often it drained a strand.
        stolen: How many strands it took from another worker's list.
        parks: How often it went to sleep.
    """

    name: str
    core: int | None
    handled: int
    busy_ns: int
    visits: int
    stolen: int
    parks: int


@dataclass(frozen=True, slots=True)
class ActiveStatistics:
    """Number of active workers, between the least and the most that may be active.

    Attributes:
        now: Workers that are active now.
        least: The fewest that may be active.
        most: The most that may be active.
        more: How often one was added.
        fewer: How often one was taken away.
    """

    now: int
    least: int
    most: int
    more: int
    fewer: int


@dataclass(frozen=True, slots=True)
class OverloadStatistics:
    """The longest time in which more and more ticks waited (docs/overload.md).

    Attributes:
        seconds: How long it was, in seconds.
        accepted: Ticks that came in that time.
        handled: Ticks that were handled or dropped in that time.
        pending: Ticks that waited at its end.
    """

    seconds: float
    accepted: int
    handled: int
    pending: int

    @property
    def wait_s(self) -> float:
        """Time needed to handle the ticks that waited at the end, at the speed of handling so far, in seconds."""
        return self.pending * self.seconds / self.handled if self.handled > 0 else float("inf")

    @property
    def said(self) -> str:
        """Text of these figures."""
        came, left = self.accepted / self.seconds, self.handled / self.seconds
        after = f"{self.wait_s:,.1f} s of work" if self.handled > 0 else "and none was handled"
        return (
            f"for {self.seconds:,.1f} s {came:,.0f} ticks per second came and {left:,.0f} were handled, until "
            f"{self.pending:,} waited: {after}"
        )

    @property
    def cure(self) -> str:
        """Advice against the overload."""
        return (
            "give total_capacity_ticks, as nothing bounds the wait without it; or use more workers, or a cheaper "
            "handler"
        )


@dataclass(frozen=True, slots=True)
class IngestStatistics:
    """The way that ticks took, and its cost (docs/blocks.md). None stands for what was not measured.

    Attributes:
        way: The way of more than half of the ticks: ``"blocks"``, or ``"ungrouped"``, which is a publisher that owns
            all strands and handles long calls in their order; else ``"publish"``. ``"loop"`` for a plain loop.
        asked: ``ingest=`` as it was given.
        why: The reason for the way.
        impossible: The reason for which no tick can go in blocks; None where they can.
        publish_ns: Cost per tick without blocks, in ns of the publishing thread, as measured last. None: not measured.
        blocks_ns: The same in blocks; with ``ingest="blocks"`` that of all runs.
        handled_ungrouped: Ticks that went ungrouped. ``handled_inline`` counts them too.
        runs: Runs of blocks.
        blocks: Blocks that were handled.
        slots: Slots of the window in the last run. None before the first run, and so are the next three.
        slots_used: Slots in use when a block was adopted last; 0 between two runs.
        homes: Groups of strands in the last run.
        lag_blocks: Blocks by which the slowest home was behind the last adopted block, when that was adopted; 0 between
            two runs.
        shares: Shares of the threads' time in runs of blocks, 0 to 1: ``reading`` the file, ``listing`` (making lists,
            with the messages' frames), ``handling``, ``waiting`` (the rest). Empty before the first run.
        busiest_home: Share of the runs' time in which the busiest home of each was being handled, 0 to 1.
        bound: What held blocks back most: ``"busiest home"`` if that was being handled for at least 0.9 of the time, as
            one thread at a time handles a home; else the greatest of ``shares``. None unless most ticks went in blocks.
    """

    way: str
    asked: str
    why: str
    impossible: str | None = None
    publish_ns: float | None = None
    blocks_ns: float | None = None
    handled_ungrouped: int = 0
    runs: int = 0
    blocks: int = 0
    slots: int | None = None
    slots_used: int | None = None
    homes: int | None = None
    lag_blocks: int | None = None
    shares: Mapping[str, float] = field(default_factory=FrozenDict)
    busiest_home: float | None = None

    @property
    def bound(self) -> str | None:
        """See above."""
        if self.way != "blocks" or not self.shares or self.busiest_home is None:
            return None
        return "busiest home" if self.busiest_home >= _SERIAL else max(self.shares, key=lambda name: self.shares[name])

    @property
    def said(self) -> str:
        """Text of the way, its reason and its bound."""
        costs = [f"{found:.3g} ns a tick {how}" for found, how in (
            (self.publish_ns, "published"), (self.blocks_ns, "in blocks")) if found is not None]  # fmt: skip
        measured = f" ({', '.join(costs)})" if costs else ""
        bound = "" if self.bound is None else f"; bound of blocks: {self.bound}"
        return f"{self.way}: {self.why}{measured}{bound}"

    @property
    def window(self) -> str:
        """Text of blocks, slots, homes and lag; empty before the first run."""
        if self.slots is None:
            return ""
        slots = f"{several(self.slots, 'slot')}, {self.slots_used} in use"
        homes = f"{several(self.homes or 0, 'home')}, the slowest {several(self.lag_blocks or 0, 'block')} behind"
        return f"blocks: {self.blocks:,} in {several(self.runs, 'run')}; {slots}; {homes}"

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        return asdict(self) | {"shares": dict(self.shares), "bound": self.bound}


#: A home that is handled for so much of the time bounds a run.
_SERIAL: Final = 0.9


@dataclass(frozen=True, slots=True, repr=False)
class Statistics:
    """Totals since the dispatcher was made. accepted = handled + dropped + pending.

    Attributes:
        accepted: Ticks that were published and accepted.
        handled: Ticks that were handled.
        dropped: Ticks by reason. ``newest``, ``oldest``, ``conflated``: by a strand at its bound. ``quarantined``:
            published to a quarantined strand at its bound. ``shed``: pending, to make room for a higher level.
            ``failed``: the handler failed on it. ``lost``: in the hands of a failing handler of a strand that drops or
            conflates. ``abandoned``: still pending at a stop without draining.
        pending: Ticks that wait or are being handled.
        handled_inline: Ticks that a publisher handled where they lay.
        handled_in_blocks: Ticks that all threads handled in blocks (docs/blocks.md).
        ingest: The way that ticks took, why, and what it cost.
        visits: How often a strand was drained.
        stolen: How many strands were taken from another worker's list.
        cut: How many visits were ended by their budget.
        parks: How often workers went to sleep.
        wakes: How often workers were woken.
        watermark: Every tick with a lower number has been handled or dropped. None if ``attach`` read the statistics,
            as finding it takes a lock of the dispatcher's own process.
        wait: The time from publish to the start of the visit that handled the tick. The oldest tick of a visit stands
            for all in it, so this is an upper bound.
        handler: The time in the handler.
        end_to_end: The time from publish to the handler's end; an upper bound like ``wait``.
        workers: The counts of each worker, and of the publishers together.
        unpinned: Why workers that were to be pinned are not; None if nothing refused it.
        orders_as_plain: Order ticks that were published to handlers that take ticks as they are, because ``feed=`` was
            not given.
        promoted: Under ``Levels``, by level: how often a strand rose out of it. Empty under another policy.
        starved: Under ``Levels``, by level: waits that began in it and took more than twice its timeout, counted as
            they end. Empty under another policy.
        guard: By resource (``cpu``, ``memory``, ``io``), what a guard decided. Empty without one, and if ``attach``
            read the statistics.
        active: How many workers are active, if ``min_workers`` was given; else None.
        dropped_by_level: Under ``Levels``, by level: ticks that a bound dropped (``newest`` to ``shed``). Empty under
            another policy.
        picked: Under ``Aging``, by class: the strands that were taken. Empty under another policy.
        picked_by_rule: The part of them that was taken for ``low_every`` and for ``max_wait``. Empty under another
            policy.
        fair: What ``Fair`` counts. None under another policy, and if ``attach`` read the statistics.
        overload: The longest time in which more and more ticks waited, if that was long. None if there was none, or if
            nothing looked: ``total_capacity_ticks`` bounds what waits, ``attach`` read the statistics, or a replay is
            neither paced nor live.
        paced: Whether ticks came when they happened or were due. In a replay as fast as possible they do not. Its
            ``wait`` and ``end_to_end`` only say how full the queues were, and nothing that shows statistics shows them.
            Nor does it show those of a plain loop, which has no queues.
    """

    accepted: int
    handled: int
    dropped: Mapping[str, int]
    pending: int
    handled_inline: int
    handled_in_blocks: int
    ingest: IngestStatistics
    visits: int
    stolen: int
    cut: int
    parks: int
    wakes: int
    watermark: int | None
    wait: Latency
    handler: Latency
    end_to_end: Latency
    workers: tuple[WorkerStatistics, ...]
    unpinned: str | None = None
    orders_as_plain: int = 0
    promoted: Mapping[str, int] = field(default_factory=FrozenDict)
    starved: Mapping[str, int] = field(default_factory=FrozenDict)
    guard: Mapping[str, GuardStatistics] = field(default_factory=FrozenDict)
    active: ActiveStatistics | None = None
    dropped_by_level: Mapping[str, int] = field(default_factory=FrozenDict)
    picked: Mapping[str, int] = field(default_factory=FrozenDict)
    picked_by_rule: Mapping[str, int] = field(default_factory=FrozenDict)
    fair: FairStatistics | None = None
    overload: OverloadStatistics | None = None
    paced: bool = True

    def __repr__(self) -> str:
        counts = ("accepted", "handled", "pending", "handled_inline")
        figures = [f"{getattr(self, name):,} {name.replace('_', ' ')}" for name in counts]
        figures.insert(2, f"{sum(self.dropped.values()):,} dropped")
        threads = sum(worker.name != "publishers" for worker in self.workers)
        return brief(self, *figures, several(threads, "worker"))

    @property
    def imbalance(self) -> float:
        """Ticks of the busiest worker divided by the mean of all workers; 1 is even, 0 if none handled any."""
        handled = [w.handled for w in self.workers if w.core is not None or w.name != "publishers"]
        mean = sum(handled) / len(handled) if handled else 0
        return max(handled) / mean if mean else 0.0

    @property
    def latencies(self) -> dict[str, Latency]:
        """The latencies that say something, by name; ``wait`` and ``end_to_end`` only if ticks came at a pace."""
        if not self.paced:
            return {"handler": self.handler}
        return {"wait": self.wait, "handler": self.handler, "end_to_end": self.end_to_end}

    def as_dict(self) -> dict[str, Any]:
        """Returns plain numbers, for JSON.

        ``latency`` has ``latencies``; a percentile of what was never counted is None.
        """
        names = ("accepted", "handled", "pending", "handled_inline", "handled_in_blocks", "visits", "stolen", "cut",
                 "parks", "wakes", "watermark", "unpinned", "orders_as_plain", "paced")  # fmt: skip
        latency = {
            name: percentiles_of(found) | {"resolution_ns": found.resolution_ns or None}
            for name, found in self.latencies.items()
        }
        workers = [
            {key: getattr(w, key) for key in ("name", "core", "handled", "busy_ns", "visits", "stolen", "parks")}
            for w in self.workers
        ]
        return (
            {name: getattr(self, name) for name in names}
            | {"ingest": self.ingest.as_dict()}
            | {"dropped": dict(self.dropped), "promoted": dict(self.promoted), "starved": dict(self.starved)}
            | {"guard": {resource: asdict(decided) for resource, decided in self.guard.items()}}
            | {"dropped_by_level": dict(self.dropped_by_level)}
            | {"picked": dict(self.picked), "picked_by_rule": dict(self.picked_by_rule)}
            | {"imbalance": self.imbalance, "latency": latency, "workers": workers}
            | ({} if self.fair is None else {"fair": asdict(self.fair)})
            | ({} if self.active is None else {"active": asdict(self.active)})
            | ({} if self.overload is None else {"overload": asdict(self.overload)})
        )  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class TaskStatistics:
    """Tasks of a ``Scheduler``, or of ``dispatcher.tasks``, since it was made. submitted = sum of ``ended`` + pending.

    ``promoted``, ``starved``, ``picked``, ``picked_by_rule`` and ``fair`` are what the policy counts of tasks: see
    ``Statistics``. For ``dispatcher.tasks`` they are empty and None. Its policy counts tasks and strands together, in
    ``dispatcher.statistics()``.

    Attributes:
        submitted: Tasks that were accepted. Those that ``submit`` refuses with an error are not counted.
        ended: Tasks by how they ended: ``done``, ``failed``, ``cancelled``, ``expired``, ``dropped``, ``dead``.
        pending: Tasks that have not ended: they wait, run, are suspended, or wait for a retry. While others submit, it
            may count one that is refused in the end.
        retries: How often a task that raised was made to wait for another attempt.
        wait: The time from submit to the first call of the function, with delay and hold, once per task that began.
        wait_by_priority: The same by what the policy orders tasks by: under ``Levels`` every level; under ``Aging`` the
            class; under ``Fair`` the name of the group, ``"(tasks)"`` for tasks in none. It is the level or group of
            the task when it began, to which it may have risen. Where none began, ``count`` is 0 and ``percentile``
            returns None. Empty under ``Fifo``.
        wait_by_submitted: The same under ``Levels``, by the level that the task was submitted with. Empty otherwise.
        promoted: By level, how often a task rose out of it.
        starved: By level, waits that took more than twice its timeout.
        picked: By class, the tasks that were taken.
        picked_by_rule: The part of them that was taken for ``low_every`` and for ``max_wait``.
        fair: What ``Fair`` counts of tasks.
    """

    submitted: int
    ended: Mapping[str, int]
    pending: int
    retries: int
    wait: Latency
    wait_by_priority: Mapping[str, Latency]
    wait_by_submitted: Mapping[str, Latency] = field(default_factory=FrozenDict)
    promoted: Mapping[str, int] = field(default_factory=FrozenDict)
    starved: Mapping[str, int] = field(default_factory=FrozenDict)
    picked: Mapping[str, int] = field(default_factory=FrozenDict)
    picked_by_rule: Mapping[str, int] = field(default_factory=FrozenDict)
    fair: FairStatistics | None = None

    def __repr__(self) -> str:
        ended = (f"{n:,} {end}" for end, n in self.ended.items() if n)
        return brief(self, f"{self.submitted:,} submitted", *ended, f"{self.pending:,} pending")

    def as_dict(self) -> dict[str, Any]:
        """Returns plain numbers, for JSON. A percentile of no task is None."""
        names = ("ended", "promoted", "starved", "picked", "picked_by_rule")
        return (
            {name: getattr(self, name) for name in ("submitted", "pending", "retries")}
            | {name: dict(getattr(self, name)) for name in names}
            | {"wait": percentiles_of(self.wait)}
            | {"wait_by_priority": {name: percentiles_of(found) for name, found in self.wait_by_priority.items()}}
            | {"wait_by_submitted": {name: percentiles_of(found) for name, found in self.wait_by_submitted.items()}}
            | ({} if self.fair is None else {"fair": asdict(self.fair)})
        )


#: The program's own numbers, by name.
METRICS: Final[dict[str, Metric]] = {}
_MOST_METRICS: Final = 64
#: Whole numbers from here on are kept as floats, as Prometheus has all numbers.
_MOST_EXACT: Final = 1 << 63
_METRIC_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,99}")
#: What Prometheus' own types and clients add to names.
_ENDINGS: Final = ("_total", "_created", "_info", "_bucket", "_sum", "_count")
#: Reentrant, since the garbage collector may run code that counts. In C: no interrupt leaves it taken.
_METRICS_LOCK: Final = threading.RLock()
os.register_at_fork(
    before=_METRICS_LOCK.acquire, after_in_parent=_METRICS_LOCK.release, after_in_child=_METRICS_LOCK.release
)


class Metric:
    """A number of the program's own; ``strand.metric`` makes it. Any thread may change it, and no change is lost.

    Attributes:
        name: Its name.
        kind: ``"counter"`` or ``"gauge"``.
        value: The number so far.
    """

    __slots__ = ("kind", "name", "value")

    def __init__(self, name: str, kind: Literal["counter", "gauge"]) -> None:
        self.name: Final = name
        self.kind: Final = kind
        self.value: float = 0

    def __repr__(self) -> str:
        return brief(self, self.name, self.kind, f"{self.value:,}")

    def add(self, n: float = 1) -> None:
        """Adds a number, which for a counter is not below 0.

        Raises:
            ConfigurationError: If it is, or if it or the sum is not finite.
        """
        if type(n) is not int:
            n = _finite(n)
        if n < 0 and self.kind == "counter":
            raise ConfigurationError("n", f"{self.name} is a counter, which never falls: {n:,} cannot be added")
        with _METRICS_LOCK:
            value = self.value + n
            self.value = value if -_MOST_EXACT < value < _MOST_EXACT else float(_finite(value))

    def set(self, value: float) -> None:
        """Sets a gauge.

        Raises:
            ConfigurationError: If it is a counter, or the value is not finite.
        """
        if self.kind == "counter":
            raise ConfigurationError("value", f'{self.name} is a counter: make it with kind="gauge", or add to it')
        value = _finite(value)
        with _METRICS_LOCK:
            self.value = value if -_MOST_EXACT < value < _MOST_EXACT else float(_finite(value))


def _finite(value: Any) -> float:
    """A number of Python, of one of Python or numpy. Raises ConfigurationError."""
    try:
        if is_number(value) and math.isfinite(value):
            return value.item() if isinstance(value, np.generic) else value
    except OverflowError:  # a whole number that no float holds
        raise ConfigurationError("value", "it would be beyond the range of a float") from None
    raise ConfigurationError("value", f"{shown(value)} is not a finite number")


def metric(name: str, kind: Literal["counter", "gauge"] = "counter") -> Metric:
    """Returns the program's own number of a name, from 0 on: ``FILLS = strand.metric("fills")``, ``FILLS.add()``.

    It belongs to the process, so it may be made, and counts, before there is a run. Each attachable run of the process
    puts it into its memory once a second, where ``strand metrics``, ``strand stat`` and ``Attached.snapshot`` see it.
    There are at most 64.

    Args:
        name: Letters, digits and ``_``, at most 100, and no digit first. Prometheus has it as ``strand_user_NAME``,
            and adds ``_total`` for a counter.
        kind: ``"counter"``, which only rises, or ``"gauge"``.

    Raises:
        ConfigurationError: If the name or kind cannot be, the name is of another kind, or there are too many.
    """
    one_of("kind", kind, ("counter", "gauge"))
    if not isinstance(name, str) or not _METRIC_NAME.fullmatch(name):
        raise ConfigurationError("name", f"{shown(name)}: give letters, digits and _, at most 100, and no digit first")
    if ending := next((each for each in _ENDINGS if name.endswith(each)), None):
        raise ConfigurationError("name", f"{name!r}: leave out {ending}, which has a meaning of its own in Prometheus")
    with _METRICS_LOCK:
        if name not in METRICS and len(METRICS) >= _MOST_METRICS:
            raise ConfigurationError("name", f"there are {_MOST_METRICS} metrics already: {name!r} is one too many")
        found = METRICS.setdefault(name, Metric(name, kind))
    if found.kind != kind:
        raise ConfigurationError("kind", f"{name!r} is a {found.kind} already")
    return found
