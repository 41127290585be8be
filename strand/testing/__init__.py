"""Tools for tests of handlers and feeds: ticks from a list, a clock to move, the plain loop, two runs compared, and
runs whose interleaving a seed decides: the engine's real code on one thread, under a scheduler of its own."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Publisher, ScheduledEngine
from strand.binding.gate import Code, publish_error
from strand.binding.memory import Space
from strand.brief import brief
from strand.caller.run import CallerRun
from strand.diff.runs import to_json
from strand.dispatch.base import HistoryOf
from strand.dispatch.configuration import (
    GROUPS,
    DispatcherOptions,
    Pool,
    RunOptions,
    WorkerCores,
    engine_config,
    limits_of,
    order_of,
    pool_of,
    symbol_counts,
)
from strand.dispatch.engine_run import EngineRun
from strand.dispatch.workers import work
from strand.errors import ConfigurationError, DifferenceError, StoppedError
from strand.feeds import Feed
from strand.feeds.base import BaseFeed, FeedInfo, TickBatch
from strand.handlers import HandlerLike
from strand.handlers.host import warn_of_unpriced
from strand.options import named_options, read_given, refuse_unknown
from strand.output.rows import Rows
from strand.output.sinks import Destination
from strand.replaying.options import ReplayOptions, asked_of
from strand.replaying.replay import replay_by
from strand.replaying.result import ReplayResult
from strand.threads import install, installed
from strand.ticks import FIELDS, KIND_ORDER, KIND_QUOTE, KIND_TRADE, PRICE_SCALE, TICK, UNDEF_PRICE, limits, zeros
from strand.validate import is_whole, seconds, several, whole

if TYPE_CHECKING:
    from strand.feeds.base import Flags, TicksAre

__all__ = ["Clock", "ListFeed", "assert_same", "check_seeds", "feed", "reference", "seeded"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: A tick by the names of its fields, or a trade as (symbol, time, price, size).
TickLike: TypeAlias = Mapping[str, Any] | tuple[str, int, Any, int]

#: The letters of a tick of text.
_LETTERS: Final = ("action", "side")
#: The fields that a tick may be given by, beside its price.
_NAMES: Final = frozenset(FIELDS) - {"instrument_id"} | {"symbol", "time", "bid", "bid_size", "ask", "ask_size"}


class InfoOptions(TypedDict, total=False):
    """Fields of ``strand.feeds.FeedInfo``."""

    format: str
    path: str
    date: str | None
    venue: str | None
    price_unit: float | None
    span: tuple[int, int] | None
    details: dict[str, Any]
    undated: bool
    size_unit: str | float | Decimal | None
    ticks: TicksAre | None
    ticks_assumed: bool
    prices_assumed: bool
    zone: str | None
    flags: Flags | None
    has_sizes: bool
    bars: int | None


class ListFeed(BaseFeed):
    """The feed that ``strand.testing.feed`` makes. All batches share one buffer, which each overwrites, as readers of
    files do.

    Attributes:
        ticks: All ticks, shape (n,), dtype ``strand.TICK``.
        names: The names by index, as they are known in the end.
        closed: How often the feed was closed.
    """

    def __init__(
        self,
        ticks: npt.NDArray[Any],
        /,
        symbols: Sequence[str],
        *,
        batches: int | Sequence[int] | None = None,
        error: Exception | None = None,
        error_at: int | None = None,
        known_from: int = 0,
        max_symbols: int | None = None,
        **info: Unpack[InfoOptions],
    ) -> None:
        super().__init__()
        self.ticks = ticks
        self.closed = 0
        self.names, self._given = list(symbols), 0
        self._known_from = whole("known_from", known_from, 0, len(ticks))
        self._max_symbols = len(self.names) if max_symbols is None else whole("max_symbols", max_symbols, 0)
        if error is None and error_at is not None:
            raise ConfigurationError("error_at", "give the error too, error=TruncatedFeedError(...)")
        self._error = error
        self._end = whole("error_at", len(ticks) if error_at is None else error_at, 0, len(ticks))
        self._starts = _starts(batches, self._end)
        span = (int(ticks["ts_recv"].min()), int(ticks["ts_recv"].max())) if len(ticks) else None
        known: dict[str, Any] = {"format": "list", "path": "memory", "span": span, **info}
        self._info = FeedInfo(**known)

    @property
    def info(self) -> FeedInfo:
        return self._info

    @property
    def symbols(self) -> Sequence[str]:
        return self.names if self._given >= self._known_from else []

    @property
    def max_symbols(self) -> int:
        return self._max_symbols

    def count(self) -> int | None:
        """All its ticks, also where an error comes before the last of them."""
        return len(self.ticks)

    def batches(self) -> Iterator[TickBatch]:
        pieces = list(itertools.pairwise([*self._starts, self._end]))
        buffer = zeros(max((end - start for start, end in pieces), default=0))
        self._given = 0
        for start, end in pieces:
            buffer.view(np.uint8)[:] = 0  # who keeps a batch does not find its ticks there any more
            batch = buffer[: end - start]
            batch[:] = self.ticks[start:end]
            self._given = end
            yield batch
        if self._error is not None:
            raise self._error

    def statistics(self) -> dict[str, int]:
        return {"ticks": self._given}

    def close(self) -> None:
        self.closed += 1


@named_options("feed()", more=FeedInfo)
def feed(
    records: Sequence[TickLike] | npt.NDArray[Any],
    /,
    symbols: Sequence[str] | None = None,
    *,
    batches: int | Sequence[int] | None = None,
    error: Exception | None = None,
    error_at: int | None = None,
    known_from: int = 0,
    max_symbols: int | None = None,
    **info: Unpack[InfoOptions],
) -> ListFeed:
    """Makes a feed of ticks from a list, for ``strand.replay``, ``strand.testing.reference`` and
    ``strand.testing.seeded``.

    A tick that is a dict has

    - ``symbol``, a name;
    - ``time``, ns since the epoch, which becomes ``ts_recv`` and ``ts_event``; without it, 1 ns after the tick before;
    - ``price`` in natural units (``10.25``: a number, or a Decimal), taken to the nearest 1e-9, and ``size``, a whole
      number of ``size_unit``; or for a quote ``bid``, ``bid_size``, ``ask`` and ``ask_size``, and one side may be left
      out;
    - any other field of a tick by its name: ``action``, ``side``, ``order_id``, ``flags``, ``kind``, ...

    It is a trade (``action`` T, ``side`` N) unless it says otherwise; with another ``action`` it is of kind order.
    ``sequence`` counts from 1.

    Args:
        records: The ticks: dicts, tuples ``(symbol, time, price, size)``, or an array of ``strand.TICK``, shape (n,).
            The array's ``instrument_id`` are places in ``symbols``.
        symbols: The names by index; by default those of the ticks, in the order in which they come.
        batches: The number of ticks per batch, or the positions at which batches begin (``[0, 1, 5]``; 0 may be left
            out). By default all ticks are one batch.
        error: Raised in place of the tick at position ``error_at``.
        error_at: The position of ``error``; None: behind the last tick.
        known_from: How many ticks are given before the names are known, as with a directory in mid-stream.
        max_symbols: The number of indices that the feed may use; by default as many as there are names.
        **info: Fields of ``strand.feeds.FeedInfo``: ``ticks="orders"``, ``date=``, ``venue=``, ``size_unit=``, ...

    Raises:
        ConfigurationError: If a tick or an option cannot work. The message names the option, or the tick and its field.
    """
    if isinstance(records, np.ndarray):
        if records.dtype != TICK or records.ndim != 1:
            raise ConfigurationError("ticks", f"an array of {records.dtype}, shape {records.shape}: give strand.TICK")
        if symbols is None:
            raise ConfigurationError("symbols", "give the names of the array's instrument_id, in their order")
        array, names = records, list(symbols)
    else:
        array, names = _written(records, symbols)
    return ListFeed(
        array,
        names,
        batches=batches,
        error=error,
        error_at=error_at,
        known_from=known_from,
        max_symbols=max_symbols,
        **info,
    )


def _starts(batches: int | Sequence[int] | None, end: int) -> list[int]:
    """The positions at which batches begin."""
    if batches is None:
        return [0] if end else []
    if is_whole(batches):
        return list(range(0, end, whole("batches", batches, 1)))
    cuts = [whole("batches", cut, 0) for cut in several("batches", batches, "[0, 1, 5]")]
    if cuts != sorted(cuts):
        raise ConfigurationError("batches", f"the positions {cuts} must rise")
    return [0, *(cut for cut in cuts if 0 < cut <= end)]


def _written(ticks: Sequence[TickLike], symbols: Sequence[str] | None) -> tuple[npt.NDArray[Any], list[str]]:
    names = [] if symbols is None else several("symbols", symbols, "['A', 'B']")
    index = {name: at for at, name in enumerate(names)}
    array = zeros(len(ticks))
    time = 0
    for at, given in enumerate(ticks):
        fields = _fields(at, given)
        symbol = fields.pop("symbol")
        if symbol not in index:
            if symbols is not None:
                raise ConfigurationError("ticks", f"{at}: symbol: {symbol!r} is not one of symbols")
            index[symbol] = len(names)
            names.append(symbol)
        time = fields.pop("time", time + 1)
        tick = array[at]
        tick["instrument_id"] = index[symbol]
        for name, value in {"sequence": at + 1, "ts_recv": time, "ts_event": time, **fields}.items():
            text = name in _LETTERS
            tick[name] = value if text else _whole(f"ticks: {at}: {name}", value, name)
    return array, names


def _fields(at: int, given: TickLike) -> dict[str, Any]:
    """A tick's fields as they are in ``TICK``, but for its symbol and time."""
    if isinstance(given, tuple):
        if len(given) != 4:
            raise ConfigurationError("ticks", f"{at}: {given!r} is not (symbol, time, price, size)")
        given = dict(zip(("symbol", "time", "price", "size"), given, strict=True))
    fields = dict(given)
    refuse_unknown(fields, _NAMES, f"the tick at {at}")
    if not isinstance(fields.get("symbol"), str):
        raise ConfigurationError("ticks", f"{at}: symbol: give its name")
    if fields.keys() & {"bid", "ask"}:
        bid, ask = (_price(at, side, fields.pop(side, None)) for side in ("bid", "ask"))
        quote = {"kind": KIND_QUOTE, "action": "N", "side": "N", "price": bid, "order_id": ask % (1 << 64)}
        sizes = {"size": fields.pop("bid_size", 0), "ref_id": fields.pop("ask_size", 0)}
        return quote | sizes | fields
    fields["price"] = _price(at, "price", fields.get("price"))
    kind = KIND_TRADE if fields.get("action", "T") == "T" else KIND_ORDER
    return {"kind": kind, "action": "T", "side": "N", **fields}


def _whole(where: str, value: Any, name: str) -> int:
    try:
        return whole(where, value, *limits(name))
    except ConfigurationError as error:
        if name not in ("size", "ref_id") or not isinstance(value, float | Decimal):
            raise
        raise ConfigurationError(
            error.field, f"{error.reason}: it counts units of size_unit, so 0.5 is 500 with size_unit='0.001'"
        ) from None


def _price(at: int, name: str, given: Any) -> int:
    """Price in units of 1e-9; UNDEF_PRICE for None."""
    if given is None:
        return UNDEF_PRICE
    try:
        price = round(Decimal(str(given)) * PRICE_SCALE)
    except (InvalidOperation, ValueError, OverflowError):
        price = UNDEF_PRICE
    if abs(price) < UNDEF_PRICE:
        return price
    raise ConfigurationError(
        "ticks", f"{at}: {name}: {given!r} is not a price between -9,223,372,036.85 and 9,223,372,036.85"
    )


class Clock:
    """A clock that stands still until it is moved. Within ``with Clock() as clock:`` it replaces the system's.

    ``advance`` moves it, and so does waiting: a paced replay that waits for a tick moves it to when the tick is due. A
    ``timeout_s`` of a Dispatcher (``publish``, ``drain``, ``stop``, ``call``) goes by it too. Such a call really waits
    for a millisecond. If that was in vain, the clock moves by up to 100 ms: what can happen does, and a timeout of a
    minute takes less than a second.

    It does not move what is measured (``wall_s``, latencies, a timeline), nor the silences and reconnections of live
    feeds. The timers of handlers go by the feed's time, and so by no clock. It may be used from any thread.

    A seeded run (``strand.testing.seeded``) within the block goes by it from its first ticks on. Each step of the run
    moves the clock by 3 ns, and a paced run publishes ticks when they are due. ``advance`` in a handler in Python makes
    its worker busy for so long, and the other workers go on meanwhile. While such a run is under way, only its own
    thread may use the clock.

    Args:
        start_ns: Where the clock begins, ns, 0 or more.

    Raises:
        ConfigurationError: If ``start_ns`` is below 0. On entering the block: if another clock has replaced the
            system's already.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = whole("start_ns", start_ns, 0)
        self._lock = threading.Lock()
        self._run: SeededDispatcher | None = None
        self._before_run_ns = 0

    def __repr__(self) -> str:
        return brief(self, f"{self.now_ns():,} ns")

    def now_ns(self) -> int:
        """The clock's time, ns."""
        return self._now_ns if self._run is None else self._before_run_ns + self._run.now_ns()

    def advance(self, seconds_: float) -> None:
        """Moves the clock on.

        Args:
            seconds_: By how many seconds, from 0 to below 1e9.

        Raises:
            ConfigurationError: If the number is outside of these bounds.
        """
        by = seconds("seconds", seconds_)
        if by is None or not 0 <= by < 1e9:
            raise ConfigurationError("advance", f"{seconds_!r} is not a number of seconds from 0 up")
        if self._run is not None:
            self._run.take(round(by * 1e9))
            return
        with self._lock:
            self._now_ns += round(by * 1e9)

    def wait_until(self, time_ns: int) -> None:
        """Moves the clock on to a time, unless it is past that.

        Args:
            time_ns: The time, ns.
        """
        if self._run is not None:
            self._run.take(max(0, time_ns - self.now_ns()))
            return
        with self._lock:
            self._now_ns = max(self._now_ns, time_ns)

    def follow(self, run: SeededDispatcher | None) -> None:
        """Goes by a seeded run from now on.

        Args:
            run: The run; None: the clock goes by itself again.
        """
        self._now_ns = self.now_ns()
        self._run = run
        self._before_run_ns = 0 if run is None else self._now_ns - run.now_ns()

    def __enter__(self) -> Self:
        if installed() is not None:
            raise ConfigurationError("Clock: another one stands in for the system's already: leave its block first")
        install(self)
        return self

    def __exit__(self, *_: object) -> None:
        install(None)


#: Differing symbols, and fields of one, that a message tells; it counts the others.
SHOWN = 5


class Ran(Protocol):
    """Finished run: a ReplayResult, or a Dispatcher that has stopped."""

    @property
    def symbols(self) -> Sequence[str]: ...

    @property
    def rows(self) -> Rows: ...

    @property
    def outputs(self) -> Mapping[str, Any]: ...


@named_options("reference()", more=ReplayOptions, groups=GROUPS)
def reference(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    handler: HandlerLike | None = None,
    *,
    handlers: Mapping[str, HandlerLike] | None = None,
    **options: Unpack[ReplayOptions],
) -> ReplayResult:
    """Runs handlers over a feed, or a file, in a plain loop on the calling thread: no queues, no strands, no workers.

    Each tick is handled before the next one. Every run over the same ticks has to come to the same
    (docs/determinism.md): ``reference(feed, handler).rows["AAPL"]``, and ``.outputs["bars"]``. It raises what
    ``strand.replay`` raises.

    Args:
        source: A path or several, or a feed, as ``strand.replay`` takes it.
        handler: The handler.
        handlers: Handlers by symbol, with ``"*"`` for the others, in place of ``handler``.
        **options: Other options of ``strand.replay``.
    """
    for name in ("workers", "pool"):
        if name in options:
            raise ConfigurationError(name, "a reference is the plain loop, without workers: leave it out")
    options["workers"] = 0
    return replay_by(partial(CallerRun, in_order=True), source, handler, handlers, asked_of(options))


def assert_same(run: Ran, expected: Ran) -> None:
    """Raises DifferenceError, an AssertionError, unless two runs have the same rows and outputs to the last bit.

    Symbols are compared by name, and so are the rows that they share.

    Args:
        run: A result of ``strand.replay``, ``reference`` or ``seeded``, or a Dispatcher that has stopped.
        expected: The run to compare with, in the same forms.

    Raises:
        DifferenceError: If the runs differ. The message tells the symbols and fields that differ, with both values, and
            the first record of each output that differs. The error's ``symbols`` and ``outputs`` name all of them.
    """
    of_rows = dict([*_row_differences(run, expected), *_shared_row_differences(run, expected)])
    of_outputs = dict(_output_differences(run.outputs, expected.outputs))
    if not of_rows and not of_outputs:
        return
    lines = [f"{symbol}: {text}" for symbol, text in list(of_rows.items())[:SHOWN]]
    if len(of_rows) > SHOWN:
        lines.append(f"{len(of_rows) - SHOWN} more symbols")
    lines += [f"output {name!r}: {text}" for name, text in of_outputs.items()]
    raise DifferenceError("the run is not what was expected: " + "; ".join(lines), tuple(of_rows), tuple(of_outputs))


def _row_differences(run: Ran, expected: Ran) -> Iterator[tuple[str, str]]:
    at, at_expected = ({name: i for i, name in enumerate(ran.symbols) if name} for ran in (run, expected))
    for name in sorted(at.keys() | at_expected.keys()):
        if name not in at or name not in at_expected:
            yield name, f"only the {'run' if name in at else 'expected one'} has this symbol"
            continue
        row, other = run.rows.at(at[name]), expected.rows.at(at_expected[name])
        if text := _values(row, other):
            yield name, text


def _shared_row_differences(run: Ran, expected: Ran) -> Iterator[tuple[str, str]]:
    rows, others = run.rows.shared.records(), expected.rows.shared.records()
    for name in sorted({*rows, *others}):
        if name not in rows or name not in others:
            yield name, f"only the {'run' if name in rows else 'expected one'} has it"
        elif text := _values(rows[name][0], others[name][0]):
            yield name, text


def _output_differences(outputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in sorted(outputs.keys() | expected.keys()):
        if name not in outputs or name not in expected:
            yield name, f"only the {'run' if name in outputs else 'expected one'} has this output"
            continue
        records, others = _records(outputs[name]), _records(expected[name])
        for i, (record, other) in enumerate(zip(records, others, strict=False)):
            if text := _values(record, other):
                yield name, f"record {i} of {len(records):,}: {text}"
                break
        else:
            if len(records) != len(others):
                yield name, f"{len(records):,} records, expected {len(others):,}, the same up to there"


def _records(output: Any) -> npt.NDArray[Any]:
    """An output's records: those of a Dispatcher are to be asked for."""
    return np.asarray(output.array() if hasattr(output, "array") else output)


def _values(one: Any, other: Any) -> str:
    """The fields of two records that differ, bit by bit; empty where none does."""
    names, others = one.dtype.names, other.dtype.names
    if names != others or one.dtype != other.dtype:
        return f"has the fields {', '.join(names)}, expected {', '.join(others)}, or of other types"
    found = [name for name in names if np.asarray(one[name]).tobytes() != np.asarray(other[name]).tobytes()]
    texts = [f"{name} is {to_json(one[name])}, expected {to_json(other[name])}" for name in found[:SHOWN]]
    if len(found) > SHOWN:
        texts.append(f"and {len(found) - SHOWN} more fields")
    return ", ".join(texts)


#: Wait of a call, in steps of the scheduler times three, before Python's handlers have their turn.
SLICE: Final = 300
#: Options of a Dispatcher about what is not here: cores, several publishers, other processes, a busy machine.
_NOT_HERE: Final = ("cores", "attachable", "name", "guard", "marks")

_PUBLISHERS: Final = Pool().max_publishers

_under_way = threading.Lock()


class SeededDispatcher(EngineRun):
    """Dispatcher for ``strand.replay`` whose order a seed decides. All of it runs on the calling thread."""

    def __init__(
        self,
        symbols: int | Sequence[str],
        handler: HandlerLike | None = None,
        *,
        seed: int,
        handlers: Mapping[str, HandlerLike] | None = None,
        out: Mapping[str, Destination] | None = None,
        _history: HistoryOf | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        refuse_unknown(options, RunOptions.__annotations__.keys() - set(_NOT_HERE), "a seeded run")
        given: Any = read_given(DispatcherOptions, {"out": out, **options})
        pool = pool_of(given)
        if pool != (same := replace(pool, cores="auto", min_workers=None, max_publishers=_PUBLISHERS)):
            raise ConfigurationError("pool", f"a seeded run has no cores, min_workers or max_publishers: give {same!r}")
        limits = limits_of(given)
        workers = whole("workers", 2 if pool.workers is None else pool.workers, 1, ScheduledEngine.most_workers())
        super().__init__(symbols, handler, handlers, given, history=_history)
        # Not of this machine: the same seed is the same run on all.
        cores = WorkerCores(workers, None, list(range(workers + 1)), are_given=False)
        order = order_of(self._table, given)
        config = engine_config(
            self._reader,
            self._assigned,
            order,
            cores,
            given,
            pool=replace(pool, max_publishers=1),
            limits=limits,
            emits=self._needs_positions,
        )
        expected = symbol_counts(given["counts"], config.n_symbols)
        self._seed = seed
        self._started = self._closed = False
        self._clock: Clock | None = None
        engine = ScheduledEngine(config)
        # Handlers are the core's: what they keep is not in the space of the scheduled engine, whose lock is another's.
        self._put_together(engine, Space(), order, expected=expected, cores=None)
        self._fibers = engine

    # ---- life

    def __enter__(self) -> Self:
        self._outputs.start(self._engine.merge, allowed=None)
        return self

    def _start(self) -> None:
        """Starts with the first ticks: handlers are set by then."""
        if not _under_way.acquire(blocking=False):
            raise ConfigurationError(
                "seeded", "another seeded run is under way: this one can begin when that has ended"
            )
        self._started = True
        self._fibers.start_workers(self._seed)
        clock = installed()
        if isinstance(clock, Clock):
            self._clock = clock
            clock.follow(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._closed:
            return
        drained = False
        try:
            if kind is None:
                with suppress(StoppedError):  # by a handler
                    drained = self.drain()
        finally:
            self._close(drained=drained)
        if kind is None and (failure := self._end.failure) is not None:
            raise failure
        warn_of_unpriced(self._makers)

    def _close(self, *, drained: bool) -> None:
        self._closed = self._state.closing = True
        if self._started:
            try:
                self._engine.stop()
                while self._fibers.pause():
                    self._serve()
            finally:
                if self._clock is not None:
                    self._clock.follow(None)
                self._fibers.end_workers()
                _under_way.release()
        self._end.close(drained=drained)

    # ---- publishing

    def publish(self, records: npt.NDArray[Any] | np.void) -> int:
        """Publishes as ``Dispatcher.publish`` does."""
        if self._wants_names:
            self._publishing(records)
        array = self._reader.read(records)
        if self._closed:
            raise self._state.stopped_error()
        if len(array) == 0:
            return 0
        if self._orders.is_needed:
            self._orders.look(array, stacklevel=2)
        if not self._routing.is_known:
            self._routing.by_keys(array[self._reader.key])
        if not self._started:
            self._start()
        held = Publisher(self._engine)
        held.take()
        try:
            code = held.publish(array, SLICE)
            while code == Code.AGAIN:
                self._serve()
                code = held.publish_more(SLICE)
            rejected = held.rejected() if code != Code.OK else np.empty(0, np.int64)
        finally:
            held.give()
        self._serve()
        if code == Code.STOPPED:
            raise self._state.stopped_error()
        if code != Code.OK:
            key, symbols = self._reader.key, len(self._table)
            raise publish_error(code, array, rejected, key=key, symbols=symbols, started=True)
        return len(array)

    def advance(self, time_ns: int) -> None:
        """Moves the feed's time forward as ``Dispatcher.advance`` does."""
        if self._closed:
            raise self._state.stopped_error()
        if not self._started:
            self._start()
        self._engine.pass_time(whole("time_ns", time_ns, 0))
        self._serve()

    def drain(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as the Dispatcher has it
        """Drains as ``Dispatcher.drain`` does."""
        if self._closed:
            raise self._state.stopped_error()
        held = Publisher(self._engine)
        held.take()
        try:
            while self._started and (code := self._engine.drain(held.number, SLICE)) != Code.OK:
                if code == Code.STOPPED:
                    raise self._state.stopped_error()
                self._serve()
        finally:
            held.give()
        return True

    # ---- the clock that follows it

    def now_ns(self) -> int:
        """The run's time."""
        return self._fibers.now_ns()

    def take(self, ns: int) -> None:
        """Passes time: in a handler its worker is busy for so long; elsewhere the workers go on for so long."""
        if self._fibers.take(ns):
            return
        until = self._fibers.now_ns() + ns
        while self._fibers.now_ns() < until:
            self._fibers.pass_until(until)
            self._serve()

    def _serve(self) -> None:
        """Runs what workers have for Python, and hands out what is final of the outputs."""
        while (worker := self._fibers.waiting()) is not None:
            ended = True
            try:
                batches = self._engine.batches(worker, self._reader.dtype)
                self._python.site.enter(worker, batches)
                work(self._python, self._tasks, batches)
                ended = False
            except BaseException as error:
                self._state.broken = self._state.broken or error
                self._engine.stop()
                raise
            finally:
                self._fibers.go_on(worker, ended=ended)
        self._outputs.settled_digests()


@named_options("seeded()", more=ReplayOptions, groups=GROUPS)
def seeded(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    handler: HandlerLike | None = None,
    *,
    seed: int,
    handlers: Mapping[str, HandlerLike] | None = None,
    **options: Unpack[ReplayOptions],
) -> ReplayResult:
    """Replays a feed through a dispatcher in which a seed decides which thread goes on when: same seed, same run.

    It runs the engine's real code on the calling thread. Publisher and workers take turns, and may change places at
    each atomic operation of the engine. Pauses, steals, timers, bounds and drops come about as they do on cores, only
    far oftener. A call of a handler runs whole. Rows, outputs and statistics are the same each time; its times are
    counts of steps. Within the block of a ``strand.testing.Clock`` handlers in Python can take time on it, and
    ``speed=`` goes by it.

    Handlers of all kinds run. Small numbers find most: few ticks, ``capacity_ticks`` and ``budget_ticks`` of a few. It
    raises what ``strand.replay`` raises.

    Args:
        source: A path or several, or a feed, as ``strand.replay`` takes it.
        handler: The handler.
        seed: Decides the order, 0 or more; the same seed gives the same run.
        handlers: Handlers by symbol, with ``"*"`` for the others, in place of ``handler``.
        **options: Other options of ``strand.replay`` and of a Dispatcher: ``workers`` (2 by default, 16 at most),
            ``strands``, ``capacity_ticks``, ``on_full``, ``on_error``, ``out``, ...

    Raises:
        ConfigurationError: If another seeded run of this process is under way, in a handler too; and with ``save``.
    """
    if options.get("save") is not None:
        raise ConfigurationError("save", "the state of a seeded run cannot be saved: leave it out")
    make = partial(SeededDispatcher, seed=whole("seed", seed, 0))
    options["timeline"] = False  # its times are counts of steps
    return replay_by(make, source, handler, handlers, asked_of(options))


@named_options("check_seeds()", more=ReplayOptions, groups=GROUPS)
def check_seeds(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    handler: HandlerLike | None = None,
    *,
    seeds: Iterable[int] = range(100),
    handlers: Mapping[str, HandlerLike] | None = None,
    **options: Unpack[ReplayOptions],
) -> None:
    """Runs a feed under many seeds, and compares each run with the plain loop, as ``assert_same`` does.

    A handler that goes by more than its symbol's ticks fails, such as one that writes to something that symbols share.
    So does a handler of ticks that a bound dropped. It raises what ``seeded`` raises, too.

    Args:
        source: A path or several, or a feed, as ``strand.replay`` takes it.
        handler: The handler.
        seeds: The seeds, one run for each.
        handlers: Handlers by symbol, with ``"*"`` for the others, in place of ``handler``.
        **options: Other options of ``seeded``.

    Raises:
        DifferenceError: For the first seed with another outcome; its ``seed`` makes ``seeded`` do the same again.
    """
    if "out" in options:
        raise ConfigurationError("out", "what is written to files is not compared: leave it out")
    of_loop: Any = {name: value for name, value in options.items() if name not in ("workers", "pool", "on_error")}
    expected = reference(source, handler, handlers=handlers, **of_loop)
    for seed in seeds:
        run = seeded(source, handler, seed=seed, handlers=handlers, **options)
        try:
            assert_same(run, expected)
        except DifferenceError as error:
            lost = sum(run.statistics.dropped.values())
            note = f"; {lost:,} ticks were dropped" if lost else ""
            raise DifferenceError(f"seed {seed}: {error}{note}", error.symbols, error.outputs, seed=seed) from None
