"""Looks whether ticks come faster than they are handled, for long. No wait has a bound then, unless the queues have.

A look is at the start of a publish, without which queues do not grow for long. So it needs no thread.
"""

from __future__ import annotations

import threading
import time
import warnings
from typing import Final, NamedTuple, Protocol

from strand.stats import OverloadStatistics

__all__ = ["OverloadWatch"]

#: Least interval of looks, in ns.
EVERY_NS: Final = 1_000_000_000
#: An overload lasts if at so many looks in a row more ticks waited than at the look before.
LASTING_LOOKS: Final = 10


class _Watched(Protocol):
    """An engine, as far as the watch looks at it."""

    def totals(self) -> dict[str, int]: ...


class _Look(NamedTuple):
    at_ns: int
    accepted: int
    pending: int


class OverloadWatch:
    """``found``: the longest overload so far that lasted. ``is_on``: whether it looks. ``tells``: whether the first one
    is a RuntimeWarning."""

    def __init__(self, engine: _Watched, *, is_on: bool) -> None:
        self._engine = engine
        self.is_on = is_on
        self.tells = True
        self.found: OverloadStatistics | None = None
        #: Of threads that publish, the one that looks.
        self._lock = threading.Lock()
        self._due_ns = 0
        self._first = self._last = _Look(0, 0, 0)
        self._looks = 0

    def look(self, *, stacklevel: int) -> None:
        """Looks at the load, in a thread that is about to publish. ``stacklevel``: as warnings.warn has it, from the
        caller on."""
        now_ns = time.monotonic_ns()
        if now_ns < self._due_ns or not self._lock.acquire(blocking=False):
            return
        before = self.found
        try:
            self._due_ns = now_ns + EVERY_NS
            totals = self._engine.totals()
            self._note(_Look(now_ns, totals["accepted"], totals["pending"]))
        finally:
            self._lock.release()
        if self.tells and before is None and self.found is not None:
            warnings.warn(
                f"lasting overload: {self.found.said}; {self.found.cure}", RuntimeWarning, stacklevel=stacklevel + 1
            )

    def _note(self, now: _Look) -> None:
        grows = now.pending > self._last.pending
        self._last = now
        if not grows:
            self._first, self._looks = now, 0
            return
        self._looks += 1
        first, accepted = self._first, now.accepted - self._first.accepted
        found = OverloadStatistics(
            seconds=(now.at_ns - first.at_ns) / 1e9,
            accepted=accepted,
            handled=accepted - (now.pending - first.pending),
            pending=now.pending,
        )
        lasts = self._looks >= LASTING_LOOKS and found.wait_s >= EVERY_NS / 1e9
        if lasts and (self.found is None or self.found.seconds < found.seconds):
            self.found = found
