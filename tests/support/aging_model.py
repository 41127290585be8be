"""Model of the policy `Aging`, written in Python, without regard to speed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from policies import AGING, NOT_VISITED, WAS_EMPTY, AgingConfig, Config, LevelsConfig

NORMAL, HIGH, URGENT = range(3)
BY_LOAD = 2**32 - 1
#: Reasons for which a strand is taken. A later one outweighs those before it.
FIRST, LOW_TURN, LATE = range(3)


def aging(coefficients: Sequence[float], *, low_every: int = 0, max_wait: int = 0, slack: int = 0) -> Config:
    """``coefficients``: points per second of each class, the lowest first. ``max_wait``, ``slack``: in ns."""
    given = (ctypes.c_double * 3)(*coefficients)
    return Config(AGING, slack, LevelsConfig(), AgingConfig(given, max_wait, len(coefficients), low_every))


def priority(cls: int, base: int) -> int:
    """As the core has it."""
    return (cls << 30) + 2**29 + base


@dataclass
class _Waiting:
    strand: int
    cls: int
    base: int
    listed: int
    order: int
    counted: bool = False


@dataclass
class AgingModel:
    """Priorities are exact fractions here: ``coefficients`` are points per ns."""

    lists: int
    coefficients: Sequence[Fraction]
    low_every: int = 0
    max_wait: int = 0
    slack: int = 0
    own: dict[int, tuple[int, int]] = field(default_factory=dict)
    raised: dict[int, tuple[int, int]] = field(default_factory=dict)
    raised_at: dict[int, int] = field(default_factory=dict)
    waiting: list[list[_Waiting]] = field(default_factory=list)
    taken: dict[int, _Waiting] = field(default_factory=dict)
    picked: list[int] = field(default_factory=lambda: [0] * 3)
    picked_low: int = 0
    picked_late: int = 0
    row: list[int] = field(default_factory=list)
    _orders: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = [[] for _ in range(self.lists)]
        self.row = [0] * self.lists
        self._orders = [0] * self.lists

    def priority(self, strand: int) -> tuple[int, int]:
        own = self.own.get(strand, (NORMAL, 0))
        return max(own, self.raised.get(strand, own))

    def now_of(self, w: _Waiting, now: int) -> Fraction:
        """The priority now."""
        return w.base + (now - w.listed) * self.coefficients[w.cls]

    def ready(self, at: int, strands: Sequence[int], why: int, now: int) -> None:
        for strand in strands:
            if why == WAS_EMPTY and self.raised_at.get(strand, 0) <= now:
                self.raised.pop(strand, None)
            cls, base = self.priority(strand)
            if why == NOT_VISITED:
                back = self.taken[strand]
                self.waiting[at].append(_Waiting(strand, cls, base, back.listed, back.order, back.counted))
            else:
                self._orders[at] += 1
                self.waiting[at].append(_Waiting(strand, cls, base, now, self._orders[at]))

    def prioritise(self, strand: int, cls: int, base: int, for_backlog: bool, now: int) -> None:
        (self.raised if for_backlog else self.own)[strand] = (cls, base)
        if for_backlog:
            self.raised_at[strand] = now
        for waiting in self.waiting:
            for w in waiting:
                if w.strand == strand:
                    w.cls, w.base = self.priority(strand)

    def high_before_low(self) -> int:
        ready = [w.cls for waiting in self.waiting for w in waiting]
        low = ready.count(NORMAL)
        if self.low_every != BY_LOAD:
            return self.low_every
        return min(max(8 * (len(ready) - low) // low, 2), 64) if low else 64

    def next(self, own: int, now: int) -> int | None:
        low_due = self.low_every > 0 and self.row[own] >= self.high_before_low()
        turns = [(own + i) % self.lists for i in range(self.lists)]
        best: tuple[int, Fraction, _Waiting, int] | None = None
        for at in turns:
            found = self._turns(at, low_due, now)
            if not found:
                continue
            why, value, w = found[0]
            # A visit's time is given away for any strand of the list, and the first one there is taken.
            ahead = max(
                other - self.slack * (self.coefficients[v.cls] if why == FIRST else Fraction(1))
                for reason, other, v in found
                if reason == why
            )
            if best is None or why > best[0] or (why == best[0] and ahead > best[1]):
                best = (why, value, w, at)
        if best is None:
            return None
        why, _, w, at = best
        self.waiting[at].remove(w)
        self.taken[w.strand] = w
        if not w.counted:
            w.counted = True
            self.picked[w.cls] += 1
            self.picked_low += why == LOW_TURN
            self.picked_late += why == LATE
            self.row[own] = 0 if w.cls == NORMAL else self.row[own] + 1
        return w.strand

    def _turns(self, at: int, low_due: bool, now: int) -> list[tuple[int, Fraction, _Waiting]]:
        """Turns of a list, the first first: the reason, the priority or the wait, and the strand."""
        found = []
        for w in self.waiting[at]:
            wait = now - w.listed
            if self.max_wait and wait > self.max_wait:
                found.append((LATE, Fraction(wait), w))
            elif low_due and w.cls == NORMAL:
                found.append((LOW_TURN, Fraction(wait), w))
            else:
                found.append((FIRST, self.now_of(w, now), w))
        # On a tie the one that was listed first, of those of one moment the one of the higher class.
        found.sort(key=lambda f: (f[0], f[1], -f[2].listed, f[2].cls, -f[2].order, -f[2].strand), reverse=True)
        return found
