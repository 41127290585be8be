"""The k-way merge of csrc/codec/merge/merge.h, one call a batch."""

from __future__ import annotations

import enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib

__all__ = ["UNMAPPED", "Merger", "Need", "ordered"]

#: In a table of ids: one that has no number yet.
UNMAPPED: Final[int] = lib.SD_MERGE_UNMAPPED

Ticks = npt.NDArray[np.void]


class Need(enum.Enum):
    """Input that a stopped merge needs before it can go on."""

    NOTHING = lib.SD_OK
    TICKS = lib.SD_AGAIN
    NUMBER = lib.SD_E_KEY


class Merger:
    """The state of one merge of ``sources`` sources (1 or more), none of which has any ticks yet.

    Arrays given to it are read where they lie and kept until the next one of that source.
    """

    def __init__(self, sources: int) -> None:
        self._sources: Any = ffi.new("sd_merge_source[]", sources)
        self._nodes: Any = ffi.new("sd_merge_node[]", sources)
        self._state: Any = ffi.new("sd_merge *", {"sources": self._sources, "nodes": self._nodes, "n_sources": sources})
        self._kept: list[Any] = [None] * sources
        self._ids: list[Any] = [None] * sources

    def give(self, source: int, ticks: Ticks) -> None:
        """The next ticks of a source whose earlier ones have all been taken: contiguous, of dtype ``strand.TICK``."""
        held = ffi.from_buffer("sd_tick[]", ticks)
        self._kept[source] = held
        self._sources[source].at = held
        self._sources[source].end = held + len(ticks)

    def end(self, source: int) -> None:
        """No more ticks of a source will come."""
        self._sources[source].ended = 1

    def number_by(self, source: int, table: npt.NDArray[np.uint32]) -> None:
        """Looks a source's ids up in ``table`` from now on; it is contiguous and may be changed in place."""
        held = ffi.from_buffer("uint32_t[]", table)
        self._ids[source] = held
        self._sources[source].ids = held
        self._sources[source].n_ids = len(table)

    def take(self, out: Ticks, sources: npt.NDArray[np.int32]) -> tuple[int, Need, int]:
        """Merges into ``out``, and the source of each tick into ``sources`` of the same length: the ticks made, what is
        needed to go on if it is not full, and of which source.

        Where nothing is needed and ``out`` is not full, all sources are at their end.
        """
        to = ffi.from_buffer("sd_tick[]", out, require_writable=True)
        code = lib.sd_merge_take(
            self._state, to, ffi.from_buffer("int32_t[]", sources, require_writable=True), len(out)
        )
        return self._state.made, Need(code), self._state.wanted

    def next_id(self, source: int) -> int:
        """The instrument_id of a source's next tick, as the source has it."""
        return int(self._sources[source].at.instrument_id)

    def next_time(self, source: int) -> int:
        """The receive time of a source's next tick."""
        return int(self._sources[source].at.ts_recv)


def ordered(ticks: Ticks, latest: int) -> tuple[int, int]:
    """Number of ticks before the first whose receive time runs back, and the latest receive time among them. ``latest``
    counts as the time of a tick before the first."""
    reached: Any = ffi.new("uint64_t *")
    count = lib.sd_merge_ordered(ffi.from_buffer("sd_tick[]", ticks), len(ticks), latest, reached)
    return count, reached[0]
