"""A run whose ticks the calling thread handles: the third driver of the engine, beside worker threads and fibers."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any, Final, Literal, Self, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding.caller import POSITION, Caller
from strand.binding.engine import Engine, Merge
from strand.binding.engine_words import (
    CACHED_SEGMENTS,
    EngineConfig,
    Failure,
    RunByPython,
    Until,
    histogram_floors_ns,
    no_blocks,
)
from strand.binding.gate import key_error
from strand.binding.memory import memory_there
from strand.caller.python_handlers import CallerPython
from strand.dicts import FrozenDict
from strand.dispatch.base import HistoryOf, Interior, RunBase
from strand.dispatch.configuration import GROUPS, DispatcherOptions, check_timed, order_of
from strand.dispatch.python_handlers import stop_objects
from strand.errors import ConfigurationError, HandlerError, StoppedError
from strand.handlers import HandlerLike
from strand.handlers.base import BoundNative, BoundPython
from strand.handlers.failures import error_of
from strand.handlers.host import warn_of_unpriced
from strand.options import named_options
from strand.output.records import HEAD_BYTES
from strand.stats import IngestStatistics, Latency, Statistics, WorkerStatistics
from strand.threads import interrupts_later, mended
from strand.ticks import named, picked

_NOTHING: Final = np.empty(0, np.uint64)
#: Records are merged when the publish is over, so what they take is bounded by the machine's memory alone.
_OUTPUT_SLACK: Final = 8


class CallerRun(RunBase):
    """Run of ``replay(workers=0)``: ``publish`` runs the handlers over the records, in their order, and returns when
    all of them are handled.

    ``symbols``, ``handler``, ``handlers``, ``dtype``, ``key``, ``columns``, ``column_options`` and ``feed`` as the
    Dispatcher takes them.
    Its arguments about workers and queues are taken too, and have nothing to act on; ``policy``,
    ``priorities``, ``guard``, ``marks`` and ``groups`` are checked. ``on_error`` is ``"stop"``, and ``attachable``
    False.
    A handler that takes batches gets the ticks that one ``publish`` has of a symbol in one call, and then those of the
    next symbol. ``in_order``: it gets them in the order of publishing, and a call ends where another symbol's tick is.
    Handlers that C runs always get them in that order.
    Raises ConfigurationError naming the argument that cannot work.
    """

    workers: Literal[0] = 0
    n_strands: Literal[0] = 0

    @named_options("CallerRun()", groups=GROUPS, declares=DispatcherOptions)
    def __init__(
        self,
        symbols: int | Sequence[str],
        handler: HandlerLike | None = None,
        *,
        handlers: Mapping[str, HandlerLike] | None = None,
        in_order: bool = False,
        _history: HistoryOf | None = None,
        **options: Unpack[DispatcherOptions],
    ) -> None:
        if options["on_error"] != "stop":
            raise ConfigurationError(
                "on_error", f"{options['on_error']!r} needs workers; a plain loop (workers=0) only stops"
            )
        if options["attachable"]:
            raise ConfigurationError(
                "attachable",
                "a plain loop (workers=0) has no memory to attach to: give workers, or leave the option out",
            )
        if options["ingest"] == "blocks":
            raise ConfigurationError("ingest", no_blocks("a plain loop (workers=0) has one thread"))
        super().__init__(symbols, handler, handlers, options, history=_history)
        order_of(self._table, options)
        self._timed = check_timed(self._handlers, self._reader)
        self._engine = engine = self._made_engine()
        self._open(engine, engine.row_stride, engine.space)
        #: By number, the handlers that Python runs.
        self._by_python = [isinstance(bound, BoundPython) for bound in self._bound]
        # Python asks for its own timers and ends: C has no part in them.
        functions = [bound.function if isinstance(bound, BoundNative) else RunByPython() for bound in self._bound]
        n = len(self._handlers)
        engine.route(self._handler_of_symbol.astype(np.uint32), np.arange(n, dtype=np.uint16))
        engine.set_handlers(functions, self._output_numbers)
        self._caller = caller = Caller(engine)
        self._alarms = np.zeros(len(self._table), np.uint64)
        self._python: CallerPython = CallerPython(
            self._table, self._reader.key, engine=engine, caller=caller, rows=self._rows, alarms=self._alarms,
            units=self._units,
        )  # fmt: skip
        self._source = _Source(engine.merge, self._outputs.record_bytes)
        pythons = np.array(self._by_python)
        self._is_pythons = pythons[self._handler_of_symbol] if pythons.any() else None
        self._group_of_symbol = self._groups()
        #: The last group; None: Python runs all handlers.
        self._group_of_native = None if pythons.all() else len(self._table) + n
        self._gathers = not in_order and any(bound.takes_batches for bound in self._bound)
        self._wakes_python = any(
            h.timers for h, by_python in zip(self._handlers, self._by_python, strict=True) if by_python
        )
        self._seen = np.zeros(len(self._table), bool)
        self._positions = np.empty(0, POSITION)
        self._order: npt.NDArray[np.intp] | None = None
        self._has_time, self._time = self._reader.time_offset is not None, 0
        self._failed_at: int | None = None
        self._failed_ns = self._wake_until = 0
        self._failure: HandlerError | None = None
        #: Timers that failed: the time, the key and the error of each.
        self._timer_failures: list[tuple[int, int, HandlerError]] = []
        #: Of the records of a publish that was interrupted, the places of those that were handled.
        self._handled_places: npt.NDArray[np.intp] | None = None
        #: The end has begun; the handlers' ends and ``on_stop`` have been called; all is final.
        self._closed = self._ends_called = self._is_over = False
        self._close_lock = threading.Lock()
        self._end_failure: HandlerError | None = None
        self._stop_failure: HandlerError | None = None
        self._ends = True
        #: Records that handlers in Python have handled.
        self._handled_by_python = self._accepted = self._busy_ns = 0

    def _interior(self) -> CallerInterior:
        return CallerInterior(self)

    def _made_engine(self) -> Engine:
        """The engine: no thread but the caller's has a part in it, and nothing waits in it."""
        reader = self._reader
        config = EngineConfig(
            n_symbols=len(self._table), n_strands=len(self._handlers), n_workers=1, n_publishers=1,
            record_size=reader.dtype.itemsize, key_offset=reader.key_offset, sequence_offset=reader.sequence_offset,
            sequence_high=reader.sequence_high, time_offset=reader.time_offset,
            row_bytes=max(h.state.itemsize for h in self._handlers), n_segments=2 * CACHED_SEGMENTS + 1,
            idle="park", on_error="stop", on_full="block", capacity_ticks=1, budget_ticks=1, budget_ns=1, batch_ticks=1,
            ahead_ticks=1, publisher_drains=False, one_core=True, has_positions=True,
            output_memory=memory_there() // _OUTPUT_SLACK, n_tasks=1, n_task_groups=0,
        )  # fmt: skip
        engine = Engine(config)
        if len(self._outputs):
            engine.merge.declare(self._outputs.record_bytes, config.output_memory)
        return engine

    def _groups(self) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Group of each symbol: records of one group go to a handler in one call. For a handler that takes batches, the
        symbols of a strand are a group; for any other that Python runs, all its symbols. C's are one group."""
        n = len(self._table)
        groups = np.arange(n) if self._units is None else self._units.copy()
        for number, bound in enumerate(self._bound):
            if not bound.takes_batches:
                groups[self._handler_of_symbol == number] = n + (
                    number if self._by_python[number] else len(self._bound)
                )
        # Numbers of 16 bits are sorted several times as fast.
        return groups.astype(np.min_scalar_type(n + len(self._bound) + 1))

    # ---- publishing

    def publish(self, records: npt.NDArray[Any] | np.void) -> int:
        """Handles the records, and returns how many there were.

        Raises RecordTypeError for another dtype; UnknownSymbolError for a key outside the table, with what comes before
        it handled; HandlerError when a handler fails, or has failed before; StoppedError after a stop.
        """
        if self._wants_names:
            self._publishing(records)
        array = named(self._reader.read(records)).view()
        array.flags.writeable = False  # as handlers see it
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise StoppedError("the run has been stopped: nothing more can be published")
        if self._orders.is_needed:
            self._orders.look(array, stacklevel=2)
        accepted, handled, before = self._accepted, self._handled, self._time
        self._order = self._handled_places = None
        end = 0
        begun = time.perf_counter_ns()
        try:
            end = self._run_native(array) if self._is_pythons is None else self._run_mixed(array, self._is_pythons)
            if self._timed:
                self._wake_due()
        except HandlerError as error:
            first = self._first_failure(error)
            raise first from first.__cause__
        except BaseException:
            # Another interrupt may come at once.
            try:
                self._take_back(array, accepted, handled, before)
            except BaseException:
                self._take_back(array, accepted, handled, before)
                raise
            raise
        finally:
            try:
                self._settle()
            except KeyboardInterrupt:  # before or after it was settled
                with suppress(Exception):  # the outputs keep their failure
                    self._settle()
                raise
            self._busy_ns += time.perf_counter_ns() - begun
        if end < len(array):
            raise key_error(array, end, key=self._reader.key, symbols=len(self._table))
        return len(array)

    def _take_back(self, array: npt.NDArray[Any], accepted: int, handled: int, before: int) -> None:
        """After an interrupt: what had not been handled by then was not published. ``accepted``, ``handled``,
        ``before``: the counts and the time before the array."""
        n = self._handled - handled
        places = np.arange(n) if self._order is None else self._order[:n]
        self._accepted, self._handled_places = accepted + n, places
        self._time = max(before, int(array["ts_recv"][places].max(initial=before))) if self._has_time else 0
        self._caller.take_back(self._time)
        self._source.left = np.delete(np.arange(accepted, accepted + len(array), dtype=np.uint64), places)

    def advance(self, time_ns: int) -> None:
        """Moves the feed's time forward without a tick, as ``Dispatcher.advance`` does."""
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise StoppedError("the run has been stopped")
        if time_ns <= self._time or not self._has_time:
            return
        self._time = time_ns
        self._engine.pass_time(time_ns)
        try:
            if self._timed:
                self._wake_due()
        except HandlerError as error:
            first = self._first_failure(error)
            raise first from first.__cause__
        finally:
            self._settle()

    def _settle(self) -> None:
        """Merge what was emitted."""
        with interrupts_later():
            self._python.keep_emitted()
            self._outputs.merger.merge()

    def _run_native(self, array: npt.NDArray[Any]) -> int:
        """Runs records of native handlers. Returns the number of records before the first key that is out of range."""
        done = self._caller.publish(array)
        failure = self._caller.failure(done) if done < len(array) else None
        if failure is not None:
            number, ns = self._accepted + done, self._time
            if self._has_time:
                ns = max(ns, int(array["ts_recv"][: done + 1].max()))
            outside = np.flatnonzero(array[self._reader.key] >= len(self._table))
            self._accepted += int(outside[0]) if len(outside) else len(array)
            self._fail(failure, array[done], number, ns)
        self._accepted += done
        self._time = self._engine.feed_time
        return done

    def _run_mixed(self, array: npt.NDArray[Any], is_pythons: npt.NDArray[np.bool_]) -> int:
        """The same where Python handles those of some symbols, or all: neighbours of one group in one call. For a
        handler that takes batches, the records of a group are first put side by side, in their order."""
        positions = self._positions = np.empty(len(array), POSITION)
        end = self._caller.number(array, positions)
        self._accepted += end
        if not end:
            return 0
        array, positions = array[:end], positions[:end]
        self._time = int(positions["time"][-1])
        keys = array[self._reader.key]
        self._seen[keys] = True
        groups = self._group_of_symbol[keys]
        if self._gathers:
            order = self._order = np.argsort(groups, kind="stable")
            if self._group_of_native is not None:
                # Native handlers come first, and have their records as they lie.
                natives = groups == self._group_of_native
                self._order = np.flatnonzero(natives)
                with suppress(HandlerError):
                    self._run_numbered(array, positions, passes=True)
                order = order[: len(order) - len(self._order)]  # theirs is the last group
                self._order = np.concatenate([self._order, order])
            groups, positions = groups[order], positions[order]
            array = picked(array, order)
            array.flags.writeable = False
            keys = keys[order]
        for start, stop in _stretches(groups):
            # After a failure: the others' records before it. One of them may fail, too, and is the first to fail then.
            if self._failed_at is not None:
                stop = start + int(positions["number"][start:stop].searchsorted(np.uint64(self._failed_at)))
            if start < stop:
                some, places = array[start:stop], positions[start:stop]
                with suppress(HandlerError):
                    if is_pythons[keys[start]]:
                        self._run_python(some, places, keys[start:stop])
                    else:
                        self._run_numbered(some, places)
        if self._failure is not None:
            raise self._failure
        return end

    def _run_numbered(self, records: npt.NDArray[Any], positions: npt.NDArray[Any], *, passes: bool = False) -> None:
        """Runs native handlers over their records among these; ``passes``: there are others."""
        done = self._caller.run(records, positions, passes=passes)
        if done < len(records) and (failure := self._caller.failure(done)) is not None:
            self._fail(failure, records[done], *map(int, positions[done]))

    def _run_python(self, records: npt.NDArray[Any], positions: npt.NDArray[Any], keys: npt.NDArray[np.uint32]) -> None:
        """Runs a handler in Python over records of one group."""
        number, python = int(self._handler_of_symbol[keys[0]]), self._python
        python.handled = 0  # an interrupt may come before ``run`` does that
        try:
            failure = python.run(self._bound[number], number, records, positions, keys)
        finally:
            self._handled_by_python += python.handled
        if failure is None:
            return
        self._handled_by_python += failure.handled - python.handled
        self._fail(failure, records[failure.handled], *map(int, positions[failure.handled]))

    # ---- timers, and the end

    def _wake_due(self) -> None:
        """Runs the timers whose time the feed's has passed, and that no tick of their own symbols has met."""
        if (failure := self._caller.wake(self._time)) is not None:
            self._fail(failure)
        if not self._wakes_python:
            return
        due = np.flatnonzero((self._alarms > 0) & (self._alarms <= np.uint64(self._time)))
        for key in due.tolist():
            while 0 < (alarm := int(self._alarms[key])) <= self._time:
                if (failure := self._python.wake(key, alarm, int(self._handler_of_symbol[key]))) is not None:
                    self._fail(failure)

    def _first_failure(self, met: HandlerError) -> HandlerError:
        """Runs the timers that are due before a failure is reported, since outputs hold everything emitted up to it.

        Those that fail come before a tick at their time or later, by time and then by key: the first one is the error
        of the run. ``met``: the failure that the run has met.
        """
        all_ns, self._time = self._engine.feed_time, self._wake_until
        while True:
            try:
                self._wake_due()
                break
            except HandlerError:
                continue  # it is among the failures of timers, and does not fire again
        if self._failed_at is None:
            self._caller.end_at(self._accepted, all_ns)
        else:
            self._caller.end_at(self._failed_at, self._failed_ns)
        failed = [each for each in self._timer_failures if each[0] <= self._time]
        self._failure = first = min(failed, key=itemgetter(0, 1))[2] if failed else met
        return first

    def _finish(self) -> None:
        """Runs the end of every symbol that has had ticks, in the order of keys, native handlers' first; of those that
        share rows one end, that of the first."""
        if (failure := self._caller.finish()) is not None:
            self._fail(failure)
        if self._is_pythons is None:
            return
        ends = np.array([h.ends for h in self._handlers])
        keys = np.flatnonzero(self._seen & self._is_pythons & ends[self._handler_of_symbol])
        if self._units is not None:
            keys = keys[np.sort(np.unique(self._units[keys], return_index=True)[1])]
        for key in keys.tolist():
            if (failure := self._python.finish(key, self._time, int(self._handler_of_symbol[key]))) is not None:
                self._fail(failure)

    def _fail(self, failure: Failure, record: Any = None, number: int | None = None, ns: int = 0) -> None:
        """Ends the run, with a failure at a timer or the end, or on a record: its number, and the feed's time there. A
        timer may have failed before the record."""
        if record is not None:
            self._failed_at, self._failed_ns = number, ns
            self._wake_until = ns
        if failure.time is not None:
            assert failure.key is not None
            self._wake_until = failure.time
            self._alarms[failure.key] = 0
        else:
            sequence = None if self._reader.sequence_offset is None else int(record["sequence"])
            key, raw = int(record[self._reader.key]), record.tobytes()
            failure = failure._replace(key=key, sequence=sequence, record=raw)
        assert failure.key is not None
        handler = self._handler_of(failure.key)
        self._failure = error_of(failure, handler, self._table, self._kept())
        if failure.time is not None:
            self._timer_failures.append((failure.time, failure.key, self._failure))
        raise self._failure

    def drain(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as the Dispatcher has it
        """True: all that was published has been handled. Raises HandlerError when a handler has failed."""
        if self._failure is not None:
            raise self._failure
        return True

    def __enter__(self) -> Self:
        start = partial(self._outputs.start, self._source, allowed=None)
        for _ in map(mended, (start,), (partial(self._end, complete=False),)):
            break
        # No interrupt comes between the call and this line: ``__exit__`` is called, or the outputs have ended.
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        mended(self._close, self._close, kind is None)

    def _close(self, complete: bool) -> None:
        """Calls the ends of handlers where the run is complete, and ``on_stop``; then outputs and rows are final.
        Called again it goes on where an interrupt came, and calls nothing of a user's another time."""
        with self._close_lock:
            if self._is_over:
                return
            again, self._closed = self._closed, True
            try:
                if not again:
                    if complete and self._failure is None:
                        try:
                            if self._ends:
                                self._finish()
                        except HandlerError as error:
                            self._end_failure = error
                        self._source.is_over = True
                    self._stop_failure = stop_objects(self._python)
                    self._ends_called = True
            finally:
                self._end(complete=complete and self._ends_called)
            self._is_over = True
        if (
            complete
            and not again
            and (failure := self._end_failure or self._outputs.merger.failure or self._stop_failure) is not None
        ):
            raise failure
        warn_of_unpriced(self._makers)

    def _end(self, *, complete: bool) -> None:
        """Completes outputs and keeps the rows. Where an interrupt cuts it short it is called again."""
        self._outputs.finish(complete=complete)
        if len(self._outputs):  # else the engine has little beside the rows
            self._rows.keep()
        else:
            self._rows.shared.keep()

    # ---- looking on

    @property
    def _handled(self) -> int:
        """Records that handlers have handled. C counts its own, since an interrupt may come right after a call."""
        return self._handled_by_python + self._caller.handled

    @property
    def failures(self) -> list[HandlerError]:
        """The handler's failure that ended the run, if one did."""
        return [] if self._failure is None else [self._failure]

    def statistics(self) -> Statistics:
        """Totals since the start. Latencies are not measured: no tick waits."""
        floors, failed = histogram_floors_ns(), len(self.failures)
        none = Latency.from_histogram(np.zeros(len(floors), np.uint64), floors)
        left = self._accepted - self._handled - failed
        dropped = dict.fromkeys(("newest", "oldest", "conflated", "quarantined", "failed", "lost", "abandoned"), 0)
        return Statistics(
            accepted=self._accepted,
            handled=self._handled,
            dropped=FrozenDict(dropped | {"failed": failed, "abandoned": left}),
            pending=0,
            handled_inline=self._handled,
            handled_in_blocks=0,
            ingest=IngestStatistics("loop", "publish", "workers=0 handles ticks on the calling thread"),
            visits=0,
            stolen=0,
            cut=0,
            parks=0,
            wakes=0,
            watermark=self._accepted,
            wait=none,
            handler=none,
            end_to_end=none,
            workers=(WorkerStatistics("publishers", None, self._handled, self._busy_ns, 0, 0, 0),),
            orders_as_plain=self._orders.count,
            paced=False,
        )


class CallerInterior(Interior):
    """The inside of a run that the calling thread handles."""

    _run: CallerRun

    def leave_ends_out(self) -> None:
        self._run._ends = False

    @property
    def feed_time(self) -> int:
        return self._run._time

    def finished_reader(self) -> Callable[[], int]:
        return lambda: self._run._handled

    def handled_reader(self) -> Callable[[], int]:
        return lambda: self._run._handled

    def first_of(self, batch: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
        places = self._run._handled_places
        return batch[:n] if places is None else batch[places]

    @property
    def all_failures(self) -> list[HandlerError]:
        return self._run.failures

    def place_of(self, error: HandlerError) -> tuple[int, npt.NDArray[np.bool_] | None] | None:  # noqa: ARG002
        place = self._run._failed_at
        return None if place is None else (place, None)


class _Source:
    """Source of emitted records for outputs: the engine, in which nothing is pending when they ask.

    ``is_over``: the ends have run, and nothing more comes. ``left``: after an interrupt, the numbers of the records
    that count as not published.
    """

    def __init__(self, merge: Merge, record_bytes: Sequence[int]) -> None:
        self._merge = merge
        self._sizes = [HEAD_BYTES + size for size in record_bytes]
        self.is_over = False
        self.left: npt.NDArray[np.uint64] = np.empty(0, np.uint64)

    def count_beside(self, tick_bytes: int) -> None:
        """Nobody waits for memory."""

    def settle(self, until: Until) -> int:  # noqa: ARG002 - all that was published is final
        """See ``Merge``."""
        return self._merge.settle(Until.END if self.is_over else Until.WATERMARK)

    def take(self, number: int, buffer: npt.NDArray[np.uint8], capacity: int) -> int:
        """See ``Merge``."""
        if not len(self.left):
            return self._merge.take(number, buffer, capacity)
        size, done = self._sizes[number], 0
        while True:
            rest = buffer[done * size :]
            n = self._merge.take(number, rest, capacity - done)
            taken = rest[: n * size].reshape(n, size)
            kept = taken[~np.isin(taken[:, :8].copy().view(np.uint64).ravel(), self.left)]
            rest[: kept.size] = kept.ravel()
            if n < capacity - done or len(kept) == n:
                return done + len(kept)
            done += len(kept)

    @property
    def below(self) -> int:
        """See ``Merge``."""
        return self._merge.below

    @property
    def late(self) -> int:
        """Always 0: records are handed out before the next tick is published."""
        return 0

    def stop(self) -> None:
        """Nothing to stop."""


def _stretches(values: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Start and end of each stretch of equal values."""
    cuts = (np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()
    return list(itertools.pairwise([0, *cuts, len(values)]))
