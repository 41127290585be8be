"""The dispatcher: ticks in, each symbol's in order to its handler, on all cores."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, Self

import numpy as np
import numpy.typing as npt

from strand._bindings.engine import Engine
from strand._bindings.engine_words import Code
from strand._bindings.tally import Seen
from strand.calls import CallFuture, Calls
from strand.configuration import (
    RENAMED,
    assign_handlers,
    check_conflate,
    check_limits,
    check_memory,
    engine_config,
    merging_cores,
    symbol_counts,
    worker_cores,
    yes_or_no,
)
from strand.errors import (
    ConfigurationError,
    EngineError,
    HandlerError,
    StoppedError,
    WouldDeadlockError,
)
from strand.failures import describe
from strand.flow import Flow
from strand.grouping import StrandsLike, strand_count
from strand.handlers import HandlerLike
from strand.handlers.bound import BindContext
from strand.handlers.traded import warn_of_unpriced
from strand.numbers import whole
from strand.options import options_of, refuse_unknown
from strand.order_watch import OrderWatch
from strand.outputs import Outputs
from strand.policies import Fifo, Policy
from strand.publishers import Publishers, publish_error
from strand.python_handlers import PythonHandlers, stop_objects
from strand.records import RecordReader
from strand.routing import Routing
from strand.rows import Rows
from strand.strands_view import StrandsView
from strand.symbols import SymbolTable
from strand.threads import WAITS_FOR_ITSELF, Inside
from strand.ticks import TICK
from strand.worker import Workers

if TYPE_CHECKING:
    from strand.feeds.base import TicksAre

__all__ = ["Dispatcher"]

LINE = 64

_live: weakref.WeakSet[Dispatcher] = weakref.WeakSet()
FORKED = "this process was forked from the one that has the dispatcher's workers: make a new one here"


class Dispatcher(StrandsView):
    """Keeps each symbol's ticks in order and lets workers compete to run its handler over them.

    ``symbols``: their names (``instrument_id`` is the index), or how many there are. ``handler``: the one for all, or
    ``handlers``: by symbol, with ``"*"`` for the others.

    ``workers``: threads that drain; by default one fewer than the cores this process may use (at least one), as the
    publisher drains too. ``cores``: the cores workers are pinned to, in turn; ``"auto"`` takes the last of those this
    process may use, and goes on with a RuntimeWarning where the system refuses to pin; None pins nothing. ``idle``:
    ``"spin"``, ``"backoff"`` (spin, then sleep) or ``"park"``.

    ``strands``: ``"per-symbol"``, a number, or ``"auto"``: busy symbols alone, quiet ones sharing, by ``counts``
    (what to expect of each) or else by the first array published. ``capacity_ticks`` bounds each strand,
    ``on_full`` says what happens there: ``"block"``, ``"drop_newest"``, ``"drop_oldest"``, ``"conflate"`` (keep a
    symbol's latest) or ``"raise"``; with the lossy two (oldest, conflate) the bound counts ticks that wait, not
    those in a worker's hands.

    ``on_error``: a failing handler ``"stop"``s the run or ``"quarantine"``s its strand. ``quantum_ticks`` and
    ``quantum_us`` end a visit. ``batch_ticks`` are grouped at one go. ``publisher_drains``: whether publishing threads
    may run handlers, when they are ahead and where that is cheaper than handing ticks over; switch it off where a
    publisher must never be held up by a handler. ``memory_bytes`` bounds the blocks of all queues together (by
    default 64 strands at their bound, and more); when they are used up, publishing waits whatever ``on_full`` says.

    ``out``: files for outputs that handlers emit to, by name; the others are collected in memory (``outputs``).
    ``escape_formulas``: in CSV files a text cell that a spreadsheet would run (it begins with ``=``, ``+``, ``-``,
    ``@``, a tab or a carriage return) is written behind an apostrophe.
    ``output_memory``: bytes emitted and not merged yet beyond which publishing waits. In a replay of several merged
    feeds, each tick that is not final counts 4 bytes more.

    ``dtype`` and ``key``: the records' structured dtype and the u32 field that holds the symbol's index.
    ``columns`` maps tick fields to the fields of the arrays that will be published, which are then converted as
    ``strand.feeds.npy.NpyFeed`` does it; names that are usual for a field are found without. ``column_options`` are
    those of that reader: ``constants``, ``price_unit``, ``size_unit``, ``time_unit``, ``inexact``, ``nulls``. Where no
    column gives a ``sequence``, it is the row's place among all rows given to ``publish``, refused ones too, from 1.

    ``feed``: what the ticks mean (``strand.feeds.FeedInfo.ticks``): ``"plain"``, ``"orders"``, ``"dbn"`` or
    ``"dbn-orders"``. By it ``vwap``, ``bars`` and all that count trades tell what is one, and whether they need books.
    Without it they take ticks as they are; where single orders come to them, that is a RuntimeWarning, and counted in
    the statistics.

    Use it as a context manager: leaving it drains and stops; leaving it by an exception stops at once. A
    process that is forked has no workers: there it raises StoppedError.
    Raises ConfigurationError naming the argument that cannot work.
    """

    def __init__(
        self,
        symbols: int | Sequence[str],
        handler: HandlerLike | None = None,
        *,
        handlers: Mapping[str, HandlerLike] | None = None,
        workers: int | None = None,
        cores: Sequence[int] | Literal["auto"] | None = "auto",
        policy: Policy = Fifo(),  # noqa: B008 - frozen
        strands: StrandsLike = "auto",
        counts: npt.ArrayLike | None = None,
        capacity_ticks: int = 65_536,
        on_full: str = "block",
        on_error: str = "stop",
        idle: str = "backoff",
        quantum_ticks: int = 4096,
        quantum_us: float = 1000.0,
        batch_ticks: int = 8192,
        publisher_drains: bool = True,
        max_publishers: int = 8,
        memory_bytes: int | None = None,
        out: Mapping[str, str | os.PathLike[str]] | None = None,
        escape_formulas: bool = False,
        output_memory: int = 1 << 26,
        dtype: np.dtype[Any] = TICK,
        key: str = "instrument_id",
        columns: Mapping[str, str | Mapping[str, Any] | None] | None = None,
        column_options: Mapping[str, Any] | None = None,
        feed: TicksAre | None = None,
        _counters_start: int = 0,
        **unknown: Never,
    ) -> None:
        refuse_unknown(unknown, options_of(Dispatcher), "a dispatcher", RENAMED)
        self._table = SymbolTable(symbols)
        check_memory(len(self._table), 1)
        self._reader = RecordReader(dtype, key, columns, column_options)
        dtype = self._reader.dtype
        self._handlers, self._handler_of_symbol = assign_handlers(self._table, handler, handlers, dtype, feed)
        self._orders = OrderWatch(self._handlers, self._handler_of_symbol)
        allowed = self._allowed = sorted(os.sched_getaffinity(0))
        self._workers = whole("workers", max(1, len(allowed) - 1) if workers is None else workers, 1, 1024)
        self._cores: Sequence[int | None] | None = worker_cores(cores, allowed, self._workers)
        self._cores_given = not isinstance(cores, str)
        if not isinstance(policy, Fifo):
            raise ConfigurationError(f"policy: {policy!r} is not a policy this dispatcher knows")
        check_limits(
            {
                "capacity_ticks": capacity_ticks,
                "quantum_ticks": quantum_ticks,
                "batch_ticks": batch_ticks,
                "max_publishers": max_publishers,
            },
            quantum_us,
            {"idle": idle, "on_error": on_error, "on_full": on_full},
        )
        alone = [not h.is_native for h in self._handlers]
        expected = symbol_counts(counts, len(self._table))
        n_strands = strand_count(strands, self._handler_of_symbol, alone, self._workers)
        check_memory(len(self._table), n_strands)
        if on_full == "conflate":
            check_conflate(capacity_ticks, n_strands, self._handler_of_symbol, alone)
        output_memory = whole("output_memory", output_memory, 1)
        self._inside = Inside()
        self._outputs = Outputs(
            self._handlers, self._table, out or {}, inside=self._inside, escape_formulas=escape_formulas
        )
        config = engine_config(
            self._reader,
            self._handlers,
            quantum_us=quantum_us,
            memory_bytes=memory_bytes,
            emits=len(self._outputs) > 0,
            n_symbols=len(self._table),
            n_strands=n_strands,
            n_workers=self._workers,
            n_publishers=max_publishers,
            idle=idle,
            on_error=on_error,
            on_full=on_full,
            capacity_ticks=capacity_ticks,
            quantum_ticks=quantum_ticks,
            batch_ticks=batch_ticks,
            publisher_drains=yes_or_no("publisher_drains", publisher_drains),
            one_core=len(allowed) == 1,
            counters_start=_counters_start,
        )
        self._engine = Engine(config)
        if len(self._outputs) > 0:
            self._engine.set_outputs(self._outputs.record_bytes, output_memory)
        self._look = self._engine.new_look()
        context = BindContext(self._table, dtype, key, -(-config.row_bytes // LINE) * LINE)
        self._bound = [h.bind(context) for h in self._handlers]
        self._makers = context.makers
        self._rows = Rows(self._table, self._engine, self._handlers, self._handler_of_symbol)
        self._python: PythonHandlers = PythonHandlers(
            self._engine,
            self._table,
            self._rows,
            bound=self._bound,
            handler_of_symbol=self._handler_of_symbol,
        )
        self._crew = Workers(self._inside)
        self._threads = self._crew.threads
        self._close_lock = threading.Lock()
        self._publishers = Publishers(self._engine, self._threads, self._inside)
        self._asked = Calls(self._engine, self._inside)
        self._stop_failure: HandlerError | None = None
        self._closed = self._closing = False
        self._abandoned = 0
        self._forked = False
        self._finished = True
        functions = [bound.for_engine for bound in self._bound]
        numbers = [self._outputs.numbers(h) for h in self._handlers]
        self._routing = Routing(
            self._engine, self._python, self._handler_of_symbol, functions, numbers, inside=self._inside
        )
        if expected is not None or n_strands >= len(self._table):
            self._routing.by_counts(expected)

    # ---- life

    def start(self) -> Self:
        """Starts the workers; entering the context does. Raises StoppedError after a stop, and ConfigurationError where
        the system refuses to pin a worker to a core of ``cores``."""
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            if self._closing:
                raise StoppedError("the dispatcher has been stopped: make a new one")
            if not self._threads:
                self._begin()
            return self
        finally:
            self._inside.threads.remove(me)

    def _begin(self) -> None:
        try:
            self._outputs.start(self._engine, allowed=merging_cores(self._allowed, self._cores))
            _live.add(self)
            # Its threads hold the engine, and not the dispatcher.
            self._dropped = weakref.finalize(self, _drop, self._engine, self._outputs)
            self._dropped.atexit = False
            self._crew.start(self, self._workers)
            if self._cores is not None:
                self._cores, refused = self._crew.pin(self._cores, must=self._cores_given)
                if refused is not None:
                    self._unpinned = f"workers are not pinned to cores: the system refused it ({refused.strerror})"
                    warnings.warn(f"{self._unpinned}; cores=None asks for that", RuntimeWarning, stacklevel=4)
        except BaseException:
            # The block has not been entered, and nobody leaves it.
            self._close(drained=False)
            raise

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.stop(drain=False)
            return
        try:
            self.stop()
        finally:
            self.stop(drain=False)

    def stop(self, *, drain: bool = True, timeout_s: float | None = None) -> bool:
        """Stops the workers and waits for them. Returns whether everything published was handled or dropped.

        ``drain``: first handle what is pending, for at most ``timeout_s``; else what is pending is abandoned, and
        counted. Ticks of paused and quarantined strands are abandoned in both. Raises HandlerError when a handler's
        failure has stopped the run; it is stopped all the same. May be called again.

        A thread that is inside the dispatcher cannot wait for it: in a handler, ``on_stop`` and ``on_finish``, and in a
        signal handler (or ``__del__``) that interrupts a call of the dispatcher. There ``stop()`` raises
        WouldDeadlockError. ``stop(drain=False)`` asks for the stop, ends what waits, and returns False; leaving the
        block, or the next ``stop``, does the rest.
        """
        if self._forked:
            return False
        if self._inside.here:
            if drain:
                raise WouldDeadlockError(f"stop: {WAITS_FOR_ITSELF}: call stop(drain=False), which does not wait")
            self._engine.stop()
            return False
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            return self._stop(drain, timeout_s)
        finally:
            self._inside.threads.remove(me)

    def _stop(self, drain: bool, timeout_s: float | None) -> bool:
        drained = False
        try:
            if drain and not self._closing:
                drained = self._drain(timeout_s)
        except StoppedError:
            pass  # by a handler, or by another thread
        finally:
            self._close(drained=drained)
        if drain and not self._finished:
            raise self.failures[-1]
        if drain and self._outputs.failure is not None:
            raise self._outputs.failure
        if drain and self._stop_failure is not None:
            raise self._stop_failure
        makers, self._makers = self._makers, []
        warn_of_unpriced(makers)
        return drained and self._abandoned == 0

    def _close(self, *, drained: bool) -> None:
        self._closing = True
        self._engine.stop()
        # A handler may wait for an answer in ways that cannot be refused, and its worker for it.
        self._asked.end(self)
        self._crew.join()
        # Publishers notice too, but one may be running a handler: rows and books are final when they are out.
        self._publishers.wait_for_others()
        with self._close_lock:
            if not self._closed:
                self._closed = True
                _live.discard(self)
                if self._threads:
                    self._dropped.detach()
                self._abandoned = self._engine.totals()["pending"]
                ended = False
                try:
                    if drained and not self._abandoned:
                        self._finished = self._engine.finish() and self._python.finish()
                    self._stop_failure = stop_objects(self._python.contexts)
                    ended = True
                finally:
                    # Also where an interrupt comes in a handler's end: who waits for outputs has to hear of it.
                    self._outputs.finish(complete=drained and ended)
                    self._rows.keep()
        self._asked.end(self)

    # ---- publishing

    def publish(self, records: npt.NDArray[Any] | np.void, *, timeout_s: float | None = None) -> int:
        """Publishes records in order, and returns how many were accepted (dropped ones included: see statistics).

        ``records``: shape (n,) of the dispatcher's dtype, or a single record. The array may be reused at return. From
        inside a handler it never waits.

        Raises RecordTypeError for another dtype; UnknownSymbolError for a key outside the table, with what comes
        before it published; BackpressureError when a strand is full and ``on_full="raise"``, or after ``timeout_s``
        of waiting with ``"block"``; WouldDeadlockError for that inside a handler; HandlerError when a handler's
        failure has stopped the run; StoppedError after a stop.
        """
        array = self._reader.read(records)
        if self._closing:
            raise self._stopped_error()
        if len(array) == 0:
            return 0
        if self._orders.is_needed:
            self._orders.look(array)
        if not self._routing.is_known:
            self._routing.by_keys(array[self._reader.key])
        if self._inside.here:
            slot = self._python.slot
            if slot is None:
                raise WouldDeadlockError(
                    f"publish: {WAITS_FOR_ITSELF}: publish when that is over", np.arange(len(array))
                )
            code = self._engine.publish_nested(slot, array)
            if code == Code.OK:
                return len(array)
            raise self._publish_error(code, array, self._engine.rejected(slot, nested=True))
        code, rejected = self._publishers.publish(array, timeout_s)
        if code == Code.OK:
            return len(array)
        raise self._publish_error(code, array, rejected)

    def _flow(self, counts: npt.NDArray[np.int64], seen: Seen, limit: int | None) -> Flow:
        """What a feed's decoder can publish through as it decodes, once a batch has told which symbols are busy: for
        ``replay``. ``counts``: of ticks by symbol, shape (n_symbols,), and ``seen``, added to; ``limit``: ticks to
        end after."""
        return Flow(self._flow_on, counts, seen, limit)

    def _flow_on(self, flow: Flow, flush: bool) -> None:
        if self._closing:
            raise self._stopped_error()
        code, rejected = self._publishers.flow(flow, flush=flush)
        if code not in (Code.OK, Code.AGAIN):
            raise self._publish_error(code, flow.held, rejected)

    def drain(self, timeout_s: float | None = None) -> bool:
        """Waits until everything published has been handled, but for paused and quarantined strands, and helps with it.

        Returns False when ``timeout_s`` passed first; 0 only looks. Raises HandlerError when a handler's failure has
        stopped the run, StoppedError after a stop and where no worker was ever started, WouldDeadlockError inside a
        handler.
        """
        if self._inside.here:
            raise WouldDeadlockError(f"drain: {WAITS_FOR_ITSELF}: drain where the ticks are published")
        return self._drain(timeout_s)

    def _drain(self, timeout_s: float | None) -> bool:
        if self._closing:
            raise self._stopped_error()
        code = self._publishers.drain(timeout_s)
        if code in (Code.OK, Code.AGAIN):
            return code == Code.OK
        raise self._stopped_error()

    # ---- calls

    def call(self, symbol: str | int, fn: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        """Runs ``fn(view, *args)`` on the symbol's strand, in order with its ticks, and returns what it returns.

        It runs after every tick published before the call and before any published after it, while nothing else of the
        strand runs: ``dispatcher.call("AAPL", lambda view: view.book.bids(5))``. ``view`` is a ``SymbolView``: ``row``,
        ``book``, ``symbol``, ``index``. A worker runs it, so it should be short; it may publish, as a handler may. From
        any thread, whatever the symbol's handler; a paused strand answers when it is resumed.

        Raises what ``fn`` raises; CallTimeoutError after ``timeout_s``; QuarantinedError for a strand that is set aside
        since a handler failed; WouldDeadlockError inside a handler; HandlerError when a handler's failure has stopped
        the run; StoppedError after a stop and where no worker was ever started; BackpressureError where there is no
        place for one more call; UnknownSymbolError.
        """
        return self._asked.call(self, symbol, fn, args, timeout_s)

    def submit_call(self, symbol: str | int, fn: Callable[..., Any], *args: Any) -> CallFuture:
        """``call`` without waiting: a ``concurrent.futures.Future`` of the answer, to be had inside handlers too. Its
        ``result()`` does not wait there, but raises WouldDeadlockError: give the future an ``add_done_callback``.

        Its ``cancel()`` gives the call up unless it has begun. A stop ends it with StoppedError, and with HandlerError
        where a handler's failure has stopped the run; on a strand that is paused, or quarantined meanwhile, it waits.
        """
        return self._asked.submit(self, symbol, fn, args)

    # ---- inside

    def _publish_error(self, code: int, array: npt.NDArray[Any], rejected: npt.NDArray[np.int64]) -> Exception:
        if code == Code.STOPPED:
            return self._stopped_error()
        key, symbols, started = self._reader.key, len(self._table), bool(self._threads)
        return publish_error(code, array, rejected, key=key, symbols=symbols, started=started)

    def _stopped_error(self) -> Exception:
        if self._forked:
            return StoppedError(FORKED)
        failures = self.failures
        if failures and self._engine.config.on_error == "stop":
            return failures[0]
        if self._outputs.failure is not None:
            return self._outputs.failure
        if self._crew.broken is not None:
            error = EngineError(f"a worker ended by {describe(self._crew.broken)}")
            error.__cause__ = self._crew.broken
            return error
        return StoppedError("the dispatcher has been stopped: nothing more can be published or drained")


def _drop(engine: Engine, outputs: Outputs) -> None:
    """Nothing refers to a dispatcher that was not stopped. May run anywhere: it waits for nobody."""
    engine.stop()
    outputs.abandon()
    warnings.warn("a Dispatcher was dropped that had not been stopped", ResourceWarning, stacklevel=2)


def _stop_all() -> None:
    for dispatcher in list(_live):
        dispatcher.stop(drain=False)


def _forget_all() -> None:
    """In the child of a fork: threads stay behind, and a wait for one would have no end."""
    for dispatcher in list(_live):
        dispatcher._forked = dispatcher._closing = True
        dispatcher._dropped.detach()
        dispatcher._outputs.forget()
    _live.clear()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forget_all)
