"""The turn of a task whose coroutine runs in another thread: its strand waits for its end, and its group pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from strand.binding.gate import Code
from strand.tasks.work import Place

__all__ = ["ENDED", "EngineTurn", "Held", "Turn"]

ENDED: Final = "a task was ended that still ran: please report this"


class Turn(Protocol):
    """Turn that ``Pool.hold`` gives to a task. ``charge``: called with on-CPU time in ns that the task has used; None:
    the policy does not ask for it."""

    charge: Callable[[int], object] | None

    def over(self) -> None:
        """The task has ended, or waits for a retry. From any thread, once."""


class EngineTurn:
    """Turn of the current task, which is away from now on. ``entry``: the engine's name for it."""

    __slots__ = ("_batches", "charge", "entry")

    def __init__(self, place: Place) -> None:
        self.charge: Callable[[int], object] | None = None
        self._batches = place.batches
        self.entry = place.batches.entry

    def over(self) -> None:
        """Lists the entry, for a worker to end. Where a stop has ended it, nothing is left to do."""
        self._batches.come_back(self.entry)


class Held:
    """The entries of tasks that run in no thread of ``Places``. One of these that a worker is to resume is over. No
    lock: an entry is put in before it can come back, and then one worker at a time has it in hand."""

    def __init__(self) -> None:
        self._entries: set[int] = set()

    def take(self, place: Place) -> EngineTurn:
        """Takes the turn of the task in hand; called by the thread of the place, which has no task in hand
        afterwards."""
        turn = EngineTurn(place)
        self._entries.add(turn.entry)
        if place.batches.suspender(away=True)() != Code.OK:
            raise RuntimeError(ENDED)
        return turn

    def has(self, place: Place) -> bool:
        """True if the task in hand is one of these."""
        return place.batches.entry in self._entries

    def is_over(self, place: Place) -> bool:
        """Tells whether the task that the place is to resume was held. The worker goes on with the task, to end it."""
        entry = place.batches.entry
        if entry not in self._entries:
            return False
        self._entries.remove(entry)
        place.batches.resumed()
        return True
