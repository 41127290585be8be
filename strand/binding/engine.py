"""The engine, seen from Python: codes become exceptions here, arrays become pointers here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import CORE, Core, ffi, lib
from strand.binding.engine_words import (
    NO_BLOCKS,
    EngineConfig,
    Failure,
    RunByPython,
    SampleRing,
    StrandInspection,
    Until,
    addresses,
    config_struct,
    no_blocks,
)
from strand.binding.feeder import Step
from strand.binding.gate import checked, refusal, text_of
from strand.binding.memory import Memory, Space, bytes_of, is_constant, owned
from strand.binding.native import NativeFunction
from strand.binding.outside import Counters, inspection
from strand.binding.tasks import EndBatch, PyBatches, Tasks
from strand.errors import ConfigurationError

#: Records of a call from which on it pays to ask whether they can change.
_ASKED: Final = 4_096


class Publisher:
    """A thread that publishes to an engine, with the number of the participant that it holds, one at a time.

    ``take`` and ``give`` are C alone, which notes here what is held: no interrupt comes between the two steps. Taking
    a participant where one is held, and giving none back, does nothing. The other methods are for a thread that holds
    one; they return codes, and take the longest time in C in ns."""

    __slots__ = ("_core", "_d", "_held", "_publish", "_publish_constant", "give", "take")

    def __init__(self, engine: Engine) -> None:
        self._core, self._d = core, d = engine._core, engine._d
        self._held = ffi.new("int64_t *", lib.SD_AGAIN)
        self.take: Callable[[], None] = partial(core.lib.sd_publisher_take, d, self._held)
        self.give: Callable[[], None] = partial(core.lib.sd_publisher_give, d, self._held)
        self._publish: Callable[..., int] = partial(core.lib.sd_publish, d)
        self._publish_constant: Callable[..., int] = partial(core.lib.sd_publish_constant, d)

    @property
    def number(self) -> int | None:
        """None where none is held."""
        held: int = self._held[0]
        return None if held < 0 else held

    def publish(self, records: npt.NDArray[Any], slice_ns: int) -> int:
        long = len(records) >= _ASKED and is_constant(records)
        publish = self._publish_constant if long else self._publish
        return publish(self._held[0], bytes_of(records), len(records), slice_ns)

    def publish_more(self, slice_ns: int) -> int:
        return int(self._core.lib.sd_publish_more(self._d, self._held[0], slice_ns))

    def step(self, step: Step, slice_ns: int) -> int:
        return step(self._d, self._held[0], slice_ns)

    def rejected(self) -> npt.NDArray[np.int64]:
        """Positions of the records that the latest call did not publish."""
        return _rejected(self._core, self._d, self._held[0], nested=False)


def _rejected(core: Core, d: Any, participant: int, *, nested: bool) -> npt.NDArray[np.int64]:
    positions = np.empty(core.lib.sd_publish_rejected(d, participant, nested, ffi.NULL, 0), dtype=np.int64)
    to = ffi.cast("int64_t *", ffi.from_buffer(positions))
    core.lib.sd_publish_rejected(d, participant, nested, to, len(positions))
    positions.sort()
    return positions


def _fill(entry: Any, function: NativeFunction, core: Core) -> Any:
    """Fills in an sd_handler. Returns what has to live as long."""
    params = ffi.new("char[]", function.params) if function.params else ffi.NULL
    # The function is the same for all modules in C, and its type is the core's.
    cast = core.ffi.cast
    entry.fn = cast("sd_handler_fn", function.pointer)
    entry.wake = cast("sd_wake_fn", function.wake or ffi.NULL)
    entry.finish = cast("sd_finish_fn", function.finish or ffi.NULL)
    entry.params, entry.never_publishes, entry.yields = params, function.never_publishes, function.yields
    return function, params


def _group(g: Any) -> tuple[int, int, int, int]:
    """An sd_group_counts."""
    return int(g.on_cpu_ns), int(g.slice_ends), int(g.long_stretches), int(g.longest_ns)


class GroupCounts(NamedTuple):
    """Counts of Fair.

    Attributes:
        groups: By group the on-CPU time in ns, how often it used up its slice, stretches beyond its slice, and the
            longest stretch in ns.
        holds: Times that the cap held the pool.
        long_stretches: The long stretches of all groups.
        longest: Some strands with long stretches: the strand, how many, and the longest in ns.
    """

    groups: list[tuple[int, int, int, int]]
    holds: int
    long_stretches: int
    longest: list[tuple[int, int, int]]


class _Part:
    """A part of an engine's interface."""

    def __init__(self, d: Any, core: Core) -> None:
        self._d, self._core = d, core
        self._ffi, self._lib = core


class Chains(_Part):
    """Chains of native handlers that end in Python, which runs them over the records that a worker has in hand."""

    def __init__(self, d: Any, core: Core) -> None:
        super().__init__(d, core)
        self._handlers: dict[int, tuple[Any, Any]] = {}

    def track(
        self, participant: int, function: NativeFunction, records: npt.NDArray[Any], after: npt.NDArray[Any]
    ) -> tuple[int, Failure | None]:
        """Runs a chain over records in hand, and copies the start of the row after each into ``after``. Returns the
        number of records handled. If some are left, the chain stopped before its own timer, or failed on the next
        record; the failure says so."""
        failed, failure = ffi.new("int32_t *"), self._ffi.new("sd_failure *")
        handler, n = self._handler(function), len(records)
        done = self._lib.sd_chain_track(
            self._d, participant, handler, bytes_of(records), n, after.itemsize, bytes_of(after), failed, failure
        )
        return int(done), Failure(int(failure.code), text_of(failure.message)) if failed[0] else None

    def act(self, participant: int, function: NativeFunction, key: int, time: int, at_end: bool) -> Failure | None:
        """Runs the timers of a chain that are due for a symbol of a strand in hand, or its end."""
        failure = self._ffi.new("sd_failure *")
        failed = self._lib.sd_chain_act(self._d, participant, self._handler(function), key, time, at_end, failure)
        return Failure(int(failure.code), text_of(failure.message)) if failed else None

    def _handler(self, function: NativeFunction) -> Any:
        """The chain as a handler, without what tells the engine of its timers: that is told when Python's are known."""
        found = self._handlers.get(id(function))
        if found is None:
            handler = self._ffi.new("sd_handler *")
            kept = _fill(handler, function, self._core)
            handler.wake, handler.finish = ffi.NULL, ffi.NULL
            # Whole before another worker finds it. The first one stays, as that worker may be running it.
            found = self._handlers.setdefault(id(function), (handler, kept))
        return found[0]


class Merge(_Part):
    """Records that handlers emit, merged into the order of the ticks. One thread at a time.

    ``stop()`` ends the engine's run. ``count_beside(bytes)`` reserves, before the start, so many bytes for each tick
    until it is final; they count toward the memory of outputs."""

    def __init__(self, d: Any, core: Core) -> None:
        super().__init__(d, core)
        self.stop: Callable[[], None] = partial(core.lib.sd_dispatcher_stop, d)
        self.count_beside: Callable[[int], None] = partial(core.lib.sd_outputs_tick_bytes, d)

    def declare(self, record_bytes: Sequence[int], memory: int) -> None:
        """Declares, before the handlers, the outputs with their records' sizes in bytes, and the bytes for all of them.
        Raises ConfigurationError."""
        if code := self._lib.sd_dispatcher_outputs(self._d, list(record_bytes), len(record_bytes), memory):
            minimum = int(self._lib.sd_outputs_minimum(self._d, len(record_bytes)))
            what = f"output_memory: {memory} bytes are too few for {len(record_bytes)} outputs"
            raise refusal(code, f"{what}; give at least {minimum}", ConfigurationError)

    def settle(self, until: Until) -> int:
        """Finds out up to where all is final, and reads what participants have collected. Returns the ns for which that
        looked at lines that workers write."""
        checked(self._lib.sd_outputs_round(self._d, until), "no memory for what handlers emit", MemoryError)
        return int(self._lib.sd_outputs_look_ns(self._d))

    def take(self, output: int, to: npt.NDArray[np.uint8], capacity: int) -> int:
        """Fills ``to`` with up to ``capacity`` records of an output, in order, and returns how many. ``to`` has 8 bytes
        more than they take. Fewer: there are no more before the next ``settle``."""
        at = ffi.cast("unsigned char *", ffi.from_buffer(to))
        return int(self._lib.sd_outputs_take(self._d, output, at, capacity))

    @property
    def below(self) -> int:
        """Bound of the latest ``settle``: all records of lower numbers are out when all outputs have been taken."""
        return int(self._lib.sd_outputs_below(self._d))

    @property
    def late(self) -> int:
        """Records left out: emitted on a strand that was quarantined, and passed, before it was released."""
        return int(self._lib.sd_outputs_late(self._d))


class Outside(_Part):
    """View of an engine from other processes. ``hide()`` lets no more attach; one that has attached reads on."""

    def __init__(self, d: Any, core: Core) -> None:
        super().__init__(d, core)
        self.hide: Callable[[], None] = partial(core.lib.sd_dispatcher_hide, d)

    def show(self, description: bytes) -> None:
        """Lets other processes attach from now on, and shows them this text. Once."""
        checked(self._lib.sd_dispatcher_describe(self._d, description, len(description)), "no memory", MemoryError)
        self._lib.sd_dispatcher_show(self._d)

    def keep_samples(self, ring: SampleRing, slots: int, sample: npt.NDArray[Any]) -> None:
        """Makes a ring of samples like this one, an array of whole u64, before ``show``. Raises MemoryError."""
        code = self._lib.sd_dispatcher_keep_samples(self._d, ring, slots, sample.nbytes // 8)
        checked(code, f"no memory for {slots} samples of {sample.nbytes:,} bytes", MemoryError)

    def put_sample(self, ring: SampleRing, sample: npt.NDArray[Any]) -> None:
        """Puts a sample into a ring. One thread at a time."""
        words = self._ffi.cast("uint64_t *", self._ffi.from_buffer(sample))
        checked(self._lib.sd_dispatcher_put_sample(self._d, ring, words, sample.nbytes // 8), "no such ring of samples")

    def set_names(self, names: Mapping[int, str]) -> None:
        """Names of symbols, by key. One thread at a time."""
        texts = [name.encode() for name in names.values()]
        lengths = [len(text) for text in texts]
        code = self._lib.sd_dispatcher_name(self._d, list(names), lengths, len(names), b"".join(texts))
        checked(code, f"no memory for {len(names):,} names", MemoryError)


class Strands(_Part):
    """The strands, each by its number."""

    def hold(self, strand: int, why: int) -> None:
        checked(self._lib.sd_dispatcher_hold(self._d, strand, why), f"strand {strand} cannot be held")

    def resume(self, strand: int, why: int) -> None:
        checked(self._lib.sd_dispatcher_resume(self._d, strand, why), f"strand {strand} cannot be resumed")

    def prioritise(self, strand: int, priority: int, *, for_backlog: bool) -> None:
        code = self._lib.sd_dispatcher_prioritise(self._d, strand, priority, for_backlog)
        checked(code, f"strand {strand} cannot have priority {priority}")

    def mark(self, strand: int, marks: int) -> None:
        """``marks``: a set of bits of MARKS. Before anything is published to the strand."""
        checked(self._lib.sd_dispatcher_mark(self._d, strand, marks), f"strand {strand} cannot be marked")

    def inspect(self, strand: int) -> StrandInspection:
        k = self._ffi.new("sd_inspection *")
        checked(self._lib.sd_strand_inspect(self._d, strand, k), f"there is no strand {strand}")
        return inspection(k)

    def scratch(self) -> Any:
        """For ``accepted_if_quiescent``."""
        return self._ffi.new("sd_inspection *")

    def accepted_if_quiescent(self, strand: int, scratch: Any) -> int | None:
        """Records a strand has accepted, where none is pending; else None."""
        if code := self._lib.sd_strand_inspect(self._d, strand, scratch):
            raise refusal(code, f"there is no strand {strand}")
        return None if scratch.pending else int(scratch.accepted)

    def times(self, n: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Times of all ``n`` strands: ns that handlers took, and the number of records in them; 0 for a strand that was
        not measured."""
        times = np.zeros((2, n), np.uint64)
        ns, records = (ffi.cast("uint64_t *", ffi.from_buffer(row)) for row in times)
        self._lib.sd_strand_times(self._d, ns, records)
        return times[0], times[1]


class Schedule(_Part):
    """The order in which workers take strands and tasks. ``max_groups``: the largest number of groups under Fair.
    ``close_group(number)``: no task is submitted to that group under Fair any more."""

    def __init__(self, d: Any, core: Core, max_groups: int) -> None:
        super().__init__(d, core)
        self.max_groups = max_groups
        self.close_group: Callable[[int], None] = partial(core.lib.sd_group_close, d)

    def set_groups(self, n: int, weights: Mapping[int, int]) -> None:
        """Sets, under Fair and before the start, the number of groups, and the weights of some, in thousandths."""
        if n > self.max_groups:
            raise ConfigurationError(
                "groups", f"{n:,} are too many; with these strands, give at most {self.max_groups:,}"
            )
        for group, weight in weights.items():
            self.weigh(group, weight)

    def weigh(self, group: int, weight: int) -> None:
        """Gives a group of Fair a weight, in thousandths, by which its time counts from here on."""
        checked(self._lib.sd_dispatcher_weigh(self._d, group, weight), f"group {group} cannot weigh {weight}")

    def group_counts(self, n: int) -> GroupCounts | None:
        """Counters of Fair for each of its first ``n`` groups, all of one moment. None: the policy has no groups."""
        groups = self._ffi.new("sd_group_counts[]", n)
        fair = self._ffi.new("sd_fair_counts *")
        if self._lib.sd_dispatcher_group_counts(self._d, n, groups, fair) != lib.SD_OK:
            return None
        longest = [(int(s.strand), int(s.times), int(s.longest_ns)) for s in fair.longest if s.times]
        by_group = [_group(g) for g in groups]
        return GroupCounts(by_group, int(fair.holds), int(fair.long_stretches), longest)

    def returned_groups(self, n: int, *, everything: bool) -> list[tuple[int, tuple[int, int, int, int]]]:
        """Takes back up to ``n`` groups that were closed, whose tasks are over and whose debts are past; with
        ``everything`` those too that have a debt. Returns the number of each, and what was counted of it."""
        numbers, counts = self._ffi.new("uint32_t[]", n), self._ffi.new("sd_group_counts[]", n)
        found = self._lib.sd_groups_returned(self._d, n, everything, numbers, counts)
        return [(int(numbers[i]), _group(counts[i])) for i in range(found)]

    def retime(self, timeouts_ns: Sequence[int]) -> None:
        """Gives each level another timeout. ``immediate``, the first level, has none: give 0."""
        code = self._lib.sd_dispatcher_retime(self._d, self._ffi.new("uint64_t[]", list(timeouts_ns)))
        checked(code, "the policy has no timeouts")

    def activate(self, n: int) -> None:
        """Lets only the first n workers take strands from here on."""
        checked(self._lib.sd_dispatcher_activate(self._d, n), f"there are no {n} workers")

    def hold_back(self, resources: int) -> int:
        """Holds strands back while a set of RESOURCES is short, and lets the others go. Returns those of the other
        resources for which strands still wait that were let go last. One thread at a time, and again and again while a
        resource is short: a strand that rises then is listed already, and this wakes a worker for it."""
        waiting = self._ffi.new("uint32_t *")
        checked(self._lib.sd_dispatcher_hold_back(self._d, resources, waiting), "the policy holds no strands back")
        return int(waiting[0])


class Engine(Counters):
    """Engine: one arena and its views in this process. Freed when neither it nor a view of its rows is left.

    ``core``: the module in C whose engine it is.

    Attributes:
        config, space: As it was made, and its memory.
        tasks, chains, merge, outside, strands, schedule: Parts of its interface.
        row_stride: Bytes from one symbol's row to the next.
        goes_on: True if strands go on after the failure of another one; see ``go_on_after_failures``.
        stop, watermark: Calls of C.
        pass_time: Moves the feed's time forward without a record, to a time in ns.
        finish: Calls the ends of native handlers, at rest after the workers' end. Returns a code: see ``failures``.
        restore: Takes up ``saved_tables``, all of which were read back, before a worker has started.
    """

    def __init__(self, config: EngineConfig, core: Core = CORE) -> None:
        self.space = Space(attachable=config.attachable, more=addresses(config), core=core)
        out, stride = core.ffi.new("sd_dispatcher **"), ffi.new("uint64_t *")
        if code := core.lib.sd_dispatcher_create(self.space.pointer, config_struct(config, core), out):
            no_memory = f"no memory for {config.n_strands} strands and {config.n_segments} segments of 2 KB"
            what = f"the engine refused its configuration: {config}"
            raise refusal(code, what, ConfigurationError, no_memory=no_memory)
        self.config = config
        participants = config.n_workers + config.n_publishers
        d = owned(out[0], core.lib.sd_dispatcher_destroy, self.space.pointer)
        super().__init__(d, config.n_workers, participants, config.counters_start, core)
        self.tasks, self.chains, self.merge = Tasks(d, core), Chains(d, core), Merge(d, core)
        self.outside, self.strands = Outside(d, core), Strands(d, core)
        self.schedule = Schedule(d, core, config.n_groups)
        self.goes_on = False
        self._keep: list[Any] = []
        self._rows_at = int(ffi.cast("uintptr_t", core.lib.sd_dispatcher_rows(d, stride)))
        self.row_stride = int(stride[0])
        self.stop: Callable[[], None] = partial(core.lib.sd_dispatcher_stop, d)
        self.watermark: Callable[[], int] = partial(core.lib.sd_watermark, d)
        self.pass_time: Callable[[int], None] = partial(core.lib.sd_publish_time, d)
        self.finish: Callable[[], int] = partial(core.lib.sd_dispatcher_finish, d)
        self.restore: Callable[[], None] = partial(core.lib.sd_saved_restore, d)

    def route(self, strand_of_symbol: npt.NDArray[np.uint32], handler_of_strand: npt.NDArray[np.uint16]) -> None:
        strands = ffi.cast("uint32_t *", ffi.from_buffer(strand_of_symbol))
        handlers = ffi.cast("uint16_t *", ffi.from_buffer(handler_of_strand))
        code = self._lib.sd_dispatcher_route(self._d, strands, handlers)
        checked(code, "a symbol was routed to a strand that does not exist")

    def set_handlers(self, functions: Sequence[NativeFunction | RunByPython], outputs: Sequence[Sequence[int]]) -> None:
        """Sets each strand's handler, by number. ``outputs``: the numbers of the outputs that each handler declares."""
        table = self._ffi.new("sd_handler[]", len(functions))
        for entry, function, numbers in zip(table, functions, outputs, strict=True):
            if numbers:
                kept = ffi.new("uint32_t[]", list(numbers))
                self._keep.append(kept)
                entry.outputs, entry.n_outputs = kept, len(numbers)
            if isinstance(function, RunByPython):
                entry.wakes, entry.finishes = function.wakes, function.finishes
            else:
                self._keep.append(_fill(entry, function, self._core))
        code = self._lib.sd_dispatcher_handlers(self._d, table, len(functions))
        checked(code, "a strand names a handler that does not exist")
        self._check_ingest()

    def _check_ingest(self) -> None:
        if self.config.ingest == "blocks" and (why := NO_BLOCKS[self._lib.sd_blocks_reason(self._d)]) is not None:
            raise ConfigurationError("ingest", no_blocks(why))

    def time_strands(self) -> None:
        """Measures, from before workers run, the handlers' times by strand. Raises MemoryError and
        ConfigurationError."""
        if self.config.ingest == "blocks":
            raise ConfigurationError("ingest", no_blocks(str(NO_BLOCKS[self._lib.SD_BLOCKS_TIMED])))
        lacking = f"no memory for the times of {self.config.n_strands:,} strands"
        checked(self._lib.sd_dispatcher_time_strands(self._d), lacking, MemoryError)

    def rows(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """All symbols' rows, shape (n_symbols,), a view of the engine's memory."""
        memory = Memory(self, self._rows_at, self.config.n_symbols, self.row_stride, dtype)
        return np.asarray(memory).view(dtype)

    def saved_tables(self) -> dict[str, npt.NDArray[np.uint8]]:
        """The parts of the arena that are saved, by name: the engine's memory itself, which holds it. At rest, once the
        handlers are set."""
        n = int(self._lib.sd_saved_tables(self._d, ffi.NULL, 0))
        tables = self._ffi.new("sd_saved_table[]", n)
        self._lib.sd_saved_tables(self._d, tables, n)
        found: dict[str, npt.NDArray[np.uint8]] = {}
        for table in tables:
            memory = Memory(self, int(ffi.cast("uintptr_t", table.at)), int(table.bytes), 1, np.dtype("u1"))
            found[text_of(table.name)] = np.asarray(memory).view(np.uint8)
        return found

    def batches(self, participant: int, dtype: np.dtype[Any]) -> PyBatches:
        """Batches that a Python worker takes from the engine."""
        return PyBatches(self._d, participant, dtype, self.config.n_strands, self._core)

    def to_finish(self, key: int) -> EndBatch | None:
        """The end of a Python handler's symbol, where it has had ticks and is not quarantined; to be closed."""
        begun = self._lib.sd_dispatcher_finish_begin(self._d, key)
        return EndBatch(self._d, key, self.feed_time, self._core) if begun else None

    def publish_nested(self, participant: int, records: npt.NDArray[Any]) -> tuple[int, npt.NDArray[np.int64] | None]:
        """Publishes from inside a handler that participant ``participant`` runs. Returns a code and, unless that is OK,
        the positions of the records that were not published."""
        code = int(self._lib.sd_publish_nested(self._d, participant, bytes_of(records), len(records)))
        return code, None if code == lib.SD_OK else _rejected(self._core, self._d, participant, nested=True)

    def drain(self, participant: int | None, slice_ns: int) -> int:
        number = lib.SD_NONE if participant is None else participant
        return int(self._lib.sd_dispatcher_drain(self._d, number, slice_ns))

    def go_on_after_failures(self) -> None:
        """Lets a failure set its strand aside, until the publisher stops the run. Call it before the start.

        Raises:
            MemoryError: If there is no memory for a failure of each strand.
        """
        lacking = f"no memory for the failures of {self.config.n_strands:,} strands"
        checked(self._lib.sd_failures_go_on(self._d), lacking, MemoryError)
        self.goes_on = True
        self._first_failure = self._ffi.new("sd_failure *")

    @property
    def goes_on_after_one(self) -> bool:
        """True if a strand has failed, and the others go on."""
        return self.goes_on and bool(self._lib.sd_failure_get(self._d, 0, self._first_failure) == lib.SD_OK)

    @property
    def stopping(self) -> bool:
        return bool(self._lib.sd_dispatcher_stopping(self._d))

    def verify(self) -> None:
        """The books of a quiescent engine. Raises EngineError naming the strand where they do not balance."""
        strand = ffi.new("uint32_t *")
        what = ffi.new("char[128]")
        if code := self._lib.sd_dispatcher_verify(self._d, strand, what):
            raise refusal(code, f"strand {strand[0]}: {text_of(what)}")


class ScheduledEngine(Engine):
    """An engine whose workers are fibers under the seeded scheduler (csrc/seeded): a second module in C, with
    structures of its own. They go on while a call is under way, all on the thread that calls.

    Between ``start_workers`` and ``end_workers`` there may be one in a process.
    """

    def __init__(self, config: EngineConfig) -> None:
        from strand._scheduled import ffi, lib

        super().__init__(config, Core(ffi, lib))

    @staticmethod
    def most_workers() -> int:
        """The greatest number of workers."""
        from strand._scheduled import lib

        return int(lib.SD_SEEDED_WORKERS)

    def start_workers(self, seed: int) -> None:
        """Instead of starting threads. After the handlers are set."""
        self._lib.sd_seeded_start(self._d, seed % 2**64)

    def pause(self) -> int:
        """Lets the workers go on for a while. Returns how many have not ended."""
        return int(self._lib.sd_seeded_pause())

    def waiting(self) -> int | None:
        """A worker that has something for Python, drawn from those that do: ``batches`` says what; None: none has."""
        found = int(self._lib.sd_seeded_waiting())
        return None if found < 0 else found

    def go_on(self, worker: int, *, ended: bool) -> None:
        """Python has run the batch of that worker. ``ended``: the worker ends, and what is left stays pending."""
        self._lib.sd_seeded_go_on(worker, ended)

    def now_ns(self) -> int:
        """The time, in ns: three for each step, and what was waited for."""
        return int(self._lib.sd_seeded_now())

    def take(self, ns: int) -> bool:
        """The handler that runs now takes so long: its worker is busy, and the others go on. False: none runs."""
        return bool(self._lib.sd_seeded_take(ns))

    def pass_until(self, time_ns: int) -> None:
        """Lets the workers go on until that time, or until one has something for Python."""
        self._lib.sd_seeded_pass(time_ns)

    def end_workers(self) -> None:
        """Stops the seeded scheduler after all workers have ended."""
        self._lib.sd_seeded_stop()
