"""The laboratory of csrc/lab: the generated market, the baselines of benchmarks, the ping of a tick.

It is a module in C of its own, ``strand._lab``, so that nothing else loads it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import CORE
from strand.binding.engine import Engine
from strand.binding.engine_words import IDLE
from strand.binding.gate import checked, made
from strand.binding.memory import filled, owned
from strand.binding.native import NativeFunction
from strand.errors import DISTRIBUTION, ConfigurationError
from strand.fixed import dataclass

try:
    from strand._lab import ffi, lib
except ImportError as error:
    raise ImportError(
        f"the generated market and the benchmarks need the module strand._lab, which cannot be loaded ({error}): "
        f"install {DISTRIBUTION} again"
    ) from error

MAX_SYMBOLS: Final[int] = lib.SD_MARKET_MAX_SYMBOLS
#: A stock locate has 16 bits, and 0 is none.
MAX_ITCH_SYMBOLS: Final[int] = lib.SD_ITCH_MAX_SYMBOLS
#: Bytes of the longest event, its length field included.
EVENT_BYTES: Final[int] = lib.SD_ITCH_EVENT_BYTES
#: Messages before the first event, besides three a symbol; among the events; and after the last one.
OPENING_MESSAGES: Final[int] = lib.SD_ITCH_OPENING_MESSAGES
HOURS_MESSAGES: Final[int] = lib.SD_ITCH_HOURS_MESSAGES
CLOSING_MESSAGES: Final[int] = lib.SD_ITCH_CLOSING_MESSAGES
#: A halted symbol's day needs at least so many messages.
MESSAGES_A_HALT: Final[int] = lib.SD_MARKET_MESSAGES_A_HALT
#: The order an event is about, as it was before: price in units of 1e-9, side empty where there is none.
ORDER_BEFORE: Final = np.dtype([("price", "<i8"), ("shares", "<u4"), ("side", "S1"), ("unused", "V3")])


def _checked(code: int) -> int:
    return checked(
        code,
        "the generator was given a size or a weight out of its range",
        ConfigurationError,
        no_memory="the generator could not get the memory it needs",
        corrupt="a generated order book does not hold what its header says",
    )


def zipf_weights(symbols: int, exponent_q32: int) -> npt.NDArray[np.uint64]:
    """rank^-exponent, the exponent in units of 2^-32: shape (symbols,), uint64."""
    out = np.empty(symbols, np.uint64)
    _checked(lib.sd_weights_zipf(symbols, exponent_q32, ffi.from_buffer("uint64_t[]", out)))
    return out


def weights_from_counts(counts: npt.NDArray[np.uint64], symbols: int) -> npt.NDArray[np.uint64]:
    """The weights of any number of symbols from the counts of some ranks: shape (symbols,), uint64."""
    out = np.empty(symbols, np.uint64)
    given = ffi.from_buffer("uint64_t[]", np.ascontiguousarray(counts, np.uint64))
    _checked(lib.sd_weights_from_counts(given, len(given), symbols, ffi.from_buffer("uint64_t[]", out)))
    return out


def interpolate_ranks(ranks: Sequence[int], values: Sequence[int], symbols: int) -> npt.NDArray[np.uint32]:
    """Straight lines on logarithmic axes through (rank, value), at ranks 1 to ``symbols``: shape (symbols,), uint32."""
    out = np.empty(symbols, np.uint32)
    x, y = ffi.new("uint32_t[]", list(ranks)), ffi.new("uint32_t[]", list(values))
    _checked(lib.sd_interpolate_ranks(x, y, len(x), symbols, ffi.from_buffer("uint32_t[]", out)))
    return out


@dataclass(frozen=True, slots=True)
class MarketTotals:
    """Events made so far, orders live now, bytes held for them, and shares traded."""

    events: int
    live_orders: int
    order_bytes: int
    volume: int


class Market:
    """A trading day being made. Not for two threads at once."""

    def __init__(self, *, weights: npt.NDArray[np.uint64], run_lengths: npt.NDArray[np.uint32], **numbers: int) -> None:
        """``weights`` and ``run_lengths`` by rank, of one length: the number of symbols. ``numbers``: the other fields
        of ``sd_market_config`` but ``first_sequence``; ratios in units of 2^-16."""
        symbols = len(weights)
        if len(run_lengths) != symbols:
            raise ValueError("weights and run_lengths differ in length")
        config = filled("sd_market_config", numbers, "first_sequence", "symbols", ffi=ffi)
        config.first_sequence, config.symbols = OPENING_MESSAGES + 3 * symbols + 1, symbols
        made: Any = ffi.new("sd_market **")
        _checked(
            lib.sd_market_create(
                config, ffi.from_buffer("uint64_t[]", weights), ffi.from_buffer("uint32_t[]", run_lengths), made
            )
        )
        self._market: Any = owned(made[0], lib.sd_market_destroy)

    def next_batch(
        self,
        ticks: npt.NDArray[Any],
        types: npt.NDArray[np.uint8] | None = None,
        orders: npt.NDArray[Any] | None = None,
    ) -> int:
        """Fills ``ticks`` (contiguous, ``strand.TICK``) and, when given, ``types`` with the letters of their ITCH
        messages and ``orders`` (``ORDER_BEFORE``) with what their orders were before. Returns how many events were
        made, 0 at the end of the day.
        """
        letters: Any = ffi.NULL
        before: Any = ffi.NULL
        if types is not None:
            if len(types) < len(ticks):
                raise ValueError("types is shorter than ticks")
            letters = ffi.from_buffer("char[]", types, require_writable=True)
        if orders is not None:
            if len(orders) < len(ticks) or orders.dtype != ORDER_BEFORE:
                raise ValueError("orders is shorter than ticks, or of another dtype")
            before = ffi.from_buffer("sd_market_order[]", orders, require_writable=True)
        out = ffi.from_buffer("sd_tick[]", ticks, require_writable=True)
        return _checked(lib.sd_market_next_batch(self._market, out, letters, before, len(ticks)))

    def busiest(self) -> int:
        """Index from 0 of the symbol that is drawn most often."""
        return int(lib.sd_market_busiest(self._market))

    def totals(self) -> MarketTotals:
        """Counts as they stand; looks at every symbol."""
        totals: Any = ffi.new("sd_market_totals *")
        lib.sd_market_read_totals(self._market, totals)
        return MarketTotals(totals.events, totals.live_orders, totals.order_bytes, totals.volume)

    def check(self) -> None:
        """Raises AssertionError when an order book is not what its header says."""
        _checked(lib.sd_market_check(self._market))


def fill_opening_ticks(symbols: int, first: int, midnight_ns: int, out: npt.NDArray[Any]) -> None:
    """The trading states of symbols ``first`` and on, one a tick of ``out``."""
    lib.sd_itch_opening_ticks(
        symbols, first, len(out), midnight_ns, ffi.from_buffer("sd_tick[]", out, require_writable=True)
    )


def opening_bytes(symbols: int) -> bytes:
    """The messages before a day's events: start, directory, trading states, market makers, circuit breaker levels."""
    size = lib.sd_itch_opening_bytes(symbols)
    out = bytearray(size)
    if lib.sd_itch_write_opening(symbols, ffi.from_buffer("uint8_t[]", out)) != size:
        raise AssertionError("the opening is not as long as announced")
    return bytes(out)


class ItchWriter:
    """Writes a day's events as ITCH 5.0, each message after its length."""

    def __init__(self, midnight_ns: int) -> None:
        self._writer: Any = ffi.new("sd_itch_writer *", {"midnight_ns": midnight_ns})

    @staticmethod
    def bytes_for(events: int) -> int:
        """Bytes that so many events take at most."""
        return int(events * lib.SD_ITCH_EVENT_BYTES + lib.SD_ITCH_HOURS_BYTES)

    def events(self, ticks: npt.NDArray[Any], types: npt.NDArray[np.uint8], out: npt.NDArray[np.uint8]) -> int:
        """Writes events with the start and the end of market hours among them; returns the bytes written."""
        if len(types) < len(ticks) or len(out) < self.bytes_for(len(ticks)):
            raise ValueError("types or out is too short for the ticks")
        return _checked(
            lib.sd_itch_write_events(
                self._writer,
                ffi.from_buffer("sd_tick[]", ticks),
                ffi.from_buffer("char[]", types),
                len(ticks),
                ffi.from_buffer("uint8_t[]", out, require_writable=True),
            )
        )

    def closing(self) -> bytes:
        """The messages after a day's events: end of system hours and of messages."""
        out = bytearray(lib.SD_ITCH_HOURS_BYTES + 14 * CLOSING_MESSAGES)
        return bytes(out[: lib.sd_itch_write_closing(self._writer, ffi.from_buffer("uint8_t[]", out))])


def fill_route_stream(ticks: npt.NDArray[Any], weights: npt.NDArray[np.float64]) -> None:
    """The routing benchmark's stream (csrc/lab/generate/route_stream.h) for ``weights`` by rank."""
    out = ffi.from_buffer("sd_tick[]", ticks, require_writable=True)
    _checked(lib.sd_route_stream(out, len(ticks), ffi.from_buffer("double[]", weights), len(weights)))


#: The records of DBN's MBO schema, the names and the layout of its ``MboMsg``: 56 bytes.
MBO: Final = np.dtype(
    [
        ("length", "u1"), ("rtype", "u1"), ("publisher_id", "<u2"), ("instrument_id", "<u4"), ("ts_event", "<u8"),
        ("order_id", "<u8"), ("price", "<i8"), ("size", "<u4"), ("flags", "u1"), ("channel_id", "u1"),
        ("action", "S1"), ("side", "S1"), ("ts_recv", "<u8"), ("ts_in_delta", "<i4"), ("sequence", "<u4"),
    ]
)  # fmt: skip
#: The most records that one event takes.
MBO_EVENT_RECORDS: Final[int] = lib.SD_MBO_EVENT_RECORDS
#: Levels that a LOBSTER book may have.
MAX_LEVELS: Final[int] = lib.SD_LOBSTER_MAX_LEVELS


def _written(code: int) -> int:
    return checked(
        code,
        "the generated events do not fit each other",
        AssertionError,
        no_memory="the writer could not get the memory it needs",
    )


class Events:
    """Room for a batch of a market's events: ``ticks``, ``types`` and ``orders`` as ``Market.next_batch`` fills them,
    of which the first ``count`` are there."""

    def __init__(self, capacity: int, ticks: npt.NDArray[Any]) -> None:
        self.ticks = ticks
        self.types = np.empty(capacity, np.uint8)
        self.orders = np.empty(capacity, ORDER_BEFORE)
        self.count = 0

    def pointers(self, start: int = 0) -> tuple[Any, Any, Any, int]:
        """Pointers to the messages from ``start`` on as the writers in C take them."""
        return (
            ffi.from_buffer("sd_tick[]", self.ticks[start : self.count]),
            ffi.from_buffer("char[]", self.types[start : self.count]),
            ffi.from_buffer("sd_market_order[]", self.orders[start : self.count]),
            self.count - start,
        )


class PitchWriter:
    """PITCH lines of batches of at most ``capacity`` events or states."""

    def __init__(self, capacity: int, midnight_ns: int) -> None:
        self._midnight_ns = midnight_ns
        self._out = np.empty(capacity * lib.SD_PITCH_EVENT_BYTES, np.uint8)
        self._into: Any = ffi.from_buffer("uint8_t[]", self._out, require_writable=True)
        self._lines: Any = ffi.new("uint64_t *")

    @property
    def lines(self) -> int:
        """Written so far."""
        return int(self._lines[0])

    def states(self, ticks: npt.NDArray[Any]) -> memoryview:
        """The lines of the trading states at the day's start; valid until the next call, like those of events."""
        given = ffi.from_buffer("sd_tick[]", ticks)
        used = lib.sd_pitch_write_states(given, len(ticks), self._midnight_ns, self._into)
        self._lines[0] += len(ticks)
        return self._out.data[:used]

    def events(self, events: Events) -> memoryview:
        """The lines of a batch."""
        used = lib.sd_pitch_write_events(*events.pointers(), self._midnight_ns, self._into, self._lines)
        return self._out.data[: _written(used)]


class MboWriter:
    """MBO records of batches of at most ``capacity`` events or states."""

    def __init__(self, capacity: int) -> None:
        self._out = np.empty(capacity * MBO_EVENT_RECORDS, MBO)
        self._into: Any = ffi.from_buffer("sd_mbo[]", self._out, require_writable=True)

    @staticmethod
    def count(types: npt.NDArray[np.uint8]) -> int:
        """Number of records that events of these types become."""
        return int(lib.sd_mbo_count(ffi.from_buffer("char[]", types), len(types)))

    def clears(self, ticks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A clear of each book, out of the trading states at the day's start; valid until the next call."""
        lib.sd_mbo_write_clears(ffi.from_buffer("sd_tick[]", ticks), len(ticks), self._into)
        return self._out[: len(ticks)]

    def events(self, events: Events) -> npt.NDArray[Any]:
        """The records of a batch."""
        return self._out[: lib.sd_mbo_write_events(*events.pointers(), self._into)]


class LobsterWriter:
    """The rows of one symbol: of its messages, and of the ``levels`` best of its book after each."""

    #: Events of the symbol that one call takes at most: bounds the memory for their rows.
    _EVENTS: Final = 1024

    def __init__(self, instrument_id: int, levels: int, midnight_ns: int) -> None:
        made: Any = ffi.new("sd_lobster **")
        _written(lib.sd_lobster_create(instrument_id, levels, midnight_ns, made))
        self._writer: Any = owned(made[0], lib.sd_lobster_destroy)
        self._messages = np.empty(self._EVENTS * lib.SD_LOBSTER_MESSAGE_BYTES, np.uint8)
        self._book = np.empty(self._EVENTS * levels * lib.SD_LOBSTER_LEVEL_BYTES, np.uint8)
        self._text: Any = ffi.new("sd_lobster_text *")
        self.rows = 0

    def events(self, events: Events, start: int) -> tuple[int, memoryview, memoryview]:
        """Writes the rows of events from ``start`` on, as many as there is room for.

        Returns how many events it passed, and the rows of messages and of the book; valid until the next call.
        """
        passed = _written(
            lib.sd_lobster_write(
                self._writer,
                *events.pointers(start),
                self._EVENTS,
                ffi.from_buffer("uint8_t[]", self._messages, require_writable=True),
                ffi.from_buffer("uint8_t[]", self._book, require_writable=True),
                self._text,
            )
        )
        text = self._text
        self.rows += int(text.rows)
        return passed, self._messages.data[: text.message_bytes], self._book.data[: text.book_bytes]


#: Ticks in a ring, and the most workers there can be.
RING_TICKS: Final[int] = lib.SD_BENCH_RING
MAX_WORKERS: Final[int] = lib.SD_BENCH_MAX_WORKERS


@dataclass(frozen=True, slots=True)
class RunResult:
    """``seconds`` from the first tick published to the last one handled; ``publish_ns`` a tick, waiting excluded."""

    seconds: float
    publish_ns: float


@dataclass(slots=True)
class Probe:
    """A handler around ``inner`` that books, a tick, the time from when it was due to when its handler was done.

    ``participants``: threads that may run it, publishers included. ``group_of``: of each symbol, shape (symbols,);
    ``counts`` has the ticks of each group. None: all symbols are of group 0. Good for one run.
    """

    inner: NativeFunction
    participants: int
    group_of: npt.NDArray[np.uint8] | None = None
    function: NativeFunction = field(init=False)
    _probe: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        params = ffi.new("char[]", self.inner.params) if self.inner.params else ffi.NULL
        inner = ffi.cast("sd_handler_fn", self.inner.pointer)
        groups = ffi.NULL if self.group_of is None else ffi.from_buffer("uint8_t[]", self.group_of)
        probe = made(
            lib.sd_bench_probe_create(inner, params, self.participants, groups, self.groups),
            f"no memory for the histograms of {self.participants} threads",
        )
        self._probe = owned(probe, lib.sd_bench_probe_destroy)
        pointer = CORE.ffi.cast("sd_handler_fn", ffi.addressof(lib, "sd_bench_handle_probed"))
        address = struct.pack("P", int(ffi.cast("uintptr_t", self._probe)))
        self.function = NativeFunction(
            pointer, address, self.inner.never_publishes, keep=(self._probe, params, groups, self.inner)
        )

    @property
    def groups(self) -> int:
        """Number of groups."""
        return 1 if self.group_of is None else int(self.group_of.max(initial=0)) + 1

    def counts(self, group: int = 0) -> npt.NDArray[np.uint64]:
        """Ticks of a group by bucket, as ``engine.histogram_floors_ns`` has the buckets. After the run only."""
        if not 0 <= group < self.groups:
            raise ValueError(f"group {group} is not one of the {self.groups}")
        out = np.zeros(lib.SD_BUCKETS, np.uint64)
        lib.sd_bench_probe_sum(self._probe, group, ffi.from_buffer("uint64_t[]", out, require_writable=True))
        return out


def _run(
    call: Any,
    function: NativeFunction,
    rows: npt.NDArray[Any],
    ticks: npt.NDArray[Any],
    probe: Probe | None,
    **more: Any,
) -> RunResult:
    if not (rows.flags.c_contiguous and ticks.flags.c_contiguous and rows.flags.writeable):
        raise ValueError("rows and ticks must be contiguous, and rows must be writable")
    params = ffi.new("char[]", function.params) if function.params else ffi.NULL
    run: Any = ffi.new(
        "sd_bench_run *",
        {
            "fn": ffi.cast("sd_handler_fn", function.pointer),
            "params": ffi.cast("void *", params),
            "rows": ffi.from_buffer(rows),
            "row_stride": rows.itemsize,
            "n_rows": len(rows),
            "ticks": ffi.from_buffer("sd_tick[]", ticks),
            "n": len(ticks),
            "probe": ffi.NULL if probe is None else probe._probe,
            **more,
        },
    )
    checked(
        call(run),
        "cores: a worker cannot be pinned to the core it was given",
        ConfigurationError,
        handler="a benchmark's handler did not take all it was given",
        no_memory="no memory, or no threads, for the rings",
    )
    return RunResult(float(run.seconds), float(run.publish_ns))


def serial(
    function: NativeFunction, rows: npt.NDArray[Any], ticks: npt.NDArray[Any], probe: Probe | None = None
) -> RunResult:
    """The handler over the whole tape in the calling thread. ``rows`` is zeroed, one record a symbol; keys are below
    its length. With a probe, ``function`` is the probe's, and ticks are handled when they are due."""
    return _run(lib.sd_bench_serial, function, rows, ticks, probe)


def static(
    function: NativeFunction,
    rows: npt.NDArray[Any],
    ticks: npt.NDArray[Any],
    *,
    home: npt.NDArray[np.uint8],
    cores: Sequence[int | None],
    probe: Probe | None = None,
) -> RunResult:
    """A ring a worker, published to by the calling thread.

    ``home`` has shape (symbols,): each symbol's worker, or the number of workers for the publisher itself.
    ``cores``: one a worker, None leaves it unpinned.
    Raises ConfigurationError for a core that cannot be used.
    """
    if not 1 <= len(cores) <= MAX_WORKERS:
        raise ConfigurationError("workers", f"{len(cores)} is not from 1 to {MAX_WORKERS}")
    if len(home) != len(rows) or (len(home) and int(home.max()) > len(cores)):
        raise ValueError("every symbol must belong to one of the workers, or the publisher")
    pins = ffi.new("int32_t[]", [-1 if core is None else core for core in cores])
    homes = np.ascontiguousarray(home, np.uint8)
    home_at = ffi.from_buffer("uint8_t[]", homes)
    return _run(lib.sd_bench_static, function, rows, ticks, probe, home=home_at, cores=pins, workers=len(cores))


def publish_paced(engine: Engine, participant: int, ticks: npt.NDArray[Any], batch_ticks: int, probe: Probe) -> int:
    """Publishes each tick when it is due, what is due by then at a time; returns the core's code."""
    at = ffi.from_buffer("sd_tick[]", ticks)
    dispatcher = ffi.cast("struct sd_dispatcher *", engine._d)
    return int(
        lib.sd_bench_publish_paced(_engine(), dispatcher, participant, at, len(ticks), batch_ticks, probe._probe)
    )


def _engine() -> Any:
    """The core's engine, for functions of the laboratory that use it."""
    engine: Any = ffi.new("sd_bench_engine *")
    for name, _ in ffi.typeof("sd_bench_engine").fields:
        setattr(engine, name, ffi.cast("void *", CORE.ffi.addressof(CORE.lib, f"sd_{name}")))
    return engine


class Neighbour:
    """A thread that keeps a core busy while the context is entered, and for ``max_s`` at most."""

    def __init__(self, core: int, max_s: float = 60.0) -> None:
        self._core, self._max_ns = core, int(max_s * 1e9)
        self._neighbour: Any = None

    def __enter__(self) -> Neighbour:
        self._neighbour = made(
            lib.sd_bench_neighbour_start(self._core, self._max_ns), "no thread for the busy neighbour"
        )
        return self

    def __exit__(self, *_: object) -> None:
        lib.sd_bench_neighbour_stop(self._neighbour)
        self._neighbour = None


#: Time for which an idle worker is watched.
QUIET_NS: Final = 200_000_000


@dataclass(frozen=True, slots=True)
class PingResult:
    """``latency_ns`` has shape (n,), uint64. ``wall_ns`` and ``worker_cpu_ns`` are of the span in which ticks came,
    ``quiet_ns`` and ``quiet_cpu_ns`` of the one after it, in which none did."""

    latency_ns: npt.NDArray[np.uint64]
    wall_ns: int
    worker_cpu_ns: int
    quiet_ns: int
    quiet_cpu_ns: int
    parks: int


def ping(n: int, idle: str, gap_ns: int, publisher_core: int | None, worker_core: int | None) -> PingResult:
    """Publishes ``n`` single ticks, each ``gap_ns`` after the last one was handled, to one worker that waits ``idle``.

    Raises ConfigurationError for a core that cannot be used.
    """
    latency_ns = np.zeros(n, np.uint64)
    ping: Any = ffi.new(
        "sd_bench_ping *",
        {
            "idle": IDLE[idle],
            "publisher_core": -1 if publisher_core is None else publisher_core,
            "worker_core": -1 if worker_core is None else worker_core,
            "gap_ns": gap_ns,
            "n": n,
            "quiet_ns": QUIET_NS,
            "latency_ns": ffi.from_buffer("uint64_t[]", latency_ns, require_writable=True),
        },
    )
    code = lib.sd_bench_ping_run(ping, _engine())
    checked(
        code,
        f"a single tick was not published: code {code}",
        argument=f"a thread cannot be pinned to core {publisher_core} or {worker_core}",
        no_memory="no memory, or no threads, to measure with",
    )
    times = (ping.wall_ns, ping.worker_cpu_ns, ping.quiet_ns, ping.quiet_cpu_ns, ping.parks)
    return PingResult(latency_ns, *map(int, times))
