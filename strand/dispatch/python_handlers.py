"""The handlers that Python runs for a dispatcher: bound to each symbol at its first tick, and found by its strand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand.binding.chain import Chained
from strand.binding.engine import Engine
from strand.binding.engine_words import Failure
from strand.binding.py_batches import EndBatch, PyBatches
from strand.errors import ConfigurationError, HandlerError
from strand.handlers.bound import BoundHandler, BoundPython
from strand.handlers.context import Context
from strand.handlers.failures import failure_of, interrupts
from strand.handlers.timed import Host

if TYPE_CHECKING:
    from strand.output.rows import Rows
    from strand.symbols import SymbolTable

__all__ = ["PythonHandlers", "objects_of", "stop_objects"]

#: What a worker calls for a strand: a function of its ticks; or, with a symbol and its row, one of (symbol, ticks, row)
#: that handles all, and what it returns is not asked for. That saves a function between the two, and what it holds: of
#: many symbols' things most are in no cache when their turn comes.
WorkerCall = tuple[Callable[..., Any], str | None, Any]
#: Exceptions kept a worker; the engine keeps as many failures in all.
KEPT = 64


class PythonHandlers:
    """A strand of a Python handler is one symbol's, and in one worker's hands at a time.

    ``calls``: what a worker calls, by strand, None before its first ticks; ``hosts``: all that is run, by strand;
    ``contexts``: by key; ``causes``: the exceptions of each worker's failures, in their order. It is the site that
    handlers run at: what is said of ticks in hand is of this thread's.
    """

    def __init__(
        self,
        engine: Engine,
        table: SymbolTable,
        rows: Rows,
        *,
        bound: Sequence[BoundHandler],
        handler_of_symbol: npt.NDArray[np.uint16],
    ) -> None:
        self._engine = engine
        self._table = table
        self._rows = rows
        self._bound = bound
        self._handler_of_symbol = handler_of_symbol
        self._strand_of_key = self._key_of_strand = np.empty(0, np.uint32)
        self._here = threading.local()
        self.calls: list[WorkerCall | None] = []
        self.hosts: dict[int, Host] = {}
        self.contexts: dict[int, Context] = {}
        self.causes: list[list[BaseException]] = [[] for _ in range(engine.config.n_workers)]

    def route(self, strand_of_symbol: npt.NDArray[np.uint32]) -> None:
        """Before anything is published."""
        self._strand_of_key = strand_of_symbol
        # Of use where a strand has one symbol, as those of Python handlers do.
        self._key_of_strand = np.zeros(self._engine.config.n_strands, dtype=np.uint32)
        self._key_of_strand[strand_of_symbol] = np.arange(len(self._table), dtype=np.uint32)
        if any(isinstance(bound, BoundPython) for bound in self._bound):
            self.calls[:] = [None] * self._engine.config.n_strands

    def learn_symbols(self) -> None:
        """The table has learnt names."""
        for key, context in self.contexts.copy().items():
            context.symbol = self._table.name(key)
        for strand, host in self.hosts.copy().items():
            self._call(strand, host)

    # ---- a worker's

    def enter(self, participant: int, batches: PyBatches) -> None:
        """This thread is a worker."""
        self._here.participant, self._here.batches = participant, batches

    @property
    def participant(self) -> int | None:
        """The worker this thread is, if it is one: whoever calls from there is a handler."""
        participant: int | None = getattr(self._here, "participant", None)
        return participant

    def bind(self, strand: int) -> WorkerCall:
        """What a worker that holds a strand calls with its ticks, from their first on."""
        key = int(self._key_of_strand[strand])
        bound = self._bound[self._handler_of_symbol[key]]
        assert isinstance(bound, BoundPython)
        context, host = bound.bind_symbol(key, symbol=self._table.name(key), row=self._rows.at(key), site=self)
        self.contexts[key] = context
        self.hosts[strand] = host
        # Whoever learns names goes by these, and may have gone by without this one.
        context.symbol = self._table.name(key)
        return self._call(strand, host)

    def bind_again(self, key: int) -> Host:
        """The symbol with a key had ticks in another process. What is emitted on its behalf was emitted there."""
        strand = int(self._strand_of_key[key])
        self._here.batches = _Emitted()
        try:
            self.bind(strand)
        finally:
            self._here.batches = None
        return self.hosts[strand]

    def hosts_by_key(self) -> dict[int, Host]:
        """What is run for the symbols that have had ticks."""
        return {int(self._key_of_strand[strand]): host for strand, host in self.hosts.items()}

    def _call(self, strand: int, host: Host) -> WorkerCall:
        """Puts down what a worker calls for a strand."""
        context = self.contexts[int(self._key_of_strand[strand])]
        call: WorkerCall = (host.call, None, None)
        if host.plain is not None:
            call = (host.plain, context.symbol, context.row)
        self.calls[strand] = call
        return call

    def keep_cause(self, failure: Failure) -> None:
        """Keeps the cause of a failure that this thread is about to report."""
        causes = self.causes[self.participant or 0]
        if len(causes) < KEPT and failure.cause is not None:
            causes.append(failure.cause)

    # ---- what handlers ask of it

    @property
    def brings_rest(self) -> bool:
        """What a worker has copied off a lossy strand cannot be put back."""
        return self._engine.config.on_full not in ("drop_oldest", "conflate")

    def batch(self) -> PyBatches | EndBatch | _Emitted:
        """The ticks, or the timer, or the end, that this thread's Python has in hand."""
        found: PyBatches | EndBatch | _Emitted | None = getattr(self._here, "batches", None)
        if found is None:
            raise ConfigurationError("emit: there is no tick in hand on whose behalf it could be")
        return found

    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each tick in hand."""
        batches = self.batch()
        assert not isinstance(batches, _Emitted)
        return batches.times()

    def arm(self, handled: int, alarm: int) -> None:
        """When the timer of the symbol in hand is due from now on."""
        batches = self.batch()
        assert isinstance(batches, PyBatches)
        batches.arm(handled, alarm)

    def track(self, native: Chained, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> tuple[int, Failure | None]:
        """For chains that end in Python: runs their native part over ticks that this worker holds."""
        participant = self.participant
        assert participant is not None
        return self._engine.track(participant, native.function, ticks, after)

    def act(self, native: Chained, key: int, time: int, at_end: bool) -> Failure | None:
        """The same at timers, and at the end."""
        return self._engine.act(self.participant or 0, native.function, key, time, at_end)

    # ---- the end

    def finish(self) -> bool:
        """When all has been handled and no worker is left: the end of every symbol's handler, in the order of keys.
        False: one failed, and the run was to stop at that; see the engine's failures."""
        for key, host in sorted(self.hosts_by_key().items()):
            end = self._engine.to_finish(key)
            if end is None:
                continue
            self._here.batches = end
            try:
                host.finish(self._engine.feed_time)
            except BaseException as error:
                if interrupts(error):
                    raise
                failure = failure_of(error)
                self.keep_cause(failure)
                if not end.done(failure):
                    return False
            else:
                end.done()
            finally:
                self._here.batches = None
                end.close()
        return True


class _Emitted:
    """In the place of a batch: what is emitted on its behalf has been emitted."""

    n = 1
    at_timer = False

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None:
        """Nothing more is to be done."""


def objects_of(contexts: Mapping[int, Context]) -> dict[str, Any]:
    """The objects of object handlers by symbol, in the order of their keys."""
    found = sorted(dict(contexts).items())
    return {context.symbol: context.object for _, context in found if context.object is not None}


def stop_objects(contexts: Mapping[int, Context]) -> HandlerError | None:
    """Calls ``on_stop`` of all objects, in the order of their keys, and returns the first failure."""
    first: HandlerError | None = None
    for _, context in sorted(contexts.items()):
        on_stop = getattr(context.object, "on_stop", None)
        if on_stop is None:
            continue
        try:
            on_stop()
        except BaseException as error:
            if interrupts(error):
                raise
            if first is None:
                failure = failure_of(error)
                reason = f"{failure.message}, in on_stop"
                first = HandlerError(context.symbol, 0, context.handler, failure.code, reason)
                first.__cause__ = failure.cause
    return first
