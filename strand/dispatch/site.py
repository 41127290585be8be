"""Site of the handlers that Python runs for a dispatcher: the services that they ask of the engine."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.engine_words import Failure
from strand.binding.py_batches import EndBatch, PyBatches
from strand.errors import ConfigurationError

if TYPE_CHECKING:
    from strand.binding.chain import Chained

__all__ = ["EmittedBatch", "EngineSite"]


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
        return self._engine.track(participant, native.function, ticks, after)

    def act(self, native: Chained, key: int, time: int, at_end: bool) -> Failure | None:
        """Runs such a native part at timers, and at the end."""
        return self._engine.act(self.participant or 0, native.function, key, time, at_end)
