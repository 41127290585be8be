"""Counters of policies and the guard: frozen numbers, parts of a dispatcher's statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strand.brief import brief, listed, several

__all__ = ["FairStatistics", "GroupStatistics", "GuardStatistics", "LongStretch"]


@dataclass(frozen=True, slots=True, repr=False)
class GuardStatistics:
    """Decisions of the guard for one resource.

    Attributes:
        source: Where the resource is measured, or why it is not.
        holding: Whether strands are held back for it now.
        begun: How often a hold began.
        expired: How often a hold ended because ``max_hold`` was over.
        held_ns: How long strands were held back in all, up to now, in ns.
    """

    source: str
    holding: bool
    begun: int
    expired: int
    held_ns: int

    def __repr__(self) -> str:
        now = "holding" if self.holding else "not holding"
        return brief(self, now, f"{self.begun:,} begun", f"{self.expired:,} expired", f"held {self.held_ns:,} ns")


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Counters of ``Fair`` for one group.

    A checkpoint reads the thread's clock, at most every 100 us; the time for that is charged to its task. Of a
    coroutine, ``on_cpu_ns`` has each step, from one await to the next, until the task ends. The steps of asyncio tasks
    that it starts are included. The work of asyncio between steps is not included, nor are other threads.

    Attributes:
        on_cpu_ns: The on-CPU time that was charged to it, in ns.
        share: Its share of what was charged to all groups, 0 to 1; 0 if nothing was.
        slice_ends: How often it used up its slice and had to wait its turn.
        long_stretches: Visits and tasks that took more on-CPU time than the group's slice without a pause. For a task
            this is from one checkpoint to the next, for a coroutine from one await to the next. They are counted when
            they are over.
        longest_stretch_ns: The longest of these, in ns; None if there was none.
    """

    on_cpu_ns: int
    share: float
    slice_ends: int
    long_stretches: int
    longest_stretch_ns: int | None


@dataclass(frozen=True, slots=True, repr=False)
class LongStretch:
    """Visits to one strand that took more on-CPU time than the slice of their group.

    Attributes:
        symbols: The strand's symbols.
        visits: How many such visits there were.
        longest_ns: The longest of them, in ns.
    """

    symbols: tuple[str, ...]
    visits: int
    longest_ns: int

    def __repr__(self) -> str:
        return brief(self, listed(self.symbols), several(self.visits, "visit"), f"longest {self.longest_ns:,} ns")


@dataclass(frozen=True, slots=True, repr=False)
class FairStatistics:
    """Counters of ``Fair``.

    Attributes:
        groups: The counts of each group, by name.
        cap_holds: How often the pool was held because its on-CPU time was used up; None without a cap.
        long_stretches: The long stretches of all groups.
        longest: The strands with the longest stretches, at most 16, the longest first. Long stretches of tasks are only
            found by group.
    """

    groups: Mapping[str, GroupStatistics]
    cap_holds: int | None
    long_stretches: int
    longest: tuple[LongStretch, ...]

    def __repr__(self) -> str:
        groups = f"{several(len(self.groups), 'group')} ({listed(self.groups)})"
        return brief(self, groups, f"{self.long_stretches:,} long stretches")
