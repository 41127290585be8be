"""Statistics of a dispatcher: frozen numbers, read without stopping it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from strand.brief import brief, several
from strand.frozen_dict import FrozenDict
from strand.latency import Latency, percentiles_of
from strand.policy_stats import FairStatistics, GroupStatistics, GuardStatistics, LongStretch

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
        names = ("accepted", "handled", "pending", "handled_inline", "visits", "stolen", "cut", "parks", "wakes",
                 "watermark", "unpinned", "orders_as_plain", "paced")  # fmt: skip
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
