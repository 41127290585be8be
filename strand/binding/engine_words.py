"""The engine, seen from Python: codes become exceptions here, arrays become pointers here, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import Core, ffi, lib
from strand.binding.gate import text_of
from strand.fixed import dataclass

__all__ = [
    "AGING_BY_LOAD",
    "AGING_MAXIMUM",
    "AGING_USUAL",
    "ALL_BUT_ONE",
    "BLOCKS_CHEAP_NS",
    "BLOCKS_DEAR_NS",
    "BUCKETS",
    "BUCKETS_AN_OCTAVE",
    "CACHED_SEGMENTS",
    "COUNTERS",
    "HISTOGRAMS",
    "IDLE",
    "INGEST",
    "MARKS",
    "NO_BLOCKS",
    "ON_ERROR",
    "ON_FULL",
    "PAUSED",
    "QUARANTINED",
    "RESOURCES",
    "UNIT_WEIGHT",
    "EngineConfig",
    "Failure",
    "PolicyConfig",
    "RunByPython",
    "SampleRing",
    "StrandInspection",
    "Until",
    "addresses",
    "clock_resolution_ns",
    "config_struct",
    "histogram_floors_ns",
    "no_blocks",
    "segment_bytes",
    "segment_records",
    "text_of",
]

IDLE: Final = {"spin": lib.SD_IDLE_SPIN, "backoff": lib.SD_IDLE_BACKOFF, "park": lib.SD_IDLE_PARK}
#: Of an engine without ticks: its workers park without looks before it.
_SLEEP: Final = {"sleep": lib.SD_IDLE_SLEEP}
ON_FULL: Final = {
    "block": lib.SD_BLOCK,
    "drop_newest": lib.SD_DROP_NEWEST,
    "drop_oldest": lib.SD_DROP_OLDEST,
    "conflate": lib.SD_CONFLATE,
    "raise": lib.SD_RAISE,
    "shed": lib.SD_SHED,
}
INGEST: Final = {"auto": lib.SD_INGEST_AUTO, "blocks": lib.SD_INGEST_BLOCKS, "publish": lib.SD_INGEST_PUBLISH}
#: The costs in ns per tick between which ``ingest="auto"`` tries blocks.
BLOCKS_CHEAP_NS: Final[int] = lib.SD_CHOICE_CHEAP_NS
BLOCKS_DEAR_NS: Final[int] = lib.SD_CHOICE_DEAR_NS


def no_blocks(why: str) -> str:
    """Says that nothing can go in blocks: ``why`` of NO_BLOCKS."""
    return f"'blocks' is not possible here: {why}"


#: Why ticks may not be handled in blocks, by the core's number of the reason.
NO_BLOCKS: Final = {
    lib.SD_BLOCKS_POSSIBLE: None,
    lib.SD_BLOCKS_ORDERED: "the policy orders strands",
    lib.SD_BLOCKS_HANDLERS: "they need one native handler for all symbols, which publishes nothing",
    lib.SD_BLOCKS_BOUND: "they need on_full='block', and no bound over several strands",
    lib.SD_BLOCKS_NO_DRAINING: "publishers may not run handlers (publisher_drains=False)",
    lib.SD_BLOCKS_ONE_CORE: "there is one core only",
    lib.SD_BLOCKS_TIMED: "the handlers' times are measured by symbol (watch, or time_handlers)",
}
ON_ERROR: Final = {"stop": lib.SD_ON_ERROR_STOP, "quarantine": lib.SD_ON_ERROR_QUARANTINE}

#: Under aging: the priority of class 0 and base 0, the largest base, and what stands for ``low_every="load"``.
AGING_USUAL: Final[int] = lib.SD_AGING_USUAL
AGING_MAXIMUM: Final[int] = lib.SD_AGING_MAX
AGING_BY_LOAD: Final[int] = lib.SD_AGING_BY_LOAD
#: As ``EngineConfig.python_workers``: one fewer than are active, and at least one.
ALL_BUT_ONE: Final[int] = lib.SD_ALL_BUT_ONE
#: Addresses that a task takes at most, with what a policy keeps of it on all lists.
TASK_ADDRESSES: Final = 1024
#: The core's weight of a group of weight 1.
UNIT_WEIGHT: Final[int] = lib.SD_FAIR_UNIT_WEIGHT
#: Segments that can lie in one participant's cache.
CACHED_SEGMENTS: Final[int] = 2 * lib.SD_FREE_RUN


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """Name of a policy, and its options as the core's struct of that name has them."""

    name: str = "fifo"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Sizes and choices as the core takes them; strand.dispatch.dispatcher checks them and fills them in."""

    n_symbols: int
    n_strands: int
    n_workers: int
    n_publishers: int
    record_size: int
    key_offset: int
    sequence_offset: int | None
    sequence_high: int
    row_bytes: int
    n_segments: int
    idle: str
    on_error: str
    on_full: str
    capacity_ticks: int
    budget_ticks: int
    budget_ns: int
    batch_ticks: int
    ahead_ticks: int
    publisher_drains: bool
    one_core: bool
    ingest: str = "auto"
    has_positions: bool = False
    time_offset: int | None = None
    attachable: bool = False
    output_memory: int = 0
    counters_start: int = 0
    policy: PolicyConfig = PolicyConfig()
    #: Bounds over strands: in all, and by level, the highest first. 0: none.
    total_capacity_ticks: int = 0
    level_capacity_ticks: tuple[int, ...] = (0, 0, 0, 0, 0)
    #: Workers that may run Python's tasks at a time, or ALL_BUT_ONE. 0: all.
    python_workers: int = 0
    #: Tasks that may wait or run at once. Those never used take addresses and no memory.
    n_tasks: int = 65_536
    #: Under Fair, groups that may live at a time beside one for each strand. Those never used take addresses alone.
    n_task_groups: int = 4096

    @property
    def n_groups(self) -> int:
        """Largest number of groups at a time under Fair."""
        return self.n_strands + max(self.n_task_groups, int(lib.SD_FAIR_MORE_GROUPS))

    @property
    def is_bounded(self) -> bool:
        """True if a bound over several strands is set."""
        return self.total_capacity_ticks > 0 or any(self.level_capacity_ticks)


def segment_records(record_size: int) -> int:
    """Records of a size that lie in one block."""
    return int((lib.SD_SEGMENT_BYTES - lib.SD_SEGMENT_HEADER) // record_size)


def segment_bytes(record_size: int, has_positions: bool) -> int:
    """Bytes of a block: longer where records carry positions."""
    if not has_positions:
        return int(lib.SD_SEGMENT_BYTES)
    records = segment_records(record_size)
    positions_at = (lib.SD_SEGMENT_HEADER + records * record_size + 7) // 8 * 8
    return int((positions_at + records * ffi.sizeof("sd_position") + 63) // 64 * 64)


def addresses(config: EngineConfig) -> int:
    """Bytes of addresses that segments, rows, and what handlers emit can take."""
    segments = int(config.n_segments) * segment_bytes(config.record_size, config.has_positions)
    emitted = min(int(lib.SD_OUTPUT_SLACK) * int(config.output_memory), 1 << 36)  # more than references can name
    return (
        segments
        + config.n_symbols * (config.row_bytes + 64)
        + emitted
        + config.n_tasks * TASK_ADDRESSES
        + config.n_groups * 256
    )


def config_struct(config: EngineConfig, core: Core) -> Any:
    """An sd_config."""
    c = core.ffi.new("sd_config *")
    for name in ("n_symbols", "n_strands", "n_workers", "n_publishers", "record_size", "key_offset", "row_bytes",
                 "n_segments", "n_tasks", "counters_start"):  # fmt: skip
        setattr(c.sizes, name, getattr(config, name))
    c.sizes.sequence_offset = lib.SD_NONE if config.sequence_offset is None else config.sequence_offset
    c.sizes.sequence_high = config.sequence_high
    c.sizes.has_positions = config.has_positions
    c.time_offset = lib.SD_NONE if config.time_offset is None else config.time_offset
    c.idle, c.on_error, c.on_full = (IDLE | _SLEEP)[config.idle], ON_ERROR[config.on_error], ON_FULL[config.on_full]
    c.policy.number = lib.sd_policy_number(config.policy.name.encode())
    c.policy.fair.n_groups = config.n_groups
    for name, value in config.policy.options.items():
        setattr(getattr(c.policy, config.policy.name), name, value)
    c.capacity, c.total_capacity = config.capacity_ticks, config.total_capacity_ticks
    c.level_capacity = config.level_capacity_ticks
    c.budget_records, c.budget_ns = config.budget_ticks, config.budget_ns
    c.batch_records, c.ahead_records = config.batch_ticks, config.ahead_ticks
    c.publisher_drains, c.one_core = config.publisher_drains, config.one_core
    c.python_workers, c.ingest = config.python_workers, INGEST[config.ingest]
    return c


PAUSED: Final[int] = lib.SD_PAUSED
QUARANTINED: Final[int] = lib.SD_QUARANTINED

#: Of a set of resources that are short, or of a symbol's marks, the bit of each.
RESOURCES: Final = {"cpu": 1 << lib.SD_CPU, "memory": 1 << lib.SD_MEMORY, "io": 1 << lib.SD_IO}
MARKS: Final = {"io": int(lib.SD_MARK_IO), "frees_memory": int(lib.SD_MARK_FREES_MEMORY)}

COUNTERS: Final = (
    "accepted", "handled", "failed", "dropped_newest", "dropped_oldest", "conflated", "dropped_quarantined", "shed",
    "lost",
    "visits", "handled_inline", "handled_in_blocks", "stolen", "cut", "busy_ns", "parks", "wakes", "waited_ns",
)  # fmt: skip
#: Of a histogram: from a power of two of the clock's counts to the next.
BUCKETS_AN_OCTAVE: Final[int] = lib.SD_SUB
HISTOGRAMS: Final = {"wait": lib.SD_WAIT, "handler": lib.SD_HANDLER_TIME, "end_to_end": lib.SD_END_TO_END}


#: Buckets of a histogram.
BUCKETS: Final[int] = lib.SD_BUCKETS


class SampleRing(IntEnum):
    """Rings of samples in an attachable space, see csrc/memory/samples.h."""

    NOW = lib.SD_SAMPLES_NOW
    PAST = lib.SD_SAMPLES_PAST


class Until(IntEnum):
    """Bound up to which emitted records are final, see csrc/merge/rounds.h."""

    WATERMARK = lib.SD_FINAL_LIVE
    FIRST_PENDING = lib.SD_FINAL_ABANDONED
    END = lib.SD_FINAL_ALL


class RunByPython(NamedTuple):
    """A handler that Python runs: whether it has timers, and an end."""

    wakes: bool = False
    finishes: bool = False


class Failure(NamedTuple):
    """A handler failed. This is how every part says so, up to the HandlerError that is raised in the end.

    ``code`` and ``message`` are the handler's own; ``cause`` is the exception, where Python runs the handler.
    ``handled`` records of its call come before the one that it failed on. ``key`` is the symbol, and ``sequence`` the
    feed's, of that record; ``time`` is that of the timer, or the end, at which it failed instead. ``handler``,
    ``strand`` and ``participant`` are the engine's numbers of the handler, its strand, the worker or publisher. Unknown
    values are None. ``record``: the bytes of that record; ``place``: how many of its strand's were handled, or had
    failed, before it.
    """

    code: int
    message: str
    cause: BaseException | None = None
    handled: int = 0
    key: int | None = None
    sequence: int | None = None
    time: int | None = None
    handler: int | None = None
    strand: int | None = None
    participant: int | None = None
    record: bytes | None = None
    place: int | None = None

    @property
    def reason(self) -> str:
        """Reason of the failure in words: the handler's message, or its code."""
        return self.message or f"code {self.code}"


@dataclass(frozen=True, slots=True)
class StrandInspection:
    """Counts of one strand, read without stopping it: accepted = handled + failed + lost + dropped + pending at rest.
    ``calls`` that wait or run are not in ``pending``."""

    pending: int
    owner: int | None
    accepted: int
    handled: int
    failed: int
    lost: int
    dropped: tuple[int, int, int, int, int]
    paused: bool
    quarantined: bool
    capacity: int
    calls: int = 0


@cache
def clock_resolution_ns(core: Any = lib) -> float:
    """The shortest span, in ns, that the clock of the histograms tells from none. Measured once per process. ``core``:
    the module in C whose clock it is; that of a seeded run counts steps."""
    return float(core.sd_clock_resolution_ns())


@cache
def histogram_floors_ns(ns_per_count: float | None = None) -> npt.NDArray[np.float64]:
    """Lower edges of the histograms' buckets, in ns, by the clock that counts: this process's, or one of that rate.
    They are read-only."""
    floors = np.empty(lib.SD_BUCKETS, dtype=np.float64)
    lib.sd_bucket_floors(ns_per_count or lib.sd_ns_per_count(), ffi.cast("double *", ffi.from_buffer(floors)))
    floors.flags.writeable = False
    return floors
