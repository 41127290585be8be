"""The dispatcher: ticks in, each symbol's in order to its handler, on all cores."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, TypeVarTuple, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding.books import TradeMaker
from strand.binding.engine import Engine
from strand.binding.engine_words import PAUSED, QUARANTINED, StrandInspection
from strand.dispatch.base import HistoryOf
from strand.dispatch.calls import RunTasks, SymbolView
from strand.dispatch.configuration import (
    GROUPS,
    DispatcherOptions,
    WorkerCores,
    engine_config,
    limits_of,
    merging_cores,
    order_of,
    pool_of,
    symbol_counts,
    worker_cores,
)
from strand.dispatch.engine_run import EngineRun, RunEnd
from strand.dispatch.publishers import Publishers
from strand.dispatch.state import RunState
from strand.dispatch.statistics import Attachable, choices, say_ended, say_started
from strand.dispatch.watching import least_of
from strand.dispatch.workers import Workers
from strand.errors import ConfigurationError, SavedStateError, StoppedError, WouldDeadlockError
from strand.handlers import HandlerLike
from strand.handlers.host import warn_of_unpriced
from strand.options import named_methods, named_options, refuse_unknown
from strand.threads import WAITS_FOR_ITSELF, Deadline, mended
from strand.validate import text, whole

if TYPE_CHECKING:
    from strand.dispatch.statistics import ShownNames
    from strand.tasks.places import ThreadCounts
    from strand.tasks.tasks import Tasks

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


_live: weakref.WeakSet[Lifecycle] = weakref.WeakSet()


class Lifecycle:
    """Life of a dispatcher, which alone holds it: when it goes before a stop, the workers and outputs are ended."""

    def __init__(
        self,
        state: RunState,
        workers: Workers,
        publishers: Publishers,
        tasks: RunTasks,
        end: RunEnd,
        *,
        makers: list[TradeMaker],
        cores: WorkerCores,
        chosen: Callable[[], dict[str, Any]],
    ) -> None:
        self._state = state
        self._workers = workers
        self._publishers = publishers
        self._tasks = tasks
        self._end = end
        self._makers = makers
        self._cores = cores
        self._chosen = chosen
        self._engine = state.engine
        self._outputs = state.outputs
        self._inside = state.inside
        self._dropped: weakref.finalize[..., Lifecycle] | None = None
        self._close_lock = threading.Lock()

    def start(self, stacklevel: int) -> None:
        """See ``Dispatcher.start``. ``stacklevel``: as warnings.warn has it, from here."""
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            if self._state.closing:
                raise StoppedError("the dispatcher has been stopped: make a new one")
            if not self._state.threads:
                self._begin(stacklevel + 1)
        finally:
            self._inside.threads.remove(me)

    def _begin(self, stacklevel: int) -> None:
        state = self._state
        try:
            self._outputs.start(self._engine.merge, allowed=merging_cores(self._cores.allowed, state.cores))
            # Its threads hold the engine, and not the dispatcher.
            self._dropped = weakref.finalize(self, _drop, state)
            self._dropped.atexit = False
            _live.add(self)
            self._workers.start()
            if state.cores is not None:
                state.cores, refused = self._workers.pin(state.cores, must=self._cores.are_given)
                if refused is not None:
                    state.unpinned = f"workers are not pinned to cores: the system refused it ({refused.strerror})"
                    warnings.warn(
                        f"{state.unpinned}; cores=None runs them unpinned without this warning",
                        RuntimeWarning,
                        stacklevel=stacklevel,
                    )
            for regular in state.regular:
                regular.start()
            if state.sampling is not None:
                state.sampling.start()
            say_started(state.name, self._chosen)
        except BaseException:
            # __exit__ runs only after __enter__ has returned, so the stop is done here.
            self._close(drained=False, started=False)
            raise

    def stop(self, *, drain: bool, timeout_s: float | None) -> bool:
        """See ``Dispatcher.stop``."""
        if self._state.forked:
            return False
        if self._inside.here or self._tasks.here:
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

    def save(self, write: Callable[[], None]) -> None:
        """See ``Dispatcher.save``. ``write`` writes the file, when all is at rest and before anything ends."""
        if self._state.forked or self._state.closing:
            raise self._state.stopped_error()
        if self._inside.here or self._tasks.here:
            raise WouldDeadlockError(f"save: {WAITS_FOR_ITSELF}: save in the thread that publishes the ticks")
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            self._publishers.drain_inside(None)
            if waiting := self._tasks.waiting:
                raise SavedStateError(f"{waiting:,} tasks have not ended, and tasks are not saved: wait for them first")
            self._end.check_saved()
            self._close(drained=True, save=write)
        finally:
            self._inside.threads.remove(me)
        if self._end.failure is not None:
            raise self._end.failure

    def _stop(self, drain: bool, timeout_s: float | None) -> bool:
        drained = False
        try:
            self._end_regular()
            deadline = Deadline(timeout_s)
            if not self._state.closing and self._tasks.begin_end(drain=drain, timeout_s=timeout_s) and drain:
                drained = self._publishers.drain_inside(deadline.left_s())
        except StoppedError:
            pass  # by a handler, or by another thread
        finally:
            self._close(drained=drained)
        if drain and self._end.failure is not None:
            raise self._end.failure
        makers = self._makers[:]
        self._makers.clear()
        if makers:
            warn_of_unpriced(makers)
        return drained and self._state.abandoned == 0

    def _close(self, *, drained: bool, started: bool = True, save: Callable[[], None] | None = None) -> None:
        """Ends all. Where an interrupt cuts that short it goes on, and the interrupt is raised behind it."""
        mended(self._end_all, self._end_all, drained, started, save)

    def _end_all(self, drained: bool, started: bool, save: Callable[[], None] | None) -> None:
        state, me = self._state, threading.get_ident()
        try:
            self._inside.threads.append(me)
            state.closing = True
            self._end_regular()
            self._engine.stop()
            # A handler may wait for an answer in ways that cannot be refused, and its worker for it.
            self._tasks.end()
            self._workers.join()
            self._tasks.join()
            # Publishers notice too, but one may be running a handler: rows and books are final when they are out.
            self._publishers.wait_for_others()
            self._engine.tasks.stop()
            if state.sampling is not None:
                state.sampling.end()
            with self._close_lock:
                try:
                    self._end.close(drained=drained, started=started, save=save)
                except Exception:  # of a save or a sink: all has ended, as without it
                    self._detach()
                    raise
                self._detach()
            self._tasks.end()
        finally:
            self._inside.threads.remove(me)

    def _detach(self) -> None:
        """Forgets the dispatcher at the process's exit, and at its own end."""
        if self in _live:
            self._state.tell_failures()
            say_ended(self._state.name, self._engine.totals)
        _live.discard(self)
        if self._dropped is not None:
            self._dropped.detach()

    def _end_regular(self) -> None:
        """Releases the strands that a guard holds back, and makes all workers active. The regular threads may be
        running, or may have ended."""
        for regular in self._state.regular:
            regular.end()

    def forget(self) -> None:
        """Forgets the threads in the child of a fork: they stay behind, and a wait for one would have no end."""
        self._state.forked = self._state.closing = True
        if self._dropped is not None:
            self._dropped.detach()
        self._outputs.merger.forget()


def _drop(state: RunState) -> None:
    """Nothing refers to a dispatcher that was not stopped. May run anywhere: it waits for nobody."""
    state.dropped = True
    state.engine.stop()
    for regular in state.regular:
        regular.tell_to_end()
    if state.sampling is not None:
        state.sampling.tell_to_end()
    state.outputs.merger.abandon()
    warnings.warn(
        "a Dispatcher was deleted before it was stopped: call stop(), or use it in a with block",
        ResourceWarning,
        stacklevel=2,
    )


def _stop_all() -> None:
    for lifecycle in list(_live):
        lifecycle.stop(drain=False, timeout_s=None)


def _forget_all() -> None:
    for lifecycle in list(_live):
        lifecycle.forget()
    _live.clear()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forget_all)


@named_methods
@named_options("Dispatcher()", groups=GROUPS, declares=DispatcherOptions)
class Dispatcher(EngineRun, Attachable):
    """Keeps each symbol's ticks in order and lets workers compete to run its handler over them.

    Use it as a context manager: leaving the block drains and stops, leaving it by an exception stops at once. A process
    that is forked has no workers; there it raises StoppedError.

    Args:
        symbols: The symbols' names (``instrument_id`` is the index), or how many there are.
        handler: The handler of all symbols.
        handlers: In place of ``handler``, handlers by symbol, with ``"*"`` for the others.
        load: A file of ``save`` to continue from. The other arguments must be those of the dispatcher that was saved.

    Raises:
        ConfigurationError: If an argument cannot work; it names the argument.
        UnknownSymbolError: If an option by symbol names one that ``symbols`` does not have.
        SavedStateError: If the file of ``load`` does not fit.
        MissingExtraError: If ``guard`` needs psutil.
    """

    def __init__(
        self,
        symbols: int | Sequence[str],
        handler: HandlerLike | None = None,
        *,
        handlers: Mapping[str, HandlerLike] | None = None,
        load: str | os.PathLike[str] | None = None,
        _counters_start: int = 0,
        _paced: bool | None = None,
        _feed_counts: Callable[[], Mapping[str, Any]] = dict,
        _recorded: bool = False,
        _history: HistoryOf | None = None,
        **options: Unpack[DispatcherOptions],
    ) -> None:
        super().__init__(symbols, handler, handlers, options, history=_history)
        policy, guard = options["policy"], options["guard"]
        order = order_of(self._table, options)
        name, pool, limits = text("name", options["name"]), pool_of(options), limits_of(options)
        placed = worker_cores(pool.cores, pool.workers)
        config = engine_config(
            self._reader,
            self._assigned,
            order,
            placed,
            options,
            pool=pool,
            limits=limits,
            emits=self._needs_positions,
            attachable=options["attachable"],
            counters_start=_counters_start,
        )
        expected, retry = symbol_counts(options["counts"], config.n_symbols), options["retry"]
        engine = Engine(config)
        self._inspection = engine.strands.scratch()
        self._put_together(engine, engine.space, order, expected=expected, cores=placed.pinned, load=load, retry=retry)
        state, tasks = self._state, self._tasks
        state.name = name or state.name
        if _paced is not None:
            state.replays(paced=_paced)
        state.feed_counts = _feed_counts
        state.look_regularly(placed.allowed, guard=guard, least=least_of(pool.min_workers, placed.workers))
        ways = self._reader, self._orders, self._routing, self._python
        self._publishers: Publishers = Publishers(state, *ways, tasks=tasks)
        self._workers = Workers(state, self._python, tasks, self._reader.dtype, placed.allowed)
        parts = self._workers, self._publishers, tasks, self._end
        self._shown: ShownNames | None = None
        said = partial(
            choices, "dispatcher", name, engine, placed.pinned, asdict(limits), handlers=self._handlers,
            outputs=self._outputs, policy=policy, guard=guard, retry=retry, min_workers=pool.min_workers,
            on_error=options["on_error"],
        )  # fmt: skip
        self._lifecycle = Lifecycle(state, *parts, makers=self._makers, cores=placed, chosen=said)
        if config.attachable:
            from strand.dispatch.samples import Sampling, weakly
            from strand.dispatch.statistics import ShownNames, described, facts_of_run, fair_of_run

            self._shown = ShownNames(engine, self._table)
            self._shown.update()
            state.sampling = Sampling(
                engine,
                policy.level_names,
                core=weakly(None, RunTasks.core, tasks),
                of_tasks=False,
                facts=weakly({}, facts_of_run, state),
                fair=weakly(None, fair_of_run, state, self._routing),
                allowed=placed.allowed,
                inside=self._inside,
            )
            of_handlers = self._handlers, self._bound
            levels = policy.level_names
            shown = described(said(), config, *of_handlers, paced=state.paced, recorded=_recorded, levels=levels)
            engine.outside.show(shown)

    def learn_symbols(self, names: Sequence[str]) -> None:
        super().learn_symbols(names)
        if self._shown is not None:
            self._shown.update()

    def start(self) -> Self:
        """Starts the workers; entering the context does.

        Raises:
            StoppedError: After a stop.
            ConfigurationError: If the system refuses to pin a worker to a core of ``cores``.
        """
        self._lifecycle.start(stacklevel=3)
        return self

    def __enter__(self) -> Self:
        start = partial(self._lifecycle.start, stacklevel=4)
        for _ in map(mended, (start,), (partial(self.stop, drain=False),)):
            break
        # No interrupt comes between the call and this line: ``__exit__`` is called, or the dispatcher has stopped.
        return self

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
        """Stops the workers and waits for them. It may be called again.

        A guard ends first, and lets go what it holds back. A task or call that runs is waited for; after the workers
        have stopped, its next ``strand.checkpoint()`` raises StoppedError.

        A thread inside the dispatcher cannot wait for it: in a handler, task, ``on_stop`` or ``on_finish``, or in a
        signal handler (or ``__del__``) that interrupts a call. There ``stop(drain=False)`` asks for the stop, ends what
        waits, and returns False. Leaving the block, or the next ``stop``, does the rest.

        Args:
            drain: First handle what is pending. False abandons and counts it, and cancels coroutines. Ticks of paused
                and quarantined strands are abandoned in both cases.
            timeout_s: How many seconds to drain at most; the rest is then abandoned. None drains without end.

        Returns:
            Whether everything published was handled or dropped.

        Raises:
            HandlerError: If a handler's failure has stopped the run. The dispatcher is stopped all the same.
            SinkError: If a sink of ``out`` raised. The dispatcher is stopped all the same.
            FeedError: If a file of ``out`` cannot be written. The dispatcher is stopped all the same.
            WouldDeadlockError: With ``drain``, in a thread inside the dispatcher.
        """
        return self._lifecycle.stop(drain=drain, timeout_s=timeout_s)

    def save(self, path: str | os.PathLike[str], *, _more: Mapping[str, Any] | None = None) -> None:
        """Drains, writes the state to a file, and ends the run.

        ``Dispatcher(..., load=path)`` continues from there, in another process too. Outputs have what was emitted so
        far. Ends of handlers do not run. Pauses are not saved.

        Args:
            path: The file to write.

        Raises:
            ConfigurationError: If the name ends like that of a packed file. The run goes on.
            SavedStateError: If a handler keeps Python objects without ``save`` and ``load``, which it names, or tasks
                have not ended: the run goes on. If a handler has failed, or ticks of paused strands wait: the run is
                over.
            FeedError: If the file cannot be written. The run is over, as it is with the errors that ``stop`` raises.
            WouldDeadlockError: In a thread inside the dispatcher. The run goes on.
            StoppedError: After a stop.
        """
        from strand.dispatch.saving import check_name

        check_name(path)
        self._lifecycle.save(lambda: self._write_state(path, _more or {}))

    def _write_state(self, path: str | os.PathLike[str], more: Mapping[str, Any]) -> None:
        self._saving.write(path, self._python, self._reader.rows_read, self._routing.taken, more)

    # ---- publishing

    def publish(self, records: npt.NDArray[Any] | np.void, *, timeout_s: float | None = None, **misspelt: Never) -> int:
        """Publishes records in order, and returns how many were accepted, dropped ones included (see ``statistics``).

        Inside a handler it never waits, nor in a coroutine of its tasks without ``timeout_s``.

        Args:
            records: Shape (n,) of the dispatcher's dtype, or a single record. The array may be reused after the call.
                Native handlers get the ticks of a long array that is read-only as they lie, without a copy.
            timeout_s: With ``on_full="block"``, how many seconds to wait at most for a full strand. None waits without
                end.

        Raises:
            RecordTypeError: If the dtype is another.
            UnknownSymbolError: If a key is outside the table. The records before it are published.
            BackpressureError: If a strand is full with ``on_full="raise"``, or still full after ``timeout_s``.
            WouldDeadlockError: If a strand is full with ``on_full="block"``, inside a handler. It is a
                BackpressureError.
            HandlerError: If a handler's failure has stopped the run.
            StoppedError: After a stop.
        """
        if misspelt:  # by itself, as a decorator takes 4% of the time to publish one record
            refuse_unknown(misspelt, ["timeout_s"], "publish()")
        if self._wants_names:
            self._publishing(records)
        return self._publishers.publish(records, timeout_s)

    def advance(self, time_ns: int) -> None:
        """Moves the feed's time forward without a tick, so that timers which are due by then fire.

        A source calls it when it knows that no earlier tick will come. A time that the feed has passed has no effect,
        nor has any where no handler has timers or outputs. It may be called from any thread outside of handlers.

        Args:
            time_ns: A time in ns since 1970-01-01 UTC, as ``ts_recv`` is.

        Raises:
            ConfigurationError: If it is not a whole number from 0 to 2^63 - 1.
            HandlerError: If a handler's failure has stopped the run.
            StoppedError: After a stop.
            WouldDeadlockError: Inside a handler, and in a coroutine of its tasks.
        """
        self._publishers.advance(whole("time_ns", time_ns, 0))

    def drain(self, timeout_s: float | None = None) -> bool:
        """Waits until everything published has been handled, and helps with it.

        It does not wait for paused and quarantined strands. It does wait for what a guard holds back, and for tasks
        that wait for a worker or run.

        Args:
            timeout_s: How many seconds to wait at most; 0 only looks. None waits without end.

        Returns:
            False if the time passed first.

        Raises:
            HandlerError: If a handler's failure has stopped the run.
            StoppedError: After a stop, and if there is something to handle and no worker was ever started.
            WouldDeadlockError: Inside a handler, and in a coroutine of its tasks.
        """
        return self._publishers.drain(timeout_s)

    # ---- calls

    def call(
        self, symbol: str | int, fn: Callable[[SymbolView, *Ts], R], *args: *Ts, timeout_s: float | None = None
    ) -> R:
        """Runs ``fn(view, *args)`` on the symbol's strand, in order with its ticks, and returns what it returns.

        It runs after all ticks published before the call and before any published after it, while nothing else of the
        strand runs: ``dispatcher.call("AAPL", lambda view: view.book.bids(5))``. A worker runs it, so it should be
        short. It may publish, as a handler may. It may be called from any thread. A paused strand answers when it is
        resumed.

        Args:
            symbol: Its name or index.
            fn: Called with a ``SymbolView``, which has ``row``, ``book``, ``symbol`` and ``index``. Its exceptions are
                raised here.
            *args: More arguments of ``fn``.
            timeout_s: How many seconds to wait at most. None waits without end.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
            CallTimeoutError: After ``timeout_s``.
            QuarantinedError: If the strand is set aside because a handler failed.
            WouldDeadlockError: Inside a handler, and in a task or call that it would wait for.
            HandlerError: If a handler's failure has stopped the run.
            StoppedError: After a stop, and if no worker was ever started.
            BackpressureError: If too many calls wait already.
        """
        answer: R = self._calls.call(symbol, fn, args, timeout_s)
        return answer

    def submit_call(self, symbol: str | int, fn: Callable[[SymbolView, *Ts], R], *args: *Ts) -> Future[R]:
        """Does what ``call`` does without waiting, and returns the ``TaskFuture`` of the answer.

        It may be called inside handlers too. There ``result()`` of the future does not wait, but raises
        WouldDeadlockError: give the future an ``add_done_callback``.

        ``cancel()`` of the future gives the call up unless it has begun. A stop ends it with StoppedError, or with
        HandlerError if a handler's failure stopped the run. On a strand that is paused, or quarantined meanwhile, it
        waits.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
            QuarantinedError: If the strand is set aside because a handler failed.
            HandlerError: If a handler's failure has stopped the run.
            StoppedError: After a stop, and if no worker was ever started.
            BackpressureError: If too many calls wait already.
        """
        return self._calls.submit(symbol, fn, args)

    # ---- strands

    def pause(self, symbol: str | int) -> None:
        """Holds back the symbol's strand, from the end of the visit under way.

        Symbols that share the strand are held back with it. Its ticks queue up to its bound.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        self._engine.strands.hold(self._routing.strand_of(symbol), PAUSED)

    def resume(self, symbol: str | int) -> None:
        """Lets a paused strand go on.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        self._engine.strands.resume(self._routing.strand_of(symbol), PAUSED)

    def release(self, symbol: str | int) -> None:
        """Lets a quarantined strand go on, after the tick that its handler failed on.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        self._engine.strands.resume(self._routing.strand_of(symbol), QUARANTINED)

    def prioritise(self, symbol: str | int, priority: Any, *, for_backlog: bool = False) -> None:
        """Gives a symbol another priority of the policy, and its strand the highest of its symbols, at once.

        Under ``Levels`` its wait in the new level begins then.

        Args:
            symbol: Its name or index.
            priority: A priority, as ``priorities=`` takes it.
            for_backlog: Raise the strand only until nothing of it is pending. A priority below its own changes nothing.

        Raises:
            ConfigurationError: If the policy does not have that priority.
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        self._routing.prioritise(symbol, priority, for_backlog=for_backlog)

    def regroup(self, symbol: str | int, group: str) -> None:
        """Moves a symbol to another group, under ``Fair``, and with it the symbols that share its strand.

        The old group keeps the on-CPU time that was charged before.

        Args:
            symbol: Its name or index.
            group: A name in ``groups=`` or ``weights=``, or of a symbol that was a group of its own at the start.

        Raises:
            ConfigurationError: If there is no such group, or the policy has none.
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        self._routing.regroup(symbol, group)

    def strand_of(self, symbol: str | int) -> int:
        """Returns the number of the strand that a symbol belongs to.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        return self._routing.strand_of(symbol)

    def inspect(self, symbol: str | int) -> StrandInspection:
        """Returns the counts and the state of the symbol's strand.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        return self._engine.strands.inspect(self._routing.strand_of(symbol))

    def time_handlers(self) -> None:
        """Keeps the time that handlers take, for ``handler_times``. No tick goes in blocks then.

        Raises:
            ConfigurationError: With ``ingest="blocks"``, and after the start.
            MemoryError: If there is no memory for the times.
        """
        if self._state.threads or self._state.closing:
            raise ConfigurationError("time_handlers", "call it before the start")
        self._engine.time_strands()

    def handler_times(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Returns by symbol how many ns its handler took, and for how many ticks; both of shape (n_symbols,), u8.

        Both are 0 where that is not known: of symbols that share a strand, of ticks that a publisher handled, and
        without ``time_handlers``.
        """
        if not self._routing.is_known:
            return np.zeros(len(self._table), np.uint64), np.zeros(len(self._table), np.uint64)
        strand_of = self._routing.by_counts(None)
        ns, ticks = self._engine.strands.times(self.n_strands)
        alone = np.bincount(strand_of, minlength=len(ns)) == 1
        return np.where(alone, ns, 0)[strand_of], np.where(alone, ticks, 0)[strand_of]

    # ---- looking on

    def read_if_quiescent(self, index: int, columns: Iterable[npt.NDArray[Any]]) -> list[Any] | None:
        """Returns a symbol's values in columns of ``rows`` after all ticks published, which belong together.

        Only the one thread that publishes may call it.

        Args:
            index: The symbol's index.
            columns: Arrays of shape (n_symbols,), such as ``rows.array["price"]``.

        Returns:
            One value per column; None if ticks of the symbol's strand are pending.
        """
        # Pending is counted down after the handler's last write, which reading it as 0 makes visible here, and what
        # this thread does not publish meanwhile nobody handles. A handler that publishes is seen by what the strand has
        # accepted since.
        strand, found = self._routing.strand_of(index), self._inspection
        before = self._engine.strands.accepted_if_quiescent(strand, found)
        if before is None:
            return None
        values = [column[index] for column in columns]
        return values if self._engine.strands.accepted_if_quiescent(strand, found) == before else None

    def counters_reader(self) -> Callable[[], npt.NDArray[np.uint64]]:
        """Returns a function that reads every participant's counters, much cheaper than ``statistics()``.

        It returns one array of shape (participants, fields), u8, workers first. ``COUNTERS`` of
        strand.binding.engine_words names the fields.
        """
        return self._engine.counters_reader()

    # ---- tasks

    @property
    def tasks(self) -> Tasks:
        """An executor like ``strand.Scheduler``, whose tasks the workers run beside the ticks, by the policy.

        With ``options(symbol=...)`` a task runs in order with the symbol's ticks. ``stop`` waits for tasks that can
        run, and cancels others.

        A task may wait in ``strand.checkpoint()``, in ``strand.blocking()`` and in ``result()`` of a task or call.
        Another thread then has its worker, up to 256 threads.
        """
        return self._tasks.get()

    def thread_counts(self) -> ThreadCounts:
        """Returns what the workers' threads do at this moment, and how often tasks and calls were suspended."""
        return self._workers.counts()
