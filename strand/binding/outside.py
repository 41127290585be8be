"""A dispatcher's counters: of this process, or of another one, seen through the file that its memory lies over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import CORE, Core, ffi, lib
from strand.binding.books import LEVEL
from strand.binding.engine_words import (
    COUNTERS,
    HISTOGRAMS,
    INGEST,
    NO_BLOCKS,
    PAUSED,
    QUARANTINED,
    Failure,
    SampleRing,
    StrandInspection,
    clock_resolution_ns,
    histogram_floors_ns,
)
from strand.binding.gate import Code, text_of
from strand.binding.memory import Memory, owned
from strand.errors import AttachError


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
        self.n_participants = n_participants
        self._counters_start = counters_start
        #: Returns the number of strands that wait for a worker, and may be taken.
        self.ready_strands: Callable[[], int] = partial(core.lib.sd_dispatcher_ready, d)

    @property
    def feed_time(self) -> int:
        """The greatest time of a record published; 0 where records carry no positions."""
        return int(self._lib.sd_feed_time(self._d))

    def totals(self) -> dict[str, int]:
        t = self._ffi.new("sd_totals *")
        self._lib.sd_dispatcher_totals(self._d, t)
        names = ("accepted", "handled", "failed", "lost", "pending", "visits", "handled_inline", "handled_ungrouped",
                 "handled_in_blocks", "stolen", "cut", "parks", "wakes", "failures", "watermark_sequence")  # fmt: skip
        totals = {name: int(getattr(t, name)) for name in names}
        reasons = ("dropped_newest", "dropped_oldest", "conflated", "dropped_quarantined", "shed")
        return totals | {name: int(t.dropped[i]) for i, name in enumerate(reasons)}

    def blocks(self) -> dict[str, Any]:
        """An sd_blocks_told: ``ingest`` as the user gave it, why blocks are not possible (``reason``, None where they
        are), ``costs`` in ns per tick (0: not known), and counts; times in ns."""
        t = self._ffi.new("sd_blocks_told *")
        self._lib.sd_dispatcher_blocks(self._d, t)
        names = ("runs", "refused", "slots", "homes", "used", "behind", "adopted", "elapsed", "threads", "reading",
                 "listing", "handling", "busiest", "tried_after")  # fmt: skip
        asked = {number: name for name, number in INGEST.items()}.get(t.ingest, "auto")
        found = {"ingest": asked, "reason": NO_BLOCKS.get(t.reason), "costs": (float(t.cost[0]), float(t.cost[1]))}
        return found | {name: int(getattr(t, name)) for name in names}

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

    def counters(self, participant: int) -> dict[str, int]:
        """Counters of one participant by name; a worker's participant is its number, publishers' participants
        follow."""
        values = ffi.new("uint64_t[]", lib.SD_COUNTER_FIELDS)
        self._lib.sd_participant_counters(self._d, participant, values)
        counters = dict(zip(COUNTERS, map(int, values), strict=True))
        for name in ("accepted", "handled"):
            counters[name] = (counters[name] - self._counters_start) % 2**64
        return counters

    def counters_reader(self) -> Callable[[], npt.NDArray[np.uint64]]:
        """Reads all participants' counters into one array, shape (participants, len(COUNTERS)), the same at every call.

        They are read one after the other while they count on."""
        values = np.zeros((self.n_participants, len(COUNTERS)), np.uint64)
        start, size = ffi.cast("uint64_t *", ffi.from_buffer(values)), len(COUNTERS)
        places = [(participant, start + participant * size) for participant in range(len(values))]
        base = np.uint64(self._counters_start)

        def read() -> npt.NDArray[np.uint64]:
            for participant, place in places:
                self._lib.sd_participant_counters(self._d, participant, place)
            if base:
                values[:, :2] -= base
            return values

        return read

    def histogram_floors_ns(self) -> npt.NDArray[np.float64]:
        """The lower edges of histograms' buckets, shape (n_buckets,)."""
        return histogram_floors_ns(self._lib.sd_ns_per_count())

    def clock_resolution_ns(self) -> float:
        """The shortest span that the clock of the histograms tells from none, in ns."""
        return clock_resolution_ns(self._lib)

    @property
    def n_levels(self) -> int:
        """By how many levels visits are counted: those of Levels, the classes of Aging, else one."""
        return int(self._lib.sd_dispatcher_levels(self._d))

    def histogram(self, name: str) -> npt.NDArray[np.uint64]:
        """A histogram by level, shape (n_levels, n_buckets): by that which a strand had when it was taken."""
        counts = np.zeros((self.n_levels, lib.SD_BUCKETS), np.uint64)
        for level, row in enumerate(counts):
            self._lib.sd_histogram_sum(self._d, HISTOGRAMS[name], level, ffi.cast("uint64_t *", ffi.from_buffer(row)))
        return counts

    def counts_by_level(self) -> list[dict[str, int]]:
        """By level: ``visits`` to strands, ``failed`` records, and how many strands and tasks are ``listed`` now."""
        found = self._ffi.new("sd_at_level *")
        by_level = []
        for level in range(self.n_levels):
            self._lib.sd_dispatcher_at_level(self._d, level, found)
            by_level.append({name: int(getattr(found, name)) for name in ("visits", "failed", "listed")})
        return by_level

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


#: Of a side, that can be seen from outside.
MAX_LEVELS: Final[int] = lib.SD_OUTSIDE_LEVELS
#: Some thousand bytes are usual. The addresses of a damaged memory have room for gigabytes.
_LONGEST_DESCRIPTION: Final = 1 << 26


class NotRunningError(AttachError):
    """Absence of a run to look at: it has not begun, or has ended."""


class OutsideView(Counters):
    """Maps the file with a descriptor, which may be closed afterwards; read-only.

    Raises NotRunningError where its dispatcher has stopped, or is still being made. Raises AttachError for memory that
    this build of strand cannot read as a dispatcher's.
    """

    def __init__(self, fd: int) -> None:
        out, why = ffi.new("sd_outside **"), ffi.new("char[]", lib.SD_WHY_BYTES)
        if code := lib.sd_outside_open(fd, out, why):
            if code == Code.AGAIN:
                raise NotRunningError("its dispatcher has stopped, or is not complete yet")
            raise AttachError(text_of(why))
        self._o = owned(out[0], lib.sd_outside_close)
        config = lib.sd_outside_config(self._o)
        self.n_symbols, self.n_strands = int(config.sizes.n_symbols), int(config.sizes.n_strands)
        super().__init__(
            lib.sd_outside_dispatcher(self._o),
            int(config.sizes.n_workers),
            int(config.sizes.n_workers + config.sizes.n_publishers),
            int(config.sizes.counters_start),
        )
        size = ffi.new("uint64_t *")
        text = lib.sd_outside_description(self._o, size)
        if size[0] > _LONGEST_DESCRIPTION:
            raise AttachError("it is damaged: its description cannot be read")
        #: The dispatcher's description, JSON.
        self.description = bytes(ffi.buffer(text, size[0]))
        address = int(ffi.cast("uintptr_t", lib.sd_outside_map(self._o)))
        #: The strand of each symbol, shape (n_symbols,), as it is now: it may change until the first tick comes.
        #: It holds the mapping and not this, which would never go: the collector does not see through numpy's arrays.
        self.strand_of_symbol = np.asarray(Memory(self._o, address, self.n_symbols, 4, np.dtype("<u4"))).view("<u4")
        self._row_bytes = int(lib.sd_outside_row_bytes(self._o))

    @property
    def is_shown(self) -> bool:
        """False once the dispatcher has stopped."""
        return bool(lib.sd_outside_is_shown(self._o))

    def histogram_floors_ns(self) -> npt.NDArray[np.float64]:
        """Floors of the histograms' buckets in ns, by the clock of the process that counts."""
        return histogram_floors_ns(float(lib.sd_outside_ns_per_count(self._o)))

    def sample(self, ring: SampleRing, dtype: np.dtype[Any], back: int = 0) -> tuple[np.void, int] | None:
        """The sample that was put ``back`` samples before the last one, and its number, from 0. None: there was none
        such, or it is gone. Raises AttachError for samples of another size."""
        found, number = np.zeros(1, dtype), ffi.new("uint64_t *")
        words = int(lib.sd_outside_sample_words(self._o, ring))
        if not words:
            return None
        if words * 8 != found.nbytes:
            raise AttachError("it is damaged: its samples have another size")
        to = ffi.cast("uint64_t *", ffi.from_buffer(found))
        if lib.sd_outside_sample(self._o, ring, back, to, number) != Code.OK:
            return None
        return found[0], int(number[0])

    def handler_of(self, strand: int) -> int:
        """The number of a strand's handler."""
        return int(lib.sd_outside_handler(self._o, strand))

    def name(self, key: int) -> str:
        """A symbol's name; empty: it has none yet."""
        size = ffi.new("uint32_t *")
        text = lib.sd_outside_name(self._o, key, size)
        return "" if text == ffi.NULL else bytes(ffi.buffer(text, size[0])).decode("utf-8", "replace")

    def accepted(self, first: int, n: int) -> npt.NDArray[np.uint64]:
        """Records that each of n strands from ``first`` on has accepted. There have to be so many strands."""
        found = np.zeros(n, np.uint64)
        lib.sd_outside_accepted(self._o, first, n, ffi.cast("uint64_t *", ffi.from_buffer(found)))
        return found

    def book(
        self, offset: int, of_levels: bool, symbol: int, place: int, patience_ns: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], int, int, bool]:
        """The best levels of a symbol's book, at most MAX_LEVELS: asks and bids, arrays of LEVEL, best first; how many
        publishers have one, the id of the one at ``place``; and whether they may be of several moments."""
        found = ffi.new("sd_outside_book *")
        code = lib.sd_outside_book_of(self._o, offset, of_levels, symbol, place, patience_ns, found)
        if code not in (Code.OK, Code.AGAIN):
            raise AttachError("it is damaged: the parts of a book do not fit together")
        sides = (np.frombuffer(bytes(ffi.buffer(side)), LEVEL) for side in (found.asks, found.bids))
        asks, bids = (side[:n] for side, n in zip(sides, (found.n_asks, found.n_bids), strict=True))
        return asks, bids, int(found.publishers), int(found.publisher), code == Code.AGAIN

    def look(
        self, strand: int, keys: npt.NDArray[np.uint32], patience_ns: int
    ) -> tuple[StrandInspection, npt.NDArray[np.uint8], bool]:
        """A strand's counts and the rows of its symbols ``keys``, shape (len(keys), row bytes), of one moment; and
        whether its owner held it for all of ``patience_ns``: then they may be of several."""
        keys = np.ascontiguousarray(keys, np.uint32)
        rows = np.zeros((len(keys), self._row_bytes), np.uint8)
        counts = ffi.new("sd_inspection *")
        code = lib.sd_outside_rows(
            self._o,
            strand,
            ffi.cast("uint32_t *", ffi.from_buffer(keys)),
            len(keys),
            ffi.cast("unsigned char *", ffi.from_buffer(rows)),
            counts,
            patience_ns,
        )
        if code not in (Code.OK, Code.AGAIN):
            raise AttachError(f"there is no strand {strand} with these symbols")
        return inspection(counts), rows, code == Code.AGAIN
