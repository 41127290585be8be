"""The part of a dispatcher that counts, and the dispatcher's description for other processes."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict

import numpy as np

from strand.binding.books import BookMemory, DepthMemory
from strand.binding.engine import Engine, GroupCounts
from strand.binding.engine_words import BLOCKS_CHEAP_NS, BLOCKS_DEAR_NS, no_blocks, segment_bytes
from strand.binding.memory import ABI_VERSION
from strand.binding.outside import Counters
from strand.brief import brief, listed, several
from strand.dicts import FrozenDict
from strand.dispatch.records import OrderWatch
from strand.dispatch.routing import Routing
from strand.dispatch.state import RunState
from strand.errors import AttachError, ConfigurationError
from strand.fixed import dataclass
from strand.logs import Event
from strand.machine import strand_version
from strand.policies.policy import CLASSES, LEVELS, RULES
from strand.stats import (
    FairStatistics,
    GroupStatistics,
    IngestStatistics,
    Latency,
    LongStretch,
    Statistics,
    WorkerStatistics,
)
from strand.units import layout_from_json, layout_to_json

if TYPE_CHECKING:
    from strand.binding.engine_words import EngineConfig
    from strand.dispatch.guarding import Guarding
    from strand.dispatch.watching import Activating
    from strand.handlers import Handler
    from strand.handlers.base import BoundHandler
    from strand.symbols import SymbolTable


class PolicyCounts(TypedDict):
    """See Statistics."""

    promoted: Mapping[str, int]
    starved: Mapping[str, int]
    picked: Mapping[str, int]
    picked_by_rule: Mapping[str, int]


def statistics_of_run(state: RunState, orders: OrderWatch, routing: Routing) -> Statistics:
    """Totals of a run since the start."""
    found = statistics_of(
        state.engine,
        watermark=state.engine.watermark(),  # before the totals, which then have what is below it
        abandoned=state.abandoned,
        cores=state.cores,
        unpinned=state.unpinned,
        orders_as_plain=orders.count,
        paced=state.paced,
    )
    return replace(
        found,
        guard=FrozenDict() if state.guarding is None else state.guarding.statistics(),
        active=None if state.activating is None else state.activating.statistics(),
        fair=fair_of_run(state, routing),
        overload=state.overload.found,
    )


def facts_of_run(state: RunState) -> dict[str, Any]:
    """The decisions about the workers and strands, for samples. It logs failures that are new."""
    state.tell_failures()
    return decisions(state.guarding, state.activating) | {
        "overload": None if state.overload.found is None else asdict(state.overload.found),
        "outputs_below": state.outputs.merger.below,
        "feed": state.feed_counts(),
    }


def fair_of_run(state: RunState, routing: Routing) -> FairStatistics | None:
    """Counts of ``Fair``; None under another policy."""
    groups = routing.groups
    if groups is None:
        return None

    def symbols_of(strand: int) -> tuple[str, ...]:
        symbols = np.flatnonzero(routing.by_counts(None) == strand)
        return tuple(state.table[int(index)] for index in symbols)

    if groups.accounts is not None:
        counts, found = groups.accounts.counted()
    else:
        counts = state.engine.schedule.group_counts(len(groups))
        found = {} if counts is None else dict(zip(groups.names(), counts.groups, strict=True))
    return fair_statistics(state.engine, counts, found, symbols_of)


def decisions(guarding: Guarding | None, activating: Activating | None) -> dict[str, Any]:
    """Decisions of a guard, and about the number of active workers, as plain numbers."""
    guard = {} if guarding is None else guarding.statistics()
    return {
        "guard": {resource: asdict(decided) for resource, decided in guard.items()},
        "active": None if activating is None else asdict(activating.statistics()),
    }


def fair_statistics(
    engine: Engine,
    counts: GroupCounts | None,
    groups: Mapping[str, tuple[int, int, int, int]],
    symbols_of: Callable[[int], tuple[str, ...]],
) -> FairStatistics | None:
    """Counters of Fair; None: the policy is another one. ``groups``: the counts of each name, as GroupCounts has them.
    ``symbols_of``: the symbols of a strand."""
    if counts is None:
        return None
    total = sum(on_cpu_ns for on_cpu_ns, *_ in groups.values())
    by_group = {
        name: GroupStatistics(on_cpu_ns, on_cpu_ns / total if total else 0.0, ends, stretches, longest_ns or None)
        for name, (on_cpu_ns, ends, stretches, longest_ns) in groups.items()
    }
    longest = tuple(
        LongStretch(symbols_of(strand), visits, longest_ns)
        for strand, visits, longest_ns in sorted(counts.longest, key=lambda found: -found[2])
    )
    holds = counts.holds if engine.config.policy.options["cpu_share"] > 0 else None
    return FairStatistics(FrozenDict(by_group), holds, counts.long_stretches, longest)


def counted_by_policy(engine: Counters) -> PolicyCounts:
    """Each of them is empty where the policy does not count it."""
    counts = engine.policy_counts()
    picked = counts.get("picked", [])
    return {
        "promoted": FrozenDict(zip(LEVELS, counts.get("promoted", ()), strict=False)),
        "starved": FrozenDict(zip(LEVELS, counts.get("starved", ()), strict=False)),
        "picked": FrozenDict(zip(CLASSES[len(CLASSES) - len(picked) :], picked, strict=True)),
        "picked_by_rule": FrozenDict(zip(RULES, counts.get("picked_by_rule", ()), strict=False)),
    }


def ingest_of(told: Mapping[str, Any], handled: int, in_blocks: int, ungrouped: int) -> IngestStatistics:
    """The way of a run. ``told``: of ``Counters.blocks``."""
    asked, ran = told["ingest"], told["runs"] > 0
    publish_ns, blocks_ns = (cost or None if told["reason"] is None else None for cost in told["costs"])
    if asked == "publish":
        blocks_ns = None
    elif asked == "blocks":  # nothing was compared: the runs' own time
        publish_ns, blocks_ns = None, told["elapsed"] / in_blocks if in_blocks else None
    threads, elapsed = told["threads"], told["elapsed"]
    shares = {name: told[name] / threads for name in ("reading", "listing", "handling")} if threads else {}
    if shares:
        shares["waiting"] = max(0.0, 1.0 - sum(shares.values()))
    return IngestStatistics(
        way="blocks" if 2 * in_blocks > handled else "ungrouped" if 2 * ungrouped > handled else "publish",
        asked=asked,
        why=_why(told, handled, in_blocks, publish_ns, blocks_ns),
        impossible=told["reason"],
        publish_ns=publish_ns,
        blocks_ns=blocks_ns,
        handled_ungrouped=ungrouped,
        runs=told["runs"],
        blocks=told["adopted"],
        slots=told["slots"] if ran else None,
        slots_used=told["used"] if ran else None,
        homes=told["homes"] if ran else None,
        lag_blocks=told["behind"] if ran else None,
        shares=FrozenDict(shares),
        busiest_home=min(1.0, told["busiest"] / elapsed) if elapsed else None,
    )


def _why(
    told: Mapping[str, Any], handled: int, in_blocks: int, publish_ns: float | None, blocks_ns: float | None
) -> str:
    if told["ingest"] == "publish":
        return "ingest='publish' was given"
    if told["reason"] is not None:
        return no_blocks(told["reason"])
    unfit = (
        "nothing was fit for blocks: they take plain files of ITCH and DBN, merges of these, and calls of 32,768 ticks "
        "and more, and docs/blocks.md has the conditions of each"
    )
    if told["refused"]:
        unfit = f"blocks did not begin, {several(told['refused'], 'time')}: a strand was busy, paused or quarantined"
    if told["ingest"] == "blocks":
        as_arrays = ", and only arrays went in blocks: no file was read in them" if not told["reading"] else ""
        return "ingest='blocks' was given" + (as_arrays if told["runs"] else f", but {unfit}")
    if publish_ns is not None and blocks_ns is not None:
        cheaper = "blocks cost" if blocks_ns < publish_ns else "publishing costs"
        ago = (blocks_ns < publish_ns) != (2 * in_blocks > handled)
        return f"{cheaper} less, as measured{' towards the end' if ago else ''}"
    if told["runs"]:
        return "the trial of blocks was not over"
    if handled < told["tried_after"]:
        return f"blocks are tried after {told['tried_after']:,} ticks"
    if publish_ns is not None and not BLOCKS_CHEAP_NS <= publish_ns <= BLOCKS_DEAR_NS:
        return f"blocks are tried where a tick costs {BLOCKS_CHEAP_NS} to {BLOCKS_DEAR_NS:,} ns"
    return unfit


def statistics_of(
    engine: Counters,
    *,
    watermark: int | None = None,
    abandoned: int = 0,
    cores: Sequence[int | None] | None = None,
    unpinned: str | None = None,
    orders_as_plain: int = 0,
    paced: bool = True,
) -> Statistics:
    """Statistics of an engine, with the figures that only its dispatcher knows."""
    t = engine.totals()
    floors, resolution_ns = engine.histogram_floors_ns(), engine.clock_resolution_ns()
    wait, handler, end_to_end = (
        Latency.from_histogram(engine.histogram(name).sum(axis=0), floors, resolution_ns)
        for name in ("wait", "handler", "end_to_end")
    )
    dropped = {
        "newest": t["dropped_newest"],
        "oldest": t["dropped_oldest"],
        "conflated": t["conflated"],
        "quarantined": t["dropped_quarantined"],
        "shed": t["shed"],
        "failed": t["failed"],
        "lost": t["lost"],
        "abandoned": abandoned,
    }
    by_policy = counted_by_policy(engine)
    dropped_by_level = engine.dropped_by_level() if by_policy["promoted"] else ()
    return Statistics(
        accepted=t["accepted"],
        handled=t["handled"],
        dropped=FrozenDict(dropped),
        pending=t["pending"] - abandoned,
        handled_inline=t["handled_inline"],
        handled_in_blocks=t["handled_in_blocks"],
        ingest=ingest_of(engine.blocks(), t["handled"], t["handled_in_blocks"], t["handled_ungrouped"]),
        visits=t["visits"],
        stolen=t["stolen"],
        cut=t["cut"],
        parks=t["parks"],
        wakes=t["wakes"],
        watermark=watermark,
        wait=wait,
        handler=handler,
        end_to_end=end_to_end,
        workers=_workers(engine, cores),
        unpinned=unpinned,
        orders_as_plain=orders_as_plain,
        paced=paced,
        **by_policy,
        dropped_by_level=FrozenDict(zip(LEVELS, dropped_by_level, strict=False)),
    )


def _workers(engine: Counters, cores: Sequence[int | None] | None) -> tuple[WorkerStatistics, ...]:
    keys = ("handled", "busy_ns", "visits", "stolen", "parks")
    participants, n_workers = [engine.counters(i) for i in range(engine.n_participants)], engine.n_workers
    found = [
        WorkerStatistics(f"worker {i}", cores[i] if cores else None, *(c[k] for k in keys))
        for i, c in enumerate(participants[:n_workers])
    ]
    sums = [sum(c[k] for c in participants[n_workers:]) for k in keys]
    return (*found, WorkerStatistics("publishers", None, *sums))


class Attachable:
    """A dispatcher or scheduler, whose memory another process may look at if it is made so."""

    _engine: Engine

    @property
    def memory_fd(self) -> int:
        """The descriptor of the file that the run's memory lies over, for ``strand.attach(fd=...)``.

        Hand it to the process that attaches. It stays the run's, which closes it.

        Raises:
            ConfigurationError: Without ``attachable=True``.
        """
        if not self._engine.config.attachable:
            raise ConfigurationError("memory_fd", "the memory of this run is private; make it with attachable=True")
        return self._engine.space.fd


@dataclass(frozen=True)
class HandlerDescription:
    """Description of a handler: its name, its row with the fields' declarations, and the worth of 1 in a size (None:
    unknown).

    ``books``: where its books lie, ``of_levels``: whether they are of levels and not of orders; None: it keeps none."""

    name: str
    row: np.dtype[Any]
    size_unit: float | None
    books: int | None = None
    of_levels: bool = False


@dataclass(frozen=True, repr=False)
class Description:
    """``version``: of strand; ``pid`` and ``made_at`` (seconds since 1970, UTC): which process made it, and when.
    ``configuration``: sizes and choices, by the names of ``Dispatcher``'s arguments where it has them.
    ``choices``: see the function ``choices``. ``paced``: see ``Statistics``. ``recorded``: whether it is a replay of
    what was recorded. ``kind``: ``"dispatcher"`` or ``"scheduler"``. ``levels``: names of the levels by which the
    policy counts, the highest first, else ``"all"``."""

    name: str
    version: str
    pid: int
    made_at: float
    configuration: Mapping[str, Any]
    handlers: tuple[HandlerDescription, ...]
    outputs: tuple[str, ...]
    choices: Mapping[str, Any]
    paced: bool = True
    recorded: bool = False
    kind: str = "dispatcher"
    policy: str = "fifo"
    levels: tuple[str, ...] = ("all",)

    def __repr__(self) -> str:
        return brief(self, self.name, f"process {self.pid}", listed(handler.name for handler in self.handlers))

    @classmethod
    def of(cls, text: bytes) -> Description:
        """Reads the text. Raises AttachError where it is no description."""
        try:
            about = json.loads(text)
            handlers = tuple(
                HandlerDescription(
                    str(h["name"]), layout_from_json(h["row"]), h["size_unit"], h["books"], bool(h["of_levels"])
                )
                for h in about["handlers"]
            )
            return cls(
                str(about["name"]),
                str(about["version"]),
                int(about["pid"]),
                float(about["made_at"]),
                dict(about["configuration"]),
                handlers,
                tuple(map(str, about["outputs"])),
                dict(about["choices"]),
                bool(about["paced"]),
                bool(about["recorded"]),
                str(about["kind"]),
                str(about["configuration"]["policy"]["name"]),
                tuple(map(str, about["levels"])),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise AttachError("it is damaged: its description cannot be read") from error


def choices(
    kind: str,
    name: str,
    engine: Engine,
    cores: Sequence[int | None] | None,
    limits: Mapping[str, Any],
    *,
    handlers: Sequence[Handler] = (),
    outputs: Iterable[str] = (),
    **options: object,
) -> dict[str, Any]:
    """Everything that was chosen for a run of this process, as plain values: for ``strand describe``, and for the line
    of the log at its start.

    Args:
        kind: ``"dispatcher"`` or ``"scheduler"``.
        name: The run's name.
        engine: Its engine, whose memory has been asked for.
        cores: The core of each worker; None: nothing is pinned.
        limits: Bounds of queues, by name.
        handlers: Of a dispatcher.
        outputs: The names of its outputs.
        options: Other options by name, as ``policy`` and ``guard``. Objects are written as one writes them.
    """
    config = engine.config
    written = {
        name: value if value is None or isinstance(value, (int, str)) else repr(value)
        for name, value in options.items()
    }
    memory = {"addresses_bytes": engine.space.bytes, "attachable": config.attachable}
    of_ticks: dict[str, Any] = {}
    if kind == "dispatcher":
        of_ticks = {
            "max_symbols": config.n_symbols,
            "strands": config.n_strands,
            "handlers": [handler.name for handler in handlers],
            "outputs": list(outputs),
            "budget": {"ticks": config.budget_ticks, "us": config.budget_ns / 1000},
        }
        memory |= {
            "queues_bytes": config.n_segments * segment_bytes(config.record_size, config.has_positions),
            "rows_bytes": config.n_symbols * config.row_bytes,
        }
    return {
        "kind": kind,
        "name": name,
        "pid": os.getpid(),
        "versions": {"strand": strand_version(), "layout": ABI_VERSION, "python": platform.python_version()},
        "workers": config.n_workers,
        "cores": None if cores is None else list(cores),
        "cores_allowed": sorted(os.sched_getaffinity(0)),
        "idle": config.idle,
        **written,
        **of_ticks,
        "limits": dict(limits),
        "memory": memory,
    }


class _Line(dict[str, Any]):
    """A mapping whose text has its values in one line, but for those that are empty."""

    def __str__(self) -> str:
        values = {name: value for name, value in self.items() if value not in (None, "", [], {})}
        return " ".join(f"{name}={json.dumps(value, default=str)}" for name, value in values.items())


_STARTED: Final = Event("run.started", ".dispatch", "INFO", "%(run)s starts: %(chosen)s")
_ENDED: Final = Event("run.ended", ".dispatch", "INFO", "%(run)s has ended: %(counts)s")


def say_started(run: str, chosen: Callable[[], Mapping[str, Any]]) -> None:
    """Logs everything that was chosen for a run, in one line. ``chosen``: its ``choices``."""
    if _STARTED.is_on:
        _STARTED(run=run, chosen=_Line(chosen()))


def say_ended(run: str, counts: Callable[[], Mapping[str, int]]) -> None:
    """Logs the counts of a run that has ended."""
    if _ENDED.is_on:
        _ENDED(run=run, counts=_Line(counts()))


def described(
    chosen: Mapping[str, Any],
    config: EngineConfig,
    handlers: Sequence[Handler],
    bound: Sequence[BoundHandler],
    *,
    paced: bool,
    levels: Sequence[str],
    recorded: bool = False,
) -> bytes:
    """The text for a dispatcher or scheduler of this process. ``chosen``: its ``choices``."""
    about = {
        "name": chosen["name"],
        "version": strand_version(),
        "pid": os.getpid(),
        "made_at": time.time(),
        "configuration": asdict(config),
        "handlers": [_described(h, b.memory) for h, b in zip(handlers, bound, strict=True)],
        "outputs": chosen.get("outputs", []),
        "choices": chosen,
        "paced": paced,
        "recorded": recorded,
        "kind": chosen["kind"],
        "levels": list(levels) or ["all"],
    }
    return json.dumps(about, default=int).encode()


def _described(handler: Handler, memory: object) -> dict[str, Any]:
    return {
        "name": handler.name,
        "row": layout_to_json(handler.state),
        "size_unit": handler.size_unit,
        "books": memory.offset if isinstance(memory, (BookMemory, DepthMemory)) else None,
        "of_levels": isinstance(memory, DepthMemory),
    }


class ShownNames:
    """The names of a dispatcher's symbols that whoever attaches finds in its memory."""

    def __init__(self, engine: Engine, table: SymbolTable) -> None:
        self._engine = engine
        self._table = table
        self._known: set[int] = set()

    def update(self) -> None:
        """Adds the names that are new."""
        table, known = self._table, self._known
        new = {key: table.name(key) for key in range(table.n_named) if key not in known and table.has_name(key)}
        if new:
            self._engine.outside.set_names(new)
            known.update(new)
