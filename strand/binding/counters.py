"""Counters of a dispatcher: of this process, or of another process that this one looks at."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import CORE, Core, ffi, lib
from strand.binding.engine_words import (
    COUNTERS,
    HISTOGRAMS,
    PAUSED,
    QUARANTINED,
    Failure,
    StrandInspection,
    clock_resolution_ns,
    histogram_floors_ns,
)
from strand.binding.gate import text_of

__all__ = ["Counters", "GroupCounts", "inspection"]


def _group(g: Any) -> tuple[int, int, int, int]:
    """An sd_group_counts."""
    return int(g.on_cpu_ns), int(g.slice_ends), int(g.long_stretches), int(g.longest_ns)


class GroupCounts(NamedTuple):
    """Counts of Fair.

    Attributes:
        groups: By group the on-CPU time in ns, how often it used up its slice, stretches beyond its slice, and the
            longest stretch in ns.
        holds: Times that the cap held the pool.
        long_stretches: The long stretches of all groups.
        longest: Some strands with long stretches: the strand, how many, and the longest in ns.
    """

    groups: list[tuple[int, int, int, int]]
    holds: int
    long_stretches: int
    longest: list[tuple[int, int, int]]


def inspection(k: Any) -> StrandInspection:
    """An sd_inspection."""
    owner = k.owner - 1 if k.owner else None
    return StrandInspection(
        k.pending, owner, k.accepted, k.handled, k.failed, k.lost, tuple(k.dropped),
        bool(k.control & PAUSED), bool(k.control & QUARANTINED), k.capacity, k.tasks,
    )  # fmt: skip


class Counters:
    """Counters, histograms and failures of an sd_dispatcher, read without a lock. ``core``: the module in C that it is
    of."""

    def __init__(self, d: Any, n_workers: int, n_participants: int, counters_start: int, core: Core = CORE) -> None:
        self._core = core
        self._ffi, self._lib = core
        self._d = d
        self.n_workers = n_workers
        self._n_participants = n_participants
        self._counters_start = counters_start
        self._first_failure = self._ffi.new("sd_failure *")

    def totals(self) -> dict[str, int]:
        t = self._ffi.new("sd_totals *")
        self._lib.sd_dispatcher_totals(self._d, t)
        names = ("accepted", "handled", "failed", "lost", "pending", "visits", "handled_inline", "stolen", "cut",
                 "parks", "wakes", "failures", "watermark_sequence")  # fmt: skip
        totals = {name: int(getattr(t, name)) for name in names}
        reasons = ("dropped_newest", "dropped_oldest", "conflated", "dropped_quarantined", "shed")
        return totals | {name: int(t.dropped[i]) for i, name in enumerate(reasons)}

    def ready_strands(self) -> int:
        """Strands that wait for a worker, and may be taken."""
        return int(self._lib.sd_dispatcher_ready(self._d))

    def dropped_by_level(self) -> list[int]:
        """Ticks that a bound dropped, by level, the highest first; zeros under a policy without levels."""
        t = self._ffi.new("sd_totals *")
        self._lib.sd_dispatcher_totals(self._d, t)
        return list(t.dropped_at)

    def policy_counts(self) -> dict[str, list[int]]:
        """Counters of the policy; empty for a policy that counts nothing.

        Levels, the highest first: ``promoted`` counts the strands that rose out of each level. ``starved`` counts the
        waits that began there and took more than twice the level's timeout.

        Aging: ``picked`` counts the strands taken of each class, the highest first. ``picked_by_rule`` counts those of
        them taken for ``low_every`` and for ``max_wait``.
        """
        counts = self._ffi.new("sd_policy_counts *")
        number = self._lib.sd_dispatcher_policy_counts(self._d, counts)
        if number == lib.SD_LEVELS:
            return {"promoted": list(counts.promoted), "starved": list(counts.starved)}
        if number == lib.SD_AGING:
            picked = list(counts.picked)[: counts.n_classes][::-1]
            return {"picked": picked, "picked_by_rule": [counts.picked_low, counts.picked_late]}
        return {}

    def group_counts(self, n: int) -> GroupCounts | None:
        """Counters of Fair for each of its first ``n`` groups, all of one moment. The call takes a lock, so it is for
        the dispatcher's own process alone. None: the policy has no groups."""
        groups = self._ffi.new("sd_group_counts[]", n)
        fair = self._ffi.new("sd_fair_counts *")
        if self._lib.sd_dispatcher_group_counts(self._d, n, groups, fair) != lib.SD_OK:
            return None
        longest = [(int(s.strand), int(s.times), int(s.longest_ns)) for s in fair.longest if s.times]
        by_group = [_group(g) for g in groups]
        return GroupCounts(by_group, int(fair.holds), int(fair.long_stretches), longest)

    def close_group(self, group: int) -> None:
        """No task is submitted to a group under Fair any more."""
        self._lib.sd_group_close(self._d, group)

    def returned_groups(self, n: int, *, everything: bool) -> list[tuple[int, tuple[int, int, int, int]]]:
        """Takes back up to ``n`` groups that were closed, whose tasks are over and whose debts are past; with
        ``everything`` those too that have a debt. Returns the number of each, and what was counted of it."""
        numbers, counts = self._ffi.new("uint32_t[]", n), self._ffi.new("sd_group_counts[]", n)
        found = self._lib.sd_groups_returned(self._d, n, everything, numbers, counts)
        return [(int(numbers[i]), _group(counts[i])) for i in range(found)]

    def counters(self, participant: int) -> dict[str, int]:
        """Counters of one participant by name; a worker's participant is its number, publishers' participants
        follow."""
        values = ffi.new("uint64_t[]", lib.SD_COUNTER_FIELDS)
        self._lib.sd_participant_counters(self._d, participant, values)
        counters = dict(zip(COUNTERS, map(int, values), strict=True))
        for name in ("accepted", "handled"):
            counters[name] = (counters[name] - self._counters_start) % 2**64
        return counters

    def counters_by_participant(self) -> list[dict[str, int]]:
        """All participants' counters."""
        return [self.counters(participant) for participant in range(self._n_participants)]

    def histogram_floors_ns(self) -> npt.NDArray[np.float64]:
        """The lower edges of histograms' buckets, shape (n_buckets,)."""
        return histogram_floors_ns(self._lib.sd_ns_per_count())

    def clock_resolution_ns(self) -> float:
        """The shortest span that the clock of the histograms tells from none, in ns."""
        return clock_resolution_ns(self._lib)

    def histogram(self, name: str) -> npt.NDArray[np.uint64]:
        counts = np.zeros(lib.SD_BUCKETS, dtype=np.uint64)
        self._lib.sd_histogram_sum(self._d, HISTOGRAMS[name], ffi.cast("uint64_t *", ffi.from_buffer(counts)))
        return counts

    @property
    def has_failed(self) -> bool:
        """True if a handler has failed."""
        return bool(self._lib.sd_failure_get(self._d, 0, self._first_failure) == lib.SD_OK)

    def failures(self) -> list[Failure]:
        """The first failures, at most 64, in the order they happened; all of them where the run goes on after one."""
        found: list[Failure] = []
        f = self._ffi.new("sd_failure *")
        while self._lib.sd_failure_get(self._d, len(found), f) == lib.SD_OK:
            key = None if f.key == lib.SD_NONE else int(f.key)
            sequence = None if f.sequence == lib.SD_NO_SEQUENCE else int(f.sequence)
            found.append(
                Failure(
                    int(f.code),
                    text_of(f.message),
                    key=key,
                    sequence=sequence,
                    handler=int(f.handler),
                    strand=int(f.strand),
                    participant=int(f.participant),
                    record=bytes(self._ffi.buffer(f.record, f.record_bytes)) if f.record_bytes else None,
                    place=int(f.place) if f.key != lib.SD_NONE and f.record_bytes else None,
                    time=int(f.place) if sequence is None and not f.record_bytes else None,
                )
            )
        return found
