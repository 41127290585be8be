"""Metrics of a run for Prometheus, and readings of it for alerts, both made of a snapshot from outside.

Names follow Prometheus' conventions: base units, ``_total`` for counters. Symbols are never a label. ``kind`` is
``"tick"`` or ``"task"``, and ``level`` the level now; ``"all"`` where the policy has none. However many symbols a run
has, there are at most 500 series, and 6 per worker. Groups of ``Fair`` and the program's
own numbers come on top.

A histogram has classic buckets made of the run's finer ones. A bucket counts times that are surely at most ``le``; it
may lack some within one sixteenth below ``le``. The sum of times is not known, and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strand.alerts.rules import ALL
from strand.alerts.watch import Samples
from strand.dispatch.guarding import Meter, cpu_meter, io_meter, memory_meter
from strand.errors import MissingExtraError
from strand.lazy import imported
from strand.logs import Event
from strand.outside.attached import Attached
from strand.outside.snapshot import KindSnapshot, LevelFigures, Snapshot
from strand.stats import Latency

if TYPE_CHECKING:
    from prometheus_client import Metric

#: Upper bounds of the buckets in seconds. The limits of the usual alerts are among them.
BOUNDS_S: Final = (
    1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 1800.0,
)  # fmt: skip
#: A dashboard for Grafana, as JSON: each family has a panel.
DASHBOARD: Final = Path(__file__).with_name("data") / "grafana.json"
_PERCENTILES: Final = (95.0, 99.0)
_NS: Final = 1e9
_UNREADABLE: Final = Event("machine.unreadable", ".metrics", "WARNING", "%(reading)s cannot be read: %(error)s")


def exposition(
    snapshot: Snapshot, meters: Mapping[str, float | None], more: Callable[[Families], None] | None = None
) -> bytes:
    """Returns the metrics in Prometheus' text format.

    Args:
        snapshot: The figures of a run.
        meters: ``cpu_usage``, ``memory_usage`` and ``io_pressure`` now, as ratios; those that are None are left out.
        more: Adds families.

    Raises:
        MissingExtraError: If prometheus_client is not installed.
    """
    found: bytes = _client().generate_latest(_registry(snapshot.pid, lambda: families(snapshot, meters, more)))
    return found


@contextmanager
def serving(pid: int, look: Callable[[], tuple[Snapshot, Mapping[str, float | None]]], port: int) -> Iterator[str]:
    """Serves the metrics on 127.0.0.1 within the block. Yields the URL.

    Args:
        pid: The process whose run it is.
        look: Returns what ``exposition`` takes, for each scrape. If it raises, the scrape has status 500.
        port: The port; 0: a free one.

    Raises:
        MissingExtraError: If prometheus_client is not installed.
    """
    server, thread = _client().start_http_server(port, "127.0.0.1", _registry(pid, lambda: families(*look())))
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _registry(pid: int, found: Callable[[], Iterator[Metric]]) -> Any:
    class Run:
        def collect(self) -> Iterator[Metric]:
            return found()

    client = _client()
    registry = client.CollectorRegistry(auto_describe=False)
    registry.register(Run())
    client.ProcessCollector(pid=lambda: pid, registry=registry)
    return registry


def families(
    snapshot: Snapshot, meters: Mapping[str, float | None], more: Callable[[Families], None] | None = None
) -> Iterator[Metric]:
    """Returns the families one by one; see ``exposition``. Those without a value are left out."""
    made = Families()
    made.info(snapshot)
    kinds = [found for found in (snapshot.ticks, snapshot.tasks) if found is not None]
    for found in kinds:
        _of_kind(made, found)
    _of_run(made, snapshot)
    _of_workers(made, snapshot)
    for name, value in meters.items():
        made.gauge(f"{name}_ratio", _METERS[name], value)
    for group in snapshot.groups:
        made.counter("group_cpu_seconds", "On-CPU time charged to a group.", group.on_cpu_ns / _NS, group=group.name)
    for name, value in snapshot.own_counters.items():
        made.counter(f"user_{name}", "A counter of the program's own.", value)
    for name, value in snapshot.own_gauges.items():
        made.gauge(f"user_{name}", "A number of the program's own.", value)
    if more is not None:
        more(made)
    return made.all()


_METERS: Final = {
    "cpu_usage": "CPU time in use, of what the tightest limit or the machine allows.",
    "memory_usage": "Memory in use, of what the tightest limit or the machine allows.",
    "io_pressure": "Time in which some task waited for I/O.",
}


def _client() -> Any:
    return imported("prometheus_client", "metrics", "metrics for Prometheus")


class Families:
    """Families by name, in the order in which they were made."""

    def __init__(self) -> None:
        self._core = imported("prometheus_client.core", "metrics", "metrics for Prometheus")
        self._made: dict[str, tuple[Metric, tuple[str, ...]]] = {}

    def all(self) -> Iterator[Metric]:
        return iter([family for family, _ in self._made.values()])

    def info(self, snapshot: Snapshot) -> None:
        labels = {"version": snapshot.version, "run": snapshot.name, "kind": snapshot.kind, "policy": snapshot.policy}
        self.gauge("build_info", "The run: its version of strand, its name, and its policy.", 1, **labels)

    def counter(self, name: str, text: str, value: float | None, **labels: str) -> None:
        self._add("CounterMetricFamily", name, text, value, labels)

    def gauge(self, name: str, text: str, value: float | None, **labels: str) -> None:
        self._add("GaugeMetricFamily", name, text, value, labels)

    def histogram(self, name: str, text: str, found: Latency, **labels: str) -> None:
        family = self._family("HistogramMetricFamily", name, text, labels)
        family.add_metric(_values(labels), buckets=buckets(found), sum_value=None)

    def _add(self, kind: str, name: str, text: str, value: float | None, labels: Mapping[str, str]) -> None:
        if value is not None:
            self._family(kind, name, text, labels).add_metric(_values(labels), value)

    def _family(self, kind: str, name: str, text: str, labels: Mapping[str, str]) -> Any:
        if name not in self._made:
            made = getattr(self._core, kind)(f"strand_{name}", text, labels=[*labels])
            self._made[name] = made, tuple(labels)
        family, known = self._made[name]
        assert known == tuple(labels), name
        return family


def _values(labels: Mapping[str, str]) -> list[str]:
    """Values of labels in UTF-8. Half a surrogate, which a name may have, is shown as its escape sequence."""
    return [value.encode("utf-8", "backslashreplace").decode() for value in labels.values()]


def buckets(found: Latency) -> list[tuple[str, float]]:
    """Returns the cumulative counts by upper bound, in seconds: of times that are surely not above it."""
    ends = np.append(found.floors_ns[1:], np.inf)
    running = np.concatenate([[0], np.cumsum(found.counts)])
    places = np.searchsorted(ends, np.array(BOUNDS_S) * _NS, side="right")
    counts = [(f"{bound:g}", float(running[at])) for bound, at in zip(BOUNDS_S, places, strict=True)]
    return [*counts, ("+Inf", float(found.count))]


def _of_kind(made: Families, found: KindSnapshot) -> None:
    kind = found.kind
    made.counter("accepted", "Ticks published, or tasks submitted, and accepted.", found.accepted, kind=kind)
    made.gauge("pending", "Ticks, or tasks, that have not ended.", found.pending, kind=kind)
    for reason, n in found.dropped.items():
        made.counter("dropped", "Ticks dropped, by reason.", n, kind=kind, reason=reason)
    for level, n in found.dropped_by_level.items():
        made.counter("dropped_at_level", "Ticks that a bound dropped, by level.", n, kind=kind, level=level)
    for level, n in found.waiting.items():
        waits = "strand" if kind == "tick" else kind
        made.gauge("queue_depth", "Strands that wait for a worker, or tasks that wait.", n, kind=waits, level=level)
    for level, figures in found.since_start.levels.items():
        _of_level(made, figures, kind, level)
    whole = found.since_start.total
    made.histogram("handler_seconds", "Time in the handler or in the task's function.", whole.handler, kind=kind)
    made.histogram("end_to_end_seconds", "Time from publish or submit to the end.", whole.end_to_end, kind=kind)
    if found.window is not None:
        made.gauge("window_seconds", "Length of the sliding window.", found.window.seconds, kind=kind)
        made.gauge("success_ratio", "Success within the window.", found.window.total.success_rate, kind=kind)
        made.gauge(
            "promotion_ratio", "Promotions per start in the window.", found.window.total.promotion_rate, kind=kind
        )
        for level, figures in found.window.levels.items():
            for percent in _PERCENTILES:
                value = figures.wait.percentile(percent)
                labels = {"kind": kind, "level": level, "percentile": f"{percent:g}"}
                text = "Percentile of waits within the window: its bucket's upper edge."
                made.gauge("wait_window_seconds", text, None if value is None else value / _NS, **labels)


def _of_level(made: Families, figures: LevelFigures, kind: str, level: str) -> None:
    labels = {"kind": kind, "level": level}
    made.counter("started", "Visits to strands, or tasks that began.", figures.started, **labels)
    made.counter("promotions", "Rises out of the level.", figures.promoted, **labels)
    made.counter("starved", "Waits of over twice the level's timeout.", figures.starved, **labels)
    for end, n in figures.ended.items():
        made.counter("ended", "Ticks, or tasks, by the end that they had.", n, **labels, outcome=end)
    made.histogram("wait_seconds", "Time from publish or submit to the start.", figures.wait, **labels)


def _of_run(made: Families, snapshot: Snapshot) -> None:
    made.counter("wakes", "Wake-ups of workers.", snapshot.wakes)
    made.counter("cut_visits", "Visits that their budget ended.", snapshot.cut)
    made.counter("handled_inline", "Ticks that a publisher handled where they lay.", snapshot.handled_inline)
    made.counter("handled_in_blocks", "Ticks that all threads handled in blocks.", snapshot.handled_in_blocks)
    if (ingest := snapshot.ingest) is not None:
        made.gauge("block_slots", "Slots of the window of blocks.", ingest.slots)
        made.gauge("block_slots_used", "Slots in use when a block was adopted last.", ingest.slots_used)
        made.gauge("block_homes", "Groups of strands that blocks are handled by.", ingest.homes)
        made.gauge("block_lag", "Blocks by which the slowest home is behind.", ingest.lag_blocks)
    made.counter("failures", "Failures of handlers.", snapshot.failures)
    made.gauge("imbalance", "Busy time of the busiest worker by the mean of all.", snapshot.imbalance)
    made.gauge("published", "Numbers of ticks that were given out.", snapshot.published)
    made.gauge("watermark", "Number below which each tick has been handled or dropped.", snapshot.watermark)
    made.gauge("outputs_backlog", "Ticks whose records may not be out yet.", snapshot.outputs_backlog)
    feed_time = None if snapshot.feed_time_ns is None else snapshot.feed_time_ns / _NS
    made.gauge("feed_time_seconds", "Time of the newest tick, since 1970.", feed_time)
    lag = None if snapshot.feed_lag_ns is None else snapshot.feed_lag_ns / _NS
    made.gauge("feed_lag_seconds", "How far that is behind the clock.", lag)
    sampled = None if snapshot.sampled_at_ns is None else (snapshot.at_ns - snapshot.sampled_at_ns) / _NS
    made.gauge("sample_age_seconds", "Age of the run's own last sample.", sampled)
    if (more := snapshot.task_counts) is not None:
        made.counter("retries", "Tasks that were made to wait for another attempt.", more.retries)
        made.gauge("dead_letters", "Dead letters that are kept.", more.dead_letters)
        made.counter(
            "dead_letters_gone", "Dead letters that went, because there were too many.", more.dead_letters_gone
        )
    if (active := snapshot.active) is not None:
        made.gauge("workers_active", "Workers that are active.", active.now)
    for resource, guard in snapshot.guard.items():
        made.gauge("guard_holding", "1 while strands are held back.", int(guard.holding), resource=resource)
        made.counter("guard_holds", "Holds that began.", guard.begun, resource=resource)
        made.gauge("guard_reading", "What the guard measured last.", guard.reading, resource=resource)
        made.counter("guard_held_seconds", "Time of holds.", guard.held_ns / _NS, resource=resource)
    if (feed := snapshot.feed) is not None:
        made.counter("feed_messages", "Messages of the live feed.", feed.messages)
        made.counter("feed_gaps", "Gaps that stayed.", feed.gaps)
        made.counter("feed_gap_messages", "Messages that are missing in them.", feed.gap_messages)
        made.counter("feed_reconnects", "Connections that were made again.", feed.reconnects)
        for line, of in feed.lines.items():
            made.counter("feed_line_gaps", "Gaps of one line.", of.gaps, line=line)
            made.counter("feed_line_gap_messages", "Messages that one line missed.", of.gap_messages, line=line)
        for warning, n in feed.warnings.items():
            made.counter("feed_warnings", "What the run will warn of, by kind.", n, warning=warning)
    for state, n in (snapshot.threads or {}).items():
        made.gauge("threads", "Threads of a scheduler, by state.", n, state=state)


def _of_workers(made: Families, snapshot: Snapshot) -> None:
    n = len(snapshot.workers)
    shares: Sequence[float | None] = [*snapshot.busy_shares, *[None] * n][:n]
    for worker, share in zip((*snapshot.workers, snapshot.publishers), (*shares, None), strict=True):
        name = worker.name
        if snapshot.kind == "dispatcher":  # tasks are not counted by worker
            made.counter("worker_handled", "Ticks that a worker handled.", worker.handled, worker=name)
            made.counter("worker_visits", "Strands that it drained.", worker.visits, worker=name)
        made.counter("worker_busy_seconds", "Time in visits and tasks.", worker.busy_ns / _NS, worker=name)
        made.counter("worker_steals", "Strands that it took from another's list.", worker.stolen, worker=name)
        made.counter("worker_parks", "Times that it went to sleep.", worker.parks, worker=name)
        made.gauge("worker_busy_ratio", "Share of the last seconds in what has ended, 1 at most.", share, worker=name)


class Machine:
    """Meters of CPU time, memory and I/O pressure: of the tightest cgroup that this process is in, else of the machine.

    CPU time is that since the last look.

    Attributes:
        missing: Why a meter is not there, by name.
    """

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}
        self._meters: dict[str, Meter] = {}
        made: Mapping[str, Callable[[], Meter | None]] = {
            "cpu_usage": cpu_meter, "memory_usage": memory_meter, "io_pressure": io_meter,
        }  # fmt: skip
        for name, make in made.items():
            try:
                meter = make()
            except (MissingExtraError, OSError) as error:
                self.missing[name] = str(error)
                continue
            if meter is not None and meter.field in ("cpu", "memory", "io_pressure"):
                self._meters[name] = meter

    def read(self) -> dict[str, float | None]:
        """Returns the ratios of now by name; None: it cannot be read."""
        found: dict[str, float | None] = {}
        for name, meter in self._meters.items():
            try:
                found[name] = meter.read()
            except OSError as error:
                _UNREADABLE(reading=name, error=error)
                found[name] = None
        return found


class Readings:
    """Readings of a run that an ``Attached`` looks at, as ``strand.alerts.Alerts`` takes them."""

    def __init__(self, attached: Attached) -> None:
        self._attached, self._machine = attached, Machine()

    def __call__(self) -> Samples:
        """Returns the readings of now. Raises AttachError if the run cannot be read."""
        return readings(self._attached.snapshot(), self._machine.read())


def readings(snapshot: Snapshot, machine: Mapping[str, float | None]) -> Samples:
    """Returns the readings of a snapshot by name and level.

    The depth of a level is the greater of the strands and the tasks that wait in it. A wait is the longer of that of
    ticks and of tasks.
    """
    found: dict[tuple[str, str], float | None] = {
        (name, ALL): machine.get(name) for name in ("cpu_usage", "memory_usage")
    }
    kinds = [each for each in (snapshot.ticks, snapshot.tasks) if each is not None]
    for level in snapshot.levels:
        found["queue_depth", level] = _most(kind.waiting.get(level) for kind in kinds)
    found["queue_depth", ALL] = _most(sum(kind.waiting.values()) for kind in kinds)
    windows = [kind.window for kind in kinds if kind.window is not None]
    tasks = None if snapshot.tasks is None else snapshot.tasks.window
    for level in (ALL, *snapshot.levels):
        figures = [window.total if level == ALL else window.levels[level] for window in windows]
        for name, percent in (("wait_p95", 95.0), ("wait_p99", 99.0)):
            wait = _most(each.wait.percentile(percent) for each in figures)
            found[name, level] = None if wait is None else wait / _NS
        if tasks is not None:
            found["success_rate", level] = (tasks.total if level == ALL else tasks.levels[level]).success_rate
    totals = [window.total for window in windows]
    promoted = [each.promoted for each in totals if each.promoted is not None]
    started = sum(each.started for each in totals)
    found["promotion_rate", ALL] = sum(promoted) / started if promoted and started else None
    starved = [each.starved for each in totals if each.starved is not None]
    found["starvation_count", ALL] = sum(starved) if starved else None
    ended = {} if snapshot.tasks is None else snapshot.tasks.since_start.total.ended
    for end in ("dead", "failed", "expired"):
        found[f"tasks_{end}", ALL] = ended.get(end, 0)
    found["tasks_promoted", ALL] = sum(kind.since_start.total.promoted or 0 for kind in kinds)
    return found


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
