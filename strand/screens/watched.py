"""Figures of a run that screens show, read from outside again and again.

``Watched`` makes rates of what changed from one look to a later one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from strand.fixed import dataclass
from strand.outside.attached import Attached
from strand.outside.snapshot import KindSnapshot, Snapshot

#: Strands that one look reads; of more, the next look reads on.
MOST_STRANDS: Final = 65_536
#: Symbols of a strand whose names are shown.
_SHOWN: Final = 3
_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker. ``busy``: share of the last seconds, 0 to 1; rates are per second. None: not known. No worker counts
    tasks, so ``handled_per_s`` is of ticks."""

    name: str
    busy: float | None
    handled_per_s: float | None
    steals_per_s: float | None
    parks_per_s: float | None


@dataclass(frozen=True, slots=True)
class LevelRow:
    """Ticks or tasks at a level. Waits are in s and of the last 5 minutes, as is the share of success; None: none."""

    kind: str
    level: str
    waiting: int
    started_per_s: float | None
    wait_p50_s: float | None
    wait_p95_s: float | None
    wait_p99_s: float | None
    success: float | None
    promoted: int | None


@dataclass(frozen=True, slots=True)
class StrandRow:
    """A strand. ``per_s``: ticks that it accepted per second between the last two looks at it; None: not known yet."""

    strand: int
    symbols: str
    accepted: int
    per_s: float | None


@dataclass(frozen=True, slots=True)
class View:
    """Figures of one look.

    Attributes:
        snapshot: All that was read.
        accepted_per_s: By kind, ticks or tasks accepted per second since an earlier look; None: not known yet.
        workers, levels: A row for each.
    """

    snapshot: Snapshot
    accepted_per_s: Mapping[str, float | None]
    workers: tuple[WorkerRow, ...]
    levels: tuple[LevelRow, ...]


class Watched:
    """A run that is looked at again and again.

    Args:
        attached: The run.
        span_s: Rates are those since the last look that was so many seconds ago or more.
    """

    def __init__(self, attached: Attached, span_s: float = 0.0) -> None:
        self.attached = attached
        self._span_s = span_s
        self._looks: deque[tuple[Snapshot, float]] = deque()
        self._next_strand = 0
        has_strands = attached.description.kind == "dispatcher"
        self._accepted: npt.NDArray[np.uint64] = np.zeros(attached.n_strands if has_strands else 0, np.uint64)
        self._rates = np.full(len(self._accepted), np.nan)
        self._looked_s = np.full(len(self._accepted), np.nan)
        self._pattern = ""
        self._with_pattern: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)

    def look(self) -> View:
        """Reads the figures. Raises AttachError if the run cannot be read."""
        now, now_s = self.attached.snapshot(), time.monotonic()
        while len(self._looks) > 1 and now_s - self._looks[1][1] >= self._span_s:
            self._looks.popleft()
        last, last_s = self._looks[0] if self._looks else (None, now_s)
        self._looks.append((now, now_s))

        def rate(new: int, old: int | None, seconds: float = now_s - last_s) -> float | None:
            return None if old is None or seconds <= 0 else (new - old) / seconds

        workers = []
        for at, worker in enumerate(now.workers):
            before = None if last is None else last.workers[at]
            busy = rate(worker.busy_ns, None if before is None else before.busy_ns)
            workers.append(
                WorkerRow(
                    worker.name,
                    now.busy_shares[at] if at < len(now.busy_shares) else None if busy is None else min(busy / _S, 1.0),
                    rate(worker.handled, before.handled) if before is not None and now.ticks is not None else None,
                    rate(worker.stolen, None if before is None else before.stolen),
                    rate(worker.parks, None if before is None else before.parks),
                )
            )
        levels, accepted = [], {}
        for kind in ("ticks", "tasks"):
            found: KindSnapshot | None = getattr(now, kind)
            old: KindSnapshot | None = getattr(last, kind, None)
            if found is None:
                continue
            seconds = now_s - last_s if kind == "ticks" else _between(last, now)
            accepted[found.kind] = rate(found.accepted, None if old is None else old.accepted, seconds)
            for name in now.levels:
                started = None if old is None else old.since_start.levels[name].started
                levels.append(_level(found, name, rate(found.since_start.levels[name].started, started, seconds)))
        return View(now, accepted, tuple(workers), tuple(levels))

    def hottest(self, most: int, pattern: str = "") -> list[StrandRow]:
        """Reads the next ``MOST_STRANDS`` strands, and returns those of all with the most ticks per second.

        Args:
            most: How many to return.
            pattern: Text that a symbol of a strand contains, in any case; empty: all strands.

        Raises:
            AttachError: If the run cannot be read.
        """
        total = len(self._accepted)
        if not total:
            return []
        first = self._next_strand
        end = min(first + MOST_STRANDS, total)
        self._next_strand = 0 if end == total else end
        found, now_s = self.attached.accepted(first, end - first), time.monotonic()
        seconds = now_s - self._looked_s[first:end]
        self._rates[first:end] = (found - self._accepted[first:end]) / seconds
        self._accepted[first:end], self._looked_s[first:end] = found, now_s
        rates = np.nan_to_num(self._rates)
        chosen = np.flatnonzero(self._accepted)
        if pattern:
            if pattern != self._pattern:
                self._pattern, self._with_pattern = pattern, self.attached.strands_with(pattern)
            chosen = np.intersect1d(chosen, self._with_pattern)
        order = chosen[np.lexsort((-self._accepted[chosen].astype(np.int64), -rates[chosen]))]
        return [self._row(strand) for strand in map(int, order[:most])]

    def _row(self, strand: int) -> StrandRow:
        per_s = None if np.isnan(self._rates[strand]) else float(self._rates[strand])
        return StrandRow(strand, self.attached.symbols_of(strand, _SHOWN), int(self._accepted[strand]), per_s)


def _between(last: Snapshot | None, now: Snapshot) -> float:
    """Seconds between the samples of two snapshots, in which tasks were counted."""
    if last is None or last.sampled_at_ns is None or now.sampled_at_ns is None:
        return 0.0
    return (now.sampled_at_ns - last.sampled_at_ns) / _S


def _level(found: KindSnapshot, name: str, started_per_s: float | None) -> LevelRow:
    window = None if found.window is None else found.window.levels[name]
    waits = [None if window is None else window.wait.percentile(percent) for percent in (50.0, 95.0, 99.0)]
    p50, p95, p99 = (None if ns is None else ns / _S for ns in waits)
    return LevelRow(
        found.kind,
        name,
        found.waiting.get(name, 0),
        started_per_s,
        p50,
        p95,
        p99,
        None if window is None else window.success_rate,
        found.since_start.levels[name].promoted,
    )
