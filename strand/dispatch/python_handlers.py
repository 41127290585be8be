"""The handlers that Python runs for a dispatcher: bound to each symbol at its first tick, and found by its strand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.engine_words import Failure
from strand.binding.tasks import EndBatch, PyBatches
from strand.errors import ConfigurationError, HandlerError
from strand.handlers.base import BoundHandler, BoundPython
from strand.handlers.compiled.called_again import line_of
from strand.handlers.context import Context
from strand.handlers.failures import failure_of
from strand.handlers.host import Host
from strand.handlers.loading import Assigned
from strand.handlers.set_context import OneSet, SetObjects
from strand.handlers.shared_rows import SharedObjects
from strand.threads import interrupts

if TYPE_CHECKING:
    from strand.binding.native import Chained
    from strand.output.rows import Rows


class EmittedBatch:
    """Stand-in for a batch whose records have been emitted."""

    n = 1
    at_timer = False

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None:
        """Nothing more is to be done."""


class EngineSite:
    """Site of the calling thread: its ticks in hand and its clock. It knows no handler: handlers hold it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._here = threading.local()

    def enter(self, participant: int, batches: PyBatches) -> None:
        """Notes that this thread is a worker, and perhaps was another one before."""
        self._here.participant, self._here.batches, self._here.is_away = participant, batches, False

    def leave(self) -> None:
        """Notes that this thread is a worker no more: a task that it runs is in a block, or was told of the end."""
        self._here.participant, self._here.batches, self._here.is_away = None, None, True

    @property
    def is_away(self) -> bool:
        """True if this thread was a worker, and is none at the moment."""
        return getattr(self._here, "is_away", False)

    def hold(self, batch: EndBatch | EmittedBatch | None) -> None:
        """Gives this thread, which is no worker, a batch from now on; None: none."""
        self._here.batches = batch

    @property
    def participant(self) -> int | None:
        """The worker this thread is, if it is one: whoever calls from there is a handler."""
        participant: int | None = getattr(self._here, "participant", None)
        return participant

    @property
    def brings_rest(self) -> bool:
        """False on a lossy strand: ticks that a worker has copied off it cannot be put back."""
        return self._engine.config.on_full not in ("drop_oldest", "conflate")

    #: The tick that a call fails on is done with.
    failed_come_again = False

    @property
    def ends_at_failure(self) -> bool:
        """A quarantined strand may be released."""
        return self._engine.config.on_error == "stop"

    def batch(self) -> PyBatches | EndBatch | EmittedBatch:
        """The ticks, or the timer, or the end, that this thread's Python has in hand."""
        found: PyBatches | EndBatch | EmittedBatch | None = getattr(self._here, "batches", None)
        if found is None:
            raise ConfigurationError("emit: no tick is being handled here: call it while a handler runs")
        return found

    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each tick in hand."""
        batches = self.batch()
        assert not isinstance(batches, EmittedBatch)
        return batches.times()

    def arm(self, handled: int, alarm: int) -> None:
        """Sets the due time of the current symbol's timer."""
        batches = self.batch()
        assert isinstance(batches, PyBatches)
        batches.arm(handled, alarm)

    def track(self, native: Chained, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> tuple[int, Failure | None]:
        """Runs the native part of a chain that ends in Python over ticks that this worker holds."""
        participant = self.participant
        assert participant is not None
        return self._engine.chains.track(participant, native.function, ticks, after)

    def act(self, native: Chained, key: int, time: int, at_end: bool) -> Failure | None:
        """Runs such a native part at timers, and at the end."""
        return self._engine.chains.act(self.participant or 0, native.function, key, time, at_end)


#: What a worker calls for a strand: a function of its ticks; or, with a symbol and its row, one of (symbol, ticks, row)
#: that handles all, and what it returns is not asked for. That saves a function between the two, and what it holds: of
#: many symbols' things most are in no cache when their turn comes.
WorkerCall = tuple[Callable[..., Any], str | None, Any]
#: Exceptions kept a worker; the engine keeps as many failures in all.
KEPT = 64
_BY_KEY: Final = itemgetter(0)


class PythonHandlers:
    """A strand of a Python handler is one symbol's, or that of symbols that share rows: in one worker's hands at a
    time.

    ``calls``: what a worker calls, by strand, None before its first ticks; ``hosts``: all that is run, by strand;
    ``contexts``: by key; ``objects``: by key, where handlers are objects; ``causes``: the exceptions of each worker's
    failures, in their order; ``site``: where the handlers run. They hold that and not this: a dispatcher that nobody
    refers to has to go at once, with its memory.
    """

    def __init__(
        self,
        engine: Engine,
        assigned: Assigned,
        rows: Rows,
        bound: Sequence[BoundHandler],
    ) -> None:
        self._engine = engine
        self._table = assigned.table
        self._rows = rows
        self._bound = bound
        self._handler_of_symbol = assigned.of_symbol
        self._strand_of_key = self._key_of_strand = np.empty(0, np.uint32)
        self.site = EngineSite(engine)
        self.calls: list[WorkerCall | None] = []
        self.hosts: dict[int, Host] = {}
        self.contexts: dict[int, Context] = {}
        self.objects: dict[int, Any] = {}
        self.causes: list[list[BaseException]] = [[] for _ in range(engine.config.n_workers)]

    def route(self, strand_of_symbol: npt.NDArray[np.uint32]) -> None:
        """Sets the strands of the symbols, before anything is published."""
        self._strand_of_key = strand_of_symbol
        # Of use where a strand has one symbol, as those of Python handlers do, or symbols that share a host.
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

    def bind(self, strand: int) -> WorkerCall:
        """Returns the call that a worker with a strand in hand makes for the strand's ticks, from the first tick on."""
        key = int(self._key_of_strand[strand])
        bound = self._bound[self._handler_of_symbol[key]]
        assert isinstance(bound, BoundPython)
        context, host = bound.bind_symbol(key, symbol=self._table.name(key), row_of=self._rows.at, site=self.site)
        self.contexts[key] = context
        self.hosts[strand] = host
        if host.object is not None:
            self.objects[key] = host.object
        # Whoever learns names goes by these, and may have gone by without this one.
        context.symbol = self._table.name(key)
        return self._call(strand, host)

    def bind_again(self, key: int) -> Host:
        """The symbol with a key had ticks in another process. Records emitted on its behalf were emitted there."""
        strand = int(self._strand_of_key[key])
        self.site.hold(EmittedBatch())
        try:
            self.bind(strand)
        finally:
            self.site.hold(None)
        return self.hosts[strand]

    def hosts_by_key(self) -> dict[int, Host]:
        """Hosts of the symbols that have had ticks, by key."""
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
        causes = self.causes[self.site.participant or 0]
        if len(causes) < KEPT and failure.cause is not None:
            causes.append(failure.cause)

    # ---- the end

    def finish(self) -> bool:
        """Runs the end of every symbol's handler, in the order of keys, after all ticks are handled and no worker is
        left. Symbols that share rows have one end, that of the first that has had ticks. False: an end failed, and
        the run stops at failures; see the engine's failures."""
        left = self.hosts.copy()
        for key in np.flatnonzero(np.isin(self._strand_of_key, list(left))).tolist():
            strand = int(self._strand_of_key[key])
            end = self._engine.to_finish(key) if strand in left else None
            if end is None:
                continue
            host = left.pop(strand)
            self.site.hold(end)
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
                self.site.hold(None)
                end.close()
        return True


class KeepsObjects(Protocol):
    """Runner of Python's handlers: contexts of symbols, and objects of the symbols that have one, by key."""

    @property
    def contexts(self) -> dict[int, Context]: ...

    @property
    def objects(self) -> dict[int, Any]: ...


def named_objects(python: KeepsObjects) -> Iterator[tuple[Context, str, Any]]:
    """The context of each object of an object handler, its symbol or the name of a shared row, and the object, in the
    order of their keys."""
    for key, thing in sorted(python.objects.copy().items(), key=_BY_KEY):
        context = python.contexts[key]
        named = thing.copy() if isinstance(thing, SharedObjects) else {context.symbol: thing}
        for name, each in named.items():
            yield context, name, each


def _each_object(python: KeepsObjects) -> Iterator[tuple[Context, OneSet | None, str, Any]]:
    """Objects with their contexts and names, and the set of parameters that an object has where there are several."""
    for context, name, thing in named_objects(python):
        if isinstance(thing, SetObjects):
            yield from ((context, each.of_set, name, one) for each, one in thing.by_context.items())
        else:
            yield context, None, name, thing


def stop_objects(python: KeepsObjects) -> HandlerError | None:
    """Calls ``on_stop`` of all objects, in the order of their keys, and returns the first failure."""
    first: HandlerError | None = None
    for context, of_set, name, thing in _each_object(python):
        on_stop = getattr(thing, "on_stop", None)
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
                number, params = (None, None) if of_set is None else (of_set.number, of_set.values)
                first = HandlerError(name, 0, context.handler, failure.code, reason, set_number=number, params=params)
                first.__cause__ = failure.cause
                first._line = line_of(failure.cause, (type(thing),))
    return first
