"""The ways of getting ticks to handlers that are compared, each run once and checked."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from strand.binding import lab
from strand.binding.engine import Publisher
from strand.binding.engine_words import clock_resolution_ns, histogram_floors_ns
from strand.binding.gate import Code
from strand.binding.native import NativeFunction
from strand.dispatch.configuration import Pool
from strand.dispatch.dispatcher import Dispatcher
from strand.dispatch.engine_run import engine_interior
from strand.dispatch.routing import StrandsLike
from strand.errors import EngineError
from strand.fixed import dataclass
from strand.handlers import SPIN_ROW, NativeHandler
from strand.machine import Cores, pinned
from strand.stats import Latency

WayName = Literal[
    "serial", "static", "static_lpt", "static_share", "static_share_lpt", "strand", "strand_queued", "strand_publish",
    "strand_blocks"
]  # fmt: skip
THROUGHPUT_WAYS: Final[tuple[WayName, ...]] = ("serial", "static", "static_lpt", "strand", "strand_queued")

#: The spin handler's row as the engine lays rows out: one cache line each.
ROW: Final = np.dtype(
    {
        "names": list(SPIN_ROW.names or ()),
        "formats": [SPIN_ROW[name] for name in SPIN_ROW.names or ()],
        "offsets": [8 * i for i in range(len(SPIN_ROW.names or ()))],
        "itemsize": 64,
    }
)
#: Time for workers to pin themselves and start looking for work.
SETTLE_S: Final = 0.005
MAX_PUBLISHERS: Final = 8


@dataclass(frozen=True)
class Job:
    """Stream to route. ``counts`` has shape (symbols,), its ticks by symbol.

    ``counts_known``: whether strands are grouped by them, as static-lpt always is; else by a first look at the stream's
    start. Either way that is done before the clock runs.
    ``paced``: ticks are sent when due, by ``ts_recv`` from the first tick's, and latency is measured from then on.
    ``order``: the dispatcher's options of its policy.
    ``again``: a dispatcher gets the stream twice, and the second time counts: by then ``ingest="auto"`` has chosen.
    """

    ticks: npt.NDArray[Any]
    symbols: int
    counts: npt.NDArray[Any]
    handler: NativeHandler
    cores: Cores
    batch_ticks: int = 8192
    strands: StrandsLike = "auto"
    idle: str = "spin"
    counts_known: bool = True
    paced: bool = False
    order: Mapping[str, Any] = field(default_factory=dict)
    again: bool = False

    @property
    def pool(self) -> Pool:
        """The threads of a dispatcher."""
        cores = self.cores.pinned_workers
        return Pool(workers=self.workers, cores=cores, idle=self.idle, max_publishers=MAX_PUBLISHERS)

    @property
    def workers(self) -> int:
        return len(self.cores.workers)

    @property
    def function(self) -> NativeFunction:
        if not isinstance(self.handler.function, NativeFunction):
            raise ValueError("benchmarks run only native handlers")
        return self.handler.function


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one run. ``seconds``: from the first tick published to the last one handled; starting and ending
    threads is excluded in every way. ``publish_ns``: per tick, without waiting for room and without handling.
    ``inline_share``: share of the ticks that the publisher handled where they lay. ``latency_counts``: ticks by bucket
    when paced."""

    seconds: float
    publish_ns: float
    inline_share: float = 0.0
    latency_counts: npt.NDArray[np.uint64] | None = None

    def latency(self) -> Latency:
        """Latency from the intended send time."""
        if self.latency_counts is None:
            raise ValueError("latency is measured in paced runs only")
        return Latency.from_histogram(self.latency_counts, histogram_floors_ns(), clock_resolution_ns())


Rows = npt.NDArray[Any]


def run(way: WayName, job: Job, expected: Rows | None = None) -> tuple[Outcome, Rows]:
    """Runs the job once, and checks the rows: every tick counted, in order a symbol, and all equal to ``expected``.

    Raises EngineError naming the way when they are not.
    """
    outcome, rows = _WAYS[way](job)
    _check(way, job, rows, expected)
    return outcome, rows


def rounds(
    job: Job,
    ways: Sequence[WayName],
    n: int,
    *,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
    progress: Callable[[int, int], None] | None = None,
) -> dict[WayName, list[Outcome]]:
    """Runs each way ``n`` times, in turn, as ``run`` does, within ``around()``. ``progress`` is called with the runs
    done and those in all."""
    expected = expected_rows(job)
    found: dict[WayName, list[Outcome]] = {way: [] for way in ways}
    for done, way in enumerate([*ways] * n, 1):
        with around():
            found[way].append(run(way, job, expected)[0])
        if progress is not None:
            progress(done, n * len(ways))
    return found


def expected_rows(job: Job) -> Rows:
    """The rows a plain loop leaves."""
    return run("serial", dataclasses.replace(job, paced=False))[1]


def _check(way: str, job: Job, rows: Rows, expected: Rows | None) -> None:
    wrong = np.flatnonzero(rows["ticks"] != job.counts)
    if len(wrong):
        first = int(wrong[0])
        raise EngineError(
            f"{way}: symbol {first} handled {rows['ticks'][first]} of its {job.counts[first]} ticks, "
            f"and {len(wrong) - 1} others are wrong"
        )
    broken = int(rows["broken"].sum())
    if broken:
        raise EngineError(f"{way}: {broken} ticks were handled out of order")
    if expected is not None and not np.array_equal(rows["value"], expected["value"]):
        raise EngineError(f"{way}: rows differ from those of a plain loop")


def static_homes(job: Job, *, by_counts: bool, own: float | None = None) -> npt.NDArray[np.uint8]:
    """Each symbol's worker: its index modulo the workers, or largest first by the counts of the whole stream.

    ``own``: the publisher has a share too, and is worker number ``job.workers``; by counts one that leaves it the time
    in which it could handle so many ticks."""
    symbols, threads = np.arange(job.symbols), job.workers + (own is not None)
    if not by_counts:
        return (symbols % threads).astype(np.uint8)
    load = [0.0] * threads
    if own is not None:
        load[-1] = own
    homes = np.zeros(job.symbols, np.uint8)
    for symbol in np.argsort(-job.counts.astype(np.int64), kind="stable").tolist():
        count = int(job.counts[symbol])
        if count == 0:
            break
        worker = load.index(min(load))
        homes[symbol] = worker
        load[worker] += count
    return homes


def _new_rows(job: Job) -> Rows:
    raw = np.zeros(job.symbols * ROW.itemsize + ROW.itemsize, np.uint8)
    start = -raw.ctypes.data % ROW.itemsize
    raw.fill(0)  # every page is there before the clock runs
    return raw[start : start + job.symbols * ROW.itemsize].view(ROW)


def _probe(job: Job, publishers: int) -> lab.Probe | None:
    return lab.Probe(job.function, job.workers + publishers) if job.paced else None


def _serial(job: Job) -> tuple[Outcome, Rows]:
    probe, rows = _probe(job, 1), _new_rows(job)
    function = probe.function if probe else job.function
    with pinned(job.cores.publisher):
        result = lab.serial(function, rows, job.ticks, probe)
    return Outcome(result.seconds, result.publish_ns, latency_counts=probe.counts() if probe else None), rows


def _static_share(job: Job) -> tuple[Outcome, Rows]:
    """Static routing by counts in which the publisher has the share that leaves it time to publish: what publishing and
    handling cost is measured first, on a part of the stream."""
    first = job.ticks[: min(len(job.ticks), 1 << 19)]
    part = dataclasses.replace(
        job, ticks=first, counts=np.bincount(first["instrument_id"], minlength=job.symbols), paced=False
    )
    handling_s = _serial(part)[0].seconds
    publishing_s = _static(part, by_counts=True)[0].publish_ns * len(first) * 1e-9
    return _static(job, by_counts=True, own=publishing_s / handling_s * len(job.ticks) if handling_s else 0.0)


def _static(job: Job, *, by_counts: bool, own: float | None = None) -> tuple[Outcome, Rows]:
    probe, rows = _probe(job, own is not None), _new_rows(job)
    homes = static_homes(job, by_counts=by_counts, own=own)
    function = probe.function if probe else job.function
    with pinned(job.cores.publisher):
        result = lab.static(function, rows, job.ticks, home=homes, cores=job.cores.workers, probe=probe)
    return Outcome(result.seconds, result.publish_ns, latency_counts=probe.counts() if probe else None), rows


def _strand(job: Job, *, inline: bool, ingest: str = "auto") -> tuple[Outcome, Rows]:
    probe = _probe(job, MAX_PUBLISHERS)
    function = probe.function if probe else job.function
    # Only a handler that promises not to publish is run by a publisher where the ticks lie.
    function = function._replace(never_publishes=function.never_publishes and inline)
    handler = dataclasses.replace(job.handler, function=function)
    dispatcher = Dispatcher(
        job.symbols,
        handler,
        pool=job.pool,
        strands=job.strands,
        counts=job.counts if job.counts_known else None,
        batch_ticks=job.batch_ticks,
        ingest=ingest,
        **job.order,
    )
    engine_interior(dispatcher).route(job.ticks)  # before the clock runs, as static-lpt's homes are settled
    with dispatcher:
        time.sleep(SETTLE_S)
        with pinned(job.cores.publisher):  # not before the workers exist: they may use all cores this thread may
            if job.again:
                _publish(dispatcher, job)
                rows = dispatcher.rows.array.copy()
            outcome = _paced(dispatcher, job, probe) if probe else _publish(dispatcher, job)
    if not job.again:
        return outcome, dispatcher.rows.array
    if not np.array_equal(dispatcher.rows.array["ticks"], 2 * job.counts):
        raise EngineError("strand: ticks of the second time are missing")
    return Outcome(outcome.seconds, 0.0, outcome.inline_share / 2), rows


def _publish(dispatcher: Dispatcher, job: Job) -> Outcome:
    start = time.perf_counter_ns()
    dispatcher.publish(job.ticks)
    published = time.perf_counter_ns()
    mine = engine_interior(dispatcher).engine.counters(job.workers)  # the first publisher's participant
    dispatcher.drain()
    end = time.perf_counter_ns()
    # busy_ns is of ticks handled where they lay and of visits; the time of visits is in waited_ns already.
    inline_ns = mine["busy_ns"] * mine["handled_inline"] / mine["handled"] if mine["handled"] else 0.0
    spent_ns = published - start - mine["waited_ns"] - inline_ns
    n = len(job.ticks)
    return Outcome((end - start) * 1e-9, max(0.0, spent_ns) / n, mine["handled_inline"] / n)


def publish_paced(name: str, dispatcher: Dispatcher, job: Job, probe: lab.Probe) -> tuple[float, int]:
    """Publishes a job's ticks when each is due, and drains. Returns the seconds, and the ticks handled inline.

    Raises EngineError, with the ``name`` of the way, if the engine stops.
    """
    held = Publisher(engine_interior(dispatcher).engine)
    held.take()
    participant = held.number
    assert participant is not None  # nobody else publishes
    try:
        start = time.perf_counter_ns()
        code = lab.publish_paced(engine_interior(dispatcher).engine, participant, job.ticks, job.batch_ticks, probe)
        handled_inline = engine_interior(dispatcher).engine.counters(participant)["handled_inline"]
    finally:
        held.give()
    if code != Code.OK:
        raise EngineError(f"{name}: publishing ended with code {code}")
    dispatcher.drain()
    return (time.perf_counter_ns() - start) * 1e-9, handled_inline


def _paced(dispatcher: Dispatcher, job: Job, probe: lab.Probe) -> Outcome:
    seconds, handled_inline = publish_paced("strand", dispatcher, job, probe)
    return Outcome(seconds, 0.0, handled_inline / len(job.ticks), latency_counts=probe.counts())


_WAYS: Final[Mapping[WayName, Callable[[Job], tuple[Outcome, Rows]]]] = {
    "serial": _serial,
    "static": lambda job: _static(job, by_counts=False),
    "static_lpt": lambda job: _static(job, by_counts=True),
    "static_share": lambda job: _static(job, by_counts=False, own=0.0),
    "static_share_lpt": _static_share,
    "strand": lambda job: _strand(job, inline=True),
    "strand_publish": lambda job: _strand(job, inline=True, ingest="publish"),
    "strand_blocks": lambda job: _strand(job, inline=True, ingest="blocks"),
    "strand_queued": lambda job: _strand(job, inline=False),
}
