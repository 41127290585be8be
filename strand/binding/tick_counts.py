"""Ticks by symbol and by kind, and times that run backwards, counted in one pass (csrc/codec/count_by_symbol.h)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib

__all__ = ["Seen", "TickCounts", "count_by_symbol"]


class TickCounts(NamedTuple):
    """The ticks that a run has published: of kind order, trade and quote, and trades of size 0.

    ``behind``: those whose receive time is before that of an earlier tick (one below 0 is none). One of them was
    ``furthest_ns`` behind, the most of all: the tick at ``furthest_at``, counted from 0, of the symbol with the index
    ``furthest_symbol``.
    """

    orders: int
    trades: int
    quotes: int
    zero_sizes: int
    behind: int
    furthest_ns: int
    furthest_at: int
    furthest_symbol: int


class Seen:
    """Facts about a run's ticks so far."""

    def __init__(self) -> None:
        self.state = ffi.new("sd_seen *")

    @property
    def ticks(self) -> int:
        """Number of ticks."""
        return int(self.state.ticks)

    def counts(self) -> TickCounts:
        return TickCounts(**{name: int(getattr(self.state, name)) for name in TickCounts._fields})


def count_by_symbol(ticks: npt.NDArray[Any], counts: npt.NDArray[np.int64], seen: Seen | None = None) -> None:
    """Adds ``ticks``, of dtype ``strand.TICK``, to ``counts``, shape (n_symbols,) and contiguous, by their
    ``instrument_id``; those of symbols beyond it are left out. Adds all of them to ``seen``."""
    held = ffi.from_buffer("sd_tick[]", np.ascontiguousarray(ticks))
    state = ffi.NULL if seen is None else seen.state
    lib.sd_count_by_symbol(held, len(held), ffi.from_buffer("int64_t[]", counts), len(counts), state)
