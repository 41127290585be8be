"""What a dispatcher says of itself: frozen numbers, read without stopping it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from strand.brief import brief, listed, several

__all__ = [
    "FairStatistics",
    "GroupStatistics",
    "GuardStatistics",
    "Latency",
    "LongStretch",
    "OverloadStatistics",
    "Statistics",
    "TaskStatistics",
    "WorkerStatistics",
]

PERCENTILES = (50.0, 90.0, 99.0, 99.9)

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed. It is one still, for json, pickle and ``dataclasses.asdict``."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("statistics cannot be changed; dict(...) makes a copy that can")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


def _fixed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, repr=False)
class Latency:
    """A latency distribution in ns, known to one part in sixteen; counted once per tick, or once per task.

    ``count``: how many were counted. ``percentiles`` maps 50, 90, 99 and 99.9 to ns, ``maximum_ns`` is the upper edge
    of the highest bucket hit; neither is below ``resolution_ns``, what the clock resolves.
    ``counts``: ticks a bucket, ``floors_ns``: the buckets' lower edges, both shape (n_buckets,); empty where the
    distribution was not made from a histogram.
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
        """From bucket counts and the buckets' lower edges: a percentile is its bucket's upper edge."""
        found = cls(int(counts.sum()), {}, 0.0, _fixed(counts.view()), _fixed(floors_ns.view()), resolution_ns)
        values = FrozenDict({p: found.percentile(p) or 0.0 for p in PERCENTILES})
        return replace(found, percentiles=values, maximum_ns=found.percentile(100) or 0.0)

    def percentile(self, p: float) -> float | None:
        """In ns, of a latency that was made from a histogram: its bucket's upper edge. None where there is no tick.

        Raises ValueError where ``p`` is not above 0 and at most 100."""
        if not 0 < p <= 100:
            raise ValueError(f"p: {p!r} is not above 0 and at most 100")
        if not self.counts.any():
            return None
        edges = np.append(self.floors_ns[1:], self.floors_ns[-1] * 2)
        return max(float(edges[_bucket(np.cumsum(self.counts), p)]), self.resolution_ns)


def _bucket(running: npt.NDArray[np.uint64], p: float) -> int:
    """The bucket in which the p-th percentile of the ticks is; ``running``: ticks up to each bucket's end."""
    return int(np.searchsorted(running, max(1, np.ceil(int(running[-1]) * p / 100))))


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """One worker, or the publishers together (``core`` None, ``name`` "publishers").

    ``handled``: ticks, ``busy_ns``: time in visits and tasks in ns, ``visits``: drains of a strand, ``stolen``: strands
    taken off another worker's list, ``parks``: how often it went to sleep. ``busy_ns`` grows when a visit ends, and
    when a task ends or gives its worker back.
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
    """``now``: workers that are active, from ``least`` to ``most``. ``more``, ``fewer``: how often one was added, and
    one taken away."""

    now: int
    least: int
    most: int
    more: int
    fewer: int


@dataclass(frozen=True, slots=True)
class OverloadStatistics:
    """The longest time in which more and more ticks waited (docs/overload.md). In so many ``seconds``, ``accepted``
    ticks came, and ``handled`` were handled or dropped. At its end ``pending`` waited."""

    seconds: float
    accepted: int
    handled: int
    pending: int

    @property
    def wait_s(self) -> float:
        """How long it takes to handle what waited at its end, at the speed that the ticks were handled with, in
        seconds."""
        return self.pending * self.seconds / self.handled if self.handled > 0 else float("inf")

    @property
    def said(self) -> str:
        """These figures in words."""
        came, left = self.accepted / self.seconds, self.handled / self.seconds
        after = f"{self.wait_s:,.1f} s of work" if self.handled > 0 else "and none was handled"
        return (
            f"for {self.seconds:,.1f} s {came:,.0f} ticks per second came and {left:,.0f} were handled, until "
            f"{self.pending:,} waited: {after}"
        )

    @property
    def cure(self) -> str:
        """What to do about it."""
        return (
            "give total_capacity_ticks, as nothing bounds the wait without it; or use more workers, or a cheaper "
            "handler"
        )


@dataclass(frozen=True, slots=True, repr=False)
class GuardStatistics:
    """What the guard decided for one resource. ``source``: where it is measured, or why it is not.

    ``holding``: strands are held back for it now. ``begun``: how often that began; ``expired``: how often it ended
    since ``max_hold`` was over; ``held_ns``: how long strands were held back in all, up to now."""

    source: str
    holding: bool
    begun: int
    expired: int
    held_ns: int

    def __repr__(self) -> str:
        now = "holding" if self.holding else "not holding"
        return brief(self, now, f"{self.begun:,} begun", f"{self.expired:,} expired", f"held {self.held_ns:,} ns")


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """One group under ``Fair``: the on-CPU time that was charged to it in ns, its share of what was charged to all (0
    to 1; 0 where nothing was), and how often it used up its slice and had to wait its turn. ``long_stretches``: visits
    and tasks that took more on-CPU time than the group's slice without a pause: a task from one checkpoint to the next,
    a coroutine from one await to the next. They are counted when they are over. ``longest_stretch_ns``: the longest of
    these, in ns; None: there was none. What a checkpoint takes to read the thread's clock, at most each 100 us, is
    charged to the task that it is of. Of coroutines ``on_cpu_ns`` has each step, from one await to the next, those too
    of asyncio tasks that they start, until the task ends; but neither what asyncio does between them, nor other
    threads."""

    on_cpu_ns: int
    share: float
    slice_ends: int
    long_stretches: int
    longest_stretch_ns: int | None


@dataclass(frozen=True, slots=True, repr=False)
class LongStretch:
    """Visits to a strand that took more on-CPU time than the slice of their group: the strand's ``symbols``, how many
    visits, and the longest in ns."""

    symbols: tuple[str, ...]
    visits: int
    longest_ns: int

    def __repr__(self) -> str:
        return brief(self, listed(self.symbols), several(self.visits, "visit"), f"longest {self.longest_ns:,} ns")


@dataclass(frozen=True, slots=True, repr=False)
class FairStatistics:
    """What ``Fair`` counts. ``groups``: by name. ``cap_holds``: how often the pool was held because its on-CPU time was
    used up; None without a cap. ``long_stretches``: those of all groups, and ``longest``: the strands with the longest
    of them, 16 at most, the longest first. Those of tasks are found by group alone."""

    groups: Mapping[str, GroupStatistics]
    cap_holds: int | None
    long_stretches: int
    longest: tuple[LongStretch, ...]

    def __repr__(self) -> str:
        groups = f"{several(len(self.groups), 'group')} ({listed(self.groups)})"
        return brief(self, groups, f"{self.long_stretches:,} long stretches")


@dataclass(frozen=True, slots=True, repr=False)
class Statistics:
    """Totals since the dispatcher was made. accepted = handled + dropped + pending.

    ``dropped`` maps a reason to ticks: ``newest``, ``oldest``, ``conflated``, ``quarantined`` (published to a
    quarantined strand at its bound), ``shed`` (pending, to make room for a higher level), ``failed`` (the handler
    failed on it), ``lost`` (in the hands of a failing handler of a strand that drops or conflates), ``abandoned``
    (still pending at a stop without draining).
    ``visits``: drains of a strand; ``stolen``: strands taken off another worker's list; ``cut``: visits that their
    budget ended; ``parks`` and ``wakes``: how often workers went to sleep, and were woken.
    ``handled_inline`` ticks were handled by a publisher where they lay. ``wait`` is the time from publish to the start
    of the visit that handled the tick, ``handler`` the time in the handler, ``end_to_end`` from publish to its end;
    for the first and last the oldest tick of a visit stands for all in it, so they are upper bounds. ``paced``: ticks
    came when they happened or were due. They do not in a replay as fast as it goes: its ``wait`` and ``end_to_end``
    say how full the queues were and no more, and nothing that shows statistics shows them; nor those of a plain loop,
    which has no queues.
    ``watermark``: every tick with a lower number has been handled or dropped; None where ``attach`` read the
    statistics, as finding it takes a lock of the dispatcher's own process.
    ``orders_as_plain``: order ticks that were published to handlers that take ticks as they are, for want of ``feed=``.
    ``promoted`` and ``starved`` count by level, under ``Levels``: how often a strand rose out of it, and waits that
    began in it and took more than twice its timeout, counted as they end. ``dropped_by_level``
    has the ticks that a bound dropped (``newest`` to ``shed``) by level. All three are empty under another policy.
    ``picked`` counts by class, under ``Aging``, the strands that were taken; ``picked_by_rule`` those of them that were
    taken for ``low_every`` and for ``max_wait``. Both are empty under another policy.
    ``guard``: by resource (``cpu``, ``memory``, ``io``), what a guard decided; empty without one, and where ``attach``
    read the statistics.
    ``active``: how many workers are active, where ``min_workers`` was given; else None.
    ``fair`` is what ``Fair`` counts, and None under another policy, and where ``attach`` read the statistics.
    ``overload``: the longest time in which more and more ticks waited, where that was long; None: there was none, or
    nothing looked (``total_capacity_ticks`` bounds what waits, ``attach`` read the statistics, or a replay that is
    neither paced nor live).
    ``unpinned`` says why workers that were to be pinned are not; None where nothing refused it.
    """

    accepted: int
    handled: int
    dropped: Mapping[str, int]
    pending: int
    handled_inline: int
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name == "claimed":
                raise AttributeError("Statistics.claimed is called handled_inline now", name=name, obj=self)
            raise AttributeError(f"Statistics has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        counts = ("accepted", "handled", "pending", "handled_inline")
        figures = [f"{getattr(self, name):,} {name.replace('_', ' ')}" for name in counts]
        figures.insert(2, f"{sum(self.dropped.values()):,} dropped")
        threads = sum(worker.name != "publishers" for worker in self.workers)
        return brief(self, *figures, several(threads, "worker"))

    @property
    def imbalance(self) -> float:
        """Ticks of the busiest worker over the mean of all workers; 1 is even, 0 when none handled any."""
        handled = [w.handled for w in self.workers if w.core is not None or w.name != "publishers"]
        mean = sum(handled) / len(handled) if handled else 0
        return max(handled) / mean if mean else 0.0

    @property
    def latencies(self) -> dict[str, Latency]:
        """Those that say something, by name: ``wait`` and ``end_to_end`` of ticks that came at a pace alone."""
        if not self.paced:
            return {"handler": self.handler}
        return {"wait": self.wait, "handler": self.handler, "end_to_end": self.end_to_end}

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON. ``latency`` has ``latencies``; a percentile of what was never counted is None."""
        names = ("accepted", "handled", "pending", "handled_inline", "visits", "stolen", "cut", "parks", "wakes",
                 "watermark", "unpinned", "orders_as_plain", "paced")  # fmt: skip
        latency = {
            name: _percentiles(found) | {"resolution_ns": found.resolution_ns or None}
            for name, found in self.latencies.items()
        }
        workers = [
            {key: getattr(w, key) for key in ("name", "core", "handled", "busy_ns", "visits", "stolen", "parks")}
            for w in self.workers
        ]
        return (
            {name: getattr(self, name) for name in names}
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

    ``submitted``: tasks that were accepted. One that ``submit`` refuses with an error is none of them. ``ended`` maps
    each end to tasks: ``done``, ``failed``, ``cancelled``, ``expired``, ``dropped``, ``dead``. ``pending``: those that
    have not ended: they wait, run, are suspended, or wait for a retry. While others submit, it may count one that is
    refused in the end. ``retries``: how often a task that raised was made to wait for another attempt.

    ``wait``: from submit to when the function was first called, once for each task that began, with its delay and hold.
    ``wait_by_priority``: the same by what the policy orders tasks by: under ``Levels`` the level, all of them; under
    ``Aging`` the class; under ``Fair`` the name of the group, ``"(tasks)"`` for tasks in none. It is the level or group
    that the task had when it began. Where none began, ``count`` is 0 and ``percentile`` gives None. Empty under
    ``Fifo``.

    ``promoted``, ``starved``, ``picked``, ``picked_by_rule`` and ``fair`` are what the policy counts of tasks; see
    ``Statistics``. Of ``dispatcher.tasks`` they are empty and None: its policy counts tasks and strands together, in
    ``dispatcher.statistics()``.
    """

    submitted: int
    ended: Mapping[str, int]
    pending: int
    retries: int
    wait: Latency
    wait_by_priority: Mapping[str, Latency]
    promoted: Mapping[str, int] = field(default_factory=FrozenDict)
    starved: Mapping[str, int] = field(default_factory=FrozenDict)
    picked: Mapping[str, int] = field(default_factory=FrozenDict)
    picked_by_rule: Mapping[str, int] = field(default_factory=FrozenDict)
    fair: FairStatistics | None = None

    def __repr__(self) -> str:
        ended = (f"{n:,} {end}" for end, n in self.ended.items() if n)
        return brief(self, f"{self.submitted:,} submitted", *ended, f"{self.pending:,} pending")

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON. A percentile of no task is None."""
        names = ("ended", "promoted", "starved", "picked", "picked_by_rule")
        return (
            {name: getattr(self, name) for name in ("submitted", "pending", "retries")}
            | {name: dict(getattr(self, name)) for name in names}
            | {"wait": _percentiles(self.wait)}
            | {"wait_by_priority": {name: _percentiles(found) for name, found in self.wait_by_priority.items()}}
            | ({} if self.fair is None else {"fair": asdict(self.fair)})
        )


def _percentiles(found: Latency) -> dict[str, float | None]:
    """How many, and their percentiles in ns; None where there are none."""
    numbers = {f"p{p:g}_ns": ns for p, ns in found.percentiles.items()} | {"maximum_ns": found.maximum_ns}
    return {"count": found.count} | {name: ns if found.count else None for name, ns in numbers.items()}
