"""Site of the handlers that Python runs on the calling thread: the ticks or the timer in hand, and its services."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.caller import POSITION, Caller
from strand.binding.engine import Engine
from strand.binding.engine_words import Failure
from strand.binding.native import Chained

__all__ = ["CallerSite", "InHand"]


class InHand:
    """The ticks, or the timer, that a handler runs for, and what it emits on their behalf."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.positions = np.empty(0, POSITION)
        self._records: npt.NDArray[Any] = self.positions
        self._handler = self._first = self.n = 0
        self._key = self._time = 0
        self.at_timer = self._at_end = self._is_told = self._has_emitted = False

    def hold(self, handler: int, records: npt.NDArray[Any], positions: npt.NDArray[Any]) -> None:
        """Takes ticks in hand, with their positions, for a handler by its number."""
        self._handler, self._records, self.positions = handler, records, positions
        self._first, self.n = 0, len(positions)
        self.at_timer = self._is_told = False

    def place(self, at: int) -> None:
        """Takes one of the ticks that ``hold`` was given in hand."""
        self._first, self.n = at, 1

    def hold_timer(self, handler: int, key: int, time: int, *, at_end: bool = False) -> None:
        """Takes a symbol's timer in hand, or its end."""
        self._handler, self._key, self._time = handler, key, time
        self._records = self.positions = np.empty(0, POSITION)
        self._first = self.n = 0
        self.at_timer, self._at_end = True, at_end

    def tell(self) -> None:
        """Tells C of the ticks: at the first record that is emitted for them, since most calls emit nothing."""
        if not self._is_told:
            self._caller.hold(self._handler, self._records, self.positions)
            self._is_told = True

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None:
        """Emits records, as ``strand.handlers.context.EmittingBatch`` has it."""
        self._has_emitted = True
        if at is None:
            self._caller.emit_at_timer(self._key, self._time, output, records, at_end=self._at_end)
            return
        self.tell()
        self._caller.emit(output, self._first + at if self._first else at, records)

    def keep(self) -> None:
        """Keeps what was emitted since the last call of this, or of ``drop``."""
        if self._has_emitted:
            self._caller.emitted(self._handler)
            self._has_emitted = False

    def drop(self, handled: int = 0) -> None:
        """Drops what was emitted since, but for the first ``handled`` ticks of ``hold``; at a timer, all."""
        if handled >= len(self.positions) and not self.at_timer:
            self.keep()
        elif self._has_emitted:
            self._caller.emitted(self._handler, below=0 if self.at_timer else int(self.positions["number"][handled]))
            self._has_emitted = False


class CallerSite:
    """``key``: the symbol in hand. It knows no handler: those hold it.

    ``alarms``: when the timer of each symbol that Python runs is due, 0: never."""

    def __init__(self, engine: Engine, caller: Caller, in_hand: InHand, alarms: npt.NDArray[np.uint64]) -> None:
        self._engine = engine
        self._caller = caller
        self._in_hand = in_hand
        self._alarms = alarms
        self.participant = caller.participant
        self.key = 0
        #: If the call in hand fails, all of its ticks come again.
        self.failed_come_again = False

    #: Nothing else happens between two calls.
    brings_rest = True
    ends_at_failure = True

    def batch(self) -> InHand:
        """The ticks, or the timer, in hand."""
        return self._in_hand

    def times(self) -> npt.NDArray[np.int64]:
        """The feed's time at each tick in hand."""
        times: npt.NDArray[np.int64] = self._in_hand.positions["time"].copy()
        return times

    def arm(self, handled: int, alarm: int) -> None:  # noqa: ARG002 - a run asks when the call is over
        """Sets the due time of the current symbol's timer."""
        self._alarms[self.key] = alarm

    def track(self, native: Chained, ticks: npt.NDArray[Any], after: npt.NDArray[Any]) -> tuple[int, Failure | None]:
        """Runs the native part of a chain that ends in Python tick by tick, and copies the row as it is after each."""
        self._in_hand.tell()
        return self._caller.track(native.function, ticks, after)

    def act(self, native: Chained, key: int, time: int, at_end: bool) -> Failure | None:
        """Runs such a native part at timers, and at the end."""
        return self._engine.act(self.participant, native.function, key, time, at_end)
