"""The state that the parts of a dispatcher share: the engine, the threads inside it, and how far the run is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from strand.binding.engine import Engine
from strand.binding.gate import Thread
from strand.dispatch.watching import Activating, OverloadWatch
from strand.errors import EngineError, HandlerError, StoppedError, WouldDeadlockError
from strand.handlers.failures import Kept, describe, failures_of, place_of
from strand.handlers.loading import Assigned
from strand.logs import Event
from strand.output.outputs import Outputs
from strand.tasks.waits import numbered, waiter_here
from strand.threads import WAITS_FOR_ITSELF, Inside

if TYPE_CHECKING:
    from strand.dispatch.guard import Guard
    from strand.dispatch.guarding import Guarding
    from strand.dispatch.samples import Sampling
    from strand.dispatch.watching import Regular

_FAILED: Final = Event(
    "handler.failed", ".dispatch", "ERROR", "%(error)s", "run", "strand", "symbol", "sequence", "handler"
)
FORKED = "this process was forked from the one that has the dispatcher's workers: make a new dispatcher here"
DROPPED = "the dispatcher was deleted before it was stopped"


class RunState:
    """Worker threads hold this and no dispatcher, so that one which nobody uses is found and stopped.

    ``causes``: the exceptions of each worker's failures, in their order, ``kept``: what errors made of those say of
    a symbol. ``threads``: the workers', once they are started. ``broken``: what ended one otherwise than a stop.
    ``closing``: a stop has begun; ``dropped``: it came since nobody held the dispatcher any more; ``forked``: this
    process has no workers. ``cores``: those that workers are pinned to; ``unpinned``: why they are not.
    ``abandoned``: ticks that a stop left pending. ``guarding``: what holds strands back while resources are short,
    ``activating``: what decides how many workers are active, and ``sampling``: what puts samples into attachable
    memory, if something does. ``overload``: what looks whether ticks come too fast, where no bound on all that
    waits is given. ``name``: the run's own, or one that no other run of this process has.
    ``feed_counts``: counts of the live feed; any thread may call it.
    """

    def __init__(
        self,
        engine: Engine,
        assigned: Assigned,
        outputs: Outputs,
        inside: Inside,
        *,
        causes: Sequence[Sequence[BaseException]],
        kept: Kept,
        cores: Sequence[int | None] | None,
    ) -> None:
        self.engine = engine
        self.name = numbered("dispatcher")
        self.table = assigned.table
        self.outputs = outputs
        self.inside = inside
        self._assigned = assigned
        self._causes = causes
        self._kept = kept
        self.threads: list[Thread] = []
        self.broken: BaseException | None = None
        self.closing = self.dropped = self.forked = False
        self.cores = cores
        self.unpinned: str | None = None
        self.abandoned = 0
        self.guarding: Guarding | None = None
        self.activating: Activating | None = None
        self.sampling: Sampling | None = None
        self.overload = OverloadWatch(engine, is_on=not engine.config.total_capacity_ticks)
        self.paced = True
        self.feed_counts: Callable[[], Mapping[str, Any]] = dict
        self._told, self._telling = 0, threading.Lock()

    def replays(self, *, paced: bool) -> None:
        """Prepares for a replay, which has warnings of its own. A replay raises the first failure in the order of
        ticks, so strands go on after a failure of another strand. ``paced``: ticks come at a pace, or live."""
        if self.engine.config.on_error == "stop":
            self.engine.go_on_after_failures()
        self.paced = paced
        self.overload.is_on &= paced
        self.overload.tells = False

    @property
    def stage(self) -> str:
        """Stage of the run, in a word or two."""
        if self.closing or self.dropped:
            return "stopped"
        return "running" if self.threads else "not started"

    def look_regularly(self, allowed: Sequence[int], *, guard: Guard | None, least: int | None) -> None:
        """Makes what decides from the start to the stop: a guard, and how many workers are active, ``least`` or more.
        None: nothing does. ``allowed``: the cores that its threads run on. Raises MissingExtraError."""
        if guard is not None:
            from strand.dispatch.guarding import Guarding

            self.guarding = Guarding(self.engine, guard, allowed=allowed, inside=self.inside)
        if least is not None:
            self.activating = Activating(self.engine, least, allowed=allowed, inside=self.inside)

    @property
    def regular(self) -> list[Regular]:
        """The threads that look at something again and again."""
        return [one for one in (self.guarding, self.activating) if one is not None]

    @property
    def failures(self) -> list[HandlerError]:
        """The failures of handlers that the engine keeps, in the order they happened."""
        found = self.engine.failures()
        if not found:
            return []
        handlers = self._assigned.handlers
        return failures_of(found, self.engine, self.table, handlers, raised=self._causes, kept=self._kept)

    def tell_failures(self) -> None:
        """Logs the failures that are new, of a run that goes on without their strands."""
        engine = self.engine
        if engine.config.on_error != "quarantine" or not self.paced or not _FAILED.is_on:
            return
        if (n := engine.totals()["failures"]) > self._told and self._telling.acquire(blocking=False):
            try:
                failures = self.failures
                for error in failures[self._told :]:
                    strand, _ = place_of(error) or (None, None)
                    _FAILED(
                        error=str(error), run=self.name, strand=strand, symbol=error.symbol, sequence=error.sequence,
                        handler=error.handler,
                    )  # fmt: skip
                self._told = max(n, len(failures))
            finally:
                self._telling.release()

    def check_outside(self, words: str, cure: str) -> None:
        """Raises WouldDeadlockError where the calling thread is inside otherwise than by a task that it runs, as a
        handler is. ``words``: the wait; ``cure``: another way."""
        times_inside = self.inside.threads.count(threading.get_ident())
        seat, waiter = waiter_here()
        if times_inside and seat is not None and waiter is not None:
            times_inside -= any(thread.is_here for thread in self.threads)
        if times_inside:
            raise WouldDeadlockError(f"{words}: {WAITS_FOR_ITSELF}: {cure}")

    def stopped_error(self) -> Exception:
        """Returns the exception that has stopped the run."""
        if self.forked:
            return StoppedError(FORKED)
        if self.dropped:
            return StoppedError(DROPPED)
        failures = self.failures
        if failures and self.engine.config.on_error == "stop":
            return failures[0]
        if self.outputs.merger.failure is not None:
            return self.outputs.merger.failure
        if self.broken is not None:
            error = EngineError(f"a worker ended by {describe(self.broken)}")
            error.__cause__ = self.broken
            return error
        return StoppedError("the dispatcher has been stopped: nothing more can be published or drained")
