"""Ticks a symbol, counted in one pass (csrc/sd_tally.h)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from strand._bindings import ffi, lib

__all__ = ["tally"]


def tally(ticks: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> None:
    """Adds ``ticks``, of dtype ``strand.TICK``, to ``counts``, shape (n_symbols,) and contiguous, by their
    ``instrument_id``; those of symbols beyond it are left out."""
    held = ffi.from_buffer("sd_tick[]", np.ascontiguousarray(ticks))
    lib.sd_tally(held, len(held), ffi.from_buffer("int64_t[]", counts), len(counts))
