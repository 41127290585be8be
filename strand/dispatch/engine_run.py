"""A run whose ticks go through an engine, whoever its workers are: threads, or the fibers of a seeded run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.columns import Seen
from strand.binding.engine import Engine
from strand.binding.engine_words import COUNTERS
from strand.binding.feeder import Feeder
from strand.binding.gate import Code
from strand.binding.memory import Space
from strand.brief import brief, listed, several
from strand.dispatch.base import Interior, RunBase
from strand.dispatch.calls import Calls, RunTasks
from strand.dispatch.publishers import Publishers
from strand.dispatch.python_handlers import PythonHandlers, stop_objects
from strand.dispatch.routing import Order, Routing
from strand.dispatch.state import RunState
from strand.dispatch.statistics import statistics_of_run
from strand.errors import EngineError, HandlerError, SavedStateError
from strand.handlers.failures import counts_all, place_of
from strand.output.rows import Rows
from strand.stats import Statistics

if TYPE_CHECKING:
    from strand.dispatch.saving import Saving
    from strand.tasks.retry import RetryPolicy

#: Fate of a record, by counter.
_FINISHED: Final = slice(COUNTERS.index("handled"), COUNTERS.index("lost") + 1)
#: Number of failures that a user sees.
_FAILURES: Final = 64
#: Number of repeated readings of books that do not balance, and the pause before each.
_VERIFICATIONS: Final = 100
_VERIFY_AGAIN_S: Final = 0.01


class RunEnd:
    """End of a run, after all workers have ended. ``with_ends``: handlers' ends are called, where all is handled.
    ``finished``: no end has failed. ``stop_failure``: the failure of the first ``on_stop`` that failed."""

    def __init__(self, state: RunState, python: PythonHandlers, rows: Rows) -> None:
        self._state = state
        self._python = python
        self._rows = rows
        self._outputs = state.outputs if len(state.outputs) else None
        self.finished = self.with_ends = True
        self._is_begun = self._are_called = self._is_over = False
        self.stop_failure: HandlerError | None = None

    def check_saved(self) -> None:
        """Raises SavedStateError where the handlers that Python runs cannot be saved."""
        from strand.dispatch.saving import check_objects

        check_objects(self._python)

    def close(self, *, drained: bool, started: bool = True, save: Callable[[], None] | None = None) -> None:
        """Calls handlers' ends, where all is handled, and ``on_stop``; then outputs and rows are final. ``save``: what
        is called in place of the ends, as another process goes on. Called again it goes on where an interrupt came, and
        calls nothing of a user's another time."""
        if self._is_over:
            return
        state, engine = self._state, self._state.engine
        if not self._is_begun:
            state.abandoned = engine.totals()["pending"]
        again, self._is_begun = self._is_begun, True
        try:
            if not again:
                if drained and save is not None:
                    self._check_rest()
                    save()
                elif drained and not state.abandoned and self.with_ends:
                    self.finished = engine.finish() == Code.OK and (not self._python.hosts or self._python.finish())
                if self._python.objects:
                    self.stop_failure = stop_objects(self._python)
                self._are_called = True
        finally:
            engine.outside.hide()
            # Also where an interrupt comes in a handler's end: who waits for outputs has to hear of it.
            if self._outputs is not None:
                self._outputs.finish(complete=drained and self._are_called, started=started)
            self._rows.keep()
        self._is_over = True

    def _check_rest(self) -> None:
        # Failures first: what waits on a strand in quarantine is pending too.
        if failures := self._state.failures:
            raise SavedStateError("a handler has failed, and left its symbol in the middle of a tick") from failures[0]
        if self._state.abandoned:
            raise SavedStateError(
                f"{self._state.abandoned:,} ticks of paused strands wait: resume the strands first, then save"
            )

    @property
    def failure(self) -> Exception | None:
        """Exception to raise at the end of a run that was drained; None where all went well."""
        if not self.finished:
            return self._state.failures[-1]
        return self._state.outputs.merger.failure or self.stop_failure


class EngineRun(RunBase):
    """Puts the parts together that look at an engine, and shows its counts. A subclass calls ``_put_together`` when it
    has an engine."""

    #: None: no decoder publishes to this run.
    _publishers: Publishers | None = None

    def _interior(self) -> EngineInterior:
        return EngineInterior(self)

    def _put_together(
        self,
        engine: Engine,
        space: Space,
        order: Order,
        *,
        expected: npt.NDArray[Any] | None,
        cores: list[int] | None,
        load: str | os.PathLike[str] | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        """``space``: for what handlers keep beside their rows. ``expected``: ticks by symbol, as far as that is known;
        ``cores``: those that workers are to be pinned to; ``load``: a saved state to go on from; ``retry``: of
        tasks that are given none."""
        self._engine = engine
        if len(self._outputs) > 0:
            engine.merge.declare(self._outputs.record_bytes, engine.config.output_memory)
        start = space.bytes
        self._open(engine, engine.row_stride, space)
        self._saved_from, self._saved_fixed = start, space.bytes
        saved = None if load is None else self._saving.begin(load)
        self._python: PythonHandlers = PythonHandlers(engine, self._assigned, self._rows, self._bound)
        bound, outputs = self._bound, self._output_numbers
        self._routing = Routing(
            engine, self._assigned, order, self._python, bound=bound, outputs=outputs, inside=self._inside
        )
        causes, kept = self._python.causes, self._kept()
        self._state = RunState(
            engine, self._assigned, self._outputs, self._inside, causes=causes, kept=kept, cores=cores
        )
        self._tasks = RunTasks(self._state, self._routing, retry)
        self._calls = Calls(self._state, self._routing, self._rows, self._books, self._tasks)
        self._end = RunEnd(self._state, self._python, self._rows)
        if saved is not None:
            self._saving.take_up(saved, self._routing, self._reader, self._python)
        elif expected is not None or engine.config.n_strands >= engine.config.n_symbols:
            self._routing.by_counts(expected)

    @property
    def _saving(self) -> Saving:
        from strand.dispatch.saving import Saving

        return Saving(self._engine, self._assigned, self._saved_from, self._saved_fixed)

    def __repr__(self) -> str:
        handlers, totals = listed(dict.fromkeys(h.name for h in self._handlers)), self._engine.totals()
        counts = (f"{totals[name]:,} ticks {name}" for name in ("accepted", "pending"))
        run = self._state.stage, several(self._table.n_shown, "symbol"), handlers, several(self.workers, "worker")
        return brief(self, *run, *counts)

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self._engine.config.n_workers

    @property
    def n_strands(self) -> int:
        """Number of strands."""
        return self._engine.config.n_strands

    @property
    def failures(self) -> list[HandlerError]:
        """The first failures of handlers, at most 64, in the order in which they happened."""
        return self._state.failures[:_FAILURES]

    def statistics(self) -> Statistics:
        """Returns totals since the start. The times of a seeded run are counts of steps."""
        return statistics_of_run(self._state, self._orders, self._routing)

    def watermark(self) -> int:
        """Returns a number: every record that was published before that one in order has been handled or dropped."""
        return self._engine.watermark()

    def verify(self) -> None:
        """Verifies the contract's books when all is handled.

        A worker that searches for overdue timers may still give a strand a turn in which nothing fires. Books that do
        not balance are therefore read again, for a second.

        Raises:
            EngineError: If they do not balance.
        """
        for _ in range(_VERIFICATIONS):
            with suppress(EngineError):
                self._engine.verify()
                return
            time.sleep(_VERIFY_AGAIN_S)
        self._engine.verify()


class EngineInterior(Interior):
    """The inside of a run that has an engine: ``engine``."""

    _run: EngineRun

    def __init__(self, run: EngineRun) -> None:
        super().__init__(run)
        self.engine = run._engine

    def leave_ends_out(self) -> None:
        self._run._end.with_ends = False

    @property
    def feed_time(self) -> int:
        return self.engine.feed_time

    def finished_reader(self) -> Callable[[], int]:
        read = self.engine.counters_reader()
        return lambda: int(read()[:, _FINISHED].sum())

    def handled_reader(self) -> Callable[[], int]:
        run, latest = self._run, 0
        first = run.watermark()

        def handled() -> int:
            nonlocal latest
            number = run.watermark() - first
            # A failure stands before the watermark passes its tick.
            if not (run._state.engine.config.on_error == "stop" and run._state.failures):
                latest = number
            return latest

        return handled

    @property
    def takes_feeder(self) -> bool:
        return self._run._publishers is not None

    def feeder(self, counts: npt.NDArray[np.int64], seen: Seen, limit: int | None) -> Feeder:
        assert self._run._publishers is not None
        return self._run._publishers.feeder(counts, seen, limit)

    @property
    def pinned_cores(self) -> Sequence[int]:
        return [core for core in self._run._state.cores or () if core is not None]

    @property
    def is_closing(self) -> bool:
        """True once a stop has begun."""
        return self._run._state.closing

    def route(self, records: npt.NDArray[Any]) -> None:
        """Chooses the strands of symbols by how many of these records each has, unless they are chosen already."""
        if not self._run._routing.is_known:
            self._run._routing.by_keys(records[self._run._reader.key])

    @property
    def strand_of_symbol(self) -> npt.NDArray[np.uint32]:
        return self._run._routing.by_counts(None)

    @property
    def all_failures(self) -> list[HandlerError]:
        return self._run._state.failures

    def place_of(self, error: HandlerError) -> tuple[int, npt.NDArray[np.bool_] | None] | None:
        if (place := place_of(error)) is None or not counts_all(self.engine, place[0]):
            return None
        return place[1], self.strand_of_symbol == place[0]


def engine_interior(run: EngineRun) -> EngineInterior:
    """Returns the inside of a run that has an engine."""
    return run._interior()
