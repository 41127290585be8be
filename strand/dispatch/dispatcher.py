"""The dispatcher: ticks in, each symbol's in order to its handler, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar, TypeVarTuple

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.engine_words import StrandInspection
from strand.binding.feeder import Feeder
from strand.binding.tick_counts import Seen
from strand.dispatch.activating import least_of
from strand.dispatch.calls import CallFuture, SymbolView
from strand.dispatch.configuration import RENAMED, engine_config, symbol_counts, worker_cores
from strand.dispatch.engine_run import EngineRun
from strand.dispatch.grouping import StrandsLike
from strand.dispatch.guard import Guard, marks_of
from strand.dispatch.lifecycle import Lifecycle
from strand.dispatch.options import GROUPS
from strand.dispatch.pool import Limits, Pool, chosen
from strand.dispatch.priorities import Priorities, ranks_of
from strand.dispatch.publishers import Publishers
from strand.dispatch.records import RecordReader
from strand.dispatch.saved_state import check_name
from strand.dispatch.workers import Workers
from strand.handlers import HandlerLike
from strand.options import named_options
from strand.output.sink import Destination
from strand.policies.every_policy import policy_config
from strand.policies.policy import Fifo, Policy
from strand.ticks import TICK
from strand.validate import text

if TYPE_CHECKING:
    from strand.dispatch.description import ShownNames
    from strand.feeds.base import TicksAre
    from strand.feeds.mapping.column_options import ColumnOptions
    from strand.tasks.engine_tasks import EngineTasks
    from strand.tasks.retry import RetryPolicy
    from strand.tasks.work import ThreadCounts

__all__ = ["Dispatcher"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Dispatcher(EngineRun):
    """Keeps each symbol's ticks in order and lets workers compete to run its handler over them.

    ``workers``. ``cores``. ``idle``.

    Args:
        symbols: Their names (``instrument_id`` is the index), or how many there are.
        handler: The one for all, or ``handlers``: by symbol, with ``"*"`` for the others.
        budget_ticks: How many threads drain, where they run, what they do without work, and how many ticks a visit has;
            or ``pool``, a ``strand.Pool``, which has more and says what these mean.
        policy: Which ready strand is drained next, ``Fifo()``, ``Levels()``, ``Aging()`` or ``Fair()``. By symbol, with
            ``"*"`` for those not named: ``priorities``, under ``Levels`` a level (else ``"normal"``), under ``Aging`` a
            whole number, a class, or both, like ``("urgent", 10)`` (else 0); ``groups``, under ``Fair`` the name of its
            group (else one of its own); ``marks``, ``"io"``, ``"frees_memory"``, or a set of both, for ``guard``, which
            under ``Levels`` holds strands back while CPU, memory or I/O is short (docs/policies.md, docs/guard.md).
        retry: Of ``tasks`` that are given none; None: they fail at once.
        strands: ``"per-symbol"``, a number, or ``"auto"``: busy symbols alone, quiet ones sharing, by ``counts`` (what
            to expect of each) or else by the first array published.
        capacity_ticks: Bounds each strand, ``on_full`` says what happens there: ``"block"``, ``"drop_newest"``,
            ``"drop_oldest"``, ``"conflate"`` (keep a symbol's latest) or ``"raise"``; with the lossy two (oldest,
            conflate) the bound counts ticks that wait, not those in a worker's hands. Or ``limits``, a
            ``strand.Limits``, which has these and the bounds over several strands.
        on_error: A failing handler ``"stop"``s the run or ``"quarantine"``s its strand.
        batch_ticks: Grouped at one go.
        publisher_drains: Whether publishing threads may run handlers, when they are ahead and where that is cheaper
            than handing ticks over; switch it off where a publisher must never be held up by a handler.
        out: Files, or sinks of your own (``strand.Sink``), for outputs that handlers emit to, by name; the others are
            collected in memory (``outputs``).
        escape_formulas: In CSV files a text cell that a spreadsheet would run (it begins with ``=``, ``+``, ``-``,
            ``@``, a tab or a carriage return) is written behind an apostrophe.
        attachable: Another process of the same user may look at it while it runs (``strand.attach``), and knows it by
            its ``name``. Its memory then has the pages that the system gives to files, which are small ones as a rule.
        dtype, key: The records' structured dtype and the u32 field that holds the symbol's index.
        columns: Maps tick fields to the fields of the arrays that will be published, which are then converted as
            ``NpyFeed`` does it; names that are usual for a field are found without.
        column_options: Those of that reader: ``constants``, ``price_unit``, ``size_unit``, ``time_unit``, ``inexact``,
            ``nulls``. Where no column gives a ``sequence``, it is the row's place among all rows given to ``publish``,
            refused ones too, from 1.
        feed: What the ticks mean (``strand.feeds.FeedInfo.ticks``): ``"plain"``, ``"orders"``, ``"dbn"`` or
            ``"dbn-orders"``. By it ``vwap``, ``bars`` and all that count trades tell what is one, and whether they need
            books. Without it they take ticks as they are; where single orders come to them, that is a RuntimeWarning,
            and is counted.
        load: A file of ``save``, to go on from; the other arguments have to be those of the dispatcher that was saved.
            Use it as a context manager: leaving it drains and stops; leaving it by an exception stops at once. A
            process that is forked has no workers: there it raises StoppedError.

    Raises:
        ConfigurationError: Naming the argument that cannot work.
        SavedStateError: For a file that does not fit.
        MissingExtraError: Where ``guard`` needs psutil.
    """

    @named_options("Dispatcher()", RENAMED, groups=GROUPS)
    def __init__(
        self,
        symbols: int | Sequence[str],
        handler: HandlerLike | None = None,
        *,
        handlers: Mapping[str, HandlerLike] | None = None,
        workers: int | None = None,
        cores: Sequence[int] | Literal["auto"] | None = "auto",
        idle: str = "backoff",
        budget_ticks: int = 4096,
        pool: Pool | None = None,
        policy: Policy = Fifo(),  # noqa: B008 - frozen
        priorities: Mapping[str, Any] | None = None,
        guard: Guard | None = None,
        marks: Mapping[str, str | Iterable[str]] | None = None,
        groups: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        strands: StrandsLike = "auto",
        counts: npt.ArrayLike | None = None,
        capacity_ticks: int = 65_536,
        on_full: str = "block",
        limits: Limits | None = None,
        on_error: str = "stop",
        batch_ticks: int = 8192,
        publisher_drains: bool = True,
        out: Mapping[str, Destination] | None = None,
        escape_formulas: bool = False,
        attachable: bool = False,
        name: str = "",
        dtype: np.dtype[Any] = TICK,
        key: str = "instrument_id",
        columns: Mapping[str, str | Mapping[str, Any] | None] | None = None,
        column_options: ColumnOptions | None = None,
        feed: TicksAre | None = None,
        load: str | os.PathLike[str] | None = None,
        _counters_start: int = 0,
        _paced: bool | None = None,
    ) -> None:
        super().__init__(
            symbols,
            handler,
            handlers,
            reader=RecordReader(dtype, key, columns, column_options),
            feed=feed,
            out=out,
            escape_formulas=escape_formulas,
        )
        order, (ranks, grouped) = policy_config(policy), ranks_of(policy, self._table, priorities, groups)
        marked, name = marks_of(guard, policy, self._table, marks), text("name", name)
        pool = chosen("pool", pool, Pool(workers=workers, cores=cores, idle=idle, budget_ticks=budget_ticks))
        limits = chosen("limits", limits, Limits(capacity_ticks=capacity_ticks, on_full=on_full))
        placed = worker_cores(pool.cores, pool.workers)
        config = engine_config(
            self._reader,
            self._handlers,
            self._handler_of_symbol,
            ranks,
            placed,
            units=self._units,
            pool=pool,
            limits=limits,
            marks=marked,
            strands=strands,
            publisher_drains=publisher_drains,
            emits=len(self._outputs) > 0,
            on_error=on_error,
            batch_ticks=batch_ticks,
            attachable=attachable,
            counters_start=_counters_start,
            policy=order,
        )
        expected = symbol_counts(counts, config.n_symbols)
        engine = Engine(config)
        self._put_together(
            engine,
            engine.space,
            expected=expected,
            priorities=Priorities(engine, policy, ranks, marked, grouped),
            cores=placed.pinned,
            load=load,
            retry=retry,
        )
        state, calls = self._state, self._calls
        if _paced is not None:
            state.replays(paced=_paced)
        state.look_regularly(placed.allowed, guard=guard, least=least_of(pool.min_workers, placed.workers))
        ways = self._reader, self._orders, self._routing, self._python
        self._publishers = Publishers(state, *ways, tasks=calls.tasks)
        self._workers = Workers(state, self._python, calls, self._reader.dtype, placed.allowed)
        parts = self._workers, self._publishers, calls, self._end
        self._lifecycle = Lifecycle(state, *parts, makers=self._makers, cores=placed)
        self._shown: ShownNames | None = None
        if config.attachable:
            from strand.dispatch.description import ShownNames, described

            self._shown = ShownNames(engine, self._table)
            self._shown.update()
            about = described(name, config, self._handlers, self._bound, tuple(self._outputs), paced=state.paced)
            engine.show(about)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            now = {"look": "inspect", "check": "verify", "read_at_rest": "read_if_quiescent"}.get(name)
            text = f"Dispatcher.{name} is called {now} now" if now else f"a Dispatcher has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=self)

    def learn_symbols(self, names: Sequence[str]) -> None:
        super().learn_symbols(names)
        if self._shown is not None:
            self._shown.update()

    def start(self) -> Self:
        """Starts the workers; entering the context does.

        Raises:
            StoppedError: After a stop.
            ConfigurationError: Where the system refuses to pin a worker to a core of ``cores``.
        """
        self._lifecycle.start()
        return self

    def __enter__(self) -> Self:
        self._lifecycle.start()
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
        """Stops the workers and waits for them. Returns whether everything published was handled or dropped.

        A thread inside the dispatcher cannot wait for it: in a handler, task, ``on_stop``, ``on_finish``, or a signal
        handler (or ``__del__``) that interrupts a call: there ``stop()`` raises WouldDeadlockError. Without ``drain``
        it asks for the stop, ends what waits, and returns False; leaving the block, or the next ``stop``, does more.

        Args:
            drain: First handle what is pending, for at most ``timeout_s``; else what is pending is abandoned, and
                counted, and coroutines are cancelled. Ticks of paused and quarantined strands are abandoned in both.

        Raises:
            HandlerError: When a handler's failure has stopped the run; it is stopped all the same. May be called again.
                A guard ends first, and lets go what it holds back. A task or call that runs is waited for; when the
                workers have stopped, its next ``strand.checkpoint()`` raises StoppedError.
        """
        return self._lifecycle.stop(drain=drain, timeout_s=timeout_s)

    def save(self, path: str | os.PathLike[str], *, _more: Mapping[str, Any] | None = None) -> None:
        """Drains, writes the state to a file, and ends the run: ``Dispatcher(..., load=path)`` goes on from there, in
        another process too. Outputs have what was emitted so far; ends of handlers do not run. Pauses are not saved.

        Raises:
            ConfigurationError: For a name that ends as packed files do.
            SavedStateError: Naming the handler, where one keeps Python objects without ``save`` and ``load``; the run
                goes on. It is over after the others: SavedStateError where a handler has failed, or ticks of paused
                strands wait.
            FeedError: Where the file cannot be written, and what ``stop`` raises.
        """
        check_name(path)
        self._lifecycle.save(lambda: self._saving.write(path, self._python, self._reader.rows_read, _more or {}))

    # ---- publishing

    def publish(self, records: npt.NDArray[Any] | np.void, *, timeout_s: float | None = None) -> int:
        """Publishes records in order, and returns how many were accepted (dropped ones included: see statistics).

        Args:
            records: Shape (n,) of the dispatcher's dtype, or a single record. The array may be reused at return. From
                inside a handler it never waits, nor in a coroutine of its tasks without ``timeout_s``.

        Raises:
            RecordTypeError: For another dtype.
            UnknownSymbolError: For a key outside the table, with what comes before it published.
            BackpressureError: When a strand is full and ``on_full="raise"``, or after ``timeout_s`` of waiting with
                ``"block"``.
            WouldDeadlockError: For that inside a handler.
            HandlerError: When a handler's failure stopped the run.
            StoppedError: After a stop.
        """
        return self._publishers.publish(records, timeout_s)

    def _feeder(self, counts: npt.NDArray[np.int64], seen: Seen, limit: int | None) -> Feeder:
        return self._publishers.feeder(counts, seen, limit)

    def drain(self, timeout_s: float | None = None) -> bool:
        """Waits until everything published has been handled, but for paused and quarantined strands, and helps with it.
        What a guard holds back is waited for, and so are tasks that wait for a worker or run.

        Returns False when ``timeout_s`` passed first; 0 only looks.

        Raises:
            HandlerError: When a handler's failure has stopped the run.
            StoppedError: After a stop and where no worker was ever started.
            WouldDeadlockError: Inside a handler and in a coroutine of its tasks.
        """
        return self._publishers.drain(timeout_s)

    # ---- calls

    def call(
        self, symbol: str | int, fn: Callable[[SymbolView, *Ts], R], *args: *Ts, timeout_s: float | None = None
    ) -> R:
        """Runs ``fn(view, *args)`` on the symbol's strand, in order with its ticks, and returns what it returns.

        It runs after all ticks published before the call and before any published after it, while nothing else of the
        strand runs: ``dispatcher.call("AAPL", lambda view: view.book.bids(5))``. ``view`` is a ``SymbolView``: ``row``,
        ``book``, ``symbol``, ``index``. A worker runs it, so it should be short; it may publish, as a handler may. From
        any thread; a paused strand answers when it is resumed.

        Raises:
            ?: What ``fn`` raises.
            CallTimeoutError: After ``timeout_s``.
            QuarantinedError: For a strand that is set aside since a handler failed.
            WouldDeadlockError: Inside a handler, and in a task or call that it would wait for.
            HandlerError: When a handler's failure has stopped the run.
            StoppedError: After a stop and where no worker was ever started.
            BackpressureError: Where there is no place for one more call.
            UnknownSymbolError:
        """
        answer: R = self._calls.call(symbol, fn, args, timeout_s)
        return answer

    def submit_call(self, symbol: str | int, fn: Callable[[SymbolView, *Ts], R], *args: *Ts) -> CallFuture[R]:
        """``call`` without waiting: a ``concurrent.futures.Future`` of the answer, to be had inside handlers too. Its
        ``result()`` does not wait there, but raises WouldDeadlockError: give the future an ``add_done_callback``.

        Its ``cancel()`` gives the call up unless it has begun. A stop ends it with StoppedError, or with HandlerError
        where a handler's failure stopped the run; on a strand that is paused, or quarantined meanwhile, it waits.
        """
        return self._calls.submit(symbol, fn, args)

    @property
    def tasks(self) -> EngineTasks:
        """An executor (as ``strand.Scheduler``) whose tasks the workers run beside the ticks, by the policy; with
        ``options(symbol=...)`` in order with its ticks. ``stop`` waits for those that can run, and cancels others.
        A task may wait: in ``strand.checkpoint()``, ``strand.blocking()`` and ``result()`` of a task or call another
        thread has its worker meanwhile, up to 256 threads."""
        return self._calls.tasks.get()

    def thread_counts(self) -> ThreadCounts:
        """What the workers' threads do at this moment, and how often tasks and calls were suspended."""
        return self._workers.counts()

    # ---- strands

    def pause(self, symbol: str | int) -> None:
        """Holds back the symbol's strand, and with it the symbols that share it, from the end of the visit under way;
        its ticks queue up to its bound."""
        self._control.pause(symbol)

    def resume(self, symbol: str | int) -> None:
        """Lets a paused strand go on."""
        self._control.resume(symbol)

    def release(self, symbol: str | int) -> None:
        """Lets a quarantined strand go on, after the tick its handler failed on."""
        self._control.release(symbol)

    def prioritise(self, symbol: str | int, priority: Any, *, for_backlog: bool = False) -> None:
        """Gives a symbol another priority of the policy, and its strand the highest of its symbols, at once. Under
        ``Levels`` its wait in the new level begins then.

        Args:
            for_backlog: Raises the strand until nothing of it is pending; a priority below its own changes nothing.

        Raises:
            ConfigurationError: For a priority that the policy does not have.
            UnknownSymbolError:
        """
        self._control.prioritise(symbol, priority, for_backlog=for_backlog)

    def regroup(self, symbol: str | int, group: str) -> None:
        """Under ``Fair``, moves a symbol to another group, and with it the symbols that share its strand. The old group
        keeps the on-CPU time charged before.

        Args:
            group: A name in ``groups=`` or ``weights=``, or of a symbol that was a group of its own at the start.

        Raises:
            ConfigurationError: For no such group.
            UnknownSymbolError:
        """
        self._control.regroup(symbol, group)

    def strand_of(self, symbol: str | int) -> int:
        """The number of the strand a symbol belongs to."""
        return self._control.strand_of(symbol)

    def inspect(self, symbol: str | int) -> StrandInspection:
        """The books of the symbol's strand."""
        return self._control.inspect(symbol)

    def time_handlers(self) -> None:
        """Before the start: keeps the time that handlers take, for ``handler_times``."""
        self._engine.time_strands()

    def handler_times(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """By symbol, shape (n_symbols,): ns that its handler took, and for how many ticks. Both are 0 where that is not
        known: of symbols that share a strand, of ticks that a publisher handled, and without ``time_handlers``."""
        return self._control.handler_times()

    # ---- looking on

    @property
    def memory_fd(self) -> int:
        """The descriptor of the file that its memory lies over, for ``strand.attach(fd=...)`` in a process that it is
        handed to. It stays the dispatcher's, which closes it.

        Raises:
            ConfigurationError: Without ``attachable=True``.
        """
        return self._control.memory_fd()

    def read_if_quiescent(self, index: int, columns: Iterable[npt.NDArray[Any]]) -> list[Any] | None:
        """A symbol's values in columns of ``rows`` after all ticks published: they belong together. None where ticks of
        its strand are pending. For the only thread that publishes."""
        return self._control.read_if_quiescent(index, columns)

    def counters_reader(self) -> Callable[[], npt.NDArray[np.uint64]]:
        """What reads every participant's counters, much cheaper than ``statistics()``, into one array of shape
        (participants, fields), workers first. ``COUNTERS`` of strand.binding.engine_words names the fields."""
        return self._engine.counters_reader()
