"""The thread of a guard: it measures, decides, and tells the engine which strands to hold back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from strand.binding.engine import Engine
from strand.binding.engine_words import RESOURCES
from strand.dispatch.guard import Guard, Hold, Reading, decide
from strand.dispatch.meters import Meters
from strand.dispatch.regular import Regular
from strand.frozen_dict import FrozenDict
from strand.stats import GuardStatistics
from strand.threads import Inside

__all__ = ["Guarding"]

_log: Final = logging.getLogger("strand.guard")
#: Work that waits per resource, for the log.
_WAITS: Final = {
    "cpu": "strands of level low wait",
    "memory": "only levels immediate and high go on, and what frees memory",
    "io": "strands marked io wait",
}


class Guarding(Regular):
    """Thread that holds strands back while it runs. However it ends, it releases them. Raises MissingExtraError without
    psutil, where it is needed."""

    def __init__(self, engine: Engine, guard: Guard, *, allowed: Sequence[int], inside: Inside) -> None:
        super().__init__(engine, guard.every_ns, "strand-guard", allowed=allowed, inside=inside)
        self._guard = guard
        meters = Meters(guard)
        self._read: Callable[[], Reading] = meters.read
        self._sources, self._lacks_io = meters.sources, meters.lacks_io
        self._holds = {resource: Hold() for resource in RESOURCES}

    def start(self) -> None:
        if self._lacks_io:
            _log.warning("io: %s", self._sources["io"])
        super().start()

    def statistics(self) -> Mapping[str, GuardStatistics]:
        """Decisions so far, by resource."""
        holds = self._holds
        now = time.monotonic_ns()  # after that: a hold that begins meanwhile would have lasted for less than nothing
        return FrozenDict(
            {
                resource: GuardStatistics(
                    self._sources[resource], hold.since_ns is not None, hold.begun, hold.expired, hold.held_until(now)
                )
                for resource, hold in holds.items()
            }
        )

    def _look(self, now_ns: int) -> None:
        """Lets strands rise that are due, decides, and holds back what is decided."""
        before, strains = self._holds, self._guard.strains(self._read())
        waiting = self._engine.hold_back(_bits(before))
        holds = {
            resource: decide(
                self._guard, hold, strains[resource], waits=bool(waiting & RESOURCES[resource]), now_ns=now_ns
            )
            for resource, hold in before.items()
        }
        if _bits(holds) != _bits(before):
            self._engine.hold_back(_bits(holds))
        self._holds = holds
        for resource, hold in holds.items():
            self._say(resource, before[resource], hold, strains[resource])

    def _say(self, resource: str, before: Hold, hold: Hold, strain: float | None) -> None:
        percent = 0.0 if strain is None else 100 * strain
        if hold.begun > before.begun:
            _log.info("%s: at %.0f %% of its threshold: %s", resource, percent, _WAITS[resource])
        elif before.since_ns is not None and hold.since_ns is None:
            why = "max_hold is over" if hold.expired > before.expired else f"at {percent:.0f} % of its threshold"
            held_s = (hold.held_ns - before.held_ns) / 1e9
            _log.info("%s: %s: what was held back for %.1f s goes on", resource, why, held_s)

    def _ended(self, error: BaseException | None) -> None:
        self._engine.hold_back(0)
        now = time.monotonic_ns()
        self._holds = {resource: hold.ended(now) for resource, hold in self._holds.items()}
        if error is not None:
            self._sources = dict.fromkeys(self._sources, f"not watched: the guard has ended by {error!r}")
            _log.error("the guard has ended, and holds nothing back any more", exc_info=error)


def _bits(holds: Mapping[str, Hold]) -> int:
    """The resources that strands are held back for."""
    return sum(RESOURCES[resource] for resource, hold in holds.items() if hold.since_ns is not None)
