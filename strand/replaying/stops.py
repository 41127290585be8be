"""Stops of a run: objects that have something to do at some places between its ticks."""

from __future__ import annotations

from strand.feeds import TickBatch
from strand.validate import MAXIMUM


class Stop:
    """Base of stops, which does nothing. The one loop of a run (``strand.replaying.run``) publishes ticks up to the
    nearest place of any stop, in the one thread that publishes.

    A place is the index of a tick in the batch at hand: the ticks before it have been published, and no others.
    Stops of one place have their turns in the order of the run's list.

    ``sees_ticks``: True if it has to be told of all ticks, so that no decoder may publish them by itself.
    """

    sees_ticks = True

    @property
    def idle_until_ns(self) -> int | None:
        """The time up to which nobody has to tell it of ticks, after the first batch; None: it ``sees_ticks``."""
        return None if self.sees_ticks else MAXIMUM

    def begin(self, batch: TickBatch) -> None:
        """Takes the next batch of the feed, which may be empty, before its first tick is published. It is valid until
        the next one."""

    def next(self, at: int) -> int | None:
        """Returns the nearest place behind ``at`` where it has something to do; None: it has none in this batch."""
        del at
        return None

    def act(self, at: int) -> None:
        """Does what is to be done at a place, before its tick. It comes here at its own places, at those of others, and
        at the first tick of each batch."""

    def published(self, ticks: TickBatch) -> None:
        """Takes ticks that were just published and counted: all up to the nearest place."""
