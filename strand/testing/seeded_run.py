"""Runs whose interleaving a seed decides: the engine's real code on one thread, under a scheduler of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding.gate import Code, publish_error
from strand.binding.memory import Space
from strand.binding.scheduled import MAX_WORKERS, ScheduledEngine
from strand.dispatch.base import HistoryOf
from strand.dispatch.configuration import (
    GROUPS,
    Limits,
    Pool,
    RunOptions,
    WorkerCores,
    chosen,
    engine_config,
    symbol_counts,
)
from strand.dispatch.dispatcher import options_given
from strand.dispatch.engine_run import EngineRun
from strand.dispatch.records import RecordReader
from strand.dispatch.routing import order_of
from strand.dispatch.workers import work
from strand.errors import ConfigurationError, DifferenceError, StoppedError
from strand.feeds import Feed
from strand.handlers import HandlerLike
from strand.handlers.host import warn_of_unpriced
from strand.options import named_options, refuse_unknown
from strand.output.sinks import Destination
from strand.replaying.options import ReplayOptions
from strand.replaying.replay import replay, replay_by
from strand.replaying.result import ReplayResult
from strand.testing.tools import Clock, assert_same, reference
from strand.threads import installed
from strand.validate import whole

__all__ = ["SeededDispatcher", "check_seeds", "seeded"]

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
        given = options_given(options)
        of_pool = ("workers", "idle", "budget_ticks")
        pool = chosen("pool", given["pool"], Pool(**{name: given[name] for name in of_pool}))
        if pool != (same := replace(pool, cores="auto", min_workers=None, max_publishers=_PUBLISHERS)):
            raise ConfigurationError("pool", f"a seeded run has no cores, min_workers or max_publishers: give {same!r}")
        of_limits = ("capacity_ticks", "on_full")
        limits = chosen("limits", given["limits"], Limits(**{name: given[name] for name in of_limits}))
        workers = whole("workers", 2 if pool.workers is None else pool.workers, 1, MAX_WORKERS)
        super().__init__(
            symbols,
            handler,
            handlers,
            reader=RecordReader(*(given[name] for name in ("dtype", "key", "columns", "column_options"))),
            feed=given["feed"],
            out=out,
            escape_formulas=given["escape_formulas"],
            history=_history,
        )
        # Not of this machine: the same seed is the same run on all.
        cores = WorkerCores(workers, None, list(range(workers + 1)), are_given=False)
        order = order_of(self._table, given["policy"], priorities=given["priorities"], groups=given["groups"])
        config = engine_config(
            self._reader,
            self._assigned,
            order,
            cores,
            pool=replace(pool, max_publishers=1),
            limits=limits,
            emits=self._needs_positions,
            **{name: given[name] for name in ("strands", "publisher_drains", "on_error", "batch_ticks")},
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
        self._outputs.start(self._engine, allowed=None)
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
        held = self._engine.held_participant()
        held.take()
        participant = held.number
        assert participant is not None
        try:
            code = self._engine.publish(participant, array, SLICE)
            while code == Code.AGAIN:
                self._serve()
                code = self._engine.publish_more(participant, SLICE)
            rejected = self._engine.rejected(participant) if code != Code.OK else np.empty(0, np.int64)
        finally:
            held.give()
        self._serve()
        if code == Code.STOPPED:
            raise self._state.stopped_error()
        if code != Code.OK:
            key, symbols = self._reader.key, len(self._table)
            raise publish_error(code, array, rejected, key=key, symbols=symbols, started=True)
        return len(array)

    def drain(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as the Dispatcher has it
        """Drains as ``Dispatcher.drain`` does."""
        if self._closed:
            raise self._state.stopped_error()
        held = self._engine.held_participant()
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


@named_options("seeded()", more=ReplayOptions, like=replay, groups=GROUPS)
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
        ConfigurationError: If another seeded run of this process is under way, in a handler too.
    """
    make = partial(SeededDispatcher, seed=whole("seed", seed, 0))
    options["timeline"] = False  # its times are counts of steps
    return replay_by(make, source, handler, handlers, options)


@named_options("check_seeds()", more=ReplayOptions, like=replay, groups=GROUPS)
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
    of_loop = options.copy()
    of_loop.pop("workers", None)
    of_loop.pop("pool", None)
    of_loop.pop("on_error", None)
    expected = reference(source, handler, handlers=handlers, **of_loop)
    for seed in seeds:
        run = seeded(source, handler, seed=seed, handlers=handlers, **options)
        try:
            assert_same(run, expected)
        except DifferenceError as error:
            lost = sum(run.statistics.dropped.values())
            note = f"; {lost:,} ticks were dropped" if lost else ""
            raise DifferenceError(f"seed {seed}: {error}{note}", error.symbols, error.outputs, seed=seed) from None
