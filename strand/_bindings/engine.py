"""The engine, seen from Python: codes become exceptions here, arrays become pointers here, and nowhere else."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand._bindings import ffi, lib
from strand.errors import ConfigurationError, EngineError

__all__ = [
    "COUNTERS",
    "IDLE",
    "ON_ERROR",
    "ON_FULL",
    "PAUSED",
    "QUARANTINED",
    "RECORDS",
    "TASK",
    "Claims",
    "Code",
    "Engine",
    "EngineConfig",
    "Failure",
    "NativeFunction",
    "StrandLook",
    "TimerFunctions",
    "Until",
    "block_bytes",
    "block_records",
    "builtin",
    "histogram_floors_ns",
    "pointer_from_address",
    "timer_function",
]

IDLE: Final = {"spin": lib.SD_IDLE_SPIN, "backoff": lib.SD_IDLE_BACKOFF, "park": lib.SD_IDLE_PARK}
ON_FULL: Final = {
    "block": lib.SD_BLOCK,
    "drop_newest": lib.SD_DROP_NEWEST,
    "drop_oldest": lib.SD_DROP_OLDEST,
    "conflate": lib.SD_CONFLATE,
    "raise": lib.SD_RAISE,
}
ON_ERROR: Final = {"stop": lib.SD_ON_ERROR_STOP, "quarantine": lib.SD_ON_ERROR_QUARANTINE}
PAUSED: Final[int] = lib.SD_PAUSED
QUARANTINED: Final[int] = lib.SD_QUARANTINED
#: What a worker is given by the engine: records to handle, or a task's turn.
RECORDS: Final[int] = lib.SD_CLAIM_RECORDS
TASK: Final[int] = lib.SD_CLAIM_TASK

#: Blocks that can lie in one slot's cache.
CACHED_BLOCKS: Final[int] = 2 * lib.SD_FREE_RUN
COUNTERS: Final = (
    "accepted", "handled", "failed", "dropped_newest", "dropped_oldest", "conflated", "dropped_quarantined", "lost",
    "visits", "claimed", "stolen", "cut", "busy_ns", "parks", "wakes", "waited_ns",
)  # fmt: skip
#: Where compiled code finds what it needs to emit: bytes from the start of sd_context and of sd_sink.
CONTEXT_OFFSETS: Final = {
    name: int(ffi.offsetof("sd_context", name)) for name in ("record_size", "marks", "keys", "sinks")
}
SINK_OFFSETS: Final = {name: int(ffi.offsetof("sd_sink", name)) for name in ("at", "end", "more")}
EMITTED_BYTES: Final = int(ffi.sizeof("sd_emitted"))
HISTOGRAMS: Final = {"wait": lib.SD_WAIT, "handler": lib.SD_HANDLER_TIME, "end_to_end": lib.SD_END_TO_END}


class Code:
    """The core's result codes."""

    OK: Final[int] = lib.SD_OK
    AGAIN: Final[int] = lib.SD_AGAIN
    KEY: Final[int] = lib.SD_E_KEY
    FULL: Final[int] = lib.SD_E_FULL
    WOULD_DEADLOCK: Final[int] = lib.SD_E_WOULD_DEADLOCK
    STOPPED: Final[int] = lib.SD_E_STOPPED


class Until(IntEnum):
    """Up to where what handlers emitted is final, see csrc/sd_output.h."""

    WATERMARK = lib.SD_FINAL_LIVE
    FIRST_PENDING = lib.SD_FINAL_ABANDONED
    END = lib.SD_FINAL_ALL


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """A C function of type ``sd_handler_fn``, its parameters, and what keeps both alive."""

    pointer: Any
    params: bytes = b""
    pure: bool = False
    keep: Any = None
    #: Asks for the memory that ticks will touch (``sd_ahead_fn`` of csrc/handlers/chain.h), for chains.
    ahead: Any = None


@dataclass(frozen=True, slots=True)
class TimerFunctions:
    """A native handler's ``sd_wake_fn`` and ``sd_finish_fn``, None where it has none (of a Python handler what is not
    None says that it has one); ``yields``: it returns where ``ctx->yield`` says so."""

    wake: Any = None
    finish: Any = None
    yields: bool = False


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Sizes and choices as the core takes them; strand.dispatcher checks them and fills them in."""

    n_symbols: int
    n_strands: int
    n_workers: int
    n_publishers: int
    record_size: int
    key_offset: int
    sequence_offset: int | None
    row_bytes: int
    n_blocks: int
    idle: str
    on_error: str
    on_full: str
    capacity_ticks: int
    quantum_ticks: int
    quantum_ns: int
    batch_ticks: int
    ahead_ticks: int
    publisher_drains: bool
    marked: bool = False
    timed: bool = False
    time_offset: int | None = None
    shared: bool = False
    counters_start: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a handler; ``slot`` is the worker or publisher that ran it."""

    strand: int
    key: int | None
    sequence: int
    handler: int
    slot: int
    code: int
    message: str


@dataclass(frozen=True, slots=True)
class StrandLook:
    """One strand's books, read without stopping it: accepted = handled + failed + lost + dropped + pending at rest.
    ``calls`` that wait or run are not in ``pending``."""

    pending: int
    owner: int | None
    accepted: int
    handled: int
    failed: int
    lost: int
    dropped: tuple[int, int, int, int]
    paused: bool
    quarantined: bool
    capacity: int
    calls: int = 0


def block_records(record_size: int) -> int:
    """Records of a size that lie in one block."""
    return int((lib.SD_BLOCK_BYTES - lib.SD_BLOCK_HEADER) // record_size)


def block_bytes(record_size: int, marked: bool) -> int:
    """Bytes of a block: longer where records carry marks."""
    if not marked:
        return int(lib.SD_BLOCK_BYTES)
    records = block_records(record_size)
    marks_at = (lib.SD_BLOCK_HEADER + records * record_size + 7) // 8 * 8
    return int((marks_at + records * ffi.sizeof("sd_mark") + 63) // 64 * 64)


def histogram_floors_ns() -> npt.NDArray[np.float64]:
    """Lower edges of the histograms' buckets, in ns."""
    floors = np.empty(lib.SD_BUCKETS, dtype=np.float64)
    lib.sd_bucket_floors(ffi.cast("double *", ffi.from_buffer(floors)))
    return floors


def builtin(name: str) -> Any:
    """The address of a handler that is compiled in."""
    return ffi.cast("sd_handler_fn", ffi.addressof(lib, f"sd_handle_{name}"))


def pointer_from_address(address: int) -> Any:
    return ffi.cast("sd_handler_fn", address)


def timer_function(kind: str, address: int) -> Any:
    """A function of type ``sd_wake_fn`` or ``sd_finish_fn`` at an address; None for 0."""
    return ffi.cast(kind, address) if address else None


def _bytes(records: npt.NDArray[Any]) -> Any:
    """The memory of contiguous records; as bytes, for numpy knows dtypes that buffers have no name for."""
    return ffi.from_buffer(records.view(np.uint8))


class _Memory:
    """Lets numpy hold the engine alive for as long as it looks into its memory."""

    def __init__(self, owner: object, address: int, shape: int, strides: int, dtype: np.dtype[Any]) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (shape,),
            "strides": (strides,),
            "typestr": f"|V{dtype.itemsize}",
            "version": 3,
        }


class Claims:
    """The strands that one worker's Python has to run, one at a time: ``more`` waits for the first one, ``take`` says
    what it is, ``go_on`` or ``failed`` end it."""

    _FIELDS = struct.Struct("=IIQq")

    def __init__(self, engine: Engine, d: Any, slot: int, dtype: np.dtype[Any]) -> None:
        self._d = d
        self._slot = slot
        self._claim = ffi.new("sd_claim *")
        self._bytes = ffi.buffer(self._claim)
        self._dtype = dtype
        self._size = dtype.itemsize
        # A handler that keeps its ticks reads what came later, but no memory that is gone: both hold the engine.
        self._arena_at, self._arena = engine.memory(slot, copied=False)
        self._copied_at, self._copied = engine.memory(slot, copied=True)
        # Slicing takes a third of the time of making an array, where records lie at whole multiples of their size.
        whole = lib.SD_BLOCK_HEADER % self._size == 0 and engine.block_bytes % self._size == 0
        self._records = self._arena[: len(self._arena) // self._size * self._size].view(dtype) if whole else None

    def more(self) -> int:
        """Runs native handlers until there is something for Python: RECORDS, or TASK; 0 when the dispatcher stops."""
        return max(0, int(lib.sd_worker_next(self._d, self._slot, self._claim)))

    def take(self) -> tuple[int, npt.NDArray[Any]]:
        """The claimed strand, and its records in a row: valid until it is ended."""
        strand, _, address, n = self._FIELDS.unpack_from(self._bytes)
        at = address - self._arena_at
        if self._records is not None and 0 <= at < self._arena.nbytes:
            first = at // self._size
            return strand, self._records[first : first + n]
        base = self._arena
        if not 0 <= at < base.nbytes:
            base, at = self._copied, address - self._copied_at
        return strand, base[at : at + n * self._size].view(self._dtype)

    @property
    def n(self) -> int:
        """Records of the claim in hand."""
        return int(self._claim.n)

    def emit(self, output: int, at: npt.NDArray[np.int64], records: npt.NDArray[Any]) -> None:
        """Emits on behalf of the claim in hand: record i for its record at[i]."""
        message = ffi.new("char[104]")
        to = ffi.cast("int64_t *", ffi.from_buffer(at))
        n = len(records)
        code = lib.sd_emit_claimed(self._d, self._slot, self._claim, output, to, _bytes(records), n, message)
        if code != lib.SD_OK:
            raise EngineError(ffi.string(message).decode() or "records were emitted for ticks that are not there")

    def go_on(self) -> int:
        """All of it was handled: the next one, as ``more``."""
        return max(0, int(lib.sd_worker_go_on(self._d, self._slot, self._claim)))

    @property
    def task(self) -> int:
        """The tag of the task whose turn it is."""
        return int(self._claim.task)

    def task_done(self) -> int:
        """It has run: the next strand, as ``more``."""
        lib.sd_worker_task_done(self._d, self._slot, self._claim)
        return self.more()

    def failed(self, handled: int, code: int, message: str) -> int:
        """The first ``handled`` records were, the next one failed: the next strand, as ``more``."""
        text = message.encode(errors="backslashreplace")[:255]
        if lib.sd_worker_done(self._d, self._slot, self._claim, handled, code, text) != lib.SD_OK:
            raise EngineError(f"{handled} of {self._claim.n} records cannot have been handled")
        return self.more()


class Engine:
    """One arena and what this process needs to use it. Freed when neither it nor a view of its rows is left."""

    def __init__(self, config: EngineConfig) -> None:
        c = ffi.new("sd_config *")
        for name in ("n_symbols", "n_strands", "n_workers", "n_publishers", "record_size", "key_offset", "row_bytes",
                     "n_blocks", "counters_start"):  # fmt: skip
            setattr(c.sizes, name, getattr(config, name))
        c.sizes.sequence_offset = lib.SD_NONE if config.sequence_offset is None else config.sequence_offset
        c.sizes.marked, c.sizes.timed = config.marked, config.timed
        c.time_offset = lib.SD_NONE if config.time_offset is None else config.time_offset
        c.shared = config.shared
        c.idle, c.on_error, c.on_full = IDLE[config.idle], ON_ERROR[config.on_error], ON_FULL[config.on_full]
        c.capacity = config.capacity_ticks
        c.quantum_records, c.quantum_ns = config.quantum_ticks, config.quantum_ns
        c.batch_records, c.ahead_records = config.batch_ticks, config.ahead_ticks
        c.publisher_drains = config.publisher_drains
        out = ffi.new("sd_dispatcher **")
        code = lib.sd_dispatcher_create(c, out)
        if code == lib.SD_E_NO_MEMORY:
            raise MemoryError(f"no memory for {config.n_strands} strands and {config.n_blocks} blocks of 2 KB")
        if code != lib.SD_OK:
            raise ConfigurationError(f"the engine refused its configuration: {config}")
        self.config = config
        self._d = ffi.gc(out[0], lib.sd_dispatcher_destroy)
        self._keep: list[Any] = []
        self._tracked: dict[int, Any] = {}

    def route(self, strand_of_symbol: npt.NDArray[np.uint32], handler_of_strand: npt.NDArray[np.uint16]) -> None:
        code = lib.sd_dispatcher_route(
            self._d,
            ffi.cast("uint32_t *", ffi.from_buffer(strand_of_symbol)),
            ffi.cast("uint16_t *", ffi.from_buffer(handler_of_strand)),
        )
        if code != lib.SD_OK:
            raise EngineError("a symbol was routed to a strand that does not exist")

    def set_outputs(self, record_bytes: Sequence[int], memory_bytes: int) -> None:
        """Before the handlers: what they emit, records of so many bytes an output. Raises ConfigurationError."""
        if lib.sd_dispatcher_outputs(self._d, list(record_bytes), len(record_bytes), memory_bytes) != lib.SD_OK:
            least = int(lib.sd_outputs_least(self._d, len(record_bytes)))
            raise ConfigurationError(
                f"output_memory: {memory_bytes} cannot hold what {len(record_bytes)} outputs take; "
                f"give at least {least}"
            )

    def set_handlers(
        self,
        functions: Sequence[NativeFunction | None],
        outputs: Sequence[Sequence[int]],
        timers: Sequence[TimerFunctions],
    ) -> None:
        """None stands for a handler that Python runs; ``outputs``: the numbers of those each one declares."""
        table = ffi.new("sd_handler[]", len(functions))
        for entry, function, numbers, timer in zip(table, functions, outputs, timers, strict=True):
            if function is None:
                entry.wakes, entry.finishes = timer.wake is not None, timer.finish is not None
            else:
                entry.wake, entry.finish = timer.wake or ffi.NULL, timer.finish or ffi.NULL
                entry.yields = timer.yields
            if numbers:
                kept = ffi.new("uint32_t[]", list(numbers))
                self._keep.append(kept)
                entry.outputs, entry.n_outputs = kept, len(numbers)
            if function is None:
                continue
            params = ffi.new("char[]", function.params) if function.params else ffi.NULL
            self._keep.append((function, params))
            entry.fn, entry.params, entry.pure = function.pointer, params, function.pure
        if lib.sd_dispatcher_handlers(self._d, table, len(functions)) != lib.SD_OK:
            raise EngineError("a strand names a handler that does not exist")

    @property
    def bytes(self) -> int:
        """Size of the arena's mapping; pages never touched take no memory."""
        return int(lib.sd_dispatcher_bytes(self._d))

    def rows(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """All symbols' rows, shape (n_symbols,), a view of the engine's memory."""
        stride = ffi.new("uint64_t *")
        address = int(ffi.cast("uintptr_t", lib.sd_dispatcher_rows(self._d, stride)))
        memory = _Memory(self, address, self.config.n_symbols, int(stride[0]), dtype)
        return np.asarray(memory).view(dtype)

    # ---- workers

    def memory(self, slot: int, *, copied: bool) -> tuple[int, npt.NDArray[np.uint8]]:
        """Address and bytes of what a worker's claims lie in, read-only; they hold the engine."""
        size = ffi.new("uint64_t *")
        address = int(ffi.cast("uintptr_t", lib.sd_claims_memory(self._d, slot, copied, size)))
        whole = np.asarray(_Memory(self, address, int(size[0]), 1, np.dtype("u1"))).view(np.uint8)
        whole.flags.writeable = False  # what waits after a claim lies in the same block
        return address, whole

    @property
    def block_bytes(self) -> int:
        """From one block to the next."""
        return block_bytes(self.config.record_size, self.config.marked)

    def claims(self, slot: int, dtype: np.dtype[Any]) -> Claims:
        """What a Python worker has to do."""
        return Claims(self, self._d, slot, dtype)

    def track(
        self, slot: int, function: NativeFunction, records: npt.NDArray[Any], after: npt.NDArray[Any]
    ) -> tuple[int, int, str]:
        """Runs a function over records that a slot holds, and copies the start of the row after each into ``after``."""
        handler = self._tracked.get(id(function))
        if handler is None:
            handler = ffi.new("sd_handler *")
            params = ffi.new("char[]", function.params) if function.params else ffi.NULL
            self._keep.append((function, params))
            handler.fn, handler.params, handler.pure = function.pointer, params, function.pure
            self._tracked[id(function)] = handler
        failure = ffi.new("sd_failure *")
        done = lib.sd_chain_track(
            self._d, slot, handler, _bytes(records), len(records), after.itemsize, _bytes(after), failure
        )
        return int(done), int(failure.code), ffi.string(failure.message).decode(errors="replace")

    def queue_task(self, strand: int, tag: int) -> int:
        """Puts a task behind all that is published to a strand; AGAIN: too many wait. ``tag`` is not 0."""
        return int(lib.sd_task_queue(self._d, strand, tag))

    def give_up_task(self, strand: int, tag: int) -> bool:
        """Whether a task will not run any more."""
        return bool(lib.sd_task_give_up(self._d, strand, tag) == lib.SD_OK)

    # ---- outputs

    def settle_outputs(self, until: Until) -> int:
        """Finds out up to where all is final, and reads what slots have collected. One thread at a time. Returns the
        ns for which that looked at lines that workers write."""
        if lib.sd_outputs_round(self._d, until) != lib.SD_OK:
            raise MemoryError("no memory for what handlers emit")
        return int(lib.sd_outputs_look_ns(self._d))

    def take_output(self, output: int, to: npt.NDArray[np.uint8], room: int) -> int:
        """Fills ``to`` with up to ``room`` records of an output, in order, and returns how many; it has 8 bytes more
        than they take. Fewer: there are no more before the next ``settle_outputs``."""
        return int(lib.sd_outputs_take(self._d, output, ffi.cast("unsigned char *", ffi.from_buffer(to)), room))

    @property
    def late_outputs(self) -> int:
        """Records left out: emitted on a strand that was quarantined, and passed, before it was released."""
        return int(lib.sd_outputs_late(self._d))

    # ---- publishers

    def publisher_enter(self) -> int | None:
        slot = lib.sd_publisher_enter(self._d)
        return None if slot < 0 else int(slot)

    def publisher_leave(self, slot: int) -> None:
        lib.sd_publisher_leave(self._d, slot)

    def publish(self, slot: int, records: npt.NDArray[Any], slice_ns: int) -> int:
        return int(lib.sd_publish(self._d, slot, _bytes(records), len(records), slice_ns))

    def publish_more(self, slot: int, slice_ns: int) -> int:
        return int(lib.sd_publish_more(self._d, slot, slice_ns))

    def publish_nested(self, slot: int, records: npt.NDArray[Any]) -> int:
        """From inside a handler that slot ``slot`` runs."""
        return int(lib.sd_publish_nested(self._d, slot, _bytes(records), len(records)))

    def rejected(self, slot: int, *, nested: bool = False) -> npt.NDArray[np.int64]:
        positions = np.empty(lib.sd_publish_rejected(self._d, slot, nested, ffi.NULL, 0), dtype=np.int64)
        to = ffi.cast("int64_t *", ffi.from_buffer(positions))
        lib.sd_publish_rejected(self._d, slot, nested, to, len(positions))
        positions.sort()
        return positions

    # ---- control

    def drain(self, slot: int | None, slice_ns: int) -> int:
        return int(lib.sd_dispatcher_drain(self._d, lib.SD_NONE if slot is None else slot, slice_ns))

    def stop(self) -> None:
        lib.sd_dispatcher_stop(self._d)

    @property
    def stopping(self) -> bool:
        return bool(lib.sd_dispatcher_stopping(self._d))

    def hold(self, strand: int, why: int) -> None:
        if lib.sd_dispatcher_hold(self._d, strand, why) != lib.SD_OK:
            raise EngineError(f"strand {strand} cannot be held")

    def resume(self, strand: int, why: int) -> None:
        if lib.sd_dispatcher_resume(self._d, strand, why) != lib.SD_OK:
            raise EngineError(f"strand {strand} cannot be resumed")

    def finish(self) -> bool:
        """At rest, after the workers' end: calls what native handlers have for it. False: one failed, see failures."""
        return bool(lib.sd_dispatcher_finish(self._d) == lib.SD_OK)

    def to_finish(self, key: int) -> bool:
        """Whether a Python handler's symbol has had ticks and is not quarantined."""
        return bool(lib.sd_dispatcher_seen(self._d, key))

    @property
    def feed_time(self) -> int:
        """The greatest time of a record published; 0 where records carry no marks."""
        return int(lib.sd_feed_time(self._d))

    # ---- looking on

    def watermark(self) -> int:
        return int(lib.sd_watermark(self._d))

    def totals(self) -> dict[str, int]:
        t = ffi.new("sd_totals *")
        lib.sd_dispatcher_totals(self._d, t)
        names = ("accepted", "handled", "failed", "lost", "pending", "visits", "claimed", "stolen", "cut", "parks",
                 "wakes", "failures", "blocks_used", "watermark_sequence")  # fmt: skip
        totals = {name: int(getattr(t, name)) for name in names}
        reasons = ("dropped_newest", "dropped_oldest", "conflated", "dropped_quarantined")
        return totals | {name: int(t.dropped[i]) for i, name in enumerate(reasons)}

    def counters(self, slot: int) -> dict[str, int]:
        """One slot's counters by name; a worker's slot is its number, publishers' slots follow."""
        values = ffi.new("uint64_t[]", lib.SD_COUNTER_FIELDS)
        lib.sd_slot_counters(self._d, slot, values)
        counters = dict(zip(COUNTERS, map(int, values), strict=True))
        for name in ("accepted", "handled"):
            counters[name] = (counters[name] - self.config.counters_start) % 2**64
        return counters

    def counters_reader(self) -> Callable[[], npt.NDArray[np.uint64]]:
        """Reads the counters of all slots into one array, shape (slots, len(COUNTERS)), the same at every call. Slots
        are read one after the other while they count on."""
        values = np.zeros((self.config.n_workers + self.config.n_publishers, len(COUNTERS)), np.uint64)
        start, size = ffi.cast("uint64_t *", ffi.from_buffer(values)), len(COUNTERS)
        places = [(slot, start + slot * size) for slot in range(len(values))]
        base = np.uint64(self.config.counters_start)

        def read() -> npt.NDArray[np.uint64]:
            for slot, place in places:
                lib.sd_slot_counters(self._d, slot, place)
            if base:
                values[:, :2] -= base
            return values

        return read

    def histogram(self, name: str) -> npt.NDArray[np.uint64]:
        counts = np.zeros(lib.SD_BUCKETS, dtype=np.uint64)
        lib.sd_histogram_sum(self._d, HISTOGRAMS[name], ffi.cast("uint64_t *", ffi.from_buffer(counts)))
        return counts

    def look(self, strand: int) -> StrandLook:
        k = ffi.new("sd_look *")
        if lib.sd_strand_look(self._d, strand, k) != lib.SD_OK:
            raise EngineError(f"there is no strand {strand}")
        dropped = (int(k.dropped[0]), int(k.dropped[1]), int(k.dropped[2]), int(k.dropped[3]))
        owner = int(k.owner) - 1 if k.owner else None
        return StrandLook(
            int(k.pending), owner, int(k.accepted), int(k.handled), int(k.failed), int(k.lost), dropped,
            bool(k.control & PAUSED), bool(k.control & QUARANTINED), int(k.capacity), int(k.tasks),
        )  # fmt: skip

    def accepted_at_rest(self, strand: int, scratch: Any) -> int | None:
        """Records a strand has accepted, where none of them is pending; else None. ``scratch`` from ``new_look``."""
        if lib.sd_strand_look(self._d, strand, scratch) != lib.SD_OK:
            raise EngineError(f"there is no strand {strand}")
        return None if scratch.pending else int(scratch.accepted)

    def new_look(self) -> Any:
        return ffi.new("sd_look *")

    def failures(self) -> list[Failure]:
        """The first failures, in the order they happened."""
        found: list[Failure] = []
        f = ffi.new("sd_failure *")
        while lib.sd_failure_get(self._d, len(found), f) == lib.SD_OK:
            key = None if f.key == lib.SD_NONE else int(f.key)
            message = ffi.string(f.message).decode(errors="replace")
            found.append(
                Failure(int(f.strand), key, int(f.sequence), int(f.handler), int(f.slot), int(f.code), message)
            )
        return found

    def check(self) -> None:
        """The books at rest. Raises EngineError naming the strand where they do not balance."""
        strand = ffi.new("uint32_t *")
        what = ffi.new("char[128]")
        if lib.sd_dispatcher_check(self._d, strand, what) != lib.SD_OK:
            raise EngineError(f"strand {strand[0]}: {ffi.string(what).decode()}")
