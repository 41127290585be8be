"""Model of `Fair`, written in Python without regard to speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from policies import NOT_VISITED


@dataclass
class Group:
    """A group. Times are by the group's clock: on-CPU ns divided by the weight."""

    weight: Fraction = Fraction(1)
    charged: Fraction = Fraction(0)  # in all
    start: Fraction = Fraction(0)
    used: Fraction = Fraction(0)  # since the start of the slice
    turn: int = 0
    in_slice: bool = False
    waiting: list[int] = field(default_factory=list)
    on_cpu_ns: int = 0
    ends: int = 0
    stretches: int = 0  # longer than a slice
    longest_ns: int = 0  # of these

    @property
    def clock(self) -> Fraction:
        return self.start + self.used


@dataclass
class FairModel:
    """The policy. Of a group's clock the core keeps whole ns, and what is left over separately: ``floor`` is that."""

    slice_ns: int
    burst_ns: int
    cpu_share: float
    cores: int
    group_of: dict[int, int] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    taken_of: dict[int, int] = field(default_factory=dict)  # the group to which a strand's visit is charged
    present: Fraction = Fraction(0)
    held: bool = False
    holds: int = 0
    long: dict[int, tuple[int, int]] = field(default_factory=dict)
    epoch: int | None = None
    granted: int = 0
    _turn: int = 0

    def __post_init__(self) -> None:
        self.rate = self.cpu_share * self.cores
        self.capacity = max(1, int(self.burst_ns * self.rate))
        self.tokens = self.capacity
        self.enough = min(self.slice_ns, (self.capacity + 1) // 2)

    def group(self, number: int) -> Group:
        return self.groups.setdefault(number, Group())

    def of(self, strand: int) -> int:
        return self.group_of.get(strand, 0)

    def ready(self, at: int, strands: Sequence[int], why: int, now: int) -> None:
        for strand in strands:
            self._enter(strand, in_front=why == NOT_VISITED)

    def next(self, own: int, now: int) -> int | None:
        first = min((g for g in self.groups.values() if g.waiting), key=lambda g: (g.start, g.turn), default=None)
        if first is None or self._held_back(first, now):
            return None
        self.present, first.in_slice = first.start, True
        strand = first.waiting.pop(0)
        self.taken_of[strand] = next(n for n, g in self.groups.items() if g is first)
        return strand

    def charge(self, strand: int, on_cpu_ns: int) -> None:
        group = self.group(self.taken_of[strand])
        before = floor(group.charged)
        group.charged += on_cpu_ns / group.weight
        group.used += floor(group.charged) - before
        group.on_cpu_ns += on_cpu_ns
        if self.rate:
            self.tokens -= on_cpu_ns
        if on_cpu_ns > self.slice_ns * group.weight:
            times, longest = self.long.get(strand, (0, 0))
            self.long[strand] = times + 1, max(longest, on_cpu_ns)
            group.stretches += 1
            group.longest_ns = max(group.longest_ns, on_cpu_ns)
        if group.used >= self.slice_ns:
            self._end_slice(group)
            group.ends += 1

    def regroup(self, strand: int, number: int) -> None:
        listed = strand in self.group(self.of(strand)).waiting
        if listed and self.of(strand) != number:
            self.group(self.of(strand)).waiting.remove(strand)
            self.group_of[strand] = number
            self._enter(strand, in_front=False)
        self.group_of[strand] = number

    def weigh(self, number: int, thousandths: int) -> None:
        group, weight = self.group(number), Fraction(thousandths, 1000)
        if weight != group.weight:
            group.charged = Fraction(floor(group.charged))
        group.weight = weight

    def due(self, now: int) -> int:
        if not self.rate:
            return 0
        if not self.held:
            return 2**64 - 1
        self._refill(now)
        assert self.epoch is not None
        goal = self.granted + max(0, self.enough - self.tokens)
        due = self.epoch + int(goal / self.rate)
        while int((due - self.epoch) * self.rate) < goal:
            due += 1
        return due

    def _enter(self, strand: int, in_front: bool) -> None:
        group = self.group(self.of(strand))
        if not group.waiting and group.start < self.present:
            self._end_slice(group)
            group.start = max(group.start, self.present)
        elif not group.waiting and not group.in_slice:
            group.turn = self._turn
            self._turn += 1
        group.waiting.insert(0 if in_front else len(group.waiting), strand)

    def _end_slice(self, group: Group) -> None:
        group.start, group.used, group.in_slice, group.turn = group.clock, Fraction(0), False, self._turn
        self._turn += 1

    def _refill(self, now: int) -> None:
        self.epoch = now if self.epoch is None else self.epoch
        granted = max(self.granted, int(max(0, now - self.epoch) * self.rate))
        self.tokens, self.granted = min(self.capacity, self.tokens + granted - self.granted), granted

    def _held_back(self, group: Group, now: int) -> bool:
        if not self.rate:
            return False
        self._refill(now)
        short = self.tokens < (self.enough if self.held or not group.in_slice else 1)
        self.holds += short and not self.held
        self.held = short
        return short
