"""The k-way merge of csrc/codec/merge/merge.h, one call a batch."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib

if TYPE_CHECKING:
    from strand.binding.decoders import Decoder

#: A merge of more files does not go in blocks.
MOST_FILES: Final[int] = lib.SD_MOST_FILES

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


class MergedFiles:
    """Plain files whose merge goes in blocks (csrc/codec/files.h): those that are under way, in the merge's order.

    Args:
        files: Of each file its decoder, its descriptor, the merge's numbers by its own ids, and the time of its latest
            tick, 0 before the first.
        keys: How many numbers the merge has given.
    """

    def __init__(self, files: Sequence[tuple[Decoder, int, npt.NDArray[np.uint32], int]], keys: int) -> None:
        self._file: Any = ffi.new("sd_merged_file[]", len(files))
        self._kept = [(decoder, ffi.from_buffer("uint32_t[]", table)) for decoder, _, table, _ in files]
        for file, (decoder, ids), (_, fd, table, latest_ns) in zip(self._file, self._kept, files, strict=True):
            file.decoder, file.open_blocks, file.fd, file.base = decoder.state, decoder.open_blocks, fd, decoder.base
            file.ids, file.n_ids, file.latest = ids, len(table), latest_ns
        #: C's structure, for a feeder.
        self.state: Any = ffi.new("sd_merged_files *", {"file": self._file, "n": len(files), "keys": keys})

    @property
    def open_blocks(self) -> Any:
        """The first file's ``sd_open_blocks``."""
        return self._file[0].open_blocks

    def cuts(self, after_ns: int, skip_bytes: int) -> list[int] | None:
        """Of each file the byte at which it is to end so that the merge ends at one time: behind that of the latest
        tick that was read of any file, and so many bytes further in one of them. None: there is no such time nearby."""
        if not lib.sd_cut_files(self.state, after_ns, skip_bytes):
            return None
        return [file.base + file.cut for file in self._file]

    def passed(self, file: int) -> tuple[int, int]:
        """The number of a file's ticks that went in blocks, and the time of its latest tick."""
        return self._file[file].ticks, self._file[file].latest


def ordered(ticks: Ticks, latest: int) -> tuple[int, int]:
    """Number of ticks before the first whose receive time runs back, and the latest receive time among them. ``latest``
    counts as the time of a tick before the first."""
    reached: Any = ffi.new("uint64_t *")
    count = lib.sd_merge_ordered(ffi.from_buffer("sd_tick[]", ticks), len(ticks), latest, reached)
    return count, reached[0]
