"""A plain loop with a dispatcher's face: every tick's handler runs where the tick is published, before the next one.

The reference that runs on many cores are compared with. It shares neither queues nor workers nor scheduling with them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import Failure, histogram_floors_ns
from strand.binding.gate import key_error
from strand.binding.memory import Space
from strand.binding.serial import POSITION, PlainRows, SerialRun
from strand.dispatch.base import HistoryOf, RunBase
from strand.dispatch.configuration import check_timed
from strand.dispatch.guard import Guard, marks_of
from strand.dispatch.options import GROUPS, QueueOptions
from strand.dispatch.python_handlers import stop_objects
from strand.dispatch.records import RecordReader
from strand.dispatch.routing import priorities_of
from strand.errors import ConfigurationError, EngineError, HandlerError, StoppedError
from strand.frozen_dict import FrozenDict
from strand.handlers import HandlerLike
from strand.handlers.bound import BoundHandler, BoundNative
from strand.handlers.failures import error_of
from strand.handlers.host import warn_of_unpriced
from strand.options import named_options
from strand.output.sinks import Destination
from strand.policies.every_policy import policy_config
from strand.policies.fair import groups_of
from strand.policies.policy import Fifo, Policy
from strand.reference.emitted import AT_END, TIMER, SerialEmitted
from strand.reference.python_handlers import SerialPython
from strand.stats import Latency, Statistics, WorkerStatistics
from strand.threads import interrupts_later, mended
from strand.ticks import TICK, named
from strand.validate import yes_or_no

if TYPE_CHECKING:
    from strand.feeds.base import FeedInfo, TicksAre
    from strand.feeds.mapping.column_options import ColumnOptions

__all__ = ["SerialLoop"]


class SerialLoop(RunBase):
    """Loop of ``replay(workers=0)``: ``publish`` runs the handlers over the records, in their order, and returns when
    all of them are handled.

    ``symbols``, ``handler``, ``handlers``, ``dtype``, ``key``, ``columns``, ``column_options`` and ``feed`` as the
    Dispatcher takes them.
    Its arguments about workers and queues are taken too, and have nothing to act on; ``policy``,
    ``priorities``, ``guard``, ``marks`` and ``groups`` are checked. ``on_error`` is ``"stop"``, and ``attachable``
    False.
    A handler that takes batches gets the ticks that one ``publish`` has of a symbol in one call, and then those of the
    next symbol. ``in_order``: it gets them in the order of publishing, and a call ends where another symbol's tick is.
    Raises ConfigurationError naming the argument that cannot work.
    """

    @named_options("SerialLoop()", more=QueueOptions, groups=GROUPS)
    def __init__(
        self,
        symbols: int | Sequence[str],
        handler: HandlerLike | None = None,
        *,
        handlers: Mapping[str, HandlerLike] | None = None,
        on_error: str = "stop",
        out: Mapping[str, Destination] | None = None,
        escape_formulas: bool = False,
        dtype: np.dtype[Any] = TICK,
        key: str = "instrument_id",
        columns: Mapping[str, str | Mapping[str, Any] | None] | None = None,
        column_options: ColumnOptions | None = None,
        feed: TicksAre | FeedInfo | None = None,
        attachable: bool = False,
        policy: Policy = Fifo(),  # noqa: B008 - frozen
        priorities: Mapping[str, Any] | None = None,
        guard: Guard | None = None,
        marks: Mapping[str, str | Iterable[str]] | None = None,
        groups: Mapping[str, str] | None = None,
        in_order: bool = False,
        _history: HistoryOf | None = None,
        **_: Unpack[QueueOptions],
    ) -> None:
        if on_error != "stop":
            raise ConfigurationError("on_error", f"{on_error!r} needs workers; a plain loop (workers=0) only stops")
        if yes_or_no("attachable", attachable):
            raise ConfigurationError(
                "attachable",
                "a plain loop (workers=0) has no memory to attach to: give workers, or leave the option out",
            )
        super().__init__(
            symbols,
            handler,
            handlers,
            reader=RecordReader(dtype, key, columns, column_options),
            feed=feed,
            out=out,
            escape_formulas=escape_formulas,
            history=_history,
        )
        policy_config(policy)
        priorities_of(policy, self._table, priorities)
        marks_of(guard, policy, self._table, marks)
        groups_of(policy, self._table, groups)
        self._timed = check_timed(self._handlers, self._reader)
        self._memory = PlainRows(len(self._table), max(h.state.itemsize for h in self._handlers))
        self._open(self._memory, self._memory.stride, Space())
        self._emitted = SerialEmitted(self._outputs.record_bytes)
        self._alarms = np.zeros(len(self._table), np.uint64)
        self._runs = [self._run_of(b, numbers) for b, numbers in zip(self._bound, self._output_numbers, strict=True)]
        self._python: SerialPython = SerialPython(
            self._table,
            self._reader,
            memory=self._memory,
            rows=self._rows,
            emitted=self._emitted,
            alarms=self._alarms,
            units=self._units,
        )
        self._group_of_symbol = self._groups()
        self._gathers = not in_order and any(bound.takes_batches for bound in self._bound)
        self._seen = np.zeros(len(self._table), bool)
        self._positions = np.empty(0, POSITION)
        self._time = 0
        self._failed_at = AT_END
        self._failed_ns: int | None = None
        self._wake_until = 0
        self._failed_timers: list[tuple[int, int, int]] = []
        self._failure: HandlerError | None = None
        #: Timers that failed: the time, the key and the error of each.
        self._timer_failures: list[tuple[int, int, HandlerError]] = []
        #: Of the records of a publish that was interrupted, the places of those that were handled.
        self._handled_places: npt.NDArray[np.intp] | None = None
        self._closed = False
        self._ends = True
        #: Records that handlers in Python have handled.
        self._by_python = self._accepted = self._busy_ns = 0

    def _groups(self) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Group of each symbol: records of one group go to a handler in one call. For a handler that takes batches, the
        symbols of a strand are a group; for any other, all its symbols."""
        n = len(self._table)
        groups = np.arange(n) if self._units is None else self._units.copy()
        for number, bound in enumerate(self._bound):
            if not bound.takes_batches:
                groups[self._handler_of_symbol == number] = n + number
        # Numbers of 16 bits are sorted several times as fast.
        return groups.astype(np.min_scalar_type(n + len(self._bound)))

    def _run_of(self, bound: BoundHandler, numbers: Sequence[int]) -> SerialRun | None:
        """Returns the runner of a native handler that emits to outputs of these numbers; None for a Python handler."""
        if not isinstance(bound, BoundNative):
            return None
        function = bound.function
        writers = [self._emitted.writers[number] for number in numbers]
        alarms = None if function.wake is None else self._alarms
        return SerialRun(function, self._memory, self._reader, writers, alarms=alarms)

    # ---- the loop

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
            raise StoppedError("the loop has been stopped: nothing more can be published")
        if self._orders.is_needed:
            self._orders.look(array, stacklevel=2)
        keys = array[self._reader.key]
        outside = np.flatnonzero(keys >= len(self._table))
        end = int(outside[0]) if len(outside) else len(array)
        accepted, handled, before = self._accepted, self._handled, self._time
        self._positions = self._position_of(array[:end])
        self._order = np.empty(0, np.intp)
        self._handled_places = None
        left: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        begun = time.perf_counter_ns()
        try:
            self._accepted += end
            self._loop(array[:end], keys[:end])
            if self._timed:
                self._wake_due()
        except HandlerError as error:
            first = self._first_failure(error)
            if first is not error:
                raise first from first.__cause__
            raise
        except BaseException:
            # An interrupt: what had not been handled by then was not published.
            places = self._order[: self._handled - handled]
            self._accepted, self._handled_places = accepted + len(places), places
            self._time = max(before, int(self._positions["time"][places].max(initial=0)))
            left = np.delete(self._positions["number"], places)
            raise
        finally:
            self._busy_ns += time.perf_counter_ns() - begun
            try:
                self._settle(left)
            except KeyboardInterrupt:  # before or after it was settled
                with suppress(EngineError):  # of outputs that the interrupt has cut short: they say so at their end
                    self._settle(left)
                raise
        if end < len(array):
            raise key_error(array, end, key=self._reader.key, symbols=len(self._table))
        return len(array)

    def _settle(self, left: npt.NDArray[np.uint64]) -> None:
        """Put what was emitted in order, and merge it. ``left``: numbers of records that were not handled."""
        with interrupts_later():
            self._emitted.sort(self._failed_at, self._failed_timers, left=left, timers_until=self._failed_ns)
            self._emitted.outputs_below = self._accepted
            self._outputs.merge()

    def _position_of(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Position of each record: its number from 0, and the feed's time, the greatest so far."""
        positions = np.empty(len(array), POSITION)
        positions["number"] = np.arange(self._accepted, self._accepted + len(array), dtype=np.uint64)
        times = array["ts_recv"] if "ts_recv" in (array.dtype.names or ()) else np.zeros(len(array), np.int64)
        positions["time"] = np.maximum(np.maximum.accumulate(times), np.int64(self._time))
        if len(array):
            self._time = int(positions["time"][-1])
        return positions

    def _loop(self, array: npt.NDArray[Any], keys: npt.NDArray[Any]) -> None:
        """Runs the records: neighbours of one group go to their handler in one call. For a handler that takes batches,
        the records of a group are first put side by side, in their order."""
        self._seen[keys] = True
        groups, positions = self._group_of_symbol[keys], self._positions
        self._order = np.argsort(groups, kind="stable") if self._gathers else np.arange(len(keys))
        if self._gathers:
            groups, positions = groups[self._order], positions[self._order]
            array = named(array.view(f"V{array.dtype.itemsize}")[self._order].view(array.dtype))
            array.flags.writeable = False
            keys = keys[self._order]
        numbers = self._handler_of_symbol[keys]
        for start, end in _stretches(groups):
            # After a failure: the others' records before it. One of them may fail, too, and is the first to fail then.
            if self._failure is not None:
                end = start + int(positions["number"][start:end].searchsorted(np.uint64(self._failed_at)))
            if start < end:
                with suppress(HandlerError):
                    self._call(int(numbers[start]), array[start:end], positions[start:end], keys[start:end])
        if self._failure is not None:
            raise self._failure

    def _call(
        self, number: int, records: npt.NDArray[Any], positions: npt.NDArray[Any], keys: npt.NDArray[np.uint32]
    ) -> None:
        run = self._runs[number]
        if run is not None:
            failure = run(records, positions)
        else:
            try:
                failure = self._python.run(self._bound[number], self._output_numbers[number], records, positions, keys)
            except BaseException:
                self._by_python += self._python.handled
                raise
            self._by_python += len(records) if failure is None else failure.handled
        if failure is not None:
            self._failed_at, self._failed_ns = (int(each) for each in positions[failure.handled])
            self._wake_until = self._failed_ns
            self._fail(number, failure, record=records[failure.handled])

    # ---- timers, and the end

    def _wake_due(self) -> None:
        """Runs the timers whose time the feed's has passed, and that no tick of their own symbols has met."""
        due = np.flatnonzero((self._alarms > 0) & (self._alarms <= np.uint64(self._time)))
        for key in due.tolist():
            while 0 < (alarm := int(self._alarms[key])) <= self._time:
                self._act(key, alarm)

    def _first_failure(self, met: HandlerError) -> HandlerError:
        """Runs the timers that are due before a failure is reported, since outputs hold everything emitted up to it.

        Those that fail come before a tick at their time or later, by time and then by key: the first one is the error
        of the run. ``met``: the failure that the loop has met.
        """
        self._time = self._wake_until
        while True:
            try:
                self._wake_due()
                break
            except HandlerError:
                continue  # it is among the failures of timers, and does not fire again
        failed = [each for each in self._timer_failures if each[0] <= self._time]
        self._failure = first = min(failed, key=itemgetter(0, 1))[2] if failed else met
        return first

    def _finish(self) -> None:
        """Runs the end of every symbol that has had ticks, in the order of keys; of those that share a strand's baskets
        one end, that of the first."""
        ends = np.array([h.ends for h in self._handlers])
        keys = np.flatnonzero(self._seen & ends[self._handler_of_symbol])
        if self._units is not None:
            keys = keys[np.sort(np.unique(self._units[keys], return_index=True)[1])]
        for key in keys.tolist():
            self._act(key, self._time, at_end=True)

    def _act(self, key: int, ns: int, *, at_end: bool = False) -> None:
        """Runs a symbol's timer, or its end."""
        number = int(self._handler_of_symbol[key])
        run, numbers = self._runs[number], self._output_numbers[number]
        if run is not None:
            failure = run.finish(key, ns) if at_end else run.wake(key, ns)
        else:
            failure = self._python.finish(key, ns, numbers) if at_end else self._python.wake(key, ns, numbers)
        if failure is not None:
            self._fail(number, failure, at_end=at_end)

    def _fail(self, number: int, failure: Failure, *, record: Any = None, at_end: bool = False) -> None:
        """Ends the run, with a failure on a record, or at a timer or the end."""
        if failure.time is not None:
            assert failure.key is not None
            self._wake_until = failure.time
            self._failed_timers.append((AT_END if at_end else TIMER, failure.time, failure.key))
            self._alarms[failure.key] = 0
            where = f"its {'end' if at_end else 'timer'} at {failure.time} ns"
            failure = failure._replace(message=f"{where}: {failure.message}" if failure.message else where)
        else:
            sequence = None if self._reader.sequence_offset is None else int(record["sequence"])
            key, raw = int(record[self._reader.key]), record.tobytes()
            failure = failure._replace(key=key, sequence=sequence, record=raw)
        self._failure = error_of(failure, self._handlers[number], self._table, self._kept())
        if failure.time is not None:
            assert failure.key is not None
            self._timer_failures.append((failure.time, failure.key, self._failure))
        raise self._failure

    def drain(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as the Dispatcher has it
        """True: all that was published has been handled. Raises HandlerError when a handler has failed."""
        if self._failure is not None:
            raise self._failure
        return True

    def __enter__(self) -> Self:
        self._outputs.start(self._emitted, allowed=None)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._closed:
            return
        self._closed = True
        failure: Exception | None = None
        ended = False
        try:
            if kind is None and self._failure is None:
                try:
                    if self._ends:
                        self._finish()
                except HandlerError as error:
                    failure = error
                self._emitted.sort(failed=self._failed_timers)
            stop_failure = stop_objects(self._python)
            ended = True
        finally:
            finish = partial(self._outputs.finish, complete=kind is None and ended)
            mended(finish, finish)
            self._baskets.keep()
        failure = failure or self._outputs.failure or stop_failure
        if kind is None and failure is not None:
            raise failure
        warn_of_unpriced(self._makers)

    # ---- looking on

    @property
    def _handled(self) -> int:
        """Records that handlers have handled. C counts its own, since an interrupt may come right after a call."""
        return self._by_python + sum(run.handled for run in self._runs if run is not None)

    def _leave_ends_out(self) -> None:
        self._ends = False

    def _count_finished(self) -> Callable[[], int]:
        return lambda: self._handled

    @property
    def _feed_time(self) -> int:
        return self._time

    def _first_of(self, batch: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
        return batch[:n] if self._handled_places is None else batch[self._handled_places]

    @property
    def workers(self) -> Literal[0]:
        return 0

    @property
    def n_strands(self) -> Literal[0]:
        return 0

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


def _stretches(values: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Start and end of each stretch of equal values."""
    cuts = (np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()
    return list(itertools.pairwise([0, *cuts, len(values)]))
