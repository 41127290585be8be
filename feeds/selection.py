"""Which ticks of a feed are wanted: by symbol and by time."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from strand.brief import written
from strand.errors import ConfigurationError
from strand.feeds.base import TickBatch
from strand.options import named_fields

__all__ = ["Selection"]


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Selection:
    """Names or globs (``"AA*"``) of symbols, empty for all of them, and a half-open span of receive times in ns.

    A reader that is given one passes over what is not in it as early as it can: what it yields is the same as if every
    tick had been made and then looked at with ``mask``.

    Args:
        symbols: A tuple of names and globs.
        start_ns: The first time kept.
        end_ns: The first one no longer kept, in ns since 1970-01-01 UTC; None: no bound.
    """

    symbols: tuple[str, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None

    def __post_init__(self) -> None:
        if self.start_ns is not None and self.end_ns is not None and self.start_ns >= self.end_ns:
            start, end = (str(np.datetime64(ns, "ns")) for ns in (self.start_ns, self.end_ns))
            raise ConfigurationError(f"start: {start} UTC is not before end: {end} UTC")

    def __repr__(self) -> str:
        return written(self)

    def __bool__(self) -> bool:
        return bool(self.symbols) or self.start_ns is not None or self.end_ns is not None

    def keeps(self, name: str) -> bool:
        """Whether a symbol of that name is wanted. Case counts."""
        return not self.symbols or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.symbols)

    def keys(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """By ``instrument_id``: whether it is wanted."""
        return np.fromiter((self.keeps(name) for name in names), dtype=np.bool_, count=len(names))

    def mask(self, ticks: TickBatch, keys: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which ticks are wanted, with ``keys`` as :meth:`keys` gives them."""
        kept: npt.NDArray[np.bool_] = keys[ticks["instrument_id"]]
        if self.start_ns is not None:
            kept &= ticks["ts_recv"] >= np.int64(self.start_ns)
        if self.end_ns is not None:
            kept &= ticks["ts_recv"] < np.int64(self.end_ns)
        return kept
