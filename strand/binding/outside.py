"""A dispatcher of another process, seen through the file that its memory lies over (csrc/outside/attach.h)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.books import LEVEL
from strand.binding.counters import Counters, inspection
from strand.binding.engine_words import StrandInspection, histogram_floors_ns
from strand.binding.gate import Code, text_of
from strand.binding.memory import Memory, owned
from strand.errors import AttachError

__all__ = ["MAX_LEVELS", "NotRunningError", "OutsideView"]

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

    def histogram_floors_ns(self) -> npt.NDArray[np.float64]:
        """Floors of the histograms' buckets in ns, by the clock of the process that counts."""
        return histogram_floors_ns(float(lib.sd_outside_ns_per_count(self._o)))

    def handler_of(self, strand: int) -> int:
        """The number of a strand's handler."""
        return int(lib.sd_outside_handler(self._o, strand))

    def name(self, key: int) -> str:
        """A symbol's name; empty: it has none yet."""
        size = ffi.new("uint32_t *")
        text = lib.sd_outside_name(self._o, key, size)
        return "" if text == ffi.NULL else bytes(ffi.buffer(text, size[0])).decode("utf-8", "replace")

    def accepted(self, strand: int) -> int:
        """Records that a strand has accepted."""
        return int(lib.sd_outside_accepted(self._o, strand))

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
