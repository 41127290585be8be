"""The options of a dispatcher by name and type, and their checks: a bad one is refused by name."""

# Not with annotations as text: the declarations of options stand in types.

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import (
    ALL_BUT_ONE,
    CACHED_SEGMENTS,
    IDLE,
    INGEST,
    ON_ERROR,
    ON_FULL,
    EngineConfig,
    segment_bytes,
    segment_records,
)
from strand.binding.memory import memory_there
from strand.brief import written
from strand.dispatch.guard import Guard, marks_of
from strand.dispatch.records import RecordReader
from strand.dispatch.routing import (
    Order,
    StrandsLike,
    kinds_of,
    kinds_of_units,
    priorities_of,
    strand_count,
    strands_for,
)
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.handlers import Handler
from strand.handlers.loading import Assigned
from strand.options import ByName, Choice, Kind, Number, Object, Text, Whole, named_fields, option, read_options
from strand.policies.policy import LEVELS, Fifo, Policy, give_policy, groups_of, level_name, policy_config
from strand.symbols import SymbolTable
from strand.threads import has_gil
from strand.ticks import TICK
from strand.validate import Faults, is_whole, whole

if TYPE_CHECKING:
    from strand.feeds import FeedInfo
    from strand.feeds.base import TicksAre
    from strand.feeds.mapping.column_options import ColumnOptions
    from strand.output.sinks import Destination
    from strand.tasks.retry import RetryPolicy

K = TypeVar("K")

#: Upper bounds of publishers, and of a strand's bound.
MAX_PUBLISHERS: Final = 1024
MAX_CAPACITY: Final = 2**31 - 1
_CAPACITY: Final = Whole(1, MAX_CAPACITY)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Pool:
    """The threads that work on ticks: ``pool=`` of ``strand.Dispatcher`` and ``strand.replay``.

    ``workers``, ``cores``, ``idle`` and ``budget_ticks`` can also be given there as options of their own.

    Raises:
        ConfigurationError: If a field cannot work; it names the field. Conditions on the machine and other fields
            are checked where the pool is used.
    """

    workers: int | None = option(
        None,
        Whole(0, 1024),
        "Number of worker threads.",
        unset="one fewer than the cores that this process may use, and at least one",
        more="The publisher drains too. 0, for a replay: a plain loop; for a scheduler: all cores.",
        flag=None,
    )
    min_workers: int | None = option(
        None,
        Whole(1, 1024),
        "Workers that are active at least; more are activated as the load requires.",
        unset="all",
        flag=None,
    )
    python_workers: int | None = option(
        None,
        Whole(1, 1024),
        "Workers that may run tasks and calls at a time.",
        unset="all; but where C handles ticks and there is a GIL, one fewer than are active, and at least one",
        more="See docs/tasks.md.",
    )
    cores: Sequence[int] | Literal["auto"] | None = option(
        "auto",
        Kind(),
        "Cores that workers are pinned to, in turn.",
        unset="pins nothing",
        flag=None,
        more='``"auto"`` takes the last of those this process may use, and goes on with a RuntimeWarning if the system '
        "refuses to pin.",
    )
    idle: str = option(
        "backoff",
        Choice(tuple(IDLE)),
        "What a worker does without work: spin, spin and then sleep (backoff), or sleep (park).",
        flag=None,
    )
    budget_ticks: int = option(4096, Whole(1, 2**20), "Ticks that end a visit of a strand.")
    budget_us: float = option(1000.0, Number(0, 1e9, "us", above=True), "Time that ends a visit of a strand.")
    max_publishers: int = option(8, Whole(1, MAX_PUBLISHERS), "Threads that may publish at a time.")

    def __post_init__(self) -> None:
        read_options(self).end()

    def __repr__(self) -> str:
        return written(self)


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Limits:
    """The bounds of queues and memory: ``limits=`` of ``strand.Dispatcher`` and ``strand.replay`` (docs/overload.md).

    ``capacity_ticks`` and ``on_full`` can also be given there as options of their own.

    Raises:
        ConfigurationError: If a field cannot work; it names the field. Conditions on the policy are checked where the
            limits are used.
    """

    capacity_ticks: int = option(
        65_536,
        _CAPACITY,
        "Bound on the pending ticks of each strand.",
        more='With ``"drop_oldest"`` and ``"conflate"`` it counts ticks that wait, not those in a worker\'s hands.',
        flag=None,
    )
    on_full: str = option(
        "block",
        Choice(tuple(ON_FULL)),
        "What happens at a bound.",
        more='``"conflate"`` keeps the latest tick. With ``total_capacity_ticks`` under ``Levels`` it may be '
        '``"shed"``: ticks of the lowest level make room for higher ones.',
        flag=None,
    )
    total_capacity_ticks: int | None = option(
        None,
        _CAPACITY,
        "Bound on the pending ticks of all strands together.",
        unset="none",
        more="For a scheduler: tasks that wait.",
        flag=None,
    )
    level_capacity_ticks: Mapping[str, int] | None = option(
        None,
        ByName(_CAPACITY, level_name, "LEVEL=TICKS"),
        "Under Levels, the bound on the pending ticks of all strands of a level.",
        unset="none",
        flag=None,
    )
    memory_bytes: int | None = option(
        None,
        Whole(1),
        "Bound of the segments of all queues together, in bytes.",
        unset="enough for 64 strands at their bound, and more",
        more="When they are used up, publishing waits whatever ``on_full`` says.",
    )
    output_memory: int = option(
        1 << 26,
        Whole(1),
        "Bytes that may be emitted and not merged yet; beyond that publishing waits.",
        more="In a replay of several merged feeds, each tick that is not final counts 4 bytes more.",
    )

    def __post_init__(self) -> None:
        read_options(self).end()

    def __repr__(self) -> str:
        return written(self)


def chosen(name: str, given: K | None, usual: K) -> K:
    """Value given as the option ``name``, else ``usual``. Raises ConfigurationError for another kind of object."""
    if given is None:
        return usual
    if not isinstance(given, type(usual)):
        raise ConfigurationError(name, f"{given!r} is not a strand.{type(usual).__name__}")
    return given


def capacities(limits: Limits, policy: str) -> tuple[int, tuple[int, ...]]:
    """The bounds in ticks, in all and by level, the highest first, as the engine takes them: 0 for none.

    ``policy``: its name. Raises ConfigurationError for a bound that the policy or ``on_full`` cannot keep."""
    on_full, total, of_levels = limits.on_full, limits.total_capacity_ticks or 0, limits.level_capacity_ticks or {}
    faults, given = Faults(), "total_capacity_ticks" if total else "level_capacity_ticks"
    if of_levels and policy != "levels":
        faults.append(
            ConfigurationError("level_capacity_ticks", f"the policy {policy!r} has no levels; {give_policy('levels')}")
        )
    if (total or of_levels) and on_full in ("drop_oldest", "conflate"):
        faults.append(
            ConfigurationError(
                "on_full",
                f"{on_full!r} makes room on one strand only, and {given} is a bound over several; give 'shed', "
                "'drop_newest', 'block' or 'raise'",
            )
        )
    if on_full == "shed" and policy != "levels":
        reason = (
            f"'shed' drops the lowest level first, and the policy {policy!r} has no levels; {give_policy('levels')}"
        )
        faults.append(ConfigurationError("on_full", reason))
    elif on_full == "shed" and not total:
        reason = "'shed' makes room at a bound over all strands; give total_capacity_ticks"
        faults.append(ConfigurationError("on_full", reason))
    faults.end()
    return total, tuple(of_levels.get(level, 0) for level in LEVELS)


#: Ticks in flight from which on a publisher helps and waits: few enough that no strand is at its bound before.
AHEAD_TICKS = 1 << 15
#: Bytes written for each of them as a dispatcher is made: its places in tables by symbol; sizeof(sd_strand).
_SYMBOL_BYTES, _STRAND_BYTES = 16, 128
#: Strands that may stand at their bound, paused or slow, before the default pool of segments is used up.
FULL_STRANDS = 64
#: Pinned workers from which on they have time for a thread more between them.
_WORKERS_ENOUGH = 3


def check_timed(handlers: Sequence[Handler], reader: RecordReader) -> bool:
    """Tells whether a handler has timers. Raises ConfigurationError where the records have no time for them."""
    timed = [h.name for h in handlers if h.timers]
    if timed and reader.time_offset is None:
        raise ConfigurationError(
            "handler", f"the timers of {timed[0]!r} need the feed's time, and these records have no u64 field ts_recv"
        )
    return bool(timed)


def check_memory(n_symbols: int, n_strands: int) -> None:
    """Refuses what would be written to more memory than there is as it is made: the system kills who asks for that."""
    least, there = _SYMBOL_BYTES * n_symbols + _STRAND_BYTES * n_strands, memory_there()
    if least > there:
        raise ConfigurationError(
            "symbols",
            f"{n_symbols:,} on {n_strands:,} strands take {least / 1e9:,.1f} GB at once, but this machine has "
            f"{there / 1e9:,.1f} GB: give fewer symbols or strands",
        )


class WorkerCores(NamedTuple):
    """Number of ``workers``, and the core of each, ``pinned``: None where nothing is pinned. ``allowed``: the cores
    that this process may use. ``are_given``: the user has named them."""

    workers: int
    pinned: list[int] | None
    allowed: list[int]
    are_given: bool


def worker_cores(cores: Sequence[int] | str | None, workers: int | None) -> WorkerCores:
    """Reads a dispatcher's arguments ``cores`` and ``workers``."""
    allowed = sorted(os.sched_getaffinity(0))
    n = whole("workers", max(1, len(allowed) - 1) if workers is None else workers, 1, 1024)
    return WorkerCores(n, _pinned(cores, allowed, n), allowed, not isinstance(cores, str))


def _pinned(cores: Sequence[int] | str | None, allowed: list[int], workers: int) -> list[int] | None:
    """The core of each worker, taken in turn; None where nothing is pinned."""
    if cores is None:
        return None
    if isinstance(cores, str):
        if cores != "auto":
            raise ConfigurationError("cores", f"{cores!r} is not 'auto', None or a list of core numbers")
        return [allowed[-1 - i % len(allowed)] for i in range(workers)][::-1]
    if not isinstance(cores, Iterable):
        raise ConfigurationError("cores", f"{cores!r} is not 'auto', None or a list of core numbers")
    cores = list(cores)
    missing = [c for c in cores if not is_whole(c) or c not in allowed]
    if missing or not cores:
        raise ConfigurationError(
            "cores", f"{missing or 'an empty list'} cannot be used; this process may use {allowed}"
        )
    return [int(cores[i % len(cores)]) for i in range(workers)]


def merging_cores(allowed: list[int], cores: Sequence[int | None] | None) -> list[int]:
    """Cores for merging and writing. ``cores``: those of the workers.

    The publisher sets the pace of a run: so a single core without a worker is kept for it, if the workers are enough
    for the rest (bars in memory on four cores: 0.83 to 0.96 of the time; on three no gain, on two a loss).
    """
    taken = sorted({core for core in cores or () if core is not None})
    return taken if len(taken) >= _WORKERS_ENOUGH and len(allowed) - len(taken) == 1 else allowed


def symbol_counts(counts: npt.ArrayLike | None, symbols: int) -> npt.NDArray[Any] | None:
    """Ticks expected a symbol, shape (symbols,), or None."""
    if counts is None:
        return None
    array = np.asarray(counts)
    if array.shape != (symbols,) or array.dtype.kind not in "uif" or not np.isfinite(array).all() or (array < 0).any():
        raise ConfigurationError("counts", f"give one finite, non-negative number for each of the {symbols} symbols")
    return array


def _pool_segments(
    memory_bytes: int | None,
    *,
    participants: int,
    n_strands: int,
    ahead: int,
    capacity: int,
    record: int,
    has_positions: bool,
) -> int:
    """Number of segments: for records in flight, for FULL_STRANDS at their bound, one or two per strand, and those that
    rest in caches.

    Segments take memory once they are used, the first ones (csrc/state/arena.c) at once.
    """
    per_segment = segment_records(record)
    in_caches = (participants + 1) * CACHED_SEGMENTS
    if memory_bytes is None:
        return (
            in_caches
            + 2 * (ahead // per_segment)
            + FULL_STRANDS * (min(capacity, 1 << 20) // per_segment + 1)
            + 2 * min(n_strands, 32_768)
        )
    size = segment_bytes(record, has_positions)
    segments = memory_bytes // size
    if segments <= in_caches + capacity // per_segment + 1:
        least = (in_caches + capacity // per_segment + 2) * size
        raise ConfigurationError(
            "memory_bytes",
            f"{memory_bytes} is too little for one strand of {capacity} ticks and the buffers of "
            f"{participants} threads; give at least {least}, or lower capacity_ticks or max_publishers",
        )
    return min(segments, 2**31)


def _check_conflate(
    capacity: int,
    n_strands: int,
    kind_of_unit: npt.NDArray[np.uint32],
    alone: Sequence[bool],
    units: npt.NDArray[np.intp] | None,
) -> None:
    """Refuses a bound that cannot hold the latest tick of every symbol on a strand."""
    spread = strands_for(n_strands, kind_of_unit, alone, None)
    of_symbol = spread.strand_of_symbol if units is None else spread.strand_of_symbol[units]
    most = int(np.bincount(of_symbol).max())
    # Busy symbols may get strands of their own later, which leaves the quiet ones closer together: half the strands.
    if n_strands < len(of_symbol) and capacity < 2 * most:
        raise ConfigurationError(
            "capacity_ticks",
            f"{capacity} cannot keep the latest tick of each of up to {2 * most} symbols that share a "
            "strand; raise it, or give strands='per-symbol'",
        )


def _python_workers(given: Any, workers: int, handlers: Sequence[Handler]) -> int:
    """Number as the engine takes it: by default ticks that C handles keep a worker, where threads share a GIL."""
    if given is None:
        return ALL_BUT_ONE if workers > 1 and has_gil() and any(handler.is_native for handler in handlers) else 0
    n = whole("python_workers", given, 1, workers)
    return n if n < workers else 0


def order_of(table: SymbolTable, options: "DispatcherOptions") -> Order:
    """Reads a run's options about the order. Warns of weights that seem to be misspelt. Raises what ``policy_config``,
    ``priorities_of``, ``groups_of`` and ``marks_of`` raise."""
    policy, priorities, groups = options["policy"], options["priorities"], options["groups"]
    guard, marks = options["guard"], options["marks"]
    config, ranks = policy_config(policy), priorities_of(policy, table, priorities)
    if (grouped := groups_of(policy, table, groups)) is not None:
        ranks = grouped.of_symbol
        for name, near in grouped.misspelt.items():
            warnings.warn(
                f"weights: no symbol is in the group {name!r}: did you mean {near!r}?", RuntimeWarning, stacklevel=4
            )
    is_marked = guard is not None or marks is not None
    bits = marks_of(guard, policy, table, marks) if is_marked else np.zeros(len(table), np.uint8)
    return Order(policy, config, ranks, bits, grouped)


def engine_config(
    reader: RecordReader,
    assigned: Assigned,
    order: Order,
    cores: WorkerCores,
    options: "DispatcherOptions",
    *,
    pool: Pool,
    limits: Limits,
    emits: bool,
    **given: Any,
) -> EngineConfig:
    """The engine's sizes and choices, from a dispatcher's arguments. ``emits``: there are outputs, or a history of
    rows; both need records' positions. ``given``: fields of the configuration beside these."""
    handlers, units = assigned.handlers, assigned.units
    total, of_levels = capacities(limits, order.config.name)
    kind_of_symbol, handler_of = kinds_of(assigned.of_symbol, order.ranks, order.marks)
    alone = [not handlers[handler].is_native for handler in handler_of]
    n_symbols, kind_of_symbol = len(kind_of_symbol), kinds_of_units(kind_of_symbol, units)
    n_strands = strand_count(options["strands"], kind_of_symbol, alone, cores.workers)
    check_memory(n_symbols, n_strands)
    if limits.on_full == "conflate":
        _check_conflate(limits.capacity_ticks, n_strands, kind_of_symbol, alone, units)
    timed = check_timed(handlers, reader)
    ends = any(h.ends for h in handlers) and reader.time_offset is not None
    ahead = max(AHEAD_TICKS, 3 * options["batch_ticks"])
    has_positions = emits or timed or ends
    return EngineConfig(
        record_size=reader.dtype.itemsize,
        key_offset=reader.key_offset,
        sequence_offset=reader.sequence_offset,
        sequence_high=reader.sequence_high,
        time_offset=reader.time_offset,
        row_bytes=max(h.state.itemsize for h in handlers),
        n_symbols=n_symbols,
        n_strands=n_strands,
        n_workers=cores.workers,
        n_publishers=pool.max_publishers,
        n_segments=_pool_segments(
            limits.memory_bytes,
            participants=cores.workers + pool.max_publishers,
            n_strands=n_strands,
            ahead=ahead,
            capacity=limits.capacity_ticks,
            record=reader.dtype.itemsize,
            has_positions=has_positions,
        ),
        budget_ticks=pool.budget_ticks,
        budget_ns=int(pool.budget_us * 1000),
        idle=pool.idle,
        on_full=limits.on_full,
        capacity_ticks=limits.capacity_ticks,
        ahead_ticks=ahead,
        has_positions=has_positions,
        python_workers=_python_workers(pool.python_workers, cores.workers, handlers),
        one_core=len(cores.allowed) == 1,
        output_memory=limits.output_memory,
        policy=order.config,
        total_capacity_ticks=total,
        level_capacity_ticks=of_levels,
        on_error=options["on_error"],
        batch_ticks=options["batch_ticks"],
        publisher_drains=options["publisher_drains"],
        ingest=options["ingest"],
        **given,
    )


#: Options that are objects of several, by name.
GROUPS: Final[Mapping[str, type[Any]]] = {"pool": Pool, "limits": Limits}
#: Fields of these that are options of their own, too.
_POOL: Final = {one.name: one for one in fields(Pool)}
_LIMITS: Final = {one.name: one for one in fields(Limits)}


class QueueOptions(TypedDict, total=False):
    """About workers and queues: a plain loop has none, and they have nothing to act on there."""

    workers: Annotated[int | None, _POOL["workers"]]
    cores: Annotated[Sequence[int] | Literal["auto"] | None, _POOL["cores"]]
    idle: Annotated[str, _POOL["idle"]]
    budget_ticks: Annotated[int, _POOL["budget_ticks"]]
    pool: Annotated[
        Pool | None, None, Object(Pool), "In place of these four, a ``strand.Pool``, which has more options."
    ]
    retry: Annotated[
        "RetryPolicy | None", None, "For ``tasks`` that have no retry policy of their own. None: they fail at once."
    ]
    strands: Annotated[
        StrandsLike, "auto", "per-symbol, a number, or auto: busy symbols have a strand alone, quiet ones share."
    ]
    counts: Annotated[
        npt.ArrayLike | None,
        None,
        "For ``strands``, how many ticks to expect of each symbol, shape (n_symbols,). None: goes by the first "
        "array published.",
    ]
    capacity_ticks: Annotated[int, _LIMITS["capacity_ticks"]]
    on_full: Annotated[str, _LIMITS["on_full"]]
    limits: Annotated[
        Limits | None,
        None,
        Object(Limits),
        "In place of these two, a ``strand.Limits``, which also has bounds over several strands.",
    ]
    batch_ticks: Annotated[int, 8192, Whole(1, 65_536), "How many ticks are grouped at once."]
    publisher_drains: Annotated[
        bool,
        True,
        "Publishing threads may run handlers, when they are ahead and where that is cheaper than passing ticks.\n"
        "False: a handler never delays a publisher.",
    ]
    ingest: Annotated[
        str,
        "auto",
        Choice(tuple(INGEST)),
        "``blocks``: all threads group and handle the ticks of long arrays and plain files, where that is possible.\n"
        "``publish``: the publishing thread groups them. ``auto``: what costs less, as measured (docs/blocks.md).",
    ]
    name: Annotated[str, "", Text(), "The name that ``strand.attach`` knows it by."]


class RunOptions(QueueOptions, total=False):
    """All options of ``strand.Dispatcher``, without those that a feed decides and those that its callers have
    themselves."""

    policy: Annotated[
        Policy,
        Fifo(),
        "The ready strand to drain next: ``Fifo()``, ``Levels()``, ``Aging()`` or ``Fair()`` (docs/policies.md).",
    ]
    priorities: Annotated[
        Mapping[str, Any] | None,
        None,
        Text("SYMBOL=VALUE"),
        "Priority by symbol; * is for symbols that are not named. Under ``Levels`` a level; under ``Aging`` a whole "
        'number, a class, or both, else 0. None: normal.\nBoth are like ``("urgent", 10)``.',
    ]
    guard: Annotated[
        Guard | None,
        None,
        Object(Guard),
        "Hold low levels back under ``Levels`` while CPU, memory or I/O is short.\nSee docs/guard.md.",
    ]
    marks: Annotated[
        Mapping[str, str | Iterable[str]] | None,
        None,
        Text("SYMBOL=MARK"),
        "For a guard, what a symbol's handler does: io or frees_memory; * is for symbols that are not "
        "named.\nOr a set of both.",
    ]
    groups: Annotated[
        Mapping[str, str] | None,
        None,
        Text("SYMBOL=GROUP"),
        "Under ``Fair``, the group by symbol; * is for symbols that are not named. None: each symbol is a group of its "
        "own.",
    ]
    on_error: Annotated[
        str, "stop", Choice(tuple(ON_ERROR)), "When a handler fails: stop the run, or set its strand aside and go on."
    ]
    escape_formulas: Annotated[
        bool,
        False,
        "In CSV files, write an apostrophe before text that a spreadsheet would run as a formula: text that begins "
        "with =, +, -, @, a tab or a return.",
    ]
    attachable: Annotated[
        bool,
        False,
        "Let another process of the same user look at it while it runs.\n``strand.attach`` does. Its memory then has "
        "the pages that the system gives to files, which are usually small.",
    ]


class DispatcherOptions(RunOptions, total=False):
    """All options of ``strand.Dispatcher`` that another kind of run takes too."""

    out: Annotated[
        "Mapping[str, Destination] | None",
        None,
        "Files, or sinks of your own (``strand.Sink``), for the outputs of handlers, by name.\nOther outputs are "
        "collected in memory (``outputs``).",
    ]
    dtype: Annotated[np.dtype[Any], TICK, "The structured dtype of the records."]
    key: Annotated[str, "instrument_id", "The u32 field of the records that has the symbol's index."]
    columns: Annotated[
        Mapping[str, str | Mapping[str, Any] | None] | None,
        None,
        "By tick field, the field of the published arrays, which are then converted as ``NpyFeed`` does.\nUsual "
        "names of a field are found without.",
    ]
    column_options: Annotated[
        "ColumnOptions | None",
        None,
        "Options of that reader: constants, price_unit, size_unit, time_unit, inexact and nulls.\nIf no column gives "
        "a ``sequence``, it is the row's place from 1 among all rows given to ``publish``, refused ones too.",
    ]
    feed: Annotated[
        "TicksAre | FeedInfo | None",
        None,
        'What the ticks mean: the ``info`` of the feed that they come from, or for ticks of your own ``"plain"``, '
        '``"orders"``, ``"dbn"`` or ``"dbn-orders"`` (``strand.feeds.FeedInfo.ticks``).\nBy it ``vwap``, ``bars`` '
        "and others that count trades know what is a trade, and whether they need books. Without it they take ticks "
        "as they are. Single orders that come to them are then counted, with a RuntimeWarning.",
    ]


def pool_of(options: RunOptions) -> Pool:
    """The pool that the options give. Raises ConfigurationError."""
    own: Any = {name: value for name, value in options.items() if name in _POOL}
    return chosen("pool", options.get("pool"), Pool(**own))


def limits_of(options: RunOptions) -> Limits:
    """The limits that the options give. Raises ConfigurationError."""
    own: Any = {name: value for name, value in options.items() if name in _LIMITS}
    return chosen("limits", options.get("limits"), Limits(**own))


def workers_of(options: RunOptions) -> int | None:
    """Number of workers that the options ask for; None: the default."""
    return pool_of(options).workers


def grouped(**given: Any) -> dict[str, Any]:
    """A dispatcher's options, with the fields of ``Pool`` and ``Limits`` among them. A field that is an option itself
    stays so, unless others of its group, or the group itself, are given too. Raises ConfigurationError."""
    found = dict(given)
    for group, kind in GROUPS.items():
        names = {one.name for one in fields(kind)} & given.keys()
        if found.get(group) is not None or not names <= QueueOptions.__annotations__.keys():
            parts = {name: found.pop(name) for name in names}
            found[group] = kind(**parts) if found.get(group) is None else replace(found[group], **parts)
    return found
