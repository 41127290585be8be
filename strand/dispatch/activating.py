"""Number of active workers: between a least number and all workers, by load."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from strand.binding.engine import Engine
from strand.dispatch.regular import Regular
from strand.stats import ActiveStatistics
from strand.threads import Inside
from strand.validate import whole

__all__ = ["Activating", "Load", "decide", "least_of"]

_log: Final = logging.getLogger("strand.workers")
#: Interval of looks, in ns.
EVERY_NS: Final = 20_000_000
#: One more after so many looks in a row at which more strands waited than the active workers can be in.
LOOKS_TO_MORE: Final = 2
#: One fewer after so many looks in a row at which one fewer would have done.
LOOKS_TO_FEWER: Final = 10
#: One fewer would have done where the others had been busy for less than this share of their time.
BUSY: Final = 0.75


class Load(NamedTuple):
    """``active``: how many workers there are; ``short``, ``spare``: looks in a row at which they were too few or too
    many."""

    active: int
    short: int = 0
    spare: int = 0


def decide(load: Load, ready: int, busy: float, *, least: int, most: int) -> Load:
    """Returns the load after a look. ``ready``: strands that wait for a worker. ``busy``: the workers' time that
    handlers have taken since the look before, such as 1.5 of 2 workers."""
    short = load.short + 1 if ready > load.active else 0
    spare = load.spare + 1 if ready == 0 and busy < BUSY * (load.active - 1) else 0
    if short >= LOOKS_TO_MORE and load.active < most:
        return Load(load.active + 1, short)
    if spare >= LOOKS_TO_FEWER and load.active > least:
        return Load(load.active - 1)
    return Load(load.active, short, spare)


def least_of(min_workers: Any, workers: int) -> int | None:
    """The least number of active workers; None: all are active all the time. Raises ConfigurationError."""
    return None if min_workers is None else whole("min_workers", min_workers, 1, workers)


class Activating(Regular):
    """Thread that sets the number of active workers by the load. However it ends, all workers are active then."""

    def __init__(self, engine: Engine, least: int, *, allowed: Sequence[int], inside: Inside) -> None:
        super().__init__(engine, EVERY_NS, "strand-workers", allowed=allowed, inside=inside)
        self._least, self._most = least, engine.config.n_workers
        self._load = Load(least)
        self._more = self._fewer = 0
        self._busy_ns, self._looked_ns = 0, time.monotonic_ns()

    def start(self) -> None:
        self._engine.activate(self._least)
        super().start()

    def statistics(self) -> ActiveStatistics:
        """Decisions so far."""
        return ActiveStatistics(self._load.active, self._least, self._most, self._more, self._fewer)

    def _look(self, now_ns: int) -> None:
        busy_ns = sum(self._engine.counters(worker)["busy_ns"] for worker in range(self._most))
        busy = (busy_ns - self._busy_ns) / max(1, now_ns - self._looked_ns)
        self._busy_ns, self._looked_ns = busy_ns, now_ns
        before, load = self._load, decide(
            self._load, self._engine.ready_strands(), busy, least=self._least, most=self._most
        )  # fmt: skip
        self._load = load
        if load.active == before.active:
            return
        self._engine.activate(load.active)
        self._more += load.active > before.active
        self._fewer += load.active < before.active
        _log.debug("%d of %d workers are active", load.active, self._most)

    def _ended(self, error: BaseException | None) -> None:
        self._engine.activate(self._most)
        self._load = Load(self._most)
        if error is not None:
            _log.error("all workers are active from here on: what decides how many has ended", exc_info=error)
