"""Threads that look at an engine again and again: for overload, and for the number of workers that its load needs.

A look is at the start of a publish, without which queues do not grow for long. So it needs no thread.
"""

from __future__ import annotations

import threading
import time
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from strand.background import Rounds
from strand.binding.engine import Engine
from strand.logs import Event
from strand.stats import ActiveStatistics, OverloadStatistics
from strand.threads import Inside
from strand.validate import whole


class Regular:
    """Calls ``_look`` every ``every_ns`` until the engine stops, or ``end``; then ``_ended``, in any case.

    It holds the engine, and no dispatcher or scheduler: one that nobody uses is found all the same."""

    def __init__(self, engine: Engine, every_ns: int, name: str, *, allowed: Sequence[int], inside: Inside) -> None:
        self._engine = engine
        self._every_s = every_ns / 1e9
        self._of_thread = name, allowed, inside
        self._rounds: Rounds | None = None

    def start(self) -> None:
        name, allowed, inside = self._of_thread
        # Only now: the two hold each other until the thread has ended.
        self._rounds = Rounds(self._round, self._every_s, name, ended=self._ended, allowed=allowed, inside=inside)
        self._rounds.start()

    def tell_to_end(self) -> None:
        """The thread ends after the look under way. Waits for nobody."""
        if self._rounds is not None:
            self._rounds.tell_to_end()

    def end(self) -> None:
        """Ends the thread, and waits for its end."""
        if self._rounds is not None:
            self._rounds.end()

    def _round(self, _: bool) -> float | None:
        return None if self._engine.stopping else self._go_on()

    def _go_on(self) -> float:
        self._look(time.monotonic_ns())
        return self._every_s

    @abstractmethod
    def _look(self, now_ns: int) -> None: ...

    @abstractmethod
    def _ended(self, error: BaseException | None) -> None: ...


#: Least interval of looks, in ns.
LOOK_NS: Final = 1_000_000_000
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

    def look(self, *, stacklevel: int) -> bool:
        """Looks at the load, in a thread that is about to publish. ``stacklevel``: as warnings.warn has it, from the
        caller on. False: it is not yet time for another look, or another thread looks."""
        now_ns = time.monotonic_ns()
        if now_ns < self._due_ns or not self._lock.acquire(blocking=False):
            return False
        before = self.found
        try:
            self._due_ns = now_ns + LOOK_NS
            totals = self._engine.totals()
            self._note(_Look(now_ns, totals["accepted"], totals["pending"]))
        finally:
            self._lock.release()
        if self.tells and before is None and self.found is not None:
            warnings.warn(
                f"lasting overload: {self.found.said}; {self.found.cure}", RuntimeWarning, stacklevel=stacklevel + 1
            )
        return True

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
        lasts = self._looks >= LASTING_LOOKS and found.wait_s >= LOOK_NS / 1e9
        if lasts and (self.found is None or self.found.seconds < found.seconds):
            self.found = found


_ACTIVE: Final = Event("workers.active", ".workers", "DEBUG", "%(active)d of %(workers)d workers are active")
_ENDED: Final = Event(
    "workers.ended",
    ".workers",
    "ERROR",
    "all workers are active from here on: what decides how many has ended",
)
#: Interval of looks, in ns.
CHANGE_NS: Final = 20_000_000
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
        super().__init__(engine, CHANGE_NS, "strand-workers", allowed=allowed, inside=inside)
        self._least, self._most = least, engine.config.n_workers
        self._load = Load(least)
        self._more = self._fewer = 0
        self._busy_ns, self._looked_ns = 0, time.monotonic_ns()

    def start(self) -> None:
        self._engine.schedule.activate(self._least)
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
        self._engine.schedule.activate(load.active)
        self._more += load.active > before.active
        self._fewer += load.active < before.active
        _ACTIVE(active=load.active, workers=self._most)

    def _ended(self, error: BaseException | None) -> None:
        self._engine.schedule.activate(self._most)
        self._load = Load(self._most)
        if error is not None:
            _ENDED(exc_info=error)
