"""The figures of a run at one moment, read from outside: ``Attached.snapshot()``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields, is_dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import HISTOGRAMS, SampleRing
from strand.binding.outside import OutsideView
from strand.brief import brief, several
from strand.dicts import FrozenDict
from strand.dispatch.samples import PAST_S, n_counted, now_dtype, past_dtype, tick_figures
from strand.dispatch.statistics import Description, statistics_of
from strand.errors import AttachError
from strand.fixed import dataclass
from strand.stats import (
    LEAST_ENDS,
    TASK_ENDS,
    TICK_ENDS,
    ActiveStatistics,
    GuardStatistics,
    IngestStatistics,
    Latency,
    OverloadStatistics,
    WorkerStatistics,
    percentiles_of,
)

#: Samples by which the workers' busy shares are older than the snapshot.
_BUSY_BACK: Final = 2
_ALL: Final = "all"


@dataclass(frozen=True, slots=True, repr=False)
class LevelFigures:
    """Figures of ticks, or tasks, of one level in a span of time.

    The level is the present one: that to which a strand had risen when a worker took it, or a task when it began. A
    task that ends without a start counts at the level that it was given.

    Attributes:
        level: Its name; ``"all"`` for the sum of all levels, and under ``Fifo`` and ``Fair``.
        started: Visits to strands, or tasks that began.
        ended: By end. Ticks: ``handled``, ``failed``. Tasks: ``done``, ``failed``, ``cancelled``, ``expired``,
            ``dropped``, ``dead``.
        promoted: How often a strand or task rose out of the level. None where the policy has no levels; for the tasks
            of a dispatcher, whose policy counts them among its strands.
        starved: Waits that began in the level and took more than twice its timeout. None likewise.
        wait: The time from publish, or submit, to the start, once per tick or task; of ticks an upper bound.
        handler: The time in the handler, per tick; or in the function of a task that has ended, all attempts together.
        end_to_end: The time from publish, or submit, to the end; of ticks an upper bound.
    """

    level: str
    started: int
    ended: Mapping[str, int]
    promoted: int | None
    starved: int | None
    wait: Latency
    handler: Latency
    end_to_end: Latency

    def __repr__(self) -> str:
        return brief(self, self.level, f"{self.started:,} started", *(f"{n:,} {end}" for end, n in self.ended.items()))

    def as_dict(self) -> dict[str, Any]:
        """Returns plain numbers, for JSON; times in ns, with None where nothing was counted."""
        names = ("started", "promoted", "starved", "success_rate", "promotion_rate")
        times = {"wait": self.wait, "handler": self.handler, "end_to_end": self.end_to_end}
        return (
            {name: getattr(self, name) for name in names}
            | {"ended": dict(self.ended)}
            | {name: percentiles_of(found) | {"p95_ns": found.percentile(95)} for name, found in times.items()}
        )

    @property
    def success_rate(self) -> float | None:
        """Share of those that ended well, 0 to 1: of ticks handled / (handled + failed), of tasks done / (done + failed
        + dead + expired). None for fewer than 20."""
        good = self.ended["handled" if "handled" in self.ended else "done"]
        of = good + sum(self.ended.get(end, 0) for end in ("failed", "dead", "expired"))
        return good / of if of >= LEAST_ENDS else None

    @property
    def promotion_rate(self) -> float | None:
        """Promotions out of the level per start in it. None if nothing started, or promotions are not counted."""
        return self.promoted / self.started if self.promoted is not None and self.started else None


@dataclass(frozen=True, slots=True, repr=False)
class Figures:
    """Figures of one kind in a span of time.

    Attributes:
        seconds: How long the span is. None: since the start.
        levels: The figures by level, the highest first.
        total: Those of all levels together.
    """

    seconds: float | None
    levels: Mapping[str, LevelFigures]
    total: LevelFigures

    def __repr__(self) -> str:
        span = "since the start" if self.seconds is None else f"{self.seconds:.0f} s"
        return brief(self, span, several(len(self.levels), "level"), f"{self.total.started:,} started")

    def as_dict(self) -> dict[str, Any]:
        """Returns plain numbers, for JSON."""
        levels = {name: found.as_dict() for name, found in self.levels.items()}
        return {"seconds": self.seconds, "levels": levels, "total": self.total.as_dict()}


@dataclass(frozen=True, slots=True, repr=False)
class KindSnapshot:
    """Ticks, or tasks, of a run.

    Attributes:
        kind: ``"tick"`` or ``"task"``.
        accepted: Ticks published and accepted, or tasks submitted, since the start.
        pending: Those that have not ended.
        dropped: Ticks by the reason for which a bound or a failure dropped them; empty for tasks, see ``ended``.
        dropped_by_level: Ticks that a bound dropped, by level; empty where the policy has no levels.
        waiting: By level, strands that wait for a worker, or tasks that wait for any reason. Among the strands of a
            dispatcher are its tasks that wait for a worker.
        since_start: Figures since the start.
        window: Figures of the last 5 minutes, or since the start if that is less. None if the run has no samples yet.
    """

    kind: str
    accepted: int
    pending: int
    dropped: Mapping[str, int]
    dropped_by_level: Mapping[str, int]
    waiting: Mapping[str, int]
    since_start: Figures
    window: Figures | None

    def __repr__(self) -> str:
        return brief(self, self.kind, f"{self.accepted:,} accepted", f"{self.pending:,} pending")

    def as_dict(self) -> dict[str, Any]:
        """Returns plain numbers, for JSON."""
        return (
            {name: getattr(self, name) for name in ("kind", "accepted", "pending")}
            | {name: dict(getattr(self, name)) for name in ("dropped", "dropped_by_level", "waiting")}
            | {"since_start": self.since_start.as_dict()}
            | {"window": None if self.window is None else self.window.as_dict()}
        )


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """More counts of tasks, since the start.

    Attributes:
        retries: How often a task that raised was made to wait for another attempt.
        dead_letters: Dead letters that are kept now.
        dead_letters_gone: Dead letters that went, because there were too many.
    """

    retries: int
    dead_letters: int
    dead_letters_gone: int


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """A group under ``Fair``; see ``GroupStatistics``.

    Attributes:
        name: Its name, of at most 200 characters.
        on_cpu_ns: On-CPU time that was charged to it, in ns.
        share: Its share of what was charged to all groups, 0 to 1.
        slice_ends: How often it used up its slice.
        long_stretches: Stretches longer than its slice.
        longest_stretch_ns: The longest of these, in ns; None if there was none.
    """

    name: str
    on_cpu_ns: int
    share: float
    slice_ends: int
    long_stretches: int
    longest_stretch_ns: int | None


@dataclass(frozen=True, slots=True)
class LineFigures:
    """Gaps of one line of a live feed.

    Attributes:
        gaps: Gaps that this line had.
        gap_messages: Messages that were missing in them, which another line may have brought.
    """

    gaps: int
    gap_messages: int


@dataclass(frozen=True, slots=True)
class FeedFigures:
    """Counts of a live feed, up to a second old; in the end those of its own report.

    Attributes:
        messages: Messages that were taken, in order.
        gaps: Gaps that stayed.
        gap_messages: Messages that are missing in them.
        reconnects: Connections that were made again.
        lines: By the name of a line.
        warnings: Counts of the feed's warnings so far, by kind, as ``RunWarning`` has them.
    """

    messages: int
    gaps: int
    gap_messages: int
    reconnects: int
    lines: Mapping[str, LineFigures]
    warnings: Mapping[str, int]


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """Figures of a dispatcher or scheduler at one moment. None stands for what is not known or not defined.

    Counters of ticks and workers are read from the run's memory when the snapshot is made. Tasks, and what only the
    run's own process knows, come from its last sample, which is up to a second old.

    Attributes:
        at_ns: When it was made, ns since 1970.
        sampled_at_ns: When the sample was put, ns since 1970. None: there was none yet.
        name: The run's name.
        pid: The id of its process.
        version: Of strand.
        kind: ``"dispatcher"`` or ``"scheduler"``.
        made_at_ns: When the run was made, ns since 1970.
        policy: The name of its policy: ``fifo``, ``levels``, ``aging`` or ``fair``.
        levels: The names of levels, the highest first: those of ``Levels``, the classes of ``Aging``, else ``"all"``.
        ticks: Its ticks. None for a scheduler.
        tasks: Its tasks. None for a dispatcher that has had none, and before the first sample.
        task_counts: More of its tasks; likewise.
        workers: Counters of each worker, without cores.
        publishers: Those of all publishers together.
        busy_shares: By worker, the share of the last 2 seconds in visits and tasks that have ended, 0 to 1: a longer
            one counts when it ends, as 1 at most. It has the first 64 workers, and is empty before the third sample.
        wakes: How often workers were woken.
        cut: Visits that were ended by their budget.
        handled_inline: Ticks that a publisher handled where they lay.
        handled_in_blocks: Ticks that all threads handled in blocks.
        failures: Failures of handlers.
        published: Numbers of ticks that were given out.
        watermark: Every tick with a lower number has been handled or dropped. With more than 4,096 strands it is up to
            5 seconds old.
        outputs_below: All records that handlers emitted for ticks with lower numbers are out. None without outputs.
        feed_time_ns: The greatest time of a tick published, ns since 1970; None where ticks carry no positions, as
            without timers and outputs.
        ingest: The way that ticks took, and what is known of blocks. None for a scheduler.
        recorded: Whether it is a replay of what was recorded.
        groups: Under ``Fair``, the 32 groups with the most on-CPU time.
        n_groups: How many there are; 0 under other policies. With more than 65,536, or with very long names, none is
            named.
        guard: By resource, what the guard decided; empty without one.
        active: How many workers are active, with ``min_workers``.
        overload: The longest time in which more and more ticks waited, if that was long.
        threads: Of a scheduler: threads by state, see ``thread_counts``.
        feed: Counts of the live feed that the run reads; None without one.
        own_counters: The program's own counters by name, see ``strand.metric``.
        own_gauges: Its own gauges.
    """

    at_ns: int
    sampled_at_ns: int | None
    name: str
    pid: int
    version: str
    kind: str
    made_at_ns: int
    policy: str
    levels: tuple[str, ...]
    ticks: KindSnapshot | None
    tasks: KindSnapshot | None
    task_counts: TaskCounts | None
    workers: tuple[WorkerStatistics, ...]
    publishers: WorkerStatistics
    busy_shares: tuple[float, ...]
    wakes: int
    cut: int
    handled_inline: int
    handled_in_blocks: int
    failures: int
    published: int
    watermark: int | None
    outputs_below: int | None
    feed_time_ns: int | None
    ingest: IngestStatistics | None = None
    recorded: bool = False
    groups: tuple[GroupFigures, ...] = ()
    n_groups: int = 0
    guard: Mapping[str, GuardStatistics] = field(default_factory=FrozenDict)
    active: ActiveStatistics | None = None
    overload: OverloadStatistics | None = None
    threads: Mapping[str, int] | None = None
    feed: FeedFigures | None = None
    own_counters: Mapping[str, float] = field(default_factory=FrozenDict)
    own_gauges: Mapping[str, float] = field(default_factory=FrozenDict)

    def __repr__(self) -> str:
        kinds = (
            f"{found.accepted:,} {found.kind}s accepted" for found in (self.ticks, self.tasks) if found is not None
        )
        return brief(self, self.kind, self.name, f"process {self.pid}", *kinds)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain numbers, for JSON."""
        found = {one.name: _plain(getattr(self, one.name)) for one in fields(self)}
        more = ("imbalance", "outputs_backlog", "feed_lag_ns")
        return found | {name: getattr(self, name) for name in more}

    @property
    def imbalance(self) -> float | None:
        """Busy time of the busiest worker divided by the mean of all; 1 is even. None before any was busy."""
        busy = [worker.busy_ns for worker in self.workers]
        return max(busy) * len(busy) / sum(busy) if sum(busy) else None

    @property
    def outputs_backlog(self) -> int | None:
        """Number of ticks whose records may not be out yet. Most of these ticks may have emitted none."""
        return None if self.outputs_below is None else max(0, self.published - self.outputs_below)

    @property
    def feed_lag_ns(self) -> int | None:
        """Distance of the feed's time behind the clock, in ns. None in a replay, where it would be the age of the
        recording."""
        return None if self.feed_time_ns is None or self.recorded else self.at_ns - self.feed_time_ns


def _plain(value: Any) -> Any:
    """A value of a snapshot as JSON has it."""
    if isinstance(value, KindSnapshot):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def snapshot_of(view: OutsideView, about: Description, now_ns: int | None = None) -> Snapshot:
    """The figures of a run. ``now_ns``: in place of ``time.monotonic_ns()``. Raises AttachError for damaged memory."""
    try:
        return _snapshot_of(view, about, time.monotonic_ns() if now_ns is None else now_ns)
    except (KeyError, TypeError, ValueError) as error:
        raise AttachError("it is damaged: a sample has no such figures") from error


def _snapshot_of(view: OutsideView, about: Description, now_ns: int) -> Snapshot:
    names, of_tasks = about.levels, about.kind == "scheduler"
    at_ns = time.time_ns()
    now = _now(view, len(names))
    facts = {} if now is None else _facts(now)
    # What has ended is read first, so that it is never more than what was accepted.
    ticks_so_far = None if of_tasks else tick_figures(view, names, of_tasks=False)
    n_ticks = 0 if ticks_so_far is None else n_counted(ticks_so_far)
    past, past_at = _past(view, len(names), now_ns, n_ticks)
    seconds = None if past is None else max(0.0, (now_ns - past_at) / 1e9)
    totals, statistics = view.totals(), statistics_of(view, paced=about.paced)
    floors, resolution_ns = view.histogram_floors_ns(), view.clock_resolution_ns()
    of = _Making(names, floors, resolution_ns)
    ticks = tasks = more = None
    if ticks_so_far is not None:
        figures = ticks_so_far
        promotes = about.policy == "levels"
        ticks = KindSnapshot(
            "tick",
            statistics.accepted,
            statistics.pending,
            statistics.dropped,
            statistics.dropped_by_level,
            FrozenDict(zip(names, (counts["listed"] for counts in view.counts_by_level()), strict=False)),
            of.figures(figures, TICK_ENDS, None, promotes),
            None if past is None else of.figures(_since(figures, past["ticks"]), TICK_ENDS, seconds, promotes),
        )
    if now is not None and (known := facts.get("tasks")) is not None:
        figures, promotes = now["tasks"], of_tasks and about.policy == "levels"
        waiting = FrozenDict(zip(names, (int(n) for n in known["waiting"]), strict=False))
        tasks = KindSnapshot(
            "task",
            int(known["submitted"]),
            int(known["pending"]),
            FrozenDict(),
            FrozenDict(),
            waiting,
            of.figures(figures, TASK_ENDS, None, promotes),
            None if past is None else of.figures(_since(figures, past["tasks"]), TASK_ENDS, seconds, promotes),
        )
        more = TaskCounts(int(known["retries"]), int(known["dead_letters"]), int(known["dead_letters_gone"]))
    *workers, publishers = statistics.workers
    return Snapshot(
        at_ns=at_ns,
        sampled_at_ns=facts.get("at"),
        name=about.name,
        pid=about.pid,
        version=about.version,
        kind=about.kind,
        made_at_ns=int(about.made_at * 1e9),
        policy=about.policy,
        levels=names,
        ticks=ticks,
        tasks=tasks,
        task_counts=more,
        workers=tuple(workers),
        publishers=publishers,
        busy_shares=_busy_shares(view, len(names), statistics.workers, now_ns),
        wakes=statistics.wakes,
        cut=statistics.cut,
        handled_inline=statistics.handled_inline,
        handled_in_blocks=statistics.handled_in_blocks,
        ingest=None if of_tasks else statistics.ingest,
        failures=totals["failures"],
        published=totals["watermark_sequence"] - int(about.configuration["counters_start"]),
        watermark=facts.get("watermark"),
        outputs_below=facts.get("outputs_below"),
        feed_time_ns=(view.feed_time or None) if about.configuration["has_positions"] else None,
        recorded=about.recorded,
        groups=tuple(GroupFigures(**group) for group in facts.get("groups", ())),
        n_groups=int(facts.get("n_groups", 0)),
        guard=FrozenDict({name: GuardStatistics(**of) for name, of in (facts.get("guard") or {}).items()}),
        active=ActiveStatistics(**facts["active"]) if facts.get("active") else None,
        overload=OverloadStatistics(**facts["overload"]) if facts.get("overload") else None,
        threads=FrozenDict(facts["threads"]) if facts.get("threads") else None,
        feed=_feed(facts["feed"]) if facts.get("feed") else None,
        own_counters=_own(facts, "counter"),
        own_gauges=_own(facts, "gauge"),
    )


def _feed(found: Mapping[str, Any]) -> FeedFigures:
    lines = FrozenDict({name: LineFigures(**line) for name, line in found["lines"].items()})
    return FeedFigures(**{**found, "lines": lines, "warnings": FrozenDict(found["warnings"])})


def _own(facts: Mapping[str, Any], kind: str) -> Mapping[str, float]:
    return FrozenDict({name: value for name, (of, value) in facts.get("own", {}).items() if of == kind})


class _Making:
    """Makes figures of those of a sample."""

    def __init__(self, names: Sequence[str], floors_ns: npt.NDArray[np.float64], resolution_ns: float) -> None:
        self._names, self._floors_ns, self._resolution_ns = names, floors_ns, resolution_ns

    def figures(self, found: npt.NDArray[Any], ends: Sequence[str], seconds: float | None, promotes: bool) -> Figures:
        levels = {name: self._level(name, row, ends, promotes) for name, row in zip(self._names, found, strict=True)}
        total = np.zeros(1, found.dtype)
        for name in found.dtype.names or ():
            total[name][0] = found[name].sum(axis=0)
        return Figures(seconds, FrozenDict(levels), self._level(_ALL, total[0], ends, promotes))

    def _level(self, name: str, row: Any, ends: Sequence[str], promotes: bool) -> LevelFigures:
        times = (
            Latency.from_histogram(counts.astype(np.uint64), self._floors_ns, self._resolution_ns)
            for counts in row["times"]
        )
        return LevelFigures(
            name,
            int(row["started"]),
            FrozenDict(zip(ends, map(int, row["ended"]), strict=False)),
            int(row["promoted"]) if promotes else None,
            int(row["starved"]) if promotes else None,
            **dict(zip(HISTOGRAMS, times, strict=True)),
        )


def _now(view: OutsideView, n_levels: int, back: int = 0) -> np.void | None:
    """A sample of the state now; None: there is none such."""
    for _ in range(4):  # one that went meanwhile has a later one behind it
        found = view.sample(SampleRing.NOW, now_dtype(n_levels), back)
        if found is not None:
            return found[0]
    return None


def _facts(now: Any) -> dict[str, Any]:
    size = int(now["text_bytes"])
    try:
        found = json.loads(bytes(now["text"][:size]))
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        return found
    except ValueError as error:
        raise AttachError("it is damaged: the text of a sample cannot be read") from error


def _past(view: OutsideView, n_levels: int, now_ns: int, n_ticks: int) -> tuple[np.void | None, int]:
    """The oldest sample of the past that is not older than 5 minutes and a half period, and its time. No count of it
    has gone on by so much that the difference would be wrong."""

    def is_near(found: np.void) -> bool:
        return now_ns - int(found["at_ns"]) <= (PAST_S + 2) * 10**9 and n_ticks - int(found["n_ticks"]) < 1 << 31

    dtype, best, at = past_dtype(n_levels), None, 0
    low, high = 0, PAST_S // 5 + 1
    while low < high:  # their ages rise with the places
        middle = (low + high) // 2
        found = view.sample(SampleRing.PAST, dtype, middle)
        if found is not None and is_near(found[0]):
            best, at = found[0], int(found[0]["at_ns"])
            low = middle + 1
        else:
            high = middle
    return best, at


def _since(figures: npt.NDArray[Any], past: Any) -> npt.NDArray[Any]:
    """Counts since a sample of the past, whose counts are modulo 2**32."""
    found = np.zeros(len(figures), past.dtype)
    for name in past.dtype.names or ():
        difference = figures[name].astype(np.uint32) - past[name]
        # A counter that was read a moment before the sample was put.
        found[name] = np.where(difference >> 31, 0, difference)
    return found


def _busy_shares(
    view: OutsideView, n_levels: int, workers: Sequence[WorkerStatistics], now_ns: int
) -> tuple[float, ...]:
    earlier = _now(view, n_levels, _BUSY_BACK)
    if earlier is None or now_ns <= int(earlier["at_ns"]):
        return ()
    span = now_ns - int(earlier["at_ns"])
    before = _facts(earlier).get("busy_ns", [])
    return tuple(min(1.0, max(0, w.busy_ns - ns) / span) for w, ns in zip(workers, before, strict=False))
